/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * close_test.c - operations that have arrived when an endpoint or a region is closed are
 * performed and answered first.
 *
 * Endpoint 0 starts an operation.  Endpoint 1 makes no progress, and then closes: operations
 * that it does not perform in that call are never performed.
 */
#include "cluster.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"

#define KEY     UINT64_C(77)
#define CONTEXT 3
#define LONG    ((size_t)(1 << 20) + 7)
#define CELLS   64 /* of 8 bytes, at the beginning of the region */

static unsigned char memory[LONG], here[LONG];

/* In other configurations it is unknown which operations have arrived. */
static bool is_meant(const struct configuration *config)
{
    return !config_is_network(config) && !config_has_faults(config);
}

static void open_two(struct cluster *cl, void **state, const char *const *params)
{
    const struct mbx_region region = {
        .buf = memory, .size = LONG, .rights = MBX_REMOTE_READ | MBX_REMOTE_WRITE};

    cluster_open(cl, *state, 2, params);
    memset(memory, 0, sizeof memory);
    memset(here, 0, sizeof here);
    assert_int_equal(mbx_register(cl->eps[1], KEY, &region), 0);
}

/* Only endpoint 0 makes progress. */
static int end_of(struct cluster *cl, mbx_request request)
{
    struct mbx_completion c;
    int err;

    for (int i = 0; (err = mbx_wait(cl->eps[0], request, 1000000, &c)) != 0; i++) {
        assert_true(err == -EINTR || err == -ETIMEDOUT);
        assert_true(i < test_patience());
    }
    return c.error;
}

/* A packet after others may leave only when these are answered: then it does not arrive. */
static uint64_t may_arrive(const struct cluster *cl, uint64_t count)
{
    return config_has_param(cl->config, "LOOP_DEPTH=1") ? 1
           : config_is_loop(cl->config)                 ? min_size(count, 4)
                                                        : count;
}

static mbx_request put(struct cluster *cl, const void *buf, size_t size, uint64_t at)
{
    mbx_request request;

    assert_int_equal(mbx_write(cl->eps[0], 1, buf, size, KEY, at, NULL, &request), 0);
    return request;
}

static void a_put_is_performed(struct cluster *cl, bool is_region)
{
    const uint64_t value = 0x1234;
    mbx_request request = put(cl, &value, sizeof value, 8);

    if (is_region)
        assert_int_equal(mbx_deregister(cl->eps[1], KEY), 0);
    else
        assert_int_equal(cluster_close_one(cl, 1), 0);
    assert_memory_equal(memory + 8, &value, sizeof value);
    assert_int_equal(end_of(cl, request), 0);
    cluster_close(cl);
}

static void an_endpoint_that_closes_performs_a_put(void **state)
{
    struct cluster cl;

    open_two(&cl, state, NULL);
    a_put_is_performed(&cl, false);
}

static void a_region_that_closes_performs_a_put(void **state)
{
    struct cluster cl;

    if (config_is_elsewhere(*state))
        skip(); /* the device may still have it */
    open_two(&cl, state, NULL);
    a_put_is_performed(&cl, true);
}

static void with_many_threads_the_same(void **state)
{
    static const char *const many[] = {"THREADS=many", NULL};
    struct cluster cl;

    for (int is_region = 0; is_region < 2; is_region++) {
        if (is_region && config_is_elsewhere(*state))
            continue;
        open_two(&cl, state, many);
        a_put_is_performed(&cl, is_region);
    }
}

/* Every kind of access, after messages that nobody receives. */
static void all_kinds_are_performed(void **state)
{
    static const struct mbx_options with_data = {.data = 5, .flags = MBX_REMOTE_DATA};
    const uint64_t one = 1, nine = 9;
    uint64_t got = 0, before = 0;
    struct mbx_atomic_args add = {.op = MBX_SUM,
                                  .type = MBX_UINT64,
                                  .count = 1,
                                  .operand = &one,
                                  .result = &before,
                                  .key = KEY,
                                  .address = 16};
    mbx_request requests[4];
    struct cluster cl;

    open_two(&cl, state, NULL);
    memcpy(memory + 8, &nine, sizeof nine);
    memcpy(memory + 16, &nine, sizeof nine);
    requests[0] = put(&cl, &one, sizeof one, 0);
    assert_int_equal(mbx_read(cl.eps[0], 1, &got, sizeof got, KEY, 8, NULL, &requests[1]), 0);
    assert_int_equal(mbx_atomic(cl.eps[0], 1, &add, NULL, &requests[2]), 0);
    assert_int_equal(
        mbx_write(cl.eps[0], 1, &one, sizeof one, KEY, 24, &with_data, &requests[3]), 0);
    assert_int_equal(cluster_close_one(&cl, 1), 0);
    for (uint64_t i = 0; i < 4; i++) {
        int error = end_of(&cl, requests[i]);

        assert_true(error == 0 || (error == -ENOTCONN && i >= may_arrive(&cl, 4)));
    }
    if (may_arrive(&cl, 4) == 4) {
        assert_int_equal(got, 9);
        assert_int_equal(before, 9);
        assert_memory_equal(memory + 24, &one, sizeof one);
    }
    cluster_close(&cl);
}

