/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job.c - see job.h.
 */
#include "see/job.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct see_entry *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->context_id != y->context_id)
        return x->context_id < y->context_id ? -1 : 1;
    if (x->age != y->age)
        return x->age < y->age ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

void see_sort(struct see_entry *entries, uint32_t count)
{
    if (count != 0)
        qsort(entries, count, sizeof *entries, compare);
}

uint32_t see_whose(const struct see_job *job, uint32_t at, const struct see_entry *entry)
{
    (void)at;
    for (uint32_t i = 0; entry->whom != 0 && i < job->count; i++)
        if (job->ranks[i].head.address == entry->whom)
            return i;
    return SEE_NOBODY;
}

bool see_accepts(const struct see_job *job, uint32_t to, const struct see_entry *receive,
                 uint32_t from, const struct see_entry *message)
{
    (void)to;
    return receive->context_id == message->context_id &&
           ((receive->tag ^ message->tag) & ~receive->ignore) == 0 &&
           (receive->peer == SEE_NOBODY || receive->whom == job->ranks[from].head.address);
}

bool see_is_still(const struct see_rank *before, const struct see_rank *now)
{
    const struct see_state *a = &before->state, *b = &now->state;

    return before->head.ep == now->head.ep && before->head.open_ns == now->head.open_ns &&
           memcmp(&a->pulse, &b->pulse, sizeof a->pulse) == 0 &&
           strcmp(a->call, b->call) == 0 && a->caller == b->caller &&
           memcmp(a->counts, b->counts, sizeof a->counts - sizeof a->counts[0]) == 0 &&
           before->count == now->count;
}
