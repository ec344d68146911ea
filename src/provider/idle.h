/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.h - polls of a client that find nothing, and when they give the core away: idle.c.
 */
#ifndef PROVIDER_IDLE_H
#define PROVIDER_IDLE_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

#define PROV_IDLE_POLLS 32u

/* Looks of a client at one object that have found nothing. */
struct prov_idle {
    unsigned polls;   /* in a row */
    int64_t since_ns; /* the time of the PROV_IDLE_POLLS-th of them */
    int64_t limit_ns; /* so long behind that the core is given away */
};

/* Does the launcher, or the user, say that there are more ranks here than cores? */
bool prov_is_oversubscribed(void);
void prov_idle_init(struct prov_idle *idle);
/* Behind PROV_IDLE_POLLS looks more: has the client looked for long enough?  If so, it begins
 * anew. */
bool prov_idle_is_long(struct prov_idle *idle);
/* Gives the core away. */
void prov_yield(void);

/* One more poll has found nothing.  True: it is time for prov_yield(), without a lock. */
static inline bool prov_idle_tires(struct prov_idle *idle)
{
    return unlikely(++idle->polls % PROV_IDLE_POLLS == 0) && prov_idle_is_long(idle);
}

/* A poll has found something. */
static inline void prov_idle_ends(struct prov_idle *idle)
{
    idle->polls = 0;
}

#endif
