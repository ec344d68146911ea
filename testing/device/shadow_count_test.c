/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shadow_count_test.c - which messages count as handled, when the count is reported, and when a handle is free.
 */
#include "testing/device/shadow_testing.h"

/* ---- messages that count as handled ---- */

static void a_message_counts_when_its_owner_has_had_it(void **state)
{
    struct owner *o = *state;

    owner_arrive(o, 7);
    owner_arrive(o, 7);
    owner_post(o, 0, 2, 8);
    assert_int_equal(owner_waiting_command(o, 0)->handled, 0); /* found, but not polled */
    owner_poll(o);
    assert_int_equal(o->handled_within, 1); /* in the callback for the second, only the first */
    assert_int_equal(o->shadow.handled, 2);
    owner_post(o, 1, 2, 9);
    assert_int_equal(o->kept, 2);
}

static void a_refused_message_does_not_count_and_comes_again(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_arrive(o, 8);
    owner_arrive(o, 7);
    o->refusals = 2;
    owner_poll(o);
    owner_poll(o);
    assert_int_equal(o->offered, 2);
    assert_int_equal(o->shadow.handled, 0);
    assert_int_equal(o->recvs[0].outcome, NONE); /* no later event is handled */
    owner_poll(o);
    assert_int_equal(o->offered, 3);
    assert_int_equal(o->kept, 1);
    assert_int_equal(o->shadow.handled, 1);
    assert_int_equal(o->recvs[0].outcome, MATCHED);
}

static void packets_that_are_not_tagged_do_not_count(void **state)
{
    struct owner *o = *state;

    owner_put(o, STEPPED_OTHER, 0, 0, false);
    stepped_run(&o->stepped);
    owner_poll(o);
    assert_int_equal(o->offered, 1);
    assert_int_equal(o->shadow.handled, 0);
    assert_int_equal(o->shadow.stats.passed, 0);
}

static void the_revoke_of_a_taken_receive_goes_before_the_report(void **state)
{
    struct owner *o = *state;

    owner_arrive(o, 7);
    owner_post(o, 0, 2, 7);
    owner_post(o, 1, 2, 7); /* keeps the device busy */
    stepped_run(&o->stepped);
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, TAKEN);
    assert_int_equal(owner_waiting_command(o, 0)->type, TM_REVOKE);
    assert_int_equal(owner_waiting_command(o, 0)->handle, o->recvs[0].shadow.handle);
    assert_int_equal(owner_waiting_command(o, 0)->handled, 0);
    assert_int_equal(owner_waiting_command(o, 1)->type, TM_SYNC);
    assert_int_equal(owner_waiting_command(o, 1)->handled, 1);
    owner_settle(o);
    assert_int_equal(o->recvs[0].notified, 1);
    owner_arrive(o, 7);
    owner_settle(o);
    assert_int_equal(o->recvs[1].outcome, MATCHED);
}

static void a_sync_goes_only_when_the_device_holds_something(void **state)
{
    struct owner *o = *state;

    owner_arrive(o, 7);
    owner_poll(o);
    assert_int_equal(o->stepped.commands_waiting, 0);
    owner_post(o, 0, 2, 8); /* contains the report */
    assert_int_equal(owner_waiting_command(o, 0)->handled, 1);
    owner_poll(o);
    assert_int_equal(o->stepped.commands_waiting, 1);
    owner_arrive(o, 7);
    owner_poll(o);
    assert_int_equal(owner_waiting_command(o, 1)->type, TM_SYNC);
    assert_int_equal(owner_waiting_command(o, 1)->handled, 2);
    owner_poll(o);
    assert_int_equal(o->stepped.commands_waiting, 2); /* nothing new to report */
}

static void many_messages_are_reported_though_nobody_waits(void **state)
{
    struct owner *o = *state;

    for (int i = 0; i < 16384 - 1; i++) {
        owner_put(o, STEPPED_EAGER, 7, 8, false);
        stepped_run(&o->stepped);
        owner_poll(o);
        mbx_match_extract(&o->match, &o->msgs[--o->kept]); /* not to keep all */
        stepped_run(&o->stepped);
    }
    assert_int_equal(o->shadow.stats.syncs, 0);
    owner_arrive(o, 7);
    owner_poll(o);
    assert_int_equal(o->shadow.stats.syncs, 1);
}

static void syncs_leave_space_for_revokes(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, NULL, 2, 0);
    owner_post(o, 0, 2, 7);
    owner_post(o, 1, 2, 8);
    for (int i = 0; i < 8; i++) { /* the device performs no command meanwhile */
        owner_arrive(o, 9);
        owner_poll(o);
    }
    assert_int_equal(o->stepped.commands_waiting, 3);
    assert_false(owner_cancel(o, 0));
    assert_false(owner_cancel(o, 1));
    assert_int_equal(o->stepped.commands_waiting, 5);
    owner_settle(o);
    assert_int_equal(o->recvs[0].outcome, REVOKED);
    assert_int_equal(o->recvs[1].outcome, REVOKED);
}

