/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backlog.c - the sender's half of matching at the sender.
 *
 * A send without envelope credit stays here, and so do all later ones to that peer.  One DEFER
 * notifies the peer, which answers with an RTR for each open receive that could match a message
 * of ours, in posting order, and for each one that is posted later.  Sends and RTRs are
 * compared, and receives claimed (claims.c):
 *
 *  DEFERRED ── matches RTR ───> CLAIM ──left──> WAIT_RETIRE ── RETIRE, won ──> WAIT_FIN (rndv.c)
 *       ^                                          ├────── FIN ────> complete
 *       └──────────────────────────────────────────┴────── RETIRE    the claim is lost
 *
 * This file decides when they are compared: when a send is deferred, and when a packet of the
 * peer arrives.  It begins and ends an epoch: from a DEFER to the credit that lets all sends
 * leave, or to the next DEFER.
 *
 * A send stays in the matching engine from its first comparison until it leaves the backlog,
 * also while it has a claim, and when its claim is lost, which only puts it on lost[].  If it
 * were queued again, it would come after later sends.
 *
 * When enough credit has come back, the messages leave in their order; the RTRs are void then.
 *
 * Space for RTRs is limited: the RTRs that fit are a batch.  When it is full and none of them
 * matches, they are dropped and another DEFER requests the next batch (backlog_is_partial()).
 * Sends that are fresh then have not been compared with the dropped RTRs, so they wait until
 * this batch is compared, and then another DEFER requests the first batch again.
 *
 * Invariants
 *   I1  while peer.defer.is_deferred: peer.credit.envelopes is 0, no message of its sends has
 *       left, and DEFER follows the messages that left before
 *   I2  the sends before `fresh` are in the engine, in the order of sends (deferred.seq grows
 *       along the list); no other send is
 *   I3  the RTRs before `unread` are in the engine; no other RTR is
 *   I4  RTRs and claims belong to this epoch; none is left when it ends
 *   I5  a DEFERRED send before `fresh` that is not in lost[] matches no RTR before `unread`
 *   I6  locks <= claims <= BACKLOG_CLAIMS; while a word is taken, locks == claims
 */
#include "defer/backlog.h"

#include "core/core.h"
#include "p2p/p2p.h"
#include "defer/sendtable.h"

/* ---- made and ended ---- */

static struct backlogs *backlogs_make(struct mbx_ep *ep)
{
    struct backlogs *backlogs = mem_alloc(sizeof *backlogs);

    if (backlogs == NULL)
        return NULL;
    backlogs->epochs = 0;
    mbx_match_init(&backlogs->match, &(struct mbx_match_options){.seed = ep->contexts.seed});
    pool_init(&backlogs->rtrs, sizeof(struct rtr), 64, POOL_MAX_OBJECTS);
    return backlogs;
}

static struct backlog *backlog_make(struct mbx_ep *ep, struct peer *peer)
{
    struct backlog *backlog;

    if (ep_defer(ep)->backlogs == NULL && (ep_defer(ep)->backlogs = backlogs_make(ep)) == NULL)
        return NULL;
    backlog = mem_calloc(1, sizeof *backlog);
    if (backlog == NULL)
        return NULL;
    list_init(&backlog->sends);
    list_init(&backlog->rtrs);
    backlog->fresh = &backlog->sends;
    backlog->unread = &backlog->rtrs;
    backlog->half = credit_first_half(ep, peer);
    return peer->backlog = backlog;
}

static void on_close(struct mbx_ep *ep)
{
    sendtable_close(ep);
}

static void backlog_on_fini(struct mbx_ep *ep)
{
    sendtable_fini(ep);
    if (ep_defer(ep)->backlogs == NULL)
        return;
    mbx_match_fini(&ep_defer(ep)->backlogs->match);
    pool_fini(&ep_defer(ep)->backlogs->rtrs);
    mem_free(ep_defer(ep)->backlogs);
}

/* ---- on and off ---- */

