/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_mixed_test.c - an endpoint whose adapter matches, and peers whose messages do not go
 * through that matching: over shared memory, from endpoints without a matching adapter, or with
 * one that compares other bits, and when the device is lost.
 *
 *   verbs_mixed_test     with MBX_VERBS_LIBRARY=libmbx-adapter.so
 *
 * The adapter works by itself.  Where the adapter must have matched a message before the
 * receiver makes progress, the test waits until the adapter has the receive, and then for the
 * sender's completion, which a synchronous message gets when it has been matched.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/unit.h"
#include "core/core.h"
#include "device/host/driver.h"
#include "device/host/offload.h"
#include "device/verbs/verbs_state.h"

#define CONTEXT  7
#define MESSAGES 60
#define SHORT    ((size_t)700)
#define LONGER   ((size_t)200000)

enum { RECEIVER, OUTSIDE, TAGGED, LATER, ENDPOINTS }; /* OUTSIDE: its messages are not tagged */

static struct mbx_ep *eps[ENDPOINTS];
static uint32_t numbers[ENDPOINTS]; /* of each endpoint at the receiver */
static uint32_t back[ENDPOINTS];    /* of the receiver at each endpoint */

/* ---- endpoints ---- */

static void open_one(int who, const char *transport, const char *device, const char *host)
{
    const char *const params[] = {transport,
                                  device,
                                  host,
                                  "DEVICE_THRESHOLD=0",
                                  "WINDOW=1000",
                                  "WINDOW_PAYLOAD=1M",
                                  "VERBS_WINDOW=256",
                                  "PEER_TIMEOUT=20ms",
                                  NULL};

    assert_int_equal(mbx_open(&(struct mbx_config){.params = params}, &eps[who]), 0);
}

static void know(int who)
{
    struct mbx_address address;

    mbx_address_get(eps[who], &address);
    assert_int_equal(mbx_peer_add(eps[RECEIVER], &address, &numbers[who]), 0);
    mbx_address_get(eps[RECEIVER], &address);
    assert_int_equal(mbx_peer_add(eps[who], &address, &back[who]), 0);
}

static void progress_but(int who)
{
    for (int i = 0; i < ENDPOINTS; i++)
        if (eps[i] != NULL && i != who)
            mbx_progress(eps[i]);
}

static void close_all(void)
{
    for (int i = 0; i < ENDPOINTS; i++)
        if (eps[i] != NULL)
            assert_int_equal(mbx_close(eps[i]), 0);
    memset(eps, 0, sizeof eps);
}

static uint64_t stat_of(int who, const char *name)
{
    uint64_t value;

    assert_int_equal(mbx_stat_read(eps[who], name, &value), 0);
    return value;
}

/* ---- messages ---- */

static size_t size_of(int message)
{
    return message % 7 == 3 ? LONGER : SHORT;
}

static void fill(unsigned char *bytes, int who, int message)
{
    const uint32_t name[2] = {(uint32_t)who, (uint32_t)message};

    memset(bytes, who * 31 + message, size_of(message));
    memcpy(bytes, name, sizeof name);
}

static struct {
    unsigned char bytes[MESSAGES][LONGER];
    mbx_request requests[MESSAGES];
} sent[ENDPOINTS], received;

static void send_one(int who, int message, bool is_sync)
{
    fill(sent[who].bytes[message], who, message);
    assert_int_equal((is_sync ? mbx_ssend : mbx_send)(
                         eps[who], back[who], CONTEXT, 3, sent[who].bytes[message],
                         size_of(message), NULL, &sent[who].requests[message]),
                     0);
}

static bool is_done(int who, mbx_request request, struct mbx_completion *done)
{
    return mbx_test(eps[who], request, done) == 1;
}

/* Waits until the adapter has done all its work: it has the receives that were handed to it. */
static void settle_adapter(void)
{
    const struct offload *offload = eps[RECEIVER]->offload;
    const struct shadow *shadow = &offload->shadow;

    do
        progress_but(-1);
    while (shadow->handled != shadow->reported || verbs_of(offload->device)->in_flight != 0);
}

/* Makes progress at all endpoints but one until the request is done. */
static void await_but(int but, int who, mbx_request request)
{
    struct mbx_completion done;

    while (!is_done(who, request, &done))
        progress_but(but);
    assert_int_equal(done.error, 0);
}

