/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_memory_test.c - the guarantees of transport.h for reads and writes of another
 * endpoint's memory, and for waiting, over every transport.
 */
#include "base/patience.h"
#include "testing/transport/transport_fixture.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "transport/memory.h"

/* Memory of node 1 that node 0 may read. */
struct exposed {
    struct link *reader, *owner;
    uint64_t address, key;
};

/* Also opens the two nodes. */
static void expose(void **state, struct exposed *x, void *memory, size_t size)
{
    fixture_init(state, 2);
    x->reader = link_to(0, 1);
    x->owner = link_to(1, 0);
    if (fixture.kind->network != NULL) { /* they have to meet first */
        send_all(x->owner, 0, 1);
        poll_until(&fixture.nodes[0].arrived[0], 1);
    }
    assert_int_equal(transport_expose(x->owner, memory, size, &x->address, &x->key), 0);
}

static int start(const struct exposed *x, void *here, uint64_t address, size_t size,
                 bool is_write, void *cookie)
{
    return is_write ? transport_write(x->reader, address, x->key, here, size, cookie)
                    : transport_read(x->reader, here, address, x->key, size, cookie);
}

/* Repeats the move until it succeeds; the fault transport fails some. */
static int move_whole(const struct exposed *x, void *here, uint64_t address, size_t size,
                      bool is_write)
{
    struct node *node = &fixture.nodes[0];
    uint32_t done = node->done;
    int err = -EAGAIN;

    for (unsigned round = 0; round < 1000 && (err == -EAGAIN || err == -EIO); round++) {
        err = start(x, here, address, size, is_write, &done);
        if (err == -EINPROGRESS) {
            poll_until(&node->done, ++done);
            assert_ptr_equal(node->read_cookie, &done);
            err = node->read_error;
        } else if (err == -EAGAIN) {
            poll_all();
        }
    }
    return err;
}

static int read_whole(const struct exposed *x, void *dst, uint64_t address, size_t size)
{
    return move_whole(x, dst, address, size, false);
}

static int write_whole(const struct exposed *x, const void *src, uint64_t address, size_t size)
{
    return move_whole(x, (void *)(uintptr_t)src, address, size, true);
}

static void exposed_memory_can_be_written(void **state)
{
    static unsigned char source[(1 << 20) + 3], target[(1 << 20) + 5];
    static const size_t sizes[] = {0, 1, 63, 4096, 65537, sizeof source};
    struct exposed x;

    fill(source, 7, sizeof source);
    expose(state, &x, target, sizeof target);
    if (!fixture.nodes[0].t->limits.can_read)
        skip();
    for (unsigned i = 0; i < 4 * ARRAY_COUNT(sizes); i++) {
        size_t size = sizes[i / 4];

        memset(target, 0, sizeof target);
        assert_int_equal(write_whole(&x, source, x.address + 1, size), 0);
        assert_memory_equal(target + 1, source, size);
        assert_true(target[0] == 0 && target[size + 1] == 0);
    }
    transport_unexpose(x.owner, x.address, x.key);
    fixture_fini();
}

static void exposed_memory_can_be_read(void **state)
{
    static unsigned char source[(1 << 20) + 3], target[(1 << 20) + 3];
    static const size_t sizes[] = {0, 1, 63, 4096, 65537, sizeof source};
    struct exposed x;

    fill(source, 7, sizeof source);
    expose(state, &x, source, sizeof source);
    if (!fixture.nodes[0].t->limits.can_read)
        skip();
    for (unsigned i = 0; i < 4 * ARRAY_COUNT(sizes); i++) {
        size_t size = sizes[i / 4];
        size_t offset = (sizeof source - size) / 2;

        memset(target, 0, sizeof target);
        assert_int_equal(read_whole(&x, target, x.address + offset, size), 0);
        assert_memory_equal(target, source + offset, size);
        assert_true(size == sizeof target || target[size] == 0);
    }
    transport_unexpose(x.owner, x.address, x.key);
    fixture_fini();
}

/* Whichever allocation fails: the memory is exposed as requested, or not at all. */
static void memory_that_is_short_exposes_nothing_halfway(void **state)
{
    static unsigned char source[8192], target[8192];
    struct exposed x;

    expose(state, &x, target, sizeof target);
    if (!fixture.nodes[0].t->limits.can_read)
        skip();
    for (uint64_t n = 1; n < 6; n++) {
        int err;

        transport_unexpose(x.owner, x.address, x.key);
        mem_fail_at(n);
        err = transport_expose(x.owner, target, sizeof target, &x.address, &x.key);
        mem_fail_at(0);
        if (err != 0) {
            assert_int_equal(err, -ENOMEM);
            assert_int_equal(
                transport_expose(x.owner, target, sizeof target, &x.address, &x.key), 0);
        }
        fill(source, (unsigned)n, sizeof source);
        assert_int_equal(write_whole(&x, source, x.address, sizeof source), 0);
        assert_memory_equal(target, source, sizeof source);
    }
    transport_unexpose(x.owner, x.address, x.key);
    fixture_fini();
}

