/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conformance_match.c - which receive a message matches: matching, the count of unexpected
 * messages, taking receives back, the order of events.
 */
#include "testing/device/conformance_bench.h"

#include <errno.h>
#include <string.h>

/* ---- configuration -------------------------------------------------------------------- */

static void a_device_has_some_space(void **state)
{
    const struct bench *b = *state;

    assert_non_null(b->device->ops->name);
    assert_non_null(b->device->ops->about);
    assert_true(b->limits.list >= 1);
    assert_true(b->limits.commands >= b->commands);
    assert_true(b->limits.untagged >= 1);
    assert_true(b->limits.untagged_size > 0);
    assert_true(b->limits.eager_max >= 8);
    assert_true(b->limits.context_bits >= 1 && b->limits.source_bits >= 2);
    assert_int_equal(b->limits.tag_mask & 0xffff, 0xffff);
}

static void configure_refuses_more_than_the_limits(UNUSED void **state)
{
    struct mbx_device *device;
    struct mbx_device_limits most;
    void *instance = bench_target->open(&device);

    device->ops->limits(device, &most);
    assert_int_equal(device->ops->configure(device, most.list + 1, 2, 1), -EINVAL);
    assert_int_equal(device->ops->configure(device, 1, most.commands + 1, 1), -EINVAL);
    assert_int_equal(device->ops->configure(device, 1, 4, most.untagged + 1), -EINVAL);
    if (most.untagged_min > 1)
        assert_int_equal(device->ops->configure(device, 1, 4, most.untagged_min - 1), -EINVAL);
    assert_int_equal(
        device->ops->configure(device, 1, 4, (uint32_t)max_size(most.untagged_min, 1)), 0);
    bench_target->close(instance);
}

static void a_device_that_does_nothing_has_no_events(void **state)
{
    struct bench *b = *state;

    bench_is_silent(b);
    bench_report(b);
    bench_is_silent(b);
}

/* ---- matching ------------------------------------------------------------------------- */

static void a_message_meets_a_receive(void **state)
{
    struct bench *b = *state;
    struct landing r = bench_post(b, 0, 2, 7);

    bench_is_silent(b);
    bench_meets(b, &r, 2, 7);
}

static void a_message_without_a_receive_is_unexpected(void **state)
{
    bench_misses(*state, 2, 7);
}

static void context_source_and_tag_all_count(void **state)
{
    struct bench *b = *state;
    struct landing r = bench_place(b, 0, 2, 7);
    struct conformance_message m;

    bench_misses(b, 2, 8); /* another tag */
    bench_misses(b, 1, 7); /* another source */
    m = bench_message(CONFORMANCE_EAGER, 2, 7, bench_bytes, 8);
    m.envelope.context_id = 0;
    bench_target->send(b->instance, 2, &m);
    bench_poll(b);
    bench_unexpected(b, &m);
    bench_meets(b, &r, 2, 7);
}

/* Uses the whole list at once. */
static void the_oldest_receive_is_met(void **state)
{
    struct bench *b = *state;
    struct landing *r;
    struct conformance_message *m;

    bench_needs_list(b, 2);
    r = mem_calloc(b->list, sizeof *r);
    m = mem_calloc(b->list, sizeof *m);
    assert_true(r != NULL && m != NULL);
    for (uint32_t i = 0; i < b->list; i++)
        r[i] = bench_post(b, b->list - 1 - i, 2, 7); /* handles do not show the age */
    bench_run(b);
    for (uint32_t i = 0; i < b->list; i++)
        m[i] = bench_send_short(b, 2, 7);
    bench_poll(b);
    for (uint32_t i = 0; i < b->list; i++)
        bench_received(b, &r[i], &m[i]);
    mem_free(r);
    mem_free(m);
}

static void a_receive_from_anybody_keeps_its_age(void **state)
{
    struct bench *b = *state;
    struct landing r[2];

    bench_needs(b, MBX_DEVICE_ANY_SOURCE);
    bench_needs_list(b, 2);
    r[0] = bench_post(b, 0, MBX_DEVICE_ANY_SOURCE_ID, 7);
    r[1] = bench_place(b, 1, 2, 7);
    for (int i = 0; i < 2; i++)
        bench_meets(b, &r[i], 2, 7);
}

