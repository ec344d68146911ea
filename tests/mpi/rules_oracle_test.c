/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules_oracle_test.c - the oracle accepts matches that MPI permits, and rejects others.
 */
#include "rules_oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define ANY RULES_ANY

/* Calls do not overlap: call n takes from 10n to 10n+1. */
#define CALL(n) .begin = 10 * (n), .end = 10 * (n) + 1

static bool allows(const struct rules_send *sends, int send_count,
                   const struct rules_take *takes, int take_count)
{
    struct rules_history h = {sends, send_count, takes, take_count};
    char why[2000];
    bool allowed = rules_allow(&h, why, sizeof why);

    assert_int_equal(allowed, why[0] == '\0');
    return allowed;
}

#define ALLOWS(sends, takes)                                                                   \
    allows(sends, (int)(sizeof(sends) / sizeof(sends)[0]), takes,                              \
           (int)(sizeof(takes) / sizeof(takes)[0]))

/* Two messages of one sender; a receive that accepts one accepts the other. */
static const struct rules_send twins[] = {{1, 0, 5, CALL(1)}, {1, 0, 5, CALL(2)}};

static void messages_of_one_sender_do_not_overtake(void **state)
{
    struct rules_take takes[] = {{0, 1, 5, .got = 0, CALL(1), .over = 100},
                                 {0, 1, 5, .got = 1, CALL(2), .over = 100}};

    (void)state;
    assert_true(ALLOWS(twins, takes));
    takes[0].got = 1, takes[1].got = 0;
    assert_false(ALLOWS(twins, takes));
    takes[0].tag = takes[1].tag = ANY;
    assert_false(ALLOWS(twins, takes));
    takes[1].begin = 5, takes[1].end = 15; /* at the same time as the other, in two threads */
    assert_true(ALLOWS(twins, takes));
}

static void messages_of_two_threads_have_no_order(void **state)
{
    struct rules_send sends[] = {{1, 0, 5, 10, 30}, {1, 0, 5, 20, 21}};
    struct rules_take takes[] = {{0, 1, 5, .got = 1, CALL(1), .over = 100},
                                 {0, 1, 5, .got = 0, CALL(2), .over = 100}};

    (void)state;
    assert_true(ALLOWS(sends, takes));
    sends[0].end = 15;
    assert_false(ALLOWS(sends, takes));
}

static void messages_of_two_senders_may_overtake(void **state)
{
    static const struct rules_send sends[] = {{1, 0, 5, CALL(1)}, {2, 0, 5, CALL(9)}};
    static const struct rules_take takes[] = {{0, ANY, 5, .got = 1, CALL(1), .over = 100},
                                              {0, ANY, 5, .got = 0, CALL(2), .over = 100}};

    (void)state;
    assert_true(ALLOWS(sends, takes));
}

static void the_oldest_receive_gets_it_wildcards_or_not(void **state)
{
    static const struct rules_take patterns[] = {
        {.source = 1, .tag = 5},
        {.source = ANY, .tag = 5},
        {.source = 1, .tag = ANY},
        {.source = ANY, .tag = ANY},
    };

    (void)state;
    for (int older = 0; older < 4; older++) {
        for (int younger = 0; younger < 4; younger++) {
            struct rules_take takes[] = {patterns[older], patterns[younger]};

            takes[0].begin = 1, takes[0].end = 2, takes[0].over = 100;
            takes[1].begin = 3, takes[1].end = 4, takes[1].over = 100;
            takes[0].got = 0, takes[1].got = 1;
            assert_true(ALLOWS(twins, takes));
            takes[0].got = 1, takes[1].got = 0;
            assert_false(ALLOWS(twins, takes));
        }
    }
}

/* The later receive got the message while the earlier one, which accepts it, was still
 * waiting. */
static void a_receive_that_waits_is_not_passed_over(void **state)
{
    struct rules_take takes[] = {
        {0, ANY, 5, .got = RULES_CANCELLED, CALL(1), .cancel = 60, .over = 61},
        {0, 1, 5, .got = 0, CALL(2), .over = 50}};
    static const struct rules_send one[] = {{1, 0, 5, CALL(1)}};

    (void)state;
    assert_false(ALLOWS(one, takes));
    takes[0].cancel = 40; /* it may be cancelled before the message arrives */
    assert_true(ALLOWS(one, takes));
    takes[0].cancel = 60, takes[0].tag = 6; /* or not accept the message */
    assert_true(ALLOWS(one, takes));
}

