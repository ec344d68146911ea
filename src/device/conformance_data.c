/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conformance_data.c - what becomes of a message: room, data, held messages, the end.
 */
#include "device/conformance_bench.h"

#include <errno.h>
#include <string.h>

/* ---- room ----------------------------------------------------------------------------- */

static void without_a_buffer_the_sender_is_held_back(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[BENCH_UNTAGGED + 2];
    struct conformance_message other;
    bool has_gone_on = false;
    uint32_t n;

    (void)state;
    bench_open(&b);
    n = b.untagged;
    r = bench_post(&b, 0, 2, 8);
    bench_run(&b);
    for (uint32_t i = 0; i < n + 1; i++)
        m[i] = bench_send_short(&b, 2, 7);
    m[n + 1] = bench_send_short(&b, 2, 8); /* has a receive, and must not overtake */
    bench_poll(&b);
    assert_int_equal(b.count, n);
    other = bench_send_short(&b, 1, 7);
    bench_poll(&b);
    assert_int_equal(b.count, n);
    for (uint32_t i = 0; i < n; i++)
        bench_unexpected(&b, &m[i]);
    bench_poll(&b);
    assert_int_equal(b.count, 3);
    for (int i = 0; i < 3; i++) { /* the two senders go on, each in its order */
        if (b.events[0].type == MBX_DEVICE_MATCHED) {
            assert_true(has_gone_on);
            bench_received(&b, &r, &m[n + 1]);
        } else if (b.events[0].peer == 1) {
            bench_unexpected(&b, &other);
        } else {
            bench_unexpected(&b, &m[n]);
            has_gone_on = true;
        }
    }
    bench_close(&b);
}

static void every_receive_has_room_for_two_commands_and_a_sync(void **state)
{
    struct bench b;
    struct landing r[BENCH_LIST];

    (void)state;
    bench_open(&b);
    for (uint32_t i = 0; i < 3 * b.commands; i++) {
        int err = b.device->ops->sync(b.device, b.handled);

        assert_true(err == 0 || err == -EAGAIN);
    }
    for (uint32_t i = 0; i < b.list; i++)
        r[i] = bench_post(&b, i, 2, 7);
    for (uint32_t i = 0; i < b.list; i++)
        bench_revoke(&b, i);
    bench_poll(&b);
    for (uint32_t i = 0; i < b.list; i++)
        bench_revoked(&b, &r[i], 0);
    bench_close(&b);
}

static void the_whole_list_can_be_used(void **state)
{
    struct bench b;
    struct landing r[BENCH_LIST];
    struct conformance_message m[BENCH_LIST];

    (void)state;
    bench_open(&b);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < b.list; i++)
            r[i] = bench_post(&b, i, i % CONFORMANCE_PEERS, i);
        bench_run(&b);
        for (uint32_t i = b.list; i-- > 0;) {
            m[i] = bench_send_short(&b, i % CONFORMANCE_PEERS, i);
            bench_poll(&b);
            bench_received(&b, &r[i], &m[i]);
        }
    }
    bench_close(&b);
}

static void a_list_of_one_works(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open_small(&b, 1, 1);
    for (int round = 0; round < 3; round++) {
        r = bench_post(&b, 0, 2, 7);
        bench_run(&b);
        m = bench_send_short(&b, 2, 8);
        bench_poll(&b);
        bench_unexpected(&b, &m);
        m = bench_send_short(&b, 2, 7);
        bench_poll(&b);
        bench_received(&b, &r, &m);
    }
    bench_close(&b);
}

/* ---- data ----------------------------------------------------------------------------- */

static void send_and_receive(enum conformance_kind kind, size_t size, size_t room,
                             unsigned caps)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;
    uint64_t told;

    bench_open(&b);
    if (!bench_can(&b, caps) || !bench_sends(kind)) {
        bench_close(&b);
        skip();
    }
    if (kind != CONFORMANCE_RENDEZVOUS)
        size = min_size(size, b.limits.eager_max);
    if (!bench_can(&b, MBX_DEVICE_TRUNCATES))
        room = max_size(room, b.limits.eager_max);
    told = bench_target->told(b.world, 2);
    r = bench_landing(0, 2, 7, room);
    bench_append(&b, &r);
    bench_run(&b);
    m = bench_send(&b, kind, 2, 7, size);
    bench_poll(&b);
    bench_received(&b, &r, &m);
    assert_int_equal(bench_target->told(b.world, 2) - told, kind != CONFORMANCE_EAGER);
    bench_close(&b);
}