/* Posts a receive of this tag with these ignore bits, and sends a message that it accepts or
 * not. */
static void ignore_bits(struct bench *b, uint64_t wanted, uint64_t ignore, uint64_t tag,
                        bool fits)
{
    struct landing r = bench_landing(0, 2, wanted, b->limits.eager_max);

    r.recv.ignore = ignore;
    bench_append(b, &r);
    bench_run(b);
    if (fits) {
        bench_meets(b, &r, 2, tag);
    } else {
        bench_misses(b, 2, tag);
        mem_free(r.bytes);
    }
}

static void all_ignore_bits_accept_any_tag(void **state)
{
    ignore_bits(*state, 0x10, UINT64_MAX, 0x13, true);
}

static void some_ignore_bits_accept_tags_that_differ_there(void **state)
{
    bench_needs(*state, MBX_DEVICE_MASKS);
    ignore_bits(*state, 0x10, 0x3, 0x13, true);
}

static void bits_that_are_not_ignored_count(void **state)
{
    bench_needs(*state, MBX_DEVICE_MASKS);
    ignore_bits(*state, 0x10, 0x1, 0x13, false);
}

static void bits_under_the_ignore_bits_do_not_count(void **state)
{
    bench_needs(*state, MBX_DEVICE_MASKS);
    ignore_bits(*state, 0x1f, 0xf, 0x10, true); /* 0xf is ignored, and set in the tag */
}

/* ---- the count ------------------------------------------------------------------------ */

static void an_entry_waits_until_what_was_found_is_reported(void **state)
{
    struct bench *b = *state;
    struct landing r;
    struct conformance_message m[2];

    m[0] = bench_send_short(b, 2, 7);
    bench_run(b);
    r = bench_place(b, 0, 2, 7); /* was posted before m[0] was handled */
    m[1] = bench_send_short(b, 2, 7);
    bench_poll(b);
    bench_unexpected(b, &m[0]);
    bench_unexpected(b, &m[1]);
    bench_report(b);
    bench_meets(b, &r, 2, 7);
}

static void a_report_that_is_late_again_activates_nothing(void **state)
{
    struct bench *b = *state;
    struct landing r;
    struct conformance_message m[2];

    bench_misses(b, 2, 8);
    m[0] = bench_send_short(b, 2, 8);
    bench_run(b);
    r = bench_place(b, 0, 2, 7); /* reports only the first; m[0] is unreported */
    m[1] = bench_send_short(b, 2, 7);
    bench_poll(b);
    bench_unexpected(b, &m[0]);
    bench_unexpected(b, &m[1]);
    bench_withdraws(b, &r);
}

static void a_report_activates_all_in_their_order(void **state)
{
    struct bench *b = *state;
    uint32_t n = (uint32_t)min_size(3, b->list);
    struct landing r[3];
    struct conformance_message m = bench_send_short(b, 2, 9);

    bench_run(b);
    for (uint32_t i = 0; i < n; i++)
        r[i] = bench_post(b, n - 1 - i, 2, 7);
    bench_poll(b);
    bench_unexpected(b, &m);
    bench_report(b);
    for (uint32_t i = 0; i < n; i++)
        bench_meets(b, &r[i], 2, 7);
}

static void as_many_unreported_as_there_are_buffers_are_not_none(void **state)
{
    struct bench *b = *state;
    struct landing r;
    struct conformance_message m[BENCH_MANY];

    for (uint32_t n = 1; n < b->untagged; n++) {
        for (uint32_t i = 0; i < n; i++)
            m[i] = bench_send_short(b, 2, 8);
        bench_run(b);
        r = bench_place(b, 0, 2, 7);
        m[n] = bench_send_short(b, 2, 7);
        bench_poll(b);
        for (uint32_t i = 0; i <= n; i++)
            bench_unexpected(b, &m[i]);
        bench_withdraws(b, &r);
    }
}

