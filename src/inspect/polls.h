/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * polls.h - a job in which all ranks wait or poll: a deadlock, if the ranks that poll do nothing else.
 *
 * An endpoint answers an observer from within a call.  So a rank that computes most of the time and polls in
 * between shows the same calls as one that only polls.  No look can tell them apart.  The verdict states
 * this condition, and needs more than two looks:
 *
 *   - in each of them every rank of the job was there, and waited, polled or was in MPI_Finalize;
 *   - no message has come or gone, and no operation has begun or ended, from the first look to the last, and for
 *     quiet_ns before the last;
 *   - nothing can end what any of these ranks waits for (graph.h, INSPECT_IF_POLLS).
 *
 * Pure functions: the caller decides how far apart the looks are.
 */
#ifndef INSPECT_POLLS_H
#define INSPECT_POLLS_H

#include "inspect/graph.h"

/* inspect_state.checks counts one for so many rounds of progress. */
#define INSPECT_CHECK_ROUNDS 64

/* looks[0], looks[1], ... are earlier looks at the ranks of `now`, at least one, in their order.  True: by
 * these looks it is such a job.  nodes has space for now->count, and gets the states for that verdict. */
bool inspect_only_polls(const struct inspect_job *looks, uint32_t count,
                        const struct inspect_job *now, uint64_t quiet_ns,
                        enum inspect_node *nodes);

/* The polls of a rank per second, from its states in two looks; 0: not known. */
uint64_t inspect_poll_rate(const struct inspect_rank *was, const struct inspect_rank *rank);

#endif
