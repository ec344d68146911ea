/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * early_recv.c - large receives that travel first, at their receiver.
 *
 * A receive from one source that finds no message is told to that source at once (EARLY), with
 * the place of its buffer.  The source may then match its next message that suits with this
 * receive by itself, and write it there, as a matching device would.  That keeps the order of
 * MPI if at the moment of telling
 *
 *   1. no message of that source is undecided: not under way, not held.  Only the source can
 *      know.  So it is told the credit that it must have then (credit.h, I1: both ways are in
 *      order), and if it has another one, the receive is void there: forgotten
 *   2. each earlier open receive that could take a message that this one takes is known to the
 *      source, too.  So it has been told, and is numbered; the source is told the number of the
 *      oldest of them, and if it has forgotten one since, this one is void as well.  Later
 *      receives do no harm
 *   3. from then on the source compares each message with it before that leaves (early_send.c)
 *
 * A receive that the source forgets, at any time, is matched here as every other one, and
 * nobody waits for it.
 *
 *   POSTED ── WRITE, all of it is there ─────────────────────────> complete
 *      │ └─── WRITE ──> FILLING ── WRITTEN, all of it is there ──> complete
 *      │                   └────── WRITTEN, stopped ──────────┐
 *      └── WRITE, stopped ────────────────────────────────────┴──> as after an RTS (rndv.c)
 *
 * The receive has a word (arbiter.h), which the source takes before it writes.  There is only
 * this one that may take it.  The word stands between it and us: a receive is cancelled, or
 * given to a message that came by itself, by closing its word.  Without a free word a receive
 * is not told.
 *
 * What is told costs a packet, and is of no use if a message was under way or the next one is
 * short.  So for each peer the tries are counted: after one that was of no use `pause` receives
 * are not told, and pause doubles, up to PAUSE_MOST; after one that was it is 0 again.
 *
 * Invariants
 *   I1  a request is LENT from EARLY until nothing can be written into its buffer any more, and
 *       completes only then; while it is, key names its word or is 0
 *   I2  ep->lent counts those, peer.early->told those of one peer; that is at most EARLY_MOST
 *   I3  each open receive that overlaps with one that is LENT, and was posted earlier, is LENT,
 *       and has a smaller number
 */
#include "base/check.h"
#include "core/arbiter.h"
#include "p2p/credit.h"
#include "rput/early.h"
#include "core/module.h"
#include "p2p/record.h"
#include "rput/share.h"
#include "transport/memory.h"

/* Earlier open receives that one is compared with; if there are more it is not told. */
#define OTHERS_MOST 64

#define PAUSE_MOST  16

static int on_open(struct mbx_ep *ep)
{
    const struct settings *s = &ep->settings;

    ep->early_from = SIZE_MAX;
    if (s->early_recv == EARLY_OFF || s->any_source == ANY_SOURCE_SENDER ||
        s->rndv == RNDV_DATA || ep->arbiter == NULL || ep->offload != NULL ||
        !ep->transport->limits.can_read)
        return 0;
    if (ep->credit.window == 0 || ep->credit.window >= CREDIT_UNLIMITED)
        return 0; /* credit would say nothing of what is under way */
    ep->early_from = s->early_size;
    ep->watched_from = min_size(ep->watched_from, ep->early_from);
    return 0;
}

/* ---- is it of use? ---- */

static void early_was_used(struct early *early)
{
    backoff_end(&early->backoff);
}

static void early_was_useless(const struct mbx_ep *ep, struct early *early)
{
    if (ep->settings.early_recv == EARLY_ALWAYS)
        return;
    backoff_more(&early->backoff, PAUSE_MOST);
}

/* ---- telling ---- */

/* The oldest open receive before req that could take a message of req's, and that req's source
 * does not know; NULL: there is none.  *from: the number of the oldest that it knows, or of
 * req. Also req itself: there are too many to tell. */
static const struct mbx_match_recv *early_blocker(const struct mbx_ep *ep,
                                                  const struct request *req, uint64_t *from)
{
    const struct mbx_match *match = &context_find(ep, req->match.envelope.context_id)->match;
    const struct mbx_match_recv *other = NULL;

    *from = UINT64_MAX;
    for (int i = 0; i <= OTHERS_MOST; i++) {
        const struct request *earlier;

        other = mbx_match_next_recv(match, other);
        if (other == &req->match)
            return NULL;
        if (!early_overlap(&other->envelope, other->ignore, &req->match.envelope,
                           req->match.ignore))
            continue;
        earlier = container_of(other, struct request, match);
        if (!(earlier->flags & REQUEST_LENT))
            return other;
        *from = min_size(*from, earlier->lent.number);
    }
    return &req->match;
}

