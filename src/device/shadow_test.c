/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shadow_test.c - the rules of shadow.h, one by one, over a device that is worked by hand.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "device/hand.h"
#include "device/shadow.h"

#define RECVS   24
#define ANY_TAG UINT64_MAX

enum outcome { NONE, MATCHED, VALID, INCOMPLETE, LOST, REVOKED, TAKEN };

struct posted {
    struct match_recv match;
    struct shadow_recv shadow;
    unsigned char buf[HAND_EAGER_MAX];
    enum outcome outcome; /* the last thing that was told */
    int told;             /* how often something was */
    int next;             /* posted as soon as this one is matched; 0: none */
    bool is_cancelled;
};

struct bench {
    struct hand hand;
    struct shadow shadow;
    struct match match;
    struct posted recvs[RECVS];
    struct match_msg msgs[RECVS];
    int kept;                /* messages without a receive */
    int offered;             /* calls of packet() */
    int refusals;            /* so many more are refused */
    uint16_t handled_within; /* what counted as handled when packet() was called last */
    int lost;
    int owed;
};

/* ---- an owner ---- */

static struct shadow_recv *post(struct bench *b, int i, uint32_t source, uint64_t tag);

static struct posted *tell(struct shadow_recv *shadow, enum outcome outcome)
{
    struct posted *recv = container_of(shadow, struct posted, shadow);

    recv->outcome = outcome;
    recv->told++;
    return recv;
}

static void on_matched(void *arg, struct shadow_recv *shadow,
                       const struct mbx_device_event *event)
{
    struct bench *b = arg;
    struct posted *recv = tell(shadow, MATCHED);

    (void)event;
    assert_int_equal(match_cancel(&b->match, &recv->match), !recv->is_cancelled);
    if (recv->next != 0)
        post(b, recv->next, 2, 7);
}

static void on_moved(void *arg, struct shadow_recv *shadow,
                     const struct mbx_device_event *event)
{
    (void)arg;
    tell(shadow, event->type == MBX_DEVICE_DATA_VALID   ? VALID
                 : event->type == MBX_DEVICE_INCOMPLETE ? INCOMPLETE
                                                        : LOST);
}

static void on_revoked(void *arg, struct shadow_recv *shadow)
{
    (void)arg;
    tell(shadow, REVOKED);
}

static int on_packet(void *arg, uint32_t peer, const void *memory, size_t size)
{
    struct bench *b = arg;
    const struct hand_packet *packet = memory;
    const struct match_envelope envelope = {packet->envelope.context_id, peer,
                                            packet->envelope.tag};
    struct match_recv *met;

    assert_int_equal(size, sizeof *packet);
    b->offered++;
    b->handled_within = b->shadow.handled;
    if (b->refusals > 0) {
        b->refusals--;
        return -EAGAIN;
    }
    if (packet->kind == HAND_OTHER)
        return 0;
    met = match_find(&b->match, &envelope);
    if (met == NULL) {
        b->msgs[b->kept].envelope = envelope;
        assert_int_equal(match_keep(&b->match, &b->msgs[b->kept++]), 0);
        return 0;
    }
    tell(&container_of(met, struct posted, match)->shadow, TAKEN);
    shadow_taken(&b->shadow, &container_of(met, struct posted, match)->shadow);
    return 0;
}

static void on_lost(void *arg)
{
    ((struct bench *)arg)->lost++;
}

static void on_owed(void *arg, uint32_t peer, uint64_t sender)
{
    struct bench *b = arg;

    (void)peer;
    (void)sender;
    b->owed++;
}

static bool on_knows(void *arg, uint32_t peer)
{
    (void)arg;
    return peer < 8;
}

static const struct shadow_events events = {
    .knows = on_knows,
    .owed = on_owed,
    .matched = on_matched,
    .moved = on_moved,
    .revoked = on_revoked,
    .packet = on_packet,
    .lost = on_lost,
};

/* ---- verbs ---- */

static void bench_open_with(struct bench *b, const struct hand_config *device, uint32_t list,
                            uint64_t threshold)
{
    *b = (struct bench){0};
    match_init(&b->match, NULL);
    hand_init(&b->hand, device);
    assert_int_equal(shadow_init(&b->shadow, &(struct shadow_config){.device = &b->hand.device,
                                                                     .list = list,
                                                                     .untagged = 8,
                                                                     .threshold = threshold,
                                                                     .events = &events,
                                                                     .arg = b}),
                     0);
    hand_run(&b->hand);
}

static void bench_open(struct bench *b)
{
    bench_open_with(b, &(struct hand_config){0}, 8, 0);
}

static void bench_close(struct bench *b)
{
    assert_true(hand_is_valid(&b->hand));
    assert_true(shadow_is_valid(&b->shadow));
    shadow_fini(&b->shadow);
    hand_fini(&b->hand);
    match_fini(&b->match);
}

