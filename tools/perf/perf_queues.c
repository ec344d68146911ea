/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_queues.c - `mbx perf depth` and `mbx perf flood`: messages that meet long queues.
 *
 * Rank 0 receives, holds the clock and prints; rank 1 sends.  Message i has tag i.
 *
 *   depth, posted       rank 0 posts its receives, tag 0 first, and signals; rank 1 sends, tag 0 last
 *   depth, unexpected   rank 1 sends, tag 0 first, and then signals; rank 0 receives, tag 0 last
 *   flood               rank 1 sends; rank 0 sends questions until all messages are there or several answers in a row
 *                       have brought none, and then receives, tag 0 last
 *
 * Rank 1 answers after it has started all sends, and its answers leave after all messages that can leave without a
 * receive.  So flood does not depend on time: a rank without a core keeps the other one waiting.
 *
 * The clock of depth runs from the moment at which rank 0 has signalled that it is ready, or begins to
 * receive, to the last completion.  With one receive posted this is a round trip.
 */
#include "perf.h"

#include "base/base.h"
#include "base/clock.h"

#define MESSAGES  1 /* context ids */
#define SIGNALS   2
#define QUESTIONS 3
#define QUIET     8 /* flood: answers in a row without a message; credit may come between two */

static int signal_peer(struct perf *p)
{
    return mbx_inject(p->ep, p->peer, SIGNALS, 0, NULL, 0, 0);
}

static int await_signal(struct perf *p)
{
    mbx_request request;
    int err = mbx_recv(p->ep, p->peer, SIGNALS, 0, 0, NULL, 0, NULL, &request);

    return err != 0 ? err : perf_wait(p, request, 0);
}

static int post_one(struct perf *p, size_t size, uint32_t source, uint64_t tag)
{
    return mbx_recv(p->ep, source, MESSAGES, tag, 0, p->recv, size, NULL, NULL);
}

static int send_one(struct perf *p, size_t size, uint64_t tag)
{
    return mbx_send(p->ep, p->peer, MESSAGES, tag, p->send, size, NULL, NULL);
}

/* ---- depth ---- */

static int receive_posted(struct perf *p, const struct perf_case *c, uint32_t source,
                          uint64_t *start)
{
    int err = 0;

    for (uint64_t tag = 0; tag < c->depth && err == 0; tag++)
        err = post_one(p, c->size, source, tag);
    *start = clock_now();
    if (err == 0)
        err = signal_peer(p);
    return err != 0 ? err : perf_collect(p, MBX_RECVS, c->depth);
}

static int receive_unexpected(struct perf *p, const struct perf_case *c, uint32_t source,
                              uint64_t *start)
{
    int err = await_signal(p);

    *start = clock_now();
    for (uint64_t tag = c->depth; tag-- > 0 && err == 0;)
        err = post_one(p, c->size, source, tag);
    return err != 0 ? err : perf_collect(p, MBX_RECVS, c->depth);
}

static int send_all(struct perf *p, const struct perf_case *c, bool is_posted)
{
    int err = is_posted ? await_signal(p) : 0;

    for (uint64_t i = 0; i < c->depth && err == 0; i++)
        err = send_one(p, c->size, is_posted ? c->depth - 1 - i : i);
    if (err == 0 && !is_posted)
        err = signal_peer(p);
    return err != 0 ? err : perf_collect(p, MBX_SENDS, c->depth);
}

static int depth_block(struct perf *p, const struct perf_case *c, bool is_posted,
                       uint32_t source, double *ns)
{
    uint64_t start;
    int err;

    if (p->rank == 1) {
        err = send_all(p, c, is_posted);
        return err != 0 ? err : await_signal(p); /* one block must not overlap the next */
    }
    err = is_posted ? receive_posted(p, c, source, &start)
                    : receive_unexpected(p, c, source, &start);
    *ns = (double)(clock_now() - start) / (double)c->depth;
    return err != 0 ? err : signal_peer(p);
}

