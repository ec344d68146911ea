/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.h - counts a client's empty polls, and yields the core: idle.c.
 */
#ifndef PROVIDER_IDLE_H
#define PROVIDER_IDLE_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

#define PROV_IDLE_POLLS 32u

/* Polls of one object that have found nothing. */
struct prov_idle {
    unsigned polls;   /* consecutive */
    int64_t since_ns; /* the time of the PROV_IDLE_POLLS-th of them */
    int64_t limit_ns; /* minimum duration after since_ns before the core is yielded */
};

/* True if the launcher, or the user, says that there are more ranks here than cores. */
bool prov_is_oversubscribed(void);
void prov_idle_init(struct prov_idle *idle);
/* Called after every PROV_IDLE_POLLS empty polls: has the client polled for long enough?  If so,
 * the count restarts. */
bool prov_idle_is_long(struct prov_idle *idle);
/* Yields the core. */
void prov_yield(void);

/* Counts an empty poll.  True: the caller must call prov_yield(), without a lock. */
static inline bool prov_idle_tires(struct prov_idle *idle)
{
    return unlikely(++idle->polls % PROV_IDLE_POLLS == 0) && prov_idle_is_long(idle);
}

/* A poll has found something: the count restarts. */
static inline void prov_idle_ends(struct prov_idle *idle)
{
    idle->polls = 0;
}

#endif
