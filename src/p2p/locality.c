/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * locality.c - how long copies take; locality.h tells why.
 */
#include "p2p/locality.h"

/* May the limit depend on peer? */
static bool is_auto(const struct mbx_ep *ep, const struct peer *peer)
{
    return ep->settings.eager_limit == SETTING_AUTO && peer->can_read &&
           peer->link->transport->limits.is_copy;
}

static bool is_without_core(const struct mbx_ep *ep, const struct peer *peer)
{
    return ep->settings.oversubscribed == OVERSUBSCRIBED_YES && is_auto(ep, peer);
}

size_t locality_eager_max(const struct mbx_ep *ep, const struct peer *peer)
{
    return peer->is_far || is_without_core(ep, peer) ? min_size(ep->eager_max, ep->short_max)
                                                     : ep->eager_max;
}

bool locality_is_too_far(const struct mbx_ep *ep, struct peer *peer)
{
    if (unlikely(is_without_core(ep, peer)))
        return true;
    return unlikely(peer->is_far) && ++peer->locality_turn % LOCALITY_FAR != 0;
}

bool locality_is_asked(const struct mbx_ep *ep, struct peer *peer)
{
    if (!is_auto(ep, peer))
        return false;
    return peer->is_far || ++peer->locality_turn % LOCALITY_NEAR == 0;
}

void locality_note(struct peer *peer, size_t bytes, uint64_t ns)
{
    if (ns * LOCALITY_RATE > bytes)
        peer->locality_votes += peer->locality_votes < LOCALITY_VOTES;
    else
        peer->locality_votes -= (uint8_t)min_size(peer->locality_votes, peer->is_far ? 2 : 1);
    if (peer->locality_votes == LOCALITY_VOTES)
        peer->is_far = true;
    if (peer->locality_votes == 0)
        peer->is_far = false;
}