static struct shadow_recv *post_sized(struct bench *b, int i, uint32_t source, uint64_t tag,
                                      uint64_t ignore, size_t size)
{
    struct posted *recv = &b->recvs[i];
    struct match_msg *met;

    *recv = (struct posted){.match = {.envelope = {1, source, tag}, .ignore = ignore}};
    assert_int_equal(match_post(&b->match, &recv->match, &met), 0);
    assert_null(met);
    shadow_post(&b->shadow, &recv->shadow, &recv->match, recv->buf, size);
    return &recv->shadow;
}

static struct shadow_recv *post(struct bench *b, int i, uint32_t source, uint64_t tag)
{
    return post_sized(b, i, source, tag, 0, HAND_EAGER_MAX);
}

static bool cancel(struct bench *b, int i)
{
    b->recvs[i].is_cancelled = true;
    assert_true(match_cancel(&b->match, &b->recvs[i].match));
    return shadow_cancel(&b->shadow, &b->recvs[i].shadow);
}

static bool claim(struct bench *b, int i)
{
    b->recvs[i].is_cancelled = true;
    assert_true(match_cancel(&b->match, &b->recvs[i].match));
    return shadow_claim(&b->shadow, &b->recvs[i].shadow);
}

static void put(struct bench *b, enum hand_kind kind, uint64_t tag, uint64_t size,
                bool wants_fin)
{
    static const unsigned char bytes[256];

    hand_send_message(&b->hand, 2,
                      &(struct hand_packet){.kind = (uint8_t)kind,
                                            .wants_fin = wants_fin,
                                            .envelope = {1, 2, tag},
                                            .size = size,
                                            .breaks_at = UINT64_MAX},
                      bytes);
}

static void arrive(struct bench *b, uint64_t tag)
{
    put(b, HAND_EAGER, tag, 8, false);
    assert_true(hand_arrive(&b->hand, 2));
}

static void poll(struct bench *b)
{
    shadow_poll(&b->shadow);
    assert_true(shadow_is_valid(&b->shadow));
    assert_true(hand_is_valid(&b->hand));
}

/* Until both sides have nothing to do. */
static void settle(struct bench *b)
{
    for (int i = 0; i < 8; i++) {
        hand_run(&b->hand);
        poll(b);
    }
}

static uint32_t free_handles(const struct bench *b)
{
    return b->shadow.free_count;
}

/* The number-th command that waits, buffers not counted. */
static const struct soft_command *waiting_command(const struct bench *b, uint32_t number)
{
    uint32_t room = sizeof b->hand.queue / sizeof b->hand.queue[0];

    for (uint32_t i = 0; i < b->hand.queue_count; i++) {
        const struct hand_queued *queued = &b->hand.queue[(b->hand.queue_first + i) % room];

        if (!queued->is_buffer && number-- == 0)
            return &queued->command;
    }
    fail_msg("there is no such command");
    return NULL;
}

/* ---- handing over ---- */

static void a_receive_is_handed_over_at_once(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    assert_int_equal(post(&b, 0, 2, 7)->state, SHADOW_HANDED);
    assert_int_equal(b.hand.commands_waiting, 1);
    hand_run(&b.hand);
    arrive(&b, 7);
    poll(&b);
    assert_int_equal(b.recvs[0].outcome, MATCHED);
    assert_int_equal(b.recvs[0].told, 1);
    assert_int_equal(free_handles(&b), 8);
    bench_close(&b);
}

static void a_small_receive_stays_in_software(void **state)
{
    struct bench b;

    (void)state;
    bench_open_with(&b, &(struct hand_config){0}, 8, 16);
    assert_int_equal(post_sized(&b, 0, 2, 7, 0, 15)->state, SHADOW_SOFTWARE);
    assert_int_equal(post_sized(&b, 1, 2, 8, 0, 16)->state, SHADOW_HANDED);
    bench_close(&b);
}

/* A receive that a device with these limits cannot hold, and one that it can. */
static void holds(const struct hand_config *device, uint32_t source, uint64_t tag,
                  uint64_t ignore, size_t size, enum shadow_state want)
{
    struct bench b;

    bench_open_with(&b, device, 8, 0);
    assert_int_equal(post_sized(&b, 0, source, tag, ignore, size)->state, want);
    bench_close(&b);
}

static void receives_from_anybody_need_a_device_that_has_them(void **state)
{
    const struct hand_config with = {.caps = MBX_DEVICE_ANY_SOURCE | MBX_DEVICE_TRUNCATES};
    const struct hand_config without = {.caps = MBX_DEVICE_TRUNCATES};

    (void)state;
    holds(&with, MATCH_ANY_SOURCE, 7, 0, 8, SHADOW_HANDED);
    holds(&without, MATCH_ANY_SOURCE, 7, 0, 8, SHADOW_SOFTWARE);
    holds(&without, 2, 7, 0, 8, SHADOW_HANDED);
}

