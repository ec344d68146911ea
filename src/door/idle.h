/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.h - polls of a client that find nothing, and when they give the core away: idle.c.
 */
#ifndef DOOR_IDLE_H
#define DOOR_IDLE_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

#define DOOR_IDLE_POLLS 32u

/* Polls of one object by a client that have found nothing. */
struct door_idle {
    unsigned polls;   /* in a row */
    int64_t since_ns; /* the time of the DOOR_IDLE_POLLS-th of them */
    int64_t limit_ns; /* this long after it the core is given away */
};

/* is_oversubscribed: there are more ranks here than cores (base/launcher.h). */
void door_idle_init(struct door_idle *idle, bool is_oversubscribed);
/* DOOR_IDLE_POLLS more polls have found nothing: has the client polled for long enough?  If so, the count
 * begins again. */
bool door_idle_is_long(struct door_idle *idle);
/* Gives the core away. */
void door_yield(void);

/* One more poll has found nothing.  True: it is time for door_yield(), without a lock. */
static inline bool door_idle_tires(struct door_idle *idle)
{
    return unlikely(++idle->polls % DOOR_IDLE_POLLS == 0) && door_idle_is_long(idle);
}

/* A poll has found something. */
static inline void door_idle_ends(struct door_idle *idle)
{
    idle->polls = 0;
}

#endif
