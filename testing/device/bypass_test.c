/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bypass_test.c - the rules of bypass.h, one by one, over a stepped device.
 *
 * Peer 0 sends through the device, all others past it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/unit.h"
#include "device/host/bypass.h"
#include "testing/device/stepped_device.h"

#define COUNT  8
#define ANY    MBX_MATCH_ANY_SOURCE
#define NOBODY (-1)
#define KEPT   (-2)
#define DEVICE 100 /* a message through the device */

struct posted {
    struct mbx_match_recv match;
    struct shadow_recv shadow;
    unsigned char buf[STEPPED_EAGER_MAX];
    int message; /* that it has matched */
    bool is_revoked;
};

struct came {
    struct mbx_match_msg match;
    struct shadow_message bypass;
    int recv; /* that it has matched; KEPT; or NOBODY: it is parked */
};

struct bench {
    struct stepped stepped;
    struct shadow shadow;
    struct mbx_match match;
    struct posted recvs[COUNT];
    struct came msgs[COUNT];
    int refusals; /* of keep() */
};

/* ---- an owner ---- */

static struct posted *posted_of(struct shadow_recv *shadow)
{
    return container_of(shadow, struct posted, shadow);
}

static struct came *came_of(struct shadow_message *message)
{
    return container_of(message, struct came, bypass);
}

static void on_matched(void *arg, struct shadow_recv *shadow,
                       UNUSED const struct mbx_device_event *event)
{
    struct bench *b = arg;

    mbx_match_cancel(&b->match, &posted_of(shadow)->match);
    assert_int_equal(posted_of(shadow)->message, NOBODY);
    posted_of(shadow)->message = DEVICE;
}

static void on_revoked(UNUSED void *arg, struct shadow_recv *shadow)
{
    posted_of(shadow)->is_revoked = true;
}

static int on_packet(UNUSED void *arg, uint32_t peer, const void *memory, size_t size)
{
    (void)peer;
    (void)memory;
    (void)size;
    return 0; /* software matches nothing before the device here */
}

static struct shadow_recv *on_find(void *arg, struct shadow_message *message)
{
    struct bench *b = arg;
    struct mbx_match_recv *recv = mbx_match_find(&b->match, &message->envelope);

    return recv != NULL ? &container_of(recv, struct posted, match)->shadow : NULL;
}

static void on_met(void *arg, struct shadow_message *message, struct shadow_recv *shadow)
{
    struct bench *b = arg;

    assert_int_equal(posted_of(shadow)->message, NOBODY);
    assert_int_equal(came_of(message)->recv, NOBODY);
    posted_of(shadow)->message = (int)(came_of(message) - b->msgs);
    came_of(message)->recv = (int)(posted_of(shadow) - b->recvs);
}

static int on_keep(void *arg, struct shadow_message *message)
{
    struct bench *b = arg;

    if (b->refusals > 0) {
        b->refusals--;
        return -ENOMEM;
    }
    came_of(message)->match.envelope = message->envelope;
    came_of(message)->recv = KEPT;
    return mbx_match_keep(&b->match, &came_of(message)->match);
}

static void on_lost(UNUSED void *arg)
{
}

static const struct shadow_events events = {
    .matched = on_matched,
    .revoked = on_revoked,
    .packet = on_packet,
    .find = on_find,
    .met = on_met,
    .keep = on_keep,
    .lost = on_lost,
};

/* ---- verbs ---- */

static void bench_open(struct bench *b)
{
    *b = (struct bench){0};
    mbx_match_init(&b->match, NULL);
    stepped_init(&b->stepped, &(struct stepped_config){0});
    assert_int_equal(
        shadow_init(&b->shadow, &(struct shadow_config){.device = &b->stepped.device,
                                                        .list = 4,
                                                        .untagged = 8,
                                                        .threshold = 2,
                                                        .events = &events,
                                                        .arg = b}),
        0);
    stepped_run(&b->stepped);
}

static void bench_close(struct bench *b)
{
    assert_true(stepped_is_valid(&b->stepped));
    assert_true(shadow_is_valid(&b->shadow));
    assert_true(bypass_is_clear(&b->shadow) || !list_is_empty(&b->shadow.parked) ||
                b->shadow.stats.in_device > 0);
    shadow_fini(&b->shadow);
    stepped_fini(&b->stepped);
    mbx_match_fini(&b->match);
}

static void post_sized(struct bench *b, int i, uint32_t source, uint64_t tag, size_t size)
{
    struct mbx_match_msg *met;

    b->recvs[i] = (struct posted){.match = {.envelope = {1, source, tag}}, .message = NOBODY};
    assert_int_equal(mbx_match_post(&b->match, &b->recvs[i].match, &met), 0);
    assert_null(met);
    shadow_post(&b->shadow, &b->recvs[i].shadow, &b->recvs[i].match, b->recvs[i].buf, size);
}

