/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.c - see graph.h.
 */
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
                                         "MPI_Buffer_detach",
                                         NULL};
    static const char *const blocks_any[] = {"MPI_Waitany", "MPI_Waitsome", NULL};
    static const char *const library[] = {"mbx_wait", "mbx_wait_all", "mbx_wait_any",
                                          "mbx_wait_some", NULL};
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
                                              "MPI_Reduce_scatter_block",
                                              "MPI_Neighbor_allgather",
                                              "MPI_Neighbor_allgatherv",
                                              "MPI_Neighbor_alltoall",
                                              "MPI_Neighbor_alltoallv",
                                              "MPI_Neighbor_alltoallw",
                                              "MPI_Comm_dup",
                                              "MPI_Comm_dup_with_info",
                                              "MPI_Comm_split",
                                              "MPI_Comm_split_type",
                                              "MPI_Comm_create",
                                              "MPI_Comm_create_group",
                                              "MPI_Cart_create",
                                              "MPI_Cart_sub",
                                              "MPI_Graph_create",
                                              "MPI_Dist_graph_create",
                                              "MPI_Dist_graph_create_adjacent",
                                              "MPI_Intercomm_create",
                                              "MPI_Intercomm_merge",
                                              NULL};
    static const char *const windows[] = {"MPI_Win_create",
                                          "MPI_Win_create_dynamic",
                                          "MPI_Win_allocate",
                                          "MPI_Win_allocate_shared",
                                          "MPI_Win_fence",
                                          "MPI_Win_free",
                                          NULL};

    return is_one_of(blocks, name)        ? SEE_CALL_BLOCKS
           : is_one_of(blocks_any, name)  ? SEE_CALL_BLOCKS_ANY
           : is_one_of(library, name)     ? SEE_CALL_LIBRARY
           : is_one_of(collectives, name) ? SEE_CALL_COLLECTIVE
           : is_one_of(windows, name)     ? SEE_CALL_WINDOW
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

/* Does it belong to a collective that its rank is in?  One that it has begun and left, MPI_Ibarrier, has another tag. */
static bool is_of_this_call(const struct see_rank *rank, const struct see_entry *entry)
{
    struct see_mpi mpi;

    return see_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore, &mpi) &&
           mpi.operation != NULL && !mpi.is_nonblocking;
}

/* What may be waited for, whatever else is known. */
static bool is_pending(const struct see_rank *rank, const struct see_entry *entry,
                       enum see_call call)
{
    if (entry->flags & SEE_ENTRY_INTERNAL)
        return false;
    if (call == SEE_CALL_PROBES || entry->kind == SEE_PROBE)
        return call == SEE_CALL_PROBES && entry->kind == SEE_PROBE;
    if (call == SEE_CALL_COLLECTIVE && entry->needs == 0 && !is_collective(rank, entry))
        return false;
    if (call == SEE_CALL_WINDOW && entry->needs == 0 && !is_of_this_call(rank, entry))
        return false;
    return entry->kind != SEE_UNEXPECTED && entry->kind != SEE_PROBED &&
           entry->kind != SEE_NONE;
}

/* How many entries say that they are waited for; and the least of what they need. */
static uint32_t count_known(const struct see_rank *rank, enum see_call call, uint32_t *least)
{
    uint32_t count = 0;

    *least = UINT32_MAX;
    for (uint32_t i = 0; i < rank->count; i++) {
        const struct see_entry *entry = &rank->entries[i];

        if (entry->needs == 0 || !is_pending(rank, entry, call))
            continue;
        count++;
        if (entry->needs < *least)
            *least = entry->needs;
    }
    return count;
}

bool see_is_awaited(const struct see_rank *rank, const struct see_entry *entry)
{
    enum see_call call = see_call_of(rank->state.call);
    uint32_t least;

    if (!is_pending(rank, entry, call))
        return false;
    if (entry->needs != 0)
        return true;
    if (call == SEE_CALL_LIBRARY)
        return false;
    if (count_known(rank, call, &least) == 0)
        return true;
    return call == SEE_CALL_BLOCKS_ANY && is_collective(rank, entry);
}

bool see_needs_all(const struct see_rank *rank)
{
    enum see_call call = see_call_of(rank->state.call);
    uint32_t least, count = count_known(rank, call, &least);

    return call != SEE_CALL_BLOCKS_ANY && count != 0 && least >= count;
}

