/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules_oracle.h - may MPI have matched so?
 *
 * Given what one rank has asked for and what it got, and what was sent to it, says whether some
 * order of events explains it under MPI's rules.  Knows no MPI, and no clock: times are numbers
 * that grow, drawn before and behind each call; those of a sender say nothing about those of
 * another process.
 *
 * An event is the moment in which a take ends: it met its message, or was cancelled.  Event X
 * came before event Y if
 *
 *   X had been posted before Y, and accepts what Y got      it would have got it
 *   X got what its sender had sent before what Y got,
 *   and Y accepts it                                        Y would have got it
 *   X was known to be over before Y could happen            what a program sees
 *
 * and what happened is allowed if and only if these do not go round in a circle.  Two calls
 * that overlapped, in different threads, have no order; two messages of different senders
 * neither.
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
    int got;                  /* which of the sends, or RULES_CANCELLED */
    uint64_t begin, end;      /* of the call that posted it */
    uint64_t cancel;          /* before the call that cancelled it; 0 if none did */
    uint64_t over;            /* behind the call that told its end */
};

struct rules_history {
    const struct rules_send *sends;
    int send_count;
    const struct rules_take *takes;
    int take_count;
};

/* Whether the history is allowed.  If not, says in why, of size bytes, what contradicts what.
 */
bool rules_allow(const struct rules_history *history, char *why, size_t size);

#endif
