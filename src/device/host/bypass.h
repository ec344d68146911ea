/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bypass.h - messages that come past the device, by another path.
 *
 *   device's path ──> device ──MATCHED, UNEXPECTED──> shadow ──> engine
 *   another path ───────────────────────────────────> bypass ──> engine
 *                                                       │
 *                                          parked  m4 - m5 - m7     oldest first
 *                                                  │    │    └ fits a receive that is asked back
 *                                                  │    └───── after m4, of the same source
 *                                                  └────────── a receive is reclaimed for it
 *
 * Such a message is compared with the whole shadow list, like any other.  If the oldest receive
 * that it fits is in software only, it has it at once, and if there is none it is kept.  If the
 * device holds that receive, the message is parked while the device is asked:
 *
 *   it is back in time       the receive is the message's
 *   it is too late           the device had matched it; the message is looked at again
 *   the device is lost       the same, after all that it had said has been heard: what was
 *                            reclaimed for the message is the message's
 *
 * A parked message has not arrived.  No probe sees it, no receive that is posted takes it.  So
 * nothing is wrong with parking a message that need not be, and these are:
 *
 *   - one behind a parked one of its source, because they must not change places;
 *   - one that fits a receive that is asked back, whoever wants it, because until the device
 *     has answered that receive may still be pending, and then a younger one must not have the
 *     message.  (An unexpected message of the device may pass such a receive: until it is
 *     counted the entry cannot become active, so the answer will be yes.)
 *
 * A source has one path.  Messages of different sources have no order, and one that is not
 * parked may go before one that is.
 *
 * While a message is parked nothing is handed over.  So a message that is too late for one
 * receive after the other comes to an end of those that the device holds.
 *
 * Invariants (bypass_is_valid)
 *   I1  parked is in the order of arrival; parked_from counts what is on it
 *   I2  message->recv is RECLAIMED, and names the message; it is on no other
 *   I3  a parked message has a receive reclaimed for it, or fits one that is asked back, or
 *       stands behind one of its source, or must_recheck is set: the next poll looks at it
 */
#ifndef DEVICE_HOST_BYPASS_H
#define DEVICE_HOST_BYPASS_H

#include "device/host/shadow.h"

/* Glossary: bypass - the way of a message that does not come through the device */
/* Glossary: parked - a bypass message that waits for an answer of the device; it has not
 * arrived */
/* bypass_arrive - a message has come past the device: envelope is set, the rest is ours.
 * It is given back by met() or kept(), from here or from a later shadow_poll(). */
void bypass_arrive(struct shadow *shadow, struct shadow_message *message);

/* bypass_is_clear - can no message of another path have to wait?  Then the owner may treat it
 * like one of the device's, and has shadow_taken() for the receive that it meets. */
static inline bool bypass_is_clear(const struct shadow *shadow)
{
    return shadow->stats.in_device == 0 && list_is_empty(&shadow->parked);
}

/* bypass_has_of - may a message of this source be parked? */
static inline bool bypass_has_of(const struct shadow *shadow, uint32_t source)
{
    return shadow->parked_from[source % SHADOW_SOURCES] != 0;
}

/* ---- for shadow.c ---- */

void bypass_init(struct shadow *shadow);

/* Looks at what is parked, if something has changed. */
void bypass_recheck(struct shadow *shadow);

/* recv is asked back; its reclaim or cancel is over: it was in time, or it was too late. */
void bypass_asked(struct shadow *shadow, struct shadow_recv *recv);
void bypass_in_time(struct shadow *shadow, struct shadow_recv *recv);
void bypass_too_late(struct shadow *shadow, struct shadow_recv *recv);

bool bypass_is_valid(const struct shadow *shadow);

#endif