/* Begins an epoch: a DEFER requests the RTRs after number `from`. */
static void backlog_new_epoch(struct mbx_ep *ep, struct peer *peer, uint64_t from)
{
    struct backlog *backlog = peer->backlog;

    backlog_shut(ep, peer);
    rtr_drop_all(ep, backlog);
    backlog->epoch = ++ep_defer(ep)->backlogs->epochs;
    if (backlog->sendtable == NULL && !backlog->is_cheated)
        backlog->sendtable = sendtable_get(ep, peer, &backlog->sends);
    if (backlog->sendtable != NULL)
        backlog->sendtable->is_known = false;
    backlog->from = from;
    backlog->last = from;
    backlog->is_full = false;
    backlog_show(ep, peer); /* before the DEFER can arrive */
    outq_owe_now(ep, peer, OWES_DEFER);
}

static void backlog_begin(struct mbx_ep *ep, struct peer *peer)
{
    struct backlog *backlog = peer->backlog;

    module_deferring(ep, peer);
    peer_defer(peer)->is_deferred = true;
    backlog->peeked = 0;
    backlog->envelopes = credit_put_away(peer);
    ep->stats.deferrals++;
    backlog_new_epoch(ep, peer, 0);
}

/* Called when all RTRs of this batch are compared, and no claim is unresolved.  Fresh sends
 * that wait need the first batch again; without them, sends that match no RTR need the next
 * batch, if the peer has more RTRs. */
static void backlog_next_batch(struct mbx_ep *ep, struct peer *peer)
{
    struct backlog *backlog = peer->backlog;

    if (backlog->claims != 0 || backlog->lost_count != 0 || backlog->unread != &backlog->rtrs)
        return;
    /* in this order: after the last RTR no event may follow that calls this again */
    if (backlog_is_partial(backlog) && backlog_has_fresh(backlog))
        backlog_new_epoch(ep, peer, 0);
    else if (backlog->is_full && backlog->fresh != backlog->sends.next)
        backlog_new_epoch(ep, peer, backlog->last);
}

static bool backlog_may_leave(const struct backlog *backlog)
{
    return backlog->claims == 0 && backlog->peeked == 0 && backlog->envelopes != 0 &&
           backlog->envelopes >= min_size(backlog->count, backlog->half);
}

/* Sends the messages in their order, while credit lasts. */
static void backlog_leave(struct mbx_ep *ep, struct peer *peer)
{
    struct backlog *backlog = peer->backlog;

    rtr_drop_all(ep, backlog);
    backlog->lost_count = 0;
    peer_defer(peer)->is_deferred = false;
    credit_bring_back(peer, backlog->envelopes);
    backlog->envelopes = 0;
    while (!list_is_empty(&backlog->sends)) {
        struct request *req = request_of_queue(backlog->sends.next);
        int err;

        if (!credit_take_request(ep, peer, req))
            break;
        backlog_remove(ep, backlog, req);
        err = send_first(ep, peer, req);
        if (err < 0)
            request_complete(ep, req, err);
    }
    if (!list_is_empty(&backlog->sends)) {
        backlog_begin(ep, peer);
        return;
    }
    backlog_table_end(ep, backlog);
    outq_forgive(peer, OWES_DEFER); /* the peer need not know of it any more */
}

/* Cancelled sends leave the backlog.  A send that has claimed a receive, or that a PEEKED has
 * named, may have matched: it waits for the next packet of the peer, which leads here again. */
static void backlog_withdraw(struct mbx_ep *ep, struct peer *peer)
{
    struct backlog *backlog = peer->backlog;
    struct list *node, *next;

    backlog_shut(ep, peer); /* a send that the peer has pulled is no longer deferred */
    list_for_each_safe (node, next, &backlog->sends) {
        struct request *req = request_of_queue(node);

        bool is_peeked = req->completion.request == backlog->peeked;

        if (!(req->flags & REQUEST_WITHDRAWN) || req->state != BACKLOG_DEFERRED || is_peeked)
            continue;
        backlog_unlost(backlog, req);
        backlog_remove(ep, backlog, req);
        request_complete(ep, req, -ECANCELED);
    }
}

/* Compares and sends as much as is possible now. */
static void pump(struct mbx_ep *ep, struct peer *peer)
{
    struct backlog *backlog = peer->backlog;

    if (backlog->withdrawn != 0)
        backlog_withdraw(ep, peer);
    if (backlog_may_leave(backlog) || !list_is_empty(&backlog->rtrs))
        backlog_shut(ep, peer);
    do
        if (backlog->count != 0 && backlog_may_leave(backlog)) {
            backlog_leave(ep, peer);
            backlog_show(ep, peer);
            return;
        }
    while (backlog_compare(ep, peer));
    backlog_next_batch(ep, peer);
    backlog_show(ep, peer);
}

