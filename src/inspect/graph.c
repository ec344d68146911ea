/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.c - see graph.h.
 */
#include "inspect/graph.h"

#include <assert.h>
#include <string.h>

#include "base/base.h"

static bool is_one_of(const char *const *names, const char *name)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

enum inspect_call inspect_call_of(const char *name)
{
    static const char *const finishes[] = {"MPI_Finalize", "mbx_close", NULL};
    static const char *const probes[] = {"MPI_Probe", "MPI_Mprobe", NULL};
    static const char *const polls[] = {"MPI_Test",
                                        "MPI_Testall",
                                        "MPI_Testany",
                                        "MPI_Testsome",
                                        "MPI_Iprobe",
                                        "MPI_Improbe",
                                        "MPI_Request_get_status",
                                        "MPI_Win_test",
                                        NULL};
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

    return is_one_of(blocks, name)        ? INSPECT_CALL_BLOCKS
           : is_one_of(blocks_any, name)  ? INSPECT_CALL_BLOCKS_ANY
           : is_one_of(library, name)     ? INSPECT_CALL_LIBRARY
           : is_one_of(collectives, name) ? INSPECT_CALL_COLLECTIVE
           : is_one_of(windows, name)     ? INSPECT_CALL_WINDOW
           : is_one_of(probes, name)      ? INSPECT_CALL_PROBES
           : is_one_of(polls, name)       ? INSPECT_CALL_POLLS
           : is_one_of(finishes, name)    ? INSPECT_CALL_FINISHES
                                          : INSPECT_CALL_OTHER;
}

static bool is_collective(const struct inspect_rank *rank, const struct inspect_entry *entry)
{
    struct inspect_mpi mpi;

    return inspect_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore,
                              &mpi) &&
           mpi.is_collective;
}

/* Does the entry belong to the collective that its rank is in?  A nonblocking one, such as an
 * earlier MPI_Ibarrier, has another tag. */
static bool is_of_this_call(const struct inspect_rank *rank, const struct inspect_entry *entry)
{
    struct inspect_mpi mpi;

    return inspect_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore,
                              &mpi) &&
           mpi.operation != NULL && !mpi.is_nonblocking;
}

/* May the call wait for this entry, if nothing else is known? */
static bool is_pending(const struct inspect_rank *rank, const struct inspect_entry *entry,
                       enum inspect_call call)
{
    if (entry->flags & INSPECT_ENTRY_INTERNAL || inspect_waiter(entry) != 0)
        return false;
    if (entry->kind == INSPECT_PROBE)
        return call == INSPECT_CALL_PROBES || call == INSPECT_CALL_POLLS;
    if (call == INSPECT_CALL_PROBES)
        return false;
    if (call == INSPECT_CALL_COLLECTIVE && entry->needs == 0 && !is_collective(rank, entry))
        return false;
    if (call == INSPECT_CALL_WINDOW && entry->needs == 0 && !is_of_this_call(rank, entry))
        return false;
    return entry->kind != INSPECT_UNEXPECTED && entry->kind != INSPECT_PROBED &&
           entry->kind != INSPECT_NONE;
}

/* The number of entries that are marked as awaited (`needs`), and the least value of
 * `needs`. */
static uint32_t count_known(const struct inspect_rank *rank, enum inspect_call call,
                            uint32_t *least)
{
    uint32_t count = 0;

    *least = UINT32_MAX;
    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *entry = &rank->entries[i];

        if (entry->needs == 0 || !is_pending(rank, entry, call))
            continue;
        count++;
        if (entry->needs < *least)
            *least = entry->needs;
    }
    return count;
}

/* Does this MPI mark every message for which a call waits?  The component does in MPI_Wait and its
 * like: without a mark, the call waits for a nonblocking collective, or for something that is no
 * message of the program: a file, a window, a generalized request. */
static bool has_marked_all(const struct inspect_rank *rank)
{
    return strncmp(rank->state.call, "MPI_Wait", sizeof "MPI_Wait" - 1) == 0 &&
           strncmp(rank->head.mpi, "component ", sizeof "component " - 1) == 0;
}

