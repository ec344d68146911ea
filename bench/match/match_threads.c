/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   do two threads, each with the engine of its own context id and without a lock,
 *            slow each other down?
 * Method     the measured thread does pairs of {message arrives and matches a receive, the
 *            receive is posted again} on an engine with depth receives, in an order that uses
 *            each equally often.  At the same time another core, if there is one, is idle
 *            (`beside=nobody`), or does the same work with an engine of its own, in another
 *            process (`beside=process`) or in a second thread of this process
 *            (`beside=thread`).  The three take turns, repeat by repeat.  Time is the processor time of the measured thread, so
 *            that other load on the machine matters little.  Two cores may share caches and
 *            memory, or be two threads of one core: the row of the process shows the cost, because
 *            processes share nothing else.  So over_process in the last row is the answer: the
 *            median divided by the median of the process row.
 *
 *   `bench=match_threads depth=64 beside=thread median_ns=30.1 min_ns=29.8 over_nobody=1.02`
 *       `over_process=1.00 repeats=15`        (one line)
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <matchbox/match.h>

#include "base/base.h"

#define REPEATS_MAX 15
#define STRIDE      7919 /* prime, so that each receive is used equally often */

enum beside { BESIDE_NOBODY, BESIDE_PROCESS, BESIDE_THREAD, BESIDES };

static const char *const beside_names[] = {"nobody", "process", "thread"};

struct worker {
    alignas(CACHE_APART) struct mbx_match match;
    struct mbx_match_recv *recvs;
    uint32_t depth, context_id, at;
};

/* Signals to and from the other worker; shared with the other process. */
struct beside_control {
    _Atomic bool is_running, is_over;
};
static struct beside_control *control;

static void fail(const char *what)
{
    fprintf(stderr, "match_threads: %s\n", what);
    exit(1);
}

static double cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Binds the calling thread to the core of this number among the allowed ones, if it exists. */
static void pin(int number)
{
    static cpu_set_t allowed;
    cpu_set_t one;

    if (CPU_COUNT(&allowed) == 0)
        sched_getaffinity(0, sizeof allowed, &allowed);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed) || number-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

static void post(struct worker *w, uint32_t i)
{
    struct mbx_match_msg *found;

    w->recvs[i].envelope = (struct mbx_match_envelope){w->context_id, i % 16, i};
    if (mbx_match_post(&w->match, &w->recvs[i], &found) != 0 || found != NULL)
        fail("a receive could not be posted");
}

static void worker_init(struct worker *w, uint32_t context_id, uint32_t depth)
{
    size_t size = (depth * sizeof *w->recvs + CACHE_APART - 1) / CACHE_APART * CACHE_APART;

    *w = (struct worker){.depth = depth, .context_id = context_id};
    w->recvs = aligned_alloc(CACHE_APART, size);
    if (w->recvs == NULL)
        fail("no memory");
    memset(w->recvs, 0, size);
    mbx_match_init(&w->match, &(struct mbx_match_options){.seed = 1 + context_id});
    for (uint32_t i = 0; i < depth; i++)
        post(w, i);
}

static void worker_fini(struct worker *w)
{
    mbx_match_fini(&w->match);
    free(w->recvs);
}

static void work(struct worker *w, uint64_t pairs)
{
    for (uint64_t i = 0; i < pairs; i++) {
        const struct mbx_match_envelope e = {w->context_id, w->at % 16, w->at};

        if (mbx_match_find(&w->match, &e) != &w->recvs[w->at])
            fail("a message met the wrong receive");
        post(w, w->at);
        w->at = (uint32_t)(((uint64_t)w->at + STRIDE) % w->depth);
    }
}

/* Works until the measured thread has finished. */
static void work_beside(struct worker *w)
{
    pin(1);
    atomic_store(&control->is_running, true);
    while (!atomic_load_explicit(&control->is_over, memory_order_relaxed))
        work(w, 64);
    atomic_store(&control->is_running, false);
}

static void *be_thread(void *arg)
{
    work_beside(arg);
    return NULL;
}

