/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * closed_test.c - a peer that closed with packets of its own still unread, where messages wait
 * at their sender: what it sent is delivered before anything ends because it is gone.
 *
 * Each test lets the peer send and close, and then the other endpoint has to send it something,
 * before it looks at what came.
 */
#include "world.h"

#include <errno.h>

#include "base/base.h"

#define CONTEXT  5
#define UNWANTED 99 /* a tag that no message has */

/* Only with these is it known what lies unread. */
static bool is_meant(const struct world_config *config)
{
    return world_window(config) != UINT64_MAX && !world_has_faults(config) &&
           !world_is_network(config) && !world_is_elsewhere(config);
}

/* Two endpoints; the receiver takes nothing out of the sender's table: that would need no
 * packets. */
static void open_two(struct world *w, void **state)
{
    static const char *const params[] = {"SENDTABLE=no", "PEER_TIMEOUT=20ms", NULL};

    world_open(w, *state, 2, params);
}

static mbx_request send_to(struct world *w, int from, uint64_t tag, const int *value)
{
    mbx_request send;

    assert_int_equal(mbx_send(w->eps[from], (uint32_t)!from, CONTEXT, tag, value, sizeof *value,
                              NULL, &send),
                     0);
    return send;
}

static mbx_request post(struct world *w, int who, uint64_t tag, int *value)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(w->eps[who], (uint32_t)!who, CONTEXT, tag, 0, value,
                              sizeof *value, NULL, &recv),
                     0);
    return recv;
}

/* The other endpoint reads nothing. */
static void progress_alone(struct world *w, int who)
{
    for (int i = 0; i < 100; i++)
        mbx_progress(w->eps[who]);
}

/* Sends until one is deferred, and that one more. */
static uint32_t fill_window(struct world *w, int from, mbx_request *sends, const int *value)
{
    uint32_t count = 0;

    while (world_stats(w, from).deferred_now == 0)
        sends[count++] = send_to(w, from, 0, value);
    return count;
}

/* Whether the peer is there is looked at from time to time. */
static int end_of(struct world *w, int who, mbx_request request)
{
    struct mbx_completion c;
    int err;

    for (int i = 0; (err = mbx_wait(w->eps[who], request, 1000000, &c)) != 0; i++) {
        assert_true(err == -EINTR || err == -ETIMEDOUT);
        assert_true(i < world_patience());
    }
    return c.error;
}

static void nothing_was_dropped(struct world *w)
{
    progress_alone(w, 0);
    assert_int_equal(world_stats(w, 0).dropped_packets, 0);
    assert_int_equal(world_stats(w, 0).requests_now, 0);
    world_close(w);
}

/* The peer has told of credit; the next send has none, and cannot say so any more. */
static void credit_that_lies_unread_is_taken(void **state)
{
    int value = 1, got = 0;
    mbx_request first, second, recv;
    struct world w;

    if (world_window(*state) != 1)
        skip();
    open_two(&w, state);
    first = send_to(&w, 0, 1, &value);
    progress_alone(&w, 1);
    recv = post(&w, 1, 1, &got);
    assert_int_equal(end_of(&w, 1, recv), 0);
    assert_int_equal(world_close_one(&w, 1), 0);
    second = send_to(&w, 0, 1, &value);
    assert_int_equal(end_of(&w, 0, first), 0);
    assert_int_equal(end_of(&w, 0, second), -ENOTCONN);
    nothing_was_dropped(&w);
}

/* Each defers messages for the other.  The first: request of a send of 0 with this tag. */
static mbx_request hold_both(struct world *w, uint64_t tag, int *value, mbx_request *rest,
                             uint32_t *count)
{
    mbx_request ours, theirs[2];

    *count = fill_window(w, 0, rest, value);
    ours = send_to(w, 0, tag, value);
    fill_window(w, 1, theirs, value);
    send_to(w, 1, tag, value);
    world_settle(w);
    return ours;
}

static void end_rest(struct world *w, const mbx_request *rest, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int error = end_of(w, 0, rest[i]);

        assert_true(error == 0 || error == -ENOTCONN);
    }
}

static void cancel(struct world *w, mbx_request recv)
{
    assert_int_equal(mbx_cancel(w->eps[0], recv), 0);
    assert_int_equal(end_of(w, 0, recv), -ECANCELED);
}

/* The peer has received a message that was deferred here, and said so.  Then a receive, which
 * it should hear of, is posted. */
static void a_send_that_was_received_has_not_failed(void **state)
{
    int value = 1, got = 0, none;
    mbx_request send, recv, rest[2];
    uint32_t count;
    struct world w;

    open_two(&w, state);
    send = hold_both(&w, 7, &value, rest, &count);
    recv = post(&w, 1, 7, &got);
    progress_alone(&w, 0); /* its claim */
    assert_int_equal(end_of(&w, 1, recv), 0);
    assert_int_equal(world_close_one(&w, 1), 0);
    recv = post(&w, 0, UNWANTED, &none);
    assert_int_equal(end_of(&w, 0, send), 0);
    end_rest(&w, rest, count);
    cancel(&w, recv);
    nothing_was_dropped(&w);
}

/* The peer's claim for a receive of ours lies unread. */
static void a_claim_that_lies_unread_is_matched(void **state)
{
    int value = 1, got = 0, none;
    mbx_request send, recv, unwanted, rest[2];
    uint32_t count;
    struct world w;

    open_two(&w, state);
    send = hold_both(&w, 7, &value, rest, &count);
    recv = post(&w, 0, 7, &got);
    progress_alone(&w, 1);
    assert_int_equal(world_stats(&w, 1).claims, 1);
    assert_int_equal(world_close_one(&w, 1), 0);
    unwanted = post(&w, 0, UNWANTED, &none);
    assert_int_equal(end_of(&w, 0, recv), 0);
    assert_int_equal(got, 1);
    assert_int_equal(end_of(&w, 0, send), -ENOTCONN);
    end_rest(&w, rest, count);
    cancel(&w, unwanted);
    nothing_was_dropped(&w);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(credit_that_lies_unread_is_taken),
        cmocka_unit_test(a_send_that_was_received_has_not_failed),
        cmocka_unit_test(a_claim_that_lies_unread_is_matched),
    };

    return world_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
