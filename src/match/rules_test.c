/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules_test.c - MPI's rules of matching one by one, and the engine's guarantees for entries.
 *
 * R1 to R9 are the rules of docs/internals/matching.md; R8 is the library's own.
 */
#include "base/base.h"
#include "base/unit.h"
#include "match/match_testing.h"

/* ---- the rules, one by one ------------------------------------------------- */

static void r1_a_message_goes_to_the_earliest_posted_receive(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    bench_post(&b, 0, 2, 7, 0);
    bench_post(&b, 1, 2, 0, ANY_TAG);
    bench_post(&b, 2, 2, 7, 0);
    assert_int_equal(bench_arrive(&b, 0, 2, 7), 0);
    assert_int_equal(bench_arrive(&b, 1, 2, 7), 1);
    assert_int_equal(bench_arrive(&b, 2, 2, 7), 2);
    mbx_match_fini(&b.m);
}

/* A shared matcher that keeps a list for each source loses the order between these
 * two and gives the message to the second. */
static void
an_any_source_receive_posted_before_a_directed_one_keeps_its_message(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    bench_post(&b, 0, MBX_MATCH_ANY_SOURCE, 7, 0);
    bench_post(&b, 1, 2, 7, 0);
    assert_int_equal(bench_arrive(&b, 0, 2, 7), 0);
    assert_int_equal(bench_arrive(&b, 1, 2, 7), 1);

    bench_post(&b, 0, 2, 7, 0);
    bench_post(&b, 1, MBX_MATCH_ANY_SOURCE, 7, 0);
    assert_int_equal(bench_arrive(&b, 0, 2, 7), 0);
    mbx_match_fini(&b.m);
}

static void r2_a_receive_takes_the_earliest_message(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    bench_arrive(&b, 0, 2, 7);
    bench_arrive(&b, 1, 3, 7);
    bench_arrive(&b, 2, 2, 8);
    assert_int_equal(bench_post(&b, 0, 2, 0, ANY_TAG), 0);
    assert_int_equal(bench_post(&b, 1, MBX_MATCH_ANY_SOURCE, 0, ANY_TAG), 1);
    assert_int_equal(bench_post(&b, 2, MBX_MATCH_ANY_SOURCE, 0, ANY_TAG), 2);
    mbx_match_fini(&b.m);
}

static void r3_a_later_message_may_be_taken_before_one_that_cannot_match(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    bench_arrive(&b, 0, 2, 7);
    bench_arrive(&b, 1, 2, 8);
    assert_int_equal(bench_post(&b, 0, 2, 8, 0), 1);
    assert_int_equal(bench_post(&b, 1, 2, 7, 0), 0);
    mbx_match_fini(&b.m);
}

static void r4_a_receive_is_posted_only_if_no_message_waits_for_it(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    bench_arrive(&b, 0, 2, 7);
    assert_int_equal(bench_post(&b, 0, 2, 7, 0), 0);
    assert_null(mbx_match_next_recv(&b.m, NULL));
    assert_null(mbx_match_next_msg(&b.m, NULL));
    assert_int_equal(bench_post(&b, 1, 2, 7, 0), -1);
    assert_ptr_equal(mbx_match_next_recv(&b.m, NULL), &b.r[1]);
    mbx_match_fini(&b.m);
}

static void r5_peek_says_what_the_receive_would_take_and_takes_nothing(UNUSED void **state)
{
    struct mbx_match_envelope any = {.context_id = 1, .source = MBX_MATCH_ANY_SOURCE};
    struct bench b;

    bench_init(&b, 0);
    assert_null(mbx_match_peek(&b.m, &any, ANY_TAG));
    bench_arrive(&b, 0, 2, 7);
    bench_arrive(&b, 1, 2, 7);
    assert_ptr_equal(mbx_match_peek(&b.m, &any, ANY_TAG), &b.g[0]);
    assert_ptr_equal(mbx_match_peek(&b.m, &any, ANY_TAG), &b.g[0]);
    assert_int_equal(bench_post(&b, 0, MBX_MATCH_ANY_SOURCE, 0, ANY_TAG), 0);
    assert_ptr_equal(mbx_match_peek(&b.m, &any, ANY_TAG), &b.g[1]);
    mbx_match_fini(&b.m);
}

