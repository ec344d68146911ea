/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errors_test.c - every wrong use has its documented answer, and disturbs nobody else.
 *
 * Each test ends with an ordinary exchange between the same endpoints.
 */
#include "cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"

#define CONTEXT 3

/* The cluster still works: moves one message each way, and one to oneself. */
static void exchange(struct cluster *cl, int a, int b)
{
    const int ways[][2] = {{a, b}, {b, a}, {a, a}};

    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        int from = ways[i][0], to = ways[i][1];
        mbx_request send, recv;
        int sent = 4711 + (int)i, got = 0;

        assert_int_equal(
            mbx_recv(cl->eps[to], (uint32_t)from, 999, 5, 0, &got, sizeof got, NULL, &recv), 0);
        assert_int_equal(
            mbx_send(cl->eps[from], (uint32_t)to, 999, 5, &sent, sizeof sent, NULL, &send), 0);
        cluster_wait_error(cl, to, recv, 0);
        cluster_wait_error(cl, from, send, 0);
        assert_int_equal(got, sent);
    }
}

/* ---- tags ---- */

#ifdef MBX_ANY_TAG
#error "a tag that looks like any tag and is none"
#endif

/* The receives are posted in this order: a tag of all ones, a tag of all zeros, any tag.  A
 * message with an ordinary tag matches the last. */
static void test_no_tag_stands_for_any(void **state)
{
    const struct {
        uint64_t tag, ignore;
    } receives[] = {{UINT64_MAX, 0}, {0, 0}, {0, MBX_IGNORE_ALL}};
    const uint64_t tags[] = {7, UINT64_MAX, 0};
    const int wanted[] = {1, 2, 0}; /* the message that a receive gets */
    mbx_request requests[3];
    struct cluster cl;
    int got[3];

    cluster_open(&cl, *state, 2, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, receives[i].tag, receives[i].ignore,
                                  &got[i], sizeof got[i], NULL, &requests[i]),
                         0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, tags[i], &i, sizeof i, 0), 0);
    for (int i = 0; i < 3; i++) {
        cluster_wait_error(&cl, 1, requests[i], 0);
        assert_int_equal(got[i], wanted[i]);
    }
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* ---- truncation ---- */

static void truncate_one(struct cluster *cl, size_t size, size_t capacity, bool late, bool sync)
{
    const unsigned char *data = seeded_bytes(0, size);
    mbx_request send = 0, recv = 0;
    struct mbx_completion done;
    struct guarded_buffer to;

    guarded_buffer_init(&to, capacity, 0);
    if (!late)
        assert_int_equal(
            mbx_recv(cl->eps[1], 0, CONTEXT, 1, 0, to.bytes, capacity, NULL, &recv), 0);
    assert_int_equal(
        (sync ? mbx_ssend : mbx_send)(cl->eps[0], 1, CONTEXT, 1, data, size, NULL, &send), 0);
    if (late) {
        cluster_settle(cl);
        assert_int_equal(
            mbx_recv(cl->eps[1], 0, CONTEXT, 1, 0, to.bytes, capacity, NULL, &recv), 0);
    }
    cluster_wait(cl, 1, recv, &done);
    assert_int_equal(done.error, -EMSGSIZE);
    assert_int_equal(done.received, capacity);
    assert_int_equal(done.status.size, size);
    assert_memory_equal(to.bytes, data, capacity);
    guarded_buffer_fini(&to, capacity);
    cluster_wait_error(cl, 0, send, 0);
}

static void test_truncation(void **state)
{
    struct cluster cl;
    uint64_t truncated = 0;

    cluster_open(&cl, *state, 2, NULL);
    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++) {
        size_t size = cluster_size_of(&cl, (enum mbx_protocol)protocol);
        const size_t capacities[] = {size - 1, size / 2, 1, 0};

        for (size_t i = 0; size > 1 && i < ARRAY_COUNT(capacities); i++) {
            for (int how = 0; how < 4; how++, truncated++)
                truncate_one(&cl, size, capacities[i], how & 1, how & 2);
        }
    }
    assert_int_equal(cluster_stats(&cl, 1).truncated, truncated);
    assert_true(truncated >= 16);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* ---- arguments ---- */

