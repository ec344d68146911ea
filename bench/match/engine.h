/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - a matching engine as the benchmarks see it.
 *
 * Receives and messages are numbers below the capacities given at create; the engine
 * keeps the entry behind each number in a form of its own, so that every engine is
 * measured with its own memory layout and with the work of filling an entry.  A number
 * may be used again as soon as its entry is not queued.
 *
 *   matchbox   the engine of match.h
 *   list       two doubly linked lists: the least that is right
 *   ucx-like   the scheme of UCX, written here: exact receives in a hash, wildcard
 *              receives in one list, messages in a hash and in one list
 *   ucx        UCX itself, a message to the own process through its `self` transport
 *   nothing    no matching: reads the answer out of the tag.  What remains is the cost
 *              of the measurement; only bench=match and its relatives can use it
 */
#ifndef BENCH_MATCH_ENGINE_H
#define BENCH_MATCH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <matchbox/match.h>

#define BENCH_NONE UINT32_MAX

/* What fits every engine: UCX has 64 bits for all three.  divide() shares them out
 * otherwise. */
#define BENCH_CONTEXT_BITS 18
#define BENCH_SOURCE_BITS  20
#define BENCH_TAG_BITS     26

/* The part of a tag of the benchmarks that says whose it is. */
#define BENCH_ID_BITS 20
#define BENCH_ID_MASK ((1u << BENCH_ID_BITS) - 1)

/* What a receive wants. */
struct bench_pattern {
    struct mbx_match_envelope envelope;
    uint64_t ignore;
};

struct bench_memory {
    size_t entry;  /* bytes of one entry of the caller; 0: the engine has them */
    size_t engine; /* bytes that the engine holds now */
};

/* Engines embed this as their first member. */
struct bench_engine {
    const struct bench_ops *ops;
};

struct bench_ops {
    const char *name;
    bool is_narrow;      /* takes only what fits 64 bits in all */
    bool is_measured;    /* false: `nothing`, which cannot be compared with others */
    bool memory_is_seen; /* memory() is what the process grew, not a count */

    /* NULL: not enough memory, or the engine cannot start here (it has said why). */
    struct bench_engine *(*create)(uint32_t recvs, uint32_t msgs);

    /* Of a narrow engine, before anything else: so many bits for sources and tags, and the
     * rest for context ids. */
    void (*divide)(struct bench_engine *engine, unsigned source_bits, unsigned tag_bits);

    /* Entries may still be queued. */
    void (*destroy)(struct bench_engine *engine);

    /* The message taken, or BENCH_NONE and the receive waits.  Envelopes come by value, in
     * registers: what the measuring loop has just written to memory piece by piece would
     * be slow to read as a whole. */
    uint32_t (*post)(struct bench_engine *engine, uint32_t recv,
                     struct mbx_match_envelope envelope, uint64_t ignore);

    /* The receive met, or BENCH_NONE and the message waits. */
    uint32_t (*arrive)(struct bench_engine *engine, uint32_t msg,
                       struct mbx_match_envelope envelope);

    /* False: it is not queued. */
    bool (*cancel)(struct bench_engine *engine, uint32_t recv);

    /* Is there a message for such a receive?  *tag is its tag. */
    bool (*peek)(struct bench_engine *engine, struct mbx_match_envelope envelope,
                 uint64_t ignore, uint64_t *tag);

    /* False: it is not queued.  May be called only for the message that a peek has
     * just shown: UCX has no other way to name one. */
    bool (*extract)(struct bench_engine *engine, uint32_t msg);

    /* Both NULL if there are none.  found[i] is what post or arrive would return. */
    void (*post_many)(struct bench_engine *engine, const uint32_t recvs[],
                      const struct bench_pattern wanted[], uint32_t found[], size_t count);
    void (*arrive_many)(struct bench_engine *engine, const uint32_t msgs[],
                        const struct mbx_match_envelope envelopes[], uint32_t found[],
                        size_t count);

    struct bench_memory (*recv_memory)(const struct bench_engine *engine);
    struct bench_memory (*msg_memory)(const struct bench_engine *engine);
};

extern const struct bench_ops bench_matchbox, bench_list, bench_ucx_like, bench_ucx,
    bench_nothing;

/* All that this build has; ends with NULL. */
extern const struct bench_ops *const bench_engines[];

#endif
