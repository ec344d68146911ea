/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conformance_match.c - which receive a message meets: matching, the count of what was found
 * unexpected, taking receives back, the order of events.
 */
#include "device/conformance_bench.h"

#include <errno.h>
#include <string.h>

/* ---- configuration -------------------------------------------------------------------- */

static void a_device_has_some_room(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    assert_non_null(b.device->ops->name);
    assert_non_null(b.device->ops->about);
    assert_true(b.limits.list >= 1);
    assert_true(b.limits.commands >= b.commands);
    assert_true(b.limits.untagged >= 1);
    assert_true(b.limits.untagged_size > 0);
    assert_true(b.limits.eager_max >= 8);
    assert_true(b.limits.context_bits >= 1 && b.limits.source_bits >= 2);
    assert_true(b.limits.tag_bits >= 16);
    bench_close(&b);
}

static void configure_refuses_more_than_the_limits(void **state)
{
    struct mbx_device *device;
    struct mbx_device_limits most;
    void *world = bench_target->open(&device);

    (void)state;
    device->ops->limits(device, &most);
    assert_int_equal(device->ops->configure(device, most.list + 1, 2, 1), -EINVAL);
    assert_int_equal(device->ops->configure(device, 1, most.commands + 1, 1), -EINVAL);
    assert_int_equal(device->ops->configure(device, 1, 4, most.untagged + 1), -EINVAL);
    assert_int_equal(device->ops->configure(device, 1, 4, 1), 0);
    bench_target->close(world);
}

static void a_device_that_does_nothing_has_no_events(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    bench_is_silent(&b);
    bench_report(&b);
    bench_is_silent(&b);
    bench_close(&b);
}

/* ---- matching ------------------------------------------------------------------------- */

static void a_message_meets_a_receive(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    r = bench_post(&b, 0, 2, 7);
    bench_is_silent(&b);
    m = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_received(&b, &r, &m);
    bench_close(&b);
}

static void a_message_without_a_receive_is_unexpected(void **state)
{
    struct bench b;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    m = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_unexpected(&b, &m);
    bench_close(&b);
}

static void context_source_and_tag_all_count(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    r = bench_post(&b, 0, 2, 7);
    bench_run(&b);
    m = bench_send_short(&b, 2, 8); /* another tag */
    bench_poll(&b);
    bench_unexpected(&b, &m);
    m = bench_send_short(&b, 1, 7); /* another source */
    bench_poll(&b);
    bench_unexpected(&b, &m);
    m = bench_message(CONFORMANCE_EAGER, 2, 7, bench_text, 8);
    m.envelope.context_id = 0;
    bench_target->send(b.world, 2, &m);
    bench_poll(&b);
    bench_unexpected(&b, &m);
    m = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_received(&b, &r, &m);
    bench_close(&b);
}

static void the_oldest_receive_is_met(void **state)
{
    struct bench b;
    struct landing r[3];
    struct conformance_message m[3];

    (void)state;
    bench_open(&b);
    for (uint32_t i = 0; i < 3; i++)
        r[i] = bench_post(&b, (i + 1) % 3, 2, 7); /* handles say nothing about age */
    bench_run(&b);
    for (int i = 0; i < 3; i++)
        m[i] = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    for (int i = 0; i < 3; i++) {
        struct mbx_device_event event = bench_matched(&b, &r[i], &m[i]);

        if (!(event.flags & MBX_DEVICE_WHOLE))
            bench_take(&b, MBX_DEVICE_DATA_VALID);
        bench_has_landed(&r[i], &m[i]);
    }
    bench_close(&b);
}

static void a_receive_from_anybody_keeps_its_age(void **state)
{
    struct bench b;
    struct landing r[2];
    struct conformance_message m[2];

    (void)state;
    bench_open(&b);
    if (!bench_can(&b, MBX_DEVICE_ANY_SOURCE)) {
        bench_close(&b);
        skip();
    }
    r[0] = bench_post(&b, 0, MBX_DEVICE_ANY_SOURCE_ID, 7);
    r[1] = bench_post(&b, 1, 2, 7);
    bench_run(&b);
    for (int i = 0; i < 2; i++) {
        m[i] = bench_send_short(&b, 2, 7);
        bench_poll(&b);
        bench_received(&b, &r[i], &m[i]);
    }
    bench_close(&b);
}

