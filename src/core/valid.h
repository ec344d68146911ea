/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * valid.h - checks the invariants of an endpoint.  Part of core.h.
 *
 * Each function checks the invariants of one or two files, as numbered in their heads, and
 * names a broken one (base/check.h).  It changes nothing and allocates nothing.  The invariants
 * hold between the calls of public functions, and at the end of a round of progress, but not
 * always during them.
 *
 * With MBX_CHECKS, ep_check() is called at the end of each round that has moved something, and
 * by the fuzzers, the simulation and the random tests after each step.  Without, these
 * functions are not in the library.
 */
#ifndef CORE_VALID_H
#define CORE_VALID_H

#include "base/check.h"
#include "core/ep.h"

/* Checks all of the following, and the modules' own invariants (struct module). */
bool ep_is_valid(const struct mbx_ep *ep);

bool request_is_valid(const struct mbx_ep *ep); /* core.h I1, I4, I5, I7 */
bool peer_is_valid(const struct mbx_ep *ep);    /* core.h I2, I3, I6; peer.c */
bool lockword_is_valid(const struct mbx_ep *ep);
bool failure_is_valid(const struct mbx_ep *ep); /* and liveness.c I1 */

/* Visits each live request, even in a const endpoint. */
static inline void valid_each(const struct mbx_ep *ep, pool_visit_fn *visit, void *arg)
{
    pool_for_each((struct pool *)(uintptr_t)&ep->requests.pool, visit, arg);
}

static inline uint32_t valid_length(const struct list *head)
{
    const struct list *node;
    uint32_t length = 0;

    list_for_each (node, head)
        length++;
    return length;
}

/* Checks all invariants, if earlier calls have paid for it.  Aborts if one is broken. */
void ep_check_now_and_then(struct mbx_ep *ep);

/* The caller holds the lock, and no function of the endpoint is unfinished. */
static inline void ep_check(struct mbx_ep *ep)
{
    if (MBX_CHECKS)
        ep_check_now_and_then(ep);
}

#endif