static void partial_ignore_bits_need_a_device_that_has_them(void **state)
{
    const struct hand_config with = {.caps = MBX_DEVICE_MASKS | MBX_DEVICE_TRUNCATES};
    const struct hand_config without = {.caps = MBX_DEVICE_TRUNCATES};

    (void)state;
    holds(&with, 2, 7, 1, 8, SHADOW_HANDED);
    holds(&without, 2, 7, 1, 8, SHADOW_SOFTWARE);
    holds(&without, 2, 7, ANY_TAG, 8, SHADOW_HANDED);
}

static void a_short_buffer_needs_a_device_that_truncates(void **state)
{
    const struct hand_config with = {.caps = MBX_DEVICE_TRUNCATES};
    const struct hand_config without = {.caps = MBX_DEVICE_MASKS};

    (void)state;
    holds(&with, 2, 7, 0, HAND_EAGER_MAX - 1, SHADOW_HANDED);
    holds(&without, 2, 7, 0, HAND_EAGER_MAX - 1, SHADOW_SOFTWARE);
    holds(&without, 2, 7, 0, HAND_EAGER_MAX, SHADOW_HANDED);
}

static void a_tag_must_fit_the_device(void **state)
{
    const struct hand_config four_bits = {.tag_bits = 4};

    (void)state;
    holds(&four_bits, 2, 15, 0, 8, SHADOW_HANDED);
    holds(&four_bits, 2, 16, 0, 8, SHADOW_SOFTWARE);
    holds(&four_bits, 2, 16, 16, 8, SHADOW_HANDED); /* that bit is not compared */
}

/* Does (source, tag, ignore) wait behind the first, which stays in software? */
static void overlaps(uint32_t source, uint64_t tag, uint64_t ignore, uint32_t source_2,
                     uint64_t tag_2, uint64_t ignore_2, bool want)
{
    struct bench b;
    struct shadow_recv *second;

    bench_open_with(&b, &(struct hand_config){0}, 8, 16);
    post_sized(&b, 0, source, tag, ignore, 8);
    second = post_sized(&b, 1, source_2, tag_2, ignore_2, 16);
    assert_int_equal(second->state, want ? SHADOW_SOFTWARE : SHADOW_HANDED);
    assert_int_equal(b.shadow.stats.overlapped, want);
    bench_close(&b);
}

static void a_receive_does_not_pass_one_that_stays_and_fits_the_same(void **state)
{
    (void)state;
    overlaps(2, 7, 0, 2, 7, 0, true);
    overlaps(2, 7, 0, 2, 8, 0, false);
    overlaps(2, 7, 0, 1, 7, 0, false);
    overlaps(2, 7, 0, MATCH_ANY_SOURCE, 7, 0, true);
    overlaps(2, 7, 0, 2, 0, ANY_TAG, true);
    overlaps(2, 7, 0, 2, 6, 1, true);
    overlaps(MATCH_ANY_SOURCE, 7, 0, 2, 7, 0, true);
    overlaps(2, 0, ANY_TAG, 2, 7, 0, true);
    overlaps(2, 0, ANY_TAG, MATCH_ANY_SOURCE, 7, 0, true);
}

static void one_that_is_over_holds_nobody_back(void **state)
{
    struct bench b;

    (void)state;
    bench_open_with(&b, &(struct hand_config){0}, 8, 16);
    post_sized(&b, 0, 2, 7, 0, 8);
    post_sized(&b, 1, MATCH_ANY_SOURCE, 7, 0, 8);
    assert_true(cancel(&b, 1));
    arrive(&b, 7);
    poll(&b);
    assert_int_equal(b.recvs[0].outcome, TAKEN);
    assert_int_equal(post(&b, 2, 2, 7)->state, SHADOW_HANDED);
    bench_close(&b);
}

static void the_oldest_that_waits_goes_first(void **state)
{
    struct bench b;

    (void)state;
    bench_open_with(&b, &(struct hand_config){0}, 2, 0);
    for (int i = 0; i < 5; i++)
        post(&b, i, 2, (uint64_t)i);
    assert_int_equal(b.recvs[2].shadow.state, SHADOW_WAITING);
    assert_int_equal(b.shadow.stats.waiting, 3);
    hand_run(&b.hand);
    arrive(&b, 1);
    poll(&b);
    assert_int_equal(b.recvs[2].shadow.state, SHADOW_HANDED);
    assert_int_equal(b.recvs[3].shadow.state, SHADOW_WAITING);
    hand_run(&b.hand);
    arrive(&b, 0);
    poll(&b);
    assert_int_equal(b.recvs[3].shadow.state, SHADOW_HANDED);
    assert_int_equal(b.recvs[4].shadow.state, SHADOW_WAITING);
    assert_int_equal(b.shadow.stats.waiting_max, 3);
    bench_close(&b);
}