/* req may be written into by peer from now on, if *body gets there.  False: it cannot be. */
static bool early_lend(struct mbx_ep *ep, struct peer *peer, struct request *req, uint64_t from,
                       struct wire_early *body)
{
    struct early *early = peer->early;
    struct link *link = peer->link;

    assert(recv_is_open(req));
    assert(!(req->flags & REQUEST_LENT));
    assert(early->told < EARLY_MOST);
    if (!link->transport->limits.is_instant)
        return false; /* it could not win the receive */
    arbiter_open(ep, req);
    if (req->key == 0)
        return false;
    req->peer = peer->number;
    if (transport_expose(link, req->buf, req->size, &req->lent.address, &req->lent.key) != 0) {
        arbiter_close(ep, req);
        return false;
    }
    req->flags |= REQUEST_LENT;
    req->lent.number = ++early->numbered;
    ep->lent++;
    early->told++;
    *body = (struct wire_early){
        .receiver = req->completion.request,
        .number = req->lent.number,
        .from = min_size(from, req->lent.number),
        .word = req->key,
        .as = peer->number,
        .credit =
            peer->credit.window - peer->credit.kept_envelopes - peer->credit.freed_envelopes,
        .size = req->size,
        .address = req->lent.address,
        .key = req->lent.key,
    };
    return true;
}

/* req, LENT, is over: nobody is to write there any more. */
static void early_unlend(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);

    assert(req->flags & REQUEST_LENT);
    assert(ep->lent != 0);
    assert(peer->early->told != 0);
    if (!arbiter_close(ep, req))
        arbiter_abandon(ep, req); /* by a peer that is gone, or does not keep the rules */
    transport_unexpose(peer->link, req->lent.address, req->lent.key);
    req->flags &= (uint16_t)~REQUEST_LENT;
    ep->lent--;
    peer->early->told--;
}

/* from: as early_blocker() has said. */
static void early_tell(struct mbx_ep *ep, struct peer *peer, struct request *req, uint64_t from)
{
    const struct mbx_status status = {
        .context_id = req->match.envelope.context_id,
        .tag = req->match.envelope.tag,
        .data = req->match.ignore,
    };
    struct wire_early body;

    if (peer->early->told == EARLY_MOST || !early_lend(ep, peer, req, from, &body))
        return;
    if (outq_tell_message(ep, peer, WIRE_EARLY, 0, &status, &body, NULL, 0) != 0) {
        early_unlend(ep, req); /* then not */
        return;
    }
    ep->stats.early_rtrs++;
    record_step(ep, TRACE_EARLY, peer, &req->match.envelope, req->match.ignore,
                req->completion.request, 0);
}

/* Tells req if there is nothing before it that its source should know.  Else that. */
static const struct mbx_match_recv *early_try(struct mbx_ep *ep, struct peer *peer,
                                              struct request *req)
{
    uint64_t from;
    const struct mbx_match_recv *blocker = early_blocker(ep, req, &from);

    if (blocker == NULL)
        early_tell(ep, peer, req, from);
    return blocker;
}

/* May this open receive, which blocks req, be told before it?  It was left out for some time.
 */
static struct request *early_before(const struct mbx_ep *ep,
                                    const struct mbx_match_recv *blocker,
                                    const struct request *req)
{
    struct request *other =
        container_of((struct mbx_match_recv *)(uintptr_t)blocker, struct request, match);

    return other != req && blocker->envelope.source == req->match.envelope.source &&
                   size_is_early(ep, other->size)
               ? other
               : NULL;
}

static struct early *early_of(struct peer *peer)
{
    if (peer->early == NULL)
        peer->early = mem_calloc(1, sizeof *peer->early);
    return peer->early;
}

/* req waits in its engine. */
static void on_posted(struct mbx_ep *ep, struct request *req)
{
    const struct mbx_match_recv *blocker;
    struct request *other;
    struct peer *peer;
    struct early *early;

    if (!size_is_early(ep, req->size) || req->match.envelope.source == MBX_ANY_SOURCE ||
        req->key != 0 || peer_use(ep, req->match.envelope.source) != 0)
        return;
    peer = peer_get(ep, req->match.envelope.source);
    early = early_of(peer);
    if (early == NULL || early->told == EARLY_MOST || peer->holds || peer->is_gone)
        return;
    if (backoff_skips(&early->backoff))
        return;
    blocker = early_try(ep, peer, req);
    if (blocker == NULL)
        return;
    other = early_before(ep, blocker, req);
    if (other != NULL && early_try(ep, peer, other) == NULL)
        early_try(ep, peer, req);
}

/* ---- the end of it ---- */

/* req has left its engine, for its sender's message or another one, or for nothing. */
static void on_left(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                    const struct peer *by)
{
    (void)by;
    if (!(req->flags & REQUEST_LENT) || cause == RECV_WRITTEN)
        return;
    if (cause != RECV_ENDED) {
        ep->stats.early_missed++;
        early_was_useless(ep, peer_get(ep, req->peer)->early);
    }
    early_unlend(ep, req);
}

