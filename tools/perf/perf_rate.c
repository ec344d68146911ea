/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf_rate.c - `mbx perf rate`: the number of messages per second in one direction.
 *
 * Rank 0 sends a window.  Rank 1 answers with an empty message when it has received all of it, and then
 * posts the receives of the next window, while rank 0 sends that.  It is the loop of the MPI programs in bench/
 * ({MPI_Irecv ..., MPI_Waitall, MPI_Send}), with the calls that suit a program of many short messages:
 *
 *   mbx_try_send    a message that leaves at once has no request; mbx_send() sends what does not
 *   MBX_DONE        a completed receive is counted by a callback, and has no completion entry
 */
#include "perf.h"

#include <errno.h>

#include "base/base.h"

/* Empty polls before rank 1 sleeps: some 50 us. */
#define LOOKS_AWAKE 2048u

static void count_received(const struct mbx_completion *completion)
{
    struct perf *p = completion->user;

    p->received++;
    if (completion->error != 0)
        p->error = completion->error;
}

static int post_window(struct perf *p, const struct perf_case *c)
{
    const struct mbx_options options = {.user = p, .flags = MBX_DONE, .done = count_received};
    int err = 0;

    for (uint32_t i = 0; i < c->window && err == 0; i++)
        err = mbx_recv(p->ep, p->peer, 0, PERF_DATA_TAG, 0, p->recv, c->size, &options, NULL);
    return err;
}

/* Polls once, or sleeps after too many empty polls. */
static int look_for_received(struct perf *p, unsigned *in_vain)
{
    int err;

    if (mbx_progress(p->ep) > 0) {
        *in_vain = 0;
        return 0;
    }
    if (++*in_vain < LOOKS_AWAKE)
        return 0;
    err = mbx_sleep(p->ep, -1, NULL);
    return err == -EINTR ? 0 : err;
}

static int await_received(struct perf *p, uint64_t count)
{
    unsigned in_vain = 0;
    int err = 0;

    while (p->received < count && p->error == 0 && err == 0)
        err = look_for_received(p, &in_vain);
    p->received -= count;
    return err != 0 ? err : p->error;
}

/* A message that has left at once is complete, and has no completion entry. */
static int send_one(struct perf *p, size_t size, uint64_t *entries)
{
    int sent = mbx_try_send(p->ep, p->peer, 0, PERF_DATA_TAG, p->send, size, 0);

    if (sent != 0)
        return sent < 0 ? sent : 0;
    ++*entries;
    return mbx_send(p->ep, p->peer, 0, PERF_DATA_TAG, p->send, size, NULL, NULL);
}

static int send_window(struct perf *p, const struct perf_case *c)
{
    mbx_request answer;
    int err = mbx_recv(p->ep, p->peer, 0, PERF_ANSWER_TAG, 0, NULL, 0, NULL, &answer);
    uint64_t entries = 0;

    for (uint32_t i = 0; i < c->window && err == 0; i++)
        err = send_one(p, c->size, &entries);
    if (err == 0)
        err = perf_wait(p, answer, 0);
    return err != 0 ? err : perf_collect(p, MBX_SENDS, entries);
}

/* The receives of this window are posted. */
static int recv_window(struct perf *p, const struct perf_case *c, bool is_last)
{
    int err = await_received(p, c->window);

    if (err == 0)
        err = mbx_inject(p->ep, p->peer, 0, PERF_ANSWER_TAG, NULL, 0, 0);
    return err == 0 && !is_last ? post_window(p, c) : err;
}

int perf_rate(struct perf *p, const struct perf_case *c)
{
    static const struct perf_stream stream = {post_window, send_window, recv_window};
    struct perf_times t;
    int err = perf_stream(p, c, &stream, &t);

    if (err == 0 && p->rank == 0)
        perf_say(p->json,
                 "perf=rate size=%zu window=%u median_messages_per_s=%.0f "
                 "max_messages_per_s=%.0f repeats=%d",
                 c->size, c->window, 1e9 / t.median, 1e9 / t.min, PERF_REPEATS);
    return err;
}
