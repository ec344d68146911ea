/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk_test.c - the list of endpoints of a process, as it is and where its memory is damaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "see/walk.h"

#define NODES 2000u
#define NEXT  16u /* where an endpoint has the address of the next one */

/* Number 0 is the head of the list. */
static struct {
    unsigned char other[NEXT];
    uint64_t next;
} nodes[NODES + 1];

static uint64_t address_of(uint32_t node)
{
    return (uint64_t)(uintptr_t)&nodes[node];
}

static int read_nodes(const struct see_source *source, uint64_t at, void *to, size_t size)
{
    uint64_t begin = (uint64_t)(uintptr_t)nodes;

    (void)source;
    if (at < begin || at - begin > sizeof nodes - size)
        return -EFAULT;
    memcpy(to, (const unsigned char *)nodes + (at - begin), size);
    return 0;
}

/* A list of so many; what its last one names. */
static uint64_t *make_list(uint32_t count)
{
    for (uint32_t i = 0; i <= count; i++)
        nodes[i].next = i < count ? address_of(i + 1) : 0;
    return &nodes[count].next;
}

static int walk(uint64_t endpoints[SEE_ENDPOINTS_MAX], uint32_t *count)
{
    static const struct see_source source = {.read = read_nodes};
    struct see_map map = {.endpoints = address_of(0) + NEXT, .offsets[SEE_EP_NEXT] = NEXT};
    int err = see_walk_endpoints(&map, &source, endpoints, count);

    for (uint32_t i = 0; i < *count && err == 0; i++)
        assert_int_equal(endpoints[i], address_of(i + 1));
    return err;
}

static void test_all_in_their_order(void **state)
{
    uint64_t endpoints[SEE_ENDPOINTS_MAX];
    uint32_t count;

    (void)state;
    for (uint32_t length = 0; length <= SEE_ENDPOINTS_MAX; length += 128) {
        make_list(length);
        assert_int_equal(walk(endpoints, &count), 0);
        assert_int_equal(count, length);
    }
}

/* A list that comes back to any of its endpoints names each of them once. */
static void test_ring(void **state)
{
    uint64_t endpoints[SEE_ENDPOINTS_MAX];
    uint32_t count;

    (void)state;
    for (uint32_t back = 1; back <= 10; back++) {
        *make_list(10) = address_of(back);
        assert_int_equal(walk(endpoints, &count), 0);
        assert_int_equal(count, 10);
    }
}

static void test_too_many(void **state)
{
    uint64_t endpoints[SEE_ENDPOINTS_MAX];
    uint32_t count;

    (void)state;
    make_list(NODES);
    assert_int_equal(walk(endpoints, &count), 0);
    assert_int_equal(count, SEE_ENDPOINTS_MAX);
}

/* Those before a damaged address are known. */
static void test_not_readable(void **state)
{
    uint64_t endpoints[SEE_ENDPOINTS_MAX];
    uint32_t count;

    (void)state;
    *make_list(3) = 8;
    assert_int_equal(walk(endpoints, &count), -EFAULT);
    assert_int_equal(count, 4);
    assert_int_equal(endpoints[3], 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_in_their_order),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_not_readable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
