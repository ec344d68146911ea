/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conformance_bench.h - a device under test, and the operations of the tests.  Test code.
 *
 * A test gets a bench whose device was opened for it, and is closed after it.  Every
 * operation here must succeed, and every expectation must hold, or the test fails.  Events are
 * polled into a list; a test removes them one by one, in order, and at the end none may be
 * left.
 *
 * A test first states the capabilities that it needs (bench_needs...).  If the device, or its
 * target, lacks one, the test is skipped and gives the reason.
 */
#ifndef TESTING_CONFORMANCE_BENCH_H
#define TESTING_CONFORMANCE_BENCH_H

#include <stdlib.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/unit.h"
#include "testing/device/conformance.h"

#define BENCH_LIST     8 /* size of the device's list, if its target does not set it */
#define BENCH_UNTAGGED 8
#define BENCH_MANY     256   /* untagged buffers for tests with many messages */
#define BENCH_LONG     12000 /* a size that exceeds every packet */

extern const struct conformance_target *bench_target; /* of this run */
extern unsigned char bench_bytes[BENCH_LONG];         /* the payloads of messages */

struct bench {
    void *instance;
    struct mbx_device *device;
    struct mbx_device_limits limits;
    uint32_t list, commands, untagged;
    unsigned char *untagged_memory;
    uint16_t handled;
    struct mbx_device_event
        *events; /* [capacity]; polled and not yet checked: count from first */
    int capacity, first, count;
    uint64_t sent; /* messages; the next one's data */
};

/* A receive and its memory, followed by bytes that must not be written. */
struct landing {
    struct mbx_device_recv recv;
    unsigned char *bytes;
};

/* ---- around each test: *state is the bench ---- */

int bench_set_up(void **state);
int bench_set_up_least(void **state); /* a list of one, and the minimum of untagged buffers */
int bench_set_up_many(void **state);  /* BENCH_MANY untagged buffers, if possible */
int bench_tear_down(void **state);

#define BENCH_TEST(name) cmocka_unit_test_setup_teardown(name, bench_set_up, bench_tear_down)

/* ---- capabilities of the device; a test that needs a missing one is skipped ---- */

bool bench_can(const struct bench *b, unsigned caps);
bool bench_sends(enum conformance_kind kind);
void bench_needs(const struct bench *b, unsigned caps);
void bench_needs_kind(enum conformance_kind kind);
void bench_needs_time(void);
void bench_needs_list(const struct bench *b, uint32_t list);

/* ---- verbs that must succeed ---- */

void bench_give_buffer(struct bench *b, uint32_t buffer);
void bench_run(struct bench *b);
void bench_poll(struct bench *b);
struct landing bench_landing(uint32_t handle, uint32_t source, uint64_t tag, size_t size);
void bench_append(struct bench *b, const struct landing *landing);
/* Posts a receive with the largest size that a receive for this device may need. */
struct landing bench_post(struct bench *b, uint32_t handle, uint32_t source, uint64_t tag);
/* Posts, and lets the device take the receive. */
struct landing bench_place(struct bench *b, uint32_t handle, uint32_t source, uint64_t tag);
void bench_revoke(struct bench *b, uint32_t handle);
void bench_report(struct bench *b);
struct conformance_message bench_message(enum conformance_kind kind, uint32_t peer,
                                         uint64_t tag, const void *payload, size_t size);
struct conformance_message bench_send(struct bench *b, enum conformance_kind kind,
                                      uint32_t peer, uint64_t tag, size_t size);
/* A short eager message: 8 bytes that differ from message to message. */
struct conformance_message bench_send_short(struct bench *b, uint32_t peer, uint64_t tag);

/* ---- expected events ---- */

/* The oldest event, which stays in the list. */
const struct mbx_device_event *bench_peek(const struct bench *b);
/* Removes the oldest event of this type; DATA_VALID and FIN_SENT of different messages may come
 * in any order. */
struct mbx_device_event bench_take(struct bench *b, enum mbx_device_event_type type);
/* Removes the next event, which must have this type. */
struct mbx_device_event bench_next(struct bench *b, enum mbx_device_event_type type);
void bench_is_silent(struct bench *b);
/* Expects MATCHED with all its fields. */
struct mbx_device_event bench_matched(struct bench *b, const struct landing *landing,
                                      const struct conformance_message *message);
/* Checks DATA_VALID or INCOMPLETE after SIZE_LATER: the fields that MATCHED did not have. */
void bench_reports(const struct mbx_device_event *event,
                   const struct conformance_message *message);
/* Expects MATCHED, and all that must follow: the data, and the notification of the sender. */
void bench_received(struct bench *b, struct landing *landing,
                    const struct conformance_message *message);
/* Expects UNEXPECTED, and returns its buffer; it counts as handled. */
void bench_unexpected(struct bench *b, const struct conformance_message *message);
void bench_revoked(struct bench *b, struct landing *landing, int error);

/* ---- a verb, a poll, and the expected event ---- */

/* Sends a short message, and expects that this receive gets it; or that none does. */
void bench_meets(struct bench *b, struct landing *landing, uint32_t peer, uint64_t tag);
void bench_misses(struct bench *b, uint32_t peer, uint64_t tag);
/* Revokes a receive that has matched nothing. */
void bench_withdraws(struct bench *b, struct landing *landing);

/* ---- the tests ---- */

int conformance_match(void); /* conformance_match.c; returns the number of failures */
int conformance_data(void);  /* conformance_data.c */

#endif
