/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hold.c - the sender's half of matching at the sender.
 *
 * A send without envelope credit stays here, and so do all later ones to that peer.  The peer
 * is told once (HOLD) and answers with an RTR for each open receive that could take a message
 * of ours, in posting order, and for each one that is posted later.  They are compared here:
 *
 *      HELD ── suits an RTR ──> CLAIM ──left──> WAIT_GRANT ── GRANT ──> WAIT_FIN (rndv.c)
 *       ^                                          ├────── FIN ────> complete
 *       └──────────────────────────────────────────┴────── RETIRE    the claim is lost
 *
 * If the receive has a word (arbiter.h), that is taken before the claim leaves.  Over a network
 * that takes a while: LOCK lies between HELD and CLAIM then, and is a claim already.  Nothing
 * else is compared meanwhile: the claim of a later send could be there first, while a receive
 * that is before it for both sends is still open.  For the same reason no word is taken while a
 * claim that has none is unresolved: that claim travels, and the word would be taken at once.
 *
 * Or the peer takes some of them by itself, where it sees them (offer.h): then they wait for
 * FIN or CTS as behind a GRANT.  It does so only between our functions: what decides about a
 * send shuts the table first, and learns what was taken.
 *
 * When enough credit has come back, the messages leave in their order; the RTRs are void then.
 *
 * The matching engine is used the other way round: held sends are its messages, RTRs its
 * receives, and the source of both is the peer.  A claimed send stays in the engine, so that
 * it still stands before later ones; its RTR does not, because whatever becomes of the claim,
 * that receive will not be open any more.
 *
 * What may be claimed: the earliest RTR that suits the send, and the earliest held send that
 * suits the RTR; unresolved claims still count.  For that, in this order
 *   1. a send whose claim was lost, then one that is fresh, looks for an RTR only while no
 *      claim is unresolved;
 *   2. an RTR looks for a send only when there is none of 1; if the earliest that suits is
 *      claimed, it and all behind it wait.
 *
 * Room for RTRs is limited.  When it is used up and none of them suits, they are dropped and
 * the next ones are asked for (is_partial).  Sends that are fresh then have not been compared
 * with those that were dropped, so they wait until the round is over, and then everything
 * begins anew with another HOLD.
 *
 * Invariants
 *   I1  while peer.is_held: peer.credit.envelopes is 0, no message of its sends has left, and those
 *       that left before are followed by HOLD
 *   I2  a send before `fresh` is in the engine, no other is
 *   I3  an RTR before `unread` is in the engine, no other is
 *   I4  RTRs and claims are of this epoch; none is left when it ends
 *   I5  a HELD send before `fresh` that is not among the lost suits no RTR before `unread`
 *   I6  unsure <= claims; while it is not 0 no word is taken
 */
#include "sendside/hold.h"

#include "core/arbiter.h"
#include "p2p/credit.h"
#include "core/module.h"
#include "sendside/offer.h"
#include "p2p/record.h"

/* ---- made and ended ---- */

static struct holding *holding_make(struct mbx_ep *ep)
{
    struct holding *holding = mem_alloc(sizeof *holding);

    if (holding == NULL)
        return NULL;
    holding->epochs = 0;
    mbx_match_init(&holding->match, &(struct mbx_match_options){.seed = ep->match_seed});
    pool_init(&holding->rtrs, sizeof(struct rtr), 64, POOL_MAX_OBJECTS);
    return holding;
}

static struct hold *hold_make(struct mbx_ep *ep, struct peer *peer)
{
    struct hold *hold;

    if (ep->holding == NULL && (ep->holding = holding_make(ep)) == NULL)
        return NULL;
    hold = mem_calloc(1, sizeof *hold);
    if (hold == NULL)
        return NULL;
    list_init(&hold->sends);
    list_init(&hold->rtrs);
    hold->fresh = &hold->sends;
    hold->unread = &hold->rtrs;
    return peer->hold = hold;
}

static void on_close(struct mbx_ep *ep)
{
    offer_close(ep);
}