/* ---- the state of each rank by itself ---- */

/* Do both belong to one process?  Its number means something on its host alone. */
static bool is_of_process(const struct see_rank *a, const struct see_rank *b)
{
    return a->host == b->host && a->head.pid == b->head.pid;
}

const struct see_rank *see_same(const struct see_job *job, const struct see_rank *rank)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (is_of_process(&job->ranks[i], rank) && job->ranks[i].head.ep == rank->head.ep)
            return &job->ranks[i];
    return NULL;
}

/* Two endpoints may belong to one rank, of which each knows a part. */
static bool is_twice(const struct see_job *job, const struct see_rank *rank)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < job->count; i++)
        count += is_of_process(&job->ranks[i], rank);
    return count != 1;
}

/* Are all operations of a rank among its entries?  A page has room for some hundred entries.
 * Two kinds may be missing: unexpected messages, because no rank waits for them, and messages
 * that a matched probe has taken, because a send whose message is not shown counts as one that
 * can end. */
static bool has_all(const struct see_rank *rank)
{
    uint32_t seen[SEE_KINDS] = {0};

    for (uint32_t i = 0; i < rank->count; i++)
        if (rank->entries[i].kind < SEE_KINDS)
            seen[rank->entries[i].kind]++;
    for (unsigned kind = 1; kind < SEE_KINDS; kind++)
        if (kind != SEE_UNEXPECTED && kind != SEE_PROBED &&
            seen[kind] < rank->state.counts[kind])
            return false;
    return true;
}

/* Has it answered in both looks, and done nothing between them? */
static bool has_stayed(const struct see_rank *was, const struct see_rank *rank)
{
    return was != NULL && was->how == SEE_ASKED && rank->how == SEE_ASKED &&
           see_is_still(was, rank);
}

/* At most so many messages have arrived at a rank and are not counted as sent, because their sends are not complete.  Of what
 * is not among its entries nothing is known. */
static uint64_t count_incomplete(const struct see_rank *rank)
{
    static const uint8_t kinds[] = {SEE_UNEXPECTED, SEE_PROBED, SEE_RECEIVING};
    uint64_t seen = 0, here = 0, incomplete = 0;

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct see_entry *entry = &rank->entries[i];
        bool has_come = entry->kind == SEE_UNEXPECTED || entry->kind == SEE_PROBED ||
                        entry->kind == SEE_RECEIVING;

        seen += has_come;
        incomplete +=
            has_come && (entry->kind == SEE_RECEIVING || (entry->flags & SEE_ENTRY_RTS) != 0);
    }
    for (size_t i = 0; i < sizeof kinds; i++)
        here += rank->state.counts[kinds[i]];
    return incomplete + (here > seen ? here - seen : 0);
}

uint64_t see_under_way(const struct see_job *before, const struct see_job *now)
{
    uint64_t sent = 0, arrived = 0;
    bool is_spread = false;

    if (now->count != now->size)
        return 0;
    for (uint32_t i = 0; i < now->count; i++) {
        const struct see_rank *rank = &now->ranks[i], *was = see_same(before, rank);

        if (!has_stayed(was, rank))
            return 0;
        sent += rank->state.pulse.sent + count_incomplete(rank);
        arrived += rank->state.pulse.arrived;
        is_spread |= rank->host != now->ranks[0].host;
    }
    return is_spread && sent > arrived ? sent - arrived : 0;
}

enum see_apart see_apart(const struct see_job *before, const struct see_job *now,
                         const struct see_rank *rank)
{
    const struct see_rank *was = see_same(before, rank);

    if (!has_stayed(was, rank))
        return was == NULL                                       ? SEE_APART_NEW
               : was->how != SEE_ASKED || rank->how != SEE_ASKED ? SEE_APART_SILENT
                                                                 : SEE_APART_MOVED;
    if (is_twice(now, rank))
        return SEE_APART_TWICE;
    if (rank->state.flags & SEE_STATE_THREADS)
        return SEE_APART_THREADS;
    if (!has_all(rank))
        return SEE_APART_MORE;
    switch (see_call_of(rank->state.call)) {
    case SEE_CALL_OTHER:
        return SEE_APART_CALL;
    case SEE_CALL_FINISHES:
        return SEE_APART_NOT;
    case SEE_CALL_BLOCKS:
    case SEE_CALL_BLOCKS_ANY:
    case SEE_CALL_LIBRARY:
    case SEE_CALL_COLLECTIVE:
    case SEE_CALL_WINDOW:
    case SEE_CALL_PROBES:
        break;
    }
    for (uint32_t i = 0; i < rank->count; i++)
        if (see_is_awaited(rank, &rank->entries[i]))
            return SEE_APART_NOT;
    return SEE_APART_NOTHING; /* it waits for something else than messages */
}

