/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * claims.c - compares deferred sends with the RTRs of their receiver, and claims receives.
 *
 *      rtrs    r1 r2 | r3 ...   unread: from r3 on not compared
 *      sends   s1 s2 s3 | s4    fresh: from s4 on not compared
 *              └ DEFERRED ── matches RTR ──> CLAIM ──> WAIT_RETIRE
 *
 * A receive may be claimed if its RTR is the earliest that matches the send, and the send is
 * the earliest that matches the RTR.  A send whose claim is unresolved counts as waiting: if it
 * loses, it has the right to the next RTR that matches it, before any later send.  So, in this
 * order
 *   1. a send whose claim was lost, or otherwise the first fresh one, is compared with the
 *      RTRs, but only while no claim is unresolved;
 *   2. when there is no send for rule 1, the first unread RTR is compared with the sends.  If
 *      the earliest send that matches it has an unresolved claim, this RTR and all later ones
 *      stay unread until that claim is resolved.
 *
 * With MBX_MATCH_AT=sender the receive may have a word, which is taken before the claim leaves
 * (by_sender.c).
 *
 * The matching engine is used in reverse: deferred sends are its messages, RTRs its receives,
 * and the source of both is the peer.  A send with a claim keeps its place in the engine
 * (backlog.c I2); its RTR leaves, because with any result of the claim that receive is no
 * longer open.
 *
 * The peer can also pull sends that it sees in a table (sendtable.h): then they wait for FIN or
 * CTS as after a RETIRE with WON.  It can do so only while the table is open: code that decides
 * about a send shuts the table first, and learns which sends were pulled.
 *
 * backlog.c decides when all of that happens, and has the invariants.
 */
#include "defer/backlog.h"

#include "core/core.h"
#include "p2p/p2p.h"
#include "defer/by_sender.h"
#include "defer/sendtable.h"

/* ---- lists ---- */

void rtr_drop(struct mbx_ep *ep, struct backlog *backlog, struct rtr *rtr)
{
    assert(backlog->rtr_count != 0);
    if (backlog->unread == &rtr->node)
        backlog->unread = rtr->node.next;
    mbx_match_cancel(&ep_defer(ep)->backlogs->match, &rtr->match);
    list_remove(&rtr->node);
    backlog->rtr_count--;
    pool_give(&ep_defer(ep)->backlogs->rtrs, rtr);
}

void rtr_drop_all(struct mbx_ep *ep, struct backlog *backlog)
{
    while (!list_is_empty(&backlog->rtrs))
        rtr_drop(ep, backlog, rtr_of(backlog->rtrs.next));
}

/* Removes req from the sends. */
void backlog_remove(struct mbx_ep *ep, struct backlog *backlog, struct request *req)
{
    assert(backlog->count != 0);
    assert(backlog->sendtable == NULL ||
           !backlog->sendtable->is_open); /* otherwise the peer might pull it now */
    if (backlog->fresh == &req->queue)
        backlog->fresh = req->queue.next;
    if (backlog->sendtable != NULL)
        sendtable_forget(backlog->sendtable, req);
    mbx_match_extract(&ep_defer(ep)->backlogs->match, &req->deferred);
    list_remove(&req->queue);
    backlog->count--;
    backlog->withdrawn -= (req->flags & REQUEST_WITHDRAWN) != 0;
    ep->stats.deferred_now--;
}

/* ---- messages that the peer takes by itself ---- */

void backlog_table_end(struct mbx_ep *ep, struct backlog *backlog)
{
    if (backlog->sendtable != NULL)
        sendtable_give(ep, backlog->sendtable);
    backlog->sendtable = NULL;
}

/* Removes req from lost[]. */
void backlog_unlost(struct backlog *backlog, const struct request *req)
{
    for (uint32_t i = 0; i < backlog->lost_count; i++)
        if (backlog->lost[i] == req)
            backlog->lost[i--] = backlog->lost[--backlog->lost_count];
}

/* The peer has pulled req, and will send a FIN or CTS. */
static void backlog_pulled(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    bool is_short = sendtable_is_short(req) && req->protocol <= MBX_BOUNCE;

    tracepoint_step(ep, TRACE_PULLED, peer, &req->deferred.envelope, 0, req->completion.request,
                    0);
    ep->stats.pulled_by_peers++;
    backlog_unlost(peer->backlog, req);
    backlog_remove(ep, peer->backlog, req);
    if (is_short)
        send_count(ep, req);
    else if (req->protocol <= MBX_BOUNCE)
        path_reroute(ep, req, path_rndv(peer));
    proto_move(ep, req, is_short ? EAGER_WAIT_FIN : RNDV_WAIT_FIN);
}