static void on_fini(struct mbx_ep *ep)
{
    offer_fini(ep);
    if (ep->holding == NULL)
        return;
    mbx_match_fini(&ep->holding->match);
    pool_fini(&ep->holding->rtrs);
    mem_free(ep->holding);
}

/* ---- lists ---- */

static void rtr_drop(struct mbx_ep *ep, struct hold *hold, struct rtr *rtr)
{
    assert(hold->rtr_count != 0);
    if (hold->unread == &rtr->node)
        hold->unread = rtr->node.next;
    mbx_match_cancel(&ep->holding->match, &rtr->match);
    list_remove(&rtr->node);
    hold->rtr_count--;
    pool_give(&ep->holding->rtrs, rtr);
}

static void rtr_drop_all(struct mbx_ep *ep, struct hold *hold)
{
    while (!list_is_empty(&hold->rtrs))
        rtr_drop(ep, hold, rtr_of(hold->rtrs.next));
}

/* req is no longer among the sends. */
static void hold_remove(struct mbx_ep *ep, struct hold *hold, struct request *req)
{
    assert(hold->count != 0);
    assert(hold->offer == NULL || !hold->offer->is_open); /* else the peer may take it now */
    if (hold->fresh == &req->queue)
        hold->fresh = req->queue.next;
    if (hold->offer != NULL)
        offer_forget(hold->offer, req);
    mbx_match_claim(&ep->holding->match, &req->held);
    list_remove(&req->queue);
    hold->count--;
    ep->stats.held_now--;
}

/* ---- what the peer takes by itself ---- */

static void hold_offer_end(struct mbx_ep *ep, struct hold *hold)
{
    if (hold->offer != NULL)
        offer_give(ep, hold->offer);
    hold->offer = NULL;
}

/* req is not to be compared again. */
static void lost_forget(struct hold *hold, const struct request *req)
{
    for (uint32_t i = 0; i < hold->lost_count; i++)
        if (hold->lost[i] == req)
            hold->lost[i--] = hold->lost[--hold->lost_count];
}

/* The peer has taken req, and will say FIN or CTS. */
static void hold_taken(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    bool is_short = offer_is_short(req) && req->protocol <= MBX_BOUNCE;

    record_step(ep, TRACE_GIVEN, peer, &req->held.envelope, 0, req->completion.request, 0);
    ep->stats.given++;
    lost_forget(peer->hold, req);
    hold_remove(ep, peer->hold, req);
    if (is_short)
        send_count(ep, req);
    else if (req->protocol <= MBX_BOUNCE)
        req->protocol = peer_rndv(peer);
    proto_move(ep, req, is_short ? EAGER_WAIT_FIN : RNDV_WAIT_FIN);
}

/* From here to hold_show() the peer takes nothing; what it has taken is known. */
static void hold_shut(struct mbx_ep *ep, struct peer *peer)
{
    struct hold *hold = peer->hold;
    uint32_t taken;

    if (hold->offer == NULL)
        return;
    if (offer_shut(ep, hold->offer, &taken) < 0) {
        LOG_WARN("peer %u has damaged the table of what is held for it; it gets none any more",
                 peer->number);
        hold->is_cheated = true;
        hold_offer_end(ep, hold);
        return;
    }
    for (; taken != 0; taken &= taken - 1)
        hold_taken(ep, peer, hold->offer->entries[__builtin_ctz(taken)]);
}

/* The peer may take what is held. */
static void hold_show(struct mbx_ep *ep, struct peer *peer)
{
    struct hold *hold = peer->hold;

    if (hold->offer == NULL || !peer->is_held || hold->is_peeked)
        return;
    if (hold->offer->is_open && !offer_is_due(hold->offer, &hold->sends))
        return;
    hold_shut(ep, peer);
    if (hold->offer != NULL)
        offer_show(ep, peer, hold->offer, &hold->sends, hold->epoch);
}

/* ---- claims ---- */

/* So much of the message travels with its claim. */
static size_t claim_payload(const struct mbx_ep *ep, const struct request *req)
{
    size_t room = rndv_room(ep, WIRE_CLAIM);

    if (req->size <= ep->eager_max && req->size <= room)
        return req->size;
    return rndv_early(ep, peer_get(ep, req->peer), WIRE_CLAIM, req->size);
}