/* A receive of tag 0x10 with these ignore bits; a message of tag 0x13. */
static void ignore_bits(unsigned caps, uint64_t ignore, bool fits)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    bench_open(&b);
    if (!bench_can(&b, caps)) {
        bench_close(&b);
        skip();
    }
    r = bench_landing(0, 2, 0x10, b.limits.eager_max);
    r.recv.ignore = ignore;
    bench_append(&b, &r);
    bench_run(&b);
    m = bench_send_short(&b, 2, 0x13);
    bench_poll(&b);
    if (fits) {
        bench_received(&b, &r, &m);
    } else {
        bench_unexpected(&b, &m);
        mem_free(r.bytes);
    }
    bench_close(&b);
}

static void all_ignore_bits_accept_any_tag(void **state)
{
    (void)state;
    ignore_bits(0, UINT64_MAX, true);
}

static void some_ignore_bits_accept_tags_that_differ_there(void **state)
{
    (void)state;
    ignore_bits(MBX_DEVICE_MASKS, 0x3, true);
}

static void bits_that_are_not_ignored_count(void **state)
{
    (void)state;
    ignore_bits(MBX_DEVICE_MASKS, 0x1, false);
}

static void bits_under_the_ignore_bits_do_not_count(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    if (!bench_can(&b, MBX_DEVICE_MASKS)) {
        bench_close(&b);
        skip();
    }
    r = bench_landing(0, 2, 0x1f, b.limits.eager_max); /* 0xf is ignored, and set */
    r.recv.ignore = 0xf;
    bench_append(&b, &r);
    bench_run(&b);
    m = bench_send_short(&b, 2, 0x10);
    bench_poll(&b);
    bench_received(&b, &r, &m);
    bench_close(&b);
}

/* ---- the count ------------------------------------------------------------------------ */

static void an_entry_waits_until_what_was_found_is_reported(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[3];

    (void)state;
    bench_open(&b);
    m[0] = bench_send_short(&b, 2, 7);
    bench_run(&b);
    r = bench_post(&b, 0, 2, 7); /* does not know of m[0] */
    bench_run(&b);
    m[1] = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_unexpected(&b, &m[0]);
    bench_unexpected(&b, &m[1]);
    bench_report(&b);
    m[2] = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_received(&b, &r, &m[2]);
    bench_close(&b);
}

static void a_report_that_is_late_again_activates_nothing(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[3];

    (void)state;
    bench_open(&b);
    m[0] = bench_send_short(&b, 2, 8);
    bench_poll(&b);
    bench_unexpected(&b, &m[0]);
    m[1] = bench_send_short(&b, 2, 8);
    bench_run(&b);
    r = bench_post(&b, 0, 2, 7); /* tells of m[0]; there is m[1] */
    bench_run(&b);
    m[2] = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_unexpected(&b, &m[1]);
    bench_unexpected(&b, &m[2]);
    bench_revoke(&b, 0);
    bench_poll(&b);
    bench_revoked(&b, &r, 0);
    bench_close(&b);
}

static void a_report_activates_all_in_their_order(void **state)
{
    struct bench b;
    struct landing r[3];
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    m = bench_send_short(&b, 2, 9);
    bench_run(&b);
    for (uint32_t i = 0; i < 3; i++)
        r[i] = bench_post(&b, 2 - i, 2, 7);
    bench_poll(&b);
    bench_unexpected(&b, &m);
    bench_report(&b);
    for (int i = 0; i < 3; i++) {
        m = bench_send_short(&b, 2, 7);
        bench_poll(&b);
        bench_received(&b, &r[i], &m);
    }
    bench_close(&b);
}

static void as_many_unreported_as_there_are_buffers_are_not_none(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[BENCH_UNTAGGED];

    (void)state;
    bench_open(&b);
    for (uint32_t n = 1; n < b.untagged; n++) {
        for (uint32_t i = 0; i < n; i++)
            m[i] = bench_send_short(&b, 2, 8);
        bench_run(&b);
        r = bench_post(&b, 0, 2, 7);
        bench_run(&b);
        m[n] = bench_send_short(&b, 2, 7);
        bench_poll(&b);
        for (uint32_t i = 0; i <= n; i++)
            bench_unexpected(&b, &m[i]);
        bench_revoke(&b, 0);
        bench_poll(&b);
        bench_revoked(&b, &r, 0);
    }
    bench_close(&b);
}

