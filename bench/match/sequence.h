/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sequence.h - operations that every engine can be made to do.
 *
 * Receives and messages have numbers that are used again when the entry is free, so the
 * memory is that of the deepest queue, not of the longest program.  `expected` is the
 * answer of whoever made the sequence: the recorded engine, or the list.
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
    uint32_t number;             /* of the receive or message; not of a peek */
    uint32_t expected;           /* partner; of a peek BENCH_NONE or anything else */
    struct bench_pattern wanted; /* ignore only of a post or a peek */
};

struct sequence {
    struct sequence_op *ops;
    size_t count, capacity;
    uint32_t recvs, msgs; /* numbers are below these */
    size_t kinds[SEQUENCE_KINDS];
    size_t hits;                    /* posts and arrivals that met somebody */
    uint32_t recvs_max, msgs_max;   /* the deepest that the queues were */
    unsigned source_bits, tag_bits; /* of a narrow one: how divide() shares them out */
    uint64_t recvs_sum, msgs_sum;   /* depth of the PRQ at arrivals, of the UMQ at posts */
};

/* Appends; bench_fail() without memory. */
void sequence_add(struct sequence *s, const struct sequence_op *op);

/* Counts what is in s: call once when it is complete. */
void sequence_count(struct sequence *s);

void sequence_free(struct sequence *s);

/* The same operations for an engine that is narrow: context ids and sources numbered
 * anew, and of the tags only the bits in which two of them differ.  False if even that
 * does not fit; then *narrow is empty. */
bool sequence_narrow(const struct sequence *s, struct sequence *narrow);

/* What an engine answered. */
struct sequence_answers {
    uint64_t checksum; /* of all answers; of a peek, whether there is one */
    size_t right;      /* answers before one was not the expected one */
    uint32_t got;      /* the last answer */
};

/* Does s on an empty engine, up to the first answer that is not as expected: behind it, the
 * numbers of entries would not fit.  ns: how long it took. */
struct sequence_answers sequence_do(const struct sequence *s, struct bench_engine *engine,
                                    uint64_t *ns);

#endif