/* Does everything that is possible now.  It does not call itself for the same peer: packets of
 * the peer are handled only in a poll, and a word that is taken in a call is reported without
 * one (by_sender.c).  But any step may remove sends: backlog_shut() removes the sends that the
 * peer has pulled, and backlog_leave() the sends that have credit. */
void backlog_pump(struct mbx_ep *ep, struct peer *peer)
{
    struct backlog *backlog = peer->backlog;

    if (!peer_defer(peer)->is_deferred)
        return;
    assert(!backlog->is_pumping);
    backlog->is_pumping = true;
    pump(ep, peer);
    backlog->is_pumping = false;
}

/* There was no memory to compare the deferred sends with an RTR: tries again. */
static int backlog_again(struct mbx_ep *ep, struct peer *peer)
{
    backlog_pump(ep, peer);
    return 0;
}

/* Defers a send without credit, or after a deferred one.  0; -ENOMEM: it is not deferred. */
static int backlog_add(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    struct backlog *backlog = peer->backlog != NULL ? peer->backlog : backlog_make(ep, peer);

    if (backlog == NULL)
        return -ENOMEM;
    proto_move(ep, req, BACKLOG_DEFERRED);
    req->deferred = (struct mbx_match_msg){
        .envelope = {status->context_id, peer->number, status->tag},
    };
    list_add_tail(&backlog->sends, &req->queue);
    if (!backlog_has_fresh(backlog))
        backlog->fresh = &req->queue;
    if (backlog->sendtable != NULL && backlog->sendtable->next == &backlog->sends)
        backlog->sendtable->next = &req->queue;
    backlog->count++;
    stats_kept(&ep->stats.deferred_now, &ep->stats.deferred_max, 1);
    if (!peer_defer(peer)->is_deferred)
        backlog_begin(ep, peer);
    backlog_pump(ep, peer);
    return 0;
}

/* ---- packets of the peer ---- */

static int on_credit_came(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes)
{
    struct backlog *backlog = peer->backlog;

    if (!peer_defer(peer)->is_deferred)
        return 1;
    if (backlog->envelopes + envelopes > CREDIT_UNLIMITED)
        return -EPROTO;
    backlog_shut(ep, peer);
    backlog->envelopes += envelopes;
    backlog->peeked = 0;
    if (backlog->count == 0 && backlog_may_leave(backlog)) {
        backlog_leave(ep, peer);
        outq_owe_now(ep, peer, OWES_DEFER); /* reports the end of the epoch */
    }
    backlog_pump(ep, peer);
    return 0;
}

static int on_rtr(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_rtr *body = &packet->body.rtr;
    struct backlog *backlog = peer->backlog;
    struct rtr *rtr;

    if (backlog == NULL) /* if sends to it are deferred, another module does it */
        return 0;
    if (!peer_defer(peer)->is_deferred || body->epoch != backlog->epoch)
        return 0;
    if (body->number <= backlog->last)
        return -EPROTO;
    /* the peer counts its RTRs against the capacity that DEFER names (BACKLOG_RTRS, or less in
     * tests), so a correct peer stays below half of this bound, which limits our memory for any
     * other */
    if (backlog->is_full || backlog->rtr_count == 2 * BACKLOG_RTRS) {
        backlog->is_full = true; /* the next batch contains this RTR and all later ones */
        backlog_pump(ep, peer);
        return 0;
    }
    rtr = pool_take(&ep_defer(ep)->backlogs->rtrs);
    if (rtr == NULL)
        return -EAGAIN;
    *rtr = (struct rtr){
        .match.envelope = {packet->header.context_id, peer->number, packet->header.tag},
        .match.ignore = packet->header.data,
        .receiver = body->receiver,
        .word = body->word,
        .owner_id = body->owner_id,
    };
    list_add_tail(&backlog->rtrs, &rtr->node);
    if (backlog->unread == &backlog->rtrs)
        backlog->unread = &rtr->node;
    backlog->rtr_count++;
    backlog->last = body->number;
    backlog->is_full |= (packet->header.flags & WIRE_CAPACITY_USED) != 0;
    backlog->peeked = 0;
    backlog_pump(ep, peer);
    return 0;
}

