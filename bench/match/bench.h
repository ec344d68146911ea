/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.h - how a case is measured.
 *
 * A case is one line of the results for every engine.  bench_run() creates and fills
 * all engines, then lets them take turns, repeat by repeat, so that a disturbance of the
 * machine meets all of them; the median and the fastest repeat count.
 *
 *   rounds per repeat   as many as fit budget_ms / repeats, found by doubling
 *   too slow            one repeat of the fewest rounds would already take several times
 *                       that: the line says skipped=too_slow and what was seen
 *   right               measure() adds to cursor.wrong whatever is not as expected; one
 *                       wrong answer ends the run.  0 as long as all is right, it is also
 *                       added to the tag that is asked for next, so that a round cannot
 *                       begin to search before the answer of the last one is there
 */
#ifndef BENCH_MATCH_BENCH_H
#define BENCH_MATCH_BENCH_H

#include "engine.h"

#define BENCH_REPEATS_MAX 255
#define BENCH_ENGINES_MAX 8
#define BENCH_KEYS_MAX    128
#define BENCH_TOO_SLOW    UINT64_MAX

struct bench_settings {
    bool is_quick;
    bool is_dry;                   /* only says which cases there are */
    bool wants[BENCH_ENGINES_MAX]; /* by place in bench_engines */
    const char *filter;            /* words, all of which a line must have; NULL: all lines */
    unsigned budget_ms;            /* for one engine in one case */
    unsigned repeats;
    uint32_t depth_max;
};

/* The run so far. */
struct bench {
    struct bench_settings settings;
    bool is_counting;     /* first pass: nothing is measured */
    unsigned cases, done; /* of the first pass, and of the second */
    uint64_t estimate_ns, start_ns;
};

/* Where a case is.  Loops that are measured work on a copy, which stays in registers. */
struct cursor {
    uint64_t at;    /* place in the plan */
    uint32_t wrong; /* 0 as long as all answers were right */
};

/* One engine in one case. */
struct subject {
    const struct bench_ops *ops;
    struct bench_engine *engine;
    struct bench_engine *other; /* what a case needs besides; or NULL */
    struct cursor cursor;
    uint64_t rounds;
    uint64_t tried_ns; /* too slow: what the least round took, per operation */
    double ns[BENCH_REPEATS_MAX];
};

/* What kind of case it is embeds this. */
struct bench_case {
    const char *bench;
    char keys[BENCH_KEYS_MAX]; /* "depth=64 position=random" */
    uint32_t recvs, msgs;      /* capacities to create engines with */
    uint32_t per_round;        /* operations of one round */
    unsigned repeats;          /* 0: as the settings say */
    uint64_t rounds;           /* 0: to be found */
    uint64_t least;            /* fewest rounds that are worth a repeat */
    bool is_for_nothing;       /* the engine `nothing` can do it */
    bool needs_many;           /* only for engines with bulk forms */
    uint64_t limit_ns;         /* measure() may give up a round that takes longer */

    /* False: not enough memory. */
    bool (*fill)(const struct bench_case *c, struct subject *s);

    /* Does that many rounds.  Nanoseconds of what is asked for, or BENCH_TOO_SLOW; then
     * the engine is not used any more. */
    uint64_t (*measure)(const struct bench_case *c, struct subject *s, uint64_t rounds);
};

/* The depths that are measured; ends with 0. */
extern const uint32_t bench_depths[];

/* Is this depth measured in this run? */
bool bench_has_depth(const struct bench *b, uint32_t depth);

/* Measures c if the filter lets it pass.  Ends the program on a wrong answer. */
void bench_run(struct bench *b, struct bench_case *c);

/* Is the line of this case wanted? */
bool bench_wants(const struct bench *b, const char *bench, const char *keys);

/* Says on stderr which case comes. */
void bench_progress(struct bench *b, const char *bench, const char *keys);

/* What one reading of the clock adds to a measured time. */
uint64_t bench_clock_ns(void);

/* until - from, less the reading of the clock. */
uint64_t bench_elapsed(uint64_t from, uint64_t until);

/* Prints the message and ends the program with status 1. */
void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The families of cases. */
void bench_pairs(struct bench *b);
void bench_cancels(struct bench *b);
void bench_unexpected(struct bench *b);
void bench_memories(struct bench *b);
void bench_agreement(struct bench *b);

/* Replays one recorded file; false if it cannot be read or the engines differ. */
bool bench_replay(struct bench *b, const char *path);

#endif
