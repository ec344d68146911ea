/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * access_test.c - reads, writes and atomics of a peer's memory: they change exactly the
 * addressed bytes, in the order of the calls, and only where the owner permits it.
 */
#include "cluster.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"

#define KEY         UINT64_C(0x1234567890abcdef)
#define LONG        ((size_t)(1 << 20) + 7)

#define EVENTS_MOST 1024 /* of one peer, which nobody has read */

static const struct mbx_options with_data = {.data = 77, .flags = MBX_REMOTE_DATA};
static const struct mbx_options copied = {.flags = MBX_COPY};
static unsigned char memory[LONG + 64], here[LONG + 64];
static atomic_bool is_deregistered;

static bool is_all(const unsigned char *bytes, size_t size, unsigned char value)
{
    return size == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static void share(struct cluster *cl, int who, void *buf, size_t size, unsigned rights)
{
    const struct mbx_region region = {.buf = buf, .size = size, .rights = rights};

    assert_int_equal(mbx_register(cl->eps[who], KEY, &region), 0);
}

/* Opens two endpoints; memory of the second is shared. */
static void open_two(struct cluster *cl, void **state)
{
    cluster_open(cl, *state, 2, NULL);
    memset(memory, 0xaa, sizeof memory);
    share(cl, 1, memory, LONG, MBX_REMOTE_READ | MBX_REMOTE_WRITE);
}

static int end_of(struct cluster *cl, mbx_request request)
{
    struct mbx_completion c;

    cluster_wait(cl, 0, request, &c);
    assert_int_equal(c.kind, MBX_ACCESS);
    assert_int_equal(c.status.source, 1);
    assert_int_equal(c.status.tag, KEY);
    return c.error;
}

static int put(struct cluster *cl, const void *buf, size_t size, uint64_t at)
{
    mbx_request request;

    assert_int_equal(mbx_write(cl->eps[0], 1, buf, size, KEY, at, NULL, &request), 0);
    return end_of(cl, request);
}

static int get(struct cluster *cl, void *buf, size_t size, uint64_t at)
{
    mbx_request request;

    assert_int_equal(mbx_read(cl->eps[0], 1, buf, size, KEY, at, NULL, &request), 0);
    return end_of(cl, request);
}

/* ---- bytes ---- */

static const size_t sizes[] = {0, 1, 8, 400, 432, 433, 5000, 5120, 70000, LONG};

static void every_size_is_written_whole(void **state)
{
    struct cluster cl;

    open_two(&cl, state);
    for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
        size_t size = sizes[i], at = (LONG - size) / 2;

        memset(memory, 0xaa, sizeof memory);
        assert_int_equal(put(&cl, seeded_bytes(i, size), size, at), 0);
        assert_memory_equal(memory + at, seeded_bytes(i, size), size);
        assert_true(at == 0 || memory[at - 1] == 0xaa);
        assert_int_equal(memory[at + size], 0xaa);
    }
    assert_int_equal(cluster_stats(&cl, 0).puts, ARRAY_COUNT(sizes));
    assert_int_equal(cluster_stats(&cl, 1).served_writes, ARRAY_COUNT(sizes));
    cluster_close(&cl);
}

static void every_size_is_read_whole(void **state)
{
    struct cluster cl;

    open_two(&cl, state);
    for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
        size_t size = sizes[i], at = (LONG - size) / 3;

        memcpy(memory + at, seeded_bytes(i, size), size);
        memset(here, 0xbb, sizeof here);
        assert_int_equal(get(&cl, here, size, at), 0);
        assert_memory_equal(here, seeded_bytes(i, size), size);
        assert_int_equal(here[size], 0xbb);
    }
    assert_int_equal(cluster_stats(&cl, 0).gets, ARRAY_COUNT(sizes));
    assert_int_equal(cluster_stats(&cl, 1).served_reads, ARRAY_COUNT(sizes));
    cluster_close(&cl);
}

