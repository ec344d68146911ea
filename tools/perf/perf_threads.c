/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_threads.c - `mbx perf rate --threads N`: threads of one rank send to as many of the other.
 *
 * Thread t of rank 0 sends windows to thread t of rank 1, with context id t and its own requests, as
 * a program with MPI_THREAD_MULTIPLE and a communicator for each thread does.  All use one
 * endpoint, with MBX_THREADS=many.  A block begins when all threads of both ranks are ready, and ends
 * when the last thread of rank 0 has its last answer.
 */
#include "perf.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"

#define DATA_TAG   2
#define ANSWER_TAG 3

struct team {
    struct perf *p;
    const struct perf_case *c;
    uint64_t windows; /* per thread and block */
    pthread_barrier_t barrier;
    double ns[PERF_REPEATS + 1];
};

struct member {
    struct team *team;
    pthread_t thread;
    uint32_t number;
    uint8_t *buffer;
    mbx_request *requests; /* for a window */
};

/* After an error the threads of both ranks would wait for this one: ends the job. */
static void must(const struct member *m, int err)
{
    if (err == 0)
        return;
    tool_error(m->team->p->tool, "rank %u, thread %u cannot measure: %s", m->team->p->rank,
               m->number, mbx_strerror(err));
    exit(TOOL_FAILED);
}

static int post_window(const struct member *m)
{
    const struct perf_case *c = m->team->c;
    struct perf *p = m->team->p;
    int err = 0;

    for (uint32_t i = 0; i < c->window && err == 0; i++)
        err = mbx_recv(p->ep, p->peer, m->number, DATA_TAG, 0, m->buffer, c->size, NULL,
                       &m->requests[i]);
    return err;
}

static int wait_window(const struct member *m)
{
    int err = 0;

    for (uint32_t i = 0; i < m->team->c->window && err == 0; i++)
        err = perf_wait(m->team->p, m->requests[i], m->team->c->size);
    return err;
}

static int send_window(const struct member *m)
{
    const struct perf_case *c = m->team->c;
    struct perf *p = m->team->p;
    mbx_request answer;
    int err = mbx_recv(p->ep, p->peer, m->number, ANSWER_TAG, 0, NULL, 0, NULL, &answer);

    for (uint32_t i = 0; i < c->window && err == 0; i++)
        err = mbx_send(p->ep, p->peer, m->number, DATA_TAG, p->send, c->size, NULL,
                       &m->requests[i]);
    if (err == 0)
        err = wait_window(m);
    return err != 0 ? err : perf_wait(p, answer, 0);
}

static int recv_window(const struct member *m, bool is_last)
{
    struct perf *p = m->team->p;
    int err = wait_window(m);

    if (err == 0 && !is_last)
        err = post_window(m);
    return err != 0 ? err : mbx_inject(p->ep, p->peer, m->number, ANSWER_TAG, NULL, 0, 0);
}

/* A barrier for all threads of this rank; the first one also waits for the other rank, and
 * starts the clock before it releases the others. */
static void meet(const struct member *m, uint64_t *start)
{
    pthread_barrier_wait(&m->team->barrier);
    if (m->number == 0)
        must(m, mbx_job_fence(m->team->p->job));
    *start = clock_now();
    pthread_barrier_wait(&m->team->barrier);
}

static void run_block(struct member *m, int block)
{
    struct team *team = m->team;
    uint64_t start;

    if (team->p->rank == 1)
        must(m, post_window(m));
    meet(m, &start);
    for (uint64_t i = 0; i < team->windows; i++)
        must(m, team->p->rank == 0 ? send_window(m) : recv_window(m, i + 1 == team->windows));
    pthread_barrier_wait(&team->barrier);
    if (m->number != 0)
        return;
    team->ns[block] =
        (double)(clock_now() - start) /
        ((double)team->windows * (double)team->c->window * (double)team->c->threads);
    must(m, perf_end_together(team->p));
}

static void *run_member(void *arg)
{
    struct member *m = arg;

    for (int i = 0; i <= PERF_REPEATS; i++)
        run_block(m, i);
    return NULL;
}

static int make_member(struct member *m, struct team *team, uint32_t number)
{
    *m = (struct member){.team = team, .number = number};
    m->buffer = mem_alloc_aligned(CACHE_LINE, max_size(team->c->size, CACHE_LINE));
    m->requests = mem_calloc(team->c->window, sizeof *m->requests);
    return m->buffer != NULL && m->requests != NULL ? 0 : -ENOMEM;
}

static void print(const struct team *team)
{
    double ns[PERF_REPEATS];
    struct perf_times times;

    memcpy(ns, team->ns + 1, sizeof ns); /* the first block was a warm-up */
    times = perf_summary(ns, PERF_REPEATS);
    perf_say(team->p->json,
             "perf=rate size=%zu window=%u threads=%u median_messages_per_s=%.0f "
             "max_messages_per_s=%.0f repeats=%d",
             team->c->size, team->c->window, team->c->threads, 1e9 / times.median,
             1e9 / times.min, PERF_REPEATS);
}

static int run_team(struct team *team, struct member *members)
{
    uint32_t count = team->c->threads;
    int err = 0;

    for (uint32_t i = 0; i < count && err == 0; i++)
        err = make_member(&members[i], team, i);
    if (err != 0)
        return err;
    for (uint32_t i = 1; i < count; i++)
        must(&members[i], -pthread_create(&members[i].thread, NULL, run_member, &members[i]));
    run_member(&members[0]);
    for (uint32_t i = 1; i < count; i++)
        pthread_join(members[i].thread, NULL);
    return 0;
}

int perf_rate_of_threads(struct perf *p, const struct perf_case *c)
{
    struct team team = {.p = p, .c = c};
    struct member *members = mem_calloc(c->threads, sizeof *members);
    int err = members != NULL ? 0 : -ENOMEM;

    team.windows = c->iterations / PERF_REPEATS / c->window / c->threads + 1;
    if (err == 0)
        err = -pthread_barrier_init(&team.barrier, NULL, c->threads);
    if (err == 0)
        err = run_team(&team, members);
    if (err == 0 && p->rank == 0)
        print(&team);
    for (uint32_t i = 0; members != NULL && i < c->threads; i++) {
        mem_free(members[i].buffer);
        mem_free(members[i].requests);
    }
    mem_free(members);
    return err;
}
