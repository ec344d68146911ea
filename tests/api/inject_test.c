/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inject_test.c - the library owns an injected message when the call returns, also while there
 * is no space; the message keeps its order among other sends.
 */
#include "cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define CONTEXT 31
#define MANY    200

/* Injects more than any transport holds, before the receiver posts a receive.  The buffer is
 * overwritten at once. */
static void inject_many(struct cluster *cl, size_t size)
{
    unsigned char *buf = malloc(size), *got = malloc(size);
    mbx_request recv;

    for (int i = 0; i < MANY; i++) {
        memset(buf, i, size);
        assert_int_equal(mbx_inject(cl->eps[0], 1, CONTEXT, 1, buf, size, (uint64_t)i), 0);
        memset(buf, 0xEE, size);
    }
    for (int i = 0; i < MANY; i++) {
        struct mbx_completion done;

        assert_int_equal(mbx_recv(cl->eps[1], 0, CONTEXT, 1, 0, got, size, NULL, &recv), 0);
        cluster_wait(cl, 1, recv, &done);
        assert_int_equal(done.error, 0);
        assert_int_equal(done.status.data, i);
        memset(buf, i, size);
        assert_memory_equal(got, buf, size);
    }
    free(buf);
    free(got);
}

static void test_the_buffer_is_free_at_once(void **state)
{
    static const size_t sizes[] = {1, 32, 33, 100, 500, 2000, 8000};
    struct mbx_limits limits;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    mbx_limits_get(cl.eps[0], &limits, sizeof limits);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++)
        if (sizes[i] <= limits.inject)
            inject_many(&cl, sizes[i]);
    cluster_settle(&cl);
    assert_int_equal(cluster_stats(&cl, 0).requests_now, 0);
    assert_int_equal(mbx_wait_queues(cl.eps[0], MBX_SENDS, 0), -ETIMEDOUT);
    cluster_close(&cl);
}

/* An injected message does not overtake one that waits for space, and is not overtaken. */
static void test_order_among_sends(void **state)
{
    const unsigned char *data = seeded_bytes(0, 20000);
    struct mbx_completion done;
    unsigned char got[20000];
    struct mbx_limits limits;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    mbx_limits_get(cl.eps[0], &limits, sizeof limits);
    for (uint64_t i = 0; i < 60; i++) {
        const struct mbx_options numbered = {.data = i, .flags = MBX_SILENT};

        if (i % 3 == 0)
            assert_int_equal(mbx_inject(cl.eps[0], 1, CONTEXT, 1, data, i, i), 0);
        else
            assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 1, data, i % 3 == 1 ? 20000 : i,
                                      &numbered, NULL),
                             0);
    }
    for (uint64_t i = 0; i < 60; i++) {
        mbx_request recv;

        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, got, sizeof got, NULL, &recv),
                         0);
        cluster_wait(&cl, 1, recv, &done);
        assert_int_equal(done.status.data, i);
        assert_memory_equal(got, data, done.received);
    }
    cluster_settle(&cl);
    assert_int_equal(cluster_stats(&cl, 0).requests_now, 0);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_buffer_is_free_at_once),
        cmocka_unit_test(test_order_among_sends),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
