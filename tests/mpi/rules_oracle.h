/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules_oracle.h - does MPI permit these matches?
 *
 * Given the takes of one rank, the messages that it got, and the messages that were sent to it,
 * the oracle checks whether some order of events explains them under MPI's rules.  It knows no
 * MPI, and no clock: times are increasing numbers, drawn before and after each call; the times
 * of a sender are independent of the times of other processes.
 *
 * An event is the moment in which a take ends: it matched its message, or was cancelled.  Event
 * X came before event Y if
 *
 *   X had been posted before Y, and accepts Y's message     it would have got it
 *   X's message was sent before Y's by the same sender,
 *   and Y accepts it                                        Y would have got it
 *   X was known to be over before Y could happen            visible to the program
 *
 * The matches are permitted if and only if these relations have no cycle.  Two calls that
 * overlapped, in different threads, have no order; nor have two messages of different senders.
 */
#ifndef TESTS_MPI_RULES_ORACLE_H
#define TESTS_MPI_RULES_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RULES_ANY       (-1)
#define RULES_CANCELLED (-1)

struct rules_send {
    int from, context, tag;
    uint64_t begin, end; /* of the call, on the sender's clock */
};

/* A receive, a matched probe, or a probe. */
struct rules_take {
    int context, source, tag; /* source, tag: or RULES_ANY */
    bool is_probe;            /* leaves its message where it is */
    int got;                  /* the index of a send, or RULES_CANCELLED */
    uint64_t begin, end;      /* of the call that posted it */
    uint64_t cancel;          /* drawn before the call that cancelled it; 0: not cancelled */
    uint64_t over;            /* drawn after the call that reported its end */
};

struct rules_history {
    const struct rules_send *sends;
    int send_count;
    const struct rules_take *takes;
    int take_count;
};

/* Is the history permitted?  If not, writes the contradiction to why, of size bytes. */
bool rules_allow(const struct rules_history *history, char *why, size_t size);

#endif