static void early_take_back(void *arg, void *object)
{
    struct mbx_ep *ep = arg;
    struct request *req = object;

    if (req->state == REQUEST_POSTED && (req->flags & REQUEST_LENT) && arbiter_close(ep, req))
        early_unlend(ep, req);
}

/* Before the endpoint closes: takes back what no sender has taken. */
static void on_stop(struct mbx_ep *ep)
{
    ep->early_from = SIZE_MAX;
    if (ep->lent != 0)
        pool_for_each(&ep->requests, early_take_back, ep);
}

/* ---- what the sender says ---- */

/* The open receive that a WRITE of peer is for, if that may be. */
static struct request *early_named(struct mbx_ep *ep, const struct peer *peer,
                                   const struct wire_packet *packet)
{
    const struct wire_write *write = &packet->body.write;
    struct request *req = request_find(ep, write->receiver);
    const struct mbx_match_envelope envelope = {packet->header.context_id, peer->number,
                                                packet->header.tag};

    if (req == NULL || request_is_send(req) || !recv_is_open(req) ||
        !(req->flags & REQUEST_LENT) || req->peer != peer->number)
        return NULL;
    return mbx_match_accepts(&req->match.envelope, req->match.ignore, &envelope) &&
                   write->done <= req->size && write->sender != 0
               ? req
               : NULL;
}

/* All that fits is in the buffer. */
static void early_received(struct mbx_ep *ep, struct request *req)
{
    ep->stats.received[MBX_RNDV_WRITE]++;
    ep->stats.received_bytes[MBX_RNDV_WRITE] += req->completion.status.size;
    req->completion.received = req->total;
    request_complete(ep, req, req->completion.error); /* and is not LENT any more */
}

/* No more is written: the rest lies at its sender, as after an RTS. */
static void early_fetch(struct mbx_ep *ep, struct request *req, uint64_t address, uint64_t key)
{
    early_unlend(ep, req);
    req->address = address;
    req->key = key;
    rndv_resume(ep, req, false);
}

static int on_write(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct mbx_match_envelope envelope = {packet->header.context_id, peer->number,
                                                packet->header.tag};
    const struct wire_write *write = &packet->body.write;
    struct request *req = early_named(ep, peer, packet);

    if (req == NULL || !arbiter_give(ep, req, peer, true))
        return -EPROTO;
    ep->stats.early_won++;
    early_was_used(peer->early);
    recv_taken(ep, req, &envelope, RECV_WRITTEN, peer);
    recv_describe(ep, req, &envelope, packet->header.data, write->size);
    req->remote = write->sender;
    req->done = write->done;
    proto_move(ep, req, EARLY_FILLING);
    if (req->done == req->total)
        early_received(ep, req);
    else if (packet->header.flags & WIRE_STOPPED)
        early_fetch(ep, req, write->address, write->key);
    return 0;
}

static int on_written(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_written *written = &packet->body.written;
    bool is_stopped = (packet->header.flags & WIRE_STOPPED) != 0;
    struct request *req = share_named(ep, peer, written->receiver);

    if (req != NULL)
        return share_ended(ep, peer, req, packet);
    req = request_named(ep, written->receiver, peer->number, EARLY_FILLING);
    if (req == NULL || written->done < req->done || written->done > req->total ||
        is_stopped != (written->done < req->total))
        return -EPROTO;
    req->done = written->done;
    if (is_stopped)
        early_fetch(ep, req, written->address, written->key);
    else
        early_received(ep, req);
    return 0;
}

/* What is still lent is being written. */
static bool on_is_flushed(const struct mbx_ep *ep)
{
    return ep->lent == 0;
}

static void early_recv_gone(struct mbx_ep *ep, struct peer *peer, struct request *req,
                            int error)
{
    (void)peer;
    request_lost(ep, req, error);
}

static const struct proto early_recv_proto = {
    .id = PROTO_EARLY_RECV,
    .name = "early receive",
    .states = {{.name = "filling",
                .kinds = MBX_RECVS,
                .moves = true,
                .then = PROTO_THEN(PROTO_RNDV),
                .is_first = true,
                .awaits_peer = true}},
    .peer_gone = early_recv_gone,
    .ended = early_unlend,
};

const struct module early_recv_module = {
    .name = "early receive",
    .proto = &early_recv_proto,
    .packets = (const struct packet_handler[]){{WIRE_WRITE, on_write},
                                               {WIRE_WRITTEN, on_written},
                                               {0}},
    .open = on_open,
    .stop = on_stop,
    .is_flushed = on_is_flushed,
    .recv_posted = on_posted,
    .recv_left = on_left,
    .is_valid = MBX_CHECKS ? early_recv_is_valid : NULL,
};