static void every_command_reports(void **state)
{
    struct bench b;
    struct landing r[3];
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    for (int with = 0; with < 2; with++) {
        m = bench_send_short(&b, 2, 9);
        bench_run(&b);
        r[0] = bench_post(&b, 0, 2, 7);
        r[1] = bench_post(&b, 1, 3, 9);
        bench_poll(&b);
        bench_unexpected(&b, &m);
        if (with == 0)
            r[2] = bench_post(&b, 2, 3, 9);
        else
            bench_revoke(&b, 2);
        bench_poll(&b);
        if (with == 1)
            bench_revoked(&b, &r[2], 0);
        m = bench_send_short(&b, 2, 7);
        bench_poll(&b);
        bench_received(&b, &r[0], &m);
        bench_revoke(&b, 1);
        bench_poll(&b);
        bench_revoked(&b, &r[1], 0);
    }
    bench_close(&b);
}

static void what_is_active_stays_active(void **state)
{
    struct bench b;
    struct landing r[2];
    struct conformance_message m[3];

    (void)state;
    bench_open(&b);
    r[0] = bench_post(&b, 0, 2, 7);
    bench_run(&b);
    m[0] = bench_send_short(&b, 2, 8);
    bench_run(&b);
    r[1] = bench_post(&b, 1, 2, 7); /* inactive, behind the active one */
    bench_run(&b);
    m[1] = bench_send_short(&b, 2, 7);
    m[2] = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_unexpected(&b, &m[0]);
    bench_received(&b, &r[0], &m[1]);
    bench_unexpected(&b, &m[2]);
    bench_revoke(&b, 1);
    bench_poll(&b);
    bench_revoked(&b, &r[1], 0);
    bench_close(&b);
}

static void the_count_has_sixteen_bits(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[BENCH_UNTAGGED];

    (void)state;
    bench_open(&b);
    for (uint32_t left = 65536 + 3; left > 0;) {
        uint32_t n = (uint32_t)min_size(left, b.untagged);

        for (uint32_t i = 0; i < n; i++)
            m[i] = bench_send_short(&b, 2, 7);
        bench_poll(&b);
        for (uint32_t i = 0; i < n; i++)
            bench_unexpected(&b, &m[i]);
        left -= n;
    }
    r = bench_post(&b, 0, 2, 7);
    bench_run(&b);
    m[0] = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_received(&b, &r, &m[0]);
    bench_close(&b);
}

/* ---- taking back ---------------------------------------------------------------------- */

static void a_revoked_receive_is_not_met(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    r = bench_post(&b, 0, 2, 7);
    bench_run(&b);
    bench_revoke(&b, 0);
    bench_poll(&b);
    bench_revoked(&b, &r, 0);
    m = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_unexpected(&b, &m);
    bench_close(&b);
}

static void revoking_one_leaves_the_others(void **state)
{
    struct bench b;
    struct landing r[3];
    struct conformance_message m[2];

    (void)state;
    bench_open(&b);
    for (uint32_t i = 0; i < 3; i++)
        r[i] = bench_post(&b, i, 2, 7);
    bench_revoke(&b, 1);
    bench_poll(&b);
    bench_revoked(&b, &r[1], 0);
    for (int i = 0; i < 2; i++) {
        m[i] = bench_send_short(&b, 2, 7);
        bench_poll(&b);
        bench_received(&b, &r[2 * i], &m[i]);
    }
    bench_close(&b);
}

static void an_inactive_receive_can_be_revoked(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m[2];

    (void)state;
    bench_open(&b);
    m[0] = bench_send_short(&b, 2, 8);
    bench_run(&b);
    r = bench_post(&b, 0, 2, 7);
    bench_revoke(&b, 0);
    bench_poll(&b);
    bench_unexpected(&b, &m[0]);
    bench_revoked(&b, &r, 0);
    bench_report(&b);
    m[1] = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_unexpected(&b, &m[1]);
    bench_close(&b);
}

static void a_revoke_that_comes_too_late_says_so_behind_the_match(void **state)
{
    struct bench b;
    struct landing r;
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    r = bench_post(&b, 0, 2, 7);
    bench_run(&b);
    m = bench_send_short(&b, 2, 7);
    bench_run(&b);
    bench_revoke(&b, 0);
    bench_poll(&b);
    {
        struct landing kept = r; /* bench_received() frees the bytes */

        bench_received(&b, &r, &m);
        bench_revoked(&b, &kept, -ENOENT);
    }
    bench_close(&b);
}

