/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm_unit.h - the software device's state machine: the contract of device.h, and nothing else.
 *
 *                commands                       arrivals
 *                   |                              |
 *   inactive  ──────+──>  active list  <───────────+        held messages
 *   (a queue)   in sync   (a matching engine: entries and held messages)
 *
 * It has no thread, no clock, no transport and no queue: a driver (or a test, in any order)
 * calls tm_command() with the oldest command, tm_match() with the oldest packet of a sender,
 * and moves the data of matches.  Events leave through emit(), which must have space:
 * tm_events() is the most that can be unread.
 *
 * The active list is the engine of match.h.  It finds the oldest entry that accepts an arrival,
 * at constant cost, and the oldest held message that an entry accepts when it becomes active.
 *
 * Invariants
 *   I1  active entries are older than inactive ones
 *   I2  found - handled (mod the counter) is the number of unexpected messages that software
 *       has not reported; entries become active only when it is 0
 *   I3  an entry is in exactly one place: nowhere (free), inactive, the active list, or its
 *       driver (matched; the driver moves its data)
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
    uint64_t buf; /* an address in the application */
    uint64_t size;
};

/* Armed entry: an entry that may match, because no unexpected message is on its way
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
    uint32_t counter_bits; /* of found and handled, 1 to 16; 0: 16.  Tests shrink them */
    uint64_t seed;         /* of the engine's hash */
    tm_emit_fn *emit;
    void *arg;
};

/* Tag-matching unit (`tm_unit`): the state machine of the software device */
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

/* Events that can be unread at a time, with this many untagged buffers. */
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

/* tm_match - a tagged message has arrived: returns the oldest active entry that accepts it,
 * taken off the list, or NULL.  After NULL the caller passes the message on and calls
 * tm_found(), or holds the sender back. */
struct tm_entry *tm_match(struct tm_unit *unit, const struct mbx_device_envelope *envelope);

/* tm_found - the caller has passed a tagged message to software. */
void tm_found(struct tm_unit *unit);

/* tm_release - the data of a matched entry has been moved, or never will be. */
void tm_release(struct tm_unit *unit, struct tm_entry *entry);

static inline uint32_t tm_handle(const struct tm_unit *unit, const struct tm_entry *entry)
{
    return (uint32_t)(entry - unit->entries);
}

/* tm_is_in_sync - has software handled all messages that were passed to it? */
static inline bool tm_is_in_sync(const struct tm_unit *unit)
{
    return ((unit->found ^ unit->handled) & unit->counter_mask) == 0;
}

/* tm_is_valid - do all invariants hold?  For tests. */
bool tm_is_valid(const struct tm_unit *unit);

#endif
