/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sequence.h - operations that every engine can execute.
 *
 * Receives and messages have numbers that are reused when the entry is free, so memory is
 * needed for the deepest queue, not for the longest program.  `expected` is the answer of
 * the creator of the sequence: the recorded engine, or the list.
 */
#ifndef BENCH_MATCH_SEQUENCE_H
#define BENCH_MATCH_SEQUENCE_H

#include "engine.h"

enum sequence_kind {
    SEQUENCE_POST,
    SEQUENCE_ARRIVE,
    SEQUENCE_CANCEL,
    SEQUENCE_PEEK,
    SEQUENCE_EXTRACT,
    SEQUENCE_KINDS
};

struct sequence_op {
    enum sequence_kind kind;
    uint32_t number;             /* of the receive or message; unused in a peek */
    uint32_t expected;           /* partner; for a peek BENCH_NONE or anything else */
    struct bench_pattern wanted; /* ignore only for a post or a peek */
};

struct sequence {
    struct sequence_op *ops;
    size_t count, capacity;
    uint32_t recvs, msgs; /* numbers are below these */
    size_t kinds[SEQUENCE_KINDS];
    size_t hits;                    /* posts and arrivals that matched */
    uint32_t recvs_max, msgs_max;   /* the maximum depths of the queues */
    unsigned source_bits, tag_bits; /* for a narrow engine: the arguments of divide() */
    uint64_t recvs_sum, msgs_sum;   /* depth of the PRQ at arrivals, of the UMQ at posts */
};

/* Appends; bench_fail() without memory. */
void sequence_add(struct sequence *s, const struct sequence_op *op);

/* Counts the operations in s: call once when it is complete. */
void sequence_count(struct sequence *s);

void sequence_free(struct sequence *s);

/* Makes the operations fit a narrow engine: context ids and sources are renumbered, and tags
 * reduced to the bits in which two of them differ.  False if even that does not fit; then
 * *narrow is empty. */
bool sequence_narrow(const struct sequence *s, struct sequence *narrow);

/* The answers of an engine. */
struct sequence_answers {
    uint64_t checksum; /* of all answers; for a peek, whether it found one */
    size_t right;      /* number of answers before the first wrong one */
    uint32_t got;      /* the last answer */
};

/* Executes s on an empty engine, up to the first wrong answer: after it, the numbers of entries
 * would not fit.  ns: the elapsed time. */
struct sequence_answers sequence_do(const struct sequence *s, struct bench_engine *engine,
                                    uint64_t *ns);

#endif