static void test_wrong_arguments_of_sends(void **state)
{
    const struct mbx_options unknown = {.flags = 1u << 7};
    mbx_request request = 77;
    struct cluster cl;
    char byte = 1;

    cluster_open(&cl, *state, 2, NULL);
    for (int sync = 0; sync < 2; sync++) {
        int (*send)(struct mbx_ep *, uint32_t, uint32_t, uint64_t, const void *, size_t,
                    const struct mbx_options *, mbx_request *) = sync ? mbx_ssend : mbx_send;

        assert_int_equal(send(cl.eps[0], 2, CONTEXT, 0, &byte, 1, NULL, &request), -EINVAL);
        assert_int_equal(send(cl.eps[0], MBX_ANY_SOURCE, CONTEXT, 0, &byte, 1, NULL, &request),
                         -EINVAL);
        assert_int_equal(send(cl.eps[0], 1, MBX_CONTEXT_MAX + 1, 0, &byte, 1, NULL, &request),
                         -EINVAL);
        assert_int_equal(send(cl.eps[0], 1, UINT32_MAX, 0, &byte, 1, NULL, &request), -EINVAL);
        assert_int_equal(send(cl.eps[0], 1, CONTEXT, 0, NULL, 1, NULL, &request), -EINVAL);
        assert_int_equal(send(cl.eps[0], 1, CONTEXT, 0, &byte, 1, &unknown, &request), -EINVAL);
    }
    assert_int_equal(mbx_inject(cl.eps[0], 2, CONTEXT, 0, &byte, 1, 0), -EINVAL);
    assert_int_equal(mbx_inject(cl.eps[0], 1, MBX_CONTEXT_MAX + 1, 0, &byte, 1, 0), -EINVAL);
    assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 0, NULL, 1, 0), -EINVAL);
    assert_int_equal(request, 77);
    assert_int_equal(cluster_stats(&cl, 0).requests_now, 0);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static void test_wrong_arguments_of_receives(void **state)
{
    const struct mbx_options unknown = {.flags = 1u << 1};
    const struct mbx_status before = {.tag = 1234};
    struct mbx_status status = before;
    mbx_request request = 77;
    mbx_message message = 78;
    struct cluster cl;
    char byte = 1;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_recv(cl.eps[0], 2, CONTEXT, 0, 0, &byte, 1, NULL, &request), -EINVAL);
    assert_int_equal(
        mbx_recv(cl.eps[0], 1, MBX_CONTEXT_MAX + 1, 0, 0, &byte, 1, NULL, &request), -EINVAL);
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 0, 0, NULL, 1, NULL, &request), -EINVAL);
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 0, 0, &byte, 1, &unknown, &request),
                     -EINVAL);
    assert_int_equal(mbx_probe(cl.eps[0], 2, CONTEXT, 0, 0, &status), -EINVAL);
    assert_int_equal(mbx_probe(cl.eps[0], 1, UINT32_MAX, 0, 0, &status), -EINVAL);
    assert_int_equal(mbx_mprobe(cl.eps[0], 2, CONTEXT, 0, 0, &status, &message), -EINVAL);
    assert_int_equal(mbx_mprobe(cl.eps[0], 1, UINT32_MAX, 0, 0, &status, &message), -EINVAL);
    assert_int_equal(mbx_probe(cl.eps[0], 1, CONTEXT, 0, 0, &status), 0);
    assert_int_equal(mbx_mprobe(cl.eps[0], 1, CONTEXT, 0, 0, &status, &message), 0);
    assert_memory_equal(&status, &before, sizeof status);
    assert_int_equal(request, 77);
    assert_int_equal(message, 78);
    assert_int_equal(cluster_stats(&cl, 0).requests_now, 0);
    assert_int_equal(cluster_stats(&cl, 0).posted_now, 0);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static void test_empty_messages_need_no_buffer(void **state)
{
    mbx_request send, recv;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 0, 0, NULL, 0, NULL, &recv), 0);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 0, NULL, 0, NULL, &send), 0);
    cluster_wait_error(&cl, 1, recv, 0);
    cluster_wait_error(&cl, 0, send, 0);
    assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 0, NULL, 0, 0), 0);
    cluster_settle(&cl);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 0, 0, NULL, 0, NULL, &recv), 0);
    cluster_wait_error(&cl, 1, recv, 0);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static void test_inject_too_long(void **state)
{
    struct mbx_limits limits;
    struct cluster cl;
    const void *data;

    cluster_open(&cl, *state, 2, NULL);
    mbx_limits_get(cl.eps[0], &limits, sizeof limits);
    data = seeded_bytes(0, limits.inject + 1);
    assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 0, data, limits.inject + 1, 0),
                     -EMSGSIZE);
    cluster_settle(&cl);
    assert_int_equal(cluster_stats(&cl, 1).unexpected, 0);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* ---- stale requests ---- */

