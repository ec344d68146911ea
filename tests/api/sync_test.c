/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sync_test.c - a synchronous send completes only after a receive has taken the
 * message, whatever the protocol.
 */
#include "world.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"

#define CONTEXT 41

static mbx_request ssend(struct world *w, uint32_t to, size_t size)
{
    mbx_request send;

    assert_int_equal(
        mbx_ssend(w->eps[0], to, CONTEXT, 1, world_data(0, size), size, NULL, &send), 0);
    return send;
}

/* Not before the match, and after it without any further call of the receiver's but
 * progress. */
static void late_receive(struct world *w, uint32_t to, size_t size)
{
    struct world_buffer buffer;
    mbx_request send = ssend(w, to, size), recv;

    world_settle(w);
    assert_int_equal(mbx_test(w->eps[0], send, NULL), 0);
    world_buffer_init(&buffer, size, 0);
    assert_int_equal(mbx_recv(w->eps[to], MBX_ANY_SOURCE, CONTEXT, 0, MBX_IGNORE_ALL,
                              buffer.bytes, size, NULL, &recv),
                     0);
    world_wait_error(w, 0, send, 0);
    world_wait_error(w, (int)to, recv, 0);
    assert_memory_equal(buffer.bytes, world_data(0, size), size);
    world_buffer_fini(&buffer, size);
}

/* The receiver has not even looked: no completion. */
static void early_receive(struct world *w, size_t size)
{
    struct world_buffer buffer;
    mbx_request send, recv;

    world_buffer_init(&buffer, size, 0);
    assert_int_equal(mbx_recv(w->eps[1], 0, CONTEXT, 1, 0, buffer.bytes, size, NULL, &recv), 0);
    send = ssend(w, 1, size);
    for (int i = 0; i < 100 && !world_is_elsewhere(w->config); i++)
        assert_int_equal(mbx_test(w->eps[0], send, NULL), 0);
    world_wait_error(w, 1, recv, 0);
    world_wait_error(w, 0, send, 0);
    world_buffer_fini(&buffer, size);
}

/* A probe is no receive; mrecv and discard are. */
static void probed(struct world *w, size_t size, bool discard)
{
    struct world_buffer buffer;
    mbx_request send = ssend(w, 1, size), recv;
    struct mbx_status status;
    mbx_message message;

    world_settle(w);
    assert_int_equal(world_probe(w, 1, 0, CONTEXT, 1, 0, &status), 1);
    assert_int_equal(world_mprobe(w, 1, 0, CONTEXT, 1, 0, &status, &message), 1);
    world_settle(w);
    assert_int_equal(mbx_test(w->eps[0], send, NULL), 0);
    world_buffer_init(&buffer, size, 0);
    if (discard) {
        assert_int_equal(mbx_discard(w->eps[1], message), 0);
    } else {
        assert_int_equal(mbx_mrecv(w->eps[1], message, buffer.bytes, size, NULL, &recv), 0);
        world_wait_error(w, 1, recv, 0);
    }
    world_wait_error(w, 0, send, 0);
    world_buffer_fini(&buffer, discard ? 0 : size);
}

static void test_every_protocol(void **state)
{
    struct world w;

    world_open(&w, *state, 2, NULL);
    for (int protocol = 0; protocol < MBX_PROTOCOLS; protocol++) {
        size_t size = world_size_of(&w, (enum mbx_protocol)protocol);

        if (size == 0 && protocol != MBX_INLINE)
            continue;
        late_receive(&w, 1, size);
        late_receive(&w, 0, size);
        early_receive(&w, size);
        probed(&w, size, false);
        probed(&w, size, true);
    }
    world_settle(&w);
    assert_int_equal(world_stats(&w, 0).requests_now, 0);
    assert_int_equal(world_stats(&w, 1).requests_now, 0);
    world_close(&w);
}

/* Many at once, taken in another order than sent: each completes with its own. */
static void test_each_with_its_own(void **state)
{
    static const size_t sizes[] = {0, 1, 100, 1000, 5000, 30000};
    mbx_request sends[36];
    unsigned char got[30000];
    struct world w;

    world_open(&w, *state, 2, NULL);
    for (uint64_t i = 0; i < 36; i++)
        assert_int_equal(mbx_ssend(w.eps[0], 1, CONTEXT, i,
                                   world_data((unsigned)i, sizes[i % 6]), sizes[i % 6], NULL,
                                   &sends[i]),
                         0);
    world_settle(&w);
    for (uint64_t i = 36; i-- > 0;) {
        mbx_request recv;

        assert_int_equal(mbx_test(w.eps[0], sends[i], NULL), 0);
        assert_int_equal(mbx_recv(w.eps[1], 0, CONTEXT, i, 0, got, sizeof got, NULL, &recv), 0);
        world_wait_error(&w, 1, recv, 0);
        world_wait_error(&w, 0, sends[i], 0);
        assert_memory_equal(got, world_data((unsigned)i, sizes[i % 6]), sizes[i % 6]);
    }
    world_close(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_protocol),
        cmocka_unit_test(test_each_with_its_own),
    };

    return world_main(argc, argv, tests, ARRAY_COUNT(tests));
}
