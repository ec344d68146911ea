/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hold_valid.c - sends that wait at their sender, and the table in which their receiver sees
 * them: hold.c I1 to I6, offer.h I1, I3.
 */
#include "lib/across.h"

#include "rput/early.h"
#include "sendside/hold.h"
#include "sendside/offer.h"
#include "core/valid.h"

struct tally {
    uint32_t claims, unsure, locks;
    uint64_t count, old;  /* sends; of these, before fresh */
    uint32_t rtrs, known; /* RTRs; of these, before unread */
    uint32_t losers;
};

static uint32_t times_lost(const struct hold *hold, const struct request *req)
{
    uint32_t times = 0;

    for (uint32_t i = 0; i < hold->lost_count; i++)
        times += hold->lost[i] == req;
    return times;
}

static bool has_rtr(const struct mbx_ep *ep, const struct request *req)
{
    return mbx_match_first(&ep->holding->match, &req->held.envelope) != NULL;
}

/* One of the sends; is_old: it stands before fresh. */
static bool send_is_valid(const struct mbx_ep *ep, const struct peer *peer,
                          const struct request *req, bool is_old, struct tally *tally)
{
    const struct hold *hold = peer->hold;
    bool is_held = req->state == HOLD_HELD, is_locking = req->state == HOLD_LOCK;
    uint32_t lost = times_lost(hold, req);

    tally->count++;
    tally->old += is_old;
    tally->claims += !is_held;
    tally->locks += is_locking;
    tally->unsure += !is_held && !is_locking && (req->flags & REQUEST_WON) == 0;
    tally->losers += lost;
    return HOLDS("hold.c I1", PROTO_OF(req->state) == PROTO_HOLD) &&
           HOLDS("hold.c I1", req->peer == peer->number) &&
           HOLDS("hold.c I1", req->held.envelope.source == peer->number) &&
           HOLDS("hold.c I2", (req->held.state == MBX_MATCH_QUEUED) == is_old) &&
           HOLDS("hold.c I2", is_old || is_held) &&
           HOLDS("hold.c I5", lost == 0 || (lost == 1 && is_held && is_old)) &&
           HOLDS("hold.c I5", !is_old || !is_held || lost != 0 || !has_rtr(ep, req));
}

static bool sends_are_valid(const struct mbx_ep *ep, const struct peer *peer,
                            struct tally *tally)
{
    const struct hold *hold = peer->hold;
    bool is_old = true;
    struct list *node;

    list_for_each (node, &hold->sends) {
        is_old = is_old && node != hold->fresh;
        if (!send_is_valid(ep, peer, request_of_queue(node), is_old, tally))
            return false;
    }
    return HOLDS("hold.c I2", !is_old || hold->fresh == &hold->sends) &&
           HOLDS("hold.c I1", tally->count == hold->count) &&
           HOLDS("hold.c I5", tally->losers == hold->lost_count);
}

static bool rtrs_are_valid(const struct hold *hold, struct tally *tally)
{
    bool is_read = true;
    struct list *node;

    list_for_each (node, &hold->rtrs) {
        is_read = is_read && node != hold->unread;
        tally->rtrs++;
        tally->known += is_read;
        if (!HOLDS("hold.c I3", (rtr_of(node)->match.state == MBX_MATCH_QUEUED) == is_read))
            return false;
    }
    return HOLDS("hold.c I3", !is_read || hold->unread == &hold->rtrs) &&
           HOLDS("hold.c I3", tally->rtrs == hold->rtr_count) &&
           HOLDS("hold.c I3", tally->rtrs <= 2 * HOLD_RTRS);
}

static bool claims_are_valid(const struct hold *hold, const struct tally *tally)
{
    return HOLDS("hold.c I6", hold->claims == tally->claims) &&
           HOLDS("hold.c I6", hold->claims <= HOLD_CLAIMS) &&
           HOLDS("hold.c I6", hold->unsure == tally->unsure) &&
           HOLDS("hold.c I6", hold->unsure <= hold->claims) &&
           HOLDS("hold.c I6", tally->locks == hold->is_locking) &&
           HOLDS("hold.c I6", !hold->is_locking || hold->unsure == 0);
}