/* Posts a receive that the device holds and has active. */
static void post(struct bench *b, int i, uint32_t source, uint64_t tag)
{
    post_sized(b, i, source, tag, STEPPED_EAGER_MAX);
    stepped_run(&b->stepped);
    assert_int_equal(b->recvs[i].shadow.state, SHADOW_HANDED);
}

static void cancel(struct bench *b, int i)
{
    assert_true(mbx_match_cancel(&b->match, &b->recvs[i].match));
    assert_false(shadow_cancel(&b->shadow, &b->recvs[i].shadow));
}

/* A message on another path; returns its result. */
static int come(struct bench *b, int i, uint32_t source, uint64_t tag)
{
    b->msgs[i] = (struct came){.bypass.envelope = {1, source, tag}, .recv = NOBODY};
    bypass_arrive(&b->shadow, &b->msgs[i].bypass);
    assert_true(shadow_is_valid(&b->shadow));
    return b->msgs[i].recv;
}

/* A message through the device, which matches it at once; nobody has polled the match. */
static void match_in_device(struct bench *b, uint64_t tag)
{
    static const unsigned char bytes[8];

    stepped_send_message(
        &b->stepped, 0,
        &(struct stepped_packet){.kind = STEPPED_EAGER, .envelope = {1, 0, tag}, .size = 8},
        bytes);
    assert_true(stepped_arrive(&b->stepped, 0));
}

static void poll(struct bench *b)
{
    shadow_poll(&b->shadow);
    assert_true(shadow_is_valid(&b->shadow));
}

/* The device answers, and the answer is polled. */
static void answer(struct bench *b)
{
    stepped_run(&b->stepped);
    poll(b);
}

/* ---- the receiver of a message ---- */

static void a_message_takes_a_receive_of_software_at_once(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post_sized(&b, 0, 2, 7, 1);
    post(&b, 1, 2, 8);
    assert_int_equal(come(&b, 0, 2, 7), 0);
    assert_int_equal(b.shadow.stats.parked, 0);
    assert_int_equal(b.recvs[0].shadow.state, SHADOW_NONE);
    bench_close(&b);
}

static void a_message_without_a_receive_is_kept_at_once(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post(&b, 0, ANY, 8);
    assert_int_equal(come(&b, 0, 2, 7), KEPT);
    assert_int_equal(b.shadow.stats.parked, 0);
    bench_close(&b);
}

/* Until the device answers, the message has not arrived. */
static void a_message_waits_for_the_receive_of_the_device(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post(&b, 0, ANY, 7);
    assert_int_equal(come(&b, 0, 2, 7), NOBODY);
    assert_false(bypass_is_clear(&b.shadow));
    assert_null(mbx_match_peek(&b.match, &(struct mbx_match_envelope){1, ANY, 7}, 0));
    poll(&b);
    assert_int_equal(b.msgs[0].recv, NOBODY);
    answer(&b);
    assert_int_equal(b.msgs[0].recv, 0);
    assert_true(bypass_is_clear(&b.shadow));
    assert_int_equal(b.shadow.stats.reclaims_won, 1);
    bench_close(&b);
}

static void a_message_that_is_too_late_goes_on(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post(&b, 0, ANY, 7);
    post(&b, 1, ANY, 7);
    post_sized(&b, 2, ANY, 7, 1);
    match_in_device(&b, 7);
    assert_int_equal(come(&b, 0, 2, 7), NOBODY); /* claims r0 */
    answer(&b);                                  /* and claims r1 */
    assert_int_equal(b.msgs[0].recv, NOBODY);
    match_in_device(&b, 7);
    answer(&b);
    assert_int_equal(b.recvs[0].message, DEVICE);
    assert_int_equal(b.recvs[1].message, DEVICE);
    assert_int_equal(b.msgs[0].recv, 2);
    assert_int_equal(b.shadow.stats.reclaims_lost, 2);
    bench_close(&b);
}

static void a_message_that_is_too_late_for_all_is_kept(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post(&b, 0, ANY, 7);
    match_in_device(&b, 7);
    assert_int_equal(come(&b, 0, 2, 7), NOBODY);
    answer(&b);
    assert_int_equal(b.msgs[0].recv, KEPT);
    bench_close(&b);
}

/* ---- order of waiting operations ---- */

static void only_messages_of_one_source_wait_for_each_other(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post(&b, 0, ANY, 7);
    post_sized(&b, 1, ANY, 8, 1);
    post_sized(&b, 2, ANY, 8, 1);
    assert_int_equal(come(&b, 0, 2, 7), NOBODY);
    assert_int_equal(come(&b, 1, 2, 8), NOBODY);
    assert_int_equal(come(&b, 2, 2, 9), NOBODY);
    assert_int_equal(come(&b, 3, 3, 8), 1);
    assert_int_equal(come(&b, 4, 3, 9), KEPT);
    answer(&b);
    assert_int_equal(b.msgs[0].recv, 0);
    assert_int_equal(b.msgs[1].recv, 2);
    assert_int_equal(b.msgs[2].recv, KEPT);
    bench_close(&b);
}

