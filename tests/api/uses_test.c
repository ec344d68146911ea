/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uses_test.c - a context id is used again: messages of an earlier use match no receive of a
 * later one, and are dropped.
 *
 * The upper half of the tag holds the use, as in the component for Open MPI.
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "p2p/p2p.h"

#define CONTEXT     21
#define OTHER       22
#define USE(n)      ((uint64_t)(n) << 32)
#define LOWER_HALF  UINT32_MAX
#define ANY_OF(use) USE(use), LOWER_HALF

/* Do all messages without a receive stay at their sender? */
static bool stay_away(const struct cluster *cl)
{
    return config_window(cl->config) == 0;
}

static void open_use(struct cluster *cl, int who, uint32_t context_id, unsigned use)
{
    assert_int_equal(mbx_context_open(cl->eps[who], context_id, USE(use), LOWER_HALF), 0);
}

static mbx_request send_int(struct cluster *cl, uint64_t tag, const int *value)
{
    mbx_request send;

    assert_int_equal(mbx_send(cl->eps[0], 1, CONTEXT, tag, value, sizeof *value, NULL, &send),
                     0);
    cluster_settle(cl);
    return send;
}

static void receive_int(struct cluster *cl, unsigned use, int wanted)
{
    struct mbx_completion done;
    mbx_request recv;
    int value = -1;

    assert_int_equal(mbx_recv(cl->eps[1], MBX_ANY_SOURCE, CONTEXT, ANY_OF(use), &value,
                              sizeof value, NULL, &recv),
                     0);
    cluster_wait(cl, 1, recv, &done);
    assert_int_equal(done.error, 0);
    assert_int_equal(value, wanted);
    assert_int_equal(done.status.tag >> 32, use);
}

/* Sends one message of each protocol, synchronous or not, with the lowest tags of this use. */
static int send_all(struct cluster *cl, unsigned use, mbx_request sends[2 * MBX_PROTOCOLS])
{
    int count = 0;

    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++) {
        size_t size = cluster_size_of(cl, (enum mbx_protocol)protocol);

        for (int sync = 0; size > 0 && sync < 2; sync++, count++)
            assert_int_equal((sync ? mbx_ssend : mbx_send)(
                                 cl->eps[0], 1, CONTEXT, USE(use) | (unsigned)count,
                                 seeded_bytes(1, size), size, NULL, &sends[count]),
                             0);
    }
    assert_true(count > 0);
    return count;
}

static void all_are_gone(struct cluster *cl, const mbx_request *sends, int count,
                         uint64_t dropped)
{
    for (int i = 0; i < count; i++)
        cluster_wait_error(cl, 0, sends[i], 0);
    cluster_settle(cl);
    assert_int_equal(cluster_stats(cl, 1).dropped, dropped);
    assert_int_equal(cluster_stats(cl, 1).requests_now, 0);
    assert_int_equal(cluster_stats(cl, 0).requests_now, 0);
    assert_int_equal(cluster_waiting(cl), 0);
    assert_int_equal(cluster_stats(cl, 1).unexpected_bytes_now, 0);
}

/* Messages that are here when a use ends are dropped.  So are messages that arrive later, also
 * in the next use, from a peer that is late. */
static void test_what_is_over_goes(void **state)
{
    mbx_request here[2 * MBX_PROTOCOLS], late[2 * MBX_PROTOCOLS], later[2 * MBX_PROTOCOLS];
    struct cluster cl;
    int count;

    cluster_open(&cl, *state, 2, NULL);
    if (!stay_away(&cl)) {
        open_use(&cl, 1, CONTEXT, 1);
        count = send_all(&cl, 1, here);
        cluster_settle(&cl);
        assert_int_equal(mbx_context_close(cl.eps[1], CONTEXT), 0);
        all_are_gone(&cl, here, count, (uint64_t)count);
        send_all(&cl, 1, late);
        all_are_gone(&cl, late, count, 2 * (uint64_t)count);
        open_use(&cl, 1, CONTEXT, 2);
        send_all(&cl, 1, later);
        all_are_gone(&cl, later, count, 3 * (uint64_t)count);
    }
    cluster_close(&cl);
}

/* The next use begins earlier at some peers than here: its messages wait. */
static void test_what_is_to_come_waits(void **state)
{
    const int early = 5, unknown = 6;
    struct cluster cl;
    mbx_request send;

    cluster_open(&cl, *state, 2, NULL);
    send = send_int(&cl, USE(1), &unknown); /* nobody here has named this context id */
    open_use(&cl, 1, CONTEXT, 1);
    receive_int(&cl, 1, unknown);
    cluster_wait_error(&cl, 0, send, 0);
    assert_int_equal(mbx_context_close(cl.eps[1], CONTEXT), 0);
    send = send_int(&cl, USE(2) | 7, &early);
    open_use(&cl, 1, CONTEXT, 2);
    receive_int(&cl, 2, early);
    cluster_wait_error(&cl, 0, send, 0);
    assert_int_equal(cluster_stats(&cl, 1).dropped, 0);
    cluster_close(&cl);
}