bool inspect_is_awaited(const struct inspect_rank *rank, const struct inspect_entry *entry)
{
    enum inspect_call call = inspect_call_of(rank->state.call);
    uint32_t least;

    if (!is_pending(rank, entry, call))
        return false;
    if (entry->needs != 0)
        return true;
    if (call == INSPECT_CALL_LIBRARY)
        return false;
    if (count_known(rank, call, &least) == 0)
        return !has_marked_all(rank) || is_collective(rank, entry);
    return call == INSPECT_CALL_BLOCKS_ANY && is_collective(rank, entry);
}

bool inspect_needs_all(const struct inspect_rank *rank)
{
    enum inspect_call call = inspect_call_of(rank->state.call);
    uint32_t least, count = count_known(rank, call, &least);

    return call != INSPECT_CALL_BLOCKS_ANY && count != 0 && least >= count;
}

/* ---- the state of each rank by itself ---- */

/* Do both belong to one process?  A process id has a meaning only on its host. */
static bool is_of_process(const struct inspect_rank *a, const struct inspect_rank *b)
{
    return a->host == b->host && a->head.pid == b->head.pid;
}

const struct inspect_rank *inspect_same(const struct inspect_job *job,
                                        const struct inspect_rank *rank)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (is_of_process(&job->ranks[i], rank) && job->ranks[i].head.ep == rank->head.ep)
            return &job->ranks[i];
    return NULL;
}

/* Does the process have several endpoints, each of which knows only a part of the rank? */
static bool is_twice(const struct inspect_job *job, const struct inspect_rank *rank)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < job->count; i++)
        count += is_of_process(&job->ranks[i], rank);
    return count != 1;
}

/* Are all operations of a rank among its entries?  A page has space for some hundred entries.
 * Two kinds may be missing: unexpected messages, because no rank waits for them, and messages
 * that a matched probe has taken, because a send whose message is not shown counts as one that
 * can end. */
static bool has_all(const struct inspect_rank *rank)
{
    uint32_t seen[INSPECT_KINDS] = {0};

    for (uint32_t i = 0; i < rank->count; i++)
        if (rank->entries[i].kind < INSPECT_KINDS)
            seen[rank->entries[i].kind]++;
    for (unsigned kind = 1; kind < INSPECT_KINDS; kind++)
        if (kind != INSPECT_UNEXPECTED && kind != INSPECT_PROBED &&
            seen[kind] < rank->state.counts[kind])
            return false;
    return true;
}

bool inspect_polls(const struct inspect_rank *rank)
{
    return inspect_call_of(rank->state.call) == INSPECT_CALL_POLLS;
}

/* Has it answered in both looks, and done nothing between them, except for polls? */
static bool has_stayed(const struct inspect_rank *was, const struct inspect_rank *rank)
{
    return was != NULL && was->how == INSPECT_ASKED && rank->how == INSPECT_ASKED &&
           (inspect_is_still(was, rank) ||
            (inspect_polls(was) && inspect_polls(rank) && inspect_is_quiet(was, rank)));
}

/* An upper bound of the messages that have arrived at a rank and are not counted as sent,
 * because their sends are not complete.  Entries that are not shown may all be such
 * messages. */
static uint64_t count_incomplete(const struct inspect_rank *rank)
{
    static const uint8_t kinds[] = {INSPECT_UNEXPECTED, INSPECT_PROBED, INSPECT_RECEIVING};
    uint64_t seen = 0, here = 0, incomplete = 0;

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *entry = &rank->entries[i];
        bool has_come = entry->kind == INSPECT_UNEXPECTED || entry->kind == INSPECT_PROBED ||
                        entry->kind == INSPECT_RECEIVING;

        seen += has_come;
        incomplete += has_come && (entry->kind == INSPECT_RECEIVING ||
                                   (entry->flags & INSPECT_ENTRY_RTS) != 0);
    }
    for (size_t i = 0; i < sizeof kinds; i++)
        here += rank->state.counts[kinds[i]];
    return incomplete + (here > seen ? here - seen : 0);
}

