/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shadow_testing.h - an owner of a shadow, over a device that is worked by stepped.  Test code.
 *
 *   test ── owner_post(), owner_cancel() ──> engine, shadow ── commands ──> stepped device
 *   test <── outcome, notified, kept, ... ── owner's callbacks <── events ── stepped device
 *
 * A test gets an owner whose device holds 8 receives and whose shadow hands over all that it
 * can; owner_reopen() makes another.  Receives have numbers, below OWNER_RECVS; messages are
 * of peer 2.
 */
#ifndef TESTING_SHADOW_TESTING_H
#define TESTING_SHADOW_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/base.h"
#include "base/mem.h"
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
    enum outcome outcome; /* the last thing that was told */
    int notified;         /* how often something was */
    int next;             /* posted as soon as this one is matched; 0: none */
    bool is_cancelled;
    const struct mbx_match_msg *given; /* the message that the device held */
};

struct owner {
    struct stepped stepped;
    struct shadow shadow;
    struct mbx_match match;
    struct posted recvs[OWNER_RECVS];
    struct mbx_match_msg msgs[OWNER_RECVS];
    uint32_t held[OWNER_RECVS]; /* held_keep() of each */
    int kept;                   /* messages without a receive */
    int offered;                /* calls of packet() */
    int refusals;               /* so many more are refused */
    uint16_t handled_within;    /* what counted as handled when packet() was called last */
    int lost;
    int owed;
    uint64_t owed_sender; /* the last one */
    int logged;           /* lines */
};

extern const struct shadow_events owner_events;

/* ---- around each test: *state is the owner ---- */

int owner_set_up(void **state);
int owner_tear_down(void **state);

#define OWNER_TEST(name) cmocka_unit_test_setup_teardown(name, owner_set_up, owner_tear_down)

/* Another device, of this configuration (NULL: an able one), and another shadow of it. */
void owner_reopen(struct owner *o, const struct stepped_config *device, uint32_t list,
                  uint64_t threshold);

/* ... that is given unexpected messages to hold. */
void owner_reopen_holding(struct owner *o, const struct stepped_config *device, uint32_t list,
                          uint64_t threshold);

/* A shadow needs so many pieces of memory; without one of them it is not made, and leaves nothing. */
void owner_lacks_memory(bool holds, uint64_t pieces);

/* ---- the user ---- */

struct shadow_recv *owner_post_sized(struct owner *o, int i, uint32_t source, uint64_t tag,
                                     uint64_t ignore, size_t size);
struct shadow_recv *owner_post(struct owner *o, int i, uint32_t source, uint64_t tag);
/* ... and the device has it. */
void owner_place(struct owner *o, int i, uint32_t source, uint64_t tag);
/* Receive i finds message number `message`.  False: it has it, now. */
bool owner_find(struct owner *o, int i, int message, uint64_t tag, size_t size);
/* True: it is done. */
bool owner_cancel(struct owner *o, int i);
bool owner_claim(struct owner *o, int i);

/* ---- the peer, and the device ---- */

/* A message on the wire; its first packet with the device; a short one that is. */
void owner_put(struct owner *o, enum stepped_kind kind, uint64_t tag, uint64_t size,
               bool wants_fin);
void owner_begin(struct owner *o, enum stepped_kind kind, uint64_t tag, uint64_t size,
                 bool wants_fin);
void owner_arrive(struct owner *o, uint64_t tag);
/* The device says this, whether it is so or not. */
void owner_say(struct owner *o, const struct mbx_device_event *event);

/* ---- the shadow ---- */

void owner_poll(struct owner *o);
/* Until both sides have nothing to do. */
void owner_settle(struct owner *o);
/* A poll; behind it receive 0 has come to this, and so many handles are free. */
void owner_hears(struct owner *o, enum outcome outcome, uint32_t free_handles);
uint32_t owner_free_handles(const struct owner *o);
/* The number-th command that waits, buffers not counted. */
const struct tm_command *owner_waiting_command(const struct owner *o, uint32_t number);

#endif
