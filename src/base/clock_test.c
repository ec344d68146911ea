/* SPDX-License-Identifier: BSD-3-Clause */
/* clock_test.c - the system's clock, and a replaced one. */
#include <time.h>

#include "base/clock.h"
#include "base/unit.h"

static uint64_t fixed_now(void)
{
    return 42;
}

static void test_system_clock_is_monotonic_nanoseconds(UNUSED void **state)
{
    struct timespec nap = {.tv_nsec = 5000000};
    uint64_t before = clock_now(), after;

    nanosleep(&nap, NULL);
    after = clock_now();
    assert_true(after - before >= 5 * CLOCK_MS);
    assert_true(after - before < 3600 * CLOCK_S);
    for (int i = 0; i < 1000; i++) {
        before = after;
        after = clock_now();
        assert_true(after >= before);
    }
}

static void test_a_replaced_clock_is_asked(UNUSED void **state)
{
    clock_set(fixed_now);
    assert_int_equal(clock_now(), 42);
    clock_set(NULL);
    assert_int_not_equal(clock_now(), 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_system_clock_is_monotonic_nanoseconds),
        cmocka_unit_test(test_a_replaced_clock_is_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
