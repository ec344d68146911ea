/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_alike_test.c - receives that share memory, and messages that the adapter cannot
 * distinguish.
 *
 *   verbs_alike_test       with MBX_VERBS_LIBRARY=libmbx-adapter.so
 *
 * Checked:
 *   A1  more long messages than a window, to receives that all have one buffer, or buffers that overlap:
 *       all end without an error, and the adapter has had one of these receives.  MPI forbids such receives,
 *       and benchmarks post them
 *   A2  of two rendezvous with one buffer, tag and size, the adapter's FIN ends the one that the adapter
 *       has read, although the other one was sent before it
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/patience.h"
#include "core/core.h"
#include "device/host/offload.h"
#include "device/verbs/verbs_state.h"
#include "forked_job.h"

#define LONG     ((size_t)1 << 20)
#define MESSAGES 64 /* four windows */
#define APART    4096
#define ROUNDS   30
#define BEFORE   3 /* messages after which memory stays registered */
#define TAG      5

enum { MEET = 1, DATA, GO }; /* context ids */

static const char *const params[] = {"TRANSPORT=verbs", "DEVICE=verbs", "PEER_TIMEOUT=900s",
                                     NULL};

static struct mbx_ep *open_and_meet(struct forked_job *job, int rank)
{
    struct mbx_ep *ep = forked_open(job, rank, params);

    MUST(ep->offload != NULL, 20);
    if (rank == 1) {
        MUST(forked_signal(ep, 0, MEET) == 0, 21);
        MUST(forked_receive(ep, 0, MEET) == 0, 22);
    } else {
        MUST(forked_receive(ep, 1, MEET) == 0, 23);
        MUST(forked_signal(ep, 1, MEET) == 0, 24);
    }
    return ep;
}

static void wait_for(struct mbx_ep *ep, mbx_request request, int code)
{
    struct mbx_completion done;

    MUST(mbx_wait(ep, request, PATIENCE_NS, &done) == 0 && done.error == 0, code);
}

/* ---- A1 ---- */

static void receive_into_one(struct mbx_ep *ep, size_t apart)
{
    const size_t size = LONG + (MESSAGES - 1) * apart;
    mbx_request requests[MESSAGES];
    unsigned char *buffer = calloc(1, size);

    MUST(buffer != NULL, 30);
    for (size_t i = 0; i < MESSAGES; i++)
        MUST(mbx_recv(ep, 1, DATA, TAG, 0, buffer + i * apart, LONG, NULL, &requests[i]) == 0,
             31);
    MUST(forked_signal(ep, 1, GO) == 0, 32);
    for (size_t i = 0; i < MESSAGES; i++)
        wait_for(ep, requests[i], 33);
    for (size_t at = 0; at < size; at++)
        MUST(buffer[at] == 'x', 34);
    free(buffer);
}

static void send_all(struct mbx_ep *ep, const unsigned char *bytes)
{
    mbx_request requests[MESSAGES];

    MUST(forked_receive(ep, 0, GO) == 0, 35);
    for (int i = 0; i < MESSAGES; i++)
        MUST(mbx_send(ep, 0, DATA, TAG, bytes, LONG, NULL, &requests[i]) == 0, 36);
    for (int i = 0; i < MESSAGES; i++)
        wait_for(ep, requests[i], 37);
}

static void play_one_buffer(struct forked_job *job, int rank, const void *arg)
{
    const size_t apart = *(const size_t *)arg;
    struct mbx_ep *ep = open_and_meet(job, rank);
    unsigned char *bytes = malloc(LONG);
    struct stats stats;

    MUST(bytes != NULL, 25);
    memset(bytes, 'x', LONG);
    for (int i = 0; i < ROUNDS; i++) {
        if (rank == 0)
            receive_into_one(ep, apart);
        else
            send_all(ep, bytes);
    }
    stats_read(ep, &stats);
    MUST(rank == 1 || stats.device_clashed >= ROUNDS, 26);
    MUST(rank == 1 || stats.device_matched >= ROUNDS, 27);
    free(bytes);
    forked_close(ep);
}