static void r5_nobody_else_sees_an_extracted_message(UNUSED void **state)
{
    struct mbx_match_envelope any = {.context_id = 1, .source = MBX_MATCH_ANY_SOURCE};
    struct bench b;

    bench_init(&b, 0);
    bench_arrive(&b, 0, 2, 7);
    bench_arrive(&b, 1, 2, 8);
    assert_true(mbx_match_extract(&b.m, &b.g[0]));
    assert_true(mbx_match_is_valid(&b.m));
    assert_ptr_equal(mbx_match_peek(&b.m, &any, ANY_TAG), &b.g[1]);
    assert_int_equal(bench_post(&b, 0, 2, 7, 0), -1);
    assert_int_equal(bench_post(&b, 1, MBX_MATCH_ANY_SOURCE, 0, ANY_TAG), 1);
    mbx_match_fini(&b.m);
}

static void
r6_a_cancelled_receive_never_matches_and_the_rest_keep_their_order(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    bench_post(&b, 0, 2, 7, 0);
    bench_post(&b, 1, MBX_MATCH_ANY_SOURCE, 7, 0);
    bench_post(&b, 2, 2, 7, 0);
    assert_true(mbx_match_cancel(&b.m, &b.r[0]));
    assert_true(mbx_match_is_valid(&b.m));
    assert_int_equal(bench_arrive(&b, 0, 2, 7), 1);
    assert_int_equal(bench_arrive(&b, 1, 2, 7), 2);
    assert_int_equal(bench_arrive(&b, 2, 2, 7), -1);
    mbx_match_fini(&b.m);
}

static void r6_a_receive_that_has_matched_cannot_be_cancelled(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    bench_post(&b, 0, 2, 7, 0);
    bench_arrive(&b, 0, 2, 7);
    assert_false(mbx_match_cancel(&b.m, &b.r[0]));
    bench_arrive(&b, 1, 2, 7);
    assert_int_equal(bench_post(&b, 1, 2, 7, 0), 1);
    assert_false(mbx_match_cancel(&b.m, &b.r[1]));
    assert_int_equal(b.m.count.cancelled, 0);
    mbx_match_fini(&b.m);
}

/* Sizes are outside the entries, where the engine cannot see them: the short receive that was
 * posted first takes the long message. */
static void r7_length_takes_no_part(UNUSED void **state)
{
    struct sized_recv {
        size_t size;
        struct mbx_match_recv match;
    } small = {.size = 1}, large = {.size = 1000};
    struct sized_msg {
        size_t size;
        struct mbx_match_msg match;
    } msg = {.size = 1000};
    struct mbx_match_msg *none;
    struct mbx_match_recv *met;
    struct mbx_match m;

    mbx_match_init(&m, NULL);
    assert_int_equal(mbx_match_post(&m, &small.match, &none), 0);
    assert_int_equal(mbx_match_post(&m, &large.match, &none), 0);
    assert_int_equal(mbx_match_arrive(&m, &msg.match, &met), 0);
    assert_ptr_equal(container_of(met, struct sized_recv, match), &small);
    mbx_match_fini(&m);
}

static void r9_wildcards_do_not_cross_context_ids(UNUSED void **state)
{
    struct mbx_match_envelope any = {.context_id = 0xffff0001, .source = MBX_MATCH_ANY_SOURCE};
    struct bench b;

    bench_init(&b, 0);
    bench_post(&b, 0, MBX_MATCH_ANY_SOURCE, 0, ANY_TAG);
    assert_null(
        mbx_match_find(&b.m, &(struct mbx_match_envelope){.context_id = 2, .source = 2}));
    assert_int_equal(bench_arrive(&b, 0, 2, 7), 0);
    bench_arrive(&b, 1, 2, 7);
    assert_null(mbx_match_peek(&b.m, &any, ANY_TAG));
    mbx_match_fini(&b.m);
}

static void every_tag_bit_is_compared_unless_it_is_ignored(UNUSED void **state)
{
    struct bench b;

    for (int bit = 0; bit < 64; bit++) {
        uint64_t one = 1ull << bit;

        bench_init(&b, 0);
        bench_post(&b, 0, 2, one, 0);
        bench_post(&b, 1, 2, one, ~one);
        assert_int_equal(bench_arrive(&b, 0, 2, 0), -1);
        assert_int_equal(bench_post(&b, 2, 2, one, one), 0);
        assert_int_equal(bench_arrive(&b, 1, 2, ANY_TAG), 1);
        mbx_match_fini(&b.m);
    }
}
/* ---- misuse, reuse, ages, counters ----------------------------------------- */

static void a_second_cancel_is_refused(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    assert_false(mbx_match_cancel(&b.m, &b.r[0])); /* never posted */
    bench_post(&b, 0, 2, 7, 0);
    assert_true(mbx_match_cancel(&b.m, &b.r[0]));
    assert_false(mbx_match_cancel(&b.m, &b.r[0]));
    assert_int_equal(b.m.count.cancelled, 1);
    assert_true(mbx_match_is_valid(&b.m));
    mbx_match_fini(&b.m);
}