/* An address comes out of a packet, and may have any value. */
static void reading_where_no_memory_is_fails(void **state)
{
    static const uint64_t wrong[] = {0, 4096, UINT64_MAX - 4096, UINT64_C(1) << 63};
    unsigned char source[64] = {1}, target[64];
    struct exposed x;

    expose(state, &x, source, sizeof source);
    for (unsigned i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_true(read_whole(&x, target, wrong[i], sizeof target) < 0);
        assert_true(write_whole(&x, target, wrong[i], sizeof target) < 0);
    }
    if (fixture.kind->network == NULL) { /* a network may have ended the connection */
        assert_int_equal(read_whole(&x, target, x.address, sizeof source), 0);
        assert_memory_equal(target, source, sizeof source);
    }
    fixture_fini();
}

static void a_closed_endpoint_cannot_be_read(void **state)
{
    unsigned char source[64] = {1}, target[64];
    struct exposed x;

    expose(state, &x, source, sizeof source);
    send_all(x.reader, 0, 1);
    assert_int_equal(read_whole(&x, target, x.address, sizeof source), 0);
    node_close(1);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(read_whole(&x, target, x.address, sizeof source), -ENOTCONN);
        assert_int_equal(write_whole(&x, target, x.address, sizeof source), -ENOTCONN);
    }
    assert_int_equal(source[0], 1);
    fixture_fini();
}

static void closing_with_reads_under_way_leaks_nothing(void **state)
{
    unsigned char source[64] = {1}, target[4][64];
    struct exposed x;

    expose(state, &x, source, sizeof source);
    for (unsigned i = 0; i < 4; i++)
        transport_read(x.reader, target[i], x.address, x.key, sizeof source, NULL);
    node_close(0);
    assert_int_equal(fixture.nodes[0].done, 0);
    fixture_fini();
}

/* ---- waiting ---- */

static void waiting_ends_in_time_or_with_work(void **state)
{
    struct transport *t;

    fixture_init(state, 2);
    t = fixture.nodes[1].t;
    link_to(1, 0);
    poll_idle();
    assert_int_equal(t->ops->wait(t, 2 * CLOCK_MS), -ETIMEDOUT);
    send_all(link_to(0, 1), 0, 1);
    assert_int_equal(t->ops->wait(t, -1), 0);
    poll_until(&fixture.nodes[1].arrived[0], 1);
    fixture_fini();
}

static void waiting_ends_when_there_is_space(void **state)
{
    struct link *link;
    uint32_t taken;

    fixture_init(state, 2);
    link = link_to(0, 1);
    link_to(1, 0);
    taken = send_until_full(link, 0);
    poll_until(&fixture.nodes[1].arrived[0], taken);
    assert_int_equal(link->transport->ops->wait(link->transport, PATIENCE_NS), 0);
    assert_true(send_until_full(link, taken) > taken);
    fixture_fini();
}

/* A caller that got -EAGAIN can wait, and does not wait forever. */
static void waiting_ends_after_every_again(void **state)
{
    unsigned char source[64] = {1}, target[64];
    struct exposed x;

    expose(state, &x, source, sizeof source);
    for (uint32_t i = 0; i < 200;) {
        int err = send_number(x.reader, i);

        if (err == 0) {
            i++;
            continue;
        }
        poll_idle();
        assert_int_equal(x.reader->transport->ops->wait(x.reader->transport, PATIENCE_NS), 0);
    }
    poll_until(&fixture.nodes[1].arrived[0], 200);
    for (unsigned i = 0; i < 50; i++) {
        int err = transport_read(x.reader, target, x.address, x.key, sizeof target, &i);

        if (err != -EINPROGRESS)
            continue;
        assert_int_equal(x.reader->transport->ops->wait(x.reader->transport, PATIENCE_NS), 0);
        poll_until(&fixture.nodes[0].done, fixture.nodes[0].done + 1);
    }
    fixture_fini();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exposed_memory_can_be_read),
        cmocka_unit_test(exposed_memory_can_be_written),
        cmocka_unit_test(memory_that_is_short_exposes_nothing_halfway),
        cmocka_unit_test(reading_where_no_memory_is_fails),
        cmocka_unit_test(a_closed_endpoint_cannot_be_read),
        cmocka_unit_test(closing_with_reads_under_way_leaks_nothing),
        cmocka_unit_test(waiting_ends_in_time_or_with_work),
        cmocka_unit_test(waiting_ends_when_there_is_space),
        cmocka_unit_test(waiting_ends_after_every_again),
    };

    return run_over_all(argc, argv, tests, ARRAY_COUNT(tests), NEEDS_MEMORY);
}
