/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * closed_test.c - a peer has closed, its packets are still unread, and messages wait at their
 * sender.  The packets are delivered before anything ends because the peer is gone.
 *
 * Each test lets the peer send and close.  Then the other endpoint has to send to it before it
 * reads the packets.
 */
#include "cluster.h"

#include <errno.h>

#include "base/base.h"

#define CONTEXT  5
#define UNWANTED 99 /* a tag that no message has */

/* Only in these configurations is it known which packets are unread. */
static bool is_meant(const struct configuration *config)
{
    return config_window(config) != UINT64_MAX && !config_has_faults(config) &&
           !config_is_network(config) && !config_is_elsewhere(config);
}

/* Opens two endpoints.  The receiver pulls nothing from the sender's table, because that would
 * need no packets. */
static void open_two(struct cluster *cl, void **state)
{
    static const char *const params[] = {"SENDTABLE=no", "PEER_TIMEOUT=20ms", NULL};

    cluster_open(cl, *state, 2, params);
}

static mbx_request send_to(struct cluster *cl, int from, uint64_t tag, const int *value)
{
    mbx_request send;

    assert_int_equal(mbx_send(cl->eps[from], (uint32_t)!from, CONTEXT, tag, value,
                              sizeof *value, NULL, &send),
                     0);
    return send;
}

static mbx_request post(struct cluster *cl, int who, uint64_t tag, int *value)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(cl->eps[who], (uint32_t)!who, CONTEXT, tag, 0, value,
                              sizeof *value, NULL, &recv),
                     0);
    return recv;
}

/* Makes progress in one endpoint; the other endpoint reads nothing. */
static void progress_alone(struct cluster *cl, int who)
{
    for (int i = 0; i < 100; i++)
        mbx_progress(cl->eps[who]);
}

/* Sends until a message is deferred.  Returns the number of messages, with that one. */
static uint32_t fill_window(struct cluster *cl, int from, mbx_request *sends, const int *value)
{
    uint32_t count = 0;

    while (cluster_stats(cl, from).deferred_now == 0)
        sends[count++] = send_to(cl, from, 0, value);
    return count;
}

/* Returns the error of the request.  The endpoint checks periodically whether the peer is
 * alive. */
static int end_of(struct cluster *cl, int who, mbx_request request)
{
    struct mbx_completion c;
    int err;

    for (int i = 0; (err = mbx_wait(cl->eps[who], request, 1000000, &c)) != 0; i++) {
        assert_true(err == -EINTR || err == -ETIMEDOUT);
        assert_true(i < test_patience());
    }
    return c.error;
}

static void nothing_was_dropped(struct cluster *cl)
{
    progress_alone(cl, 0);
    assert_int_equal(cluster_stats(cl, 0).dropped_packets, 0);
    assert_int_equal(cluster_stats(cl, 0).requests_now, 0);
    cluster_close(cl);
}

/* The peer has returned credit, which is unread.  The next send has no credit, and can no
 * longer report that. */
static void credit_that_lies_unread_is_taken(void **state)
{
    int value = 1, got = 0;
    mbx_request first, second, recv;
    struct cluster cl;

    if (config_window(*state) != 1)
        skip();
    open_two(&cl, state);
    first = send_to(&cl, 0, 1, &value);
    progress_alone(&cl, 1);
    recv = post(&cl, 1, 1, &got);
    assert_int_equal(end_of(&cl, 1, recv), 0);
    assert_int_equal(cluster_close_one(&cl, 1), 0);
    second = send_to(&cl, 0, 1, &value);
    assert_int_equal(end_of(&cl, 0, first), 0);
    assert_int_equal(end_of(&cl, 0, second), -ENOTCONN);
    nothing_was_dropped(&cl);
}

/* Each endpoint defers messages for the other.  Returns the send of endpoint 0 with this
 * tag. */
static mbx_request hold_both(struct cluster *cl, uint64_t tag, int *value, mbx_request *rest,
                             uint32_t *count)
{
    mbx_request ours, theirs[2];

    *count = fill_window(cl, 0, rest, value);
    ours = send_to(cl, 0, tag, value);
    fill_window(cl, 1, theirs, value);
    send_to(cl, 1, tag, value);
    cluster_settle(cl);
    return ours;
}

static void end_rest(struct cluster *cl, const mbx_request *rest, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int error = end_of(cl, 0, rest[i]);

        assert_true(error == 0 || error == -ENOTCONN);
    }
}

static void cancel(struct cluster *cl, mbx_request recv)
{
    assert_int_equal(mbx_cancel(cl->eps[0], recv), 0);
    assert_int_equal(end_of(cl, 0, recv), -ECANCELED);
}

/* The peer has received a message that was deferred here, and has reported that.  Then a
 * receive is posted, which the peer would have to know. */
static void a_send_that_was_received_has_not_failed(void **state)
{
    int value = 1, got = 0, none;
    mbx_request send, recv, rest[2];
    uint32_t count;
    struct cluster cl;

    open_two(&cl, state);
    send = hold_both(&cl, 7, &value, rest, &count);
    recv = post(&cl, 1, 7, &got);
    progress_alone(&cl, 0); /* reads the claim */
    assert_int_equal(end_of(&cl, 1, recv), 0);
    assert_int_equal(cluster_close_one(&cl, 1), 0);
    recv = post(&cl, 0, UNWANTED, &none);
    assert_int_equal(end_of(&cl, 0, send), 0);
    end_rest(&cl, rest, count);
    cancel(&cl, recv);
    nothing_was_dropped(&cl);
}

/* The peer has claimed our receive, and the claim is unread. */
static void a_claim_that_lies_unread_is_matched(void **state)
{
    int value = 1, got = 0, none;
    mbx_request send, recv, unwanted, rest[2];
    uint32_t count;
    struct cluster cl;

    open_two(&cl, state);
    send = hold_both(&cl, 7, &value, rest, &count);
    recv = post(&cl, 0, 7, &got);
    progress_alone(&cl, 1);
    assert_int_equal(cluster_stats(&cl, 1).claims, 1);
    assert_int_equal(cluster_close_one(&cl, 1), 0);
    unwanted = post(&cl, 0, UNWANTED, &none);
    assert_int_equal(end_of(&cl, 0, recv), 0);
    assert_int_equal(got, 1);
    assert_int_equal(end_of(&cl, 0, send), -ENOTCONN);
    end_rest(&cl, rest, count);
    cancel(&cl, unwanted);
    nothing_was_dropped(&cl);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(credit_that_lies_unread_is_taken),
        cmocka_unit_test(a_send_that_was_received_has_not_failed),
        cmocka_unit_test(a_claim_that_lies_unread_is_matched),
    };

    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
