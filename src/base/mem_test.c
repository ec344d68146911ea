/* SPDX-License-Identifier: BSD-3-Clause */
/* mem_test.c - counting, failing, and both from several threads. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/array.h"
#include "base/base.h"
#include "base/countdown.h"
#include "base/mem.h"
#include "base/unit.h"

static void test_live_counts_what_is_not_freed(UNUSED void **state)
{
    void *a, *b, *c;

    assert_int_equal(mem_live(), 0);
    a = mem_alloc(100);
    b = mem_calloc(10, 10);
    c = mem_alloc_aligned(4096, 100);
    assert_int_equal(mem_live(), 3);
    b = mem_realloc(b, 100000);
    assert_int_equal(mem_live(), 3);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(NULL);
    assert_int_equal(mem_live(), 0);
}

static void test_bytes_are_those_of_the_live_blocks(UNUSED void **state)
{
    uint64_t before;
    void *a, *b;

    mem_count_bytes();
    before = mem_bytes();
    a = mem_alloc(1000);
    b = mem_calloc(10, 100);
    assert_in_range(mem_bytes() - before, 2000, 2100);
    b = mem_realloc(b, 100000);
    assert_in_range(mem_bytes() - before, 101000, 106000);
    b = mem_realloc(b, 500);
    assert_in_range(mem_bytes() - before, 1500, 6000);
    mem_free(a);
    mem_free(b);
    assert_int_equal(mem_bytes(), before);
}

static void test_calloc_zeroes_and_refuses_overflow(UNUSED void **state)
{
    static const unsigned char zeros[1000];
    unsigned char *p;
    volatile size_t huge = SIZE_MAX / 2; /* so that the compiler does not see the size */

    p = mem_alloc(1000);
    memset(p, 1, 1000);
    mem_free(p);
    p = mem_calloc(100, 10);
    assert_memory_equal(p, zeros, 1000);
    mem_free(p);
    assert_null(mem_calloc(huge, 3));
    assert_int_equal(mem_live(), 0);
}

static void test_alignment_is_kept(UNUSED void **state)
{
    for (size_t alignment = sizeof(void *); alignment <= 65536; alignment *= 2) {
        void *p = mem_alloc_aligned(alignment, 1);

        assert_int_equal((uintptr_t)p % alignment, 0);
        mem_free(p);
    }
}

static void test_size_zero_is_an_allocation(UNUSED void **state)
{
    void *all[4] = {mem_alloc(0), mem_calloc(0, 5), mem_realloc(NULL, 0),
                    mem_alloc_aligned(64, 0)};

    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        assert_non_null(all[i]);
        mem_free(all[i]);
    }
}

/* Performs the four kinds in order; returns a bit for each one that failed. */
static unsigned fail_pattern(uint64_t n)
{
    void *all[4];
    void *moved = mem_alloc(8);
    unsigned pattern = 0;

    mem_fail_at(n);
    all[0] = mem_alloc(1);
    all[1] = mem_calloc(1, 1);
    all[2] = mem_alloc_aligned(64, 1);
    errno = 0;
    all[3] = mem_realloc(moved, 1000);
    for (unsigned i = 0; i < 4; i++)
        pattern |= (all[i] == NULL ? 1u : 0u) << i;
    if (all[3] == NULL) {
        assert_int_equal(errno, ENOMEM);
        all[3] = moved; /* still allocated */
    }
    assert_int_equal(mem_fail_left(), n > 4 ? n - 4 : 0);
    for (unsigned i = 0; i < 4; i++)
        mem_free(all[i]);
    mem_fail_at(0);
    assert_int_equal(mem_live(), 0);
    return pattern;
}

static void test_only_the_nth_fails(UNUSED void **state)
{
    assert_int_equal(fail_pattern(0), 0);
    for (unsigned n = 1; n <= 4; n++)
        assert_int_equal(fail_pattern(n), 1u << (n - 1));
    assert_int_equal(fail_pattern(5), 0);
}

/* A thread saw 1 left, but another thread took that event. */
static void test_an_overtaken_event_does_not_fire(UNUSED void **state)
{
    _Atomic int64_t countdown = 0;

    assert_false(countdown_tick(&countdown, 1));
    countdown = 2;
    assert_false(countdown_tick(&countdown, 1));
    assert_true(countdown_tick(&countdown, 2)); /* tries again: 1 is left */
    assert_int_equal(countdown, 0);
}

static _Atomic int failures;

static void *allocate_often(void *arg)
{
    for (int i = 0; i < 5000; i++) {
        void *p = mem_alloc(16);

        if (p == NULL)
            atomic_fetch_add(&failures, 1);
        mem_free(p);
    }
    return arg;
}

static void test_an_array_grows(UNUSED void **state)
{
    uint32_t *numbers = NULL, slots = 0;

    for (uint32_t i = 0; i < 100; i++) {
        assert_true(array_reserve(numbers, slots, i + 1));
        assert_true(slots > i);
        numbers[i] = i;
    }
    assert_in_range(slots, 100, 199); /* by doubling */
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(numbers[i], i);
    assert_true(array_reserve(numbers, slots, slots)); /* there is space */
    mem_free(numbers);
    assert_int_equal(mem_live(), 0);
}

static void test_new_slots_of_an_array_are_zero(UNUSED void **state)
{
    unsigned char *bytes = NULL;
    uint32_t slots = 0;

    for (uint32_t wanted = 1; wanted < 100000; wanted *= 3) {
        uint32_t before = slots;

        assert_true(array_reserve_zeroed(bytes, slots, wanted));
        for (uint32_t i = before; i < slots; i++)
            assert_int_equal(bytes[i], 0);
        memset(bytes, 1, slots);
    }
    mem_free(bytes);
}

static void test_an_array_that_cannot_grow_is_unchanged(UNUSED void **state)
{
    uint64_t *numbers = NULL, *before;
    uint32_t slots = 0;

    assert_true(array_reserve(numbers, slots, 5));
    before = numbers;
    mem_fail_at(1);
    assert_false(array_reserve(numbers, slots, 1000));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_false(array_reserve(numbers, slots, (uint64_t)UINT32_MAX + 1));
    assert_int_equal(errno, ENOMEM);
    assert_ptr_equal(numbers, before);
    assert_int_equal(slots, 8);
    mem_free(numbers);
}

static void test_one_failure_among_all_threads(UNUSED void **state)
{
    pthread_t threads[4];

    mem_fail_at(10000);
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_often, NULL), 0);
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    mem_fail_at(0);
    assert_int_equal(failures, 1);
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_live_counts_what_is_not_freed),
        cmocka_unit_test(test_bytes_are_those_of_the_live_blocks),
        cmocka_unit_test(test_calloc_zeroes_and_refuses_overflow),
        cmocka_unit_test(test_alignment_is_kept),
        cmocka_unit_test(test_size_zero_is_an_allocation),
        cmocka_unit_test(test_only_the_nth_fails),
        cmocka_unit_test(test_an_overtaken_event_does_not_fire),
        cmocka_unit_test(test_an_array_grows),
        cmocka_unit_test(test_new_slots_of_an_array_are_zero),
        cmocka_unit_test(test_an_array_that_cannot_grow_is_unchanged),
        cmocka_unit_test(test_one_failure_among_all_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