/* Nothing is left when it is over. */
static bool off_is_valid(const struct hold *hold)
{
    return HOLDS("hold.c I4", list_is_empty(&hold->sends)) &&
           HOLDS("hold.c I4", list_is_empty(&hold->rtrs)) &&
           HOLDS("hold.c I4", hold->claims == 0) && HOLDS("hold.c I4", hold->lost_count == 0) &&
           HOLDS("hold.c I4", hold->offer == NULL);
}

static bool on_is_valid(const struct mbx_ep *ep, const struct peer *peer)
{
    const struct hold *hold = peer->hold;

    return HOLDS("hold.c I1", peer->credit.envelopes == 0) &&
           HOLDS("hold.c I1", peer->early == NULL || peer->early->count == 0) &&
           HOLDS("hold.c I4", hold->epoch != 0) &&
           HOLDS("hold.c I4", hold->epoch <= ep->holding->epochs) &&
           HOLDS("hold.c I4", hold->from <= hold->last) &&
           HOLDS("hold.c I4", hold->is_partial == (hold->from != 0));
}

/* ---- the table ---- */

static bool entry_is_marked(const struct offer *offer, uint32_t i)
{
    return (offer->claimed >> i & 1) != 0;
}

static bool offer_is_valid(const struct hold *hold)
{
    const struct offer *offer = hold->offer;
    const struct list *node = hold->sends.next;

    if (offer == NULL)
        return true;
    if (!HOLDS("offer.h I1", offer->is_used) ||
        !HOLDS("offer.h I1", offer->count <= OFFER_ENTRIES))
        return false;
    for (uint32_t i = 0; i < offer->count; i++) {
        if ((offer->gone >> i & 1) != 0)
            continue;
        if (!HOLDS("offer.h I1", node == &offer->entries[i]->queue) ||
            !HOLDS("offer.h I3",
                   !offer->is_open ||
                       entry_is_marked(offer, i) == (offer->entries[i]->state != HOLD_HELD)))
            return false;
        node = node->next;
    }
    return HOLDS("offer.h I1", node == offer->next) &&
           HOLDS("offer.h I3", !offer->is_open || !hold->is_peeked) &&
           HOLDS("offer.h I3", !offer->is_open || offer->is_all == (node == &hold->sends));
}

static uint32_t offers_used(const struct mbx_ep *ep)
{
    uint32_t used = 0;

    for (uint32_t i = 0; ep->offers != NULL && i < ep->offers->count; i++)
        used += ep->offers->offers[i].is_used;
    return used;
}

/* ---- all ---- */

struct all {
    uint64_t held, old, known;
    uint32_t rtrs, offers;
};

static bool peer_hold_is_valid(const struct mbx_ep *ep, const struct peer *peer,
                               struct all *all)
{
    const struct hold *hold = peer->hold;
    struct tally tally = {0};

    if (!sends_are_valid(ep, peer, &tally) || !rtrs_are_valid(hold, &tally))
        return false;
    all->held += tally.count;
    all->old += tally.old;
    all->known += tally.known;
    all->rtrs += tally.rtrs;
    all->offers += hold->offer != NULL;
    return claims_are_valid(hold, &tally) && offer_is_valid(hold) &&
           (peer->is_held ? on_is_valid(ep, peer) : off_is_valid(hold));
}

static bool all_is_valid(const struct mbx_ep *ep, const struct all *all)
{
    const struct holding *holding = ep->holding;

    return HOLDS("hold.c I2", holding->match.count.msgs == all->old) &&
           HOLDS("hold.c I3", holding->match.count.recvs == all->known) &&
           HOLDS("hold.c I3", pool_live(&holding->rtrs) == all->rtrs) &&
           HOLDS("hold.c I1", ep->stats.held_now == all->held) &&
           HOLDS("offer.h I1", offers_used(ep) == all->offers);
}

static void count_held(void *arg, void *object)
{
    const struct request *req = object;
    uint64_t *held = arg;

    *held += PROTO_OF(req->state) == PROTO_HOLD;
}

bool hold_is_valid(const struct mbx_ep *ep)
{
    struct all all = {0};
    uint64_t held = 0;

    for (uint32_t i = 0; i < ep->peer_count; i++)
        if (ep->peers[i] != NULL && ep->peers[i]->hold != NULL &&
            !peer_hold_is_valid(ep, ep->peers[i], &all))
            return false;
    valid_each(ep, count_held, &held);
    return HOLDS("hold.c I1", held == all.held) &&
           (ep->holding == NULL || all_is_valid(ep, &all));
}