/* The claim of req leaves now.  As eager_step(). */
static int hold_claim_step(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);
    size_t payload = claim_payload(ep, req);
    struct wire_claim claim = {
        .sender = req->completion.request,
        .receiver = req->remote,
        .size = req->size,
    };
    int err;

    assert(req->state == HOLD_CLAIM);
    if (payload < req->size) {
        if (req->protocol <= MBX_BOUNCE)
            req->protocol = peer_rndv(peer);
        rndv_expose(ep, req, &claim.address, &claim.key);
    }
    err = outq_tell_message(ep, peer, WIRE_CLAIM, req->flags & REQUEST_WON ? WIRE_WON : 0,
                            &req->completion.status, &claim, req->buf, payload);
    if (err == -EAGAIN)
        return err;
    proto_move(ep, req, HOLD_WAIT_GRANT); /* if the claim could not leave: until on_gone() */
    return 0;
}

/* The claim of req is lost: it waits again, in its old place. */
static void hold_lost(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    struct hold *hold = peer->hold;

    hold_shut(ep, peer);
    proto_move(ep, req, HOLD_HELD);
    req->flags &= (uint16_t)~REQUEST_WON;
    /* a claim is lost with at most HOLD_CLAIMS - 1 others unresolved, or for a word, with none
     * behind it; and what is lost is compared again before anything else is claimed */
    assert(hold->lost_count < HOLD_CLAIMS);
    hold->lost[hold->lost_count++] = req;
    ep->stats.claims_lost++;
    record_step(ep, TRACE_LOST, peer, &req->held.envelope, 0, req->completion.request,
                req->remote);
}

/* req has taken the word of its receive. */
static void hold_won(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    req->flags |= REQUEST_WON;
    ep->stats.locks++;
    record_step(ep, TRACE_LOCK, peer, &req->held.envelope, 0, req->completion.request,
                req->remote);
}

/* The peer is to hear of the claim. */
static void hold_claim_leaves(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    int err = -EAGAIN;

    proto_move(ep, req, HOLD_CLAIM);
    if (list_is_empty(&peer->out))
        err = hold_claim_step(ep, req);
    if (err == -EAGAIN)
        outq_push(ep, peer, req);
}

/* rtr wants req. */
static void hold_claim(struct mbx_ep *ep, struct peer *peer, struct request *req,
                       struct rtr *rtr)
{
    struct hold *hold = peer->hold;
    uint64_t word = rtr->word, as = rtr->as;
    int err = -ENOTSUP;

    assert(req->state == HOLD_HELD);
    assert(hold->claims < HOLD_CLAIMS);
    assert(!hold->is_locking);
    req->remote = rtr->receiver;
    rtr_drop(ep, hold, rtr);
    ep->stats.claims++;
    record_step(ep, TRACE_MATCH, peer, &req->held.envelope, 0, req->completion.request,
                req->remote);
    if (word != 0)
        err = arbiter_claim(peer, word, as, req->completion.request);
    if (err == -EALREADY) {
        hold_lost(ep, peer, req);
        return;
    }
    hold->claims++;
    if (err == -EINPROGRESS) {
        proto_move(ep, req, HOLD_LOCK);
        hold->is_locking = true;
        return;
    }
    if (err == 0)
        hold_won(ep, peer, req);
    else
        hold->unsure++;
    hold_claim_leaves(ep, peer, req);
}

/* The claim of req is decided. */
static void hold_resolved(struct hold *hold, struct request *req)
{
    if (req->state != HOLD_WAIT_GRANT)
        return;
    assert(hold->claims != 0);
    hold->claims--;
    hold->unsure -= (req->flags & REQUEST_WON) == 0;
}

/* ---- comparing ---- */

/* Takes the oldest of those that have lost a claim out of them. */
static struct request *lost_pop(struct hold *hold)
{
    uint32_t oldest = 0;
    struct request *req;