static void test_cancelled_twice(void **state)
{
    struct mbx_completion done;
    mbx_request recv;
    struct cluster cl;
    char byte;
    int err;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 0, 0, &byte, 1, NULL, &recv), 0);
    assert_int_equal(mbx_cancel(cl.eps[0], recv), 0);
    while ((err = mbx_cancel(cl.eps[0], recv)) == -EINPROGRESS) /* the device is asked */
        mbx_progress(cl.eps[0]);
    assert_int_equal(err, -ECANCELED);
    cluster_settle(&cl);
    assert_int_equal(mbx_poll(cl.eps[0], MBX_RECVS, &done, 1), 1);
    assert_int_equal(done.error, -ECANCELED);
    assert_int_equal(mbx_cancel(cl.eps[0], recv), -ESTALE);
    assert_int_equal(cluster_stats(&cl, 0).cancelled, 1);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static void post_two(struct cluster *cl, char *byte, mbx_request *recvs)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 0, 0, byte, 1, NULL, &recvs[i]), 0);
}

static void test_finished_requests_are_stale(void **state)
{
    const struct mbx_completion before = {.request = 1234};
    struct mbx_completion done = before;
    mbx_request send, recvs[2];
    struct cluster cl;
    char byte;

    cluster_open(&cl, *state, 2, NULL);
    if (config_window(cl.config) !=
        UINT64_MAX) /* a send that is deferred completes by a receive */
        post_two(&cl, &byte, recvs);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 0, NULL, 0, NULL, &send), 0);
    cluster_wait_error(&cl, 0, send, 0);
    assert_int_equal(mbx_wait(cl.eps[0], send, 0, &done), -ESTALE);
    assert_int_equal(mbx_wait(cl.eps[0], send, -1, &done), -ESTALE);
    assert_int_equal(mbx_test(cl.eps[0], send, &done), -ESTALE);
    assert_int_equal(mbx_cancel(cl.eps[0], send), -ESTALE);
    assert_memory_equal(&done, &before, sizeof done);

    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 0, NULL, 0, NULL, &send), 0);
    while (mbx_poll(cl.eps[0], MBX_SENDS, &done, 1) == 0)
        cluster_progress(&cl);
    assert_int_equal(done.request, send);
    assert_int_equal(mbx_wait(cl.eps[0], send, 0, NULL), -ESTALE);
    if (config_window(cl.config) == UINT64_MAX)
        post_two(&cl, &byte, recvs);
    cluster_wait_error(&cl, 1, recvs[0], 0);
    cluster_wait_error(&cl, 1, recvs[1], 0);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static void test_forged_handles_are_stale(void **state)
{
    mbx_request recv;
    struct cluster cl;
    char byte;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 0, 0, &byte, 1, NULL, &recv), 0);
    for (unsigned bit = 0; bit <= 64; bit++) {
        const mbx_request forged[] = {bit < 64 ? recv ^ UINT64_C(1) << bit : 0,
                                      bit < 64 ? UINT64_C(1) << bit : UINT64_MAX,
                                      bit < 64 ? UINT64_MAX >> bit : 1};

        for (size_t i = 0; i < ARRAY_COUNT(forged); i++) {
            if (forged[i] == recv)
                continue;
            assert_int_equal(mbx_test(cl.eps[0], forged[i], NULL), -ESTALE);
            assert_int_equal(mbx_wait(cl.eps[0], forged[i], 0, NULL), -ESTALE);
            assert_int_equal(mbx_cancel(cl.eps[0], forged[i]), -ESTALE);
            assert_int_equal(mbx_mrecv(cl.eps[0], forged[i], &byte, 1, NULL, NULL), -ESTALE);
            assert_int_equal(mbx_discard(cl.eps[0], forged[i]), -ESTALE);
        }
    }
    assert_int_equal(mbx_test(cl.eps[0], recv, NULL), 0);
    assert_int_equal(mbx_cancel(cl.eps[0], recv), 0);
    cluster_wait_error(&cl, 0, recv, -ECANCELED);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* The number of a message that is only queued cannot receive it. */