/* Neither side can access the other's memory: everything travels in packets. */
static void without_reads_it_goes_in_packets(void **state)
{
    static const char *const params[] = {"RNDV=data", NULL};
    struct cluster cl;

    cluster_open(&cl, *state, 2, params);
    memset(memory, 0, sizeof memory);
    share(&cl, 1, memory, LONG, MBX_REMOTE_READ | MBX_REMOTE_WRITE);
    assert_int_equal(put(&cl, seeded_bytes(3, LONG), LONG, 0), 0);
    assert_memory_equal(memory, seeded_bytes(3, LONG), LONG);
    assert_int_equal(get(&cl, here, LONG, 0), 0);
    assert_memory_equal(here, seeded_bytes(3, LONG), LONG);
    cluster_close(&cl);
}

static void an_address_may_start_anywhere(void **state)
{
    struct mbx_region region = {.buf = memory,
                                .size = 1000,
                                .address = (uintptr_t)memory,
                                .rights = MBX_REMOTE_READ | MBX_REMOTE_WRITE};
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    assert_int_equal(mbx_register(cl.eps[1], KEY, &region), 0);
    assert_int_equal(mbx_register(cl.eps[1], KEY, &region), -EEXIST);
    memset(memory, 0, 1000);
    assert_int_equal(put(&cl, seeded_bytes(1, 100), 100, region.address + 900), 0);
    assert_memory_equal(memory + 900, seeded_bytes(1, 100), 100);
    assert_int_equal(put(&cl, here, 1, region.address - 1), -ERANGE);
    assert_int_equal(put(&cl, here, 1, 0), -ERANGE);
    region.address = UINT64_MAX - 999;
    assert_int_equal(mbx_register(cl.eps[1], KEY + 1, &region), -EINVAL);
    region.rights = 8;
    region.address = 0;
    assert_int_equal(mbx_register(cl.eps[1], KEY + 1, &region), -EINVAL);
    cluster_close(&cl);
}

static void one_may_access_oneself(void **state)
{
    mbx_request request;
    struct cluster cl;

    cluster_open(&cl, *state, 1, NULL);
    share(&cl, 0, memory, LONG, MBX_REMOTE_READ | MBX_REMOTE_WRITE);
    assert_int_equal(
        mbx_write(cl.eps[0], 0, seeded_bytes(1, 60000), 60000, KEY, 5, NULL, &request), 0);
    cluster_wait_error(&cl, 0, request, 0);
    assert_int_equal(mbx_read(cl.eps[0], 0, here, 60000, KEY, 5, NULL, &request), 0);
    cluster_wait_error(&cl, 0, request, 0);
    assert_memory_equal(here, seeded_bytes(1, 60000), 60000);
    cluster_close(&cl);
}

/* ---- violations of rights and bounds ---- */

static void rights_and_bounds_are_kept(void **state)
{
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    memset(memory, 0xaa, sizeof memory);
    share(&cl, 1, memory, 6000, MBX_REMOTE_READ);
    assert_int_equal(put(&cl, here, 8, 0), -EACCES);
    assert_int_equal(put(&cl, here, 5500, 0), -EACCES);
    assert_int_equal(put(&cl, here, 0, 0), -EACCES);
    assert_int_equal(get(&cl, here, 6000, 0), 0);
    assert_int_equal(get(&cl, here, 6001, 0), -ERANGE);
    assert_int_equal(get(&cl, here, 1, 6000), -ERANGE);
    assert_int_equal(get(&cl, here, 0, 6000), 0);
    assert_int_equal(get(&cl, here, 0, 6001), -ERANGE);
    assert_int_equal(get(&cl, here, 1, UINT64_MAX - 1), -ERANGE);
    assert_int_equal(mbx_deregister(cl.eps[1], KEY), 0);
    assert_int_equal(mbx_deregister(cl.eps[1], KEY), -ENOENT);
    assert_int_equal(get(&cl, here, 1, 0), -EACCES);
    share(&cl, 1, memory, 6000, MBX_REMOTE_WRITE);
    assert_int_equal(get(&cl, here, 8, 0), -EACCES);
    assert_int_equal(get(&cl, here, 5500, 0), -EACCES);
    assert_true(is_all(memory, 6000, 0xaa));
    assert_int_equal(cluster_stats(&cl, 0).access_errors, 10);
    assert_int_equal(cluster_stats(&cl, 0).dropped_packets, 0);
    assert_int_equal(cluster_stats(&cl, 1).dropped_packets, 0);
    cluster_close(&cl);
}

