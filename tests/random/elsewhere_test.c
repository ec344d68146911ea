/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elsewhere_test.c - what other matchers got wrong, one test each, over every transport and
 * with every device.  docs/matching-elsewhere.md says who and when; provider_elsewhere_test.c
 * does the same through libfabric.
 */
#include "world.h"

#include <errno.h>

#include "base/base.h"

#define CONTEXT   31
#define OTHER     32
#define UNMATCHED 80 /* a stall was seen behind 64 */
#define QUEUE     300
#define FEW       30 /* of the queue, where each message has to be asked for */

static mbx_request post(struct world *w, uint32_t source, uint64_t tag, uint64_t ignore,
                        int *value)
{
    mbx_request recv;

    *value = -1;
    assert_int_equal(
        mbx_recv(w->eps[1], source, CONTEXT, tag, ignore, value, sizeof *value, NULL, &recv),
        0);
    return recv;
}

static void inject(struct world *w, int from, uint32_t context_id, uint64_t tag, int value)
{
    assert_int_equal(mbx_inject(w->eps[from], 1, context_id, tag, &value, sizeof value, 0), 0);
}

static void expect(struct world *w, mbx_request recv, const int *got, int value)
{
    world_wait_error(w, 1, recv, 0);
    assert_int_equal(*got, value);
}

/* Senders that hold messages have heard that they were taken. */
static void end(struct world *w)
{
    world_settle(w);
    world_close(w);
}

/* A list for each source, and it was looked into before the list for any. */
static void test_any_source_posted_first_is_matched_first(void **state)
{
    mbx_request any, directed;
    struct world w;
    int a, d;

    world_open(&w, *state, 3, NULL);
    any = post(&w, MBX_ANY_SOURCE, 5, 0, &a);
    directed = post(&w, 0, 5, 0, &d);
    world_settle(&w);
    inject(&w, 0, CONTEXT, 5, 1);
    expect(&w, any, &a, 1);
    inject(&w, 0, CONTEXT, 5, 2);
    expect(&w, directed, &d, 2);
    /* and the other way round, with one for somebody else before both */
    directed = post(&w, 0, 5, 0, &d);
    any = post(&w, MBX_ANY_SOURCE, 5, 0, &a);
    world_settle(&w);
    inject(&w, 2, CONTEXT, 5, 3);
    expect(&w, any, &a, 3);
    inject(&w, 0, CONTEXT, 5, 4);
    expect(&w, directed, &d, 4);
    end(&w);
}

/* The process crashed. */
static void test_a_directed_receive_can_be_cancelled(void **state)
{
    mbx_request first, second;
    struct world w;
    int a, b, err;

    world_open(&w, *state, 3, NULL);
    first = post(&w, 0, 5, 0, &a);
    second = post(&w, 0, 5, MBX_IGNORE_ALL, &b);
    world_settle(&w);
    err = mbx_cancel(w.eps[1], first);
    assert_true(err == 0 || err == -EINPROGRESS); /* a device answers later */
    world_wait_error(&w, 1, first, -ECANCELED);
    inject(&w, 0, CONTEXT, 5, 6);
    expect(&w, second, &b, 6);
    assert_int_equal(a, -1);
    end(&w);
}

/* Nothing came any more behind 64 messages that nobody wanted yet. */
static void test_a_wanted_message_comes_past_unmatched_ones(void **state)
{
    mbx_request recv;
    struct world w;
    int got;

    world_open(&w, *state, 3, NULL);
    for (int i = 0; i < UNMATCHED; i++)
        inject(&w, 0, CONTEXT, 1, i);
    inject(&w, 0, CONTEXT, 2, 1000);
    inject(&w, 2, CONTEXT, 1, 2000);
    recv = post(&w, 0, 2, 0, &got);
    expect(&w, recv, &got, 1000);
    recv = post(&w, 2, 1, 0, &got);
    expect(&w, recv, &got, 2000);
    for (int i = 0; i < UNMATCHED; i++) {
        recv = post(&w, 0, 1, 0, &got);
        expect(&w, recv, &got, i);
    }
    end(&w);
}

/* The bits were heeded when the receive came first, and not when the message did. */
static void test_ignored_bits_hold_for_messages_that_wait(void **state)
{
    mbx_request recv;
    struct world w;
    int got;

    world_open(&w, *state, 2, NULL);
    inject(&w, 0, CONTEXT, 0, 1);
    inject(&w, 0, CONTEXT, 1, 2);
    inject(&w, 0, OTHER, 0, 3);
    world_settle(&w);
    recv = post(&w, 0, 1, 1, &got);
    expect(&w, recv, &got, 1);
    recv = post(&w, 0, 4, MBX_IGNORE_ALL, &got);
    expect(&w, recv, &got, 2);
    recv = post(&w, 0, 0, MBX_IGNORE_ALL, &got);
    inject(&w, 0, CONTEXT, 9, 4);
    expect(&w, recv, &got, 4);
    assert_int_equal(mbx_recv(w.eps[1], 0, OTHER, 1, 1, &got, sizeof got, NULL, &recv), 0);
    expect(&w, recv, &got, 3);
    end(&w);
}

/* It was never answered. */
static void test_a_probe_is_answered(void **state)
{
    struct mbx_status status;
    mbx_request recv;
    struct world w;
    int got;

    world_open(&w, *state, 2, NULL);
    assert_int_equal(world_probe(&w, 1, 0, CONTEXT, 1, 0, &status), 0);
    inject(&w, 0, CONTEXT, 1, 1);
    world_settle(&w);
    assert_int_equal(world_probe(&w, 1, 0, CONTEXT, 0, 1, &status), 1);
    assert_int_equal(status.tag, 1);
    assert_int_equal(world_probe(&w, 1, MBX_ANY_SOURCE, CONTEXT, 2, 0, &status), 0);
    recv = post(&w, MBX_ANY_SOURCE, 1, 0, &got);
    expect(&w, recv, &got, 1);
    end(&w);
}

/* Every receive of MPI ignores some bits, and so was on the list for those that do. */
static void test_receives_that_ignore_protocol_bits_keep_their_order(void **state)
{
    static int got[QUEUE];
    mbx_request recvs[QUEUE];
    struct world w;
    int count;

    world_open(&w, *state, 2, NULL);
    count = world_is_quick() || world_window(w.config) != UINT64_MAX ? FEW : QUEUE;
    for (int i = 0; i < count; i++) /* each tag for three */
        recvs[i] =
            post(&w, i % 2 ? 0 : MBX_ANY_SOURCE, (uint64_t)i / 3, UINT64_C(0xf) << 60, &got[i]);
    for (int tag = (count - 1) / 3; tag >= 0; tag--)
        for (int i = 0; i < 3; i++)
            inject(&w, 0, CONTEXT, (uint64_t)tag | (uint64_t)i << 60, 3 * tag + i);
    for (int i = 0; i < count; i++)
        expect(&w, recvs[i], &got[i], i);
    end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_source_posted_first_is_matched_first),
        cmocka_unit_test(test_a_directed_receive_can_be_cancelled),
        cmocka_unit_test(test_a_wanted_message_comes_past_unmatched_ones),
        cmocka_unit_test(test_ignored_bits_hold_for_messages_that_wait),
        cmocka_unit_test(test_a_probe_is_answered),
        cmocka_unit_test(test_receives_that_ignore_protocol_bits_keep_their_order),
    };

    return world_main(argc, argv, tests, ARRAY_COUNT(tests));
}