static void test_queued_messages_have_no_handle(void **state)
{
    struct mbx_status status;
    mbx_message message;
    struct cluster cl;
    char byte = 1;

    /* the close does not wait for the three that stay */
    cluster_open(&cl, *state, 2, (const char *const[]){"CLOSE_TIMEOUT=0", NULL});
    for (int i = 0; i < 4; i++)
        assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 0, &byte, 1, 0), 0);
    cluster_settle(&cl);
    assert_int_equal(cluster_mprobe(&cl, 1, 0, CONTEXT, 0, 0, &status, &message), 1);
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_int_equal(mbx_discard(cl.eps[1], message ^ UINT64_C(1) << bit), -ESTALE);
        assert_int_equal(
            mbx_mrecv(cl.eps[1], message ^ UINT64_C(1) << bit, &byte, 1, NULL, NULL), -ESTALE);
    }
    assert_int_equal(mbx_discard(cl.eps[1], message), 0);
    cluster_settle(&cl);
    assert_int_equal(cluster_waiting(&cl), 3);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* One receive takes a matched message; a message that is only queued has no handle. */
static void test_messages_are_received_once(void **state)
{
    struct mbx_status status;
    mbx_message message;
    mbx_request recv;
    struct cluster cl;
    int value = 5;

    cluster_open(&cl, *state, 2, NULL);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 0, &value, sizeof value, 0), 0);
        cluster_settle(&cl);
        assert_int_equal(cluster_mprobe(&cl, 1, 0, CONTEXT, 0, 0, &status, &message), 1);
        assert_int_equal(mbx_mrecv(cl.eps[1], message, NULL, 1, NULL, &recv), -EINVAL);
        if (round == 0) {
            assert_int_equal(mbx_mrecv(cl.eps[1], message, &value, sizeof value, NULL, &recv),
                             0);
            cluster_wait_error(&cl, 1, recv, 0);
        } else {
            assert_int_equal(mbx_discard(cl.eps[1], message), 0);
        }
        assert_int_equal(mbx_mrecv(cl.eps[1], message, &value, sizeof value, NULL, &recv),
                         -ESTALE);
        assert_int_equal(mbx_discard(cl.eps[1], message), -ESTALE);
    }
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static void test_poll_misused(void **state)
{
    struct mbx_completion done[2];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_poll(cl.eps[0], 0, done, 2), -EINVAL);
    assert_int_equal(mbx_poll(cl.eps[0], 1u << 5, done, 2), -EINVAL);
    assert_int_equal(mbx_poll(cl.eps[0], MBX_SENDS | 1u << 5, done, 2), -EINVAL);
    assert_int_equal(mbx_poll(cl.eps[0], MBX_SENDS, NULL, 2), -EINVAL);
    assert_int_equal(mbx_poll(cl.eps[0], MBX_SENDS, done, 0), 0);
    assert_int_equal(mbx_poll(cl.eps[0], MBX_SENDS, done, -3), 0);
    assert_int_equal(mbx_wait_queues(cl.eps[0], 0, 0), -EINVAL);
    assert_int_equal(mbx_wait_queues(cl.eps[0], 1u << 5, 0), -EINVAL);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static void test_timeouts(void **state)
{
    static const int64_t timeouts[] = {0, 1, 1000, 2000000};
    mbx_request recv, send;
    struct cluster cl;
    char byte = 0, got;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 0, 0, &got, 1, NULL, &recv), 0);
    for (size_t i = 0; i < ARRAY_COUNT(timeouts); i++) {
        assert_int_equal(mbx_wait(cl.eps[0], recv, timeouts[i], NULL), -ETIMEDOUT);
        assert_int_equal(mbx_wait_queues(cl.eps[0], MBX_RECVS, timeouts[i]), -ETIMEDOUT);
        assert_int_equal(mbx_wait_queues(cl.eps[0], MBX_SENDS | MBX_RECVS, timeouts[i]),
                         -ETIMEDOUT);
    }
    assert_int_equal(mbx_send(cl.eps[1], 0, CONTEXT, 0, &byte, 1, NULL, &send), 0);
    cluster_settle(&cl);
    assert_int_equal(mbx_wait_queues(cl.eps[0], MBX_RECVS, 0), 0);
    assert_int_equal(mbx_wait_queues(cl.eps[0], MBX_SENDS, 0), -ETIMEDOUT);
    assert_int_equal(mbx_wait(cl.eps[0], recv, 0, NULL), 0);
    assert_int_equal(mbx_wait(cl.eps[1], send, 0, NULL), 0);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* A signal ends a sleep, not the request. */