static void one_that_is_posted_from_a_callback_does_not_pass_those_that_wait(void **state)
{
    struct bench b;

    (void)state;
    bench_open_with(&b, &(struct hand_config){0}, 2, 0);
    for (int i = 0; i < 3; i++)
        post(&b, i, 2, 7);
    b.recvs[1].next = 3;
    hand_run(&b.hand);
    arrive(&b, 7);
    arrive(&b, 7); /* the second callback finds a handle free, and receive 2 waiting for it */
    poll(&b);
    assert_true(b.recvs[2].shadow.handle == waiting_command(&b, 0)->handle);
    settle(&b);
    arrive(&b, 7);
    settle(&b);
    assert_int_equal(b.recvs[2].outcome, MATCHED);
    assert_int_equal(b.recvs[3].outcome, NONE);
    bench_close(&b);
}

static void one_that_waits_can_be_taken_or_cancelled(void **state)
{
    struct bench b;

    (void)state;
    bench_open_with(&b, &(struct hand_config){0}, 1, 0);
    for (int i = 0; i < 4; i++)
        post(&b, i, 2, (uint64_t)i);
    arrive(&b, 1);
    poll(&b);
    assert_int_equal(b.recvs[1].outcome, TAKEN);
    assert_true(cancel(&b, 2));
    assert_int_equal(b.shadow.stats.waiting, 1);
    assert_false(cancel(&b, 0));
    settle(&b);
    assert_int_equal(b.recvs[0].outcome, REVOKED);
    assert_int_equal(b.recvs[3].shadow.state, SHADOW_HANDED);
    bench_close(&b);
}

/* ---- what counts as handled ---- */

static void a_message_counts_when_its_owner_has_had_it(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    arrive(&b, 7);
    arrive(&b, 7);
    post(&b, 0, 2, 8);
    assert_int_equal(waiting_command(&b, 0)->handled, 0); /* found, and not polled */
    poll(&b);
    assert_int_equal(b.handled_within, 1); /* within the second, only the first */
    assert_int_equal(b.shadow.handled, 2);
    post(&b, 1, 2, 9);
    assert_int_equal(b.kept, 2);
    bench_close(&b);
}

static void a_refused_message_does_not_count_and_comes_again(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    hand_run(&b.hand);
    arrive(&b, 8);
    arrive(&b, 7);
    b.refusals = 2;
    poll(&b);
    poll(&b);
    assert_int_equal(b.offered, 2);
    assert_int_equal(b.shadow.handled, 0);
    assert_int_equal(b.recvs[0].outcome, NONE); /* nothing behind it is looked at */
    poll(&b);
    assert_int_equal(b.offered, 3);
    assert_int_equal(b.kept, 1);
    assert_int_equal(b.shadow.handled, 1);
    assert_int_equal(b.recvs[0].outcome, MATCHED);
    bench_close(&b);
}

static void packets_that_are_not_tagged_do_not_count(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    put(&b, HAND_OTHER, 0, 0, false);
    hand_run(&b.hand);
    poll(&b);
    assert_int_equal(b.offered, 1);
    assert_int_equal(b.shadow.handled, 0);
    assert_int_equal(b.shadow.stats.passed, 0);
    bench_close(&b);
}

static void the_revoke_of_a_taken_receive_goes_before_the_report(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    arrive(&b, 7);
    post(&b, 0, 2, 7);
    post(&b, 1, 2, 7); /* keeps the device busy */
    hand_run(&b.hand);
    poll(&b);
    assert_int_equal(b.recvs[0].outcome, TAKEN);
    assert_int_equal(waiting_command(&b, 0)->type, SOFT_REVOKE);
    assert_int_equal(waiting_command(&b, 0)->handle, b.recvs[0].shadow.handle);
    assert_int_equal(waiting_command(&b, 0)->handled, 0);
    assert_int_equal(waiting_command(&b, 1)->type, SOFT_SYNC);
    assert_int_equal(waiting_command(&b, 1)->handled, 1);
    settle(&b);
    assert_int_equal(b.recvs[0].told, 1);
    arrive(&b, 7);
    settle(&b);
    assert_int_equal(b.recvs[1].outcome, MATCHED);
    bench_close(&b);
}

static void a_sync_goes_only_when_the_device_holds_something(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    arrive(&b, 7);
    poll(&b);
    assert_int_equal(b.hand.commands_waiting, 0);
    post(&b, 0, 2, 8); /* reports for itself */
    assert_int_equal(waiting_command(&b, 0)->handled, 1);
    poll(&b);
    assert_int_equal(b.hand.commands_waiting, 1);
    arrive(&b, 7);
    poll(&b);
    assert_int_equal(waiting_command(&b, 1)->type, SOFT_SYNC);
    assert_int_equal(waiting_command(&b, 1)->handled, 2);
    poll(&b);
    assert_int_equal(b.hand.commands_waiting, 2); /* nothing is new */
    bench_close(&b);
}