uint64_t inspect_under_way(const struct inspect_job *before, const struct inspect_job *now)
{
    uint64_t sent = 0, arrived = 0;
    bool is_spread = false;

    if (now->count != now->size)
        return 0;
    for (uint32_t i = 0; i < now->count; i++) {
        const struct inspect_rank *rank = &now->ranks[i], *was = inspect_same(before, rank);

        if (!has_stayed(was, rank))
            return 0;
        sent += rank->state.pulse.sent + count_incomplete(rank);
        arrived += rank->state.pulse.arrived;
        is_spread |= rank->host != now->ranks[0].host;
    }
    return is_spread && sent > arrived ? sent - arrived : 0;
}

/* ---- the threads of a rank ---- */

static bool is_same_task(const struct inspect_task *a, const struct inspect_task *b)
{
    return a->id == b->id && a->started == b->started;
}

/* This thread of a rank in another look, where it is likely at the same place; or NULL. */
static const struct inspect_task *same_task(const struct inspect_rank *other,
                                            const struct inspect_rank *rank,
                                            const struct inspect_task *task)
{
    size_t place = (size_t)(task - rank->tasks);

    if (place < other->task_count && is_same_task(&other->tasks[place], task))
        return &other->tasks[place];
    for (uint32_t i = 0; i < other->task_count; i++)
        if (is_same_task(&other->tasks[i], task))
            return &other->tasks[i];
    return NULL;
}

static bool is_listed(const struct inspect_rank *rank, uint32_t id)
{
    for (uint32_t i = 0; i < rank->state.callers && i < INSPECT_CALLERS; i++)
        if (rank->state.caller_ids[i] == id)
            return true;
    return false;
}

/* May the thread with this number have communicated? */
static bool has_called(const struct inspect_rank *rank, uint32_t id)
{
    return is_listed(rank, id) || rank->state.callers > INSPECT_CALLERS;
}

/* Has a thread slept from the first look to the second, in this way? */
static bool has_slept(const struct inspect_rank *was, const struct inspect_rank *rank,
                      const struct inspect_task *task, enum inspect_task_kind kind)
{
    const struct inspect_task *before = same_task(was, rank, task);

    return before != NULL && before->kind == kind && task->kind == kind &&
           before->word == task->word && before->ran_ns == task->ran_ns;
}

uint32_t inspect_waiting_thread(const struct inspect_rank *rank,
                                const struct inspect_entry *entry)
{
    uint32_t waiter = inspect_waiter(entry);

    return waiter != 0 && waiter <= rank->state.callers && waiter <= INSPECT_CALLERS
               ? rank->state.caller_ids[waiter - 1]
               : 0;
}

/* Is it known of an operation that this thread waits for it?  Only a few threads are listed, so
 * many threads with many operations do not take long. */
static bool has_operation(const struct inspect_rank *rank, const struct inspect_task *task)
{
    if (!is_listed(rank, task->id))
        return false;
    for (uint32_t i = 0; i < rank->count; i++)
        if (inspect_waiting_thread(rank, &rank->entries[i]) == task->id)
            return true;
    return false;
}

/* Is this thread in a wait of MPI, like the one that has answered? */
static bool is_in_wait(const struct inspect_rank *was, const struct inspect_rank *rank,
                       const struct inspect_task *task)
{
    return has_slept(was, rank, task, INSPECT_TASK_IN_MPI) && has_operation(was, task) &&
           has_operation(rank, task);
}

/* At both looks? */
static bool is_of_library(const struct inspect_rank *was, const struct inspect_rank *rank,
                          const struct inspect_task *task)
{
    const struct inspect_task *before = same_task(was, rank, task);

    return task->kind == INSPECT_TASK_OF_LIBRARY && before != NULL &&
           before->kind == INSPECT_TASK_OF_LIBRARY;
}

/* Does no thread of the program go on by itself?  Then nothing wakes a sleeping one. */
static bool is_quiet(const struct inspect_rank *was, const struct inspect_rank *rank)
{
    for (uint32_t i = 0; i < rank->task_count; i++) {
        const struct inspect_task *task = &rank->tasks[i];

        if (task->id != rank->state.answerer &&
            !has_slept(was, rank, task, INSPECT_TASK_SLEEPS) && !is_in_wait(was, rank, task) &&
            (!is_of_library(was, rank, task) || has_called(rank, task->id)))
            return false;
    }
    return true;
}

