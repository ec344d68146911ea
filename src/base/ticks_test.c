/* SPDX-License-Identifier: BSD-3-Clause */
/* ticks_test.c - time from a counter, with a simulated clock and counter, and with the real
 * ones. */
#include "base/base.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/ticks.h"
#include "base/unit.h"

#define PERIOD (20 * CLOCK_US)
#define LEARN  (10 * CLOCK_MS)

/* Time advances only by pass(), and by `hold` after each clock read. */
static uint64_t real_ns, real_part, count;
static uint64_t mhz, hold;
static unsigned clock_reads, counter_reads;

static void pass(uint64_t ns)
{
    uint64_t ticks = ns * mhz + real_part;

    real_ns += ns;
    count += ticks / 1000;
    real_part = ticks % 1000;
}

static uint64_t test_clock(void)
{
    uint64_t now = real_ns;

    clock_reads++;
    pass(hold);
    return now;
}

static uint64_t test_counter(void)
{
    counter_reads++;
    return count;
}

static int set_up(UNUSED void **state)
{
    real_ns = 5 * CLOCK_S;
    count = UINT64_C(1) << 40;
    real_part = 0;
    mhz = 2600;
    hold = 0;
    clock_reads = counter_reads = 0;
    clock_set(test_clock);
    ticks_set(test_counter);
    return 0;
}

static int tear_down(UNUSED void **state)
{
    clock_set(NULL);
    ticks_set(NULL);
    return 0;
}

static void assert_near(uint64_t got, uint64_t want, uint64_t most)
{
    if (max_size(got, want) - min_size(got, want) > most)
        fail_msg("%ju ns, but it is %ju", (uintmax_t)got, (uintmax_t)want);
}

/* Runs until the counter is in use. */
static void learn(struct ticks *ticks)
{
    for (uint64_t end = real_ns + 2 * LEARN; real_ns < end; pass(CLOCK_US))
        ticks_now(ticks);
}

static void start(struct ticks *ticks)
{
    ticks_start(ticks);
    learn(ticks);
    clock_reads = counter_reads = 0;
}

/* ---- in use ---- */

static void test_it_is_the_clock_until_the_rate_is_known(UNUSED void **state)
{
    struct ticks ticks;

    ticks_start(&ticks);
    ticks_now(&ticks);
    clock_reads = counter_reads = 0;
    for (uint64_t end = real_ns + LEARN - CLOCK_US; real_ns < end; pass(CLOCK_US)) {
        assert_int_equal(ticks_now(&ticks), real_ns);
        assert_int_equal(ticks_now_behind(&ticks), real_ns);
    }
    assert_int_equal(counter_reads, 0);
    assert_int_not_equal(clock_reads, 0);
}

static void test_the_clock_is_looked_at_once_in_a_period(UNUSED void **state)
{
    struct ticks ticks;

    start(&ticks);
    for (unsigned i = 0; i < 10000; i++, pass(100))
        assert_near(i % 2 != 0 ? ticks_now(&ticks) : ticks_now_behind(&ticks), real_ns, 1);
    assert_in_range(clock_reads, 2 * 10000 * 100 / PERIOD - 2, 2 * 10000 * 100 / PERIOD + 2);
    assert_int_not_equal(counter_reads, 0);
}

static void test_it_is_right_at_any_rate(UNUSED void **state)
{
    static const uint64_t rates[] = {99, 1000, 1999, 2600, 5001, 9999};
    struct ticks ticks;

    for (size_t i = 0; i < ARRAY_COUNT(rates); i++) {
        mhz = rates[i];
        start(&ticks);
        for (unsigned n = 0; n < 1000; n++, pass(77))
            assert_near(ticks_now(&ticks), real_ns, 1 + 2000 / mhz);
        assert_in_range(clock_reads, 1, 20);
    }
}

/* The system's clock is slewed, or two counters differ: the error never grows beyond the one of
 * a single period. */
static void test_an_error_of_the_rate_does_not_grow(UNUSED void **state)
{
    struct ticks ticks;

    mhz = 2000;
    start(&ticks);
    mhz = 2001; /* 500 ppm */
    for (uint64_t end = real_ns + LEARN / 2; real_ns < end; pass(333))
        assert_near(ticks_now(&ticks), real_ns, PERIOD / 2000 + 2);
    learn(&ticks);
    for (uint64_t end = real_ns + LEARN / 2; real_ns < end; pass(333))
        assert_near(ticks_now(&ticks), real_ns, 2);
}

static void test_it_never_goes_back(UNUSED void **state)
{
    struct random random;
    struct ticks ticks;
    uint64_t last = 0;

    random_seed(&random, 7);
    start(&ticks);
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t now = ticks_now(&ticks);

        assert_true(now >= last);
        last = now;
        if (i % 1000 == 0)
            mhz = 2000 + random_below(&random, 3);
        if (i % 30000 == 29999)
            count += random_below(&random, 2 * mhz); /* cores whose counters differ */
        pass(random_below(&random, 400));
    }
}