static int depth_of(struct perf *p, const struct perf_case *c, bool is_posted, uint32_t source)
{
    double ns[PERF_REPEATS + 1];
    struct perf_times times;

    for (int i = 0; i <= PERF_REPEATS; i++) {
        int err = depth_block(p, c, is_posted, source, &ns[i]);

        if (err != 0)
            return err;
    }
    if (p->rank != 0)
        return 0;
    times = perf_summary(ns + 1, PERF_REPEATS);
    perf_say(p->json,
             "perf=depth queue=%s source=%s depth=%u size=%zu median_ns=%.1f min_ns=%.1f "
             "repeats=%d",
             is_posted ? "posted" : "unexpected", source == MBX_ANY_SOURCE ? "any" : "named",
             c->depth, c->size, times.median, times.min, PERF_REPEATS);
    return 0;
}

int perf_depth(struct perf *p, const struct perf_case *c)
{
    int err = 0;

    for (unsigned i = 0; i < 4 && err == 0; i++)
        err = depth_of(p, c, i < 2, i % 2 == 0 ? p->peer : MBX_ANY_SOURCE);
    return err;
}

/* ---- flood ---- */

static int ask(struct perf *p, bool is_last)
{
    return mbx_inject(p->ep, p->peer, QUESTIONS, 0, &is_last, sizeof is_last, 0);
}

static int answer_all(struct perf *p)
{
    bool is_last = false;
    int err = 0;

    while (err == 0 && !is_last) {
        mbx_request request;

        err =
            mbx_recv(p->ep, p->peer, QUESTIONS, 0, 0, &is_last, sizeof is_last, NULL, &request);
        if (err == 0)
            err = perf_wait(p, request, sizeof is_last);
        if (err == 0 && !is_last)
            err = signal_peer(p);
    }
    return err;
}

/* Waits until the messages that rank 1 can send without a receive have arrived. */
static int await_flood(struct perf *p, const struct perf_case *c, uint64_t *messages,
                       uint64_t *bytes)
{
    int err = 0;

    *messages = 0;
    for (unsigned quiet = 0; quiet < QUIET && *messages < c->iterations && err == 0; quiet++) {
        uint64_t before = *messages;

        err = ask(p, false);
        if (err == 0)
            err = await_signal(p);
        if (err == 0)
            err = mbx_stat_read(p->ep, "unexpected_now", messages);
        if (*messages != before)
            quiet = 0;
    }
    return err != 0 ? err : mbx_stat_read(p->ep, "unexpected_bytes_now", bytes);
}

static int flood_block(struct perf *p, const struct perf_case *c, uint64_t *messages,
                       uint64_t *bytes, double *ns)
{
    uint64_t start;
    int err = 0;

    if (p->rank == 1) {
        for (uint64_t tag = 0; tag < c->iterations && err == 0; tag++)
            err = send_one(p, c->size, tag);
        if (err == 0)
            err = answer_all(p);
        if (err == 0)
            err = perf_collect(p, MBX_SENDS, c->iterations);
        return err != 0 ? err : await_signal(p);
    }
    err = await_flood(p, c, messages, bytes);
    if (err == 0)
        err = ask(p, true);
    start = clock_now();
    for (uint64_t tag = c->iterations; tag-- > 0 && err == 0;)
        err = post_one(p, c->size, p->peer, tag);
    if (err == 0)
        err = perf_collect(p, MBX_RECVS, c->iterations);
    *ns = (double)(clock_now() - start) / (double)c->iterations;
    return err != 0 ? err : signal_peer(p);
}

int perf_flood(struct perf *p, const struct perf_case *c)
{
    uint64_t messages = 0, bytes = 0;
    double ns[PERF_REPEATS + 1];
    struct perf_times times;

    for (int i = 0; i <= PERF_REPEATS; i++) {
        int err = flood_block(p, c, &messages, &bytes, &ns[i]);

        if (err != 0)
            return err;
    }
    if (p->rank != 0)
        return 0;
    times = perf_summary(ns + 1, PERF_REPEATS);
    perf_say(p->json,
             "perf=flood size=%zu messages=%llu kept_messages=%llu kept_bytes=%llu "
             "receive_median_ns=%.1f receive_min_ns=%.1f repeats=%d",
             c->size, (unsigned long long)c->iterations, (unsigned long long)messages,
             (unsigned long long)bytes, times.median, times.min, PERF_REPEATS);
    return 0;
}