    assert(hold->lost_count != 0);
    for (uint32_t i = 1; i < hold->lost_count; i++)
        if ((int64_t)(hold->lost[i]->held.seq - hold->lost[oldest]->held.seq) < 0)
            oldest = i;
    req = hold->lost[oldest];
    hold->lost[oldest] = hold->lost[--hold->lost_count];
    return req;
}

static bool has_fresh(const struct hold *hold)
{
    return hold->fresh != &hold->sends;
}

/* Rule 1. */
static void compare_send(struct mbx_ep *ep, struct peer *peer)
{
    struct mbx_match *match = &ep->holding->match;
    struct hold *hold = peer->hold;
    bool is_lost = hold->lost_count != 0;
    struct request *req = is_lost ? lost_pop(hold) : request_of_queue(hold->fresh);
    struct mbx_match_recv *recv = mbx_match_find(match, &req->held.envelope);

    if (!is_lost) {
        mbx_match_keep(match, &req->held);
        hold->fresh = req->queue.next;
    }
    if (recv != NULL)
        hold_claim(ep, peer, req, container_of(recv, struct rtr, match));
}

/* Rule 2.  False: it has to wait. */
static bool compare_rtr(struct mbx_ep *ep, struct peer *peer)
{
    struct mbx_match *match = &ep->holding->match;
    struct hold *hold = peer->hold;
    struct rtr *rtr = rtr_of(hold->unread);
    struct mbx_match_msg *msg = mbx_match_peek(match, &rtr->match.envelope, rtr->match.ignore);
    struct request *req;

    if (msg == NULL) {
        if (mbx_match_post(match, &rtr->match, &msg) < 0) {
            outq_owe(ep, peer, OWES_COMPARE); /* nobody else would come back to it */
            return false;
        }
        hold->unread = rtr->node.next;
        return true;
    }
    req = container_of(msg, struct request, held);
    if (req->state != HOLD_HELD || (rtr->word != 0 && hold->unsure != 0))
        return false;
    hold_claim(ep, peer, req, rtr);
    return true;
}

/* Compares what is to be compared next.  False: nothing can be, for now. */
static bool hold_compare(struct mbx_ep *ep, struct peer *peer)
{
    struct hold *hold = peer->hold;
    bool has_sends = hold->lost_count != 0 || (has_fresh(hold) && !hold->is_partial);

    if (hold->is_locking)
        return false;
    if (has_sends) {
        if (hold->claims != 0)
            return false;
        compare_send(ep, peer);
        return true;
    }
    return hold->unread != &hold->rtrs && hold->claims < HOLD_CLAIMS && compare_rtr(ep, peer);
}

/* ---- on and off ---- */

/* From now on, or again from another place: the peer is to send RTRs. */
static void hold_ask(struct mbx_ep *ep, struct peer *peer, uint64_t from)
{
    struct hold *hold = peer->hold;

    hold_shut(ep, peer);
    rtr_drop_all(ep, hold);
    hold->epoch = ++ep->holding->epochs;
    if (hold->offer == NULL && !hold->is_cheated)
        hold->offer = offer_get(ep, peer, &hold->sends);
    if (hold->offer != NULL)
        hold->offer->is_known = false;
    hold->from = from;
    hold->last = from;
    hold->is_full = false;
    hold->is_partial = from != 0;
    hold_show(ep, peer); /* before the peer hears of it */
    outq_owe_now(ep, peer, OWES_HOLD);
}

static void hold_begin(struct mbx_ep *ep, struct peer *peer)
{
    struct hold *hold = peer->hold;

    module_deferring(ep, peer);
    peer->is_held = true;
    hold->is_peeked = false;
    hold->envelopes = peer->credit.envelopes;
    peer->credit.envelopes = 0;
    ep->stats.holds++;
    hold_ask(ep, peer, 0);
}

/* All RTRs that there is room for have been compared in vain, or all that there are but
 * without the fresh sends. */
static void hold_turn_page(struct mbx_ep *ep, struct peer *peer)
{
    struct hold *hold = peer->hold;

    if (hold->claims != 0 || hold->lost_count != 0 || hold->unread != &hold->rtrs)
        return;
    /* in this order: behind the last RTR there may be nothing that would wake us */
    if (hold->is_partial && has_fresh(hold))
        hold_ask(ep, peer, 0);
    else if (hold->is_full && hold->fresh != hold->sends.next)
        hold_ask(ep, peer, hold->last);
}