static void many_messages_are_reported_though_nobody_waits(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    for (int i = 0; i < 16384 - 1; i++) {
        put(&b, HAND_EAGER, 7, 8, false);
        hand_run(&b.hand);
        poll(&b);
        match_claim(&b.match, &b.msgs[--b.kept]); /* not to keep them all */
        hand_run(&b.hand);
    }
    assert_int_equal(b.shadow.stats.syncs, 0);
    arrive(&b, 7);
    poll(&b);
    assert_int_equal(b.shadow.stats.syncs, 1);
    bench_close(&b);
}

static void syncs_leave_room_for_revokes(void **state)
{
    struct bench b;

    (void)state;
    bench_open_with(&b, &(struct hand_config){0}, 2, 0);
    post(&b, 0, 2, 7);
    post(&b, 1, 2, 8);
    for (int i = 0; i < 8; i++) { /* the device performs no command in this time */
        arrive(&b, 9);
        poll(&b);
    }
    assert_int_equal(b.hand.commands_waiting, 3);
    assert_false(cancel(&b, 0));
    assert_false(cancel(&b, 1));
    assert_int_equal(b.hand.commands_waiting, 5);
    settle(&b);
    assert_int_equal(b.recvs[0].outcome, REVOKED);
    assert_int_equal(b.recvs[1].outcome, REVOKED);
    bench_close(&b);
}

static void a_sync_that_found_no_room_is_sent_later(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    hand_run(&b.hand);
    for (int i = 0; i < 2; i++) { /* the second finds the first SYNC still waiting */
        arrive(&b, 9);
        poll(&b);
    }
    assert_int_equal(b.hand.commands_waiting, 1);
    hand_run(&b.hand);
    assert_false(soft_is_in_sync(&b.hand.soft));
    settle(&b);
    assert_true(soft_is_in_sync(&b.hand.soft));
    bench_close(&b);
}

static void untagged_buffers_go_back(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    for (int i = 0; i < 8; i++)
        arrive(&b, 7);
    assert_int_equal(b.hand.empty_count, 0);
    settle(&b);
    assert_int_equal(b.hand.empty_count, 8);
    bench_close(&b);
}

/* ---- handles ---- */

static void a_handle_is_free_when_its_revoke_has_been_answered(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    assert_false(cancel(&b, 0));
    poll(&b);
    assert_int_equal(free_handles(&b), 7);
    settle(&b);
    assert_int_equal(free_handles(&b), 8);
    bench_close(&b);
}

static void a_handle_that_is_matched_and_revoked_waits_for_both(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    hand_run(&b.hand);
    arrive(&b, 7);
    assert_false(cancel(&b, 0));
    poll(&b); /* MATCHED; the revoke has not been performed */
    assert_int_equal(b.recvs[0].outcome, MATCHED);
    assert_int_equal(free_handles(&b), 7);
    settle(&b);
    assert_int_equal(b.recvs[0].told, 1);
    assert_int_equal(free_handles(&b), 8);
    assert_int_equal(b.shadow.stats.cancels_lost, 1);
    bench_close(&b);
}

static void a_cancel_that_is_too_late_does_not_end_a_receive_whose_data_moves(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    hand_run(&b.hand);
    put(&b, HAND_EAGER, 7, 2 * HAND_INLINE, false);
    hand_arrive(&b.hand, 2);
    assert_false(cancel(&b, 0));
    while (hand_command(&b.hand))
        ;
    poll(&b); /* MATCHED, and that the revoke failed */
    assert_int_equal(b.recvs[0].outcome, MATCHED);
    assert_int_equal(b.recvs[0].told, 1);
    settle(&b);
    assert_int_equal(b.recvs[0].outcome, VALID);
    assert_int_equal(b.recvs[0].told, 2);
    assert_int_equal(free_handles(&b), 8);
    bench_close(&b);
}

static void a_handle_waits_for_the_data(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    hand_run(&b.hand);
    put(&b, HAND_EAGER, 7, 2 * HAND_INLINE, false);
    hand_arrive(&b.hand, 2);
    poll(&b);
    assert_int_equal(b.recvs[0].outcome, MATCHED);
    assert_int_equal(free_handles(&b), 7);
    hand_arrive(&b.hand, 2);
    poll(&b);
    assert_int_equal(b.recvs[0].outcome, VALID);
    assert_int_equal(free_handles(&b), 8);
    bench_close(&b);
}

static void a_handle_waits_for_the_fin(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    hand_run(&b.hand);
    put(&b, HAND_RENDEZVOUS, 7, HAND_STEP, true);
    hand_arrive(&b.hand, 2);
    hand_move(&b.hand, 0);
    poll(&b);
    assert_int_equal(b.recvs[0].outcome, VALID);
    assert_int_equal(free_handles(&b), 7);
    hand_move(&b.hand, 0);
    poll(&b);
    assert_int_equal(free_handles(&b), 8);
    bench_close(&b);
}

