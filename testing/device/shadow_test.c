/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shadow_test.c - which receives are handed over, and in which order; the effect of a cancel; opening.
 */
#include "testing/device/shadow_testing.h"

/* ---- handing over ---- */

static void a_receive_is_handed_over_at_once(void **state)
{
    struct owner *o = *state;

    assert_int_equal(owner_post(o, 0, 2, 7)->state, SHADOW_HANDED);
    assert_int_equal(o->stepped.commands_waiting, 1);
    stepped_run(&o->stepped);
    owner_arrive(o, 7);
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, MATCHED);
    assert_int_equal(o->recvs[0].notified, 1);
    assert_int_equal(owner_free_handles(o), 8);
}

static void a_small_receive_stays_in_software(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, NULL, 8, 16);
    assert_int_equal(owner_post_sized(o, 0, 2, 7, 0, 15)->state, SHADOW_SOFTWARE);
    assert_int_equal(owner_post_sized(o, 1, 2, 8, 0, 16)->state, SHADOW_HANDED);
}

/* Posts a receive that a device with these limits cannot hold, or can. */
static void holds(struct owner *o, const struct stepped_config *device, uint32_t source,
                  uint64_t tag, uint64_t ignore, size_t size, enum shadow_state want)
{
    owner_reopen(o, device, 8, 0);
    assert_int_equal(owner_post_sized(o, 0, source, tag, ignore, size)->state, want);
}

static void receives_from_anybody_need_a_device_that_has_them(void **state)
{
    const struct stepped_config with = {.caps = MBX_DEVICE_ANY_SOURCE | MBX_DEVICE_TRUNCATES};
    const struct stepped_config without = {.caps = MBX_DEVICE_TRUNCATES};

    holds(*state, &with, MBX_MATCH_ANY_SOURCE, 7, 0, 8, SHADOW_HANDED);
    holds(*state, &without, MBX_MATCH_ANY_SOURCE, 7, 0, 8, SHADOW_SOFTWARE);
    holds(*state, &without, 2, 7, 0, 8, SHADOW_HANDED);
}

static void partial_ignore_bits_need_a_device_that_has_them(void **state)
{
    const struct stepped_config with = {.caps = MBX_DEVICE_MASKS | MBX_DEVICE_TRUNCATES};
    const struct stepped_config without = {.caps = MBX_DEVICE_TRUNCATES};

    holds(*state, &with, 2, 7, 1, 8, SHADOW_HANDED);
    holds(*state, &without, 2, 7, 1, 8, SHADOW_SOFTWARE);
    holds(*state, &without, 2, 7, ANY_TAG, 8, SHADOW_HANDED);
}

static void a_short_buffer_needs_a_device_that_truncates(void **state)
{
    const struct stepped_config with = {.caps = MBX_DEVICE_TRUNCATES};
    const struct stepped_config without = {.caps = MBX_DEVICE_MASKS};

    holds(*state, &with, 2, 7, 0, STEPPED_EAGER_MAX - 1, SHADOW_HANDED);
    holds(*state, &without, 2, 7, 0, STEPPED_EAGER_MAX - 1, SHADOW_SOFTWARE);
    holds(*state, &without, 2, 7, 0, STEPPED_EAGER_MAX, SHADOW_HANDED);
}

static void a_tag_must_fit_the_device(void **state)
{
    const struct stepped_config four_bits = {.tag_mask = 0xf};

    holds(*state, &four_bits, 2, 15, 0, 8, SHADOW_HANDED);
    holds(*state, &four_bits, 2, 16, 0, 8, SHADOW_SOFTWARE);
    holds(*state, &four_bits, 2, 16, 16, 8, SHADOW_HANDED); /* this bit is ignored */
}

/* Does (source, tag, ignore) wait for an earlier receive, which stays in software? */
static void overlaps(struct owner *o, uint32_t source, uint64_t tag, uint64_t ignore,
                     uint32_t source_2, uint64_t tag_2, uint64_t ignore_2, bool want)
{
    struct shadow_recv *second;

    owner_reopen(o, NULL, 8, 16);
    owner_post_sized(o, 0, source, tag, ignore, 8);
    second = owner_post_sized(o, 1, source_2, tag_2, ignore_2, 16);
    assert_int_equal(second->state, want ? SHADOW_SOFTWARE : SHADOW_HANDED);
    assert_int_equal(o->shadow.stats.overlapped, want);
}

