/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_regions_test.c - registrations are kept as long as their memory is the same, and no
 * longer.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "base/unit.h"
#include "transport/verbs/verbs_library.h"
#include "transport/verbs/verbs_regions.h"

#define PAGE  ((size_t)4096)
#define SIZE  (16 * PAGE)
#define LOCAL IBV_ACCESS_LOCAL_WRITE

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct verbs_regions *regions;

static void *map_at(void *where)
{
    void *memory = mmap(where, SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (where != NULL ? MAP_FIXED : 0), -1, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

static struct verbs_region *get(const void *buf, size_t size)
{
    struct verbs_region *region = verbs_region_get(regions, buf, size, LOCAL);

    assert_non_null(region);
    assert_true((uintptr_t)region->mr->addr <= (uintptr_t)buf);
    assert_true((uintptr_t)region->mr->addr + region->mr->length >= (uintptr_t)buf + size);
    return region;
}

static void touch(const void *buf, size_t size)
{
    verbs_region_put(get(buf, size));
}

/* From the second use on the registration is kept. */
static void keep(const void *buf, size_t size)
{
    touch(buf, size);
    touch(buf, size);
}

static struct verbs_regions_stats stats(void)
{
    struct verbs_regions_stats now;

    verbs_regions_stats(regions, &now);
    return now;
}

static void expect(uint64_t made, uint64_t found, uint64_t bytes)
{
    assert_int_equal(stats().made, made);
    assert_int_equal(stats().found, found);
    assert_int_equal(stats().bytes, bytes);
}

static void test_memory_is_registered_once(UNUSED void **state)
{
    char *memory = map_at(NULL);

    touch(memory + 100, 5000);
    expect(1, 0, 0); /* it is not known yet whether keeping it pays */
    touch(memory + 100, 5000);
    expect(2, 0, 2 * PAGE);
    for (int i = 0; i < 10; i++)
        touch(memory + 100, 5000);
    touch(memory + 300, 200); /* a part of it */
    expect(2, 11, 2 * PAGE);
    touch(memory + 100, SIZE - 100); /* more than it */
    expect(3, 11, SIZE);             /* and the old one is not needed from here on */
    verbs_region_put(verbs_region_get(regions, memory, SIZE, LOCAL | IBV_ACCESS_REMOTE_READ));
    expect(4, 11, SIZE); /* the kept one gives fewer rights */
    munmap(memory, SIZE);
}

static void test_other_memory_at_the_same_address(UNUSED void **state)
{
    char *memory = map_at(NULL);

    for (int i = 0; i < 50; i++) {
        uint64_t made;

        keep(memory, SIZE);
        touch(memory, SIZE);
        assert_int_equal(stats().bytes, SIZE);
        made = stats().made;
        map_at(memory);
        touch(memory, SIZE);
        if (stats().made == made)
            fail_msg("round %d: the registration of the memory before was used", i);
        assert_int_equal(stats().gone, (uint64_t)i + 1);
    }
    munmap(memory, SIZE);
    verbs_regions_tend(regions);
    assert_int_equal(stats().bytes, 0);
}

/* An adapter that still moves its bytes goes on; no other use gets it. */
static void test_gone_while_in_use(UNUSED void **state)
{
    char *memory = map_at(NULL);
    struct verbs_region *used, *other;

    keep(memory, SIZE);
    used = get(memory, SIZE);
    map_at(memory);
    other = get(memory, SIZE);
    assert_ptr_not_equal(other, used);
    verbs_region_put(other);
    assert_int_equal(used->mr->length, SIZE);
    verbs_region_put(used);
    munmap(memory, SIZE);
}

static void test_memory_that_cannot_be_watched(UNUSED void **state)
{
    char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    for (int i = 0; i < 5; i++)
        touch(memory, SIZE);
    expect(5, 0, 0);
    munmap(memory, SIZE);
}

static void test_the_oldest_makes_space(UNUSED void **state)
{
    char *a = map_at(NULL), *b = map_at(NULL), *c = map_at(NULL);
    struct verbs_region *used;

    verbs_regions_close(regions);
    regions = verbs_regions_open(pd, 2 * SIZE);
    keep(a, SIZE);
    keep(b, SIZE);
    used = get(a, SIZE);
    touch(b, SIZE); /* a is the oldest now, and in use */
    keep(c, SIZE);
    expect(6, 2, 2 * SIZE);
    touch(a, SIZE);
    touch(c, SIZE);
    expect(6, 4, 2 * SIZE);
    touch(b, SIZE);
    assert_int_equal(stats().made, 7);
    verbs_region_put(used);
    munmap(a, SIZE);
    munmap(b, SIZE);
    munmap(c, SIZE);
}

static void keep_none(uint64_t most)
{
    char *memory = map_at(NULL);

    verbs_regions_close(regions);
    regions = verbs_regions_open(pd, most);
    for (int i = 0; i < 5; i++)
        touch(memory, SIZE);
    expect(5, 0, 0);
    munmap(memory, SIZE);
}

static void test_none_is_kept(UNUSED void **state)
{
    keep_none(0);
    keep_none(SIZE - 1); /* no space for it */
    assert_int_equal(sys_fail_name("userfaultfd", 1, EPERM), 0);
    keep_none(UINT64_MAX); /* unmapping is not noticed */
    sys_fail_none();
}

static int open_regions(UNUSED void **state)
{
    regions = verbs_regions_open(pd, UINT64_MAX);
    return regions == NULL;
}

static int close_regions(UNUSED void **state)
{
    verbs_regions_close(regions);
    return 0;
}

static int open_adapter(UNUSED void **state)
{
    struct ibv_device **list;

    verbs_use(getenv("MBX_VERBS_LIBRARY"));
    if (verbs_library_load() != 0)
        return 1;
    list = ibv_get_device_list(NULL);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pd = context != NULL ? ibv_alloc_pd(context) : NULL;
    return pd == NULL;
}

static int close_adapter(UNUSED void **state)
{
    return ibv_dealloc_pd(pd) != 0 || ibv_close_device(context) != 0;
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_regions, close_regions)
    const struct CMUnitTest tests[] = {
        TEST(test_memory_is_registered_once), TEST(test_other_memory_at_the_same_address),
        TEST(test_gone_while_in_use),         TEST(test_memory_that_cannot_be_watched),
        TEST(test_the_oldest_makes_space),    TEST(test_none_is_kept),
    };

    if (getenv("MBX_VERBS_LIBRARY") == NULL) {
        fprintf(stderr, "verbs_regions_test: MBX_VERBS_LIBRARY is not set\n");
        return 2;
    }
    if (memwatch_open() == -EOPNOTSUPP) {
        printf("left out: the kernel does not tell this process what is unmapped\n");
        return 77;
    }
    memwatch_close();
    return cmocka_run_group_tests(tests, open_adapter, close_adapter);
}
