/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_measure.c - latency and bandwidth, and code shared by all measurements.
 *
 * Rank 0 holds the clock.  Every measurement is PERF_REPEATS blocks of equal work, after
 * one that does not count; the median and the best block are printed.
 *
 *   lat        rank 0 sends and waits for the answer; both have posted their receive
 *              before the message can come, and answer before they post the next
 *   bw         rank 0 sends a window; rank 1 answers with an empty message when it
 *              has received all of it and has posted the receives of the next window
 */
#include "perf.h"
#include "tools/common/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"

#define END_TAG 4
#define ENTRIES 64

int perf_wait(struct perf *p, mbx_request request, size_t size)
{
    struct mbx_completion done;
    int err;

    do {
        err = mbx_wait(p->ep, request, -1, &done);
    } while (err == -EINTR);
    if (err == 0)
        err = done.error;
    return err == 0 && done.received != size ? -EBADMSG : err;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

struct perf_times perf_summary(double *times, size_t count)
{
    qsort(times, count, sizeof *times, compare_times);
    return (struct perf_times){.min = times[0], .median = times[count / 2]};
}

void perf_say(bool json, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (json)
        json_line(line);
    else
        puts(line);
    fflush(stdout);
}

/* ---- lat ---- */

static int start_recv(struct perf *p, size_t size, mbx_request *request)
{
    return mbx_recv(p->ep, p->peer, 0, PERF_DATA_TAG, 0, p->recv, size, NULL, request);
}

static int start_send(struct perf *p, size_t size, mbx_request *request)
{
    return mbx_send(p->ep, p->peer, 0, PERF_DATA_TAG, p->send, size, NULL, request);
}

/* Half a round: sends, and posts the next receive while the message is in flight, so that the
 * next answer finds its receive posted and leaves at once. */
static int send_and_post(struct perf *p, size_t size, bool more, mbx_request *received)
{
    mbx_request sent;
    int err = start_send(p, size, &sent);

    if (err == 0)
        err = perf_wait(p, sent, size);
    return err == 0 && more ? start_recv(p, size, received) : err;
}

static int ping(struct perf *p, size_t size, uint64_t count)
{
    mbx_request received[2]; /* for this round and the next */
    int err = start_recv(p, size, &received[0]);

    for (uint64_t i = 0; i < count && err == 0; i++) {
        err = send_and_post(p, size, i + 1 < count, &received[(i + 1) % 2]);
        if (err == 0)
            err = perf_wait(p, received[i % 2], size);
    }
    return err;
}

static int pong(struct perf *p, size_t size, uint64_t count)
{
    mbx_request received[2];
    int err = start_recv(p, size, &received[0]);

    if (err == 0 && count > 1)
        err = start_recv(p, size, &received[1]);
    for (uint64_t i = 0; i < count && err == 0; i++) {
        err = perf_wait(p, received[i % 2], size);
        if (err == 0)
            err = send_and_post(p, size, i + 2 < count, &received[i % 2]);
    }
    return err;
}

static int latency_block(struct perf *p, const struct perf_case *c, uint64_t count,
                         double *half_ns)
{
    uint64_t start;
    int err = mbx_job_fence(p->job); /* the receive of the first ping is posted late */

    if (err != 0)
        return err;
    start = clock_now();
    err = p->rank == 0 ? ping(p, c->size, count) : pong(p, c->size, count);
    *half_ns = (double)(clock_now() - start) / (2.0 * (double)count);
    return err;
}

static void print_latency(const struct perf *p, const struct perf_case *c, uint64_t messages,
                          double *half, double *line)
{
    struct perf_times h = perf_summary(half, PERF_REPEATS);
    struct perf_times l;

    if (p->line == NULL) {
        perf_say(p->json,
                 "perf=lat size=%zu half_rtt_median_ns=%.1f half_rtt_min_ns=%.1f messages=%llu "
                 "repeats=%d",
                 c->size, h.median, h.min, (unsigned long long)messages, PERF_REPEATS);
        return;
    }
    l = perf_summary(line, PERF_REPEATS);
    perf_say(
        p->json,
        "perf=lat size=%zu half_rtt_median_ns=%.1f half_rtt_min_ns=%.1f line_median_ns=%.1f "
        "line_min_ns=%.1f ratio_median=%.2f ratio_min=%.2f messages=%llu repeats=%d",
        c->size, h.median, h.min, l.median, l.min, h.median / l.median, h.min / l.min,
        (unsigned long long)messages, PERF_REPEATS);
}

int perf_latency(struct perf *p, const struct perf_case *c)
{
    double half[PERF_REPEATS + 1], line[PERF_REPEATS + 1];
    uint64_t count = c->iterations / PERF_REPEATS + 1;

    for (int i = 0; i <= PERF_REPEATS; i++) {
        int err = latency_block(p, c, count, &half[i]);

        if (err != 0)
            return err;
        if (p->line != NULL)
            line[i] = perf_line_flip(p, max_size(count, 100));
    }
    if (p->rank == 0) /* the first block was a warm-up */
        print_latency(p, c, count * PERF_REPEATS, half + 1, line + 1);
    return 0;
}

/* ---- bw ---- */

/* Takes completed sends and receives until `count` were seen. */
int perf_collect(struct perf *p, unsigned queues, uint64_t count)
{
    struct mbx_completion done[ENTRIES];

    while (count > 0) {
        int n = mbx_poll(p->ep, queues, done, (int)min_size(count, ENTRIES));

        if (n == 0 && (n = mbx_wait_queues(p->ep, queues, -1)) == -EINTR)
            n = 0;
        if (n < 0)
            return n;
        for (int i = 0; i < n; i++)
            if (done[i].error != 0)
                return done[i].error;
        count -= (uint64_t)n;
    }
    return 0;
}

static int post_window(struct perf *p, const struct perf_case *c)
{
    int err = 0;

    for (uint32_t i = 0; i < c->window && err == 0; i++)
        err = mbx_recv(p->ep, p->peer, 0, PERF_DATA_TAG, 0, p->recv, c->size, NULL, NULL);
    return err;
}

static int answer(struct perf *p)
{
    return mbx_inject(p->ep, p->peer, 0, PERF_ANSWER_TAG, NULL, 0, 0);
}

static int send_window(struct perf *p, const struct perf_case *c)
{
    int err = mbx_recv(p->ep, p->peer, 0, PERF_ANSWER_TAG, 0, NULL, 0, NULL, NULL);

    for (uint32_t i = 0; i < c->window && err == 0; i++)
        err = mbx_send(p->ep, p->peer, 0, PERF_DATA_TAG, p->send, c->size, NULL, NULL);
    return err != 0 ? err : perf_collect(p, MBX_SENDS | MBX_RECVS, (uint64_t)c->window + 1);
}

/* The receives of this window are posted. */
static int recv_window(struct perf *p, const struct perf_case *c, bool is_last)
{
    int err = perf_collect(p, MBX_RECVS, c->window);

    if (err == 0 && !is_last)
        err = post_window(p, c);
    return err != 0 ? err : answer(p);
}

/* Rank 0 has received everything, and tells rank 1.  Until then rank 1 makes progress: its last
 * answers may still be queued, and mbx_job_fence() sends nothing. */
int perf_end_together(struct perf *p)
{
    mbx_request request;
    int err;

    /* complete before the fence that follows: the fence makes no progress of messages */
    err = p->rank == 0 ? mbx_send(p->ep, p->peer, 0, END_TAG, NULL, 0, NULL, &request)
                       : mbx_recv(p->ep, p->peer, 0, END_TAG, 0, NULL, 0, NULL, &request);
    return err != 0 ? err : perf_wait(p, request, 0);
}

static int stream_block(struct perf *p, const struct perf_case *c,
                        const struct perf_stream *stream, uint64_t windows, double *ns)
{
    uint64_t start;
    int err = p->rank == 1 ? stream->post(p, c) : 0;

    if (err == 0)
        err = mbx_job_fence(p->job);
    start = clock_now();
    for (uint64_t i = 0; i < windows && err == 0; i++)
        err = p->rank == 0 ? stream->send(p, c) : stream->recv(p, c, i + 1 == windows);
    *ns = (double)(clock_now() - start) / (double)(windows * c->window);
    return err != 0 ? err : perf_end_together(p);
}

int perf_stream(struct perf *p, const struct perf_case *c, const struct perf_stream *stream,
                struct perf_times *times)
{
    double ns[PERF_REPEATS + 1];
    uint64_t windows = c->iterations / PERF_REPEATS / c->window + 1;

    for (int i = 0; i <= PERF_REPEATS; i++) {
        int err = stream_block(p, c, stream, windows, &ns[i]);

        if (err != 0)
            return err;
    }
    *times = perf_summary(ns + 1, PERF_REPEATS);
    return 0;
}

int perf_bandwidth(struct perf *p, const struct perf_case *c)
{
    static const struct perf_stream stream = {post_window, send_window, recv_window};
    struct perf_times t;
    int err = perf_stream(p, c, &stream, &t);

    if (err == 0 && p->rank == 0)
        perf_say(p->json,
                 "perf=bw size=%zu window=%u median_MB_per_s=%.1f max_MB_per_s=%.1f repeats=%d",
                 c->size, c->window, 1e3 * (double)c->size / t.median,
                 1e3 * (double)c->size / t.min, PERF_REPEATS);
    return err;
}