static void wrong_arguments_are_refused(void **state)
{
    const struct mbx_atomic_args none = {.op = MBX_SUM, .type = MBX_INT32, .operand = here};
    struct mbx_atomic_args a = {.op = MBX_CSWAP,
                                .type = MBX_INT32,
                                .count = 1,
                                .operand = here,
                                .compare = here,
                                .result = here};
    const struct mbx_options unknown = {.flags = 128};
    struct mbx_limits limits;
    mbx_request request;
    struct cluster cl;
    struct mbx_ep *ep;

    open_two(&cl, state);
    ep = cl.eps[0];
    mbx_limits_get(ep, &limits, sizeof limits);
    assert_int_equal(mbx_write(ep, 2, here, 1, KEY, 0, NULL, NULL), -EINVAL);
    assert_int_equal(mbx_write(ep, 1, NULL, 1, KEY, 0, NULL, NULL), -EINVAL);
    assert_int_equal(mbx_write(ep, 1, here, 2, KEY, UINT64_MAX - 1, NULL, NULL), -EINVAL);
    assert_int_equal(mbx_write(ep, 1, here, limits.message + 1, KEY, 0, NULL, NULL), -EINVAL);
    assert_int_equal(mbx_write(ep, 1, here, limits.inject + 1, KEY, 0, &copied, NULL),
                     -EMSGSIZE);
    assert_int_equal(mbx_write(ep, 1, here, 1, KEY, 0, &unknown, NULL), -EINVAL);
    assert_int_equal(mbx_read(ep, 1, here, 1, KEY, 0, &copied, NULL), -EINVAL);
    assert_int_equal(mbx_send(ep, 1, 1, 1, here, 1, &with_data, NULL), -EINVAL);
    assert_int_equal(mbx_atomic(ep, 1, &none, NULL, NULL), -EINVAL);
    a.compare = NULL;
    assert_int_equal(mbx_atomic(ep, 1, &a, NULL, NULL), -EINVAL);
    a.op = MBX_ATOMIC_READ;
    assert_int_equal(mbx_atomic(ep, 1, &a, NULL, NULL), -EINVAL);
    a.op = MBX_BOR;
    a.type = MBX_DOUBLE;
    assert_int_equal(mbx_atomic(ep, 1, &a, NULL, NULL), -EOPNOTSUPP);
    a.type = MBX_INT32;
    a.count = limits.atomic / 4 + 1;
    assert_int_equal(mbx_atomic(ep, 1, &a, NULL, NULL), -EMSGSIZE);
    assert_int_equal(mbx_write(ep, 1, here, 1, KEY, 0, NULL, &request), 0);
    assert_int_equal(mbx_cancel(ep, request), -EOPNOTSUPP);
    assert_int_equal(end_of(&cl, request), 0);
    cluster_close(&cl);
}

/* ---- order ---- */

/* More writes than may be under way, of all lengths, all to the same place; a read after
 * each. */
static void accesses_are_performed_in_order(void **state)
{
    static const size_t lengths[] = {8, 3000, 20000, 64};
    enum { MANY = 100 };
    static uint64_t values[MANY][20000 / 8], seen[MANY];
    mbx_request request[2 * MANY];
    struct cluster cl;

    open_two(&cl, state);
    for (unsigned i = 0; i < MANY; i++) {
        size_t size = lengths[i % ARRAY_COUNT(lengths)];

        for (size_t k = 0; k < size / 8; k++)
            values[i][k] = i + 1;
        assert_int_equal(
            mbx_write(cl.eps[0], 1, values[i], size, KEY, 0, NULL, &request[2 * i]), 0);
        assert_int_equal(
            mbx_read(cl.eps[0], 1, &seen[i], 8, KEY, size - 8, NULL, &request[2 * i + 1]), 0);
    }
    for (unsigned i = 0; i < 2 * MANY; i++)
        assert_int_equal(end_of(&cl, request[i]), 0);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(seen[i], i + 1);
    cluster_close(&cl);
}

