/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Question   what does the lock of an endpoint cost one thread, and do two threads, each on
 *            its own context id, slow each other down: through two endpoints, and through one?
 * Method     the measured thread does rounds of {post, send to itself, wait for the receive,
 *            wait for the send}, 8 bytes over shared memory.  On another core, if there is
 *            one, at the same time: nothing (workers=1), or a second thread with the same
 *            work (workers=2), on another endpoint (endpoints=2) or on this one
 *            (endpoints=1).  The cases take turns, repeat by repeat.
 *            wall_ns and cpu_ns are the medians of a round of the measured thread, by the
 *            clock and in processor time.  Other load on the machine increases the first, and
 *            so does the other worker while it has the lock and we sleep.  The ratios are to
 *            the first case: one thread, no lock.
 *
 *   bench=endpoint_threads threads=many endpoints=1 workers=1 wall_ns=230.1 cpu_ns=229.8
 *       wall_over_alone=1.15 cpu_over_alone=1.14 repeats=15          (one line)
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <matchbox/matchbox.h>

#define REPEATS_MAX 15

static const struct bench_case {
    bool is_many; /* MBX_THREADS */
    int endpoints, workers;
} cases[] = {
    {false, 1, 1},
    {true, 1, 1},
    {false, 2, 2},
    {true, 1, 2},
};
#define CASES ((int)(sizeof cases / sizeof cases[0]))

struct worker {
    struct mbx_ep *ep;
    uint32_t self, context_id;
};

/* The state of the other worker. */
static _Atomic bool is_running, is_over;

static void require(int result, const char *what)
{
    if (result >= 0)
        return;
    fprintf(stderr, "endpoint_threads: %s: %s\n", what, mbx_strerror(result));
    exit(1);
}

/* Binds the thread to the nth processor that we may use, if there are so many. */
static void pin(int nth)
{
    cpu_set_t may, one;

    if (sched_getaffinity(0, sizeof may, &may) != 0 || CPU_COUNT(&may) < 2)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &may) || nth-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one); /* may fail */
        return;
    }
}

static double now_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void worker_open(struct worker *w, uint32_t context_id, bool is_many)
{
    const char *const params[] = {"TRANSPORT=shm", is_many ? "THREADS=many" : "THREADS=one",
                                  NULL};
    struct mbx_address address;

    w->context_id = context_id;
    require(mbx_open(&(struct mbx_config){.params = params}, &w->ep), "mbx_open");
    require(mbx_address_get(w->ep, &address), "mbx_address_get");
    require(mbx_peer_add(w->ep, &address, &w->self), "mbx_peer_add");
}

static void work(struct worker *w, uint64_t rounds)
{
    mbx_request sent, received;
    uint64_t in = 0;

    for (uint64_t i = 1; i <= rounds; i++) {
        require(mbx_recv(w->ep, w->self, w->context_id, 1, 0, &in, sizeof in, NULL, &received),
                "mbx_recv");
        require(mbx_send(w->ep, w->self, w->context_id, 1, &i, sizeof i, NULL, &sent),
                "mbx_send");
        require(mbx_wait(w->ep, received, -1, NULL), "mbx_wait of the receive");
        require(mbx_wait(w->ep, sent, -1, NULL), "mbx_wait of the send");
        require(in == i ? 0 : -EBADMSG, "the content of a message");
    }
}

/* Works until the measured thread has finished. */
static void *work_beside(void *arg)
{
    pin(1);
    atomic_store(&is_running, true);
    while (!atomic_load_explicit(&is_over, memory_order_relaxed))
        work(arg, 64);
    return NULL;
}

/* Nanoseconds per round. */
struct measured {
    double wall, cpu;
};

static struct measured measure_beside(struct worker *first, struct worker *beside,
                                      uint64_t rounds)
{
    struct measured m;
    pthread_t thread;

    atomic_store(&is_running, false);
    atomic_store(&is_over, false);
    if (beside != NULL)
        require(-pthread_create(&thread, NULL, work_beside, beside), "a second thread");
    while (beside != NULL && !atomic_load(&is_running))
        sched_yield();
    work(first, rounds / 4); /* fills the caches */
    m = (struct measured){now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_THREAD_CPUTIME_ID)};
    work(first, rounds);
    m.cpu = (now_ns(CLOCK_THREAD_CPUTIME_ID) - m.cpu) / (double)rounds;
    m.wall = (now_ns(CLOCK_MONOTONIC) - m.wall) / (double)rounds;
    atomic_store(&is_over, true);
    if (beside != NULL)
        pthread_join(thread, NULL);
    return m;
}

static struct measured measure(const struct bench_case *c, uint64_t rounds)
{
    struct worker first, second;
    struct measured m;

    worker_open(&first, 1, c->is_many);
    second = first;
    second.context_id = 2;
    if (c->endpoints == 2)
        worker_open(&second, 2, c->is_many);
    m = measure_beside(&first, c->workers == 2 ? &second : NULL, rounds);
    if (c->endpoints == 2)
        require(mbx_close(second.ep), "mbx_close");
    require(mbx_close(first.ep), "mbx_close");
    return m;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void bench(uint64_t rounds, int repeats)
{
    double wall[CASES][REPEATS_MAX], cpu[CASES][REPEATS_MAX];

    for (int r = 0; r < repeats; r++) {
        for (int i = 0; i < CASES; i++) {
            struct measured m = measure(&cases[i], rounds);

            wall[i][r] = m.wall;
            cpu[i][r] = m.cpu;
        }
    }
    for (int i = 0; i < CASES; i++) {
        qsort(wall[i], (size_t)repeats, sizeof wall[i][0], compare);
        qsort(cpu[i], (size_t)repeats, sizeof cpu[i][0], compare);
        printf("bench=endpoint_threads threads=%s endpoints=%d workers=%d wall_ns=%.1f "
               "cpu_ns=%.1f wall_over_alone=%.2f cpu_over_alone=%.2f repeats=%d\n",
               cases[i].is_many ? "many" : "one", cases[i].endpoints, cases[i].workers,
               wall[i][repeats / 2], cpu[i][repeats / 2],
               wall[i][repeats / 2] / wall[0][repeats / 2],
               cpu[i][repeats / 2] / cpu[0][repeats / 2], repeats);
    }
}

int main(int argc, char **argv)
{
    bool is_quick = argc == 2 && strcmp(argv[1], "--quick") == 0;

    if (argc > 1 && !is_quick) {
        bool is_help = argc == 2 && strcmp(argv[1], "--help") == 0;

        fprintf(is_help ? stdout : stderr, "usage: endpoint_threads [--quick]\n");
        if (!is_help)
            fprintf(stderr, "endpoint_threads: there is no argument '%s'\n", argv[1]);
        return is_help ? 0 : 2;
    }
    pin(0);
    bench(is_quick ? 500 : 100000, is_quick ? 3 : REPEATS_MAX);
    return 0;
}
