/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.h - counts a client's empty polls, and yields the core: idle.c.
 */
#ifndef DOOR_IDLE_H
#define DOOR_IDLE_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

#define DOOR_IDLE_POLLS 32u

/* Polls of one object that have found nothing. */
struct door_idle {
    unsigned polls;    /* consecutive */
    uint64_t since_ns; /* the time of the DOOR_IDLE_POLLS-th of them */
    uint64_t limit_ns; /* minimum duration after since_ns before the core is yielded */
};

/* is_oversubscribed: there are more ranks here than cores (base/launcher.h). */
void door_idle_init(struct door_idle *idle, bool is_oversubscribed);
/* Called after every DOOR_IDLE_POLLS empty polls: has the client polled for long enough?  If so,
 * the count restarts. */
bool door_idle_is_long(struct door_idle *idle);

/* Counts an empty poll.  True: the caller must call sys_yield(), without a lock. */
static inline bool door_idle_tires(struct door_idle *idle)
{
    return unlikely(++idle->polls % DOOR_IDLE_POLLS == 0) && door_idle_is_long(idle);
}

/* A poll has found something: the count restarts. */
static inline void door_idle_ends(struct door_idle *idle)
{
    idle->polls = 0;
}

#endif
