/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm_unit_test.c - the rules of device.h, one by one, in the software device's state machine.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/unit.h"
#include "device/soft/tm_unit.h"

#define LIST 64

struct bench {
    struct tm_unit unit;
    struct mbx_device_event events[4 * LIST];
    int count, seen;
    uint16_t handled; /* the next command reports this */
};

static void collect(void *arg, const struct mbx_device_event *event)
{
    struct bench *b = arg;

    b->events[b->count++] = *event;
}

static void bench_open(struct bench *b, uint32_t counter_bits)
{
    *b = (struct bench){0};
    assert_int_equal(tm_init(&b->unit, &(struct tm_config){.list = LIST,
                                                           .counter_bits = counter_bits,
                                                           .emit = collect,
                                                           .arg = b}),
                     0);
}

static void bench_close(struct bench *b)
{
    assert_int_equal(b->seen, b->count); /* no unexpected events */
    assert_true(tm_is_valid(&b->unit));
    tm_fini(&b->unit);
}

static int command(struct bench *b, enum tm_command_type type, uint32_t handle, uint64_t tag)
{
    int err = tm_command(&b->unit, &(struct tm_command){.type = (uint8_t)type,
                                                        .handled = b->handled,
                                                        .handle = handle,
                                                        .envelope = {1, 2, tag}});

    assert_true(tm_is_valid(&b->unit));
    return err;
}

static void append(struct bench *b, uint32_t handle, uint64_t tag)
{
    assert_int_equal(command(b, TM_APPEND, handle, tag), 0);
}

static void done(struct bench *b, enum tm_command_type type, uint32_t handle, uint64_t tag)
{
    assert_int_equal(command(b, type, handle, tag), 0);
}

/* A message arrives: returns the handle that it met, or -1 if software gets it. */
static int arrive(struct bench *b, uint64_t tag)
{
    struct tm_entry *entry = tm_match(&b->unit, &(struct mbx_device_envelope){1, 2, tag});

    if (entry == NULL)
        tm_found(&b->unit);
    assert_true(tm_is_valid(&b->unit));
    return entry == NULL ? -1 : (int)tm_handle(&b->unit, entry);
}

static void event_is(struct bench *b, enum mbx_device_event_type type, uint32_t handle,
                     int error)
{
    assert_true(b->seen < b->count);
    assert_int_equal(b->events[b->seen].type, type);
    assert_int_equal(b->events[b->seen].handle, handle);
    assert_int_equal(b->events[b->seen].error, error);
    b->seen++;
}

/* ---- entries ---- */

static void an_entry_is_active_when_nothing_is_unreported(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    append(&b, 3, 7);
    assert_int_equal(arrive(&b, 8), -1);
    assert_int_equal(arrive(&b, 7), 3);
    bench_close(&b);
}

static void an_entry_is_inactive_while_a_message_is_unreported(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    arrive(&b, 7);
    append(&b, 0, 7);
    assert_int_equal(arrive(&b, 7), -1);
    b.handled = 1; /* of two messages */
    done(&b, TM_SYNC, 0, 0);
    assert_int_equal(arrive(&b, 7), -1);
    b.handled = 3;
    done(&b, TM_SYNC, 0, 0);
    assert_int_equal(arrive(&b, 7), 0);
    bench_close(&b);
}

static void the_oldest_active_entry_is_met(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    append(&b, 2, 7);
    append(&b, 0, 7);
    append(&b, 1, 7);
    assert_int_equal(arrive(&b, 7), 2);
    assert_int_equal(arrive(&b, 7), 0);
    assert_int_equal(arrive(&b, 7), 1);
    bench_close(&b);
}

static void entries_become_active_in_their_order(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    arrive(&b, 9);
    append(&b, 2, 7);
    append(&b, 0, 7);
    append(&b, 1, 7);
    b.handled = 1;
    done(&b, TM_SYNC, 0, 0);
    assert_int_equal(arrive(&b, 7), 2);
    assert_int_equal(arrive(&b, 7), 0);
    assert_int_equal(arrive(&b, 7), 1);
    bench_close(&b);
}

static void active_entries_stay_active_before_those_that_are_not(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    append(&b, 0, 7);
    arrive(&b, 9);
    append(&b, 1, 7);
    assert_int_equal(arrive(&b, 7), 0);
    assert_int_equal(arrive(&b, 7), -1);
    bench_close(&b);
}

static void an_append_reports_for_itself(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    arrive(&b, 7);
    b.handled = 1;
    append(&b, 0, 7);
    assert_int_equal(arrive(&b, 7), 0);
    bench_close(&b);
}

/* Any command that reports the count makes a waiting entry active. */
static void reports(enum tm_command_type type, enum mbx_device_event_type answer, int error)
{
    struct bench b;

    bench_open(&b, 0);
    arrive(&b, 7);
    append(&b, 0, 7);
    b.handled = 1;
    done(&b, type, 5, 9);
    if (answer != 0)
        event_is(&b, answer, 5, error);
    assert_int_equal(arrive(&b, 7), 0);
    bench_close(&b);
}

