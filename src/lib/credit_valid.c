/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * credit_valid.c - checks the credit of peers and its use: the part of credit.h I1 that one
 * side can see, and I2 to I5.
 */
#include "lib/across.h"

#include "p2p/p2p.h"
#include "defer/defer.h"
#include "device/host/offload.h"
#include "core/core.h"
#include "transport/bounce.h"

struct kept {
    uint64_t envelopes, payload;
};

static void count_message(void *arg, void *object)
{
    const struct message *message = object;
    struct kept *kept = arg;

    kept->envelopes += message->match.state == MBX_MATCH_QUEUED;
    kept->payload += message_credit(message);
}

/* Messages that wait for the device's answer: kept, and in no engine. */
static uint64_t parked(const struct mbx_ep *ep)
{
    return ep_matches_here(ep) ? 0 : valid_length(&ep->offload->shadow.parked);
}

/* The most FINs that a peer can make us owe.  While there are FINS_MOST, its claims are
 * refused, we take none of its messages, and it gets no credit.  So further FINs can only come
 * from its window, and from messages that the user held through matched probes, of which there
 * were never more than pool_most(). */
static uint64_t fins_most(const struct mbx_ep *ep, const struct credit *credit)
{
    return FINS_MOST + BACKLOG_CLAIMS + 1 + 2 * credit->window + pool_most(&ep->messages);
}

static bool window_is_valid(const struct mbx_ep *ep, const struct peer *peer)
{
    const struct credit *credit = peer_credit(peer);

    return HOLDS("credit.h I1",
                 credit->kept_envelopes + credit->freed_envelopes <= credit->window ||
                     credit->window >= CREDIT_UNLIMITED) &&
           HOLDS("credit.h I1", credit->kept_payload <= credit->window_payload) &&
           HOLDS("credit.h I2", credit->window >= ep_credit(ep)->window) &&
           HOLDS("credit.h I2", credit->window_payload >= ep_credit(ep)->window_payload) &&
           HOLDS("credit.h I3", peer->outq.fins <= FINS_MOST || !ep_matches_here(ep) ||
                                    peer->outq.fins <= fins_most(ep, credit)) &&
           HOLDS("credit.h I4", credit->envelopes <= CREDIT_UNLIMITED) &&
           HOLDS("credit.h I4", credit->payload <= CREDIT_UNLIMITED);
}

static bool buffers_are_within(const struct mbx_ep *ep)
{
    const struct transport *bounce = ep_credit(ep)->bounce;
    uint64_t resident = bounce != NULL ? transport_bounce_resident(bounce) : 0;

    return HOLDS("credit.h I5", resident == 0 || ep->stats.unexpected_bytes_max + resident <=
                                                     ep->settings.unexpected_memory);
}

bool credit_is_valid(const struct mbx_ep *ep)
{
    const struct credit_pool *pool = ep_credit(ep);
    uint64_t envelopes = 0, payload = 0, extra = 0;
    struct kept kept = {0};

    for (uint32_t i = 0; i < ep->peers.count; i++) {
        const struct peer *peer = ep->peers.all[i];

        if (peer == NULL)
            continue;
        if (!window_is_valid(ep, peer))
            return false;
        envelopes += peer_credit(peer)->kept_envelopes;
        payload += peer_credit(peer)->kept_payload;
        extra += (peer_credit(peer)->window - pool->window) * CREDIT_ENVELOPE +
                 peer_credit(peer)->window_payload - pool->window_payload;
    }
    pool_for_each((struct pool *)(uintptr_t)&ep->messages, count_message, &kept);
    return HOLDS("credit.h I2", extra + pool->extra == pool->extra_all) &&
           HOLDS("credit.h I1", envelopes == kept.envelopes + parked(ep)) &&
           HOLDS("credit.h I1", payload == kept.payload) && buffers_are_within(ep);
}