static void what_is_copied_may_change_at_once(void **state)
{
    enum { MANY = 100 };
    struct mbx_limits limits;
    struct cluster cl;
    size_t most;

    open_two(&cl, state);
    mbx_limits_get(cl.eps[0], &limits, sizeof limits);
    most = min_size(6000, limits.inject);
    for (unsigned i = 0; i < MANY; i++) {
        const struct mbx_options silent = {.flags = MBX_COPY | MBX_SILENT};
        size_t size = i % 2 ? min_size(8, most) : most;

        memcpy(here, seeded_bytes(i, size), size);
        assert_int_equal(mbx_write(cl.eps[0], 1, here, size, KEY, i * 6000, &silent, NULL), 0);
        memset(here, 0, size);
    }
    assert_int_equal(get(&cl, here, 1, 0), 0); /* after all of them */
    for (unsigned i = 0; i < MANY; i++)
        assert_memory_equal(memory + i * 6000, seeded_bytes(i, most),
                            i % 2 ? min_size(8, most) : most);
    assert_int_equal(mbx_poll(cl.eps[0], MBX_ACCESS, &(struct mbx_completion){0}, 1), 0);
    cluster_close(&cl);
}

/* More atomics than may be under way, of the longest kind: some leave in the call and the
 * others later. */
static void what_an_atomic_takes_may_change_at_once(void **state)
{
    enum { MANY = 40 };
    const struct mbx_options silent = {.flags = MBX_COPY | MBX_SILENT};
    uint64_t sum[2048 / 8], was[2048 / 8], next[2048 / 8];
    struct mbx_atomic_args
        add = {.op = MBX_SUM, .type = MBX_UINT64, .operand = sum, .key = KEY},
        swap = {
            .op = MBX_CSWAP, .type = MBX_UINT64, .operand = next, .compare = was, .key = KEY};
    uint64_t cells[2048 / 8];
    struct mbx_limits limits;
    struct cluster cl;

    open_two(&cl, state);
    memset(memory, 0, sizeof sum);
    mbx_limits_get(cl.eps[0], &limits, sizeof limits);
    add.count = swap.count = min_size(limits.atomic, sizeof sum) / 8;
    for (unsigned i = 0; i < MANY; i++) {
        for (size_t k = 0; k < add.count; k++) {
            sum[k] = 1;
            was[k] = 3 * i + 1;
            next[k] = 3 * i + 3;
        }
        assert_int_equal(mbx_atomic(cl.eps[0], 1, &add, &silent, NULL), 0);
        assert_int_equal(mbx_atomic(cl.eps[0], 1, &swap, &silent, NULL), 0);
        memset(sum, 0xff, sizeof sum);
        memset(was, 0xff, sizeof was);
        memset(next, 0xff, sizeof next);
    }
    assert_int_equal(get(&cl, here, 1, 0), 0); /* after all of them */
    memcpy(cells, memory, sizeof cells);
    for (size_t k = 0; k < add.count; k++)
        assert_int_equal(cells[k], 3 * MANY);
    cluster_close(&cl);
}

/* ---- events ---- */