static void every_command_reports(void **state)
{
    struct bench *b = *state;
    struct landing r, other;
    struct conformance_message m;

    bench_needs_list(b, 2);
    for (int with = 0; with < 2; with++) {
        m = bench_send_short(b, 2, 9);
        bench_run(b);
        r = bench_post(b, 0, 2, 7);
        bench_poll(b);
        bench_unexpected(b, &m);
        if (with == 0)
            other = bench_place(b, 1, 3, 9);
        else
            bench_withdraws(b, &other);
        bench_meets(b, &r, 2, 7);
    }
}

static void what_is_active_stays_active(void **state)
{
    struct bench *b = *state;
    struct landing r[2];
    struct conformance_message m[3];

    bench_needs_list(b, 2);
    r[0] = bench_place(b, 0, 2, 7);
    m[0] = bench_send_short(b, 2, 8);
    bench_run(b);
    r[1] = bench_place(b, 1, 2, 7); /* inactive, after the active one */
    m[1] = bench_send_short(b, 2, 7);
    m[2] = bench_send_short(b, 2, 7);
    bench_poll(b);
    bench_unexpected(b, &m[0]);
    bench_received(b, &r[0], &m[1]);
    bench_unexpected(b, &m[2]);
    bench_withdraws(b, &r[1]);
}

static void the_count_has_sixteen_bits(void **state)
{
    struct bench *b = *state;
    struct conformance_message m[BENCH_MANY];
    struct landing r;

    bench_needs_time();
    for (uint32_t left = 65536 + 3; left > 0;) {
        uint32_t n = (uint32_t)min_size(left, b->untagged);

        for (uint32_t i = 0; i < n; i++)
            m[i] = bench_send_short(b, 2, 7);
        bench_poll(b);
        for (uint32_t i = 0; i < n; i++)
            bench_unexpected(b, &m[i]);
        left -= n;
    }
    r = bench_place(b, 0, 2, 7);
    bench_meets(b, &r, 2, 7);
}

/* ---- taking back ---------------------------------------------------------------------- */

static void a_revoked_receive_is_not_met(void **state)
{
    struct bench *b = *state;
    struct landing r = bench_place(b, 0, 2, 7);

    bench_withdraws(b, &r);
    bench_misses(b, 2, 7);
}

static void revoking_one_leaves_the_others(void **state)
{
    struct bench *b = *state;
    uint32_t n = (uint32_t)min_size(3, b->list);
    struct landing r[3];

    bench_needs_list(b, 2);
    for (uint32_t i = 0; i < n; i++)
        r[i] = bench_post(b, i, 2, 7);
    bench_withdraws(b, &r[1]);
    for (uint32_t i = 0; i < n; i += 2)
        bench_meets(b, &r[i], 2, 7);
}

static void an_inactive_receive_can_be_revoked(void **state)
{
    struct bench *b = *state;
    struct landing r;
    struct conformance_message m = bench_send_short(b, 2, 8);

    bench_run(b);
    r = bench_post(b, 0, 2, 7);
    bench_revoke(b, 0);
    bench_poll(b);
    bench_unexpected(b, &m);
    bench_revoked(b, &r, 0);
    bench_report(b);
    bench_misses(b, 2, 7);
}

static void a_revoke_that_comes_too_late_says_so_after_the_match(void **state)
{
    struct bench *b = *state;
    struct landing r = bench_place(b, 0, 2, 7);
    struct landing kept = r; /* bench_received() frees the bytes */
    struct conformance_message m = bench_send_short(b, 2, 7);

    bench_run(b);
    bench_revoke(b, 0);
    bench_poll(b);
    bench_received(b, &r, &m);
    bench_revoked(b, &kept, -ENOENT);
}

