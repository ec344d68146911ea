/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held_test.c - the messages that the device is given to hold, and its reports about them.
 */
#include "testing/device/shadow_testing.h"

#include <errno.h>

/* Message number `message` arrives, and is kept. */
static void arrives(struct owner *o, int message, uint64_t tag)
{
    assert_int_equal(o->kept, message);
    owner_arrive(o, tag);
    owner_poll(o);
    assert_int_equal(o->kept, message + 1);
}

/* An owner whose device is given messages to hold, and holds this one. */
static void open_with_one(struct owner *o, uint32_t list, uint64_t threshold)
{
    owner_reopen_holding(o, NULL, list, threshold);
    arrives(o, 0, 7);
    assert_int_not_equal(o->held[0], HELD_BY_NONE);
    stepped_run(&o->stepped);
}

static bool finds(struct owner *o, int i, int message, uint64_t tag)
{
    return owner_find(o, i, message, tag, STEPPED_EAGER_MAX);
}

/* ---- held messages ---- */

static void nothing_is_held_that_the_owner_does_not_give(void **state)
{
    struct owner *o = *state;

    arrives(o, 0, 7);
    assert_int_equal(o->held[0], HELD_BY_NONE);
    assert_int_equal(o->stepped.commands_waiting, 0);
    assert_int_equal(o->stepped.commands, 2 * 8 + 2);
    assert_false(finds(o, 0, 0, 7));
    owner_settle(o);
    assert_int_equal(o->recvs[0].outcome, NONE);
}

static void a_device_that_cannot_hold_is_given_nothing(void **state)
{
    struct owner *o = *state;

    owner_reopen_holding(
        o, &(struct stepped_config){.caps = MBX_DEVICE_MASKS | MBX_DEVICE_TRUNCATES}, 8, 0);
    arrives(o, 0, 7);
    assert_int_equal(o->held[0], HELD_BY_NONE);
}

static void a_message_that_it_cannot_tell_apart_is_not_held(void **state)
{
    struct owner *o = *state;

    owner_reopen_holding(o, &(struct stepped_config){.tag_mask = 0xf}, 8, 0);
    arrives(o, 0, 16);
    arrives(o, 1, 15);
    assert_int_equal(o->held[0], HELD_BY_NONE);
    assert_int_not_equal(o->held[1], HELD_BY_NONE);
}

static void it_holds_as_many_messages_as_receives(void **state)
{
    struct owner *o = *state;

    owner_reopen_holding(o, NULL, 2, 0);
    assert_int_equal(o->stepped.commands, 4 * 2 + 2);
    for (int i = 0; i < 3; i++)
        arrives(o, i, (uint64_t)i);
    assert_int_equal(o->held[2], HELD_BY_NONE);
    assert_false(finds(o, 0, 2, 2));
    assert_int_equal(o->shadow.stats.held, 2);
    assert_int_equal(o->shadow.stats.unheld, 0);
}

/* ---- matched messages ---- */

static void a_held_message_is_matched_by_the_device(void **state)
{
    struct owner *o = *state;

    open_with_one(o, 8, 0);
    assert_true(finds(o, 0, 0, 7));
    owner_poll(o);
    assert_int_equal(o->recvs[0].notified, 0); /* the device has not searched yet */
    owner_settle(o);
    assert_int_equal(o->recvs[0].outcome, GIVEN);
    assert_int_equal(o->recvs[0].notified, 1);
    assert_ptr_equal(o->recvs[0].given, &o->msgs[0]);
    assert_int_equal(o->shadow.stats.held_matched, 1);
    assert_int_equal(owner_free_handles(o), 8);
    assert_int_equal(o->shadow.held_free_count, 8);
}

/* Two messages with the same envelope, and their receives: both sides have the same order. */
static void the_oldest_is_matched_first(void **state)
{
    struct owner *o = *state;

    owner_reopen_holding(o, NULL, 8, 0);
    arrives(o, 0, 7);
    arrives(o, 1, 7);
    assert_true(finds(o, 0, 0, 7));
    assert_true(finds(o, 1, 1, 7));
    owner_settle(o);
    assert_ptr_equal(o->recvs[0].given, &o->msgs[0]);
    assert_ptr_equal(o->recvs[1].given, &o->msgs[1]);
    assert_int_equal(o->lost, 0);
}

static void one_that_the_device_may_not_have_takes_its_message_back(void **state)
{
    struct owner *o = *state;

    open_with_one(o, 8, 16);
    assert_false(owner_find(o, 0, 0, 7, 15));
    assert_int_equal(owner_waiting_command(o, 0)->type, TM_UNHOLD);
    assert_int_equal(o->shadow.stats.unheld, 1);
    owner_settle(o);
    assert_int_equal(o->recvs[0].notified, 0); /* software has the message already */
    assert_int_equal(o->lost, 0);
}

static void while_all_is_recalled_messages_are_taken_back(void **state)
{
    struct owner *o = *state;

    open_with_one(o, 8, 0);
    shadow_recall(&o->shadow);
    assert_false(finds(o, 0, 0, 7));
    owner_settle(o);
    assert_int_equal(o->shadow.held_leaving, 0);
    assert_int_equal(o->lost, 0);
}

static void one_without_space_takes_its_message_back(void **state)
{
    struct owner *o = *state;

    open_with_one(o, 1, 0);
    owner_place(o, 0, 2, 9);
    assert_false(finds(o, 1, 0, 7));
    assert_int_equal(o->shadow.stats.unheld, 1);
}