/* More events than fit: later writes wait for the reader, so no event is lost. */
static void events_come_in_order_and_none_is_lost(void **state)
{
    const uint64_t many = test_is_quick() ? 1100 : 3000;
    struct mbx_completion c;
    uint64_t got = 0;
    struct cluster cl;

    open_two(&cl, state);
    for (uint64_t i = 0; i < many; i++) {
        const struct mbx_options options = {.data = i,
                                            .flags = MBX_REMOTE_DATA | MBX_COPY | MBX_SILENT};

        assert_int_equal(mbx_write(cl.eps[0], 1, &i, i % 3 * 4, KEY, 0, &options, NULL), 0);
    }
    cluster_settle(&cl);
    assert_true(cluster_stats(&cl, 1).served_writes <= EVENTS_MOST);
    for (int idle = 0; got < many;) {
        if (mbx_poll(cl.eps[1], MBX_EVENTS, &c, 1) == 0) {
            idle = cluster_progress(&cl) > 0 ? 0 : idle + 1;
            assert_true(idle < test_patience());
            continue;
        }
        assert_int_equal(c.kind, MBX_EVENTS);
        assert_int_equal(c.status.data, got);
        assert_int_equal(c.status.tag, KEY);
        assert_int_equal(c.status.size, got % 3 * 4);
        assert_int_equal(c.status.source, 0);
        got++;
    }
    cluster_settle(&cl);
    assert_int_equal(cluster_stats(&cl, 0).puts, many);
    /* a refused write makes no event */
    assert_int_equal(mbx_write(cl.eps[0], 1, here, 8, KEY + 1, 0, &with_data, NULL), 0);
    cluster_settle(&cl);
    assert_int_equal(mbx_poll(cl.eps[1], MBX_EVENTS, &c, 1), 0);
    assert_int_equal(mbx_poll(cl.eps[0], MBX_ACCESS, &c, 1), 1);
    assert_int_equal(c.error, -EACCES);
    cluster_close(&cl);
}

/* ---- the end ---- */

static void *go_on(void *arg)
{
    struct mbx_ep *ep = arg;

    while (!atomic_load(&is_deregistered))
        mbx_progress(ep);
    return NULL;
}

/* Does the processor of the other side move the bytes, as over TCP?  Then a move that is under
 * way ends by that side's progress. */
static bool is_moved_by_peer(const struct configuration *config)
{
    return config_is_network(config) && !config_is_verbs(config);
}

