/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * soft.h - the software device's state machine: what device.h describes, and nothing else.
 *
 *                commands                       arrivals
 *                   |                              |
 *   inactive  ──────+──>  active list  <───────────+        held messages
 *   (a queue)   in sync   (a matching engine: entries and held messages)
 *
 * It has no thread, no clock, no wire and no queue: a driver (or a test, in any order that it
 * likes) calls soft_command() with the oldest command, soft_match() with the oldest packet of
 * a sender, and moves the data of what matched.  Events leave through emit(), which must have
 * room: soft_events() says how many there can be.
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
#ifndef DEVICE_SOFT_H
#define DEVICE_SOFT_H

#include <matchbox/device.h>
#include <matchbox/match.h>

#include "base/list.h"

enum soft_command_type {
    SOFT_APPEND = 1,
    SOFT_REVOKE,
    SOFT_TAKE_BACK,
    SOFT_SYNC,
    SOFT_HOLD,
    SOFT_UNHOLD,
    SOFT_COMMANDS
};

struct soft_command {
    uint8_t type; /* enum soft_command_type */
    uint16_t handled;
    uint32_t handle; /* HOLD, UNHOLD: the message's number */
    struct mbx_device_envelope envelope;
    uint64_t ignore;
    uint64_t buf; /* an address of the application's */
    uint64_t size;
};

enum soft_state { SOFT_FREE, SOFT_INACTIVE, SOFT_ACTIVE, SOFT_MATCHED };

/* A receive that the device holds. */
struct soft_entry {
    struct mbx_match_recv match; /* on the active list */
    struct list node;            /* on inactive */
    enum soft_state state;
    uint64_t buf, size;
};

struct soft_held {
    struct mbx_match_msg match;
    bool is_held;
};

typedef void soft_emit_fn(void *arg, const struct mbx_device_event *event);

struct soft_config {
    uint32_t list;         /* entries, and held messages */
    uint32_t counter_bits; /* of found and handled, 1 to 16; 0: 16.  A test may shrink it */
    uint64_t seed;         /* of the engine's hash */
    soft_emit_fn *emit;
    void *arg;
};

struct soft {
    struct mbx_match active;
    struct list inactive;
    struct soft_entry *entries; /* [list], by handle */
    struct soft_held *held;     /* [list], by number */
    uint32_t list;
    uint16_t found, handled, counter_mask;
    soft_emit_fn *emit;
    void *arg;
};

/* 0; -ENOMEM. */
int soft_init(struct soft *soft, const struct soft_config *config);
void soft_fini(struct soft *soft);

/* Events that can be unread at a time, with so many untagged buffers. */
static inline uint32_t soft_events(uint32_t list, uint32_t untagged)
{
    return 5 * list + untagged + 2;
}

/*
 * soft_command - performs a command.
 *
 * Returns    0; -EPROTO the command makes no sense (a handle out of range or in use, an
 *            unknown type): nothing happened.
 */
int soft_command(struct soft *soft, const struct soft_command *command);

/* soft_match - a tagged message has arrived: the oldest active entry that accepts it, which
 * leaves the list, or NULL.  Then it is for the caller to pass the message on and to call
 * soft_found(), or to hold the sender back. */
struct soft_entry *soft_match(struct soft *soft, const struct mbx_device_envelope *envelope);

/* soft_found - a tagged message has been passed to software. */
void soft_found(struct soft *soft);

/* soft_release - the data of a matched entry has been moved, or never will be. */
void soft_release(struct soft *soft, struct soft_entry *entry);

static inline uint32_t soft_handle(const struct soft *soft, const struct soft_entry *entry)
{
    return (uint32_t)(entry - soft->entries);
}

/* soft_is_in_sync - has software handled all that it was given? */
static inline bool soft_is_in_sync(const struct soft *soft)
{
    return ((soft->found ^ soft->handled) & soft->counter_mask) == 0;
}

/* soft_is_valid - do all invariants hold?  For tests. */
bool soft_is_valid(const struct soft *soft);

#endif
