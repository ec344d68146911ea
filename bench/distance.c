/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   how far apart are two cores of this machine now?
 * Method     for 60 ms, repeatedly: both cores run a loop that uses a whole core, then hand a
 *            cache line to each other, then one runs that loop while the other one pauses.  The last
 *            third counts, with medians: how much slower the loop was while the other core ran its
 *            loop, and the minimum time of the line.  distance.h classifies the distance.
 *
 *   distance CORE CORE      prints one line: distance=core|cache|far line_ns=NS slowed=FACTOR
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdio.h>

#include "base/base.h"
#include "base/clock.h"
#include "distance.h"

#define WORK_NS    (60 * CLOCK_MS)
#define ROUNDS_MAX 20000

struct pair {
    alignas(CACHE_LINE) _Atomic uint32_t line;
    alignas(CACHE_LINE) _Atomic uint32_t rounds; /* UINT32_MAX: not known yet */
    int core;                                    /* the other core */
};

static double now_s(void)
{
    return (double)clock_now() / 1e9;
}

/* Both cores are allowed, so this succeeds. */
static void pin(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((unsigned)core, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

static void *other(void *arg)
{
    struct pair *pair = arg;
    uint32_t done = 0;

    pin(pair->core);
    do {
        (void)distance_look(now_s, &pair->line, 1);
    } while (++done < atomic_load_explicit(&pair->rounds, memory_order_acquire));
    return NULL;
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, distance_compare);
    return values[count / 2];
}

static void measure(struct pair *pair)
{
    static double slowed[ROUNDS_MAX], line_ns[ROUNDS_MAX];
    uint64_t until = clock_now() + WORK_NS;
    uint32_t rounds = 0, first;
    bool is_last;

    do {
        struct distance_look look;

        is_last = rounds == ROUNDS_MAX - 1 || clock_now() >= until;
        if (is_last) /* the other core reads it only after this round */
            atomic_store_explicit(&pair->rounds, rounds + 1, memory_order_release);
        look = distance_look(now_s, &pair->line, 0);
        slowed[rounds] = look.slowed;
        line_ns[rounds++] = look.line_ns;
    } while (!is_last);
    first = rounds - (rounds + 2) / 3;
    slowed[0] = median(&slowed[first], rounds - first);
    line_ns[0] = median(&line_ns[first], rounds - first);
    printf("distance=%s line_ns=%.1f slowed=%.2f\n",
           distance_names[distance_of((struct distance_look){slowed[0], line_ns[0]})],
           line_ns[0], slowed[0]);
}

/* The number of a core that this process may run on, or -1. */
static int core_of(const char *text)
{
    char *end;
    long core = strtol(text, &end, 10);
    cpu_set_t set;

    if (*text < '0' || *text > '9' || *end != '\0' || core >= CPU_SETSIZE ||
        sched_getaffinity(0, sizeof set, &set) != 0 || !CPU_ISSET((unsigned)core, &set)) {
        fprintf(stderr, "distance: '%s' is no core that this process may run on\n", text);
        return -1;
    }
    return (int)core;
}

int main(int argc, char **argv)
{
    int first = argc == 3 ? core_of(argv[1]) : -1;
    struct pair pair = {.rounds = UINT32_MAX, .core = first >= 0 ? core_of(argv[2]) : -1};
    pthread_t thread;

    if (pair.core < 0 || first == pair.core) {
        fprintf(stderr, "usage: distance CORE CORE, two different numbers of cores\n");
        return 2;
    }
    pin(first);
    if (pthread_create(&thread, NULL, other, &pair) != 0) {
        fprintf(stderr, "distance: there is no second thread\n");
        return 1;
    }
    measure(&pair);
    pthread_join(thread, NULL);
    return 0;
}
