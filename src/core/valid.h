/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * valid.h - do the invariants of an endpoint hold?  Part of core.h.
 *
 * Each function looks at the invariants of one or two files, as their heads number them, and
 * names the one that is broken (base/check.h).  They change nothing and allocate nothing.  They
 * hold between the calls of the public functions, and at the end of a round of progress; while
 * such a function runs, they may not.
 *
 * With MBX_CHECKS, ep_check() is called at the end of each round that has moved something, and
 * by the fuzzers, the simulation and the random tests after each step.  Without, these
 * functions are not in the library.
 */
#ifndef CORE_VALID_H
#define CORE_VALID_H

#include "base/check.h"
#include "core/ep.h"

/* All that follow, and what the modules say of themselves (struct module). */
bool ep_is_valid(const struct mbx_ep *ep);

bool request_is_valid(const struct mbx_ep *ep); /* core.h I1, I4, I5, I7 */
bool peer_is_valid(const struct mbx_ep *ep);    /* core.h I2, I3, I6; peer.c */
bool lockword_is_valid(const struct mbx_ep *ep);
bool failure_is_valid(const struct mbx_ep *ep); /* and what liveness.c knows of peers */

/* Visits each live request, also of an endpoint that the caller does not change. */
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

/* Looks, if the calls before have paid for what that costs.  Aborts if something is wrong. */
void ep_check_now_and_then(struct mbx_ep *ep);

/* The caller has the lock, and is in no other function of the endpoint. */
static inline void ep_check(struct mbx_ep *ep)
{
    if (MBX_CHECKS)
        ep_check_now_and_then(ep);
}

#endif