/* From here to backlog_show() the peer can pull no send; the sends that it has pulled are
 * known. */
void backlog_shut(struct mbx_ep *ep, struct peer *peer)
{
    struct backlog *backlog = peer->backlog;
    uint32_t taken;

    if (backlog->sendtable == NULL)
        return;
    if (sendtable_shut(ep, backlog->sendtable, &taken) < 0) {
        LOG_WARN("peer %u has damaged its table of deferred sends here; its later sends do not "
                 "use one, and results stay right.  Please report this",
                 peer->number);
        backlog->is_cheated = true;
        backlog_table_end(ep, backlog);
        return;
    }
    for (; taken != 0; taken &= taken - 1)
        backlog_pulled(ep, peer, backlog->sendtable->entries[__builtin_ctz(taken)]);
}

/* Lets the peer pull deferred sends. */
void backlog_show(struct mbx_ep *ep, struct peer *peer)
{
    struct backlog *backlog = peer->backlog;

    if (backlog->sendtable == NULL || !peer_defer(peer)->is_deferred || backlog->peeked != 0)
        return;
    if (backlog->sendtable->is_open && !sendtable_is_due(backlog->sendtable, &backlog->sends))
        return;
    backlog_shut(ep, peer);
    if (backlog->sendtable != NULL)
        sendtable_publish(ep, peer, backlog->sendtable, &backlog->sends, backlog->epoch);
}

/* ---- claims ---- */

/* The bytes of payload in a claim. */
static size_t claim_payload(const struct mbx_ep *ep, const struct request *req)
{
    size_t capacity = rndv_capacity(ep, WIRE_CLAIM);

    if (request_is_in_pieces(req))
        return 0; /* it can be packed only once, and the claim may be lost */
    if (req->size <= ep->limits.eager_max && req->size <= capacity)
        return req->size;
    return rndv_payload_size(ep, peer_get(ep, req->peer), WIRE_CLAIM, req->size);
}

/* Sends the claim of req now.  As eager_step(). */
int backlog_claim_step(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);
    size_t payload = claim_payload(ep, req);
    struct wire_claim claim = {
        .sender = req->completion.request,
        .receiver = req->remote.request,
        .size = req->size,
    };
    int err;

    assert(request_has(ep, req, PART_DEFERRED));
    assert(req->state == BACKLOG_CLAIM);
    if (payload < req->size) {
        if (req->protocol <= MBX_BOUNCE)
            path_reroute(ep, req, path_rndv(peer));
        rndv_expose(ep, req, &claim.address, &claim.key);
    }
    err = outq_notify_message(ep, peer, WIRE_CLAIM, req->flags & REQUEST_WON ? WIRE_WON : 0,
                              &req->completion.status, &claim, req->buf, payload);
    if (err == -EAGAIN)
        return err;
    proto_move(ep, req,
               BACKLOG_WAIT_RETIRE); /* also if the claim cannot leave because the peer is gone:
                                        until backlog_on_gone() */
    return 0;
}

/* The claim of req is lost: req waits again, and has kept its place in the engine. */
void backlog_lost(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    struct backlog *backlog = peer->backlog;

    assert(request_has(ep, req, PART_DEFERRED));
    backlog_shut(ep, peer);
    proto_move(ep, req, BACKLOG_DEFERRED);
    req->flags &= (uint32_t)~REQUEST_WON;
    /* there is space: claims and lost_count together never exceed BACKLOG_CLAIMS.  An RTR leads
     * to a claim only while lost[] is empty, and a send from lost[] claims only while no claim
     * is unresolved */
    assert(backlog->lost_count < BACKLOG_CLAIMS);
    backlog->lost[backlog->lost_count++] = req;
    ep->stats.claims_lost++;
    tracepoint_step(ep, TRACE_LOST, peer, &req->deferred.envelope, 0, req->completion.request,
                    req->remote.request);
}

/* Sends the claim of req, now or in its turn. */
void backlog_claim_leaves(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    int err = -EAGAIN;

    proto_move(ep, req, BACKLOG_CLAIM);
    if (list_is_empty(&peer->outq.list))
        err = backlog_claim_step(ep, req);
    if (err == -EAGAIN)
        outq_push(ep, peer, req);
}

