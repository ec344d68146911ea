/* SPDX-License-Identifier: BSD-3-Clause */
#include "see/graph.h"

#include <string.h>

#include "base/base.h"

static bool is_one_of(const char *const *names, const char *name)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

enum see_call see_call_of(const char *name)
{
    static const char *const finishes[] = {"MPI_Finalize", "mbx_close", NULL};
    static const char *const probes[] = {"MPI_Probe", "MPI_Mprobe", NULL};
    static const char *const blocks[] = {"MPI_Recv",
                                         "MPI_Send",
                                         "MPI_Ssend",
                                         "MPI_Rsend",
                                         "MPI_Mrecv",
                                         "MPI_Sendrecv",
                                         "MPI_Sendrecv_replace",
                                         "MPI_Wait",
                                         "MPI_Waitall",
                                         "MPI_Waitany",
                                         "MPI_Waitsome",
                                         NULL};
    static const char *const collectives[] = {"MPI_Barrier",
                                              "MPI_Bcast",
                                              "MPI_Gather",
                                              "MPI_Gatherv",
                                              "MPI_Scatter",
                                              "MPI_Scatterv",
                                              "MPI_Allgather",
                                              "MPI_Allgatherv",
                                              "MPI_Alltoall",
                                              "MPI_Alltoallv",
                                              "MPI_Alltoallw",
                                              "MPI_Allreduce",
                                              "MPI_Reduce",
                                              "MPI_Reduce_scatter",
                                              "MPI_Scan",
                                              "MPI_Exscan",
                                              "MPI_Comm_dup",
                                              "MPI_Comm_split",
                                              "MPI_Comm_create",
                                              "MPI_Comm_split_type",
                                              "MPI_Reduce_scatter_block",
                                              NULL};

    return is_one_of(blocks, name)        ? SEE_CALL_BLOCKS
           : is_one_of(collectives, name) ? SEE_CALL_COLLECTIVE
           : is_one_of(probes, name)      ? SEE_CALL_PROBES
           : is_one_of(finishes, name)    ? SEE_CALL_FINISHES
                                          : SEE_CALL_OTHER;
}

static bool is_collective(const struct see_rank *rank, const struct see_entry *entry)
{
    struct see_mpi mpi;

    return see_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore, &mpi) &&
           mpi.is_collective;
}

bool see_is_awaited(const struct see_rank *rank, const struct see_entry *entry)
{
    enum see_call call = see_call_of(rank->state.call);

    if (entry->flags & SEE_ENTRY_INTERNAL)
        return false;
    if (call == SEE_CALL_PROBES || entry->kind == SEE_PROBE)
        return call == SEE_CALL_PROBES && entry->kind == SEE_PROBE;
    if (call == SEE_CALL_COLLECTIVE && !is_collective(rank, entry))
        return false;
    return entry->kind != SEE_UNEXPECTED && entry->kind != SEE_NONE;
}

/* ---- the state of each rank by itself ---- */

static const struct see_rank *same_rank(const struct see_job *job, const struct see_rank *rank)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (job->ranks[i].head.pid == rank->head.pid && job->ranks[i].head.ep == rank->head.ep)
            return &job->ranks[i];
    return NULL;
}

/* Two endpoints may belong to one rank, of which each knows a part. */
static bool is_twice(const struct see_job *job, const struct see_rank *rank)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < job->count; i++)
        count += job->ranks[i].head.pid == rank->head.pid;
    return count != 1;
}

static enum see_node state_of(const struct see_job *before, const struct see_job *now,
                              const struct see_rank *rank)
{
    const struct see_rank *was = same_rank(before, rank);

    if (was == NULL || was->how != SEE_ASKED || rank->how != SEE_ASKED ||
        !see_is_still(was, rank) || is_twice(now, rank))
        return SEE_ALIVE;
    for (unsigned kind = 1, all = 0; kind < SEE_KINDS; kind++) {
        all += rank->state.counts[kind];
        if (all > rank->count)
            return SEE_ALIVE; /* not all of it was seen */
    }
    switch (see_call_of(rank->state.call)) {
    case SEE_CALL_OTHER:
        return SEE_ALIVE;
    case SEE_CALL_FINISHES:
        return SEE_OVER;
    case SEE_CALL_BLOCKS:
    case SEE_CALL_COLLECTIVE:
    case SEE_CALL_PROBES:
        break;
    }
    for (uint32_t i = 0; i < rank->count; i++)
        if (see_is_awaited(rank, &rank->entries[i]))
            return SEE_DEADLOCKED; /* until somebody is found who can end it */
    return SEE_ALIVE;              /* it waits for something else than messages */
}