/* Deregisters; if the peer moves the bytes, it makes progress meanwhile, as a process would. */
static void deregister(const struct cluster *cl, int owner, int peer)
{
    bool goes_on = is_moved_by_peer(cl->config);
    pthread_t thread;

    atomic_store(&is_deregistered, false);
    if (goes_on)
        assert_int_equal(pthread_create(&thread, NULL, go_on, cl->eps[peer]), 0);
    assert_int_equal(mbx_deregister(cl->eps[owner], KEY), 0);
    atomic_store(&is_deregistered, true);
    if (goes_on)
        assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_deregistered_region_is_left_alone(void **state)
{
    enum { MANY = 36, MANY_LONG = 8 }; /* more than may be under way: not all have arrived */
    mbx_request request[MANY];
    struct cluster cl;
    int refused = 0;

    for (int rounds = 0; rounds < 12; rounds++) {
        open_two(&cl, state);
        for (int i = 0; i < MANY; i++) {
            size_t size = i < MANY_LONG ? LONG : 8;

            assert_int_equal(
                i % 2 ? mbx_write(cl.eps[0], 1, seeded_bytes(1, size), size, KEY, 0, NULL,
                                  &request[i])
                      : mbx_read(cl.eps[0], 1, here, size, KEY, 0, NULL, &request[i]),
                0);
        }
        for (int i = 0; i < rounds; i++)
            cluster_progress(&cl);
        deregister(&cl, 1, 0);
        memset(memory, 0x55, sizeof memory);
        for (int i = 0; i < MANY; i++) {
            int error = end_of(&cl, request[i]);

            assert_true(error == 0 || error == -EACCES);
            refused += error != 0;
        }
        assert_true(is_all(memory, sizeof memory, 0x55));
        cluster_close(&cl);
    }
    if (!is_moved_by_peer(*state)) /* a peer that makes progress may finish before */
        assert_true(refused != 0);
}

static void accesses_end_when_the_owner_is_gone(void **state)
{
    enum { MANY = 80 }; /* more than may be under way */
    mbx_request request[MANY];
    struct cluster cl;

    open_two(&cl, state);
    assert_int_equal(put(&cl, here, 8, 0), 0);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(mbx_write(cl.eps[0], 1, here, 8 + 1000 * (size_t)(i % 2), KEY, 0, NULL,
                                   &request[i]),
                         0);
    cluster_close_one(&cl, 1);
    for (int i = 0; i < MANY; i++) {
        struct mbx_completion c;
        int err;

        while ((err = mbx_wait(cl.eps[0], request[i], -1, &c)) == -EINTR)
            continue;
        assert_int_equal(err, 0);
        assert_true(c.error == -ENOTCONN || c.error == 0);
    }
    cluster_close(&cl);
}

static void what_is_under_way_may_be_abandoned(void **state)
{
    static const char *const params[] = {"CLOSE_TIMEOUT=1ms", NULL};
    struct cluster cl;

    cluster_open(&cl, *state, 2, params);
    share(&cl, 1, memory, LONG, MBX_REMOTE_READ | MBX_REMOTE_WRITE);
    for (int i = 0; i < 50; i++)
        assert_int_equal(
            mbx_write(cl.eps[0], 1, here, i % 2 ? 8 : LONG, KEY, 0, &with_data, NULL), 0);
    for (int i = 0; i < 3; i++)
        cluster_progress(&cl);
    cluster_close(&cl); /* checks for leaks */
}

static void memory_that_is_short_ends_nothing(void **state)
{
    mbx_request request[4];
    struct cluster cl;
    int started;

    for (uint64_t n = 1; n < 8; n++) {
        cluster_open(&cl, *state, 2, NULL);
        mem_fail_at(n);
        while (mbx_register(
                   cl.eps[1], KEY,
                   &(struct mbx_region){.buf = memory,
                                        .size = LONG,
                                        .rights = MBX_REMOTE_READ | MBX_REMOTE_WRITE}) < 0)
            continue;
        started = 0;
        for (int i = 0; i < 4; i++) {
            size_t size = i % 2 ? 100 : 20000;

            while (mbx_write(cl.eps[0], 1, seeded_bytes(2, size), size, KEY,
                             (unsigned)i * 60000, &with_data, &request[i]) < 0)
                continue;
            started++;
        }
        for (int i = 0; i < started; i++)
            assert_int_equal(end_of(&cl, request[i]), 0);
        mem_fail_at(0);
        for (unsigned i = 0; i < 4; i++)
            assert_memory_equal(memory + i * 60000, seeded_bytes(2, 20000),
                                i % 2 ? 100 : 20000);
        cluster_close(&cl);
    }
}

static void many_regions_are_told_apart(void **state)
{
    enum { MANY = 300 };
    static uint64_t cells[MANY], seen[MANY];
    struct mbx_served served;
    struct cluster cl;

    cluster_open(&cl, *state, 2, NULL);
    for (uint64_t i = 0; i < MANY; i++) {
        const struct mbx_region region = {&cells[i], 8, 0, MBX_REMOTE_READ, 0};

        cells[i] = i * i;
        assert_int_equal(mbx_register(cl.eps[1], i << 20, &region), 0);
    }
    for (uint64_t i = 0; i < MANY; i += 2)
        assert_int_equal(mbx_deregister(cl.eps[1], i << 20), 0);
    for (uint64_t i = 0; i < MANY; i++) {
        mbx_request request;
        struct mbx_completion c;

        assert_int_equal(mbx_read(cl.eps[0], 1, &seen[i], 8, i << 20, 0, NULL, &request), 0);
        cluster_wait(&cl, 0, request, &c);
        assert_int_equal(c.error, i % 2 ? 0 : -EACCES);
        assert_int_equal(seen[i], i % 2 ? i * i : 0);
    }
    assert_int_equal(mbx_region_served(cl.eps[1], 1 << 20, &served, sizeof served), 0);
    assert_true(served.reads == 1 && served.writes == 0);
    assert_int_equal(mbx_region_served(cl.eps[1], 2 << 20, &served, sizeof served), -ENOENT);
    mbx_served_get(cl.eps[1], &served, sizeof served);
    assert_true(served.reads == MANY / 2 && served.writes == 0);
    cluster_close(&cl);
}

static void update(struct cluster *cl, enum mbx_op op, bool brings)
{
    static const uint64_t y = 3, c = 5;
    uint64_t before;
    const struct mbx_atomic_args atomic = {
        .op = op,
        .type = MBX_UINT64,
        .count = 1,
        .operand = op == MBX_ATOMIC_READ ? NULL : &y,
        .compare = op >= MBX_CSWAP ? &c : NULL,
        .result = brings ? &before : NULL,
        .key = KEY,
    };
    mbx_request request;

    assert_int_equal(mbx_atomic(cl->eps[0], 1, &atomic, NULL, &request), 0);
    assert_int_equal(end_of(cl, request), 0);
}

/* An atomic that modifies is a write, and an atomic that returns a result is a read: so some
 * are both. */
static void what_is_served_is_counted_by_what_it_does(void **state)
{
    struct mbx_served region, all;
    struct cluster cl;

    open_two(&cl, state);
    assert_int_equal(put(&cl, here, 8, 0), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(get(&cl, here, 8, 0), 0);
    update(&cl, MBX_SUM, false);
    update(&cl, MBX_CSWAP, false);
    update(&cl, MBX_ATOMIC_WRITE, false);
    update(&cl, MBX_ATOMIC_READ, true);
    update(&cl, MBX_SUM, true);
    update(&cl, MBX_CSWAP, true);
    update(&cl, MBX_MSWAP, true);
    update(&cl, MBX_ATOMIC_WRITE, true);
    assert_int_equal(mbx_region_served(cl.eps[1], KEY, &region, sizeof region), 0);
    assert_int_equal(region.reads, 10 + 1 + 4);
    assert_int_equal(region.writes, 1 + 3 + 4);
    assert_int_equal(region.both, 4);
    mbx_served_get(cl.eps[1], &all, sizeof all);
    assert_memory_equal(&all, &region, sizeof all);
    cluster_close(&cl);
}

/* Configurations that differ in the way of bytes and packets; the way of matching matters
 * little. */
static bool is_meant(const struct configuration *config)
{
    static const char *const names[] = {
        "loop", "loop-fault", "loop-depth-1",  "loop-data",   "loop-eager-0", "loop-soft",
        "shm",  "shm-fault",  "shm-no-attach", "shm-ring-4k", "shm-thread",   "shm-process"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(config->name, names[i]) == 0)
            return true;
    return config_is_network(config);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest each[] = {
        cmocka_unit_test(every_size_is_written_whole),
        cmocka_unit_test(every_size_is_read_whole),
        cmocka_unit_test(without_reads_it_goes_in_packets),
        cmocka_unit_test(an_address_may_start_anywhere),
        cmocka_unit_test(one_may_access_oneself),
        cmocka_unit_test(rights_and_bounds_are_kept),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(accesses_are_performed_in_order),
        cmocka_unit_test(what_is_copied_may_change_at_once),
        cmocka_unit_test(what_an_atomic_takes_may_change_at_once),
        cmocka_unit_test(events_come_in_order_and_none_is_lost),
        cmocka_unit_test(a_deregistered_region_is_left_alone),
        cmocka_unit_test(accesses_end_when_the_owner_is_gone),
        cmocka_unit_test(what_is_under_way_may_be_abandoned),
        cmocka_unit_test(memory_that_is_short_ends_nothing),
        cmocka_unit_test(many_regions_are_told_apart),
        cmocka_unit_test(what_is_served_is_counted_by_what_it_does),
    };

    return test_main_for(argc, argv, is_meant, each, ARRAY_COUNT(each));
}
