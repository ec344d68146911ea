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
 * The message stays where its owner keeps it, in his matching engine; what the device has is
 * its envelope.  His engine is the shadow of what the device holds, as the shadow list is of the
 * receives that it has.  So he knows, when a receive is posted, which message it takes, without
 * asking: and that is the one with which the device will match it.  For
 *
 *   - a message is given to hold when it has been compared with every receive posted before;
 *     of these the device has none that accepts it, and is not to be matched with an older one
 *     that it holds already;
 *   - a receive that is handed over and is not PAIRED accepts none of them;
 *   - a receive that is PAIRED finds the same message in the device as in the engine, the oldest
 *     that it accepts: both have them in one order, because each is given to hold when it is
 *     kept, or never;
 *   - commands are performed in their order, and an entry looks at what is held before it
 *     becomes active.  So no message that arrives meets it.
 *
 * models/hold.pml checks this.  So a message that is to stay in software, or that a probe takes, is
 * taken without waiting for UNHELD: "it was matched before" cannot be the answer, and a
 * device that gives it has broken its contract.  A receive that is PAIRED has its message,
 * whatever becomes of the device.
 *
 * Invariants (held_is_valid)
 *   I1  a number is free, or the device has been told of it and has not said its last of it
 *   I2  a receive that is PAIRED and a message that is HELD_PAIRED name each other
 */
#ifndef DEVICE_HOST_HELD_H
#define DEVICE_HOST_HELD_H

#include "device/host/shadow.h"

/* Instead of a number: the device does not hold it. */
#define HELD_BY_NONE UINT32_MAX

/* held_keep - the owner keeps this message, which has met no receive.
 * Its number, for the two below; or HELD_BY_NONE, and so it stays. */
uint32_t held_keep(struct shadow *shadow, const struct mbx_match_envelope *envelope,
                   void *message);

/* held_post - match was posted, and has taken the message of this number out of its engine.
 * True: paired() will tell, once.  False: the message is the receive's, now. */
bool held_post(struct shadow *shadow, struct shadow_recv *recv,
               const struct mbx_match_recv *match, void *buf, size_t size, uint32_t number);

/* held_leave - the message of this number has left its engine, for somebody else. */
void held_leave(struct shadow *shadow, uint32_t number);

/* ---- for shadow.c ---- */

/* If the device can hold messages.  0; -ENOMEM. */
int held_init(struct shadow *shadow);
void held_fini(struct shadow *shadow);

/* MATCHED with HELD; UNHELD. */
void held_matched(struct shadow *shadow, const struct mbx_device_event *event);
void held_left(struct shadow *shadow, const struct mbx_device_event *event);

/* The device is lost, and has not said with what it would have matched recv. */
void held_lose(struct shadow *shadow, struct shadow_recv *recv);

bool held_is_valid(const struct shadow *shadow);

#endif