/* ---- not in use ---- */

static void test_a_jump_of_the_counter_is_noticed(UNUSED void **state)
{
    static const int64_t jumps[] = {1 << 20, -(1 << 20), INT64_C(1) << 39, -(INT64_C(1) << 39)};
    struct ticks ticks;

    for (size_t i = 0; i < ARRAY_COUNT(jumps); i++) {
        start(&ticks);
        count += (uint64_t)jumps[i];
        assert_near(ticks_now(&ticks), real_ns, 1);
        counter_reads = 0;
        for (unsigned n = 0; n < 100; n++, pass(CLOCK_US))
            assert_int_equal(ticks_now(&ticks), real_ns); /* from the clock */
        assert_int_equal(counter_reads, 0);
    }
}

/* Within the reach of an anchor a small jump is not noticed, but at the next one. */
static void test_a_small_jump_is_over_with_the_period(UNUSED void **state)
{
    struct ticks ticks;
    uint64_t said;

    start(&ticks);
    for (uint64_t at = ticks.at; ticks.at == at; pass(50)) /* to the beginning of a period */
        ticks_now(&ticks);
    count += 5 * mhz; /* 5 us */
    said = ticks_now(&ticks);
    assert_near(said, real_ns + 5 * CLOCK_US, 2);
    while (real_ns < said)
        pass(100);
    for (unsigned n = 0; n < 50; n++, pass(CLOCK_US))
        ticks_now(&ticks);
    assert_near(ticks_now(&ticks), real_ns, 1);
    assert_int_equal(ticks.reach, 0);
    assert_int_equal(ticks.strikes, 1);
}

static void test_after_some_strikes_it_is_the_clock_for_good(UNUSED void **state)
{
    struct ticks ticks;

    ticks_start(&ticks);
    for (unsigned i = 0; i < 8; i++) {
        learn(&ticks);
        assert_int_not_equal(ticks.reach, 0);
        count += 1 << 20;
        ticks_now(&ticks);
    }
    learn(&ticks);
    counter_reads = 0;
    for (unsigned n = 0; n < 1000; n++, pass(CLOCK_US))
        assert_int_equal(ticks_now(&ticks), real_ns);
    assert_int_equal(counter_reads, 0);
}

/* If the thread is descheduled between the clock reads of an anchor, the time of the counter
 * read is not known. */
static void test_a_wide_anchor_is_none(UNUSED void **state)
{
    struct ticks ticks;

    hold = 300;
    ticks_start(&ticks);
    for (uint64_t end = real_ns + 20 * LEARN; real_ns < end; pass(CLOCK_MS))
        ticks_now(&ticks);
    hold = 0;
    learn(&ticks);
    counter_reads = 0;
    for (unsigned n = 0; n < 100; n++, pass(CLOCK_US))
        assert_int_equal(ticks_now(&ticks), real_ns);
    assert_int_equal(counter_reads, 0);
}

/* An interruption between the clock reads of an anchor, before or after the counter read: the
 * predicted time is more exact. */
static void test_a_wide_anchor_does_not_move_it(UNUSED void **state)
{
    struct random random;
    struct ticks ticks;

    random_seed(&random, 11);
    hold = 40;
    start(&ticks);
    for (unsigned i = 0; i < 100000; i++, pass(100)) {
        uint64_t before = real_ns, now;

        hold = random_below(&random, 3) == 0 ? 40 + random_below(&random, 140) : 40;
        now = ticks_now(&ticks);
        assert_in_range(now, before - 30, real_ns);
    }
    assert_int_equal(ticks.strikes, 0);
    assert_int_not_equal(ticks.reach, 0);
}

/* The time is never outside the two clock reads, however wide they are. */
static void test_a_wide_anchor_bounds_it(UNUSED void **state)
{
    struct ticks ticks;

    hold = 40;
    start(&ticks);
    hold = 100;
    count += mhz / 2; /* 500 ns: too few for a strike */
    for (unsigned i = 0; i < 300; i++, pass(100))
        ticks_now(&ticks);
    for (unsigned i = 0; i < 300; i++, pass(100)) {
        uint64_t before = real_ns, now = ticks_now(&ticks);

        assert_in_range(now, before - 101, real_ns + 101);
    }
    assert_int_equal(ticks.strikes, 0);
}

/* After the processor has become slower, wider samples count as narrow after a while. */
static void test_what_is_narrow_is_learned_again(UNUSED void **state)
{
    struct ticks ticks;

    mhz = 2000;
    hold = 40;
    start(&ticks);
    hold = 60;
    mhz = 2001;
    learn(&ticks);
    learn(&ticks);
    assert_near(ticks.rate, (UINT64_C(1000) << 32) / 2001, 20000);
}