static void post(int i, uint32_t source)
{
    assert_int_equal(mbx_recv(eps[RECEIVER], source, CONTEXT, 3, 0, received.bytes[i], LONGER,
                              NULL, &received.requests[i]),
                     0);
}

/* Receive i has a message, the next one of its sender. */
static void check(int i, int *next)
{
    static unsigned char want[LONGER];
    struct mbx_completion done;
    int who = OUTSIDE;

    while (!is_done(RECEIVER, received.requests[i], &done))
        progress_but(-1);
    assert_int_equal(done.error, 0);
    while (numbers[who] != done.status.source)
        assert_true(++who < ENDPOINTS);
    fill(want, who, next[who]);
    assert_int_equal(done.status.size, size_of(next[who]));
    assert_memory_equal(received.bytes[i], want, size_of(next[who]));
    next[who]++;
}

/* All endpoints connect to the receiver. */
static void meet(void)
{
    int next[ENDPOINTS] = {0};

    for (int who = OUTSIDE; who <= TAGGED; who++) {
        post(0, numbers[who]);
        settle_adapter();
        send_one(who, 0, false);
        next[who] = 0;
        check(0, next);
        await_but(-1, who, sent[who].requests[0]);
    }
}

/* ---- receives from any source, with messages from both ---- */

/* The receiver sees messages from outside the device before it sees what the device has
 * matched: so it tries to revoke a receive that is gone. */
static void both_send_to_any_source(void)
{
    int next[ENDPOINTS] = {0}, lost;

    for (int i = 0; i < MESSAGES; i++)
        post(i, MBX_ANY_SOURCE);
    while (stat_of(RECEIVER, "device_handed") < MESSAGES / 2)
        progress_but(-1);
    settle_adapter();
    for (int i = 0; i < MESSAGES / 2; i++) {
        send_one(OUTSIDE, i, false);
        send_one(TAGGED, i, true);
        if (i < 8) /* matched, while the receiver does nothing */
            await_but(RECEIVER, TAGGED, sent[TAGGED].requests[i]);
    }
    for (int i = 0; i < MESSAGES; i++)
        check(i, next);
    for (int i = 0; i < MESSAGES / 2; i++) {
        await_but(-1, OUTSIDE, sent[OUTSIDE].requests[i]);
        if (i >= 8)
            await_but(-1, TAGGED, sent[TAGGED].requests[i]);
    }
    lost = (int)stat_of(RECEIVER, "device_claims_lost");
    printf("handed %d, matched by the adapter %d, parked %d, claims won %d, lost %d\n",
           (int)stat_of(RECEIVER, "device_handed"), (int)stat_of(RECEIVER, "device_matched"),
           (int)stat_of(RECEIVER, "device_parked"), (int)stat_of(RECEIVER, "device_claims_won"),
           lost);
    assert_true(stat_of(RECEIVER, "device_matched") >= 8);
    assert_true(stat_of(RECEIVER, "device_parked") > 0);
    assert_true(stat_of(RECEIVER, "device_claims_won") > 0);
    assert_true(lost > 0);
}

/* The device is not handed receives that it could never match. */
static void receives_that_name_who_is_outside_stay(void)
{
    const uint64_t handed = stat_of(RECEIVER, "device_handed");
    int next[ENDPOINTS] = {0};

    for (int i = 0; i < 10; i++)
        post(i, numbers[OUTSIDE]);
    for (int i = 0; i < 10; i++)
        send_one(OUTSIDE, i, false);
    for (int i = 0; i < 10; i++)
        check(i, next);
    for (int i = 0; i < 10; i++)
        await_but(-1, OUTSIDE, sent[OUTSIDE].requests[i]);
    assert_int_equal(stat_of(RECEIVER, "device_handed"), handed);
}

/* The receiver also sends to the peer outside. */
static void send_back(int who)
{
    static unsigned char got[LONGER];
    mbx_request send, receive;

    for (int message = 2; message <= 3; message++) { /* a short one, a long one */
        fill(sent[RECEIVER].bytes[0], RECEIVER, message);
        assert_int_equal(
            mbx_recv(eps[who], back[who], CONTEXT, 9, 0, got, sizeof got, NULL, &receive), 0);
        assert_int_equal(mbx_send(eps[RECEIVER], numbers[who], CONTEXT, 9,
                                  sent[RECEIVER].bytes[0], size_of(message), NULL, &send),
                         0);
        await_but(-1, who, receive);
        await_but(-1, RECEIVER, send);
        assert_memory_equal(got, sent[RECEIVER].bytes[0], size_of(message));
    }
}

