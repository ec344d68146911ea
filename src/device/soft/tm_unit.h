/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm_unit.h - the software device's state machine: what device.h describes, and nothing else.
 *
 *                commands                       arrivals
 *                   |                              |
 *   inactive  ──────+──>  active list  <───────────+        held messages
 *   (a queue)   in sync   (a matching engine: entries and held messages)
 *
 * It has no thread, no clock, no wire and no queue: a driver (or a test, in any order that it
 * likes) calls tm_command() with the oldest command, tm_match() with the oldest packet of
 * a sender, and moves the data of what matched.  Events leave through emit(), which must have
 * space: tm_events() says how many there can be.
 *
 * The active list is the engine of match.h.  That gives every arrival the oldest entry that
 * accepts it at constant cost, and every entry that becomes active the oldest held message.
 *
 * Invariants
 *   I1  entries that are active are older than those that are not
 *   I2  found - handled (mod the counter) is how many unexpected messages software has not
 *       reported; entries become active only when it is 0
 *   I3  an entry is on exactly one of: nothing (free), inactive, the active list, or it is
 *       matched and its driver moves its data
 */
#ifndef DEVICE_SOFT_TM_UNIT_H
#define DEVICE_SOFT_TM_UNIT_H

#include <matchbox/device.h>
#include <matchbox/match.h>

#include "base/list.h"

enum tm_command_type { TM_APPEND = 1, TM_REVOKE, TM_SYNC, TM_HOLD, TM_UNHOLD, TM_COMMANDS };

struct tm_command {
    uint8_t type; /* enum tm_command_type */
    uint16_t handled;
    uint32_t handle; /* HOLD, UNHOLD: the message's number */
    struct mbx_device_envelope envelope;
    uint64_t ignore;
    uint64_t buf; /* an address of the application's */
    uint64_t size;
};

/* Glossary: armed entry - an entry that may match, because no unexpected message is on its way
 * to the host */
enum tm_state { TM_FREE, TM_INACTIVE, TM_ACTIVE, TM_MATCHED };

/* A receive that the device holds. */
struct tm_entry {
    struct mbx_match_recv match; /* on the active list */
    struct list node;            /* on inactive */
    enum tm_state state;
    uint64_t buf, size;
};

struct tm_held {
    struct mbx_match_msg match;
    bool is_held;
};

typedef void tm_emit_fn(void *arg, const struct mbx_device_event *event);

struct tm_config {
    uint32_t list;         /* entries, and held messages */
    uint32_t counter_bits; /* of found and handled, 1 to 16; 0: 16.  A test may shrink it */
    uint64_t seed;         /* of the engine's hash */
    tm_emit_fn *emit;
    void *arg;
};

/* Glossary: tag-matching unit (`tm_unit`) - the state machine of the software device */
struct tm_unit {
    struct mbx_match active;
    struct list inactive;
    struct tm_entry *entries; /* [list], by handle */
    struct tm_held *held;     /* [list], by number */
    uint32_t list;
    uint16_t found, handled, counter_mask;
    tm_emit_fn *emit;
    void *arg;
};

/* 0; -ENOMEM. */
int tm_init(struct tm_unit *unit, const struct tm_config *config);
void tm_fini(struct tm_unit *unit);

/* Events that can be unread at a time, with so many untagged buffers. */
static inline uint32_t tm_events(uint32_t list, uint32_t untagged)
{
    return 5 * list + untagged + 1;
}

/*
 * tm_command - performs a command.
 *
 * Returns    0; -EPROTO the command makes no sense (a handle out of range or in use, an
 *            unknown type), or an error of the engine: nothing happened.
 */
int tm_command(struct tm_unit *unit, const struct tm_command *command);

/* tm_match - a tagged message has arrived: the oldest active entry that accepts it, which
 * leaves the list, or NULL.  Then it is for the caller to pass the message on and to call
 * tm_found(), or to hold the sender back. */
struct tm_entry *tm_match(struct tm_unit *unit, const struct mbx_device_envelope *envelope);

/* tm_found - a tagged message has been passed to software. */
void tm_found(struct tm_unit *unit);

/* tm_release - the data of a matched entry has been moved, or never will be. */
void tm_release(struct tm_unit *unit, struct tm_entry *entry);

static inline uint32_t tm_handle(const struct tm_unit *unit, const struct tm_entry *entry)
{
    return (uint32_t)(entry - unit->entries);
}

/* tm_is_in_sync - has software handled all that it was given? */
static inline bool tm_is_in_sync(const struct tm_unit *unit)
{
    return ((unit->found ^ unit->handled) & unit->counter_mask) == 0;
}

/* tm_is_valid - do all invariants hold?  For tests. */
bool tm_is_valid(const struct tm_unit *unit);

#endif