/* Claims the receive of rtr for req. */
static void backlog_claim(struct mbx_ep *ep, struct peer *peer, struct request *req,
                          struct rtr *rtr)
{
    struct backlog *backlog = peer->backlog;
    uint64_t word = rtr->word, owner_id = rtr->owner_id;

    assert(request_has(ep, req, PART_DEFERRED));
    assert(req->state == BACKLOG_DEFERRED);
    assert(backlog->claims < BACKLOG_CLAIMS);
    req->remote.request = rtr->receiver;
    rtr_drop(ep, backlog, rtr);
    ep->stats.claims++;
    tracepoint_step(ep, TRACE_MATCH, peer, &req->deferred.envelope, 0, req->completion.request,
                    req->remote.request);
    backlog->claims++;
    if (unlikely(word != 0))
        by_sender_take(ep, peer, req, word, owner_id);
    else
        backlog_claim_leaves(ep, peer, req);
}

/* The claim of req is resolved. */
void backlog_resolved(struct backlog *backlog, struct request *req)
{
    if (req->state != BACKLOG_WAIT_RETIRE)
        return;
    assert(backlog->claims != 0);
    backlog->claims--;
    backlog->locks -= (req->flags & REQUEST_WON) != 0;
}

/* ---- comparing ---- */

/* Removes the oldest send from lost[], and returns it. */
static struct request *lost_pop(struct backlog *backlog)
{
    uint32_t oldest = 0;
    struct request *req;

    assert(backlog->lost_count != 0);
    for (uint32_t i = 1; i < backlog->lost_count; i++)
        if ((int64_t)(backlog->lost[i]->deferred.seq - backlog->lost[oldest]->deferred.seq) < 0)
            oldest = i;
    req = backlog->lost[oldest];
    backlog->lost[oldest] = backlog->lost[--backlog->lost_count];
    return req;
}

/* Rule 1: compares a send with the RTRs. */
static void compare_send(struct mbx_ep *ep, struct peer *peer)
{
    struct mbx_match *match = &ep_defer(ep)->backlogs->match;
    struct backlog *backlog = peer->backlog;
    bool is_lost = backlog->lost_count != 0;
    struct request *req = is_lost ? lost_pop(backlog) : request_of_queue(backlog->fresh);
    struct mbx_match_recv *recv = mbx_match_find(match, &req->deferred.envelope);

    if (!is_lost) {
        mbx_match_keep(match, &req->deferred);
        backlog->fresh = req->queue.next;
    }
    if (recv != NULL)
        backlog_claim(ep, peer, req, container_of(recv, struct rtr, match));
}

/* Rule 2: compares the first unread RTR with the sends.  False: it stays unread.  It is not
 * dropped, because the receiver does not send it again. */
static bool compare_rtr(struct mbx_ep *ep, struct peer *peer)
{
    struct mbx_match *match = &ep_defer(ep)->backlogs->match;
    struct backlog *backlog = peer->backlog;
    struct rtr *rtr = rtr_of(backlog->unread);
    struct mbx_match_msg *msg = mbx_match_peek(match, &rtr->match.envelope, rtr->match.ignore);
    struct request *req;

    if (msg == NULL) {
        if (mbx_match_post(match, &rtr->match, &msg) < 0) {
            outq_owe(ep, peer, OWES_COMPARE); /* no other event would repeat this */
            return false;
        }
        backlog->unread = rtr->node.next;
        return true;
    }
    req = container_of(msg, struct request, deferred);
    /* A send that is not DEFERRED has a claim: if it loses, it has the right to this RTR. */
    if (req->state != BACKLOG_DEFERRED || (rtr->word != 0 && !by_sender_may_take(backlog)))
        return false;
    backlog_claim(ep, peer, req, rtr);
    return true;
}

/* Makes the next comparison.  False: none is possible now. */
bool backlog_compare(struct mbx_ep *ep, struct peer *peer)
{
    struct backlog *backlog = peer->backlog;
    bool has_sends = backlog->lost_count != 0 ||
                     (backlog_has_fresh(backlog) && !backlog_is_partial(backlog));

    if (backlog->is_locking)
        return false;
    if (has_sends) {
        if (backlog->claims != 0)
            return false;
        compare_send(ep, peer);
        return true;
    }
    return backlog->unread != &backlog->rtrs && backlog->claims < BACKLOG_CLAIMS &&
           compare_rtr(ep, peer);
}
