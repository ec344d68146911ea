/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * valid.c - checks all invariants of an endpoint at intervals; valid.h.
 *
 * A check walks all requests, messages and peers.  So its frequency keeps the cost in
 * proportion: each call pays for CHECK_PAID entries, and a check is made when all entries have
 * been paid for.  A small endpoint is checked at each call.
 */
#include "core/valid.h"

#include "core/core.h"
#include "core/module.h"

/* Entries that each call pays for. */
#define CHECK_PAID 256

bool ep_is_valid(const struct mbx_ep *ep)
{
    return request_is_valid(ep) && peer_is_valid(ep) && lockword_is_valid(ep) &&
           failure_is_valid(ep) && module_is_valid(ep);
}

/* The number of slots that a check walks, including free ones. */
static uint64_t check_cost(const struct mbx_ep *ep)
{
    return ep->requests.pool.slot_count + ep->messages.slot_count + ep->peers.index.capacity +
           ep->contexts.table.capacity;
}

void ep_check_now_and_then(struct mbx_ep *ep)
{
    ep->check_paid += CHECK_PAID;
    if (ep->check_paid < check_cost(ep))
        return;
    ep->check_paid = 0;
    assert(ep_is_valid(ep));
}