static bool hold_may_leave(const struct hold *hold, const struct credit *credit)
{
    return hold->claims == 0 && !hold->is_peeked && hold->envelopes != 0 &&
           hold->envelopes >= min_size(hold->count, credit->half);
}

/* The messages leave in their order, as far as the credit goes. */
static void hold_leave(struct mbx_ep *ep, struct peer *peer)
{
    struct hold *hold = peer->hold;

    rtr_drop_all(ep, hold);
    hold->lost_count = 0;
    peer->is_held = false;
    peer->credit.envelopes = hold->envelopes;
    hold->envelopes = 0;
    while (!list_is_empty(&hold->sends)) {
        struct request *req = request_of_queue(hold->sends.next);
        int err;

        if (!credit_take_request(ep, peer, req))
            break;
        hold_remove(ep, hold, req);
        err = send_first(ep, peer, req);
        if (err < 0)
            request_complete(ep, req, err);
    }
    if (!list_is_empty(&hold->sends)) {
        hold_begin(ep, peer);
        return;
    }
    hold_offer_end(ep, hold);
    peer->owes &= (uint8_t)~OWES_HOLD; /* it does not have to know any more */
}

/* Compares and sends as far as it can be done now. */
static void pump(struct mbx_ep *ep, struct peer *peer)
{
    struct hold *hold = peer->hold;

    if (hold_may_leave(hold, &peer->credit) || !list_is_empty(&hold->rtrs))
        hold_shut(ep, peer);
    do
        if (hold->count != 0 && hold_may_leave(hold, &peer->credit)) {
            hold_leave(ep, peer);
            hold_show(ep, peer);
            return;
        }
    while (hold_compare(ep, peer));
    hold_turn_page(ep, peer);
    hold_show(ep, peer);
}

/* Does whatever can be done now.  Nothing that it calls comes back to it for the same peer: what
 * the peer says is heard in a poll, and a word that is taken in a call is told without one.  But
 * any step may remove sends: hold_shut() those that the peer has taken by itself, and hold_leave()
 * those that there is credit for. */
static void hold_pump(struct mbx_ep *ep, struct peer *peer)
{
    struct hold *hold = peer->hold;

    if (!peer->is_held)
        return;
    assert(!hold->is_pumping);
    hold->is_pumping = true;
    pump(ep, peer);
    hold->is_pumping = false;
}

void hold_locked(void *arg, uint64_t cookie, int error, bool is_exchanged)
{
    struct mbx_ep *ep = arg;
    struct request *req = pool_find(&ep->requests, cookie);
    struct peer *peer;

    if (req == NULL || req->state != HOLD_LOCK)
        return; /* its peer is gone */
    peer = peer_get(ep, req->peer);
    peer->hold->is_locking = false;
    if (error != 0) {
        /* the peer decides; not now, for this may be in the midst of a call of ours */
        proto_move(ep, req, HOLD_CLAIM);
        peer->hold->unsure++;
        outq_push(ep, peer, req);
        return; /* the answer to the claim will go on */
    }
    if (is_exchanged) {
        hold_won(ep, peer, req);
        hold_claim_leaves(ep, peer, req);
    } else {
        peer->hold->claims--;
        hold_lost(ep, peer, req);
    }
    hold_pump(ep, peer);
}

/* There was no memory to compare what is held with an RTR: tries again. */
static int hold_again(struct mbx_ep *ep, struct peer *peer)
{
    hold_pump(ep, peer);
    return 0;
}

/* A send without credit, or behind one.  0; -ENOMEM: it is not held. */
static int hold_add(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    struct hold *hold = peer->hold != NULL ? peer->hold : hold_make(ep, peer);

    if (hold == NULL)
        return -ENOMEM;
    proto_move(ep, req, HOLD_HELD);
    req->held = (struct mbx_match_msg){
        .envelope = {status->context_id, peer->number, status->tag},
    };
    list_add_tail(&hold->sends, &req->queue);
    if (!has_fresh(hold))
        hold->fresh = &req->queue;
    if (hold->offer != NULL && hold->offer->next == &hold->sends)
        hold->offer->next = &req->queue;
    hold->count++;
    stats_kept(&ep->stats.held_now, &ep->stats.held_max, 1);
    if (!peer->is_held)
        hold_begin(ep, peer);
    hold_pump(ep, peer);
    return 0;
}