static void an_incomplete_rendezvous_owes_nothing(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    hand_run(&b.hand);
    hand_send(&b.hand, 2,
              &(struct hand_packet){.kind = HAND_RENDEZVOUS,
                                    .wants_fin = true,
                                    .envelope = {1, 2, 7},
                                    .size = 8,
                                    .breaks_at = 0});
    settle(&b);
    assert_int_equal(b.recvs[0].outcome, INCOMPLETE);
    assert_int_equal(free_handles(&b), 8);
    assert_int_equal(b.hand.told[2], 0);
    bench_close(&b);
}

/* ---- cancel ---- */

static void a_cancel_in_software_is_done_at_once(void **state)
{
    struct bench b;

    (void)state;
    bench_open_with(&b, &(struct hand_config){0}, 8, 16);
    post_sized(&b, 0, 2, 7, 0, 8);
    assert_true(cancel(&b, 0));
    settle(&b);
    assert_int_equal(b.recvs[0].told, 0);
    bench_close(&b);
}

static void a_cancel_in_the_device_waits_for_its_answer(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    assert_false(cancel(&b, 0));
    assert_int_equal(b.recvs[0].told, 0);
    settle(&b);
    assert_int_equal(b.recvs[0].outcome, REVOKED);
    assert_int_equal(b.recvs[0].told, 1);
    assert_int_equal(b.shadow.stats.cancels_won, 1);
    bench_close(&b);
}

static void a_claim_in_the_device_waits_for_its_answer(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    post(&b, 1, 2, 8);
    hand_run(&b.hand);
    arrive(&b, 8);
    assert_false(claim(&b, 0));
    assert_false(claim(&b, 1));
    assert_int_equal(b.recvs[0].shadow.state, SHADOW_CLAIMED);
    assert_int_equal(b.recvs[0].told + b.recvs[1].told, 0);
    settle(&b);
    assert_int_equal(b.recvs[0].outcome, REVOKED);
    assert_int_equal(b.recvs[1].outcome, MATCHED);
    assert_int_equal(b.shadow.stats.claims_won, 1);
    assert_int_equal(b.shadow.stats.claims_lost, 1);
    assert_int_equal(b.shadow.stats.cancels_won + b.shadow.stats.cancels_lost, 0);
    bench_close(&b);
}

/* ---- a device that is lost, or lies ---- */

static void what_a_lost_device_had_is_told_of(void **state)
{
    struct bench b;

    (void)state;
    bench_open_with(&b, &(struct hand_config){0}, 3, 0);
    for (int i = 0; i < 4; i++)
        post(&b, i, 2, (uint64_t)i);
    hand_run(&b.hand);
    put(&b, HAND_RENDEZVOUS, 0, 64, true);
    hand_arrive(&b.hand, 2);
    poll(&b);
    assert_false(cancel(&b, 1));
    hand_lose(&b.hand);
    poll(&b);
    assert_int_equal(b.lost, 1);
    assert_int_equal(b.recvs[0].outcome, LOST);
    assert_int_equal(b.recvs[1].outcome, REVOKED);
    assert_int_equal(b.recvs[2].told, 0);
    assert_int_equal(b.recvs[2].shadow.state, SHADOW_NONE); /* software's again */
    assert_int_equal(b.recvs[3].shadow.state, SHADOW_NONE);
    assert_int_equal(b.shadow.stats.waiting + b.shadow.stats.in_device, 0);
    post(&b, 4, 2, 9);
    assert_true(cancel(&b, 4));
    assert_true(cancel(&b, 2));
    assert_int_equal(shadow_poll(&b.shadow), 0);
    assert_int_equal(b.lost, 1);
    bench_close(&b);
}

static void a_command_to_a_device_that_is_gone_waits_for_its_last_event(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    hand_lose(&b.hand);
    assert_int_equal(post(&b, 1, 2, 8)->state, SHADOW_WAITING);
    assert_false(cancel(&b, 0));
    poll(&b);
    assert_int_equal(b.recvs[0].outcome, REVOKED);
    assert_int_equal(b.recvs[1].shadow.state, SHADOW_NONE);
    bench_close(&b);
}

static void ignore_log(void *arg, enum log_level level, const char *text)
{
    (void)level;
    (void)text;
    ++*(int *)arg;
}

static void say(struct bench *b, const struct mbx_device_event *event)
{
    b->hand.events[(b->hand.events_first + b->hand.events_count++) % HAND_EVENTS] = *event;
}

/* Receive 0, from source (2, or anybody), is in the device, under handle 0; then it says
 * this. */
static void distrusts_from(uint32_t source, const struct mbx_device_event *event)
{
    struct bench b;
    int logged = 0;

    bench_open(&b);
    log_set_sink(ignore_log, &logged);
    post(&b, 0, source, 7);
    hand_run(&b.hand);
    say(&b, event);
    shadow_poll(&b.shadow);
    log_set_sink(NULL, NULL);
    assert_int_equal(b.lost, 1);
    assert_int_equal(logged, 1);
    assert_int_equal(b.recvs[0].told, 0);
    assert_int_equal(b.recvs[0].shadow.state, SHADOW_NONE);
    bench_close(&b);
}