static void an_empty_message_is_a_message(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_EAGER, 0, 64, 0);
}

static void a_long_eager_message_arrives_whole(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_EAGER, sizeof bench_text, sizeof bench_text, 0);
}

static void a_message_longer_than_the_buffer_fills_it_and_no_more(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_EAGER, 8, 5, MBX_DEVICE_TRUNCATES);
}

static void a_long_eager_message_longer_than_the_buffer_fills_it(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_EAGER, sizeof bench_text, 21, MBX_DEVICE_TRUNCATES);
}

static void a_receive_without_room_gets_the_envelope(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_EAGER, 8, 0, MBX_DEVICE_TRUNCATES);
}

static void the_sender_of_a_synchronous_message_is_told(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_SYNC, 8, 64, 0);
}

static void the_sender_of_a_long_synchronous_message_is_told(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_SYNC, sizeof bench_text, sizeof bench_text, 0);
}

static void a_rendezvous_needs_no_software(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_RENDEZVOUS, sizeof bench_text, sizeof bench_text,
                     MBX_DEVICE_RENDEZVOUS);
}

static void a_rendezvous_longer_than_the_buffer_fills_it(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_RENDEZVOUS, sizeof bench_text, 37,
                     MBX_DEVICE_RENDEZVOUS | MBX_DEVICE_TRUNCATES);
}

static void an_empty_rendezvous_ends(void **state)
{
    (void)state;
    send_and_receive(CONFORMANCE_RENDEZVOUS, 0, 16,
                     MBX_DEVICE_RENDEZVOUS | MBX_DEVICE_TRUNCATES);
}

static void an_unexpected_rendezvous_is_passed_whole(void **state)
{
    struct bench b;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    if (!bench_sends(CONFORMANCE_RENDEZVOUS)) {
        bench_close(&b);
        skip();
    }
    m = bench_send(&b, CONFORMANCE_RENDEZVOUS, 2, 7, sizeof bench_text);
    bench_poll(&b);
    bench_unexpected(&b, &m);
    assert_int_equal(bench_target->told(b.world, 2), 0);
    bench_close(&b);
}

static void a_rendezvous_that_the_device_cannot_do_is_left_to_software(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;
    struct mbx_device_event event;

    (void)state;
    bench_open(&b);
    if (bench_can(&b, MBX_DEVICE_RENDEZVOUS) || !bench_sends(CONFORMANCE_RENDEZVOUS)) {
        bench_close(&b);
        skip();
    }
    r = bench_post(&b, 0, 2, 7);
    bench_run(&b);
    m = bench_send(&b, CONFORMANCE_RENDEZVOUS, 2, 7, sizeof bench_text);
    bench_poll(&b);
    event = bench_matched(&b, &r, &m);
    assert_false(event.flags & MBX_DEVICE_WHOLE);
    event = bench_take(&b, MBX_DEVICE_INCOMPLETE);
    assert_int_equal(event.handle, 0);
    assert_true(event.done <= sizeof bench_text);
    assert_int_equal(bench_target->told(b.world, 2), 0);
    mem_free(r.bytes);
    bench_close(&b);
}

static void other_packets_are_passed_and_not_counted(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;
    struct mbx_device_event event;

    (void)state;
    bench_open(&b);
    if (!bench_sends(CONFORMANCE_OTHER)) {
        bench_close(&b);
        skip();
    }
    bench_send(&b, CONFORMANCE_OTHER, 2, 7, 8);
    bench_poll(&b);
    event = bench_next(&b, MBX_DEVICE_PASSED);
    assert_int_equal(event.peer, 2);
    bench_give_buffer(&b, event.buffer);
    r = bench_post(&b, 0, 2, 7); /* nothing is unreported, so it is active */
    bench_run(&b);
    bench_send(&b, CONFORMANCE_OTHER, 2, 7, 8);
    m = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_give_buffer(&b, bench_next(&b, MBX_DEVICE_PASSED).buffer);
    bench_received(&b, &r, &m);
    bench_close(&b);
}

/* ---- messages that the device holds ---------------------------------------------------- */

static void hold(struct bench *b, uint32_t number, uint32_t source, uint64_t tag)
{
    const struct mbx_device_envelope envelope = {1, source, tag};

    assert_int_equal(b->device->ops->hold(b->device, number, &envelope, b->handled), 0);
}