/* The messages of each sender alone are in order. */
static void a_circle_over_three_events_is_seen(void **state)
{
    static const struct rules_send sends[] = {
        {1, 0, 5, CALL(1)}, {1, 0, 6, CALL(2)}, {2, 0, 6, CALL(1)}};
    struct rules_take takes[] = {
        /* got the second message of 1 although it accepts the first: so the first was gone */
        {0, 1, ANY, .got = 1, CALL(1), .over = 100},
        /* so this receive, posted after the next one, ended before that */
        {0, 1, 5, .got = 0, CALL(5), .over = 100},
        {0, ANY, 6, .got = 2, CALL(4), .over = 49}};

    (void)state;
    assert_false(ALLOWS(sends, takes));
    takes[1].begin = 0, takes[1].end = 1; /* if posted first, it may get the first message */
    assert_true(ALLOWS(sends, takes));
}

static void a_probe_sees_what_a_receive_would_get(void **state)
{
    struct rules_take takes[] = {{0, 1, ANY, true, .got = 0, CALL(1), .over = 11},
                                 {0, 1, 5, .got = 0, CALL(2), .over = 22},
                                 {0, 1, 5, .got = 1, CALL(3), .over = 33}};

    (void)state;
    assert_true(ALLOWS(twins, takes));
    takes[0].got = 1;
    assert_false(ALLOWS(twins, takes));
}

/* A probe does not see a message that belongs to a waiting receive. */
static void a_probe_sees_nothing_that_is_waited_for(void **state)
{
    struct rules_take takes[] = {{0, ANY, 5, .got = 1, CALL(1), .over = 90},
                                 {0, 1, 5, true, .got = 0, CALL(2), .over = 22},
                                 {0, 1, 5, .got = 0, CALL(3), .over = 33}};
    static const struct rules_send sends[] = {{1, 0, 5, CALL(1)}, {2, 0, 5, CALL(1)}};

    (void)state;
    assert_true(ALLOWS(sends, takes)); /* the receive already had the other message */
    takes[0].got = RULES_CANCELLED, takes[0].cancel = 80;
    assert_false(allows(sends, 1, takes, 3));
}

static void contexts_are_apart(void **state)
{
    static const struct rules_send sends[] = {{1, 0, 5, CALL(1)}, {1, 1, 5, CALL(2)}};
    static const struct rules_take takes[] = {{1, ANY, ANY, .got = 1, CALL(1), .over = 11},
                                              {0, ANY, ANY, .got = 0, CALL(2), .over = 22}};
    static const struct rules_take crossed[] = {{0, ANY, ANY, .got = 1, CALL(1), .over = 100},
                                                {1, ANY, ANY, .got = 0, CALL(2), .over = 100}};

    (void)state;
    assert_true(ALLOWS(sends, takes));
    assert_false(ALLOWS(sends, crossed));
}

static void every_message_is_taken_once(void **state)
{
    static const struct rules_take once[] = {{0, 1, 5, .got = 0, CALL(1), .over = 11}};
    static const struct rules_take twice[] = {{0, 1, 5, .got = 0, CALL(1), .over = 11},
                                              {0, 1, 5, .got = 0, CALL(2), .over = 22}};
    static const struct rules_take foreign[] = {{0, 2, 5, .got = 0, CALL(1), .over = 11}};

    (void)state;
    assert_true(allows(twins, 1, once, 1));
    assert_false(allows(twins, 2, once, 1));
    assert_false(allows(twins, 1, twice, 2));
    assert_false(allows(twins, 1, foreign, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_one_sender_do_not_overtake),
        cmocka_unit_test(messages_of_two_threads_have_no_order),
        cmocka_unit_test(messages_of_two_senders_may_overtake),
        cmocka_unit_test(the_oldest_receive_gets_it_wildcards_or_not),
        cmocka_unit_test(a_receive_that_waits_is_not_passed_over),
        cmocka_unit_test(a_circle_over_three_events_is_seen),
        cmocka_unit_test(a_probe_sees_what_a_receive_would_get),
        cmocka_unit_test(a_probe_sees_nothing_that_is_waited_for),
        cmocka_unit_test(contexts_are_apart),
        cmocka_unit_test(every_message_is_taken_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