/* ---- what the peer says ---- */

static int on_credit_came(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes)
{
    struct hold *hold = peer->hold;

    if (!peer->is_held)
        return 1;
    if (hold->envelopes + envelopes > CREDIT_UNLIMITED)
        return -EPROTO;
    hold_shut(ep, peer);
    hold->envelopes += envelopes;
    hold->is_peeked = false;
    if (hold->count == 0 && hold_may_leave(hold, &peer->credit)) {
        hold_leave(ep, peer);
        outq_owe_now(ep, peer, OWES_HOLD); /* that it is over */
    }
    hold_pump(ep, peer);
    return 0;
}

static int on_rtr(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_rtr *body = &packet->body.rtr;
    struct hold *hold = peer->hold;
    struct rtr *rtr;

    if (!peer->is_held || body->epoch != hold->epoch)
        return 0;
    if (body->number <= hold->last)
        return -EPROTO;
    if (hold->is_full || hold->rtr_count == 2 * HOLD_RTRS) {
        hold->is_full = true; /* the next page brings it, and all behind it */
        hold_pump(ep, peer);
        return 0;
    }
    rtr = pool_take(&ep->holding->rtrs);
    if (rtr == NULL)
        return -EAGAIN;
    *rtr = (struct rtr){
        .match.envelope = {packet->header.context_id, peer->number, packet->header.tag},
        .match.ignore = packet->header.data,
        .receiver = body->receiver,
        .word = body->word,
        .as = body->as,
    };
    list_add_tail(&hold->rtrs, &rtr->node);
    if (hold->unread == &hold->rtrs)
        hold->unread = &rtr->node;
    hold->rtr_count++;
    hold->last = body->number;
    hold->is_full |= (packet->header.flags & WIRE_ROOM_USED) != 0;
    hold->is_peeked = false;
    hold_pump(ep, peer);
    return 0;
}

/* The receive is not open any more. */
static void retire_rtr(struct mbx_ep *ep, struct hold *hold, uint64_t receiver)
{
    struct list *node;

    list_for_each (node, &hold->rtrs)
        if (rtr_of(node)->receiver == receiver) {
            rtr_drop(ep, hold, rtr_of(node));
            return;
        }
}

static int on_retire(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_retire *retire = &packet->body.retire;
    struct hold *hold = peer->hold;
    struct request *req;

    if (hold == NULL)
        return -EPROTO;
    if (retire->sender == 0) {
        retire_rtr(ep, hold, retire->receiver);
    } else {
        req = request_named(ep, retire->sender, peer->number, HOLD_WAIT_GRANT);
        if (req == NULL || req->remote != retire->receiver)
            return -EPROTO;
        hold_resolved(hold, req);
        hold_lost(ep, peer, req);
    }
    hold_pump(ep, peer);
    return 0;
}

/* The peer has req, which is not held any more. */
static void hold_give(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    struct hold *hold = peer->hold;

    hold_shut(
        ep, peer); /* req is not among those that it finds taken: it is marked, or not shown */
    assert(req->state == HOLD_HELD || req->state == HOLD_WAIT_GRANT);
    record_step(ep, TRACE_GRANT, peer, &req->held.envelope, 0, req->completion.request,
                req->remote);
    ep->stats.claims_won += req->state == HOLD_WAIT_GRANT;
    if (req->state == HOLD_HELD)
        hold->is_peeked = false; /* it is the one that the peer was told of */
    hold_resolved(hold, req);
    hold_remove(ep, hold, req);
}

/* What follows is a rendezvous. */
static void hold_granted(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    hold_give(ep, peer, req);
    if (req->protocol <= MBX_BOUNCE)
        req->protocol = peer_rndv(peer);
    proto_move(ep, req, RNDV_WAIT_FIN);
}

