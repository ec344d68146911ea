/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conformance_data.c - the handling of a message: space, data, held messages, the end.
 */
#include "testing/device/conformance_bench.h"

#include <errno.h>
#include <string.h>

/* ---- space ----------------------------------------------------------------------------- */

static void without_a_buffer_the_sender_is_held_back(void **state)
{
    struct bench *b = *state;
    uint32_t n = b->untagged;
    struct landing r = bench_place(b, 0, 2, 8);
    struct conformance_message m[BENCH_MANY + 2];
    struct conformance_message other;
    bool has_gone_on = false;

    for (uint32_t i = 0; i < n + 1; i++)
        m[i] = bench_send_short(b, 2, 7);
    m[n + 1] = bench_send_short(b, 2, 8); /* has a receive, but must not overtake */
    bench_poll(b);
    assert_int_equal(b->count, n);
    other = bench_send_short(b, 1, 7);
    bench_poll(b);
    assert_int_equal(b->count, n);
    for (uint32_t i = 0; i < n; i++)
        bench_unexpected(b, &m[i]);
    bench_poll(b);
    assert_in_range(b->count, 3, 4); /* match and data may be separate events */
    for (int i = 0; i < 3; i++) {    /* the two senders continue, each in its order */
        if (bench_peek(b)->type == MBX_DEVICE_MATCHED) {
            assert_true(has_gone_on);
            bench_received(b, &r, &m[n + 1]);
        } else if (bench_peek(b)->peer == 1) {
            bench_unexpected(b, &other);
        } else {
            bench_unexpected(b, &m[n]);
            has_gone_on = true;
        }
    }
}

static void every_receive_has_space_for_two_commands_and_a_sync(void **state)
{
    struct bench *b = *state;
    struct landing *r = mem_calloc(b->list, sizeof *r);

    assert_non_null(r);
    for (uint32_t i = 0; i < 3 * b->commands; i++) {
        int err = b->device->ops->sync(b->device, b->handled);

        assert_true(err == 0 || err == -EAGAIN);
    }
    for (uint32_t i = 0; i < b->list; i++)
        r[i] = bench_post(b, i, 2, 7);
    for (uint32_t i = 0; i < b->list; i++)
        bench_revoke(b, i);
    bench_poll(b);
    for (uint32_t i = 0; i < b->list; i++)
        bench_revoked(b, &r[i], 0);
    mem_free(r);
}

/* Each receive has its own message; the device may serve the peers in any order. */
static void the_whole_list_can_be_used(void **state)
{
    struct bench *b = *state;
    struct landing *r = mem_calloc(b->list, sizeof *r);
    struct conformance_message *m = mem_calloc(b->list, sizeof *m);

    assert_true(r != NULL && m != NULL);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < b->list; i++)
            r[i] = bench_post(b, i, i % CONFORMANCE_PEERS, i);
        bench_run(b);
        for (uint32_t i = b->list; i-- > 0;)
            m[i] = bench_send_short(b, i % CONFORMANCE_PEERS, i);
        bench_poll(b);
        for (uint32_t i = 0; i < b->list; i++) {
            uint32_t handle = bench_peek(b)->handle;

            assert_true(handle < b->list);
            bench_received(b, &r[handle], &m[handle]);
        }
    }
    mem_free(r);
    mem_free(m);
}

/* Opened with a list of one, and the minimum of buffers. */
static void a_list_of_one_works(void **state)
{
    struct bench *b = *state;

    for (int round = 0; round < 3; round++) {
        struct landing r = bench_place(b, 0, 2, 7);

        bench_misses(b, 2, 8);
        bench_meets(b, &r, 2, 7);
    }
}

/* ---- data ----------------------------------------------------------------------------- */

/* The longest message of this kind that the suite tests. */
static size_t long_size(const struct bench *b, enum conformance_kind kind)
{
    return kind == CONFORMANCE_RENDEZVOUS ? BENCH_LONG
                                          : min_size(BENCH_LONG, b->limits.eager_max);
}