/* The receive of an RTR is no longer open. */
static void retire_rtr(struct mbx_ep *ep, struct backlog *backlog, uint64_t receiver)
{
    struct list *node;

    list_for_each (node, &backlog->rtrs)
        if (rtr_of(node)->receiver == receiver) {
            rtr_drop(ep, backlog, rtr_of(node));
            return;
        }
}

/* req has matched a receive of the peer, and leaves the backlog. */
static void backlog_matched(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    struct backlog *backlog = peer->backlog;

    backlog_shut(
        ep, peer); /* this cannot find that req was pulled: req is marked as claimed, or not
                      shown */
    assert(req->state == BACKLOG_DEFERRED || req->state == BACKLOG_WAIT_RETIRE);
    tracepoint_step(ep, TRACE_GRANT, peer, &req->deferred.envelope, 0, req->completion.request,
                    req->remote.request);
    ep->stats.claims_won += req->state == BACKLOG_WAIT_RETIRE;
    if (req->state == BACKLOG_DEFERRED)
        backlog->peeked = 0; /* req is the one that PEEKED has named */
    backlog_resolved(backlog, req);
    backlog_remove(ep, backlog, req);
}

/* req has matched a receive of the peer, which gets the data by a rendezvous. */
static void backlog_becomes_rndv(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    backlog_matched(ep, peer, req);
    if (req->protocol <= MBX_BOUNCE)
        path_reroute(ep, req, path_rndv(peer));
    proto_move(ep, req, RNDV_WAIT_FIN);
}

/* The claim of a send for this receive is lost.  0; -EPROTO. */
static int claim_lost(struct mbx_ep *ep, struct peer *peer, const struct wire_retire *retire)
{
    struct request *req = request_named(ep, retire->sender, peer->number, BACKLOG_WAIT_RETIRE);

    if (req == NULL || req->remote.request != retire->receiver)
        return -EPROTO;
    backlog_resolved(peer->backlog, req);
    backlog_lost(ep, peer, req);
    return 0;
}

/* The receive, or a probe, has taken the send.  0; -EPROTO. */
static int claim_won(struct mbx_ep *ep, struct peer *peer, const struct wire_retire *retire)
{
    struct request *req = pool_find(&ep->requests.pool, retire->sender);

    if (req == NULL)
        return 0; /* its FIN has come first */
    if (!request_is_send(req) || req->peer != peer->number)
        return -EPROTO;
    if (req->state == BACKLOG_DEFERRED && peer->backlog->peeked == 0)
        return -EPROTO;
    if (req->state == BACKLOG_WAIT_RETIRE && req->remote.request != retire->receiver)
        return -EPROTO;
    if (req->state == BACKLOG_DEFERRED || req->state == BACKLOG_WAIT_RETIRE)
        backlog_becomes_rndv(ep, peer, req); /* otherwise its FIN or CTS has come first */
    return 0;
}

static int on_retire(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_retire *retire = &packet->body.retire;
    int err = 0;

    if (peer->backlog == NULL)
        return -EPROTO;
    if (retire->sender == 0)
        retire_rtr(ep, peer->backlog, retire->receiver);
    else if (packet->header.flags & WIRE_WON)
        err = claim_won(ep, peer, retire);
    else
        err = claim_lost(ep, peer, retire);
    if (err == 0)
        backlog_pump(ep, peer);
    return err;
}

/* A CTS or FIN of the rendezvous of req has come before its RETIRE, and has the same meaning:
 * req, which has claimed a receive or was named in a PEEKED, has matched. */
static void backlog_data_wanted(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);

    backlog_becomes_rndv(ep, peer, req);
    backlog_pump(ep, peer);
}

/* A CTS or FIN has come for req, which is DEFERRED here and has claimed no receive.  Either the
 * peer has pulled req out of the table: backlog_shut() finds that out, and moves req on.  Or a
 * matched probe of the peer has taken req, which a PEEKED had named: the CTS or FIN came before
 * its RETIRE. */
static void backlog_taken_unclaimed(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    backlog_shut(ep, peer);
    if (req->state == BACKLOG_DEFERRED && peer->backlog->peeked != 0)
        backlog_data_wanted(ep, req);
    else
        backlog_pump(ep, peer);
}