static void a_sync_reports(UNUSED void **state)
{
    reports(TM_SYNC, 0, 0);
}

static void a_revoke_reports(UNUSED void **state)
{
    reports(TM_REVOKE, MBX_DEVICE_REVOKED, -ENOENT);
}

static void a_hold_reports(UNUSED void **state)
{
    reports(TM_HOLD, 0, 0);
}

static void an_unhold_reports(UNUSED void **state)
{
    reports(TM_UNHOLD, MBX_DEVICE_UNHELD, -ENOENT);
}

static void the_count_has_the_width_that_was_asked_for(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 2);
    for (int i = 0; i < 3; i++)
        arrive(&b, 9);
    append(&b, 0, 7);
    assert_int_equal(arrive(&b, 7), -1); /* 3 are not 0 */
    b.handled = 4;
    done(&b, TM_SYNC, 0, 0);
    assert_int_equal(arrive(&b, 7), 0);
    arrive(&b, 9);
    for (int i = 0; i < 3; i++)
        arrive(&b, 9);
    append(&b, 1, 7);
    assert_int_equal(arrive(&b, 7), 1); /* 8 look like 4, which callers must avoid */
    bench_close(&b);
}

static void the_count_has_sixteen_bits(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    for (int i = 0; i < 65535; i++)
        tm_found(&b.unit);
    append(&b, 0, 7);
    assert_int_equal(arrive(&b, 7), -1);
    append(&b, 1, 8);
    assert_int_equal(arrive(&b, 7), 0); /* the 65,536th was the one above */
    bench_close(&b);
}

static void without_memory_entries_are_active_all_the_same(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    for (uint32_t i = 0; i < LIST; i++)
        append(&b, i, i);
    assert_true(list_is_empty(&b.unit.inactive));
    mem_fail_at(1);
    for (int i = LIST; i-- > 0;) /* in reverse order: the engine needs tables */
        assert_int_equal(arrive(&b, (uint64_t)i), i);
    assert_int_equal(mem_fail_left(), 0);
    mem_fail_at(0);
    bench_close(&b);
}

/* ---- taking back ---- */

static void an_active_entry_can_be_revoked(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    append(&b, 0, 7);
    append(&b, 1, 7);
    done(&b, TM_REVOKE, 0, 0);
    event_is(&b, MBX_DEVICE_REVOKED, 0, 0);
    assert_int_equal(arrive(&b, 7), 1);
    bench_close(&b);
}

static void an_inactive_entry_can_be_revoked(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    arrive(&b, 9);
    append(&b, 0, 7);
    append(&b, 1, 7);
    done(&b, TM_REVOKE, 0, 0);
    event_is(&b, MBX_DEVICE_REVOKED, 0, 0);
    b.handled = 1;
    done(&b, TM_SYNC, 0, 0);
    assert_int_equal(arrive(&b, 7), 1);
    bench_close(&b);
}

static void a_matched_entry_cannot_be_revoked(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    append(&b, 0, 7);
    arrive(&b, 7);
    done(&b, TM_REVOKE, 0, 0);
    event_is(&b, MBX_DEVICE_REVOKED, 0, -ENOENT);
    tm_release(&b.unit, &b.unit.entries[0]);
    done(&b, TM_REVOKE, 0, 0);
    event_is(&b, MBX_DEVICE_REVOKED, 0, -ENOENT);
    bench_close(&b);
}

/* ---- invalid commands ---- */

static void refuses(enum tm_command_type type, uint32_t handle)
{
    struct bench b;

    bench_open(&b, 0);
    append(&b, 1, 8);
    arrive(&b, 7);
    append(&b, 2, 7);
    b.handled = 1;
    assert_int_equal(command(&b, type, handle, 7), -EPROTO);
    assert_int_equal(arrive(&b, 7), -1); /* the command did not report the count either */
    assert_int_equal(arrive(&b, 8), 1);
    bench_close(&b);
}

static void a_handle_beyond_the_list_is_refused(UNUSED void **state)
{
    refuses(TM_APPEND, LIST);
    refuses(TM_REVOKE, LIST);
    refuses(TM_HOLD, LIST);
    refuses(TM_UNHOLD, LIST);
}

static void a_handle_in_use_is_refused(UNUSED void **state)
{
    refuses(TM_APPEND, 1); /* active */
    refuses(TM_APPEND, 2); /* inactive */
}

static void an_unknown_command_is_refused(UNUSED void **state)
{
    refuses(TM_COMMANDS, 0);
    refuses((enum tm_command_type)0, 0);
}