static enum inspect_thread thread_of(const struct inspect_rank *was,
                                     const struct inspect_rank *rank,
                                     const struct inspect_task *task, bool is_rank_quiet)
{
    if (task->id == rank->state.answerer || is_in_wait(was, rank, task) ||
        (is_rank_quiet && has_slept(was, rank, task, INSPECT_TASK_SLEEPS)))
        return INSPECT_THREAD_WAITS;
    if (has_called(rank, task->id))
        return INSPECT_THREAD_ACTIVE;
    return is_of_library(was, rank, task) ? INSPECT_THREAD_WAITS : INSPECT_THREAD_FREE;
}

void inspect_threads(const struct inspect_rank *was, const struct inspect_rank *rank,
                     enum inspect_thread kinds[INSPECT_TASKS])
{
    bool is_rank_quiet = is_quiet(was, rank);

    assert(rank->task_count <= INSPECT_TASKS);
    for (uint32_t i = 0; i < rank->task_count; i++)
        kinds[i] = thread_of(was, rank, &rank->tasks[i], is_rank_quiet);
}

static bool has_thread(const enum inspect_thread *kinds, uint32_t count,
                       enum inspect_thread kind)
{
    for (uint32_t i = 0; i < count; i++)
        if (kinds[i] == kind)
            return true;
    return false;
}

const struct inspect_task *inspect_new_task(const struct inspect_rank *other,
                                            const struct inspect_rank *rank)
{
    for (uint32_t i = 0; i < rank->task_count; i++)
        if (same_task(other, rank, &rank->tasks[i]) == NULL)
            return &rank->tasks[i];
    return NULL;
}

/* The reason why the threads of a rank that has stayed do not let it be judged. */
static enum inspect_apart threads_apart(const struct inspect_rank *was,
                                        const struct inspect_rank *rank,
                                        enum inspect_assume assume)
{
    enum inspect_thread kinds[INSPECT_TASKS];

    if (!(rank->state.flags & INSPECT_STATE_THREADS))
        return INSPECT_APART_NOT;
    if (rank->state.callers == 0)
        return INSPECT_APART_THREADS;
    if (rank->task_count == 0 || was->task_count == 0)
        return INSPECT_APART_TASKS;
    if (was->state.answerer != rank->state.answerer || !has_called(was, was->state.answerer))
        return INSPECT_APART_SEVERAL;
    if (inspect_new_task(was, rank) != NULL || inspect_new_task(rank, was) != NULL)
        return INSPECT_APART_BEGUN;
    inspect_threads(was, rank, kinds);
    if (has_thread(kinds, rank->task_count, INSPECT_THREAD_ACTIVE))
        return INSPECT_APART_ACTIVE;
    if (assume == INSPECT_CERTAIN && has_thread(kinds, rank->task_count, INSPECT_THREAD_FREE))
        return INSPECT_APART_FREE;
    return INSPECT_APART_NOT;
}

enum inspect_apart inspect_apart(const struct inspect_job *before,
                                 const struct inspect_job *now, const struct inspect_rank *rank,
                                 enum inspect_assume assume)
{
    const struct inspect_rank *was = inspect_same(before, rank);
    enum inspect_apart apart;