static void test_interrupted_waits(void **state)
{
    const struct configuration *config = *state;
    bool polls = config_has_param(config, "TRANSPORT=ofi") ||
                 config_has_param(config, "TRANSPORT=verbs");
    const char *sleep = polls ? "poll" : "futex_wait";
    mbx_request recv, send;
    struct cluster cl;
    char byte = 0, got;

    if (config_is_loop(config) || config_has_faults(config))
        return;
    cluster_open(&cl, config, 2, (const char *const[]){"SPIN=0", NULL});
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 0, 0, &got, 1, NULL, &recv), 0);
    assert_int_equal(sys_fail_name(sleep, SYS_FAIL_ALWAYS, EINTR), 0);
    assert_int_equal(mbx_wait(cl.eps[0], recv, -1, NULL), -EINTR);
    assert_int_equal(mbx_wait_queues(cl.eps[0], MBX_RECVS, -1), -EINTR);
    sys_fail_none();
    assert_true(cluster_stats(&cl, 0).sleeps >= 2);
    assert_int_equal(mbx_send(cl.eps[1], 0, CONTEXT, 0, &byte, 1, NULL, &send), 0);
    cluster_wait_error(&cl, 0, recv, 0);
    cluster_wait_error(&cl, 1, send, 0);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* ---- peers ---- */

/* A send that is deferred for a closed peer fails when the library looks at the peer, which it
 * does periodically. */
static void let_time_pass(const struct cluster *cl)
{
    const struct timespec while_ns = {.tv_nsec = 1000000};

    if (config_window(cl->config) != UINT64_MAX)
        nanosleep(&while_ns, NULL);
}

/* Over a network, a copied message may leave before the sender learns that the peer is closed.
 * So may the empty message that stands for a protocol that does not exist there. */
static bool may_be_lost(const struct cluster *cl, int protocol, int sync)
{
    bool is_copied =
        protocol <= MBX_BOUNCE || cluster_size_of(cl, (enum mbx_protocol)protocol) == 0;

    return config_is_network(cl->config) && is_copied && !sync;
}

static void await_failure(const struct cluster *cl, struct mbx_ep *ep, uint32_t peer,
                          mbx_request send, bool is_lost)
{
    struct mbx_completion done = {.error = 0};

    for (int idle = 0; mbx_test(ep, send, &done) == 0; idle++) {
        assert_true(idle < test_patience());
        let_time_pass(cl);
    }
    assert_true(done.error == -ENOTCONN || done.error == -EHOSTUNREACH ||
                (done.error == 0 && is_lost));
    assert_int_equal(done.kind, MBX_SENDS);
    assert_int_equal(done.status.source, peer);
}

/* Sends one message of each protocol to a closed peer, by every call.  All are under way
 * together: one look at the peer finds all that are deferred. */
static void send_to_closed(struct cluster *cl, struct mbx_ep *ep, uint32_t peer)
{
    mbx_request sends[MBX_PROTOCOLS][2];

    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++) {
        size_t size = cluster_size_of(cl, (enum mbx_protocol)protocol);

        for (int sync = 0; sync < 2; sync++)
            assert_int_equal((sync ? mbx_ssend : mbx_send)(ep, peer, CONTEXT, 1,
                                                           seeded_bytes(0, size), size, NULL,
                                                           &sends[protocol][sync]),
                             0);
    }
    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++)
        for (int sync = 0; sync < 2; sync++)
            await_failure(cl, ep, peer, sends[protocol][sync], may_be_lost(cl, protocol, sync));
}