static void send_and_receive(struct bench *b, enum conformance_kind kind, size_t size,
                             size_t capacity)
{
    uint64_t fins = bench_target->fins(b->instance, 2);
    struct conformance_message m;
    struct landing r;

    bench_needs_kind(kind);
    if (!bench_can(b, MBX_DEVICE_TRUNCATES))
        capacity = max_size(capacity, b->limits.eager_max);
    r = bench_landing(0, 2, 7, capacity);
    bench_append(b, &r);
    bench_run(b);
    m = bench_send(b, kind, 2, 7, size);
    bench_poll(b);
    bench_received(b, &r, &m);
    assert_int_equal(bench_target->fins(b->instance, 2) - fins, kind != CONFORMANCE_EAGER);
}

/* A long message, and a buffer for `of` thirds of it. */
static void send_long(struct bench *b, enum conformance_kind kind, unsigned of)
{
    send_and_receive(b, kind, long_size(b, kind), of * long_size(b, kind) / 3);
}

static void an_empty_message_is_a_message(void **state)
{
    send_and_receive(*state, CONFORMANCE_EAGER, 0, 64);
}

static void a_long_eager_message_arrives_whole(void **state)
{
    send_long(*state, CONFORMANCE_EAGER, 3);
}

static void a_message_longer_than_the_buffer_fills_it_and_no_more(void **state)
{
    bench_needs(*state, MBX_DEVICE_TRUNCATES);
    send_and_receive(*state, CONFORMANCE_EAGER, 8, 5);
}

static void a_long_eager_message_longer_than_the_buffer_fills_it(void **state)
{
    bench_needs(*state, MBX_DEVICE_TRUNCATES);
    send_long(*state, CONFORMANCE_EAGER, 1);
}

static void a_buffer_that_ends_in_a_later_packet_is_filled(void **state)
{
    bench_needs(*state, MBX_DEVICE_TRUNCATES);
    send_long(*state, CONFORMANCE_EAGER, 2);
}

static void a_receive_without_space_gets_the_envelope(void **state)
{
    bench_needs(*state, MBX_DEVICE_TRUNCATES);
    send_and_receive(*state, CONFORMANCE_EAGER, 8, 0);
}

static void the_sender_of_a_synchronous_message_is_told(void **state)
{
    send_and_receive(*state, CONFORMANCE_SYNC, 8, 64);
}

static void the_sender_of_a_long_synchronous_message_is_told(void **state)
{
    send_long(*state, CONFORMANCE_SYNC, 3);
}

static void a_rendezvous_needs_no_software(void **state)
{
    bench_needs(*state, MBX_DEVICE_RENDEZVOUS);
    send_long(*state, CONFORMANCE_RENDEZVOUS, 3);
}

static void a_rendezvous_longer_than_the_buffer_fills_it(void **state)
{
    bench_needs(*state, MBX_DEVICE_RENDEZVOUS | MBX_DEVICE_READS_PART);
    send_long(*state, CONFORMANCE_RENDEZVOUS, 1);
}

static void a_short_rendezvous_needs_no_software(void **state)
{
    bench_needs(*state, MBX_DEVICE_RENDEZVOUS);
    send_and_receive(*state, CONFORMANCE_RENDEZVOUS, 8, 64);
}

/* Software continues from the state that the device reports, and notifies the sender. */
static void leave_to_software(struct bench *b, enum conformance_kind kind, size_t size,
                              size_t capacity)
{
    struct landing r = bench_landing(0, 2, 7, capacity);
    struct conformance_message m;
    struct mbx_device_event event;
    bool is_later;

    bench_append(b, &r);
    bench_run(b);
    m = bench_send(b, kind, 2, 7, size);
    bench_poll(b);
    event = bench_matched(b, &r, &m);
    assert_false(event.flags & MBX_DEVICE_WHOLE);
    is_later = (event.flags & MBX_DEVICE_SIZE_LATER) != 0;
    event = bench_take(b, MBX_DEVICE_INCOMPLETE);
    assert_int_equal(event.handle, 0);
    assert_int_not_equal(event.error, -EPROTO); /* after which nobody could continue */
    assert_true(event.done < size);
    if (is_later)
        bench_reports(&event, &m);
    assert_int_equal(bench_target->fins(b->instance, 2), 0);
    mem_free(r.bytes);
}