static void revoking_all_leaves_no_entry(void **state)
{
    struct bench *b = *state;
    uint32_t n = (uint32_t)min_size(3, b->list);
    struct landing r[3], again;

    for (uint32_t i = 0; i < n; i++)
        r[i] = bench_post(b, i, 2, 7 + i);
    bench_run(b);
    for (uint32_t i = n; i-- > 0;)
        bench_revoke(b, i);
    bench_poll(b);
    for (uint32_t i = n; i-- > 0;)
        bench_revoked(b, &r[i], 0);
    bench_misses(b, 2, 7);
    again = bench_place(b, 0, 2, 7); /* the handles are free */
    bench_meets(b, &again, 2, 7);
}

/* ---- order ---------------------------------------------------------------------------- */

static void events_come_in_the_order_of_what_was_done(void **state)
{
    struct bench *b = *state;
    struct landing r[2];
    struct conformance_message m[3];

    bench_needs_list(b, 2);
    r[0] = bench_post(b, 0, 2, 7);
    r[1] = bench_place(b, 1, 2, 9);
    m[0] = bench_send_short(b, 2, 8);
    bench_run(b);
    m[1] = bench_send_short(b, 2, 7);
    bench_run(b);
    bench_revoke(b, 1);
    bench_run(b);
    m[2] = bench_send_short(b, 2, 9);
    bench_poll(b);
    bench_unexpected(b, &m[0]);
    bench_received(b, &r[0], &m[1]);
    bench_revoked(b, &r[1], 0);
    bench_unexpected(b, &m[2]);
}

static void poll_gives_no_more_than_it_is_asked_for(void **state)
{
    struct bench *b = *state;
    struct conformance_message m[2];

    for (int i = 0; i < 2; i++)
        m[i] = bench_send_short(b, 2, 7);
    bench_run(b);
    assert_int_equal(b->device->ops->poll(b->device, b->events, 0), 0);
    assert_int_equal(b->device->ops->poll(b->device, &b->events[0], 1), 1);
    assert_int_equal(b->device->ops->poll(b->device, &b->events[1], 1), 1);
    b->count = 2;
    for (int i = 0; i < 2; i++)
        bench_unexpected(b, &m[i]);
}

int conformance_match(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_device_has_some_space),
        cmocka_unit_test(configure_refuses_more_than_the_limits),
        BENCH_TEST(a_device_that_does_nothing_has_no_events),
        BENCH_TEST(a_message_meets_a_receive),
        BENCH_TEST(a_message_without_a_receive_is_unexpected),
        BENCH_TEST(context_source_and_tag_all_count),
        BENCH_TEST(the_oldest_receive_is_met),
        BENCH_TEST(a_receive_from_anybody_keeps_its_age),
        BENCH_TEST(all_ignore_bits_accept_any_tag),
        BENCH_TEST(some_ignore_bits_accept_tags_that_differ_there),
        BENCH_TEST(bits_that_are_not_ignored_count),
        BENCH_TEST(bits_under_the_ignore_bits_do_not_count),
        BENCH_TEST(an_entry_waits_until_what_was_found_is_reported),
        BENCH_TEST(a_report_that_is_late_again_activates_nothing),
        BENCH_TEST(a_report_activates_all_in_their_order),
        BENCH_TEST(as_many_unreported_as_there_are_buffers_are_not_none),
        BENCH_TEST(every_command_reports),
        BENCH_TEST(what_is_active_stays_active),
        cmocka_unit_test_setup_teardown(the_count_has_sixteen_bits, bench_set_up_many,
                                        bench_tear_down),
        BENCH_TEST(a_revoked_receive_is_not_met),
        BENCH_TEST(revoking_one_leaves_the_others),
        BENCH_TEST(an_inactive_receive_can_be_revoked),
        BENCH_TEST(a_revoke_that_comes_too_late_says_so_after_the_match),
        BENCH_TEST(revoking_all_leaves_no_entry),
        BENCH_TEST(events_come_in_the_order_of_what_was_done),
        BENCH_TEST(poll_gives_no_more_than_it_is_asked_for),
    };

    return cmocka_run_group_tests_name(bench_target->name, tests, NULL, NULL);
}
