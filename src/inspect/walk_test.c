/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk_test.c - the list of endpoints of a process, intact and in corrupt memory; and queues
 * that take for ever.
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/unit.h"
#include "inspect/budget.h"
#include "inspect/walk.h"

#define NODES 2000u
#define NEXT  16u /* the offset of the address of the next one in an endpoint */

/* Number 0 is the head of the list. */
static struct {
    unsigned char other[NEXT];
    uint64_t next;
} nodes[NODES + 1];

static uint64_t address_of(uint32_t node)
{
    return (uint64_t)(uintptr_t)&nodes[node];
}

static int read_nodes(UNUSED const struct inspect_source *source, uint64_t at, void *to,
                      size_t size)
{
    uint64_t begin = (uint64_t)(uintptr_t)nodes;

    if (at < begin || at - begin > sizeof nodes - size)
        return -EFAULT;
    memcpy(to, (const unsigned char *)nodes + (at - begin), size);
    return 0;
}

/* Makes a list of this length; returns a pointer to the link of its last node. */
static uint64_t *make_list(uint32_t count)
{
    for (uint32_t i = 0; i <= count; i++)
        nodes[i].next = i < count ? address_of(i + 1) : 0;
    return &nodes[count].next;
}

static int walk(uint64_t endpoints[INSPECT_ENDPOINTS_MAX], uint32_t *count)
{
    static const struct inspect_source source = {.read = read_nodes};
    struct inspect_map map = {.endpoints = address_of(0) + NEXT,
                              .offsets[INSPECT_EP_NEXT] = NEXT};
    int err = inspect_walk_endpoints(&map, &source, endpoints, count);

    for (uint32_t i = 0; i < *count && err == 0; i++)
        assert_int_equal(endpoints[i], address_of(i + 1));
    return err;
}

static void test_all_in_their_order(UNUSED void **state)
{
    uint64_t endpoints[INSPECT_ENDPOINTS_MAX];
    uint32_t count;

    for (uint32_t length = 0; length <= INSPECT_ENDPOINTS_MAX; length += 128) {
        make_list(length);
        assert_int_equal(walk(endpoints, &count), 0);
        assert_int_equal(count, length);
    }
}

/* A list that returns to one of its endpoints names each of them once. */
static void test_ring(UNUSED void **state)
{
    uint64_t endpoints[INSPECT_ENDPOINTS_MAX];
    uint32_t count;

    for (uint32_t back = 1; back <= 10; back++) {
        *make_list(10) = address_of(back);
        assert_int_equal(walk(endpoints, &count), 0);
        assert_int_equal(count, 10);
    }
}

static void test_too_many(UNUSED void **state)
{
    uint64_t endpoints[INSPECT_ENDPOINTS_MAX];
    uint32_t count;

    make_list(NODES);
    assert_int_equal(walk(endpoints, &count), 0);
    assert_int_equal(count, INSPECT_ENDPOINTS_MAX);
}

/* The endpoints before a damaged address are found. */
static void test_not_readable(UNUSED void **state)
{
    uint64_t endpoints[INSPECT_ENDPOINTS_MAX];
    uint32_t count;

    *make_list(3) = 8;
    assert_int_equal(walk(endpoints, &count), -EFAULT);
    assert_int_equal(count, 4);
    assert_int_equal(endpoints[3], 8);
}

/* ---- queues that are as long as they may be ---- */

#define EP     4096u
#define SLOTS  (1u << 21)
#define STRIDE 256u

static uint64_t reads, fake_ns;

static uint64_t fake_clock(void)
{
    return fake_ns++;
}

/* The memory has a pool at EP, in the layout below, and live objects everywhere else. */
static int read_hostile(UNUSED const struct inspect_source *source, uint64_t at, void *to,
                        size_t size)
{
    const uint64_t pool[] = {UINT64_C(1) << 40, SLOTS, 0, STRIDE, 1};

    reads++;
    memset(to, 0xff, size);
    if (at - EP < sizeof pool)
        memcpy(to, (const unsigned char *)pool + (at - EP), size);
    else if (size == sizeof(uint32_t))
        memset(to, 0, size); /* the number of peers */
    return 0;
}

static int walk_hostile(uint64_t reads_most, uint64_t time_ns, uint32_t *seen)
{
    static const struct inspect_source hostile = {.read = read_hostile};
    static struct inspect_entry entries[16];
    uint32_t stored, counts[INSPECT_KINDS];
    struct inspect_map map = {.endpoints = 0};
    struct inspect_budget budget;
    int err;

    memset(map.kinds, INSPECT_SEND, sizeof map.kinds);
    map.offsets[INSPECT_SLOT_BYTES] = sizeof(uint64_t);
    map.offsets[INSPECT_REQUEST_BYTES] = map.offsets[INSPECT_MESSAGE_BYTES] = 64;
    map.offsets[INSPECT_POOL_SLOTS] = 8;
    map.offsets[INSPECT_POOL_SHIFT] = 16;
    map.offsets[INSPECT_POOL_STRIDE] = 24;
    map.offsets[INSPECT_POOL_LIVE_BIT] = 32;
    map.offsets[INSPECT_EP_PEERS] = map.offsets[INSPECT_EP_PEEKED] = 64;
    map.offsets[INSPECT_EP_ADDRESSES] = 128;
    reads = 0;
    inspect_budget_init(&budget, &hostile, reads_most, time_ns);
    err =
        inspect_walk(&map, &budget.source, EP, entries, ARRAY_COUNT(entries), &stored, counts);
    *seen = counts[INSPECT_SEND];
    return err;
}

static void test_reads_are_counted(UNUSED void **state)
{
    uint32_t seen;

    assert_int_equal(walk_hostile(1000, CLOCK_S * 3600, &seen), -ETIME);
    assert_int_equal(reads, 1000);
    assert_true(seen > 100);
    assert_int_equal(walk_hostile(UINT64_MAX, CLOCK_S * 3600, &seen), 0);
    assert_int_equal(seen, SLOTS); /* all slots */
}

static void test_time_is_counted(UNUSED void **state)
{
    uint32_t seen;

    clock_set(fake_clock);
    assert_int_equal(walk_hostile(UINT64_MAX, 500, &seen), -ETIME);
    clock_set(NULL);
    assert_in_range(reads, 400, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_in_their_order), cmocka_unit_test(test_ring),
        cmocka_unit_test(test_too_many),           cmocka_unit_test(test_not_readable),
        cmocka_unit_test(test_reads_are_counted),  cmocka_unit_test(test_time_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
