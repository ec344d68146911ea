/* SPDX-License-Identifier: BSD-3-Clause */
/* random_test.c - known sequences, even spread, replayable secrets. */
#include <errno.h>

#include "base/random.h"
#include "base/sys.h"
#include "base/unit.h"

/* xoshiro256** from the state {1, 2, 3, 4}: the published test vector. */
static void test_sequence_is_the_published_one(UNUSED void **state)
{
    static const uint64_t expected[] = {11520u, 0u, 1509978240u, UINT64_C(1215971899390074240)};
    struct random r = {{1, 2, 3, 4}};

    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_int_equal(random_next(&r), expected[i]);
}

/* The state from seed 0 is the sequence of splitmix64 from 0. */
static void test_seed_is_spread_by_splitmix(UNUSED void **state)
{
    struct random r;

    random_seed(&r, 0);
    assert_int_equal(r.state[0], UINT64_C(0xe220a8397b1dcdaf));
    assert_int_equal(r.state[1], UINT64_C(0x6e789e6aa1b965f4));
    assert_int_equal(r.state[2], UINT64_C(0x06c45d188009454f));
    assert_int_equal(r.state[3], UINT64_C(0xf88bb8a8724c81ec));
}

static void test_below_is_even_and_in_range(UNUSED void **state)
{
    int seen[10] = {0};
    struct random r;

    random_seed(&r, 7);
    for (int i = 0; i < 100000; i++) {
        uint64_t value = random_below(&r, 10);

        assert_in_range(value, 0, 9);
        seen[value]++;
    }
    for (int i = 0; i < 10; i++) /* 10 standard deviations of about 95 */
        assert_in_range(seen[i], 9050, 10950);
    for (int i = 0; i < 100; i++)
        assert_int_equal(random_below(&r, 1), 0);
}

/* Plain reduction of 64 bits would give the lower third twice as often. */
static void test_below_is_even_for_huge_bounds(UNUSED void **state)
{
    const uint64_t bound = UINT64_C(3) << 62;
    int low = 0;
    struct random r;

    random_seed(&r, 8);
    for (int i = 0; i < 30000; i++) {
        uint64_t value = random_below(&r, bound);

        assert_true(value < bound);
        low += value < bound / 3;
    }
    assert_in_range(low, 9000, 11000);
}

static void test_secrets_replay_from_a_seed_only_when_told(UNUSED void **state)
{
    unsigned char a[13], b[13], c[13];

    random_secret_set(5);
    assert_int_equal(random_secret(a, sizeof a), 0);
    random_secret_set(5);
    assert_int_equal(random_secret(b, sizeof b), 0);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(random_secret(c, sizeof c), 0); /* the sequence continues and does not
                                                        repeat */
    assert_memory_not_equal(b, c, sizeof b);
    random_secret_reset();
    assert_int_equal(random_secret(c, sizeof c), 0);
    assert_memory_not_equal(a, c, sizeof a);
    assert_int_equal(random_secret(b, sizeof b), 0);
    assert_memory_not_equal(b, c, sizeof b);
}

static void test_secret_reports_the_system_failure(UNUSED void **state)
{
    unsigned char bytes[8];

    assert_int_equal(sys_fail_name("getrandom", 1, ENOSYS), 0);
    assert_int_equal(random_secret(bytes, sizeof bytes), -ENOSYS);
    assert_int_equal(random_secret(bytes, sizeof bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequence_is_the_published_one),
        cmocka_unit_test(test_seed_is_spread_by_splitmix),
        cmocka_unit_test(test_below_is_even_and_in_range),
        cmocka_unit_test(test_below_is_even_for_huge_bounds),
        cmocka_unit_test(test_secrets_replay_from_a_seed_only_when_told),
        cmocka_unit_test(test_secret_reports_the_system_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
