/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - a matching engine as the benchmarks see it.
 *
 * Receives and messages are numbers below the capacities given to create().  The engine
 * keeps the entry of each number in its own form, so that every engine is measured
 * with its own memory layout and with the work of filling an entry.  A number may be
 * used again as soon as its entry is not queued.
 *
 *   matchbox   the engine of match.h
 *   list       two doubly linked lists: the simplest correct engine
 *   ucx-like   the scheme of UCX, written here: exact receives in a hash, wildcard
 *              receives in one list, messages in a hash and in one list
 *   ucx        UCX itself, a message to the own process through its `self` transport
 *   nothing    no matching: reads the answer out of the tag.  The rest is the cost of
 *              the measurement; only bench=match and its relatives can use it
 */
#ifndef BENCH_MATCH_ENGINE_H
#define BENCH_MATCH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <matchbox/match.h>

#define BENCH_NONE UINT32_MAX

/* Fields of this width fit every engine: UCX has 64 bits for all three.  divide() distributes
 * the bits differently. */
#define BENCH_CONTEXT_BITS 18
#define BENCH_SOURCE_BITS  20
#define BENCH_TAG_BITS     26

/* The bits of a benchmark's tag that identify the entry. */
#define BENCH_ID_BITS 20
#define BENCH_ID_MASK ((1u << BENCH_ID_BITS) - 1)

/* The envelope and mask of a receive. */
struct bench_pattern {
    struct mbx_match_envelope envelope;
    uint64_t ignore;
};

struct bench_memory {
    size_t entry;  /* bytes per entry in the caller's memory; 0: in the engine's */
    size_t engine; /* bytes that the engine holds now */
};

/* Engines embed this as their first member. */
struct bench_engine {
    const struct bench_ops *ops;
};

struct bench_ops {
    const char *name;
    bool is_narrow;      /* accepts only envelopes that fit 64 bits in total */
    bool is_measured;    /* false: `nothing`, which cannot be compared with others */
    bool memory_is_seen; /* memory() is the growth of the process, not a count */

    /* NULL: not enough memory, or the engine cannot start here (it has printed why). */
    struct bench_engine *(*create)(uint32_t recvs, uint32_t msgs);

    /* For a narrow engine, before anything else: this many bits for sources and tags, and the
     * rest for context ids. */
    void (*divide)(struct bench_engine *engine, unsigned source_bits, unsigned tag_bits);

    /* Entries may still be queued. */
    void (*destroy)(struct bench_engine *engine);

    /* The message that was matched; or BENCH_NONE, and the receive waits.  Envelopes are passed
     * by value, in registers: the measuring loop has just written them piece by piece, and
     * reading them as a whole from memory would be slow. */
    uint32_t (*post)(struct bench_engine *engine, uint32_t recv,
                     struct mbx_match_envelope envelope, uint64_t ignore);

    /* The receive that was matched; or BENCH_NONE, and the message waits. */
    uint32_t (*arrive)(struct bench_engine *engine, uint32_t msg,
                       struct mbx_match_envelope envelope);

    /* False if it is not queued. */
    bool (*cancel)(struct bench_engine *engine, uint32_t recv);

    /* Is there a message for this receive?  *tag is its tag. */
    bool (*peek)(struct bench_engine *engine, struct mbx_match_envelope envelope,
                 uint64_t ignore, uint64_t *tag);

    /* False if it is not queued.  May be called only for the message that the last peek has
     * found: UCX has no other way to name one. */
    bool (*extract)(struct bench_engine *engine, uint32_t msg);

    /* Both NULL if the engine has none.  found[i] is the result that post or arrive would
     * return. */
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

/* All engines of this build; ends with NULL. */
extern const struct bench_ops *const bench_engines[];

#endif
