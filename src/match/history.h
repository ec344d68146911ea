/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * history.h - a list of operations, done by the engine and by the oracle.  Test code.
 *
 * Every operation has an id, which names the receive or message that it makes;
 * cancel and claim name their target by it.  A history stays meaningful when any
 * of its operations is dropped: a target that is not there was never queued, and
 * both sides must say so.
 */
#ifndef MATCH_HISTORY_H
#define MATCH_HISTORY_H

#include "match/oracle.h"

#define HISTORY_MAX ORACLE_MAX /* operations, and ids */

enum op_kind {
    OP_POST,
    OP_ARRIVE,
    OP_FIND, /* match_find() alone: a message that does not wait */
    OP_MEET, /* match_find(), and match_arrive() if it found nobody */
    OP_PEEK,
    OP_PROBE, /* peek, then claim what it showed */
    OP_CANCEL,
    OP_CLAIM,
    OP_KINDS
};

struct op {
    enum op_kind kind;
    int id;
    int target; /* of cancel and claim */
    struct match_envelope envelope;
    uint64_t ignore;
};

struct history {
    uint64_t first_seq;
    int count;
    struct op ops[HISTORY_MAX];
};

/* The engine and the oracle in the middle of a history. */
struct history_run {
    struct match m;
    struct oracle oracle;
    struct match_counters want; /* all but the searches */
    const char *why;            /* what was wrong */
    int got, expected;          /* the answers that differ */
    struct match_recv recvs[HISTORY_MAX];
    struct match_msg msgs[HISTORY_MAX];
};

/* An empty engine and an empty oracle, for ids 0 .. ids-1. */
void history_begin(struct history_run *run, uint64_t first_seq, int ids);

/* One operation on both.  False if the answers differ. */
bool history_do(struct history_run *run, const struct op *op);

/* Are the queues, the counters and the invariants as they should be? */
bool history_check(struct history_run *run);

/* Replays h with a check after every operation.
 * Returns the first operation after which something is wrong, or -1. */
int history_replay(struct history_run *run, const struct history *h);

/* Drops from h, which fails, what the failure does not need, until no one and no
 * two operations can be spared. */
void history_shrink(struct history *h);

/* Shrinks h, which fails, and says on stderr what is left and what is wrong. */
void history_report(struct history *h, const char *label, unsigned long long number);

#endif
