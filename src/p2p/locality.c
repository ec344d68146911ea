/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * locality.c - how long copies take; locality.h tells why.
 */
#include "p2p/locality.h"

#include "transport/lend.h"

/* May the limit depend on peer? */
static bool is_auto(const struct mbx_ep *ep, const struct peer *peer)
{
    return ep->settings.eager_limit == SETTING_AUTO && peer->path.can_read &&
           peer->link->transport->limits.is_copy;
}

static bool is_without_core(const struct mbx_ep *ep, const struct peer *peer)
{
    return ep->settings.oversubscribed == OVERSUBSCRIBED_YES && is_auto(ep, peer);
}

/* May messages to peer be streams? */
static bool has_streams(const struct mbx_ep *ep, const struct peer *peer)
{
    return peer->path.can_read && peer->link->transport->limits.is_copy &&
           ep->offload == NULL &&
           (ep->settings.eager_limit != SETTING_AUTO ||
            (is_auto(ep, peer) && !ep_is_oversubscribed(ep)));
}

size_t locality_lent_max(const struct mbx_ep *ep, const struct peer *peer)
{
    return peer->path.is_far ? min_size(ep->limits.lent_max, LENT_FAR) : ep->limits.lent_max;
}

/* Goes the next message of several packets to a far peer as if that were near? */
static bool is_sample(const struct peer *peer)
{
    return (peer->path.turns + 1) % LOCALITY_FAR == 0;
}

bool locality_is_lent(const struct mbx_ep *ep, const struct peer *peer, size_t size)
{
    bool is_far = peer->path.is_far, is_long = size > ep->limits.eager_max;

    if (size > ep->limits.lent_max || !(is_long || (is_far && size <= LENT_FAR)) ||
        !has_streams(ep, peer) || ep_is_oversubscribed(ep) ||
        !list_is_empty(&peer->outq.list) || peer->sendside.is_deferred ||
        !transport_has_turns(peer->link, is_far ? SIZE_MAX : size))
        return false;
    return !is_far || is_sample(peer) || !is_long;
}

size_t locality_eager_max(const struct mbx_ep *ep, const struct peer *peer)
{
    if (peer->path.is_far || is_without_core(ep, peer))
        return min_size(ep->limits.eager_max, ep->limits.short_max);
    return has_streams(ep, peer) ? ep->limits.eager_max
                                 : min_size(ep->limits.eager_max, ep->limits.stream_from);
}

size_t locality_eager_most(const struct mbx_ep *ep)
{
    return ep->net.transport->limits.is_copy
               ? ep->limits.eager_max
               : min_size(ep->limits.eager_max, ep->limits.stream_from);
}

bool locality_is_too_far(const struct mbx_ep *ep, const struct peer *peer, size_t size)
{
    if (unlikely(is_without_core(ep, peer)))
        return true;
    if (size > ep->limits.stream_from &&
        (!has_streams(ep, peer) || backoff_is_on(&peer->path.streams)))
        return true;
    return unlikely(peer->path.is_far) && !is_sample(peer);
}

void locality_count(const struct mbx_ep *ep, struct peer *peer, size_t size)
{
    if (size > ep->limits.eager_max && size > ep->limits.lent_max)
        return; /* it goes by rendezvous in any case */
    if (peer->path.is_far)
        peer->path.turns++;
    if (size > ep->limits.stream_from)
        backoff_pass(&peer->path.streams);
}

bool locality_is_timed(const struct mbx_ep *ep, const struct peer *peer)
{
    if (!is_auto(ep, peer))
        return false;
    return peer->path.is_far ? peer->path.turns % LOCALITY_FAR == 0
                             : (peer->path.turns + 1) % LOCALITY_NEAR == 0;
}

void locality_leaves(struct peer *peer)
{
    if (!peer->path.is_far)
        peer->path.turns++;
}

void locality_note(struct peer *peer, size_t bytes, uint64_t ns)
{
    if (ns * LOCALITY_RATE > bytes)
        peer->path.votes += peer->path.votes < LOCALITY_VOTES;
    else
        peer->path.votes -= (uint8_t)min_size(peer->path.votes, peer->path.is_far ? 2 : 1);
    if (peer->path.votes == LOCALITY_VOTES)
        peer->path.is_far = true;
    if (peer->path.votes == 0)
        peer->path.is_far = false;
}
