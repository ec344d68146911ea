/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elsewhere_test.c - errors of other matchers, one test each, over every transport and with
 * every device. evidence/matching-elsewhere.md names the matchers and dates;
 * provider_elsewhere_test.c tests the same cases through libfabric.
 */
#include "cluster.h"

#include <errno.h>

#include "base/base.h"

#define CONTEXT   31
#define OTHER     32
#define UNMATCHED 80 /* a stall was seen after 64 */
#define QUEUE     300
#define FEW       30 /* of the queue, if each message has to be asked for */

static mbx_request post(struct cluster *cl, uint32_t source, uint64_t tag, uint64_t ignore,
                        int *value)
{
    mbx_request recv;

    *value = -1;
    assert_int_equal(
        mbx_recv(cl->eps[1], source, CONTEXT, tag, ignore, value, sizeof *value, NULL, &recv),
        0);
    return recv;
}

static void inject(struct cluster *cl, int from, uint32_t context_id, uint64_t tag, int value)
{
    assert_int_equal(mbx_inject(cl->eps[from], 1, context_id, tag, &value, sizeof value, 0), 0);
}

static void expect(struct cluster *cl, mbx_request recv, const int *got, int value)
{
    cluster_wait_error(cl, 1, recv, 0);
    assert_int_equal(*got, value);
}

/* Settles first: senders of deferred messages learn that they were received. */
static void end(struct cluster *cl)
{
    cluster_settle(cl);
    cluster_close(cl);
}

/* The error: a list for each source was searched before the list for any source. */
static void test_any_source_posted_first_is_matched_first(void **state)
{
    mbx_request any, directed;
    struct cluster cl;
    int a, d;

    cluster_open(&cl, *state, 3, NULL);
    any = post(&cl, MBX_ANY_SOURCE, 5, 0, &a);
    directed = post(&cl, 0, 5, 0, &d);
    cluster_settle(&cl);
    inject(&cl, 0, CONTEXT, 5, 1);
    expect(&cl, any, &a, 1);
    inject(&cl, 0, CONTEXT, 5, 2);
    expect(&cl, directed, &d, 2);
    /* in the opposite order, after a message from another source */
    directed = post(&cl, 0, 5, 0, &d);
    any = post(&cl, MBX_ANY_SOURCE, 5, 0, &a);
    cluster_settle(&cl);
    inject(&cl, 2, CONTEXT, 5, 3);
    expect(&cl, any, &a, 3);
    inject(&cl, 0, CONTEXT, 5, 4);
    expect(&cl, directed, &d, 4);
    end(&cl);
}

/* The error: the process crashed. */
static void test_a_directed_receive_can_be_cancelled(void **state)
{
    mbx_request first, second;
    struct cluster cl;
    int a, b, err;

    cluster_open(&cl, *state, 3, NULL);
    first = post(&cl, 0, 5, 0, &a);
    second = post(&cl, 0, 5, MBX_IGNORE_ALL, &b);
    cluster_settle(&cl);
    err = mbx_cancel(cl.eps[1], first);
    assert_true(err == 0 || err == -EINPROGRESS); /* a device answers later */
    cluster_wait_error(&cl, 1, first, -ECANCELED);
    inject(&cl, 0, CONTEXT, 5, 6);
    expect(&cl, second, &b, 6);
    assert_int_equal(a, -1);
    end(&cl);
}

/* The error: after 64 messages without receives nothing arrived any more. */
static void test_a_wanted_message_comes_past_unmatched_ones(void **state)
{
    mbx_request recv;
    struct cluster cl;
    int got;

    cluster_open(&cl, *state, 3, NULL);
    for (int i = 0; i < UNMATCHED; i++)
        inject(&cl, 0, CONTEXT, 1, i);
    inject(&cl, 0, CONTEXT, 2, 1000);
    inject(&cl, 2, CONTEXT, 1, 2000);
    recv = post(&cl, 0, 2, 0, &got);
    expect(&cl, recv, &got, 1000);
    recv = post(&cl, 2, 1, 0, &got);
    expect(&cl, recv, &got, 2000);
    for (int i = 0; i < UNMATCHED; i++) {
        recv = post(&cl, 0, 1, 0, &got);
        expect(&cl, recv, &got, i);
    }
    end(&cl);
}

/* The error: the ignore bits were respected if the receive came first, but not if the message
 * did. */
static void test_ignored_bits_hold_for_messages_that_wait(void **state)
{
    mbx_request recv;
    struct cluster cl;
    int got;

    cluster_open(&cl, *state, 2, NULL);
    inject(&cl, 0, CONTEXT, 0, 1);
    inject(&cl, 0, CONTEXT, 1, 2);
    inject(&cl, 0, OTHER, 0, 3);
    cluster_settle(&cl);
    recv = post(&cl, 0, 1, 1, &got);
    expect(&cl, recv, &got, 1);
    recv = post(&cl, 0, 4, MBX_IGNORE_ALL, &got);
    expect(&cl, recv, &got, 2);
    recv = post(&cl, 0, 0, MBX_IGNORE_ALL, &got);
    inject(&cl, 0, CONTEXT, 9, 4);
    expect(&cl, recv, &got, 4);
    assert_int_equal(mbx_recv(cl.eps[1], 0, OTHER, 1, 1, &got, sizeof got, NULL, &recv), 0);
    expect(&cl, recv, &got, 3);
    end(&cl);
}

/* The error: the probe was never answered. */
static void test_a_probe_is_answered(void **state)
{
    struct mbx_status status;
    mbx_request recv;
    struct cluster cl;
    int got;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(cluster_probe(&cl, 1, 0, CONTEXT, 1, 0, &status), 0);
    inject(&cl, 0, CONTEXT, 1, 1);
    cluster_settle(&cl);
    assert_int_equal(cluster_probe(&cl, 1, 0, CONTEXT, 0, 1, &status), 1);
    assert_int_equal(status.tag, 1);
    assert_int_equal(cluster_probe(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 2, 0, &status), 0);
    recv = post(&cl, MBX_ANY_SOURCE, 1, 0, &got);
    expect(&cl, recv, &got, 1);
    end(&cl);
}

/* The error: every receive of MPI ignores some bits, and so was on the list of receives with
 * ignore bits. */
static void test_receives_that_ignore_protocol_bits_keep_their_order(void **state)
{
    static int got[QUEUE];
    mbx_request recvs[QUEUE];
    struct cluster cl;
    int count;

    cluster_open(&cl, *state, 2, NULL);
    count = test_is_quick() || config_window(cl.config) != UINT64_MAX ? FEW : QUEUE;
    for (int i = 0; i < count; i++) /* each tag for three receives */
        recvs[i] = post(&cl, i % 2 ? 0 : MBX_ANY_SOURCE, (uint64_t)i / 3, UINT64_C(0xf) << 60,
                        &got[i]);
    for (int tag = (count - 1) / 3; tag >= 0; tag--)
        for (int i = 0; i < 3; i++)
            inject(&cl, 0, CONTEXT, (uint64_t)tag | (uint64_t)i << 60, 3 * tag + i);
    for (int i = 0; i < count; i++)
        expect(&cl, recvs[i], &got[i], i);
    end(&cl);
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

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