static int on_grant(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_grant *grant = &packet->body.grant;
    struct request *req = pool_find(&ep->requests, grant->sender);

    if (req == NULL || !request_is_send(req) || req->peer != peer->number)
        return req == NULL ? 0 : -EPROTO;
    if (req->state == HOLD_HELD && !peer->hold->is_peeked)
        return -EPROTO;
    if (req->state != HOLD_WAIT_GRANT && req->state != HOLD_HELD)
        return 0; /* its FIN or CTS has come first */
    hold_granted(ep, peer, req);
    hold_pump(ep, peer);
    return 0;
}

/* req, which is claimed, or was shown to a probe, is received, and its data asked for. */
static void hold_asked(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);

    hold_granted(ep, peer, req);
    hold_pump(ep, peer);
}

/* The peer speaks of req, which it may have taken by itself: then we know that now.  Or by a
 * matched probe, and the GRANT is still to come: then it is as if that had come. */
static void hold_probed(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    hold_shut(ep, peer);
    if (req->state == HOLD_HELD && peer->hold->is_peeked)
        hold_asked(ep, req);
    else
        hold_pump(ep, peer);
}

/* req, whose payload came with its claim, is received whole. */
static void hold_done(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    hold_give(ep, peer, req);
    send_count(ep, req);
    request_complete(ep, req, 0);
    hold_pump(ep, peer);
}

/* A CTS says what the GRANT behind it will say; a FIN means that the payload came with the
 * claim.  Or the peer has taken req out of the table. */
static int hold_reply(struct mbx_ep *ep, struct peer *peer, struct request *req,
                      const struct wire_packet *packet)
{
    uint64_t handle = req->completion.request;
    bool is_fin = packet->header.type == WIRE_FIN;

    if (req->state == HOLD_WAIT_GRANT && !is_fin)
        hold_asked(ep, req);
    else if (req->state == HOLD_HELD)
        hold_probed(ep, peer, req);
    req = request_find(ep, handle);
    if (req == NULL)
        return -EPROTO;
    if (req->state == HOLD_WAIT_GRANT && is_fin) {
        hold_done(ep, peer, req);
        return 0;
    }
    return PROTO_OF(req->state) != PROTO_HOLD ? rndv_reply(ep, peer, packet) : -EPROTO;
}

/* ---- probes ---- */

static int on_peek(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    struct hold *hold = peer->hold;

    if (hold == NULL)
        return -EPROTO;
    hold->question = packet->body.peek.question;
    hold->asked = (struct mbx_match_envelope){packet->header.context_id, peer->number,
                                              packet->header.tag};
    hold->ignore = packet->header.data;
    hold->is_peeked = false;
    hold_pump(ep, peer);
    outq_owe_now(ep, peer, OWES_PEEKED);
    return 0;
}

/* The held send that the question is after; NULL if there is none, or not surely. */
static struct request *hold_look(struct mbx_ep *ep, const struct peer *peer)
{
    struct hold *hold = peer->hold;
    struct mbx_match_msg *msg;

    if (!peer->is_held || hold->claims != 0 || hold->lost_count != 0 || hold->is_full ||
        hold->unread != &hold->rtrs)
        return NULL;
    msg = mbx_match_peek(&ep->holding->match, &hold->asked, hold->ignore);
    return msg != NULL ? container_of(msg, struct request, held) : NULL;
}

static int hold_answer(struct mbx_ep *ep, struct peer *peer)
{
    static const struct mbx_status nothing;
    struct hold *hold = peer->hold;
    struct wire_peeked peeked = {.question = hold->question};
    struct request *req;
    int err;

    if (!list_is_empty(&peer->out))
        return -EAGAIN; /* who asks again and again must not keep messages from leaving */
    hold_shut(ep, peer);
    req = hold_look(ep, peer);
    if (req != NULL) {
        peeked.sender = req->completion.request;
        peeked.size = req->size;
        rndv_expose(ep, req, &peeked.address, &peeked.key);
    }
    err = outq_tell_message(ep, peer, WIRE_PEEKED, 0,
                            req != NULL ? &req->completion.status : &nothing, &peeked, NULL, 0);
    if (err == 0)
        hold->is_peeked = req != NULL;
    hold_show(ep, peer);
    return err;
}