static void a_number_is_free_when_the_device_has_let_go(void **state)
{
    struct owner *o = *state;

    open_with_one(o, 1, 0);
    held_leave(&o->shadow, o->held[0]);
    assert_true(mbx_match_extract(&o->match, &o->msgs[0]));
    arrives(o, 1, 7);
    assert_int_equal(o->held[1], HELD_BY_NONE);
    owner_settle(o);
    arrives(o, 2, 7);
    assert_int_equal(o->held[2], o->held[0]);
    owner_settle(o);
    assert_int_equal(o->lost, 0);
}

/* ---- a device that is gone, or not to be trusted ---- */

static void a_receive_that_has_found_its_message_gets_it_from_a_lost_device(void **state)
{
    struct owner *o = *state;

    open_with_one(o, 8, 0);
    assert_true(finds(o, 0, 0, 7));
    stepped_lose(&o->stepped);
    owner_poll(o);
    assert_int_equal(o->recvs[0].outcome, GIVEN);
    assert_ptr_equal(o->recvs[0].given, &o->msgs[0]);
    assert_int_equal(o->lost, 1);
}

static void software_gets_the_messages_that_a_lost_device_held(void **state)
{
    struct owner *o = *state;

    open_with_one(o, 8, 0);
    stepped_lose(&o->stepped);
    owner_poll(o);
    assert_false(finds(o, 0, 0, 7));
    assert_int_equal(o->recvs[0].notified, 0);
}

/* Receive 0 has found message 0, message 1 is held, and receive 1 handed over: then the device
 * sends a forbidden event. */
static void distrusts(struct owner *o, const struct mbx_device_event *event)
{
    owner_reopen_holding(o, NULL, 8, 0);
    arrives(o, 0, 7);
    arrives(o, 1, 8);
    assert_true(finds(o, 0, 0, 7));
    owner_post(o, 1, 2, 9);
    owner_say(o, event);
    o->stepped.queue_count = 0; /* it reports nothing else */
    owner_poll(o);
    owner_poll(o);
    assert_int_equal(o->lost, 1);
    assert_int_equal(o->recvs[0].outcome, GIVEN);
    assert_int_equal(o->recvs[0].notified, 1);
    assert_ptr_equal(o->recvs[0].given, &o->msgs[0]);
}

static void another_match_is_not_believed(void **state)
{
    struct owner *o = *state;
    const struct mbx_device_envelope seven = {1, 2, 7}, nine = {1, 2, 9};

    distrusts(o, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                            .flags = MBX_DEVICE_HELD,
                                            .handle = 0,
                                            .message = 1,
                                            .envelope = seven});
    distrusts(o, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                            .flags = MBX_DEVICE_HELD,
                                            .handle = 1,
                                            .message = 0,
                                            .envelope = nine});
    distrusts(o, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                            .flags = MBX_DEVICE_HELD,
                                            .handle = 0,
                                            .message = 8,
                                            .envelope = seven});
    distrusts(o, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                            .flags = MBX_DEVICE_WHOLE,
                                            .handle = 0,
                                            .envelope = seven});
}

static void an_unheld_that_nobody_asked_for_is_not_believed(void **state)
{
    struct owner *o = *state;

    distrusts(o, &(struct mbx_device_event){.type = MBX_DEVICE_UNHELD, .handle = 0});
    distrusts(o, &(struct mbx_device_event){.type = MBX_DEVICE_UNHELD, .handle = 1});
    distrusts(o, &(struct mbx_device_event){.type = MBX_DEVICE_UNHELD, .handle = 8});
}

static void it_cannot_have_been_matched_before(void **state)
{
    struct owner *o = *state;

    open_with_one(o, 8, 0);
    held_leave(&o->shadow, o->held[0]);
    owner_say(o, &(struct mbx_device_event){
                     .type = MBX_DEVICE_UNHELD, .handle = o->held[0], .error = -ENOENT});
    owner_poll(o);
    assert_int_equal(o->lost, 1);
}

static void a_holding_shadow_without_memory_leaves_nothing(UNUSED void **state)
{
    owner_lacks_memory(true, 5 + 2 + 2); /* the shadow's, for held messages, and the device's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OWNER_TEST(nothing_is_held_that_the_owner_does_not_give),
        OWNER_TEST(a_device_that_cannot_hold_is_given_nothing),
        OWNER_TEST(a_message_that_it_cannot_tell_apart_is_not_held),
        OWNER_TEST(it_holds_as_many_messages_as_receives),
        OWNER_TEST(a_held_message_is_matched_by_the_device),
        OWNER_TEST(the_oldest_is_matched_first),
        OWNER_TEST(one_that_the_device_may_not_have_takes_its_message_back),
        OWNER_TEST(while_all_is_recalled_messages_are_taken_back),
        OWNER_TEST(one_without_space_takes_its_message_back),
        OWNER_TEST(a_number_is_free_when_the_device_has_let_go),
        OWNER_TEST(a_receive_that_has_found_its_message_gets_it_from_a_lost_device),
        OWNER_TEST(software_gets_the_messages_that_a_lost_device_held),
        OWNER_TEST(another_match_is_not_believed),
        OWNER_TEST(an_unheld_that_nobody_asked_for_is_not_believed),
        OWNER_TEST(it_cannot_have_been_matched_before),
        cmocka_unit_test(a_holding_shadow_without_memory_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