static void distrusts(const struct mbx_device_event *event)
{
    distrusts_from(2, event);
}

/* MATCHED for a receive from source; the message is this one. */
static void distrusts_match(uint32_t source, uint32_t context_id, uint32_t peer, uint64_t tag)
{
    distrusts_from(source, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED,
                                                      .flags = MBX_DEVICE_WHOLE,
                                                      .envelope = {context_id, peer, tag}});
}

static void a_match_with_a_message_that_does_not_fit_is_not_believed(void **state)
{
    (void)state;
    distrusts_match(2, 9, 2, 7);
    distrusts_match(2, 1, 3, 7);
    distrusts_match(2, 1, 2, 8);
    distrusts_match(MBX_DEVICE_ANY_SOURCE_ID, 1, 8, 7); /* there are 8 peers */
    distrusts_match(MBX_DEVICE_ANY_SOURCE_ID, 1, MBX_DEVICE_ANY_SOURCE_ID, 7);
}

static void data_that_ends_with_no_error_and_no_success_is_not_believed(void **state)
{
    struct bench b;
    int logged = 0;

    (void)state;
    bench_open(&b);
    log_set_sink(ignore_log, &logged);
    post(&b, 0, 2, 7);
    hand_run(&b.hand);
    say(&b, &(struct mbx_device_event){.type = MBX_DEVICE_MATCHED, .envelope = {1, 2, 7}});
    say(&b, &(struct mbx_device_event){.type = MBX_DEVICE_DATA_VALID, .error = 1});
    poll(&b);
    log_set_sink(NULL, NULL);
    assert_int_equal(b.lost, 1);
    assert_int_equal(b.recvs[0].outcome, LOST);
    bench_close(&b);
}

/* The list of empty buffers has room for each of them once. */
static void a_buffer_that_comes_twice_is_not_believed(void **state)
{
    const struct mbx_device_event event = {
        .type = MBX_DEVICE_PASSED, .buffer = 3, .peer = 2, .bytes = sizeof(struct hand_packet)};
    struct bench b;
    int logged = 0;

    (void)state;
    bench_open(&b);
    log_set_sink(ignore_log, &logged);
    ((struct hand_packet *)(void *)(b.shadow.buffers + 3 * b.shadow.limits.untagged_size))
        ->kind = HAND_OTHER;
    say(&b, &event);
    say(&b, &event);
    shadow_poll(&b.shadow);
    log_set_sink(NULL, NULL);
    assert_int_equal(b.offered, 1);
    assert_int_equal(b.lost, 1);
    assert_int_equal(logged, 1);
    bench_close(&b);
}

static void a_fin_is_owed_when_the_data_is_there(void **state)
{
    struct bench b;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    hand_run(&b.hand);
    put(&b, HAND_RENDEZVOUS, 7, HAND_STEP, true);
    hand_arrive(&b.hand, 2);
    poll(&b);
    assert_int_equal(b.recvs[0].outcome, MATCHED);
    assert_int_equal(b.shadow.owed_count, 0);
    hand_move(&b.hand, 0);
    poll(&b);
    assert_int_equal(b.recvs[0].outcome, VALID);
    assert_int_equal(b.shadow.owed_count, 1);
    hand_move(&b.hand, 0);
    poll(&b);
    assert_int_equal(b.shadow.owed_count, 0);
    bench_close(&b);
}

static void a_device_that_breaks_its_contract_is_given_up(void **state)
{
    (void)state;
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_MATCHED, .handle = 3});
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_MATCHED, .handle = 8});
    distrusts(&(struct mbx_device_event){
        .type = MBX_DEVICE_MATCHED, .handle = 0, .flags = MBX_DEVICE_HELD});
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_DATA_VALID, .handle = 0});
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_INCOMPLETE, .handle = 0});
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_FIN_SENT, .handle = 0});
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_REVOKED, .handle = 0});
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_UNEXPECTED, .buffer = 8});
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_PASSED,
                                         .bytes = sizeof(struct hand_packet) + 1});
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_PASSED, .peer = 8});
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_REVOKED_ALL});
    distrusts(&(struct mbx_device_event){.type = MBX_DEVICE_UNHELD});
    distrusts(&(struct mbx_device_event){.type = 0});
    distrusts(&(struct mbx_device_event){.type = 200});
}

static void a_revoke_that_failed_without_a_match_is_not_believed(void **state)
{
    struct bench b;
    int logged = 0;

    (void)state;
    bench_open(&b);
    post(&b, 0, 2, 7);
    assert_false(cancel(&b, 0));
    log_set_sink(ignore_log, &logged);
    b.hand.events[b.hand.events_first] =
        (struct mbx_device_event){.type = MBX_DEVICE_REVOKED, .handle = 0, .error = -ENOENT};
    b.hand.events_count = 1;
    poll(&b);
    log_set_sink(NULL, NULL);
    assert_int_equal(b.lost, 1);
    assert_int_equal(b.recvs[0].outcome, REVOKED); /* the device is gone: it is his */
    bench_close(&b);
}