/* req, which has claimed a receive, is received completely: its payload came with the claim. */
static void backlog_done(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    backlog_matched(ep, peer, req);
    send_count(ep, req);
    request_complete(ep, req, 0);
    backlog_pump(ep, peer);
}

/* A CTS or FIN has come for req, which is in the backlog.  After a claim, a CTS means that the
 * claim has won, as the RETIRE after it will say, and a FIN that req is received completely. */
static int backlog_reply(struct mbx_ep *ep, struct peer *peer, struct request *req,
                         const struct wire_packet *packet)
{
    uint64_t handle = req->completion.request;
    bool is_fin = packet->header.type == WIRE_FIN;

    if (req->state == BACKLOG_WAIT_RETIRE && !is_fin)
        backlog_data_wanted(ep, req);
    else if (req->state == BACKLOG_DEFERRED)
        backlog_taken_unclaimed(ep, peer, req);
    req = request_find(ep, handle);
    if (req == NULL)
        return -EPROTO;
    if (req->state == BACKLOG_WAIT_RETIRE && is_fin) {
        backlog_done(ep, peer, req);
        return 0;
    }
    return PROTO_OF(req->state) != PROTO_BACKLOG ? rndv_reply(ep, peer, packet) : -EPROTO;
}

/* ---- probes ---- */

static int on_peek(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    struct backlog *backlog = peer->backlog;

    if (backlog == NULL)
        return -EPROTO;
    backlog->peek_question = packet->body.peek.question;
    backlog->peek_envelope = (struct mbx_match_envelope){packet->header.context_id,
                                                         peer->number, packet->header.tag};
    backlog->peek_ignore = packet->header.data;
    backlog->peeked = 0;
    backlog_pump(ep, peer);
    outq_owe_now(ep, peer, OWES_PEEKED);
    return 0;
}

/* The deferred send that the receive in the PEEK would match; NULL: there is none, or an
 * earlier one may match. */
static struct request *backlog_peek(struct mbx_ep *ep, const struct peer *peer)
{
    struct backlog *backlog = peer->backlog;
    struct mbx_match_msg *msg;

    if (!peer_defer(peer)->is_deferred || backlog->claims != 0 || backlog->lost_count != 0 ||
        backlog->is_full || backlog->unread != &backlog->rtrs)
        return NULL;
    msg = mbx_match_peek(&ep_defer(ep)->backlogs->match, &backlog->peek_envelope,
                         backlog->peek_ignore);
    return msg != NULL ? container_of(msg, struct request, deferred) : NULL;
}

/* Answers the PEEK. */
static int backlog_send_peeked(struct mbx_ep *ep, struct peer *peer)
{
    static const struct mbx_status nothing;
    struct backlog *backlog = peer->backlog;
    struct wire_peeked peeked = {.question = backlog->peek_question};
    struct request *req;
    int err;

    if (!list_is_empty(&peer->outq.list))
        return -EAGAIN; /* a peer that repeats PEEKs must not keep messages from leaving */
    backlog_shut(ep, peer);
    req = backlog_peek(ep, peer);
    if (req != NULL) {
        peeked.sender = req->completion.request;
        peeked.size = req->size;
        rndv_expose(ep, req, &peeked.address, &peeked.key);
    }
    err =
        outq_notify_message(ep, peer, WIRE_PEEKED, 0,
                            req != NULL ? &req->completion.status : &nothing, &peeked, NULL, 0);
    if (err == 0)
        backlog->peeked = peeked.sender;
    backlog_show(ep, peer);
    return err;
}

/* ---- DEFER ---- */

/* Reports the epoch to the peer, or its end. */
static int backlog_send_defer(struct mbx_ep *ep, struct peer *peer)
{
    const struct backlog *backlog = peer->backlog;
    struct wire_defer body = {0};

    if (peer->outq.leaving != 0)
        return -EAGAIN;
    if (peer_defer(peer)->is_deferred)
        body = (struct wire_defer){backlog->epoch, ep_defer(ep)->capacity, backlog->from,
                                   backlog->sendtable != NULL ? backlog->sendtable->index : 0};
    return outq_notify(ep, peer, WIRE_DEFER, &body);
}

