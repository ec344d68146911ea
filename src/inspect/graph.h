/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.h - finds out which ranks wait for which, and which of them wait for ever.
 *
 * A pure function over two looks at a job: no clock, no I/O.
 *
 * A rank is blocked if in both looks it has answered from within the same blocking call, and
 * nothing has happened to it between them.  All others are alive: a rank that computes,
 * is stopped, or was not seen may still do anything.  A rank in MPI_Finalize, or that closes
 * its endpoint, is over: it begins no new operation.
 *
 * Only MPI calls that wait for nothing but messages count as blocking: a call that is not in
 * the table of graph.c, such as a wait of the library with a time-out, leaves its rank alive.
 * Within a collective only two kinds of entries count: messages of collectives, because some
 * collectives use no messages; and entries with `needs`, because the leaders of a new
 * intercommunicator exchange messages with the program's tag.  MPI_Win_fence and MPI_Win_free
 * also wait for accesses, and the calls that make an RMA window also wait for memory to be
 * registered or shared.  There only entries with `needs` count, and the messages of the call's
 * own collective, which their tags distinguish from an MPI_Ibarrier of the program.
 *
 * An entry may show that the call waits for it (`needs`: set by the component for Open MPI, and
 * by the library's own waits).  Then
 *
 *   MPI_Waitany, MPI_Waitsome     go on if one of these can end (OR)
 *   all others                    go on if all of these can end (AND), if so many are needed
 *
 * and for the former, messages of collectives count as well: the call may wait for a
 * nonblocking collective, which is not an operation here.  If no entry has `needs`, MPI_Wait and
 * its like over the component wait for a nonblocking collective or for something that is no
 * message, such as a file.  Any other blocked rank is assumed to wait for any of its operations: if
 * none of them can end, neither can the one that it waits for.  There a deadlocked rank may be missed,
 * while it has another pending operation that can end.
 *
 * So a rank that can continue is not called deadlocked, with one exception: through the provider and
 * libucp, MPI_Wait and its like may wait for a file, an RMA window or a generalized request, which
 * is not known here.  The component does not mark messages for MPI_Waitany if one of its requests is
 * one of these.
 *
 * Messages in flight at the first look have arrived by the second, which is 0.3 s later: a rank
 * that answers has read its rings.  Over a network with a higher latency the looks have to be
 * further apart.  If all ranks of a job were seen, on several hosts, and nothing has happened
 * in any of them, the number of messages that were sent and have not arrived is known: while it
 * is not 0, no rank is deadlocked.
 *
 *   operation                            can end while
 *   receive that names a source          that rank is alive, or has a matching send
 *   receive from any source              another rank is alive or was not seen, or one has a matching send
 *   MPI_Wait... through libucp           as for a receive from any source: the request may be one of a window
 *   probe, of a rank in such a call      as for a receive
 *   send that waits for its receive      its receiver is alive, or has a matching receive, and no matched
 *                                        probe has taken the message
 *   data transfer, one-sided access      always
 *
 * With MPI_THREAD_MULTIPLE (INSPECT_STATE_THREADS) the call, and what is marked as awaited, is of the
 * thread that has answered.  If nothing is marked, the rank waits for any of its operations, as
 * above, whichever thread began them.  The other threads of its process are known from outside, at
 * both looks:
 *
 *   sleeps in MPI, has not run between the looks,   waits as well: it goes on if any of these
 *   and operations are marked as its own            operations can end, and the rank with it
 *   of a library                                    never communicates for the program
 *   sleeps until a thread of its process wakes it,  waits, if all others of the program do;
 *   outside of MPI, and has not run between them    otherwise one of them may wake it
 *   any other that has communicated                 is alive, and so is its rank
 *   any other                                       is free: it has never communicated, and may
 *                                                   begin to
 *
 * So there are two judgements.  For INSPECT_CERTAIN a rank with a free thread is alive.  For
 * INSPECT_UNLESS free threads are assumed never to communicate: the ranks are deadlocked unless one
 * does.  A rank in MPI_Finalize is over in both: MPI forbids its threads to begin to communicate.
 * Signal handlers that wake a thread are not considered.
 *
 * A rank that polls (MPI_Test, MPI_Iprobe) is alive in both.  A third judgement, INSPECT_IF_POLLS, also
 * assumes that it does nothing else.  Then it waits for any of its operations, or for its last probe.  It
 * may change from one such call to another between the looks.  One judgement of this kind is no verdict:
 * polls.h.
 *
 * A rank may have more entries than an observer can see.  Entries that it may wait for come
 * first (walk.c); if some of them are missing, the rank is alive.
 *
 * A rank with an operation that can end is also alive, and so on, until nothing changes.  The
 * remaining ranks are deadlocked.
 *
 * Invariants
 *   I1  a deadlocked rank has an operation, and each of its operations waits for a deadlocked
 *       rank, for one that is over, or for itself
 */
#ifndef INSPECT_GRAPH_H
#define INSPECT_GRAPH_H

#include "inspect/job.h"

enum inspect_node {
    INSPECT_ALIVE,     /* or may become so */
    INSPECT_OVER,      /* in MPI_Finalize, or in mbx_close */
    INSPECT_DEADLOCKED /* waits for an event that cannot happen */
};

/* The reason why the state of a rank cannot be judged. */
enum inspect_apart {
    INSPECT_APART_NOT,     /* it can be judged */
    INSPECT_APART_NEW,     /* it was not there in the first look */
    INSPECT_APART_SILENT,  /* it did not answer in both looks */
    INSPECT_APART_MOVED,   /* something has happened to it between the looks */
    INSPECT_APART_TWICE,   /* its process has several endpoints */
    INSPECT_APART_THREADS, /* which of its threads have communicated is not known */
    INSPECT_APART_TASKS,   /* the threads of its process were not seen */
    INSPECT_APART_SEVERAL, /* not always the same thread answers, or one that is not listed */
    INSPECT_APART_BEGUN,   /* a thread of it was there in one look only */
    INSPECT_APART_ACTIVE,  /* another thread that has communicated may go on */
    INSPECT_APART_FREE,    /* a thread that has never communicated may do so: INSPECT_CERTAIN */
    INSPECT_APART_MORE,    /* it has more operations than an observer can see */
    INSPECT_APART_CALL,    /* it is in no call, or in one that may wait for other things than
                           messages */
    INSPECT_APART_POLLS,   /* it polls: not with INSPECT_IF_POLLS */
    INSPECT_APART_NOTHING, /* none of its operations is known to belong to its call */
    INSPECT_APARTS
};

/* The assumptions of a judgement: each includes the one before. */
enum inspect_assume {
    INSPECT_CERTAIN,
    INSPECT_UNLESS,  /* threads that have never communicated never do so */
    INSPECT_IF_POLLS /* ranks that poll do nothing else */
};

enum inspect_apart inspect_apart(const struct inspect_job *before,
                                 const struct inspect_job *now, const struct inspect_rank *rank,
                                 enum inspect_assume assume);

/* The thread that waits for this operation of a rank, and has not answered; 0: it is not known, or
 * there is none. */
uint32_t inspect_waiting_thread(const struct inspect_rank *rank,
                                const struct inspect_entry *entry);

enum inspect_thread {
    INSPECT_THREAD_WAITS, /* in MPI, or for the others; or it is a library's */
    INSPECT_THREAD_ACTIVE,
    INSPECT_THREAD_FREE
};

/* kinds[i]: may the thread rank->tasks[i] go on? */
void inspect_threads(const struct inspect_rank *was, const struct inspect_rank *rank,
                     enum inspect_thread kinds[INSPECT_TASKS]);

/* A thread of a rank that is not there in the other look; NULL: there is none. */
const struct inspect_task *inspect_new_task(const struct inspect_rank *other,
                                            const struct inspect_rank *rank);

/* The kind of call that the program is in. */
enum inspect_call {
    INSPECT_CALL_OTHER,  /* not known; or it may wait for other things than messages */
    INSPECT_CALL_BLOCKS, /* until an operation of the program has ended, or all that it needs */
    INSPECT_CALL_BLOCKS_ANY, /* until one of several has ended */
    INSPECT_CALL_LIBRARY,    /* the library's own: until the operations marked with `needs` have
                                ended */
    INSPECT_CALL_COLLECTIVE, /* until messages of a collective were exchanged */
    INSPECT_CALL_WINDOW,     /* a call for a window: until the operations known to be its own
                                have ended */
    INSPECT_CALL_PROBES,     /* until a message is there for the last probe */
    INSPECT_CALL_POLLS, /* returns at once: whether an operation has ended, or a message is there */
    INSPECT_CALL_FINISHES /* MPI_Finalize, mbx_close */
};

enum inspect_call inspect_call_of(const char *name);

/* Is the rank in a call that polls? */
bool inspect_polls(const struct inspect_rank *rank);

/* nodes[i] is the state of now->ranks[i]; INSPECT_UNLESS finds no fewer deadlocked ranks than
 * INSPECT_CERTAIN.  before->ranks[j] is the same rank as now->ranks[i] if both have the same endpoint of the same process on the same host.  No rank may be looked
 * at for `now` before all were looked at for `before`, on any host: so there is a moment
 * between the looks for which everything that is equal in both holds for all ranks at once. */
void inspect_judge(const struct inspect_job *before, const struct inspect_job *now,
                   enum inspect_assume assume, enum inspect_node *nodes);

/* An upper bound of the messages in flight between the hosts of a job in which nothing has
 * happened between two looks; 0 also if it is not known, or if there is only one host. */
uint64_t inspect_under_way(const struct inspect_job *before, const struct inspect_job *now);

/* This endpoint of this process in another look, or NULL. */
const struct inspect_rank *inspect_same(const struct inspect_job *job,
                                        const struct inspect_rank *rank);

/* Has a matched probe of rank `to` taken the message of this send of rank `from`, and of all
 * sends like it?  Then no other receive gets it. */
bool inspect_is_probed(const struct inspect_job *job, uint32_t to, uint32_t from,
                       const struct inspect_entry *send);

/* Does this entry of a rank in a call count among the operations that the rank may wait for? */
bool inspect_is_awaited(const struct inspect_rank *rank, const struct inspect_entry *entry);

/* Does the rank continue only if all its awaited operations have ended?  Otherwise one is
 * enough. */
bool inspect_needs_all(const struct inspect_rank *rank);

/* Can this operation of job->ranks[at] end, with the other ranks in the states `nodes`? */
bool inspect_can_end(const struct inspect_job *job, const enum inspect_node *nodes, uint32_t at,
                     const struct inspect_entry *entry);

#endif
