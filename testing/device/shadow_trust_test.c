/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shadow_trust_test.c - a device that is lost, or sends wrong events.
 */
#include "testing/device/shadow_testing.h"

#include <errno.h>

static void what_a_lost_device_had_is_told_of(void **state)
{
    struct owner *o = *state;

    owner_reopen(o, NULL, 3, 0);
    for (int i = 0; i < 4; i++)
        owner_post(o, i, 2, (uint64_t)i);
    stepped_run(&o->stepped);
    owner_begin(o, STEPPED_RENDEZVOUS, 0, 64, true);
    owner_poll(o);
    assert_false(owner_cancel(o, 1));
    stepped_lose(&o->stepped);
    owner_poll(o);
    assert_int_equal(o->lost, 1);
    assert_int_equal(o->recvs[0].outcome, LOST);
    assert_int_equal(o->recvs[1].outcome, REVOKED);
    assert_int_equal(o->recvs[2].notified, 0);
    assert_int_equal(o->recvs[2].shadow.state, SHADOW_NONE); /* software has it back */
    assert_int_equal(o->recvs[3].shadow.state, SHADOW_NONE);
    assert_int_equal(o->shadow.stats.waiting + o->shadow.stats.in_device, 0);
    owner_post(o, 4, 2, 9);
    assert_true(owner_cancel(o, 4));
    assert_true(owner_cancel(o, 2));
    assert_int_equal(shadow_poll(&o->shadow), 0);
    assert_int_equal(o->lost, 1);
}

static void a_command_to_a_device_that_is_gone_waits_for_its_last_event(void **state)
{
    struct owner *o = *state;

    owner_post(o, 0, 2, 7);
    stepped_lose(&o->stepped);
    assert_int_equal(owner_post(o, 1, 2, 8)->state, SHADOW_WAITING);
    assert_false(owner_cancel(o, 0));
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, REVOKED);
    assert_int_equal(o->recvs[1].shadow.state, SHADOW_NONE);
}

/* Receive 0, from source (2, or any), is in the device, with handle 0; then the device sends
 * this event. */
static void distrusts_from(struct owner *o, uint32_t source,
                           const struct mbx_device_event *event)
{
    owner_reopen(o, NULL, 8, 0);
    owner_place(o, 0, source, 7);
    owner_say(o, event);
    shadow_poll(&o->shadow);
    assert_int_equal(o->lost, 1);
    assert_int_equal(o->logged, 1);
    assert_int_equal(o->recvs[0].notified, 0);
    assert_int_equal(o->recvs[0].shadow.state, SHADOW_NONE);
}

static void distrusts(struct owner *o, const struct mbx_device_event *event)
{
    distrusts_from(o, 2, event);
}

/* MATCHED for a receive from source, with this message. */
static void distrusts_match(struct owner *o, uint32_t source, uint32_t context_id,
                            uint32_t peer, uint64_t tag)
{
    distrusts_from(o, source,
                   &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                              .flags = MBX_DEVICE_WHOLE,
                                              .envelope = {context_id, peer, tag}});
}

static void a_match_with_a_message_that_does_not_fit_is_not_believed(void **state)
{
    distrusts_match(*state, 2, 9, 2, 7);
    distrusts_match(*state, 2, 1, 3, 7);
    distrusts_match(*state, 2, 1, 2, 8);
    distrusts_match(*state, MBX_DEVICE_ANY_SOURCE_ID, 1, 8, 7); /* there are only 8 peers */
    distrusts_match(*state, MBX_DEVICE_ANY_SOURCE_ID, 1, MBX_DEVICE_ANY_SOURCE_ID, 7);
}

static void data_that_ends_with_no_error_and_no_success_is_not_believed(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_say(o, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED, .envelope = {1, 2, 7}});
    owner_say(o, &(struct mbx_device_event){.type = MBX_DEVICE_DATA_VALID, .error = 1});
    owner_poll(o);
    assert_int_equal(o->lost, 1);
    assert_int_equal(o->recvs[0].outcome, LOST);
}

/* The list of empty buffers has space for each of them only once. */
static void a_buffer_that_comes_twice_is_not_believed(void **state)
{
    const struct mbx_device_event event = {.type = MBX_DEVICE_PASSED,
                                           .buffer = 3,
                                           .peer = 2,
                                           .bytes = sizeof(struct stepped_packet)};
    struct owner *o = *state;

    ((struct stepped_packet *)(void *)(o->shadow.buffers + 3 * o->shadow.limits.untagged_size))
        ->kind = STEPPED_OTHER;
    owner_say(o, &event);
    owner_say(o, &event);
    shadow_poll(&o->shadow);
    assert_int_equal(o->offered, 1);
    assert_int_equal(o->lost, 1);
    assert_int_equal(o->logged, 1);
}

static const struct mbx_device_event nonsense = {.type = 200};

/* The device's actions before it was stopped cannot be undone: its sender has been notified. */
static void events_of_a_device_after_nonsense_count(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_begin(o, STEPPED_RENDEZVOUS, 7, STEPPED_STEP, true);
    owner_poll(o);
    owner_say(o, &nonsense);
    stepped_move(&o->stepped, 0); /* the data */
    stepped_move(&o->stepped, 0); /* the FIN */
    owner_say(o, &nonsense);
    owner_arrive(o, 9);
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, VALID);
    assert_int_equal(o->recvs[0].notified, 2);
    assert_int_equal(o->owed, 0);
    assert_int_equal(o->kept, 1);
    assert_int_equal(o->lost, 1);
    assert_int_equal(o->logged, 1);
    assert_true(o->shadow.is_lost);
}

