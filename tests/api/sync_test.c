/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sync_test.c - a synchronous send completes only after a receive has taken the
 * message, whatever the protocol.
 */
#include "cluster.h"

#include <string.h>

#include "base/base.h"

#define CONTEXT 41

static mbx_request ssend(struct cluster *cl, uint32_t to, size_t size)
{
    mbx_request send;

    assert_int_equal(
        mbx_ssend(cl->eps[0], to, CONTEXT, 1, seeded_bytes(0, size), size, NULL, &send), 0);
    return send;
}

/* The send completes not before the match, and after the match without any further call of the
 * receiver except progress. */
static void late_receive(struct cluster *cl, uint32_t to, size_t size)
{
    struct guarded_buffer buffer;
    mbx_request send = ssend(cl, to, size), recv;

    cluster_settle(cl);
    assert_int_equal(mbx_test(cl->eps[0], send, NULL), 0);
    guarded_buffer_init(&buffer, size, 0);
    assert_int_equal(mbx_recv(cl->eps[to], MBX_ANY_SOURCE, CONTEXT, 0, MBX_IGNORE_ALL,
                              buffer.bytes, size, NULL, &recv),
                     0);
    cluster_wait_error(cl, 0, send, 0);
    cluster_wait_error(cl, (int)to, recv, 0);
    assert_memory_equal(buffer.bytes, seeded_bytes(0, size), size);
    guarded_buffer_fini(&buffer, size);
}

/* The receiver makes no progress: the send does not complete. */
static void early_receive(struct cluster *cl, size_t size)
{
    struct guarded_buffer buffer;
    mbx_request send, recv;

    guarded_buffer_init(&buffer, size, 0);
    assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 1, 0, buffer.bytes, size, NULL, &recv),
                     0);
    send = ssend(cl, 1, size);
    for (int i = 0; i < 100 && !config_is_elsewhere(cl->config); i++)
        assert_int_equal(mbx_test(cl->eps[0], send, NULL), 0);
    cluster_wait_error(cl, 1, recv, 0);
    cluster_wait_error(cl, 0, send, 0);
    guarded_buffer_fini(&buffer, size);
}

/* A probe does not complete the send; mrecv and discard do. */
static void probed(struct cluster *cl, size_t size, bool discard)
{
    struct guarded_buffer buffer;
    mbx_request send = ssend(cl, 1, size), recv;
    struct mbx_status status;
    mbx_message message;

    cluster_settle(cl);
    assert_int_equal(cluster_probe(cl, 1, 0, CONTEXT, 1, 0, &status), 1);
    assert_int_equal(cluster_mprobe(cl, 1, 0, CONTEXT, 1, 0, &status, &message), 1);
    cluster_settle(cl);
    assert_int_equal(mbx_test(cl->eps[0], send, NULL), 0);
    guarded_buffer_init(&buffer, size, 0);
    if (discard) {
        assert_int_equal(mbx_discard(cl->eps[1], message), 0);
    } else {
        assert_int_equal(mbx_mrecv(cl->eps[1], message, buffer.bytes, size, NULL, &recv), 0);
        cluster_wait_error(cl, 1, recv, 0);
    }
    cluster_wait_error(cl, 0, send, 0);
    guarded_buffer_fini(&buffer, discard ? 0 : size);
}

static void test_every_protocol(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++) {
        size_t size = cluster_size_of(&cl, (enum mbx_protocol)protocol);

        if (size == 0 && protocol != MBX_INLINE)
            continue;
        late_receive(&cl, 1, size);
        late_receive(&cl, 0, size);
        early_receive(&cl, size);
        probed(&cl, size, false);
        probed(&cl, size, true);
    }
    cluster_settle(&cl);
    assert_int_equal(cluster_stats(&cl, 0).requests_now, 0);
    assert_int_equal(cluster_stats(&cl, 1).requests_now, 0);
    cluster_close(&cl);
}

/* Many sends are under way, and are received in another order: each completes with its own
 * receive. */
static void test_each_with_its_own(void **state)
{
    static const size_t sizes[] = {0, 1, 100, 1000, 5000, 30000};
    mbx_request sends[36];
    unsigned char got[30000];
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (uint64_t i = 0; i < 36; i++)
        assert_int_equal(mbx_ssend(cl.eps[0], 1, CONTEXT, i,
                                   seeded_bytes((unsigned)i, sizes[i % 6]), sizes[i % 6], NULL,
                                   &sends[i]),
                         0);
    cluster_settle(&cl);
    for (uint64_t i = 36; i-- > 0;) {
        mbx_request recv;

        assert_int_equal(mbx_test(cl.eps[0], sends[i], NULL), 0);
        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, i, 0, got, sizeof got, NULL, &recv),
                         0);
        cluster_wait_error(&cl, 1, recv, 0);
        cluster_wait_error(&cl, 0, sends[i], 0);
        assert_memory_equal(got, seeded_bytes((unsigned)i, sizes[i % 6]), sizes[i % 6]);
    }
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_protocol),
        cmocka_unit_test(test_each_with_its_own),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