static void a_matched_handle_is_in_use_until_it_is_released(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    append(&b, 0, 7);
    arrive(&b, 7);
    assert_int_equal(command(&b, TM_APPEND, 0, 7), -EPROTO);
    tm_release(&b.unit, &b.unit.entries[0]);
    append(&b, 0, 7);
    assert_int_equal(arrive(&b, 7), 0);
    bench_close(&b);
}

static void a_device_without_memory_is_not_made(UNUSED void **state)
{
    struct tm_unit unit;
    uint64_t live = mem_live();

    for (uint64_t n = 1; n <= 2; n++) {
        mem_fail_at(n);
        assert_int_equal(tm_init(&unit, &(struct tm_config){.list = LIST}), -ENOMEM);
        assert_int_equal(mem_fail_left(), 0);
        assert_int_equal(mem_live(), live);
    }
}

/* ---- held messages ---- */

static void a_held_message_meets_the_next_entry(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    done(&b, TM_HOLD, 5, 7);
    done(&b, TM_HOLD, 4, 7);
    append(&b, 0, 7);
    assert_int_equal(b.events[0].message, 5); /* the older one */
    assert_true(b.events[0].flags & MBX_DEVICE_HELD);
    event_is(&b, MBX_DEVICE_MATCHED, 0, 0);
    append(&b, 1, 7);
    assert_int_equal(b.events[1].message, 4);
    event_is(&b, MBX_DEVICE_MATCHED, 1, 0);
    done(&b, TM_HOLD, 5, 9); /* its number is free */
    append(&b, 0, 7);        /* both entries are free */
    assert_int_equal(arrive(&b, 7), 0);
    bench_close(&b);
}

static void a_held_message_waits_while_the_entry_is_inactive(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    done(&b, TM_HOLD, 5, 7);
    arrive(&b, 9);
    append(&b, 0, 7);
    assert_int_equal(b.count, 0);
    b.handled = 1;
    done(&b, TM_SYNC, 0, 0);
    event_is(&b, MBX_DEVICE_MATCHED, 0, 0);
    bench_close(&b);
}

static void a_held_message_can_be_had_back_once(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    done(&b, TM_HOLD, 5, 7);
    assert_int_equal(command(&b, TM_HOLD, 5, 7), -EPROTO);
    done(&b, TM_UNHOLD, 5, 0);
    event_is(&b, MBX_DEVICE_UNHELD, 5, 0);
    done(&b, TM_UNHOLD, 5, 0);
    event_is(&b, MBX_DEVICE_UNHELD, 5, -ENOENT);
    append(&b, 0, 7);
    assert_int_equal(arrive(&b, 7), 0);
    bench_close(&b);
}

static void a_held_message_that_was_met_cannot_be_had_back(UNUSED void **state)
{
    struct bench b;

    bench_open(&b, 0);
    done(&b, TM_HOLD, 5, 7);
    append(&b, 0, 7);
    event_is(&b, MBX_DEVICE_MATCHED, 0, 0);
    done(&b, TM_UNHOLD, 5, 0);
    event_is(&b, MBX_DEVICE_UNHELD, 5, -ENOENT);
    done(&b, TM_HOLD, 5, 8); /* its number is free */
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_is_active_when_nothing_is_unreported),
        cmocka_unit_test(an_entry_is_inactive_while_a_message_is_unreported),
        cmocka_unit_test(the_oldest_active_entry_is_met),
        cmocka_unit_test(entries_become_active_in_their_order),
        cmocka_unit_test(active_entries_stay_active_before_those_that_are_not),
        cmocka_unit_test(an_append_reports_for_itself),
        cmocka_unit_test(a_sync_reports),
        cmocka_unit_test(a_revoke_reports),
        cmocka_unit_test(a_hold_reports),
        cmocka_unit_test(an_unhold_reports),
        cmocka_unit_test(the_count_has_the_width_that_was_asked_for),
        cmocka_unit_test(the_count_has_sixteen_bits),
        cmocka_unit_test(without_memory_entries_are_active_all_the_same),
        cmocka_unit_test(an_active_entry_can_be_revoked),
        cmocka_unit_test(an_inactive_entry_can_be_revoked),
        cmocka_unit_test(a_matched_entry_cannot_be_revoked),
        cmocka_unit_test(a_handle_beyond_the_list_is_refused),
        cmocka_unit_test(a_handle_in_use_is_refused),
        cmocka_unit_test(an_unknown_command_is_refused),
        cmocka_unit_test(a_matched_handle_is_in_use_until_it_is_released),
        cmocka_unit_test(a_device_without_memory_is_not_made),
        cmocka_unit_test(a_held_message_meets_the_next_entry),
        cmocka_unit_test(a_held_message_waits_while_the_entry_is_inactive),
        cmocka_unit_test(a_held_message_can_be_had_back_once),
        cmocka_unit_test(a_held_message_that_was_met_cannot_be_had_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