    if (!has_stayed(was, rank))
        return was == NULL                                               ? INSPECT_APART_NEW
               : was->how != INSPECT_ASKED || rank->how != INSPECT_ASKED ? INSPECT_APART_SILENT
                                                                         : INSPECT_APART_MOVED;
    if (is_twice(now, rank))
        return INSPECT_APART_TWICE;
    apart = threads_apart(was, rank, assume);
    if (apart == INSPECT_APART_FREE &&
        inspect_call_of(rank->state.call) == INSPECT_CALL_FINISHES)
        apart = INSPECT_APART_NOT;
    if (apart != INSPECT_APART_NOT)
        return apart;
    if (!has_all(rank))
        return INSPECT_APART_MORE;
    switch (inspect_call_of(rank->state.call)) {
    case INSPECT_CALL_OTHER:
        return INSPECT_APART_CALL;
    case INSPECT_CALL_POLLS:
        if (assume != INSPECT_IF_POLLS)
            return INSPECT_APART_POLLS;
        break;
    case INSPECT_CALL_FINISHES:
        return INSPECT_APART_NOT;
    case INSPECT_CALL_BLOCKS:
    case INSPECT_CALL_BLOCKS_ANY:
    case INSPECT_CALL_LIBRARY:
    case INSPECT_CALL_COLLECTIVE:
    case INSPECT_CALL_WINDOW:
    case INSPECT_CALL_PROBES:
        break;
    }
    for (uint32_t i = 0; i < rank->count; i++)
        if (inspect_is_awaited(rank, &rank->entries[i]))
            return INSPECT_APART_NOT;
    return INSPECT_APART_NOTHING; /* it waits for something other than messages */
}

static enum inspect_node graph_state_of(const struct inspect_job *before,
                                        const struct inspect_job *now,
                                        const struct inspect_rank *rank,
                                        enum inspect_assume assume)
{
    if (inspect_apart(before, now, rank, assume) != INSPECT_APART_NOT)
        return INSPECT_ALIVE;
    return inspect_call_of(rank->state.call) == INSPECT_CALL_FINISHES
               ? INSPECT_OVER
               : INSPECT_DEADLOCKED; /* until a rank is found that can end it */
}

/* ---- together ---- */

bool inspect_is_probed(const struct inspect_job *job, uint32_t to, uint32_t from,
                       const struct inspect_entry *send)
{
    int64_t left = 0;

    for (uint32_t i = 0; i < job->ranks[to].count; i++) {
        const struct inspect_entry *entry = &job->ranks[to].entries[i];

        left += entry->kind == INSPECT_PROBED && entry->whom == job->ranks[from].head.address &&
                entry->context_id == send->context_id && entry->tag == send->tag;
    }
    for (uint32_t i = 0; left > 0 && i < job->ranks[from].count; i++) {
        const struct inspect_entry *entry = &job->ranks[from].entries[i];

        left -= entry != send && entry->kind == INSPECT_SEND && entry->whom == send->whom &&
                entry->context_id == send->context_id && entry->tag == send->tag;
    }
    return left > 0;
}

/* Does rank `from` have a send that matches this receive of rank `to`? */
static bool has_send_for(const struct inspect_job *job, uint32_t from, uint32_t to,
                         const struct inspect_entry *receive)
{
    const struct inspect_rank *rank = &job->ranks[from];

    for (uint32_t i = 0; i < rank->count; i++)
        if ((rank->entries[i].kind == INSPECT_SEND ||
             rank->entries[i].kind == INSPECT_SENDING) &&
            rank->entries[i].whom == job->ranks[to].head.address &&
            inspect_accepts(job, to, receive, from, &rank->entries[i]) &&
            !inspect_is_probed(job, to, from, &rank->entries[i]))
            return true;
    return false;
}

/* Does rank `to` have a receive that matches this send of rank `from`, or is it receiving
 * it? */
static bool has_receive_for(const struct inspect_job *job, uint32_t to, uint32_t from,
                            const struct inspect_entry *send)
{
    const struct inspect_rank *rank = &job->ranks[to];
    bool is_probed = inspect_is_probed(job, to, from, send);

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *entry = &rank->entries[i];

        if (entry->kind == INSPECT_POSTED && !is_probed &&
            inspect_accepts(job, to, entry, from, send))
            return true;
        if (entry->kind == INSPECT_RECEIVING && entry->whom == job->ranks[from].head.address)
            return true;
    }
    return false;
}

/* May a process of another job send in this context?  MPI_COMM_WORLD and MPI_COMM_SELF, the first two, have no
 * such process. */
static bool has_others(const struct inspect_job *job, uint32_t context_id)
{
    for (uint32_t i = 0; context_id > 1 && i < job->count; i++)
        if (job->ranks[i].state.flags & INSPECT_STATE_OTHERS)
            return true;
    return false;
}