/* ---- together ---- */

/* Has rank `from` a send that this receive of rank `to` takes? */
static bool has_send_for(const struct see_job *job, uint32_t from, uint32_t to,
                         const struct see_entry *receive)
{
    const struct see_rank *rank = &job->ranks[from];

    for (uint32_t i = 0; i < rank->count; i++)
        if ((rank->entries[i].kind == SEE_SEND || rank->entries[i].kind == SEE_SENDING) &&
            rank->entries[i].whom == job->ranks[to].head.address &&
            see_accepts(job, to, receive, from, &rank->entries[i]))
            return true;
    return false;
}

/* Has rank `to` a receive that takes this send of rank `from`, or is it taking it? */
static bool has_receive_for(const struct see_job *job, uint32_t to, uint32_t from,
                            const struct see_entry *send)
{
    const struct see_rank *rank = &job->ranks[to];

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct see_entry *entry = &rank->entries[i];

        if (entry->kind == SEE_POSTED && see_accepts(job, to, entry, from, send))
            return true;
        if (entry->kind == SEE_RECEIVING && entry->whom == job->ranks[from].head.address)
            return true;
    }
    return false;
}

static bool can_end_receive(const struct see_job *job, const enum see_node *nodes, uint32_t at,
                            const struct see_entry *receive)
{
    uint32_t whose = see_whose(job, at, receive);

    if (receive->peer != SEE_NOBODY)
        return whose == SEE_NOBODY || nodes[whose] == SEE_ALIVE ||
               has_send_for(job, whose, at, receive);
    if (job->size == SEE_NOBODY || job->count != job->size)
        return true; /* by a rank that was not seen */
    for (uint32_t i = 0; i < job->count; i++)
        if ((i != at && nodes[i] == SEE_ALIVE) || has_send_for(job, i, at, receive))
            return true;
    return false;
}

static bool can_end(const struct see_job *job, const enum see_node *nodes, uint32_t at,
                    const struct see_entry *entry)
{
    uint32_t whose;

    switch ((enum see_kind)entry->kind) {
    case SEE_POSTED:
    case SEE_PROBE:
        return can_end_receive(job, nodes, at, entry);
    case SEE_SEND:
        whose = see_whose(job, at, entry);
        return whose == SEE_NOBODY || nodes[whose] == SEE_ALIVE ||
               has_receive_for(job, whose, at, entry);
    case SEE_SENDING:
    case SEE_RECEIVING:
    case SEE_ACCESS:
        return true;
    case SEE_NONE:
    case SEE_UNEXPECTED:
    case SEE_KINDS:
        break;
    }
    return false;
}

static bool can_go_on(const struct see_job *job, const enum see_node *nodes, uint32_t at)
{
    const struct see_rank *rank = &job->ranks[at];

    for (uint32_t i = 0; i < rank->count; i++)
        if (see_is_awaited(rank, &rank->entries[i]) &&
            can_end(job, nodes, at, &rank->entries[i]))
            return true;
    return false;
}

void see_judge(const struct see_job *before, const struct see_job *now, enum see_node *nodes)
{
    bool is_changed;

    for (uint32_t i = 0; i < now->count; i++)
        nodes[i] = state_of(before, now, &now->ranks[i]);
    do {
        is_changed = false;
        for (uint32_t i = 0; i < now->count; i++)
            if (nodes[i] == SEE_DEADLOCKED && can_go_on(now, nodes, i)) {
                nodes[i] = SEE_ALIVE;
                is_changed = true;
            }
    } while (is_changed);
}