/* The peer is gone: ends all sends to it. */
static void backlog_on_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new)
{
    struct backlog *backlog = peer->backlog;

    (void)is_new;
    module_deferring(ep, peer);
    if (backlog == NULL)
        return;
    backlog_table_end(ep, backlog);
    rtr_drop_all(ep, backlog);
    backlog->lost_count = 0;
    peer_defer(peer)->is_deferred = false;
    backlog->is_locking = false;
    backlog->claims = 0;
    backlog->locks = 0;
    while (!list_is_empty(&backlog->sends)) {
        struct request *req = request_of_queue(backlog->sends.next);

        backlog_remove(ep, backlog, req);
        request_complete(ep, req, error);
    }
    credit_without_end(peer); /* so that later sends fail at once */
}

static bool backlog_on_refers(struct mbx_ep *ep, const struct peer *peer)
{
    const struct backlog *backlog = peer->backlog;

    (void)ep;
    return backlog != NULL && (backlog->count != 0 || backlog->rtr_count != 0 ||
                               backlog->sendtable != NULL || backlog->is_pumping);
}

static int backlog_cancel(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);

    req->flags |= REQUEST_WITHDRAWN;
    peer->backlog->withdrawn++;
    backlog_pump(ep, peer);
    return 0;
}

/* ---- as a protocol: when a peer is gone the module ends all its sends at once ---- */

static const struct proto backlog_proto = {
    .id = PROTO_BACKLOG,
    .part = PART_DEFERRED,
    .name = "deferred send",
    .states =
        {
            [BACKLOG_DEFERRED %
             PROTO_STATES] = {.name = "deferred",
                              .kinds = MBX_SENDS,
                              .queue = PROTO_ALWAYS,
                              .next = PROTO_NEXT(BACKLOG_DEFERRED) | PROTO_NEXT(BACKLOG_LOCK) |
                                      PROTO_NEXT(BACKLOG_CLAIM),
                              .then = PROTO_THEN(PROTO_EAGER) | PROTO_THEN(PROTO_RNDV),
                              .from = {SEND_NEW},
                              .awaits_peer = true},
            [BACKLOG_LOCK % PROTO_STATES] = {.name = "lock",
                                             .kinds = MBX_SENDS,
                                             .queue = PROTO_ALWAYS,
                                             .next = PROTO_NEXT(BACKLOG_DEFERRED) |
                                                     PROTO_NEXT(BACKLOG_CLAIM),
                                             .awaits_peer = true},
            [BACKLOG_CLAIM % PROTO_STATES] = {.name = "claim",
                                              .kinds = MBX_SENDS,
                                              .out = PROTO_ALWAYS,
                                              .queue = PROTO_ALWAYS,
                                              .next = PROTO_NEXT(BACKLOG_WAIT_RETIRE)},
            [BACKLOG_WAIT_RETIRE % PROTO_STATES] = {.name = "wait-retire",
                                                    .kinds = MBX_SENDS,
                                                    .queue = PROTO_ALWAYS,
                                                    .next = PROTO_NEXT(BACKLOG_DEFERRED),
                                                    .then = PROTO_THEN(PROTO_RNDV),
                                                    .awaits_peer = true},
        },
    .step = backlog_claim_step,
    .reply = backlog_reply,
    .cancel = backlog_cancel,
};

const struct module backlog_module = {
    .name = "backlog",
    .proto = &backlog_proto,
    .packets =
        (const struct packet_handler[]){
            {WIRE_RTR, on_rtr}, {WIRE_RETIRE, on_retire}, {WIRE_PEEK, on_peek}, {0}},
    .controls =
        (const struct control[]){
            {.what = OWES_DEFER,
             .send = backlog_send_defer,
             .is_closing = true,
             .is_behind = true},
            {.what = OWES_PEEKED,
             .send = backlog_send_peeked,
             .is_closing = true,
             .is_behind = true},
            {.what = OWES_COMPARE, .send = backlog_again, .is_closing = true, .is_first = true},
            {0}},
    .close = on_close,
    .fini = backlog_on_fini,
    .peer_gone = backlog_on_gone,
    .peer_refers = backlog_on_refers,
    .defer = backlog_add,
    .credit_came = on_credit_came,
    .is_valid = MBX_CHECKS ? backlog_is_valid : NULL,
};