static void a_receive_does_not_pass_one_that_stays_and_fits_the_same(void **state)
{
    overlaps(*state, 2, 7, 0, 2, 7, 0, true);
    overlaps(*state, 2, 7, 0, 2, 8, 0, false);
    overlaps(*state, 2, 7, 0, 1, 7, 0, false);
    overlaps(*state, 2, 7, 0, MBX_MATCH_ANY_SOURCE, 7, 0, true);
    overlaps(*state, 2, 7, 0, 2, 0, ANY_TAG, true);
    overlaps(*state, 2, 7, 0, 2, 6, 1, true);
    overlaps(*state, MBX_MATCH_ANY_SOURCE, 7, 0, 2, 7, 0, true);
    overlaps(*state, 2, 0, ANY_TAG, 2, 7, 0, true);
    overlaps(*state, 2, 0, ANY_TAG, MBX_MATCH_ANY_SOURCE, 7, 0, true);
}

static void one_that_is_over_holds_nobody_back(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, NULL, 8, 16);
    owner_post_sized(o, 0, 2, 7, 0, 8);
    owner_post_sized(o, 1, MBX_MATCH_ANY_SOURCE, 7, 0, 8);
    assert_true(owner_cancel(o, 1));
    owner_arrive(o, 7);
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, TAKEN);
    assert_int_equal(owner_post(o, 2, 2, 7)->state, SHADOW_HANDED);
}

static void the_oldest_that_waits_goes_first(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, NULL, 2, 0);
    for (int i = 0; i < 5; i++)
        owner_post(o, i, 2, (uint64_t)i);
    assert_int_equal(o->recvs[2].shadow.state, SHADOW_WAITING);
    assert_int_equal(o->shadow.stats.waiting, 3);
    stepped_run(&o->stepped);
    owner_arrive(o, 1);
    owner_poll(o);
    assert_int_equal(o->recvs[2].shadow.state, SHADOW_HANDED);
    assert_int_equal(o->recvs[3].shadow.state, SHADOW_WAITING);
    stepped_run(&o->stepped);
    owner_arrive(o, 0);
    owner_poll(o);
    assert_int_equal(o->recvs[3].shadow.state, SHADOW_HANDED);
    assert_int_equal(o->recvs[4].shadow.state, SHADOW_WAITING);
    assert_int_equal(o->shadow.stats.waiting_max, 3);
}

static void one_that_is_posted_from_a_callback_does_not_pass_those_that_wait(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, NULL, 2, 0);
    for (int i = 0; i < 3; i++)
        owner_post(o, i, 2, 7);
    o->recvs[1].next = 3;
    stepped_run(&o->stepped);
    owner_arrive(o, 7);
    owner_arrive(o,
                 7); /* the second callback finds a handle free, and receive 2 waiting for it */
    owner_poll(o);
    assert_true(o->recvs[2].shadow.handle == owner_waiting_command(o, 0)->handle);
    owner_settle(o);
    owner_arrive(o, 7);
    owner_settle(o);
    assert_int_equal(o->recvs[2].outcome, MATCHED);
    assert_int_equal(o->recvs[3].outcome, NONE);
}

static void one_that_waits_can_be_taken_or_cancelled(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, NULL, 1, 0);
    for (int i = 0; i < 4; i++)
        owner_post(o, i, 2, (uint64_t)i);
    owner_arrive(o, 1);
    owner_poll(o);
    assert_int_equal(o->recvs[1].outcome, TAKEN);
    assert_true(owner_cancel(o, 2));
    assert_int_equal(o->shadow.stats.waiting, 1);
    assert_false(owner_cancel(o, 0));
    owner_settle(o);
    assert_int_equal(o->recvs[0].outcome, REVOKED);
    assert_int_equal(o->recvs[3].shadow.state, SHADOW_HANDED);
}

/* ---- memory that the device has ---- */

static void one_whose_memory_the_device_has_stays(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, &(struct stepped_config){.clashes = 1}, 8, 0);
    owner_place(o, 0, 2, 5);
    assert_int_equal(owner_post(o, 1, 2, 6)->state, SHADOW_SOFTWARE);
    assert_int_equal(o->shadow.stats.clashed, 1);
    owner_arrive(o, 6);
    owner_arrive(o, 5);
    owner_settle(o);
    assert_int_equal(o->recvs[1].outcome, TAKEN);
    assert_int_equal(o->recvs[0].outcome, MATCHED);
    assert_int_equal(owner_post(o, 2, 2, 6)->state, SHADOW_HANDED);
}