static void run(forked_fn *fn, const void *arg)
{
    struct forked_job job;

    forked_start(&job, 2, fn, arg);
    forked_wait(&job);
    for (int i = 0; i < job.count; i++)
        assert_int_equal(job.statuses[i], 0);
    forked_end(&job);
}

static void receives_into_one_buffer_end(UNUSED void **state)
{
    const size_t apart = 0;

    run(play_one_buffer, &apart);
}

static void receives_into_buffers_that_overlap_end(UNUSED void **state)
{
    const size_t apart = APART;

    run(play_one_buffer, &apart);
}

/* ---- A2 ---- */

static void await_device(struct mbx_ep *ep)
{
    const struct shadow *shadow = &ep->offload->shadow;

    while (shadow->stats.in_device != 1 || shadow->handled != shadow->reported ||
           verbs_of(ep->offload->device)->in_flight != 0)
        mbx_progress(ep);
}

static void receive_second_first(struct mbx_ep *ep)
{
    unsigned char *first = malloc(LONG), *second = malloc(LONG);
    mbx_request received;
    mbx_message message;
    struct mbx_status status;

    MUST(first != NULL && second != NULL, 40);
    for (int i = 0; i < BEFORE; i++) {
        MUST(mbx_recv(ep, 1, DATA, TAG + 1, 0, first, LONG, NULL, &received) == 0, 41);
        wait_for(ep, received, 42);
    }
    while (mbx_mprobe(ep, 1, DATA, TAG, 0, &status, &message) == 0)
        mbx_progress(ep);
    MUST(mbx_recv(ep, 1, DATA, TAG, 0, second, LONG, NULL, &received) == 0, 43);
    await_device(ep);
    MUST(forked_signal(ep, 1, GO) == 0, 44);
    wait_for(ep, received, 45);
    MUST(forked_receive(ep, 1, GO) == 0, 46);
    MUST(mbx_mrecv(ep, message, first, LONG, NULL, &received) == 0, 47);
    wait_for(ep, received, 48);
    MUST(memcmp(first, second, LONG) == 0 && first[0] == 'x', 49);
    free(first);
    free(second);
}

static void send_alike(struct mbx_ep *ep)
{
    unsigned char *bytes = malloc(LONG);
    mbx_request first, second;
    struct mbx_completion done;

    MUST(bytes != NULL, 50);
    memset(bytes, 'x', LONG);
    for (int i = 0; i < BEFORE; i++) { /* so that the memory stays registered, with one key */
        MUST(mbx_send(ep, 0, DATA, TAG + 1, bytes, LONG, NULL, &first) == 0, 51);
        wait_for(ep, first, 52);
    }
    MUST(mbx_send(ep, 0, DATA, TAG, bytes, LONG, NULL, &first) == 0, 53);
    MUST(forked_receive(ep, 0, GO) == 0, 54);
    MUST(mbx_send(ep, 0, DATA, TAG, bytes, LONG, NULL, &second) == 0, 55);
    wait_for(ep, second, 56);
    MUST(mbx_wait(ep, first, 0, &done) == -ETIMEDOUT, 57);
    MUST(forked_signal(ep, 0, GO) == 0, 58);
    wait_for(ep, first, 59);
    free(bytes);
}

static void play_alike(struct forked_job *job, int rank, const void *arg)
{
    struct mbx_ep *ep = open_and_meet(job, rank);

    (void)arg;
    if (rank == 0)
        receive_second_first(ep);
    else
        send_alike(ep);
    forked_close(ep);
}

static void a_fin_ends_the_message_that_was_read(UNUSED void **state)
{
    run(play_alike, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receives_into_one_buffer_end),
        cmocka_unit_test(receives_into_buffers_that_overlap_end),
        cmocka_unit_test(a_fin_ends_the_message_that_was_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
