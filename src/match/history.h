/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * history.h - a list of operations, run on the engine and on the oracle.  Test code.
 *
 * Every operation has its own id below HISTORY_MAX, which names the receive or message that it
 * makes; cancel and extract name their target by its id.  A history stays valid when any of its
 * operations is dropped: a missing target was never queued, and both sides must report that.
 *
 *   history.c         runs a history on both sides, and shrinks one that fails
 *   history_text.c    prints and reads histories
 *   history_random.c  makes them from seeds
 */
#ifndef MATCH_HISTORY_H
#define MATCH_HISTORY_H

#include <stdio.h>

#include "match/oracle.h"

#define HISTORY_MAX ORACLE_MAX /* operations, and ids */

enum op_kind {
    OP_POST,
    OP_ARRIVE,
    OP_POST_MANY,   /* one call for this one and all OP_POST_MANY directly after it */
    OP_ARRIVE_MANY, /* likewise */
    OP_FIND,        /* mbx_match_find() alone: a message that does not wait */
    OP_MEET,        /* mbx_match_find(), and mbx_match_arrive() if it found none */
    OP_KEEP,        /* mbx_match_find(), and mbx_match_keep() if it found none */
    OP_PEEK,
    OP_PROBE, /* peek, then extract the message that was found */
    OP_CANCEL,
    OP_EXTRACT,
    OP_TAKE, /* mbx_match_take() alone: a receive that does not wait */
    OP_TRY,  /* mbx_match_take() of a message that does not fit, and mbx_match_post() */
    OP_KINDS
};

/* Is its envelope a receive's, which may have wildcards? */
static inline bool op_is_receive(enum op_kind kind)
{
    return kind == OP_POST || kind == OP_POST_MANY || kind == OP_PEEK || kind == OP_PROBE ||
           kind == OP_TAKE || kind == OP_TRY;
}

/* An answer is the id of the message or receive that matched, or one of these; for cancel and
 * extract it is a bool. */
enum {
    ANSWER_NOBODY = -1,
    ANSWER_BROKEN = -2, /* violates the contract */
};

struct op {
    enum op_kind kind;
    int id;
    int target; /* of cancel and extract */
    struct mbx_match_envelope envelope;
    uint64_t ignore;
};

struct history {
    struct mbx_match_options options;
    uint64_t fail_at; /* this allocation of the engine fails, counted from 1; 0 none */
    int count;
    struct op ops[HISTORY_MAX];
};

/* The engine and the oracle in the middle of a history. */
struct history_run {
    struct mbx_match m;
    struct oracle oracle;
    struct mbx_match_counters want; /* all except the steps of searches */
    uint64_t live;                  /* mem_live() before the engine */
    bool has_failed;                /* the allocation fail_at was reached */
    const char *why;                /* the error */
    int got, expected;              /* the answers that differ */
    struct mbx_match_recv recvs[HISTORY_MAX];
    struct mbx_match_msg msgs[HISTORY_MAX];
};

/* Starts an empty engine and an empty oracle, for ids 0 .. ids-1; history_end() frees the
 * memory of the engine. */
void history_begin(struct history_run *run, const struct mbx_match_options *options, int ids);
void history_end(struct history_run *run);

/* Runs one operation on both.  False if the answers differ. */
bool history_do(struct history_run *run, const struct op *op);

/* Are the queues, the counters and the invariants correct? */
bool history_check(struct history_run *run);

/* Runs h with a check after every call, or after some of them once it is long.  run may be
 * inspected afterwards; its engine is closed.  Returns the first operation after which a check
 * failed, or -1. */
int history_replay(struct history_run *run, const struct history *h);

/* The answer by the rules; ANSWER_BROKEN if op is not valid. */
int history_oracle_answer(struct oracle *o, const struct op *op);

/* The operation at which h fails; -1 if it does not. */
typedef int history_fails_fn(void *arg, const struct history *h);

/* Drops operations of h, which fails, until no operation and no two operations can be
 * dropped. */
void history_shrink(struct history *h, history_fails_fn *fails, void *arg);

/* Shrinks h, on which engine and oracle disagree, and prints the rest on stderr, in the format
 * that history_read() reads, and the error. */
void history_report(struct history *h, const char *label, unsigned long long number);

/* ---- history_text.c ---- */

/* Prints a line for each operation and each setting that is not 0. */
void history_print(FILE *out, const struct history *h);

/* Prints an answer in words: an id as its position in h. */
void history_print_answer(FILE *out, const struct history *h, const struct op *op, int answer);

/* A history read from a file. */
struct history_file {
    struct history history;
    int lines[HISTORY_MAX];       /* the line of each operation */
    bool has_answer[HISTORY_MAX]; /* the file has the expected answer */
    int answers[HISTORY_MAX];
};

/* Reads in; errors are printed on stderr, with name and line.  Returns 0; -EINVAL it is not a
 * history; -EIO it cannot be read. */
int history_read(FILE *in, const char *name, struct history_file *file);

/* ---- history_random.c ---- */

/* Makes up to 64 operations of all kinds, over a tiny domain. */
void history_make(struct history *h, uint64_t seed);

/* Makes up to HISTORY_MAX operations, many of one kind together: queues of hundreds of entries
 * that grow and empty again, with up to 100 distinct masks. */
void history_make_deep(struct history *h, uint64_t seed);

#endif