/* The other process: works once for each byte that it reads.  Created before our own engines,
 * so that not even pages are shared. */
static void be_process(int fd, uint32_t depth)
{
    struct worker w;
    char byte;

    worker_init(&w, 3, depth);
    while (read(fd, &byte, 1) == 1)
        work_beside(&w);
    _exit(0);
}

static pid_t process_start(uint32_t depth, int *fd)
{
    int fds[2];
    pid_t child;

    if (pipe(fds) != 0)
        fail("no pipe");
    child = fork();
    if (child < 0)
        fail("no second process");
    if (child == 0) {
        close(fds[1]);
        be_process(fds[0], depth);
    }
    close(fds[0]);
    *fd = fds[1];
    return child;
}

/* Nanoseconds per pair. */
static double measure(struct worker *first, struct worker *other, int fd, enum beside what,
                      uint64_t pairs)
{
    pthread_t thread;
    double start;

    atomic_store(&control->is_over, false);
    atomic_store(&control->is_running, false);
    if (what == BESIDE_PROCESS && write(fd, "", 1) != 1)
        fail("the other process is gone");
    if (what == BESIDE_THREAD && pthread_create(&thread, NULL, be_thread, other) != 0)
        fail("no second thread");
    while (what != BESIDE_NOBODY && !atomic_load(&control->is_running))
        sched_yield();
    work(first, pairs / 4); /* fills the caches */
    start = cpu_ns();
    work(first, pairs);
    start = cpu_ns() - start;
    atomic_store(&control->is_over, true);
    while (atomic_load(&control->is_running)) /* or it would miss is_over */
        sched_yield();
    if (what == BESIDE_THREAD)
        pthread_join(thread, NULL);
    return start / (double)pairs;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print(uint32_t depth, const double *medians, enum beside what, double min_ns,
                  int repeats)
{
    printf("bench=match_threads depth=%u beside=%s median_ns=%.1f min_ns=%.1f over_nobody=%.2f "
           "over_process=%.2f repeats=%d\n",
           depth, beside_names[what], medians[what], min_ns,
           medians[what] / medians[BESIDE_NOBODY], medians[what] / medians[BESIDE_PROCESS],
           repeats);
}

static void bench(uint32_t depth, uint64_t pairs, int repeats)
{
    static struct worker workers[2];
    double ns[BESIDES][REPEATS_MAX], medians[BESIDES];
    int fd;
    pid_t child = process_start(depth, &fd);

    worker_init(&workers[0], 1, depth);
    worker_init(&workers[1], 2, depth);
    for (int r = 0; r < repeats; r++)
        for (int what = 0; what < BESIDES; what++)
            ns[what][r] = measure(&workers[0], &workers[1], fd, (enum beside)what, pairs);
    for (int what = 0; what < BESIDES; what++) {
        qsort(ns[what], (size_t)repeats, sizeof ns[what][0], compare);
        medians[what] = ns[what][repeats / 2];
    }
    for (int what = 0; what < BESIDES; what++)
        print(depth, medians, (enum beside)what, ns[what][0], repeats);
    fflush(stdout);
    worker_fini(&workers[0]);
    worker_fini(&workers[1]);
    close(fd);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    static const uint32_t depths[] = {16, 1024, 65536};
    bool is_quick = argc == 2 && strcmp(argv[1], "--quick") == 0;

    if (argc > 1 && !is_quick) {
        bool is_help = argc == 2 && strcmp(argv[1], "--help") == 0;

        fprintf(is_help ? stdout : stderr, "usage: match_threads [--quick]\n");
        if (!is_help)
            fprintf(stderr, "match_threads: there is no argument '%s'\n", argv[1]);
        return is_help ? 0 : 2;
    }
    control =
        mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (control == MAP_FAILED)
        fail("no shared memory");
    pin(0);
    for (size_t i = 0; i < ARRAY_COUNT(depths); i++)
        bench(depths[i], is_quick ? 2000 : 400000, is_quick ? 3 : REPEATS_MAX);
    return 0;
}