/* The time of an anchor is the middle of its two clock reads. */
static void test_an_anchor_takes_time(UNUSED void **state)
{
    struct ticks ticks;

    hold = 40;
    start(&ticks);
    for (unsigned i = 0; i < 10000; i++, pass(100)) {
        uint64_t before = real_ns, now = ticks_now(&ticks);

        assert_in_range(now, before - 22, real_ns);
    }
    assert_in_range(clock_reads, 1, 200);
}

static void test_a_replaced_clock_alone_is_the_time(UNUSED void **state)
{
    struct ticks ticks;

    ticks_set(NULL);
    ticks_start(&ticks);
    for (unsigned n = 0; n < 100000; n++, pass(CLOCK_US)) {
        assert_int_equal(ticks_now(&ticks), real_ns);
        assert_int_equal(ticks_now_behind(&ticks), real_ns);
    }
    assert_int_equal(clock_reads, 200000);
}

static void test_after_a_pause_it_goes_on(UNUSED void **state)
{
    static const uint64_t pauses[] = {CLOCK_MS, CLOCK_S / 2, 3600 * CLOCK_S};
    struct ticks ticks;

    start(&ticks);
    for (size_t i = 0; i < ARRAY_COUNT(pauses); i++) {
        pass(pauses[i]);
        assert_near(ticks_now(&ticks), real_ns, 1);
        for (unsigned n = 0; n < 1000; n++, pass(99))
            assert_near(ticks_now(&ticks), real_ns, 1);
        assert_int_not_equal(ticks.reach, 0);
        assert_int_equal(ticks.strikes, 0);
    }
}

/* The host sleeps while the rate is measured, and the counter goes on: the rate is
 * discarded. */
static void test_no_rate_is_learned_of_a_host_that_sleeps(UNUSED void **state)
{
    struct ticks ticks;

    ticks_start(&ticks);
    ticks_now(&ticks);
    pass(LEARN / 2);
    count += 3600 * (CLOCK_S / 1000) * mhz;
    pass(LEARN);
    ticks_now(&ticks);
    assert_int_equal(ticks.reach, 0);
    for (uint64_t end = real_ns + 3 * LEARN; real_ns < end; pass(CLOCK_US))
        assert_near(ticks_now(&ticks), real_ns, 1);
    assert_int_not_equal(ticks.reach, 0);
}

/* Long after its anchor, a wide sample has its own time, and not the time that an old rate
 * predicts. */
static void test_a_wide_look_after_a_pause_is_not_led(UNUSED void **state)
{
    struct ticks ticks;
    uint64_t before;

    mhz = 2000;
    hold = 40;
    start(&ticks);
    count += mhz / 2; /* 500 ns, as with a rate that is wrong by 3 ppm */
    pass(CLOCK_S / 5);
    hold = 50;
    before = real_ns;
    assert_near(ticks_now(&ticks), before + 25, 1); /* the middle */
}

static void test_a_clock_that_is_replaced_later_is_the_time(UNUSED void **state)
{
    struct ticks ticks;

    start(&ticks);
    ticks_set(NULL);
    for (uint64_t end = real_ns + LEARN; real_ns < end; pass(CLOCK_MS)) {
        ticks.reach =
            0; /* the real counter has another value than the simulated one, so the anchor must
                  not be used */
        assert_int_equal(ticks_now(&ticks), real_ns);
    }
}

/* ---- the ticks of the machine ---- */

static void test_it_is_the_time_of_the_machine(UNUSED void **state)
{
    struct ticks ticks;
    uint64_t begin, last = 0;

    clock_set(NULL);
    ticks_set(NULL);
    ticks_start(&ticks);
    begin = clock_now();
    for (uint64_t before = begin, after; before - begin < 5 * LEARN; before = after) {
        uint64_t now = ticks_now_behind(&ticks);

        after = clock_now();
        assert_in_range(now, before - CLOCK_US, after + CLOCK_US);
        assert_true(now >= last);
        last = now;
    }
    print_message("%s\n", ticks.reach != 0 ? "by the counter" : "by the clock");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_is_the_clock_until_the_rate_is_known, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_clock_is_looked_at_once_in_a_period, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_it_is_right_at_any_rate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_error_of_the_rate_does_not_grow, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_it_never_goes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_jump_of_the_counter_is_noticed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_small_jump_is_over_with_the_period, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_after_some_strikes_it_is_the_clock_for_good,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_wide_anchor_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_wide_anchor_does_not_move_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_wide_anchor_bounds_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_narrow_is_learned_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_anchor_takes_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_replaced_clock_alone_is_the_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_no_rate_is_learned_of_a_host_that_sleeps, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_wide_look_after_a_pause_is_not_led, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_clock_that_is_replaced_later_is_the_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_after_a_pause_it_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_it_is_the_time_of_the_machine, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