/* Whatever arrives in between, and however many uses ago it was sent. */
static void test_a_receive_meets_its_own_use(void **state)
{
    mbx_request recv, stale[3], send;
    const int values[] = {1, 2, 3, 4};
    struct mbx_status status;
    struct cluster cl;
    int value = -1;

    cluster_open(&cl, *state, 2, NULL);
    stale[0] = send_int(&cl, USE(1) | 4, &values[0]); /* a use that was never opened */
    stale[1] = send_int(&cl, USE(2) | 4, &values[1]);
    open_use(&cl, 1, CONTEXT, 3);
    assert_int_equal(cluster_probe(&cl, 1, MBX_ANY_SOURCE, CONTEXT, ANY_OF(3), &status), 0);
    assert_int_equal(mbx_recv(cl.eps[1], MBX_ANY_SOURCE, CONTEXT, ANY_OF(3), &value,
                              sizeof value, NULL, &recv),
                     0);
    stale[2] = send_int(&cl, USE(2) | 4, &values[2]);
    send = send_int(&cl, USE(3) | 4, &values[3]);
    cluster_wait_error(&cl, 1, recv, 0);
    assert_int_equal(value, values[3]);
    cluster_wait_error(&cl, 0, send, 0);
    if (!stay_away(&cl))
        all_are_gone(&cl, stale, 3, 3);
    cluster_close(&cl);
}

/* Ending a use does not affect other context ids. */
static void test_other_context_ids_are_left_alone(void **state)
{
    struct cluster cl;
    mbx_request send, recv;
    int value = 8, got = 0;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_send(cl.eps[0], 1, OTHER, USE(1), &value, sizeof value, NULL, &send),
                     0);
    cluster_settle(&cl);
    open_use(&cl, 1, CONTEXT, 1);
    assert_int_equal(mbx_context_close(cl.eps[1], CONTEXT), 0);
    open_use(&cl, 1, CONTEXT, 2);
    assert_int_equal(mbx_recv(cl.eps[1], 0, OTHER, USE(1), 0, &got, sizeof got, NULL, &recv),
                     0);
    cluster_wait_error(&cl, 1, recv, 0);
    cluster_wait_error(&cl, 0, send, 0);
    assert_int_equal(got, value);
    cluster_close(&cl);
}

/* The library drops messages without a probe: an observer sees no probe, and each message that
 * came has gone. */
struct seen {
    int came, went;
};

static void watch(void *user, int has_come, const struct mbx_status *message)
{
    struct seen *seen = user;

    assert_int_equal(message->context_id, CONTEXT);
    seen->came += has_come != 0;
    seen->went += has_come == 0;
}

static void test_observers_see_no_probe(void **state)
{
    mbx_request sends[2 * MBX_PROTOCOLS];
    struct seen seen = {0};
    struct cluster cl;
    int count;

    cluster_open(&cl, *state, 2, NULL);
    if (!stay_away(&cl)) {
        assert_int_equal(mbx_watch_unexpected(cl.eps[1], watch, &seen), 0);
        open_use(&cl, 1, CONTEXT, 1);
        count = send_all(&cl, 1, sends);
        cluster_settle(&cl);
        assert_int_equal(mbx_context_close(cl.eps[1], CONTEXT), 0);
        all_are_gone(&cl, sends, count, (uint64_t)count);
        assert_int_equal(seen.came, count);
        assert_int_equal(seen.went, count);
        assert_int_equal(ep_peeks(cl.eps[1])->count, 0);
    }
    cluster_close(&cl);
}

/* Dropping takes the messages that a receive would match, and no others. */
static void test_drop_takes_what_a_receive_would(void **state)
{
    const int values[] = {0, 1, 2, 3};
    mbx_request sends[4];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    if (config_window(cl.config) == UINT64_MAX) {
        for (int i = 0; i < 4; i++)
            sends[i] = send_int(&cl, USE(1) | (unsigned)i, &values[i]);
        assert_int_equal(mbx_drop(cl.eps[1], OTHER, 0, MBX_IGNORE_ALL), 0);
        assert_int_equal(mbx_drop(cl.eps[1], CONTEXT, USE(2), LOWER_HALF), 0);
        assert_int_equal(mbx_drop(cl.eps[1], CONTEXT, USE(1) | 2, 1), 2);
        assert_int_equal(cluster_stats(&cl, 1).unexpected_now, 2);
        receive_int(&cl, 1, values[0]);
        receive_int(&cl, 1, values[1]);
        all_are_gone(&cl, sends, 4, 2);
    }
    cluster_close(&cl);
}

static void test_wrong_arguments(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 1, NULL);
    assert_int_equal(mbx_context_open(cl.eps[0], MBX_CONTEXT_MAX + 1, 0, 0), -EINVAL);
    assert_int_equal(mbx_context_close(cl.eps[0], CONTEXT), -EINVAL);
    open_use(&cl, 0, CONTEXT, 1);
    assert_int_equal(mbx_context_close(cl.eps[0], CONTEXT), 0);
    assert_int_equal(mbx_context_close(cl.eps[0], CONTEXT), -EINVAL);
    assert_int_equal(mbx_drop(cl.eps[0], MBX_CONTEXT_MAX + 1, 0, 0), -EINVAL);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_over_goes),
        cmocka_unit_test(test_what_is_to_come_waits),
        cmocka_unit_test(test_a_receive_meets_its_own_use),
        cmocka_unit_test(test_other_context_ids_are_left_alone),
        cmocka_unit_test(test_observers_see_no_probe),
        cmocka_unit_test(test_drop_takes_what_a_receive_would),
        cmocka_unit_test(test_wrong_arguments),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