static enum see_node state_of(const struct see_job *before, const struct see_job *now,
                              const struct see_rank *rank)
{
    if (see_apart(before, now, rank) != SEE_APART_NOT)
        return SEE_ALIVE;
    return see_call_of(rank->state.call) == SEE_CALL_FINISHES
               ? SEE_OVER
               : SEE_DEADLOCKED; /* until somebody is found who can end it */
}

/* ---- together ---- */

bool see_is_probed(const struct see_job *job, uint32_t to, uint32_t from,
                   const struct see_entry *send)
{
    int64_t left = 0;

    for (uint32_t i = 0; i < job->ranks[to].count; i++) {
        const struct see_entry *entry = &job->ranks[to].entries[i];

        left += entry->kind == SEE_PROBED && entry->whom == job->ranks[from].head.address &&
                entry->context_id == send->context_id && entry->tag == send->tag;
    }
    for (uint32_t i = 0; left > 0 && i < job->ranks[from].count; i++) {
        const struct see_entry *entry = &job->ranks[from].entries[i];

        left -= entry != send && entry->kind == SEE_SEND && entry->whom == send->whom &&
                entry->context_id == send->context_id && entry->tag == send->tag;
    }
    return left > 0;
}

/* Has rank `from` a send that this receive of rank `to` takes? */
static bool has_send_for(const struct see_job *job, uint32_t from, uint32_t to,
                         const struct see_entry *receive)
{
    const struct see_rank *rank = &job->ranks[from];

    for (uint32_t i = 0; i < rank->count; i++)
        if ((rank->entries[i].kind == SEE_SEND || rank->entries[i].kind == SEE_SENDING) &&
            rank->entries[i].whom == job->ranks[to].head.address &&
            see_accepts(job, to, receive, from, &rank->entries[i]) &&
            !see_is_probed(job, to, from, &rank->entries[i]))
            return true;
    return false;
}

/* Has rank `to` a receive that takes this send of rank `from`, or is it taking it? */
static bool has_receive_for(const struct see_job *job, uint32_t to, uint32_t from,
                            const struct see_entry *send)
{
    const struct see_rank *rank = &job->ranks[to];
    bool is_probed = see_is_probed(job, to, from, send);

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct see_entry *entry = &rank->entries[i];

        if (entry->kind == SEE_POSTED && !is_probed && see_accepts(job, to, entry, from, send))
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

bool see_can_end(const struct see_job *job, const enum see_node *nodes, uint32_t at,
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
    case SEE_PROBED:
    case SEE_KINDS:
        break;
    }
    return false;
}

static bool can_go_on(const struct see_job *job, const enum see_node *nodes, uint32_t at)
{
    const struct see_rank *rank = &job->ranks[at];
    bool needs_all = see_needs_all(rank);

    for (uint32_t i = 0; i < rank->count; i++)
        if (see_is_awaited(rank, &rank->entries[i]) &&
            see_can_end(job, nodes, at, &rank->entries[i]) != needs_all)
            return !needs_all;
    return needs_all;
}

void see_judge(const struct see_job *before, const struct see_job *now, enum see_node *nodes)
{
    bool is_changed, is_under_way = see_under_way(before, now) != 0;

    for (uint32_t i = 0; i < now->count; i++) {
        nodes[i] = state_of(before, now, &now->ranks[i]);
        if (is_under_way && nodes[i] == SEE_DEADLOCKED)
            nodes[i] = SEE_ALIVE;
    }
    do {
        is_changed = false;
        for (uint32_t i = 0; i < now->count; i++)
            if (nodes[i] == SEE_DEADLOCKED && can_go_on(now, nodes, i)) {
                nodes[i] = SEE_ALIVE;
                is_changed = true;
            }
    } while (is_changed);
}