static void a_sync_that_found_no_space_is_sent_later(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    for (int i = 0; i < 2; i++) { /* the second poll finds the first SYNC still waiting */
        owner_arrive(o, 9);
        owner_poll(o);
    }
    assert_int_equal(o->stepped.commands_waiting, 1);
    stepped_run(&o->stepped);
    assert_false(tm_is_in_sync(&o->stepped.unit));
    owner_settle(o);
    assert_true(tm_is_in_sync(&o->stepped.unit));
}

static void untagged_buffers_go_back(void **state)
{
    struct owner *o = *state;

    for (int i = 0; i < 8; i++)
        owner_arrive(o, 7);
    assert_int_equal(o->stepped.empty_count, 0);
    owner_settle(o);
    assert_int_equal(o->stepped.empty_count, 8);
}

/* ---- handles ---- */

static void a_handle_is_free_when_its_revoke_has_been_answered(void **state)
{
    struct owner *o = *state;

    owner_post(o, 0, 2, 7);
    assert_false(owner_cancel(o, 0));
    owner_poll(o);
    assert_int_equal(owner_free_handles(o), 7);
    owner_settle(o);
    assert_int_equal(owner_free_handles(o), 8);
}

static void a_handle_that_is_matched_and_revoked_waits_for_both(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_arrive(o, 7);
    assert_false(owner_cancel(o, 0));
    owner_hears(o, MATCHED, 7); /* MATCHED; the revoke has not been performed */
    owner_settle(o);
    assert_int_equal(o->recvs[0].notified, 1);
    assert_int_equal(owner_free_handles(o), 8);
    assert_int_equal(o->shadow.stats.cancels_lost, 1);
}

static void a_cancel_that_is_too_late_does_not_end_a_receive_whose_data_moves(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_begin(o, STEPPED_EAGER, 7, 2 * STEPPED_INLINE, false);
    assert_false(owner_cancel(o, 0));
    while (stepped_command(&o->stepped))
        ;
    owner_poll(o); /* MATCHED, and that the revoke failed */
    assert_int_equal(o->recvs[0].outcome, MATCHED);
    assert_int_equal(o->recvs[0].notified, 1);
    owner_settle(o);
    assert_int_equal(o->recvs[0].outcome, VALID);
    assert_int_equal(o->recvs[0].notified, 2);
    assert_int_equal(owner_free_handles(o), 8);
}

static void a_handle_waits_for_the_data(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_begin(o, STEPPED_EAGER, 7, 2 * STEPPED_INLINE, false);
    owner_hears(o, MATCHED, 7);
    stepped_arrive(&o->stepped, 2);
    owner_hears(o, VALID, 8);
}

static void a_handle_waits_for_the_fin(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_begin(o, STEPPED_RENDEZVOUS, 7, STEPPED_STEP, true);
    stepped_move(&o->stepped, 0);
    owner_hears(o, VALID, 7);
    stepped_move(&o->stepped, 0);
    owner_poll(o);
    assert_int_equal(owner_free_handles(o), 8);
}

static void an_incomplete_rendezvous_owes_nothing(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    stepped_send(&o->stepped, 2,
                 &(struct stepped_packet){.kind = STEPPED_RENDEZVOUS,
                                          .wants_fin = true,
                                          .envelope = {1, 2, 7},
                                          .size = 8,
                                          .breaks_at = 0});
    owner_settle(o);
    assert_int_equal(o->recvs[0].outcome, INCOMPLETE);
    assert_int_equal(owner_free_handles(o), 8);
    assert_int_equal(o->stepped.fins[2], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OWNER_TEST(a_message_counts_when_its_owner_has_had_it),
        OWNER_TEST(a_refused_message_does_not_count_and_comes_again),
        OWNER_TEST(packets_that_are_not_tagged_do_not_count),
        OWNER_TEST(the_revoke_of_a_taken_receive_goes_before_the_report),
        OWNER_TEST(a_sync_goes_only_when_the_device_holds_something),
        OWNER_TEST(many_messages_are_reported_though_nobody_waits),
        OWNER_TEST(syncs_leave_space_for_revokes),
        OWNER_TEST(a_sync_that_found_no_space_is_sent_later),
        OWNER_TEST(untagged_buffers_go_back),
        OWNER_TEST(a_handle_is_free_when_its_revoke_has_been_answered),
        OWNER_TEST(a_handle_that_is_matched_and_revoked_waits_for_both),
        OWNER_TEST(a_cancel_that_is_too_late_does_not_end_a_receive_whose_data_moves),
        OWNER_TEST(a_handle_waits_for_the_data),
        OWNER_TEST(a_handle_waits_for_the_fin),
        OWNER_TEST(an_incomplete_rendezvous_owes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