static bool can_end_receive(const struct inspect_job *job, const enum inspect_node *nodes,
                            uint32_t at, const struct inspect_entry *receive)
{
    uint32_t whose = inspect_whose(job, at, receive);

    if (receive->peer != INSPECT_NOBODY)
        return whose == INSPECT_NOBODY || nodes[whose] == INSPECT_ALIVE ||
               has_send_for(job, whose, at, receive);
    if (job->size == INSPECT_NOBODY || job->count != job->size)
        return true; /* by a rank that was not seen */
    if (has_others(job, receive->context_id))
        return true;
    for (uint32_t i = 0; i < job->count; i++)
        if ((i != at && nodes[i] == INSPECT_ALIVE) || has_send_for(job, i, at, receive))
            return true;
    return false;
}

bool inspect_can_end(const struct inspect_job *job, const enum inspect_node *nodes, uint32_t at,
                     const struct inspect_entry *entry)
{
    uint32_t whose;

    switch ((enum inspect_kind)entry->kind) {
    case INSPECT_POSTED:
    case INSPECT_PROBE:
        return can_end_receive(job, nodes, at, entry);
    case INSPECT_SEND:
        whose = inspect_whose(job, at, entry);
        return whose == INSPECT_NOBODY || nodes[whose] == INSPECT_ALIVE ||
               has_receive_for(job, whose, at, entry);
    case INSPECT_SENDING:
    case INSPECT_RECEIVING:
    case INSPECT_ACCESS:
        return true;
    case INSPECT_NONE:
    case INSPECT_UNEXPECTED:
    case INSPECT_PROBED:
    case INSPECT_KINDS:
        break;
    }
    return false;
}

/* Does the call wait for a request, which may be one of a window that an active message ends?  The receives for these are no
 * operations of the program. */
static bool may_be_answered(const struct inspect_job *job, const enum inspect_node *nodes,
                            uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];

    for (uint32_t i = 0; i < rank->count; i++)
        if (rank->entries[i].kind == INSPECT_POSTED &&
            rank->entries[i].flags & INSPECT_ENTRY_INTERNAL)
            return strncmp(rank->state.call, "MPI_Wait", 8) == 0 &&
                   can_end_receive(job, nodes, at, &rank->entries[i]);
    return false;
}

/* Can another thread of the rank, which waits in MPI as well, go on?  Whether it needs all of its
 * operations is not known. */
static bool can_another_go_on(const struct inspect_job *job, const enum inspect_node *nodes,
                              uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];

    for (uint32_t i = 0; i < rank->count; i++)
        if (inspect_waiter(&rank->entries[i]) != 0 &&
            inspect_can_end(job, nodes, at, &rank->entries[i]))
            return true;
    return false;
}

static bool can_go_on(const struct inspect_job *job, const enum inspect_node *nodes,
                      uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];
    bool needs_all = inspect_needs_all(rank);

    if (may_be_answered(job, nodes, at) || can_another_go_on(job, nodes, at))
        return true;
    for (uint32_t i = 0; i < rank->count; i++)
        if (inspect_is_awaited(rank, &rank->entries[i]) &&
            inspect_can_end(job, nodes, at, &rank->entries[i]) != needs_all)
            return !needs_all;
    return needs_all;
}

void inspect_judge(const struct inspect_job *before, const struct inspect_job *now,
                   enum inspect_assume assume, enum inspect_node *nodes)
{
    bool is_changed, is_under_way = inspect_under_way(before, now) != 0;

    for (uint32_t i = 0; i < now->count; i++) {
        nodes[i] = graph_state_of(before, now, &now->ranks[i], assume);
        if (is_under_way && nodes[i] == INSPECT_DEADLOCKED)
            nodes[i] = INSPECT_ALIVE;
    }
    do {
        is_changed = false;
        for (uint32_t i = 0; i < now->count; i++)
            if (nodes[i] == INSPECT_DEADLOCKED && can_go_on(now, nodes, i)) {
                nodes[i] = INSPECT_ALIVE;
                is_changed = true;
            }
    } while (is_changed);
}