static void a_second_claim_is_refused(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    assert_false(mbx_match_extract(&b.m, &b.g[0])); /* never arrived */
    bench_arrive(&b, 0, 2, 7);
    assert_true(mbx_match_extract(&b.m, &b.g[0]));
    assert_false(mbx_match_extract(&b.m, &b.g[0]));
    assert_int_equal(b.m.count.extracted, 1);
    bench_arrive(&b, 1, 2, 7);
    assert_int_equal(bench_post(&b, 0, 2, 7, 0), 1);
    assert_false(mbx_match_extract(&b.m, &b.g[1])); /* has matched */
    assert_true(mbx_match_is_valid(&b.m));
    mbx_match_fini(&b.m);
}

static void entries_are_used_again_in_any_state(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(bench_post(&b, 0, 2, 7, 0), -1); /* matched, cancelled, matched at
                                                             once */
        assert_int_equal(bench_arrive(&b, 0, 2, 7), 0);
        assert_int_equal(bench_post(&b, 0, 2, 7, 0), -1);
        assert_true(mbx_match_cancel(&b.m, &b.r[0]));
        assert_int_equal(bench_arrive(&b, 0, 2, 7), -1);
        assert_int_equal(bench_post(&b, 0, 2, 7, 0), 0);
        assert_int_equal(bench_arrive(&b, 0, 2, 7), -1);
        assert_true(mbx_match_extract(&b.m, &b.g[0]));
    }
    mbx_match_fini(&b.m);
}

static void fini_gives_queued_entries_back(UNUSED void **state)
{
    struct bench b;

    bench_init(&b, 0);
    bench_post(&b, 0, 2, 7, 0);
    bench_arrive(&b, 0, 2, 8);
    mbx_match_fini(&b.m);
    assert_false(mbx_match_cancel(&b.m, &b.r[0]));
    assert_false(mbx_match_extract(&b.m, &b.g[0]));
}

/* The ages of three entries are on both sides of the wrap. */
static void ages_may_pass(uint64_t wrap)
{
    struct bench b;

    bench_init(&b, wrap - 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(bench_post(&b, i, 2, 7, 0), -1);
    assert_int_equal(b.r[2].seq, wrap);
    for (int i = 0; i < 4; i++)
        assert_int_equal(bench_arrive(&b, i, 2, 7), i);
    mbx_match_fini(&b.m);

    bench_init(&b, wrap - 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(bench_arrive(&b, i, 2, 7), -1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(bench_post(&b, i, MBX_MATCH_ANY_SOURCE, 7, 0), i);
    mbx_match_fini(&b.m);
}

static void order_holds_when_ages_pass_2_to_the_32(UNUSED void **state)
{
    ages_may_pass(1ull << 32);
}

static void order_holds_when_ages_pass_2_to_the_63(UNUSED void **state)
{
    ages_may_pass(1ull << 63);
}

static void order_holds_when_ages_pass_2_to_the_64(UNUSED void **state)
{
    ages_may_pass(0);
}

/* ---- main ------------------------------------------------------------------ */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_a_message_goes_to_the_earliest_posted_receive),
        cmocka_unit_test(an_any_source_receive_posted_before_a_directed_one_keeps_its_message),
        cmocka_unit_test(r2_a_receive_takes_the_earliest_message),
        cmocka_unit_test(r3_a_later_message_may_be_taken_before_one_that_cannot_match),
        cmocka_unit_test(r4_a_receive_is_posted_only_if_no_message_waits_for_it),
        cmocka_unit_test(r5_peek_says_what_the_receive_would_take_and_takes_nothing),
        cmocka_unit_test(r5_nobody_else_sees_an_extracted_message),
        cmocka_unit_test(r6_a_cancelled_receive_never_matches_and_the_rest_keep_their_order),
        cmocka_unit_test(r6_a_receive_that_has_matched_cannot_be_cancelled),
        cmocka_unit_test(r7_length_takes_no_part),
        cmocka_unit_test(r9_wildcards_do_not_cross_context_ids),
        cmocka_unit_test(every_tag_bit_is_compared_unless_it_is_ignored),
        cmocka_unit_test(a_second_cancel_is_refused),
        cmocka_unit_test(a_second_claim_is_refused),
        cmocka_unit_test(entries_are_used_again_in_any_state),
        cmocka_unit_test(fini_gives_queued_entries_back),
        cmocka_unit_test(order_holds_when_ages_pass_2_to_the_32),
        cmocka_unit_test(order_holds_when_ages_pass_2_to_the_63),
        cmocka_unit_test(order_holds_when_ages_pass_2_to_the_64),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
