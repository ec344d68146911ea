/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * valid.h - checks of the invariants of the provider's objects.
 *
 * As in src/core/valid.h: the functions name the invariant that is broken, change nothing, and are
 * in the provider only with MBX_CHECKS.  Then each read of a queue that has found something checks
 * the queue and, in proportion to the cost of a check, the endpoint of the completions.
 */
#ifndef PROVIDER_VALID_H
#define PROVIDER_VALID_H

#include "base/check.h"
#include "provider/cq.h"
#include "provider/ep.h"

/* op.c, send.h, multi.c, cancel.c.  The endpoint is locked. */
bool prov_ep_is_valid(const struct prov_ep *ep);
/* cq.c.  The queue is locked. */
bool prov_cq_is_valid(const struct prov_cq *cq);

/* Aborts if an invariant is broken.  Both are locked. */
void prov_check_now_and_then(const struct prov_cq *cq, struct prov_ep *ep);

static inline void prov_check(const struct prov_cq *cq, struct prov_ep *ep)
{
    if (MBX_CHECKS)
        prov_check_now_and_then(cq, ep);
}

#endif
