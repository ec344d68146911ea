/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bypass.h - messages that do not come through the device, but by another path.
 *
 *   device's path ──> device ──MATCHED, UNEXPECTED──> shadow ──> engine
 *   another path ───────────────────────────────────> bypass ──> engine
 *                                                       │
 *                                          parked  m4 - m5 - m7     oldest first
 *                                                  │    │    └ fits a receive that is being revoked
 *                                                  │    └───── after m4, from the same source
 *                                                  └────────── a receive is reclaimed for it
 *
 * Such a message is compared with the whole shadow list, like any other.  If the oldest receive
 * that it fits is in software only, the message gets it at once; if no receive fits, the
 * message is kept as unexpected.  If the device holds that receive, the message is parked until
 * the device has answered:
 *
 *   the answer is in time    the message gets the receive
 *   the answer is too late   the device had matched the receive; the message is compared again
 *   the device is lost       as above, once all events of the device are handled; a receive that
 *                            was reclaimed for the message goes to the message
 *
 * A parked message has not arrived.  No probe sees it, and no posted receive takes it.  So
 * parking a message unnecessarily does no harm.  Parked messages are:
 *
 *   - a message that follows a parked one from its source, because the two must stay in order;
 *   - a message that fits a receive that is being revoked, for whatever reason: until the
 *     device has answered, that receive may still be pending, and a younger receive must not
 *     get the message.  (An unexpected message of the device may pass such a receive: the entry
 *     cannot become active until the message is counted, so the revoke will succeed.)
 *
 * A source has one path.  Messages from different sources have no order, and a message that is
 * not parked may overtake a parked one.
 *
 * While a message is parked no receive is handed over.  So a message that comes too late for
 * one receive after another must at last find the device empty.
 *
 * Invariants (bypass_is_valid)
 *   I1  parked is in the order of arrival; parked_from counts its messages by source
 *   I2  message->recv is RECLAIMED and names the message, and no other message names it
 *   I3  a parked message has a receive reclaimed for it, or fits one that is being revoked, or
 *       follows one from its source, or must_recheck is set: the next poll looks at it
 */
#ifndef DEVICE_HOST_BYPASS_H
#define DEVICE_HOST_BYPASS_H

#include "device/host/shadow.h"

/* Bypass: the path of a message that does not come through the device */
/* Parked: a bypass message that waits for an answer of the device, and does not
 * count as arrived yet */
/* bypass_arrive - a message has come by another path.  The caller has set its envelope; the
 * other fields belong to this file until met() or kept() returns the message, from this call or
 * from a later shadow_poll(). */
void bypass_arrive(struct shadow *shadow, struct shadow_message *message);

/* bypass_is_clear - is it certain that no message of another path has to wait?  Then the owner
 * may treat the message like one of the device's, and calls shadow_taken() for the receive that
 * it meets. */
static inline bool bypass_is_clear(const struct shadow *shadow)
{
    return shadow->stats.in_device == 0 && list_is_empty(&shadow->parked);
}

/* bypass_has_of - may a message from this source be parked? */
static inline bool bypass_has_of(const struct shadow *shadow, uint32_t source)
{
    return shadow->parked_from[source % SHADOW_SOURCES] != 0;
}

/* ---- for shadow.c ---- */

void bypass_init(struct shadow *shadow);

/* Looks at the parked messages again, if something has changed. */
void bypass_recheck(struct shadow *shadow);

/* The device was asked to revoke recv; the revoke was in time; it was too late. */
void bypass_asked(struct shadow *shadow, struct shadow_recv *recv);
void bypass_in_time(struct shadow *shadow, struct shadow_recv *recv);
void bypass_too_late(struct shadow *shadow, struct shadow_recv *recv);

bool bypass_is_valid(const struct shadow *shadow);

#endif
