/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * distance.h - classifies the distance of two cores: two threads of one core, two cores that share a
 * cache, or far.  A virtual machine moves its virtual cores, within seconds.  Benchmarks without the
 * library use it too.
 */
#ifndef BENCH_DISTANCE_H
#define BENCH_DISTANCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define DISTANCE_FLIPS 40 /* consecutive transfers of the line */
#define DISTANCE_TRIES 8  /* the fastest counts; for loops the median */
#define DISTANCE_NEAR  90 /* maximum ns per transfer between cores that share a cache */
#define DISTANCE_SUMS  4000
#define DISTANCE_MORE  1.25 /* a loop may take so much longer than while the other pauses */

/* `core`: each computes more slowly while the other one works. */
enum distance { CORE, CACHE, FAR, DISTANCES, MIXED = DISTANCES };

static const char *const distance_names[] = {"core", "cache", "far"};

typedef double distance_clock(void); /* seconds */

/* Seconds for a loop that uses a whole core. */
static inline double distance_sums(distance_clock *now)
{
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
    double start = now();

    for (int i = 0; i < DISTANCE_SUMS; i++) {
        a += b ^ (uint64_t)i;
        b += 3;
        c += d ^ (uint64_t)i;
        d += 5;
        e += f ^ (uint64_t)i;
        f += 7;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    }
    return now() - start;
}

static inline int distance_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median time of several loops, in seconds. */
static inline double distance_sums_median(distance_clock *now)
{
    double seconds[DISTANCE_TRIES];

    for (int t = 0; t < DISTANCE_TRIES; t++)
        seconds[t] = distance_sums(now);
    qsort(seconds, DISTANCE_TRIES, sizeof *seconds, distance_compare);
    return seconds[DISTANCE_TRIES / 2];
}

/* The minimum time of a transfer of *line, in ns.  who: 0 or 1; the other core calls it with
 * the other value.  *line is 0 before and after. */
static inline double distance_line_ns(distance_clock *now, _Atomic uint32_t *line, uint32_t who)
{
    double least = 1e9;

    for (int t = 0; t < DISTANCE_TRIES; t++) {
        double start = now(), ns;

        for (int i = 0; i < DISTANCE_FLIPS; i++) {
            while (atomic_load_explicit(line, memory_order_acquire) != who)
                ;
            atomic_store_explicit(line, 1 - who, memory_order_release);
        }
        ns = (now() - start) / DISTANCE_FLIPS / 2 * 1e9;
        least = ns < least ? ns : least;
    }
    return least;
}

/* On these processors, hardly slows down the other thread of the same core.  On other
 * processors it does, and two threads of one core are not recognised. */
static inline void distance_pause(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb");
#endif
}

static inline void distance_await(_Atomic uint32_t *line, uint32_t value)
{
    while (atomic_load_explicit(line, memory_order_acquire) != value)
        distance_pause();
}

/* slowed: time of a loop while the other core works, as a multiple of the time while that core
 * pauses. */
struct distance_look {
    double slowed;
    double line_ns;
};

/* Both cores call it at the same time, as distance_line_ns().  The result is valid for who =
 * 0. */
static inline struct distance_look distance_look(distance_clock *now, _Atomic uint32_t *line,
                                                 uint32_t who)
{
    double beside = distance_sums_median(now), alone = beside;
    double line_ns = distance_line_ns(now, line, who);

    /* All loops lie within 0.3 ms: any other load on this core slows down all of them. */
    if (who == 0) {
        distance_await(line, 0);
        alone = distance_sums_median(now);
        atomic_store_explicit(line, 1, memory_order_release);
        distance_await(line, 0);
    } else {
        distance_await(line, 1);
        atomic_store_explicit(line, 0, memory_order_release);
    }
    return (struct distance_look){.slowed = beside / alone, .line_ns = line_ns};
}

static inline enum distance distance_of(struct distance_look look)
{
    if (look.slowed >= DISTANCE_MORE)
        return CORE;
    return look.line_ns <= DISTANCE_NEAR ? CACHE : FAR;
}

#endif
