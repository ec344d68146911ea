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

void inspect_mark_kept(struct inspect_rank *rank)
{
    for (uint32_t i = 0; i < rank->count; i++)
        if (rank->entries[i].kind == INSPECT_POSTED &&
            inspect_mpi_is_kept_posted(rank->head.mpi, rank->entries[i].context_id))
            rank->entries[i].flags |= INSPECT_ENTRY_INTERNAL;
}

/* The address of a rank of the job; 0: it is not seen. */
static uint64_t address_of(const struct inspect_job *job, uint32_t number)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (job->ranks[i].head.rank == number)
            return job->ranks[i].head.address;
    return 0;
}

/* The address of the rank with this number on a host, whose ranks are in the order of the job; 0: not all are seen. */
static uint64_t address_on_host(const struct inspect_job *job, uint64_t host, uint32_t number)
{
    if (job->count != job->size)
        return 0;
    for (uint32_t rank = 0; rank < job->size; rank++)
        for (uint32_t i = 0; i < job->count; i++)
            if (job->ranks[i].head.rank == rank && job->ranks[i].host == host && number-- == 0)
                return job->ranks[i].head.address;
    return 0;
}

static void resolve(const struct inspect_job *job, const struct inspect_rank *rank,
                    struct inspect_entry *entry)
{
    struct inspect_mpi mpi;

    if ((entry->kind != INSPECT_POSTED && entry->kind != INSPECT_PROBE) ||
        !inspect_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore, &mpi) ||
        !mpi.has_source || mpi.is_any_source || mpi.communicator != 0)
        return;
    if (mpi.part == NULL)
        entry->whom = address_of(job, mpi.source);
    else if (mpi.is_of_node)
        entry->whom = address_on_host(job, rank->host, mpi.source);
    if (mpi.part == NULL || entry->whom != 0)
        entry->peer = INSPECT_SOMEBODY;
}

void inspect_resolve(struct inspect_job *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        for (uint32_t k = 0; k < job->ranks[i].count; k++)
            resolve(job, &job->ranks[i], &job->ranks[i].entries[k]);
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

bool inspect_is_quiet(const struct inspect_rank *before, const struct inspect_rank *now)
{
    const struct inspect_state *a = &before->state, *b = &now->state;

    return before->head.ep == now->head.ep && before->head.open_ns == now->head.open_ns &&
           memcmp(&a->pulse, &b->pulse, sizeof a->pulse) == 0 &&
           memcmp(a->counts, b->counts, sizeof a->counts - sizeof a->counts[0]) == 0 &&
           before->count == now->count;
}

bool inspect_is_still(const struct inspect_rank *before, const struct inspect_rank *now)
{
    return inspect_is_quiet(before, now) && before->state.caller == now->state.caller &&
           strcmp(before->state.call, now->state.call) == 0;
}
