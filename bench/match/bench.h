/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.h - how a case is measured.
 *
 * A case is one line of the results for every engine.  bench_run() creates and fills
 * all engines, then lets them take turns, repeat by repeat, so that a disturbance of the
 * machine affects all of them; the median and the fastest repeat count.
 *
 *   rounds per repeat   as many as fit budget_ms / repeats, found by doubling
 *   too slow            one repeat of the fewest rounds would already take several times
 *                       that: the line has skipped=too_slow and the measured time
 *   correct             measure() adds every unexpected answer to cursor.wrong; one wrong
 *                       answer ends the run.  It is 0 while all answers are right, and is
 *                       also added to the tag of the next search, so that a round cannot
 *                       begin its search before the previous answer is known
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
    bool is_dry;                   /* only lists the cases */
    bool wants[BENCH_ENGINES_MAX]; /* by index in bench_engines */
    const char *filter;            /* words that a line must have; NULL: all lines */
    unsigned budget_ms;            /* per engine and case */
    unsigned repeats;
    uint32_t depth_max;
};

/* The state of the run. */
struct bench {
    struct bench_settings settings;
    bool is_counting;     /* first pass: nothing is measured */
    unsigned cases, done; /* in the first pass, in the second */
    uint64_t estimate_ns, start_ns;
};

/* The position of a case.  Measured loops work on a copy, which stays in registers. */
struct cursor {
    uint64_t at;    /* index in the plan */
    uint32_t wrong; /* 0 while all answers were right */
};

/* One engine in one case. */
struct subject {
    const struct bench_ops *ops;
    struct bench_engine *engine;
    struct bench_engine *other; /* a second engine that the case needs; or NULL */
    struct cursor cursor;
    uint64_t rounds;
    uint64_t tried_ns; /* too slow: time of the shortest round, per operation */
    double ns[BENCH_REPEATS_MAX];
};

/* Each kind of case embeds this. */
struct bench_case {
    const char *bench;
    char keys[BENCH_KEYS_MAX]; /* "depth=64 position=random" */
    uint32_t recvs, msgs;      /* capacities of the engines */
    uint32_t per_round;        /* operations per round */
    unsigned repeats;          /* 0: from the settings */
    uint64_t rounds;           /* 0: to be determined */
    uint64_t least;            /* minimum rounds of a repeat */
    bool is_for_nothing;       /* the engine `nothing` can run it */
    bool needs_many;           /* only for engines with bulk forms */
    uint64_t limit_ns;         /* measure() may abort a round that takes longer */

    /* False: not enough memory. */
    bool (*fill)(const struct bench_case *c, struct subject *s);

    /* Runs that many rounds.  Nanoseconds of the measured part, or BENCH_TOO_SLOW; the engine
     * is then not used any more. */
    uint64_t (*measure)(const struct bench_case *c, struct subject *s, uint64_t rounds);
};

/* The measured depths; ends with 0. */
extern const uint32_t bench_depths[];

/* Is this depth measured in this run? */
bool bench_has_depth(const struct bench *b, uint32_t depth);

/* Measures c if the filter accepts it.  Ends the program on a wrong answer. */
void bench_run(struct bench *b, struct bench_case *c);

/* Does the filter accept the line of this case? */
bool bench_wants(const struct bench *b, const char *bench, const char *keys);

/* Prints the next case on stderr. */
void bench_progress(struct bench *b, const char *bench, const char *keys);

/* The time that one reading of the clock adds to a measured time. */
uint64_t bench_clock_ns(void);

/* until - from, minus the reading of the clock. */
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
