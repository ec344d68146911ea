/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * by_sender.c - MBX_MATCH_AT=sender: a lock word decides which sender wins a receive.
 *
 * With this parameter a receiver has no window, so every message is deferred (settings.c).  Each
 * open receive has a word (lockword.h), while one is free, and its RTRs name that word.  A sender
 * takes the word before it claims the receive:
 *
 *   DEFERRED ── the word is taken ─────────────────────────────> CLAIM, with WON
 *      │ ^ └─── over a network: LOCK ── by_sender_exchanged() ──> CLAIM, with WON
 *      │ │                       │ └─── an error ───────────────> CLAIM: the receiver decides
 *      │ └───────────────────────┴──── another sender has it: the claim is lost
 *      └─────── the receive has no word: an ordinary claim (claims.c)
 *
 * LOCK counts as a claim.  No comparison is made meanwhile: the claim of a later send could
 * arrive first, while an earlier receive that matches both sends is still open.  For the same
 * reason no word is taken while a claim without one is unresolved: that claim is still on its
 * way, and the word would be taken at once.
 *
 * backlog.c I6 is the invariant.
 */
#include "defer/by_sender.h"

#include "core/core.h"
#include "p2p/p2p.h"

/* ---- at the receiver ---- */

void by_sender_open(struct mbx_ep *ep, struct request *req)
{
    lockword_open(ep, &req->open.word);
}

void by_sender_name(const struct mbx_ep *ep, const struct peer *peer, const struct request *req,
                    struct wire_rtr *rtr)
{
    if (peer->link->transport != ep->net.transport)
        return; /* words are in the memory of one transport, and the peer uses another */
    rtr->word = req->open.word;
    rtr->owner_id = peer->number;
}

void by_sender_close(struct mbx_ep *ep, struct request *req)
{
    if (!lockword_close(ep, &req->open.word, recv_heir(req)))
        lockword_abandon(ep, &req->open.word);
}

/* ---- at a sender ---- */

/* req, which counts as a claim with a word, has taken the word. */
static void won(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    req->flags |= REQUEST_WON;
    ep->stats.locks++;
    tracepoint_step(ep, TRACE_LOCK, peer, &req->deferred.envelope, 0, req->completion.request,
                    req->remote.request);
    backlog_claim_leaves(ep, peer, req);
}

/* Another sender has taken the word. */
static void lost(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    peer->backlog->claims--;
    peer->backlog->locks--;
    backlog_lost(ep, peer, req);
}

void by_sender_take(struct mbx_ep *ep, struct peer *peer, struct request *req, uint64_t word,
                    uint64_t owner_id)
{
    struct backlog *backlog = peer->backlog;

    assert(!backlog->is_locking);
    backlog->locks++;
    switch (lockword_take(peer, word, owner_id, req->completion.request)) {
    case 0:
        won(ep, peer, req);
        return;
    case -EALREADY:
        lost(ep, peer, req);
        return;
    case -EINPROGRESS:
        proto_move(ep, req, BACKLOG_LOCK);
        backlog->is_locking = true;
        return;
    default: /* the word cannot be reached: the receiver decides */
        backlog->locks--;
        backlog_claim_leaves(ep, peer, req);
    }
}

void by_sender_exchanged(void *arg, uint64_t cookie, int error, bool is_exchanged)
{
    struct mbx_ep *ep = arg;
    struct request *req = pool_find(&ep->requests.pool, cookie);
    struct peer *peer;

    if (req == NULL || req->state != BACKLOG_LOCK)
        return; /* its peer is gone */
    peer = peer_get(ep, req->peer);
    peer->backlog->is_locking = false;
    if (error != 0) {
        /* the receiver decides; the claim is only queued, since this may be called within
         * another call */
        peer->backlog->locks--;
        proto_move(ep, req, BACKLOG_CLAIM);
        outq_push(ep, peer, req);
        return; /* the answer to the claim calls backlog_pump() */
    }
    if (is_exchanged)
        won(ep, peer, req);
    else
        lost(ep, peer, req);
    backlog_pump(ep, peer);
}
