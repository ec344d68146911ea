/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graph.h - who waits for whom, and who waits for ever.
 *
 * A pure function over two looks at a job: no clock, no I/O.
 *
 * A rank is blocked if in both looks it has answered from within the same blocking call, and
 * nothing has happened to it between them.  All others are alive: who computes, polls, is stopped, or was not seen may
 * still do anything.  A rank in MPI_Finalize, or that closes its endpoint, is over: it begins nothing any more.
 *
 * Only calls of MPI that wait for messages alone are known as blocking: a call that is not in the table of
 * graph.c, a wait of the library with a time-out among them, leaves its rank alive.  Within a collective only the messages
 * of collectives count, for some collectives use no messages, and those that say that they are waited for, for the leaders
 * of an intercommunicator that is being made exchange messages of the program's tag.  MPI_Win_fence and MPI_Win_free wait for
 * accesses first, and the calls that make a window for memory that is registered or shared, which is no message: there only
 * those count that say that they are waited for, and those of a collective of the call's own, which are told from an
 * MPI_Ibarrier of the program by their tags.
 *
 * Which of its operations a call waits for, an entry may say (`needs`: the component for Open MPI, and the library's own
 * waits).  Then
 *
 *   MPI_Waitany, MPI_Waitsome     go on if one of these can end (OR)
 *   all others                    go on if all of these can end (AND), if so many are needed
 *
 * and for the former what belongs to collectives counts, too: the call may wait for a nonblocking collective, which is no
 * operation here.  If no entry says it, a blocked rank is taken to wait for any of its operations: if none of them can
 * end, neither can the one that it waits for.  So a rank that goes on is never called deadlocked, and one that is
 * may be missed, in this last case, while an operation is pending that can end.
 *
 * Messages under way at the first look have come by the second, which is 0.3 s later: a rank that answers has read what is
 * in its rings.  Over a network that is slower than that the looks have to be further apart.  Where all ranks of a job were seen,
 * on several hosts, and nothing has happened in any of them, it is known how many messages have been sent and have not arrived:
 * while there are some, nobody is deadlocked.
 *
 *   operation                            can end while
 *   receive that names a source          that rank is alive, or has a send that fits
 *   receive from any source              another rank is alive or was not seen, or one has a send that fits
 *   probe, of a rank in such a call      as a receive
 *   send that waits for its receive      its receiver is alive, or has a receive that fits, and no matched
 *                                        probe has taken the message
 *   data under way, one-sided access     always
 *
 * A rank may have more entries than an observer gets to see.  What it waits for comes first
 * (walk.c); if that is not all there, the rank is alive.
 *
 * Alive are also ranks one of whose operations can end, and so on, until nothing changes.  Who is left
 * is deadlocked.
 *
 * Invariants
 *   I1  a deadlocked rank has an operation, and each operation of it is one of a deadlocked rank,
 *       of one that is over, or of itself
 */
#ifndef INSPECT_GRAPH_H
#define INSPECT_GRAPH_H

#include "inspect/job.h"

enum inspect_node {
    INSPECT_ALIVE,     /* or may become so */
    INSPECT_OVER,      /* in MPI_Finalize, or in mbx_close */
    INSPECT_DEADLOCKED /* waits for what cannot come */
};

/* Why nothing is concluded from what a rank waits for. */
enum inspect_apart {
    INSPECT_APART_NOT,     /* it is concluded */
    INSPECT_APART_NEW,     /* it was not there at the first look */
    INSPECT_APART_SILENT,  /* it has not answered both times */
    INSPECT_APART_MOVED,   /* something has happened to it between the looks */
    INSPECT_APART_TWICE,   /* its process has several endpoints */
    INSPECT_APART_THREADS, /* the call is that of one of its threads */
    INSPECT_APART_MORE,    /* it has more operations than an observer gets to see */
    INSPECT_APART_CALL, /* it is in no call, or in one that is not known to wait for messages */
    INSPECT_APART_NOTHING, /* none of its operations is known to be of its call */
    INSPECT_APARTS
};

enum inspect_apart inspect_apart(const struct inspect_job *before,
                                 const struct inspect_job *now,
                                 const struct inspect_rank *rank);

/* What a call does that the program is in. */
enum inspect_call {
    INSPECT_CALL_OTHER, /* not known; or it polls, or waits for something else than messages */
    INSPECT_CALL_BLOCKS, /* until an operation of the program, or those that it needs, have ended */
    INSPECT_CALL_BLOCKS_ANY, /* until one of several has ended */
    INSPECT_CALL_LIBRARY,    /* the library's own: until an operation that says so has ended */
    INSPECT_CALL_COLLECTIVE, /* until messages of a collective have come and gone */
    INSPECT_CALL_WINDOW,     /* of a window: until what is known as its own has ended */
    INSPECT_CALL_PROBES,     /* until there is what the last probe has asked for */
    INSPECT_CALL_FINISHES    /* MPI_Finalize, mbx_close */
};

enum inspect_call inspect_call_of(const char *name);

/* nodes[i] of now->ranks[i].  before->ranks[j] is the same rank as now->ranks[i] if both have the same endpoint of the same
 * process of the same host.  No look at `now` may begin before all of `before` have ended, on whatever host: so there is a
 * moment between them of which what is the same in both looks is true for all ranks at once. */
void inspect_judge(const struct inspect_job *before, const struct inspect_job *now,
                   enum inspect_node *nodes);

/* How many messages, at most, are on their way between the hosts of a job in which nothing has happened between two looks; 0 also if that is
 * not known, or if there is one host. */
uint64_t inspect_under_way(const struct inspect_job *before, const struct inspect_job *now);

/* This endpoint of this process in another look, or NULL. */
const struct inspect_rank *inspect_same(const struct inspect_job *job,
                                        const struct inspect_rank *rank);

/* Has a matched probe of rank `to` taken the message of this send of rank `from`, and of all that are like it?  Then another receive does not
 * get it. */
bool inspect_is_probed(const struct inspect_job *job, uint32_t to, uint32_t from,
                       const struct inspect_entry *send);

/* Does this entry of a rank in this call count among what the rank may wait for? */
bool inspect_is_awaited(const struct inspect_rank *rank, const struct inspect_entry *entry);

/* Does the rank go on only if all that it waits for has ended?  Else one is enough. */
bool inspect_needs_all(const struct inspect_rank *rank);

/* Can this operation of job->ranks[at] end, with the others as nodes says? */
bool inspect_can_end(const struct inspect_job *job, const enum inspect_node *nodes, uint32_t at,
                     const struct inspect_entry *entry);

#endif
