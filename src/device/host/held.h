/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * held.h - unexpected messages that the device holds, and matches.
 *
 *   a message stays unexpected ── held_keep ── HOLD ──────────────> device: held
 *        │                                                            │
 *        │  a receive is posted that takes it                         │
 *        ├── the device may have it: held_post ── ADD ──> PAIRED ── MATCHED (HELD)
 *        │                                                            └──> owner's paired()
 *        └── it stays in software; or a probe takes the message
 *              held_leave ── UNHOLD ──────────────────────────────> UNHELD
 *
 * The message stays in its owner's matching engine; the device has a copy of its envelope.  The
 * engine is the shadow of the messages that the device holds, as the shadow list is the shadow
 * of its receives.  So when a receive is posted, the owner knows without asking which message
 * it takes, and the device will match it with the same message, because
 *
 *   - a message is given to hold after it has been compared with every receive posted before.
 *     If such a receive is in the device and accepts the message, it is PAIRED with an older
 *     one;
 *   - a receive that is handed over and is not PAIRED accepts no held message;
 *   - a receive that is PAIRED finds the same message in the device as in the engine, the
 *     oldest that it accepts: both keep the messages in the same order, because each message is
 *     given to hold when it is kept, or never;
 *   - the device performs commands in order, and compares an entry with the held messages
 *     before it activates the entry.  So no arriving message can meet the entry first.
 *
 * models/hold.pml checks this.  So a message that is to stay in software, or that a probe
 * takes, is taken without waiting for UNHELD: "it was matched before" cannot be the answer, and
 * a device that gives this answer has broken its contract.  A receive that is PAIRED gets its
 * message whatever becomes of the device.
 *
 * Invariants (held_is_valid)
 *   I1  a number is free, or the device was told of it and has not sent its last event for it
 *   I2  a receive that is PAIRED and a message that is HELD_PAIRED name each other
 */
#ifndef DEVICE_HOST_HELD_H
#define DEVICE_HOST_HELD_H

#include "device/host/shadow.h"

/* Instead of a number: the device does not hold the message. */
#define HELD_BY_NONE UINT32_MAX

/* held_keep - the owner keeps this message, which has met no receive.  Returns its number, for
 * the two functions below; or HELD_BY_NONE: the device will never hold it. */
uint32_t held_keep(struct shadow *shadow, const struct mbx_match_envelope *envelope,
                   void *message);

/* held_post - match was posted, and has taken the message with this number out of the engine.
 * True: paired() will be called once.  False: the receive gets the message now. */
bool held_post(struct shadow *shadow, struct shadow_recv *recv,
               const struct mbx_match_recv *match, void *buf, size_t size, uint32_t number);

/* held_leave - the message with this number has left its engine without held_post(). */
void held_leave(struct shadow *shadow, uint32_t number);

/* ---- for shadow.c ---- */

/* Does nothing if the device cannot hold messages.  0; -ENOMEM. */
int held_init(struct shadow *shadow);
void held_fini(struct shadow *shadow);

/* Handle MATCHED with HELD; and UNHELD. */
void held_matched(struct shadow *shadow, const struct mbx_device_event *event);
void held_left(struct shadow *shadow, const struct mbx_device_event *event);

/* The device is lost, and has not reported the match of recv with its held message. */
void held_lose(struct shadow *shadow, struct shadow_recv *recv);

bool held_is_valid(const struct shadow *shadow);

#endif