static void take_back_leaves_no_entry(void **state)
{
    struct bench b;
    struct landing r[4];
    struct conformance_message m;

    (void)state;
    bench_open(&b);
    for (uint32_t i = 0; i < 3; i++)
        r[i] = bench_post(&b, i, 2, 7 + i);
    bench_run(&b);
    assert_int_equal(b.device->ops->take_back(b.device, b.handled), 0);
    bench_poll(&b);
    bench_next(&b, MBX_DEVICE_REVOKED_ALL);
    m = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_unexpected(&b, &m);
    r[3] = bench_post(&b, 0, 2, 7); /* the handles are free */
    bench_run(&b);
    m = bench_send_short(&b, 2, 7);
    bench_poll(&b);
    bench_received(&b, &r[3], &m);
    for (int i = 0; i < 3; i++)
        mem_free(r[i].bytes);
    bench_close(&b);
}

/* ---- order ---------------------------------------------------------------------------- */

static void events_come_in_the_order_of_what_was_done(void **state)
{
    struct bench b;
    struct landing r[2];
    struct conformance_message m[3];

    (void)state;
    bench_open(&b);
    r[0] = bench_post(&b, 0, 2, 7);
    r[1] = bench_post(&b, 1, 2, 9);
    bench_run(&b);
    m[0] = bench_send_short(&b, 2, 8);
    bench_run(&b);
    m[1] = bench_send_short(&b, 2, 7);
    bench_run(&b);
    bench_revoke(&b, 1);
    bench_run(&b);
    m[2] = bench_send_short(&b, 2, 9);
    bench_poll(&b);
    bench_unexpected(&b, &m[0]);
    bench_received(&b, &r[0], &m[1]);
    bench_revoked(&b, &r[1], 0);
    bench_unexpected(&b, &m[2]);
    bench_close(&b);
}

static void poll_gives_no_more_than_it_is_asked_for(void **state)
{
    struct bench b;
    struct conformance_message m[2];

    (void)state;
    bench_open(&b);
    for (int i = 0; i < 2; i++)
        m[i] = bench_send_short(&b, 2, 7);
    bench_run(&b);
    assert_int_equal(b.device->ops->poll(b.device, b.events, 0), 0);
    assert_int_equal(b.device->ops->poll(b.device, &b.events[0], 1), 1);
    assert_int_equal(b.device->ops->poll(b.device, &b.events[1], 1), 1);
    b.count = 2;
    for (int i = 0; i < 2; i++)
        bench_unexpected(&b, &m[i]);
    bench_close(&b);
}

int conformance_match(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_has_some_room),
        cmocka_unit_test(configure_refuses_more_than_the_limits),
        cmocka_unit_test(a_device_that_does_nothing_has_no_events),
        cmocka_unit_test(a_message_meets_a_receive),
        cmocka_unit_test(a_message_without_a_receive_is_unexpected),
        cmocka_unit_test(context_source_and_tag_all_count),
        cmocka_unit_test(the_oldest_receive_is_met),
        cmocka_unit_test(a_receive_from_anybody_keeps_its_age),
        cmocka_unit_test(all_ignore_bits_accept_any_tag),
        cmocka_unit_test(some_ignore_bits_accept_tags_that_differ_there),
        cmocka_unit_test(bits_that_are_not_ignored_count),
        cmocka_unit_test(bits_under_the_ignore_bits_do_not_count),
        cmocka_unit_test(an_entry_waits_until_what_was_found_is_reported),
        cmocka_unit_test(a_report_that_is_late_again_activates_nothing),
        cmocka_unit_test(a_report_activates_all_in_their_order),
        cmocka_unit_test(as_many_unreported_as_there_are_buffers_are_not_none),
        cmocka_unit_test(every_command_reports),
        cmocka_unit_test(what_is_active_stays_active),
        cmocka_unit_test(the_count_has_sixteen_bits),
        cmocka_unit_test(a_revoked_receive_is_not_met),
        cmocka_unit_test(revoking_one_leaves_the_others),
        cmocka_unit_test(an_inactive_receive_can_be_revoked),
        cmocka_unit_test(a_revoke_that_comes_too_late_says_so_behind_the_match),
        cmocka_unit_test(take_back_leaves_no_entry),
        cmocka_unit_test(events_come_in_the_order_of_what_was_done),
        cmocka_unit_test(poll_gives_no_more_than_it_is_asked_for),
    };

    return cmocka_run_group_tests_name(bench_target->name, tests, NULL, NULL);
}