/* More than one poll handles: messages that nobody receives, and as many puts as may be under
 * way. */
static void what_lies_deep_is_performed(void **state)
{
    enum { MANY = 60, PUTS = 32 };
    static const char *const small_ring[] = {"SHM_RING_SIZE=16K", NULL};
    uint64_t window = min_size(config_window(*state), MANY);
    mbx_request puts[PUTS];
    struct cluster cl;
    char byte = 1;

    if (config_is_loop(*state))
        skip(); /* the ring holds few packets */
    open_two(&cl, state, small_ring);
    for (uint64_t i = 0; i < window; i++)
        assert_int_equal(mbx_send(cl.eps[0], 1, CONTEXT, 1, &byte, 1, NULL, NULL), 0);
    for (uint64_t i = 0; i < PUTS; i++)
        puts[i] = put(&cl, &i, sizeof i, i * sizeof i);
    assert_int_equal(cluster_close_one(&cl, 1), 0);
    for (uint64_t i = 0; i < PUTS; i++) {
        assert_memory_equal(memory + i * sizeof i, &i, sizeof i);
        assert_int_equal(end_of(&cl, puts[i]), 0);
    }
    for (struct mbx_completion c; mbx_poll(cl.eps[0], MBX_SENDS, &c, 1) == 1;)
        assert_int_equal(c.error, 0);
    cluster_close(&cl);
}

/* The peer makes progress meanwhile. */
static void end_without_waiting(struct cluster *cl)
{
    int err;

    while ((err = mbx_try_deregister(cl->eps[1], KEY)) == -EAGAIN)
        mbx_progress(cl->eps[0]);
    assert_int_equal(err, 0);
    assert_int_equal(mbx_try_deregister(cl->eps[1], KEY), -ENOENT);
}

/* The transport moves the bytes in chunks. */
static void what_is_long_is_performed_whole(void **state)
{
    static const char *const chunks[] = {"READ_CHUNK=64K", NULL};
    struct mbx_protocol_row rows[MBX_PROTOCOLS];
    mbx_request request;
    struct cluster cl;

    for (int way = 0; way < 3; way++) {
        if (way > 0 && config_is_elsewhere(*state))
            continue;
        open_two(&cl, state, chunks);
        if (cluster_protocols(cl.eps[0], 1, rows) == 0 ||
            cluster_size_of(&cl, MBX_RNDV_READ) == 0) {
            cluster_close(&cl);
            skip(); /* the bytes have to be asked for */
        }
        request = put(&cl, seeded_bytes(1, LONG), LONG, 0);
        if (way == 2)
            end_without_waiting(&cl);
        else if (way == 1)
            assert_int_equal(mbx_deregister(cl.eps[1], KEY), 0);
        else
            assert_int_equal(cluster_close_one(&cl, 1), 0);
        assert_memory_equal(memory, seeded_bytes(1, LONG), LONG);
        assert_int_equal(end_of(&cl, request), 0);
        cluster_close(&cl);
    }
}

static atomic_bool is_closed;

static void *go_on(void *arg)
{
    struct mbx_ep *ep = arg;

    while (!atomic_load(&is_closed))
        mbx_progress(ep);
    return NULL;
}