static void a_held_message_meets_a_later_receive(void **state)
{
    struct bench b;
    struct landing r;
    struct mbx_device_event event;

    (void)state;
    bench_open(&b);
    if (!bench_can(&b, MBX_DEVICE_HOLDS)) {
        bench_close(&b);
        skip();
    }
    hold(&b, 5, 2, 8);
    hold(&b, 3, 2, 7);
    hold(&b, 4, 2, 7);
    bench_is_silent(&b);
    r = bench_post(&b, 0, 2, 7);
    bench_poll(&b);
    event = bench_next(&b, MBX_DEVICE_MATCHED);
    assert_true(event.flags & MBX_DEVICE_HELD);
    assert_int_equal(event.handle, 0);
    assert_int_equal(event.message, 3);
    hold(&b, 3, 2, 9); /* its number is free */
    bench_is_silent(&b);
    assert_int_equal(event.envelope.tag, 7);
    mem_free(r.bytes);
    bench_close(&b);
}

static void a_held_message_can_be_had_back_until_it_is_met(void **state)
{
    struct bench b;
    struct landing r;
    struct mbx_device_event event;

    (void)state;
    bench_open(&b);
    if (!bench_can(&b, MBX_DEVICE_HOLDS)) {
        bench_close(&b);
        skip();
    }
    hold(&b, 1, 2, 7);
    assert_int_equal(b.device->ops->unhold(b.device, 1, b.handled), 0);
    bench_poll(&b);
    event = bench_next(&b, MBX_DEVICE_UNHELD);
    assert_int_equal(event.handle, 1);
    assert_int_equal(event.error, 0);
    hold(&b, 1, 2, 7);
    r = bench_post(&b, 0, 2, 7);
    assert_int_equal(b.device->ops->unhold(b.device, 1, b.handled), 0);
    bench_poll(&b);
    assert_true(bench_next(&b, MBX_DEVICE_MATCHED).flags & MBX_DEVICE_HELD);
    assert_int_equal(bench_next(&b, MBX_DEVICE_UNHELD).error, -ENOENT);
    mem_free(r.bytes);
    bench_close(&b);
}

/* ---- the end -------------------------------------------------------------------------- */

static void a_lost_device_says_so_last_and_takes_nothing(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    if (bench_target->lose == NULL) {
        bench_close(&b);
        skip();
    }
    r = bench_post(&b, 0, 2, 7);
    bench_run(&b);
    m = bench_send_short(&b, 2, 8);
    bench_run(&b);
    bench_target->lose(b.world);
    bench_send_short(&b, 2, 7);
    bench_poll(&b);
    assert_int_equal(bench_next(&b, MBX_DEVICE_UNEXPECTED).peer, m.envelope.source);
    bench_next(&b, MBX_DEVICE_LOST);
    assert_int_equal(b.device->ops->append(b.device, &r.recv, 0), -ENODEV);
    assert_int_equal(b.device->ops->revoke(b.device, 0, 0), -ENODEV);
    assert_int_equal(b.device->ops->sync(b.device, 0), -ENODEV);
    bench_is_silent(&b);
    mem_free(r.bytes);
    bench_close(&b);
}

int conformance_data(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_buffer_the_sender_is_held_back),
        cmocka_unit_test(every_receive_has_room_for_two_commands_and_a_sync),
        cmocka_unit_test(the_whole_list_can_be_used),
        cmocka_unit_test(a_list_of_one_works),
        cmocka_unit_test(an_empty_message_is_a_message),
        cmocka_unit_test(a_long_eager_message_arrives_whole),
        cmocka_unit_test(a_message_longer_than_the_buffer_fills_it_and_no_more),
        cmocka_unit_test(a_long_eager_message_longer_than_the_buffer_fills_it),
        cmocka_unit_test(a_receive_without_room_gets_the_envelope),
        cmocka_unit_test(the_sender_of_a_synchronous_message_is_told),
        cmocka_unit_test(the_sender_of_a_long_synchronous_message_is_told),
        cmocka_unit_test(a_rendezvous_needs_no_software),
        cmocka_unit_test(a_rendezvous_longer_than_the_buffer_fills_it),
        cmocka_unit_test(an_empty_rendezvous_ends),
        cmocka_unit_test(an_unexpected_rendezvous_is_passed_whole),
        cmocka_unit_test(a_rendezvous_that_the_device_cannot_do_is_left_to_software),
        cmocka_unit_test(other_packets_are_passed_and_not_counted),
        cmocka_unit_test(a_held_message_meets_a_later_receive),
        cmocka_unit_test(a_held_message_can_be_had_back_until_it_is_met),
        cmocka_unit_test(a_lost_device_says_so_last_and_takes_nothing),
    };

    return cmocka_run_group_tests_name(bench_target->name, tests, NULL, NULL);
}