static void nobody_passes_a_receive_that_is_asked_back(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post(&b, 0, ANY, 7);
    post(&b, 1, ANY, 8);
    post_sized(&b, 2, ANY, 7, 1);
    post_sized(&b, 3, ANY, 8, 1);
    cancel(&b, 0);
    assert_int_equal(come(&b, 0, 2, 7), NOBODY); /* though r2 fits */
    assert_int_equal(come(&b, 1, 3, 8), NOBODY); /* claims r1 */
    assert_int_equal(come(&b, 2, 4, 8), NOBODY); /* though r3 fits */
    answer(&b);
    assert_true(b.recvs[0].is_revoked);
    assert_int_equal(b.msgs[0].recv, 2);
    assert_int_equal(b.msgs[1].recv, 1);
    assert_int_equal(b.msgs[2].recv, 3);
    bench_close(&b);
}

static void a_cancel_that_is_too_late_lets_messages_go_on(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post(&b, 0, ANY, 7);
    match_in_device(&b, 7);
    cancel(&b, 0);
    assert_int_equal(come(&b, 0, 2, 7), NOBODY);
    answer(&b);
    assert_int_equal(b.recvs[0].message, DEVICE);
    assert_false(b.recvs[0].is_revoked);
    assert_int_equal(b.msgs[0].recv, KEPT);
    bench_close(&b);
}

/* Otherwise the device could take one receive after the other from the message. */
static void nothing_is_handed_over_while_a_message_is_parked(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post(&b, 0, ANY, 7);
    match_in_device(&b, 7);
    assert_int_equal(come(&b, 0, 2, 7), NOBODY);
    post_sized(&b, 1, ANY, 7, STEPPED_EAGER_MAX);
    post_sized(&b, 2, ANY, 8, STEPPED_EAGER_MAX);
    b.stepped.shows = 0; /* the device has reported nothing */
    poll(&b);
    assert_int_equal(b.recvs[1].shadow.state, SHADOW_WAITING);
    assert_int_equal(b.recvs[2].shadow.state, SHADOW_WAITING);
    assert_false(shadow_has_work(&b.shadow));
    b.stepped.shows = UINT32_MAX;
    answer(&b);
    assert_int_equal(b.msgs[0].recv, 1);
    assert_int_equal(b.shadow.stats.reclaims_lost, 1);
    assert_int_equal(b.shadow.stats.reclaims_won, 0); /* no second claim was needed */
    assert_int_equal(b.recvs[2].shadow.state, SHADOW_HANDED);
    bench_close(&b);
}

/* ---- failures ---- */

static void what_there_is_no_space_to_keep_is_looked_at_again(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post(&b, 0, ANY, 8);
    b.refusals = 2;
    assert_int_equal(come(&b, 0, 2, 7), NOBODY);
    assert_true(shadow_has_work(&b.shadow));
    poll(&b);
    assert_int_equal(b.msgs[0].recv, NOBODY);
    poll(&b);
    assert_int_equal(b.msgs[0].recv, KEPT);
    assert_false(shadow_has_work(&b.shadow));
    bench_close(&b);
}

/* The claim of m0 is never answered; earlier reports of the device are handled first. */
static void what_a_lost_device_had_goes_to_those_who_asked(UNUSED void **state)
{
    struct bench b;

    bench_open(&b);
    post(&b, 0, ANY, 7);
    post(&b, 1, ANY, 8);
    post(&b, 2, ANY, 9);
    match_in_device(&b, 8);
    assert_int_equal(come(&b, 0, 2, 7), NOBODY);
    assert_int_equal(come(&b, 1, 3, 8), NOBODY);
    assert_int_equal(come(&b, 2, 3, 9), NOBODY);
    stepped_lose(&b.stepped);
    poll(&b);
    assert_true(b.shadow.is_lost);
    assert_int_equal(b.recvs[1].message, DEVICE);
    assert_int_equal(b.msgs[0].recv, 0);
    assert_int_equal(b.msgs[1].recv, KEPT);
    assert_int_equal(b.msgs[2].recv, 2);
    assert_true(bypass_is_clear(&b.shadow));
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_takes_a_receive_of_software_at_once),
        cmocka_unit_test(a_message_without_a_receive_is_kept_at_once),
        cmocka_unit_test(a_message_waits_for_the_receive_of_the_device),
        cmocka_unit_test(a_message_that_is_too_late_goes_on),
        cmocka_unit_test(a_message_that_is_too_late_for_all_is_kept),
        cmocka_unit_test(only_messages_of_one_source_wait_for_each_other),
        cmocka_unit_test(nobody_passes_a_receive_that_is_asked_back),
        cmocka_unit_test(a_cancel_that_is_too_late_lets_messages_go_on),
        cmocka_unit_test(nothing_is_handed_over_while_a_message_is_parked),
        cmocka_unit_test(what_there_is_no_space_to_keep_is_looked_at_again),
        cmocka_unit_test(what_a_lost_device_had_goes_to_those_who_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