static void a_rendezvous_longer_than_the_buffer_is_left_to_software(void **state)
{
    struct bench *b = *state;

    bench_needs(b, MBX_DEVICE_RENDEZVOUS);
    if (bench_can(b, MBX_DEVICE_READS_PART))
        skip(); /* the previous test covers it */
    bench_needs_kind(CONFORMANCE_RENDEZVOUS);
    leave_to_software(b, CONFORMANCE_RENDEZVOUS, BENCH_LONG, BENCH_LONG - 1);
    if (bench_can(b, MBX_DEVICE_TRUNCATES))
        leave_to_software(b, CONFORMANCE_RENDEZVOUS, BENCH_LONG, 5);
}

static void an_empty_rendezvous_ends(void **state)
{
    bench_needs(*state, MBX_DEVICE_RENDEZVOUS | MBX_DEVICE_TRUNCATES);
    send_and_receive(*state, CONFORMANCE_RENDEZVOUS, 0, 16);
}

static void an_unexpected_rendezvous_is_passed_whole(void **state)
{
    struct bench *b = *state;
    struct conformance_message m;

    bench_needs_kind(CONFORMANCE_RENDEZVOUS);
    m = bench_send(b, CONFORMANCE_RENDEZVOUS, 2, 7, BENCH_LONG);
    bench_poll(b);
    bench_unexpected(b, &m);
    assert_int_equal(bench_target->fins(b->instance, 2), 0);
}

static void a_rendezvous_that_the_device_cannot_do_is_left_to_software(void **state)
{
    struct bench *b = *state;
    enum conformance_kind kind =
        bench_can(b, MBX_DEVICE_RENDEZVOUS) ? CONFORMANCE_UNREADABLE : CONFORMANCE_RENDEZVOUS;

    bench_needs_kind(kind);
    leave_to_software(b, kind, BENCH_LONG,
                      bench_can(b, MBX_DEVICE_TRUNCATES) ? 100 : b->limits.eager_max);
}

static void other_packets_are_passed_and_not_counted(void **state)
{
    struct bench *b = *state;
    struct landing r;
    struct conformance_message m;
    struct mbx_device_event event;

    bench_needs_kind(CONFORMANCE_OTHER);
    bench_send(b, CONFORMANCE_OTHER, 2, 7, 8);
    bench_poll(b);
    event = bench_next(b, MBX_DEVICE_PASSED);
    assert_int_equal(event.peer, 2);
    bench_give_buffer(b, event.buffer);
    r = bench_place(b, 0, 2, 7); /* no unexpected message is unreported, so it is active */
    bench_send(b, CONFORMANCE_OTHER, 2, 7, 8);
    m = bench_send_short(b, 2, 7);
    bench_poll(b);
    bench_give_buffer(b, bench_next(b, MBX_DEVICE_PASSED).buffer);
    bench_received(b, &r, &m);
}

/* ---- messages that the device holds ---------------------------------------------------- */

static void hold(struct bench *b, uint32_t number, uint32_t source, uint64_t tag)
{
    const struct mbx_device_envelope envelope = {1, source, tag};

    assert_int_equal(b->device->ops->hold(b->device, number, &envelope, b->handled), 0);
}

static void a_held_message_meets_a_later_receive(void **state)
{
    struct bench *b = *state;
    struct landing r;
    struct mbx_device_event event;

    bench_needs(b, MBX_DEVICE_HOLDS);
    bench_needs_list(b, 2);
    hold(b, 1, 2, 8);
    hold(b, 0, 2, 7);
    if (b->list > 2)
        hold(b, 2, 2, 7); /* younger */
    bench_is_silent(b);
    r = bench_post(b, 0, 2, 7);
    bench_poll(b);
    event = bench_next(b, MBX_DEVICE_MATCHED);
    assert_true(event.flags & MBX_DEVICE_HELD);
    assert_int_equal(event.handle, 0);
    assert_int_equal(event.message, 0);
    assert_int_equal(event.envelope.tag, 7);
    hold(b, 0, 2, 9); /* its number is free again */
    bench_is_silent(b);
    mem_free(r.bytes);
}

