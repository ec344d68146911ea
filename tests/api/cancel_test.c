/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel_test.c - a receive is taken back if it has not matched, and only then.
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

#define CONTEXT 21

static mbx_request post(struct cluster *cl, uint64_t tag, void *buf, size_t size)
{
    mbx_request recv;

    assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, tag, 0, buf, size, NULL, &recv), 0);
    return recv;
}

static void test_a_cancelled_receive_takes_nothing(void **state)
{
    struct mbx_completion done;
    struct cluster cl;
    int first = -1, second = -1, value = 7;
    mbx_request a, b;

    cluster_open(&cl, *state, 2, NULL);
    a = post(&cl, 1, &first, sizeof first);
    b = post(&cl, 1, &second, sizeof second);
    assert_int_equal(mbx_cancel(cl.eps[1], a), 0);
    assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 1, &value, sizeof value, 0), 0);
    cluster_wait_error(&cl, 1, b, 0);
    assert_int_equal(first, -1);
    assert_int_equal(second, 7);
    assert_int_equal(mbx_test(cl.eps[1], a, &done), 1);
    assert_int_equal(done.error, -ECANCELED);
    assert_int_equal(done.received, 0);
    assert_int_equal(done.kind, MBX_RECVS);
    cluster_close(&cl);
}

/* Receives are cancelled at the head, in the middle and at the end of the queue: the others
 * keep their order. */
static void test_the_others_keep_their_order(void **state)
{
    int values[6];
    mbx_request requests[6];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    memset(values, -1, sizeof values);
    for (int i = 0; i < 6; i++)
        requests[i] = post(&cl, 1, &values[i], sizeof values[i]);
    assert_int_equal(cluster_stats(&cl, 1).posted_now, 6);
    assert_int_equal(mbx_cancel(cl.eps[1], requests[0]), 0);
    assert_int_equal(mbx_cancel(cl.eps[1], requests[3]), 0);
    assert_int_equal(mbx_cancel(cl.eps[1], requests[5]), 0);
    assert_int_equal(cluster_stats(&cl, 1).posted_now, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 1, &i, sizeof i, 0), 0);
    for (int i = 0; i < 6; i++)
        cluster_wait_error(&cl, 1, requests[i], i % 3 == 0 || i == 5 ? -ECANCELED : 0);
    assert_int_equal(values[1], 0);
    assert_int_equal(values[2], 1);
    assert_int_equal(values[4], 2);
    assert_int_equal(values[0] & values[3] & values[5], -1);
    assert_int_equal(cluster_stats(&cl, 1).cancelled, 3);
    cluster_close(&cl);
}

/* A matched receive continues in every state of a rendezvous or of fragments. */
static void test_too_late(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++) {
        size_t size = 20 * cluster_size_of(&cl, (enum mbx_protocol)protocol);
        const unsigned char *data = seeded_bytes(3, size);
        struct mbx_completion done;
        struct guarded_buffer to;
        mbx_request send, recv;

        if (size == 0)
            continue;
        guarded_buffer_init(&to, size, 0);
        recv = post(&cl, 2, to.bytes, size);
        assert_int_equal(mbx_ssend(cl.eps[0], 1, CONTEXT, 2, data, size, NULL, &send), 0);
        while (cluster_stats(&cl, 1).posted_now == 1)
            cluster_progress(&cl);
        for (int idle = 0; mbx_test(cl.eps[1], recv, &done) == 0;) {
            if (mbx_cancel(cl.eps[1], recv) != -EALREADY)
                fail_msg("a matched receive was cancelled");
            idle = cluster_progress(&cl) != 0 ? 0 : idle + 1;
            assert_true(idle < test_patience());
        }
        assert_int_equal(done.error, 0);
        assert_memory_equal(to.bytes, data, size);
        guarded_buffer_fini(&to, size);
        cluster_wait_error(&cl, 0, send, 0);
    }
    assert_int_equal(cluster_stats(&cl, 1).cancelled, 0);
    cluster_close(&cl);
}

/* MBX_SILENT omits the entry of a success; a cancelled receive still has one. */
static void test_silent_receives_still_tell(void **state)
{
    const struct mbx_options silent = {.flags = MBX_SILENT};
    mbx_request request = 5;
    struct mbx_completion done;
    struct cluster cl;
    int value;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(
        mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, &value, sizeof value, &silent, &request), 0);
    assert_int_equal(request, 0);
    assert_int_equal(mbx_cancel(cl.eps[1], request), -ESTALE);
    assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 1, &value, 1, 0), 0);
    cluster_settle(&cl);
    assert_int_equal(mbx_poll(cl.eps[1], MBX_RECVS, &done, 1), 0);
    assert_int_equal(cluster_stats(&cl, 1).requests_now, 0);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cancelled_receive_takes_nothing),
        cmocka_unit_test(test_the_others_keep_their_order),
        cmocka_unit_test(test_too_late),
        cmocka_unit_test(test_silent_receives_still_tell),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
