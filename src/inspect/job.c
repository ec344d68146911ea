/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c - see job.h.
 */
#include "inspect/job.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct inspect_entry *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->context_id != y->context_id)
        return x->context_id < y->context_id ? -1 : 1;
    if (x->age != y->age)
        return x->age < y->age ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

void inspect_sort(struct inspect_entry *entries, uint32_t count)
{
    if (count != 0)
        qsort(entries, count, sizeof *entries, compare);
}

uint32_t inspect_whose(const struct inspect_job *job, uint32_t at,
                       const struct inspect_entry *entry)
{
    (void)at;
    for (uint32_t i = 0; entry->whom != 0 && i < job->count; i++)
        if (job->ranks[i].head.address == entry->whom)
            return i;
    return INSPECT_NOBODY;
}

bool inspect_accepts(const struct inspect_job *job, uint32_t to,
                     const struct inspect_entry *receive, uint32_t from,
                     const struct inspect_entry *message)
{
    (void)to;
    return receive->context_id == message->context_id &&
           ((receive->tag ^ message->tag) & ~receive->ignore) == 0 &&
           (receive->peer == INSPECT_NOBODY || receive->whom == job->ranks[from].head.address);
}

bool inspect_is_still(const struct inspect_rank *before, const struct inspect_rank *now)
{
    const struct inspect_state *a = &before->state, *b = &now->state;

    return before->head.ep == now->head.ep && before->head.open_ns == now->head.open_ns &&
           memcmp(&a->pulse, &b->pulse, sizeof a->pulse) == 0 &&
           strcmp(a->call, b->call) == 0 && a->caller == b->caller &&
           memcmp(a->counts, b->counts, sizeof a->counts - sizeof a->counts[0]) == 0 &&
           before->count == now->count;
}