static void a_held_message_can_be_had_back_until_it_is_met(void **state)
{
    struct bench *b = *state;
    struct landing r;
    struct mbx_device_event event;

    bench_needs(b, MBX_DEVICE_HOLDS);
    hold(b, 0, 2, 7);
    assert_int_equal(b->device->ops->unhold(b->device, 0, b->handled), 0);
    bench_poll(b);
    event = bench_next(b, MBX_DEVICE_UNHELD);
    assert_int_equal(event.handle, 0);
    assert_int_equal(event.error, 0);
    hold(b, 0, 2, 7);
    r = bench_post(b, 0, 2, 7);
    assert_int_equal(b->device->ops->unhold(b->device, 0, b->handled), 0);
    bench_poll(b);
    assert_true(bench_next(b, MBX_DEVICE_MATCHED).flags & MBX_DEVICE_HELD);
    assert_int_equal(bench_next(b, MBX_DEVICE_UNHELD).error, -ENOENT);
    mem_free(r.bytes);
}

/* ---- the end -------------------------------------------------------------------------- */

static void a_lost_device_says_so_last_and_takes_nothing(void **state)
{
    struct bench *b = *state;
    struct landing r;
    struct conformance_message m;

    if (bench_target->lose == NULL)
        skip();
    r = bench_place(b, 0, 2, 7);
    m = bench_send_short(b, 2, 8);
    bench_run(b);
    bench_target->lose(b->instance);
    bench_send_short(b, 2, 7);
    bench_poll(b);
    assert_int_equal(bench_next(b, MBX_DEVICE_UNEXPECTED).peer, m.envelope.source);
    bench_next(b, MBX_DEVICE_LOST);
    assert_int_equal(b->device->ops->append(b->device, &r.recv, 0), -ENODEV);
    assert_int_equal(b->device->ops->revoke(b->device, 0, 0), -ENODEV);
    assert_int_equal(b->device->ops->sync(b->device, 0), -ENODEV);
    bench_is_silent(b);
    mem_free(r.bytes);
}

int conformance_data(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(without_a_buffer_the_sender_is_held_back),
        BENCH_TEST(every_receive_has_space_for_two_commands_and_a_sync),
        BENCH_TEST(the_whole_list_can_be_used),
        cmocka_unit_test_setup_teardown(a_list_of_one_works, bench_set_up_least,
                                        bench_tear_down),
        BENCH_TEST(an_empty_message_is_a_message),
        BENCH_TEST(a_long_eager_message_arrives_whole),
        BENCH_TEST(a_message_longer_than_the_buffer_fills_it_and_no_more),
        BENCH_TEST(a_long_eager_message_longer_than_the_buffer_fills_it),
        BENCH_TEST(a_buffer_that_ends_in_a_later_packet_is_filled),
        BENCH_TEST(a_receive_without_space_gets_the_envelope),
        BENCH_TEST(the_sender_of_a_synchronous_message_is_told),
        BENCH_TEST(the_sender_of_a_long_synchronous_message_is_told),
        BENCH_TEST(a_rendezvous_needs_no_software),
        BENCH_TEST(a_rendezvous_longer_than_the_buffer_fills_it),
        BENCH_TEST(a_rendezvous_longer_than_the_buffer_is_left_to_software),
        BENCH_TEST(a_short_rendezvous_needs_no_software),
        BENCH_TEST(an_empty_rendezvous_ends),
        BENCH_TEST(an_unexpected_rendezvous_is_passed_whole),
        BENCH_TEST(a_rendezvous_that_the_device_cannot_do_is_left_to_software),
        BENCH_TEST(other_packets_are_passed_and_not_counted),
        BENCH_TEST(a_held_message_meets_a_later_receive),
        BENCH_TEST(a_held_message_can_be_had_back_until_it_is_met),
        BENCH_TEST(a_lost_device_says_so_last_and_takes_nothing),
    };

    return cmocka_run_group_tests_name(bench_target->name, tests, NULL, NULL);
}