static void none_that_waits_passes_one_that_stays_for_its_memory(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, &(struct stepped_config){.clashes = 4}, 2, 0);
    owner_post_sized(o, 0, 2, 1, 0, 16);
    owner_post_sized(o, 1, 2, 2, 0, 17);
    owner_post_sized(o, 2, 2, 5, 0, 16);
    owner_post_sized(o, 3, 2, 5, 0, 18);
    owner_post_sized(o, 4, 2, 6, 0, 18);
    for (int i = 2; i < 5; i++)
        assert_int_equal(o->recvs[i].shadow.state, SHADOW_WAITING);
    stepped_run(&o->stepped);
    owner_arrive(o, 2);
    owner_settle(o);
    assert_int_equal(o->recvs[2].shadow.state, SHADOW_SOFTWARE);
    assert_int_equal(o->recvs[3].shadow.state, SHADOW_SOFTWARE);
    assert_int_equal(o->recvs[4].shadow.state, SHADOW_HANDED);
    owner_arrive(o, 5);
    owner_settle(o);
    assert_int_equal(o->recvs[2].outcome, TAKEN);
    assert_int_equal(o->recvs[3].outcome, NONE);
}

/* ---- cancel ---- */

static void a_cancel_in_software_is_done_at_once(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, NULL, 8, 16);
    owner_post_sized(o, 0, 2, 7, 0, 8);
    assert_true(owner_cancel(o, 0));
    owner_settle(o);
    assert_int_equal(o->recvs[0].notified, 0);
}

static void a_cancel_in_the_device_waits_for_its_answer(void **state)
{
    struct owner *o = *state;

    owner_post(o, 0, 2, 7);
    assert_false(owner_cancel(o, 0));
    assert_int_equal(o->recvs[0].notified, 0);
    owner_settle(o);
    assert_int_equal(o->recvs[0].outcome, REVOKED);
    assert_int_equal(o->recvs[0].notified, 1);
    assert_int_equal(o->shadow.stats.cancels_won, 1);
}

static void a_claim_in_the_device_waits_for_its_answer(void **state)
{
    struct owner *o = *state;

    owner_post(o, 0, 2, 7);
    owner_place(o, 1, 2, 8);
    owner_arrive(o, 8);
    assert_false(owner_claim(o, 0));
    assert_false(owner_claim(o, 1));
    assert_int_equal(o->recvs[0].shadow.state, SHADOW_RECLAIMED);
    assert_int_equal(o->recvs[0].notified + o->recvs[1].notified, 0);
    owner_settle(o);
    assert_int_equal(o->recvs[0].outcome, REVOKED);
    assert_int_equal(o->recvs[1].outcome, MATCHED);
    assert_int_equal(o->shadow.stats.reclaims_won, 1);
    assert_int_equal(o->shadow.stats.reclaims_lost, 1);
    assert_int_equal(o->shadow.stats.cancels_won + o->shadow.stats.cancels_lost, 0);
}

/* ---- open ---- */

static void a_shadow_asks_for_no_more_than_the_device_has(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, NULL, 0, 0);
    assert_int_equal(o->shadow.list, STEPPED_LIST);
    owner_reopen(o, NULL, STEPPED_LIST + 1, 0);
    assert_int_equal(o->shadow.list, STEPPED_LIST);
    assert_int_equal(o->shadow.untagged, 8);
    assert_int_equal(o->stepped.commands, 2 * STEPPED_LIST + 2);
}

static void a_shadow_without_memory_leaves_nothing(UNUSED void **state)
{
    owner_lacks_memory(false, 5 + 2); /* the shadow's, and the device's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OWNER_TEST(a_receive_is_handed_over_at_once),
        OWNER_TEST(a_small_receive_stays_in_software),
        OWNER_TEST(receives_from_anybody_need_a_device_that_has_them),
        OWNER_TEST(partial_ignore_bits_need_a_device_that_has_them),
        OWNER_TEST(a_short_buffer_needs_a_device_that_truncates),
        OWNER_TEST(a_tag_must_fit_the_device),
        OWNER_TEST(a_receive_does_not_pass_one_that_stays_and_fits_the_same),
        OWNER_TEST(one_that_is_over_holds_nobody_back),
        OWNER_TEST(the_oldest_that_waits_goes_first),
        OWNER_TEST(one_that_is_posted_from_a_callback_does_not_pass_those_that_wait),
        OWNER_TEST(one_that_waits_can_be_taken_or_cancelled),
        OWNER_TEST(one_whose_memory_the_device_has_stays),
        OWNER_TEST(none_that_waits_passes_one_that_stays_for_its_memory),
        OWNER_TEST(a_cancel_in_software_is_done_at_once),
        OWNER_TEST(a_cancel_in_the_device_waits_for_its_answer),
        OWNER_TEST(a_claim_in_the_device_waits_for_its_answer),
        OWNER_TEST(a_shadow_asks_for_no_more_than_the_device_has),
        cmocka_unit_test(a_shadow_without_memory_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
