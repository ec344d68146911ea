/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shadow_testing.h - an owner of a shadow, over a stepped device.  Test code.
 *
 *   test ── owner_post(), owner_cancel() ──> engine, shadow ── commands ──> stepped device
 *   test <── outcome, notified, kept, ... ── owner's callbacks <── events ── stepped device
 *
 * A test gets an owner whose device holds 8 receives and whose shadow hands over everything that it
 * can; owner_reopen() makes another.  Receives have numbers below OWNER_RECVS; all messages
 * are from peer 2.
 */
#ifndef TESTING_SHADOW_TESTING_H
#define TESTING_SHADOW_TESTING_H

#include <stdlib.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/unit.h"
#include "device/host/held.h"
#include "device/host/shadow.h"
#include "testing/device/stepped_device.h"

#define OWNER_RECVS 24
#define ANY_TAG     UINT64_MAX

enum outcome { NONE, MATCHED, VALID, INCOMPLETE, LOST, REVOKED, TAKEN, GIVEN };

struct posted {
    struct mbx_match_recv match;
    struct shadow_recv shadow;
    unsigned char buf[STEPPED_EAGER_MAX];
    enum outcome outcome; /* the last callback */
    int notified;         /* number of callbacks */
    int next;             /* receive to post as soon as this one is matched; 0: none */
    bool is_cancelled;
    const struct mbx_match_msg *given; /* the held message */
};

struct owner {
    struct stepped stepped;
    struct shadow shadow;
    struct mbx_match match;
    struct posted recvs[OWNER_RECVS];
    struct mbx_match_msg msgs[OWNER_RECVS];
    uint32_t held[OWNER_RECVS]; /* result of held_keep() for each */
    int kept;                   /* messages without a receive */
    int offered;                /* calls of packet() */
    int refusals;               /* number of further messages to refuse */
    uint16_t handled_within;    /* the count of handled messages at the last call of packet() */
    int lost;
    int owed;
    uint64_t owed_sender; /* the last one */
    int logged;           /* lines of the log */
};

extern const struct shadow_events owner_events;

/* ---- around each test: *state is the owner ---- */

int owner_set_up(void **state);
int owner_tear_down(void **state);

#define OWNER_TEST(name) cmocka_unit_test_setup_teardown(name, owner_set_up, owner_tear_down)

/* Makes another device, of this configuration (NULL: with all capabilities), and another shadow
 * of it. */
void owner_reopen(struct owner *o, const struct stepped_config *device, uint32_t list,
                  uint64_t threshold);

/* As owner_reopen(), with a device that is given unexpected messages to hold. */
void owner_reopen_holding(struct owner *o, const struct stepped_config *device, uint32_t list,
                          uint64_t threshold);

/* A shadow needs this many pieces of memory; without any one of them opening fails, and leaves
 * nothing. */
void owner_lacks_memory(bool holds, uint64_t pieces);

/* ---- the user ---- */

struct shadow_recv *owner_post_sized(struct owner *o, int i, uint32_t source, uint64_t tag,
                                     uint64_t ignore, size_t size);
struct shadow_recv *owner_post(struct owner *o, int i, uint32_t source, uint64_t tag);
/* As owner_post(); the device then has the receive. */
void owner_place(struct owner *o, int i, uint32_t source, uint64_t tag);
/* Receive i finds message number `message`.  False: it has the message at once. */
bool owner_find(struct owner *o, int i, int message, uint64_t tag, size_t size);
/* True if it is done. */
bool owner_cancel(struct owner *o, int i);
bool owner_claim(struct owner *o, int i);

/* ---- the peer, and the device ---- */

/* A message on the wire; its first packet at the device; a short message at the device. */
void owner_put(struct owner *o, enum stepped_kind kind, uint64_t tag, uint64_t size,
               bool wants_fin);
void owner_begin(struct owner *o, enum stepped_kind kind, uint64_t tag, uint64_t size,
                 bool wants_fin);
void owner_arrive(struct owner *o, uint64_t tag);
/* The device reports this event, whether it is true or not. */
void owner_say(struct owner *o, const struct mbx_device_event *event);

/* ---- the shadow ---- */

void owner_poll(struct owner *o);
/* Runs until both sides have nothing to do. */
void owner_settle(struct owner *o);
/* Polls; afterwards receive 0 has this outcome, and so many handles are free. */
void owner_hears(struct owner *o, enum outcome outcome, uint32_t free_handles);
uint32_t owner_free_handles(const struct owner *o);
/* The number-th waiting command, not counting buffers. */
const struct tm_command *owner_waiting_command(const struct owner *o, uint32_t number);

#endif