/* ---- open ---- */

static void a_shadow_asks_for_no_more_than_the_device_has(void **state)
{
    struct bench b;

    (void)state;
    bench_open_with(&b, &(struct hand_config){0}, 0, 0);
    assert_int_equal(b.shadow.list, HAND_LIST);
    bench_close(&b);
    bench_open_with(&b, &(struct hand_config){0}, HAND_LIST + 1, 0);
    assert_int_equal(b.shadow.list, HAND_LIST);
    assert_int_equal(b.shadow.untagged, 8);
    assert_int_equal(b.hand.commands, 2 * HAND_LIST + 2);
    bench_close(&b);
}

static void a_shadow_without_memory_leaves_nothing(void **state)
{
    struct shadow shadow;
    struct hand hand;
    uint64_t live = mem_live(), n = 0;
    int err;

    (void)state;
    do {
        hand_init(&hand, &(struct hand_config){0});
        mem_fail_at(++n);
        err = shadow_init(&shadow,
                          &(struct shadow_config){.device = &hand.device, .events = &events});
        if (err == 0)
            shadow_fini(&shadow);
        else
            assert_int_equal(err, -ENOMEM);
        mem_fail_at(0);
        hand_fini(&hand);
        assert_int_equal(mem_live(), live);
    } while (err != 0);
    assert_int_equal(n, 5 + 2 + 1); /* the shadow's, the device's, and none */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_is_handed_over_at_once),
        cmocka_unit_test(a_small_receive_stays_in_software),
        cmocka_unit_test(receives_from_anybody_need_a_device_that_has_them),
        cmocka_unit_test(partial_ignore_bits_need_a_device_that_has_them),
        cmocka_unit_test(a_short_buffer_needs_a_device_that_truncates),
        cmocka_unit_test(a_tag_must_fit_the_device),
        cmocka_unit_test(a_receive_does_not_pass_one_that_stays_and_fits_the_same),
        cmocka_unit_test(one_that_is_over_holds_nobody_back),
        cmocka_unit_test(the_oldest_that_waits_goes_first),
        cmocka_unit_test(one_that_is_posted_from_a_callback_does_not_pass_those_that_wait),
        cmocka_unit_test(one_that_waits_can_be_taken_or_cancelled),
        cmocka_unit_test(a_message_counts_when_its_owner_has_had_it),
        cmocka_unit_test(a_refused_message_does_not_count_and_comes_again),
        cmocka_unit_test(packets_that_are_not_tagged_do_not_count),
        cmocka_unit_test(the_revoke_of_a_taken_receive_goes_before_the_report),
        cmocka_unit_test(a_sync_goes_only_when_the_device_holds_something),
        cmocka_unit_test(many_messages_are_reported_though_nobody_waits),
        cmocka_unit_test(syncs_leave_room_for_revokes),
        cmocka_unit_test(a_sync_that_found_no_room_is_sent_later),
        cmocka_unit_test(untagged_buffers_go_back),
        cmocka_unit_test(a_handle_is_free_when_its_revoke_has_been_answered),
        cmocka_unit_test(a_handle_that_is_matched_and_revoked_waits_for_both),
        cmocka_unit_test(a_cancel_that_is_too_late_does_not_end_a_receive_whose_data_moves),
        cmocka_unit_test(a_handle_waits_for_the_data),
        cmocka_unit_test(a_handle_waits_for_the_fin),
        cmocka_unit_test(an_incomplete_rendezvous_owes_nothing),
        cmocka_unit_test(a_cancel_in_software_is_done_at_once),
        cmocka_unit_test(a_cancel_in_the_device_waits_for_its_answer),
        cmocka_unit_test(a_claim_in_the_device_waits_for_its_answer),
        cmocka_unit_test(what_a_lost_device_had_is_told_of),
        cmocka_unit_test(a_command_to_a_device_that_is_gone_waits_for_its_last_event),
        cmocka_unit_test(a_device_that_breaks_its_contract_is_given_up),
        cmocka_unit_test(a_match_with_a_message_that_does_not_fit_is_not_believed),
        cmocka_unit_test(data_that_ends_with_no_error_and_no_success_is_not_believed),
        cmocka_unit_test(a_buffer_that_comes_twice_is_not_believed),
        cmocka_unit_test(a_fin_is_owed_when_the_data_is_there),
        cmocka_unit_test(a_revoke_that_failed_without_a_match_is_not_believed),
        cmocka_unit_test(a_shadow_asks_for_no_more_than_the_device_has),
        cmocka_unit_test(a_shadow_without_memory_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