static void test_sends_to_a_closed_peer_fail(void **state)
{
    struct mbx_options silent = {.flags = MBX_SILENT};
    struct mbx_completion done;
    struct cluster cl;
    char byte = 1;

    cluster_open(&cl, *state, 3, NULL);
    exchange(&cl, 0, 2);
    assert_int_equal(cluster_close_one(&cl, 2), 0);
    send_to_closed(&cl, cl.eps[0], 2); /* met before */
    if (!config_is_verbs(*state))
        send_to_closed(&cl, cl.eps[1], 2); /* never met */

    silent.user = &silent;
    /* a silent send has an entry for its error */
    assert_int_equal(mbx_send(cl.eps[0], 2, CONTEXT, 1, &byte, 1, &silent, NULL), 0);
    while (mbx_poll(cl.eps[0], MBX_SENDS, &done, 1) == 0)
        mbx_progress(cl.eps[0]);
    assert_int_equal(done.error, -ENOTCONN);
    assert_ptr_equal(done.user, &silent);
    assert_int_equal(cluster_stats(&cl, 0).requests_now, 0);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static void test_injects_to_a_closed_peer_fail(void **state)
{
    struct mbx_limits limits;
    struct cluster cl;
    const void *data = seeded_bytes(0, (size_t)1 << 20);
    uint64_t errors;

    if (config_is_network(*state))
        skip(); /* see may_be_lost() */
    cluster_open(&cl, *state, 3, NULL);
    exchange(&cl, 0, 2);
    mbx_limits_get(cl.eps[0], &limits, sizeof limits);
    cluster_close_one(&cl, 2);
    for (int i = 0; i < 2; i++) {
        /* the call returns the error if it tried at once; otherwise it is logged and counted */
        int err = mbx_inject(cl.eps[0], 2, CONTEXT, 0, data, i == 0 ? 1 : limits.inject, 0);

        if (!config_has_faults(cl.config) && config_window(cl.config) == UINT64_MAX)
            assert_int_equal(err, -ENOTCONN);
        cluster_settle(&cl);
        for (int idle = 0; cluster_stats(&cl, 0).requests_now > 0; idle++) {
            assert_true(idle < test_patience());
            let_time_pass(&cl);
            cluster_progress(&cl);
        }
        errors = cluster_stats(&cl, 0).send_errors;
        assert_true(err == -ENOTCONN || (err == 0 && errors > 0));
    }
    assert_int_equal(cluster_stats(&cl, 0).requests_now, 0);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* A message that a peer sent before it closed still arrives, although its receiver made no
 * progress until then. */
static void test_messages_outlive_their_sender(void **state)
{
    struct mbx_completion done;
    mbx_request recv;
    struct cluster cl;
    int sent = 100, got = 0;

    if (config_window(*state) == 0)
        skip(); /* a deferred message is abandoned */
    cluster_open(&cl, *state, 3, NULL);
    if (config_is_network(*state))
        exchange(&cl, 0, 2); /* the first contact needs an answer */
    assert_int_equal(mbx_inject(cl.eps[2], 0, CONTEXT, 1, &sent, sizeof sent, 6), 0);
    assert_int_equal(cluster_close_one(&cl, 2), 0);
    assert_int_equal(mbx_recv(cl.eps[0], 2, CONTEXT, 1, 0, &got, sizeof got, NULL, &recv), 0);
    cluster_wait(&cl, 0, recv, &done);
    assert_int_equal(done.error, 0);
    assert_int_equal(done.status.data, 6);
    assert_int_equal(got, sent);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static void test_an_address_has_one_number(void **state)
{
    struct mbx_address address, same;
    struct cluster cl;
    uint32_t number = 55;
    char text[2 * MBX_ADDRESS_SIZE + 1], tiny[5];

    cluster_open(&cl, *state, 3, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(mbx_address_get(cl.eps[i], &address), 0);
        assert_int_equal(mbx_peer_add(cl.eps[0], &address, &number), 0);
        assert_int_equal(number, i);
        assert_int_equal(mbx_peer_address(cl.eps[0], i, &same), 0);
        assert_memory_equal(&address, &same, sizeof same);
    }
    assert_int_equal(mbx_peer_address(cl.eps[0], 3, &same), -EINVAL);
    assert_ptr_equal(mbx_address_text(&address, text, sizeof text), text);
    assert_int_equal(strlen(text), 2 * MBX_ADDRESS_SIZE);
    assert_int_equal(strlen(mbx_address_text(&address, tiny, sizeof tiny)), 4);
    assert_memory_equal(tiny, text, 4);
    assert_int_equal(cluster_stats(&cl, 0).peers, 3);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static void test_labels_without_a_job(void **state)
{
    struct mbx_address address;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_address_share(cl.eps[0], 0), -EINVAL);
    assert_int_equal(mbx_address_share(cl.eps[0], 1), -ENOTSUP);
    assert_int_equal(mbx_address_find(cl.eps[1], 1, &address), -ENOENT);
    cluster_close(&cl);
}

static void test_labels_of_a_job(UNUSED void **state)
{
    static const uint8_t key[16] = {1, 2, 3};
    const char *const params[] = {"TRANSPORT=shm", NULL};
    const struct mbx_config config = {.key = key, .params = params};
    struct mbx_address address, found;
    struct mbx_ep *one, *other;
    uint32_t peer;

    assert_int_equal(mbx_open(&config, &one), 0);
    assert_int_equal(mbx_open(&config, &other), 0);
    assert_int_equal(mbx_address_share(one, 77), 0);
    assert_int_equal(mbx_address_share(other, 77), -EEXIST);
    assert_int_equal(mbx_address_find(other, 77, &found), 0);
    assert_int_equal(mbx_address_get(one, &address), 0);
    assert_memory_equal(&address, &found, sizeof found); /* and the credit */
    assert_int_equal(mbx_peer_add(other, &found, &peer), 0);
    assert_int_equal(mbx_close(one), 0);
    assert_int_equal(mbx_address_find(other, 77, &found), -ENOENT);
    assert_int_equal(mbx_close(other), 0);
}

static void test_malformed_addresses(void **state)
{
    struct mbx_address address;
    uint32_t number = 55;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    memset(&address, 0, sizeof address);
    assert_int_equal(mbx_peer_add(cl.eps[0], &address, &number), -EINVAL);
    memset(&address, 0xff, sizeof address);
    assert_int_equal(mbx_peer_add(cl.eps[0], &address, &number), -EINVAL);
    mbx_address_get(cl.eps[1], &address);
    address.bytes[0] ^= 0x40;
    assert_int_equal(mbx_peer_add(cl.eps[0], &address, &number), -EINVAL);
    assert_int_equal(number, 55);
    assert_int_equal(cluster_stats(&cl, 0).peers, 2);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* The address belonged to an endpoint that is closed: the sender learns this only by
 * sending. */
static void test_sends_to_nobody_fail(void **state)
{
    struct mbx_address address;
    struct cluster cl;
    uint32_t number;
    struct mbx_ep *gone;

    if (config_is_verbs(*state))
        skip();
    cluster_open(&cl, *state, 2, NULL);
    gone = cluster_open_one(*state, NULL);
    mbx_address_get(gone, &address);
    mbx_close(gone);
    assert_int_equal(mbx_peer_add(cl.eps[0], &address, &number), 0);
    assert_int_equal(number, 2);
    send_to_closed(&cl, cl.eps[0], number);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* ---- parameters ---- */

static char last_line[256];

static void keep_line(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)level;
    snprintf(last_line, sizeof last_line, "%s", text);
}

static void test_wrong_parameters_are_named(void **state)
{
    static const char *const wrong[][2] = {
        {"EAGER_LIMITS=1", "EAGER_LIMITS"}, {"EAGER_LIMIT=1X", "1X"},
        {"EAGER_LIMIT=", "EAGER_LIMIT"},    {"EAGER_LIMIT=2G", "2G"},
        {"TRANSPORT=pigeon", "pigeon"},     {"SPIN=5", "SPIN"},
        {"SHM_ATTACH=maybe", "maybe"},      {"REQUESTS=0", "REQUESTS"},
        {"LOOP_DEPTH", "LOOP_DEPTH"},
    };
    struct mbx_ep *ep = NULL;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    log_set_sink(keep_line, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        const char *const params[] = {wrong[i][0], NULL};
        struct mbx_config config = {.params = params};

        last_line[0] = '\0';
        assert_int_equal(mbx_open(&config, &ep), -EINVAL);
        if (strstr(last_line, wrong[i][1]) == NULL)
            fail_msg("%s: the log does not name it: %s", wrong[i][0], last_line);
    }
    setenv("MBX_NONSENSE", "1", 1);
    assert_int_equal(mbx_open(NULL, &ep), -EINVAL);
    assert_non_null(strstr(last_line, "MBX_NONSENSE"));
    unsetenv("MBX_NONSENSE");
    log_set_sink(NULL, NULL);
    assert_null(ep);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* A call fails when no request is left.  After one completion a request is free again. */
static void test_requests_run_out(void **state)
{
    static const char *const few[] = {"REQUESTS=2", NULL};
    mbx_request recv[3] = {0};
    struct cluster cl;
    char byte;

    cluster_open(&cl, *state, 2, few);
    log_set_sink(keep_line, NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 0, 0, &byte, 1, NULL, &recv[i]), 0);
    last_line[0] = '\0';
    assert_int_equal(mbx_recv(cl.eps[0], 1, CONTEXT, 0, 0, &byte, 1, NULL, &recv[2]), -ENOMEM);
    assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 0, &byte, 1, NULL, &recv[2]), -ENOMEM);
    assert_int_equal(recv[2], 0);
    log_set_sink(NULL, NULL);
    if (strstr(last_line, ": 2 requests are open, and MBX_REQUESTS allows no more") == NULL)
        fail_msg("the log does not name the limit: %s", last_line);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mbx_cancel(cl.eps[0], recv[i]), 0);
        cluster_wait_error(&cl, 0, recv[i], -ECANCELED);
    }
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

static int post(struct mbx_ep *ep, uint64_t tag)
{
    static const struct mbx_options silent = {.flags = MBX_SILENT};

    return mbx_recv(ep, 1, CONTEXT, tag, 0, NULL, 0, &silent, NULL);
}

/* When memory ends, a line says so.  The endpoint stays as it was, and continues. */
static void test_memory_runs_out(void **state)
{
    struct cluster cl;
    uint64_t tag = 1, open;
    bool is_told = false;
    int err;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(post(cl.eps[0], 0), 0);
    log_set_sink(keep_line, NULL);
    last_line[0] = '\0';
    while (!is_told && tag < 10000) {
        open = cluster_stats(&cl, 0).requests_now;
        mem_fail_at(1); /* if needed: for requests, or for the queue of these receives */
        err = post(cl.eps[0], tag++);
        is_told =
            strstr(last_line, " requests are open, and there is no memory for another one");
        if (err < 0 || is_told) {
            assert_int_equal(err, -ENOMEM);
            assert_int_equal(cluster_stats(&cl, 0).requests_now, open);
        }
    }
    mem_fail_at(0);
    log_set_sink(NULL, NULL);
    assert_true(is_told);
    assert_int_equal(post(cl.eps[0], tag), 0);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

/* A device would get them; the other configurations differ only in how messages travel. */
static bool posts_many(const struct configuration *config)
{
    return !test_is_quick() && strcmp(config->name, "shm") == 0;
}

/* One endpoint has more than 2^20 receives: their numbers differ, and the last ones match their
 * messages. */
static void test_a_million_receives_wait(void **state)
{
    const uint64_t count = (UINT64_C(1) << 20) + 1000;
    static const char *const rarely[] = {"PEER_TIMEOUT=3600s", NULL};
    const struct mbx_options *none = NULL;
    struct cluster cl;
    mbx_request send;
    uint64_t last;

    if (!posts_many(*state))
        return;
    cluster_open(&cl, *state, 2, rarely);
    for (uint64_t tag = 0; tag < count; tag++)
        assert_int_equal(post(cl.eps[0], tag), 0);
    assert_int_equal(cluster_stats(&cl, 0).requests_now, count);
    /* the check whether the peer is alive reads all requests, so more of them make it rarer */
    last = cl.eps[0]->liveness.last_ns = clock_now() - 2 * (uint64_t)liveness_ns(cl.eps[0]);
    liveness_check(cl.eps[0]);
    assert_int_equal(cl.eps[0]->liveness.last_ns, last);
    for (uint64_t tag = count; tag-- > count - 10;) {
        assert_int_equal(mbx_ssend(cl.eps[1], 0, CONTEXT, tag, NULL, 0, none, &send), 0);
        cluster_wait_error(&cl, 1, send, 0);
    }
    assert_int_equal(cluster_stats(&cl, 0).requests_now, count - 10);
    exchange(&cl, 0, 1);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_tag_stands_for_any),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_wrong_arguments_of_sends),
        cmocka_unit_test(test_wrong_arguments_of_receives),
        cmocka_unit_test(test_empty_messages_need_no_buffer),
        cmocka_unit_test(test_inject_too_long),
        cmocka_unit_test(test_cancelled_twice),
        cmocka_unit_test(test_finished_requests_are_stale),
        cmocka_unit_test(test_forged_handles_are_stale),
        cmocka_unit_test(test_messages_are_received_once),
        cmocka_unit_test(test_queued_messages_have_no_handle),
        cmocka_unit_test(test_poll_misused),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_interrupted_waits),
        cmocka_unit_test(test_sends_to_a_closed_peer_fail),
        cmocka_unit_test(test_injects_to_a_closed_peer_fail),
        cmocka_unit_test(test_messages_outlive_their_sender),
        cmocka_unit_test(test_an_address_has_one_number),
        cmocka_unit_test(test_labels_without_a_job),
        cmocka_unit_test(test_labels_of_a_job),
        cmocka_unit_test(test_malformed_addresses),
        cmocka_unit_test(test_sends_to_nobody_fail),
        cmocka_unit_test(test_wrong_parameters_are_named),
        cmocka_unit_test(test_requests_run_out),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_a_million_receives_wait),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