static void play(void)
{
    assert_non_null(eps[RECEIVER]->offload);
    know(OUTSIDE);
    know(TAGGED);
    meet();
    both_send_to_any_source();
    receives_that_name_who_is_outside_stay();
    send_back(OUTSIDE);
    send_back(TAGGED);
    close_all();
}

static void a_peer_without_a_matching_adapter(UNUSED void **state)
{
    open_one(RECEIVER, "TRANSPORT=verbs", "DEVICE=verbs", "FAULT_HOST=1");
    open_one(OUTSIDE, "TRANSPORT=verbs", "DEVICE=none", "FAULT_HOST=1");
    open_one(TAGGED, "TRANSPORT=verbs", "DEVICE=verbs", "FAULT_HOST=1");
    play();
}

static void a_peer_whose_adapter_compares_other_bits(UNUSED void **state)
{
    open_one(RECEIVER, "TRANSPORT=verbs", "DEVICE=verbs", "FAULT_HOST=1");
    open_one(OUTSIDE, "TRANSPORT=verbs", "DEVICE=verbs", "DEVICE_TAG_FORMAT=7fffffffffff");
    open_one(TAGGED, "TRANSPORT=verbs", "DEVICE=verbs", "FAULT_HOST=1");
    play();
}

static void a_format_of_tags_is_a_number(UNUSED void **state)
{
    const char *const wrong[] = {
        "DEVICE_TAG_FORMAT=0",    "DEVICE_TAG_FORMAT=tags",
        "DEVICE_TAG_FORMAT=-1",   "DEVICE_TAG_FORMAT=8000000000000000",
        "DEVICE_TAG_FORMAT=1 47", "DEVICE_TAG_FORMAT=10000000000000000",
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *const params[] = {"TRANSPORT=verbs", "DEVICE=verbs", wrong[i], NULL};
        struct mbx_ep *ep = NULL;

        assert_int_equal(mbx_open(&(struct mbx_config){.params = params}, &ep), -EINVAL);
        assert_null(ep);
    }
}

static void a_peer_over_shared_memory(UNUSED void **state)
{
    open_one(RECEIVER, "TRANSPORT=shm+verbs", "DEVICE=verbs", "FAULT_HOST=1");
    open_one(OUTSIDE, "TRANSPORT=shm+verbs", "DEVICE=verbs", "FAULT_HOST=1");
    open_one(TAGGED, "TRANSPORT=shm+verbs", "DEVICE=verbs", "FAULT_HOST=2");
    play();
}

/* ---- the device is lost, its adapter is not ---- */

static void a_peer_met_after_the_loss_of_the_device_is_received_from(UNUSED void **state)
{
    struct offload *offload;
    int next[ENDPOINTS] = {0};

    open_one(RECEIVER, "TRANSPORT=verbs", "DEVICE=verbs", "FAULT_HOST=1");
    open_one(OUTSIDE, "TRANSPORT=verbs", "DEVICE=none", "FAULT_HOST=1");
    open_one(TAGGED, "TRANSPORT=verbs", "DEVICE=verbs", "FAULT_HOST=1");
    open_one(LATER, "TRANSPORT=verbs", "DEVICE=verbs", "FAULT_HOST=1");
    offload = eps[RECEIVER]->offload;
    know(OUTSIDE);
    know(TAGGED);
    know(LATER);
    meet();
    post(0, numbers[LATER]);
    while (!offload->shadow.is_lost) {
        offload->driver->stop(offload->device);
        progress_but(-1);
    }
    for (int i = 1; i < 8; i++)
        post(i, numbers[LATER]);
    for (int i = 0; i < 8; i++)
        send_one(LATER, i, i % 2 == 0);
    for (int i = 0; i < 8; i++)
        check(i, next);
    for (int i = 0; i < 8; i++)
        await_but(-1, LATER, sent[LATER].requests[i]);
    send_back(LATER);
    assert_int_equal(stat_of(RECEIVER, "device_matched"), 1); /* in meet() */
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_without_a_matching_adapter),
        cmocka_unit_test(a_peer_whose_adapter_compares_other_bits),
        cmocka_unit_test(a_format_of_tags_is_a_number),
        cmocka_unit_test(a_peer_over_shared_memory),
        cmocka_unit_test(a_peer_met_after_the_loss_of_the_device_is_received_from),
    };

    return cmocka_run_group_tests_name("verbs_mixed", tests, NULL, NULL);
}