/* Answers without space are retried until there is space. */
static void answers_wait_for_space(void **state)
{
    enum { GETS = 32, SIZE = 3000 };
    static const char *const narrow[] = {"SHM_RING_SIZE=4K", "CLOSE_TIMEOUT=900s", NULL};
    mbx_request gets[GETS];
    pthread_t thread;
    struct cluster cl;

    if (config_is_loop(*state))
        skip(); /* one thread uses its endpoints */
    open_two(&cl, state, narrow);
    memcpy(memory, seeded_bytes(2, LONG), LONG);
    for (size_t i = 0; i < GETS; i++)
        assert_int_equal(
            mbx_read(cl.eps[0], 1, here + i * SIZE, SIZE, KEY, i * SIZE, NULL, &gets[i]), 0);
    mbx_progress(cl.eps[0]);
    atomic_store(&is_closed, false);
    assert_int_equal(pthread_create(&thread, NULL, go_on, cl.eps[0]), 0);
    assert_int_equal(cluster_close_one(&cl, 1), 0);
    atomic_store(&is_closed, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < GETS; i++)
        assert_true(end_of(&cl, gets[i]) == 0 || i >= GETS / 2);
    assert_memory_equal(here, seeded_bytes(2, LONG), GETS / 2 * SIZE);
    cluster_close(&cl);
}

/* The call that closes has to send the FIN. */
static void a_synchronous_send_that_arrived_is_complete(void **state)
{
    mbx_request send;
    struct cluster cl;
    int value = 1, got = 0;

    if (config_window(*state) == 0 || config_has_param(*state, "LOOP_DEPTH=1"))
        skip(); /* it waits here; or there is no space for the FIN */
    open_two(&cl, state, NULL);
    assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 1, 0, &got, sizeof got, NULL, NULL), 0);
    cluster_settle(&cl);
    assert_int_equal(mbx_ssend(cl.eps[0], 1, CONTEXT, 1, &value, sizeof value, NULL, &send), 0);
    assert_int_equal(cluster_close_one(&cl, 1), 0);
    assert_int_equal(end_of(&cl, send), 0);
    assert_int_equal(got, 1);
    cluster_close(&cl);
}

/* Operations performed by the call that closes are also counted. */
static void all_that_was_served_is_told(void **state)
{
    const uint64_t value = 3;
    struct mbx_served served;
    mbx_request request;
    struct cluster cl;

    if (config_is_elsewhere(*state))
        skip();
    open_two(&cl, state, NULL);
    request = put(&cl, &value, sizeof value, 0);
    assert_int_equal(mbx_deregister_served(cl.eps[1], KEY, &served, 1), -EINVAL);
    assert_int_equal(mbx_deregister_served(cl.eps[1], KEY, &served, sizeof served), 0);
    assert_int_equal(served.writes, 1);
    assert_int_equal(served.reads, 0);
    assert_int_equal(mbx_deregister_served(cl.eps[1], KEY, &served, sizeof served), -ENOENT);
    assert_int_equal(end_of(&cl, request), 0);
    request = put(&cl, &value, sizeof value, 0);
    cluster_settle(&cl);
    assert_int_equal(end_of(&cl, request), -EACCES);
    cluster_close(&cl);
}

/* The initiator of an access closes: the access is still performed. */
static void an_access_outlives_its_initiator(void **state)
{
    static const struct mbx_options with_data = {.data = 5, .flags = MBX_REMOTE_DATA};
    const uint64_t value = 3;
    struct mbx_completion c;
    struct mbx_served served;
    struct cluster cl;
    int count = 0;

    open_two(&cl, state, NULL);
    assert_int_equal(mbx_write(cl.eps[0], 1, &value, sizeof value, KEY, 0, &with_data, NULL),
                     0);
    assert_int_equal(cluster_close_one(&cl, 0), 0);
    for (int i = 0; count == 0 && i < test_patience(); i++) {
        mbx_progress(cl.eps[1]);
        count = mbx_poll(cl.eps[1], MBX_EVENTS, &c, 1);
    }
    assert_int_equal(count, 1);
    assert_int_equal(c.status.data, 5);
    assert_memory_equal(memory, &value, sizeof value);
    assert_int_equal(mbx_region_served(cl.eps[1], KEY, &served, sizeof served), 0);
    assert_int_equal(served.writes, 1);
    cluster_close(&cl);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_endpoint_that_closes_performs_a_put),
        cmocka_unit_test(a_region_that_closes_performs_a_put),
        cmocka_unit_test(with_many_threads_the_same),
        cmocka_unit_test(all_kinds_are_performed),
        cmocka_unit_test(what_lies_deep_is_performed),
        cmocka_unit_test(what_is_long_is_performed_whole),
        cmocka_unit_test(answers_wait_for_space),
        cmocka_unit_test(a_synchronous_send_that_arrived_is_complete),
        cmocka_unit_test(all_that_was_served_is_told),
        cmocka_unit_test(an_access_outlives_its_initiator),
    };

    return test_main_for(argc, argv, is_meant, tests, ARRAY_COUNT(tests));
}