static void a_device_that_was_stopped_is_given_nothing_more(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_say(o, &nonsense);
    o->stepped.shows = 1;
    assert_int_equal(shadow_poll(&o->shadow), 1);
    assert_int_equal(o->lost, 1);
    assert_false(o->shadow.is_lost);
    assert_false(shadow_is_idle(&o->shadow));
    assert_true(shadow_has_work(&o->shadow));
    assert_int_equal(o->recvs[0].shadow.state, SHADOW_HANDED);
    assert_int_equal(owner_post(o, 1, 2, 7)->state, SHADOW_NONE);
    assert_true(owner_cancel(o, 1));
    assert_false(owner_cancel(o, 0));
    o->stepped.shows = UINT32_MAX;
    owner_poll(o);
    assert_int_equal(o->lost, 1);
    assert_int_equal(o->recvs[0].outcome, REVOKED);
    assert_true(o->shadow.is_lost);
    assert_false(shadow_has_work(&o->shadow));
}

/* Such a match does not name its sender. */
static void a_fin_that_is_owed_goes_to_the_sender_that_was_told_of_later(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_say(o, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                            .flags = MBX_DEVICE_SIZE_LATER |
                                                     MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN,
                                            .envelope = {1, 2, 7}});
    owner_poll(o);
    assert_false(o->recvs[0].shadow.is_sized);
    owner_say(o, &(struct mbx_device_event){
                     .type = MBX_DEVICE_DATA_VALID, .size = 10, .done = 10, .sender = 42});
    stepped_lose(&o->stepped);
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, VALID);
    assert_int_equal(o->owed, 1);
    assert_int_equal(o->owed_sender, 42);
}

static void a_fin_is_owed_when_the_data_is_there(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_begin(o, STEPPED_RENDEZVOUS, 7, STEPPED_STEP, true);
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, MATCHED);
    assert_int_equal(o->shadow.owed_count, 0);
    stepped_move(&o->stepped, 0);
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, VALID);
    assert_int_equal(o->shadow.owed_count, 1);
    stepped_move(&o->stepped, 0);
    owner_poll(o);
    assert_int_equal(o->shadow.owed_count, 0);
}

/* No order is guaranteed between the two. */
static void a_fin_may_be_told_before_its_data(void **state)
{
    struct owner *o = *state;

    owner_place(o, 0, 2, 7);
    owner_say(o, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                            .flags = MBX_DEVICE_BY_RNDV | MBX_DEVICE_WANTS_FIN,
                                            .envelope = {1, 2, 7},
                                            .size = 10});
    owner_say(o, &(struct mbx_device_event){.type = MBX_DEVICE_FIN_SENT});
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, MATCHED);
    assert_int_equal(o->shadow.stats.in_device, 1);
    owner_say(o, &(struct mbx_device_event){.type = MBX_DEVICE_DATA_VALID, .done = 10});
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, VALID);
    assert_int_equal(o->shadow.stats.in_device, 0);
    stepped_lose(&o->stepped);
    owner_poll(o);
    assert_int_equal(o->owed, 0);
    assert_int_equal(o->logged, 0);
}

static void a_device_that_breaks_its_contract_is_given_up(void **state)
{
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED, .handle = 3});
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED, .handle = 8});
    distrusts(*state, &(struct mbx_device_event){
                          .type = MBX_DEVICE_MATCHED, .handle = 0, .flags = MBX_DEVICE_HELD});
    distrusts(*state,
              &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                         .flags = MBX_DEVICE_WHOLE | MBX_DEVICE_SIZE_LATER,
                                         .envelope = {1, 2, 7}});
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_DATA_VALID, .handle = 0});
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_INCOMPLETE, .handle = 0});
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_FIN_SENT, .handle = 0});
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_REVOKED, .handle = 0});
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_UNEXPECTED, .buffer = 8});
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_PASSED,
                                                 .bytes = sizeof(struct stepped_packet) + 1});
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_PASSED, .peer = 8});
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_LOST + 1});
    distrusts(*state, &(struct mbx_device_event){.type = MBX_DEVICE_UNHELD});
    distrusts(*state, &(struct mbx_device_event){.type = 0});
    distrusts(*state, &(struct mbx_device_event){.type = 200});
}

static void a_revoke_that_failed_without_a_match_is_not_believed(void **state)
{
    struct owner *o = *state;

    owner_post(o, 0, 2, 7);
    assert_false(owner_cancel(o, 0));
    o->stepped.events[o->stepped.events_first] =
        (struct mbx_device_event){.type = MBX_DEVICE_REVOKED, .handle = 0, .error = -ENOENT};
    o->stepped.events_count = 1;
    owner_poll(o);
    assert_int_equal(o->lost, 1);
    assert_int_equal(o->recvs[0].outcome, REVOKED); /* software has it back */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OWNER_TEST(what_a_lost_device_had_is_told_of),
        OWNER_TEST(a_command_to_a_device_that_is_gone_waits_for_its_last_event),
        OWNER_TEST(a_match_with_a_message_that_does_not_fit_is_not_believed),
        OWNER_TEST(data_that_ends_with_no_error_and_no_success_is_not_believed),
        OWNER_TEST(a_buffer_that_comes_twice_is_not_believed),
        OWNER_TEST(events_of_a_device_after_nonsense_count),
        OWNER_TEST(a_device_that_was_stopped_is_given_nothing_more),
        OWNER_TEST(a_fin_that_is_owed_goes_to_the_sender_that_was_told_of_later),
        OWNER_TEST(a_fin_is_owed_when_the_data_is_there),
        OWNER_TEST(a_fin_may_be_told_before_its_data),
        OWNER_TEST(a_device_that_breaks_its_contract_is_given_up),
        OWNER_TEST(a_revoke_that_failed_without_a_match_is_not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