/* ---- HOLD ---- */

static int hold_tell(struct mbx_ep *ep, struct peer *peer)
{
    const struct hold *hold = peer->hold;
    struct wire_hold body = {0};

    if (peer->leaving != 0)
        return -EAGAIN;
    if (peer->is_held)
        body = (struct wire_hold){hold->epoch, ep->hold_room, hold->from,
                                  hold->offer != NULL ? hold->offer->index : 0};
    return outq_tell(ep, peer, WIRE_HOLD, &body);
}

/* All its sends end, whatever they wait for. */
static void on_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new)
{
    struct hold *hold = peer->hold;

    (void)is_new;
    module_deferring(ep, peer);
    if (hold == NULL)
        return;
    hold_offer_end(ep, hold);
    rtr_drop_all(ep, hold);
    hold->lost_count = 0;
    peer->is_held = false;
    hold->is_locking = false;
    hold->claims = 0;
    hold->unsure = 0;
    while (!list_is_empty(&hold->sends)) {
        struct request *req = request_of_queue(hold->sends.next);

        hold_remove(ep, hold, req);
        request_complete(ep, req, error);
    }
    peer->credit.envelopes = CREDIT_UNLIMITED; /* so that the next ones fail at once */
}

/* ---- as a protocol: when a peer is gone the module ends all its sends at once ---- */

static const struct proto hold_proto = {
    .id = PROTO_HOLD,
    .name = "held send",
    .states =
        {
            [HOLD_HELD %
             PROTO_STATES] = {.name = "held",
                              .kinds = MBX_SENDS,
                              .queue = PROTO_ALWAYS,
                              .next = PROTO_NEXT(HOLD_HELD) | PROTO_NEXT(HOLD_LOCK) |
                                      PROTO_NEXT(HOLD_CLAIM),
                              .then = PROTO_THEN(PROTO_EAGER) | PROTO_THEN(PROTO_RNDV),
                              .is_first = true,
                              .awaits_peer = true},
            [HOLD_LOCK %
                PROTO_STATES] = {.name = "lock",
                                 .kinds = MBX_SENDS,
                                 .queue = PROTO_ALWAYS,
                                 .next = PROTO_NEXT(HOLD_HELD) | PROTO_NEXT(HOLD_CLAIM),
                                 .awaits_peer = true},
            [HOLD_CLAIM % PROTO_STATES] = {.name = "claim",
                                           .kinds = MBX_SENDS,
                                           .out = PROTO_ALWAYS,
                                           .queue = PROTO_ALWAYS,
                                           .next = PROTO_NEXT(HOLD_WAIT_GRANT)},
            [HOLD_WAIT_GRANT % PROTO_STATES] = {.name = "wait-grant",
                                                .kinds = MBX_SENDS,
                                                .queue = PROTO_ALWAYS,
                                                .next = PROTO_NEXT(HOLD_HELD),
                                                .then = PROTO_THEN(PROTO_RNDV),
                                                .awaits_peer = true},
        },
    .step = hold_claim_step,
    .reply = hold_reply,
};

const struct module hold_module = {
    .name = "hold",
    .proto = &hold_proto,
    .packets = (const struct packet_handler[]){{WIRE_RTR, on_rtr},
                                               {WIRE_RETIRE, on_retire},
                                               {WIRE_GRANT, on_grant},
                                               {WIRE_PEEK, on_peek},
                                               {0}},
    .controls =
        (const struct control[]){
            {.what = OWES_HOLD, .send = hold_tell, .is_closing = true, .is_behind = true},
            {.what = OWES_PEEKED, .send = hold_answer, .is_closing = true, .is_behind = true},
            {.what = OWES_COMPARE, .send = hold_again, .is_closing = true, .is_first = true},
            {0}},
    .close = on_close,
    .fini = on_fini,
    .peer_gone = on_gone,
    .defer = hold_add,
    .credit_came = on_credit_came,
};
