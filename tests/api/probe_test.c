/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe_test.c - probes find messages, and matched probes take them out for one receive.
 */
#include "cluster.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

#define CONTEXT 11

static void inject(struct cluster *cl, int from, int to, uint64_t tag, int value)
{
    assert_int_equal(
        mbx_inject(cl->eps[from], (uint32_t)to, CONTEXT, tag, &value, sizeof value, 1000 + tag),
        0);
    cluster_settle(cl);
}

static int receive(struct cluster *cl, uint32_t source, uint64_t tag, uint64_t ignore)
{
    mbx_request recv;
    int value = -1;

    assert_int_equal(
        mbx_recv(cl->eps[1], source, CONTEXT, tag, ignore, &value, sizeof value, NULL, &recv),
        0);
    cluster_wait_error(cl, 1, recv, 0);
    return value;
}

/* A probe shows what the receive will take, and takes nothing. */
static void test_probe_shows_the_oldest_that_fits(void **state)
{
    struct mbx_status status;
    struct cluster cl;
    int first;

    cluster_open(&cl, *state, 3, NULL);
    assert_int_equal(cluster_probe(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 0, MBX_IGNORE_ALL, &status),
                     0);
    inject(&cl, 0, 1, 4, 40);
    inject(&cl, 2, 1, 5, 50);
    inject(&cl, 0, 1, 5, 51);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(
            cluster_probe(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 0, MBX_IGNORE_ALL, &status), 1);
        if (config_window(cl.config) == 0 && status.source == 2) {
            assert_int_equal(status.tag, 5);
            continue; /* any order among the senders is right */
        }
        assert_int_equal(status.source, 0);
        assert_int_equal(status.tag, 4);
        assert_int_equal(status.data, 1004);
        assert_int_equal(status.size, sizeof(int));
        assert_int_equal(status.context_id, CONTEXT);
    }
    assert_int_equal(cluster_probe(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 5, 0, &status), 1);
    if (config_window(cl.config) != 0)
        assert_int_equal(status.source, 2);
    assert_int_equal(cluster_probe(&cl, 1, 0, CONTEXT, 5, 0, &status), 1);
    assert_int_equal(status.source, 0);
    assert_int_equal(cluster_probe(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 6, 1, &status), 0);
    assert_int_equal(cluster_probe(&cl, 1, MBX_ANY_SOURCE, CONTEXT, 6, 2, &status), 1);
    assert_int_equal(status.tag, 4);
    assert_int_equal(cluster_probe(&cl, 1, MBX_ANY_SOURCE, CONTEXT + 1, 5, 0, &status), 0);
    assert_int_equal(receive(&cl, 0, 5, 0), 51);
    first = receive(&cl, MBX_ANY_SOURCE, 0, MBX_IGNORE_ALL);
    if (config_window(cl.config) != 0)
        assert_int_equal(first, 40);
    assert_true(first == 40 || first == 50);
    assert_int_equal(receive(&cl, MBX_ANY_SOURCE, 0, MBX_IGNORE_ALL), 90 - first);
    cluster_close(&cl);
}

/* A probe makes progress: no other call is needed to see a message. */
static void test_probe_makes_progress(void **state)
{
    struct mbx_status status;
    struct cluster cl;
    int value = 5, rounds = 0;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 1, &value, sizeof value, 0), 0);
    while (mbx_probe(cl.eps[1], 0, CONTEXT, 1, 0, &status) == 0) {
        mbx_progress(cl.eps[0]);
        assert_true(++rounds < test_patience());
    }
    if (!config_has_faults(cl.config) && !config_is_elsewhere(cl.config) &&
        !config_is_network(cl.config) && config_window(cl.config) != 0)
        assert_int_equal(rounds, 0);
    assert_int_equal(receive(&cl, 0, 1, 0), 5);
    cluster_close(&cl);
}

/* A matched probe takes a message out: nobody else sees it, and the others keep their order. */
static void test_mprobe_takes_out(void **state)
{
    struct mbx_status status;
    mbx_message message, other;
    mbx_request recv;
    struct mbx_completion done;
    struct cluster cl;
    int value = 0;

    cluster_open(&cl, *state, 2, NULL);
    inject(&cl, 0, 1, 1, 10);
    inject(&cl, 0, 1, 1, 11);
    inject(&cl, 0, 1, 1, 12);
    assert_int_equal(cluster_mprobe(&cl, 1, 0, CONTEXT, 1, 0, &status, &message), 1);
    assert_int_equal(cluster_mprobe(&cl, 1, 0, CONTEXT, 1, 0, &status, &other), 1);
    assert_int_not_equal(message, other);
    cluster_settle(&cl);
    assert_int_equal(cluster_waiting(&cl), 1);
    assert_int_equal(receive(&cl, 0, 1, 0), 12);
    assert_int_equal(cluster_probe(&cl, 1, 0, CONTEXT, 1, 0, &status), 0);
    assert_int_equal(mbx_mrecv(cl.eps[1], other, &value, sizeof value, NULL, &recv), 0);
    cluster_wait_error(&cl, 1, recv, 0);
    assert_int_equal(value, 11);
    assert_int_equal(mbx_mrecv(cl.eps[1], message, &value, sizeof value, NULL, &recv), 0);
    cluster_wait(&cl, 1, recv, &done);
    assert_int_equal(value, 10);
    assert_int_equal(done.status.source, 0);
    assert_int_equal(done.status.tag, 1);
    assert_int_equal(done.status.data, 1001);
    assert_int_equal(done.status.context_id, CONTEXT);
    assert_int_equal(cluster_stats(&cl, 1).unexpected_bytes_now, 0);
    cluster_close(&cl);
}

/* A message of every protocol, synchronous or not, is claimed, then received whole or
 * truncated. */
static void mprobe_one(struct cluster *cl, size_t size, size_t capacity, bool sync, bool early)
{
    const unsigned char *data = seeded_bytes(1, size);
    struct mbx_status status;
    struct mbx_completion done;
    struct guarded_buffer to;
    mbx_message message;
    mbx_request send, recv;
    int rounds = 0;

    guarded_buffer_init(&to, capacity, 0);
    assert_int_equal(
        (sync ? mbx_ssend : mbx_send)(cl->eps[0], 1, CONTEXT, 9, data, size, NULL, &send), 0);
    if (!early)
        cluster_settle(cl);
    while (mbx_mprobe(cl->eps[1], 0, CONTEXT, 9, 0, &status, &message) == 0) {
        mbx_progress(cl->eps[0]);
        assert_true(++rounds < test_patience());
    }
    assert_int_equal(status.size, size);
    assert_int_equal(mbx_mrecv(cl->eps[1], message, to.bytes, capacity, NULL, &recv), 0);
    cluster_wait(cl, 1, recv, &done);
    assert_int_equal(done.error, capacity < size ? -EMSGSIZE : 0);
    assert_int_equal(done.received, capacity);
    assert_memory_equal(to.bytes, data, capacity);
    cluster_wait_error(cl, 0, send, 0);
    guarded_buffer_fini(&to, capacity);
}

static void discard_one(struct cluster *cl, size_t size, bool sync, bool early)
{
    const unsigned char *data = seeded_bytes(1, size);
    struct mbx_status status;
    mbx_message message;
    mbx_request send;
    int rounds = 0;

    assert_int_equal(
        (sync ? mbx_ssend : mbx_send)(cl->eps[0], 1, CONTEXT, 9, data, size, NULL, &send), 0);
    if (!early)
        cluster_settle(cl);
    while (mbx_mprobe(cl->eps[1], 0, CONTEXT, 9, 0, &status, &message) == 0) {
        mbx_progress(cl->eps[0]);
        assert_true(++rounds < test_patience());
    }
    assert_int_equal(mbx_discard(cl->eps[1], message), 0);
    cluster_wait_error(cl, 0, send, 0);
    cluster_settle(cl);
    assert_int_equal(cluster_stats(cl, 1).requests_now, 0);
    assert_int_equal(cluster_stats(cl, 1).unexpected_bytes_now, 0);
}

static void test_claimed_messages_of_every_protocol(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++) {
        size_t size = cluster_size_of(&cl, (enum mbx_protocol)protocol);

        for (int how = 0; size > 0 && how < 4; how++) {
            mprobe_one(&cl, size, size, how & 1, how & 2);
            mprobe_one(&cl, size, size / 2, how & 1, how & 2);
            discard_one(&cl, size, how & 1, how & 2);
        }
    }
    assert_int_equal(cluster_stats(&cl, 1).truncated > 0, 1);
    cluster_close(&cl);
}

/* A claimed message that is never received is freed by the close, and its sender is
 * abandoned. */
static void test_claimed_and_closed(void **state)
{
    struct mbx_status status;
    mbx_message message;
    struct cluster cl;
    size_t size;

    cluster_open(&cl, *state, 2, NULL);
    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++) {
        size = cluster_size_of(&cl, (enum mbx_protocol)protocol);
        if (size == 0)
            continue;
        assert_int_equal(
            mbx_ssend(cl.eps[0], 1, CONTEXT, 9, seeded_bytes(0, size), size, NULL, NULL), 0);
        cluster_settle(&cl);
        assert_int_equal(cluster_mprobe(&cl, 1, 0, CONTEXT, 9, 0, &status, &message), 1);
    }
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe_shows_the_oldest_that_fits),
        cmocka_unit_test(test_probe_makes_progress),
        cmocka_unit_test(test_mprobe_takes_out),
        cmocka_unit_test(test_claimed_messages_of_every_protocol),
        cmocka_unit_test(test_claimed_and_closed),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
