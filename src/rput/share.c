/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share.c - long messages that both sides copy, each a part.
 *
 * Where a read or write is a copy by the processor of who asks for it, the sender of a
 * rendezvous has nothing to do while the receiver reads, and its processor, which waits for
 * FIN, is idle.  So the receiver asks it to write: of what is missing, at most a chunk at a
 * time, the second half.  It asks once it reads, and does not wait for an answer: the part has
 * a word (arbiter.h), which the sender takes before it writes, and the receiver closes when it
 * has read the first half.  Whoever is first has the second half.  A sender that computes, or
 * whose process does not run, takes nothing, and the receiver reads all by itself.
 *
 *   rndv.c: READ ── SHARE ──> READ ── first half read, word closed ──────────> rndv.c: READ
 *                              │ └─── first half read, word taken ──> FILLING
 *                              │                                         │
 *                              └ WRITTEN: noted, then as without word    └ WRITTEN ──> READ
 *
 * A part that could not be written whole is read from where its sender has stopped.  If it is
 * the receiver that cannot read, it asks with a CTS as ever, but not while its sender writes.
 *
 * What is asked for costs a packet, and is of no use if the sender looks too late.  So for each
 * peer, as in early_recv.c, after one that was of no use `pause` parts are not shared.
 *
 * At the sender it is a message that is written in advance (early_send.c), of which only a part
 * is wanted, and that waits for FIN again when that is written.
 *
 * Invariants
 *   I1  a receive is shared only behind the meeting with its message, so that `share` may lie
 *       where its place in the engine was
 *   I2  it is LENT while share.word is not 0: its sender may write [share.from, share.to), and
 *       nobody else touches these; ep->lent counts such receives
 *   I3  a send is SHARED only in EARLY_WRITING and EARLY_WRITTEN
 */
#include "base/check.h"
#include "rput/share.h"

#include "core/arbiter.h"
#include "rput/early.h"
#include "core/module.h"
#include "transport/memory.h"

/* The border between the parts, as seen from the buffer. */
#define BORDER     ((size_t)4096)

#define PAUSE_MOST 32 /* parts */

static int on_open(struct mbx_ep *ep)
{
    const struct settings *s = &ep->settings;
    bool is_off = s->share == SHARE_OFF || s->rndv == RNDV_DATA || ep->arbiter == NULL ||
                  ep->offload != NULL;

    ep->share_from = is_off ? SIZE_MAX : s->share_size;
    return 0;
}

/* ---- the word ---- */

/* The arbiter finds the word of a request in its key, where the sender's buffer has its own. */
static void swap_key(struct request *req)
{
    uint64_t key = req->key;

    req->key = req->share.word;
    req->share.word = key;
}

static bool word_open(struct mbx_ep *ep, struct request *req)
{
    swap_key(req);
    arbiter_open(ep, req);
    swap_key(req);
    return req->share.word != 0;
}

static bool word_close(struct mbx_ep *ep, struct request *req)
{
    bool is_closed;

    swap_key(req);
    is_closed = arbiter_close(ep, req);
    swap_key(req);
    return is_closed;
}

static void word_abandon(struct mbx_ep *ep, struct request *req)
{
    swap_key(req);
    arbiter_abandon(ep, req);
    swap_key(req);
}

/* False: that peer has not taken it. */
static bool word_give(struct mbx_ep *ep, struct request *req, const struct peer *peer)
{
    bool is_given;

    swap_key(req);
    is_given = arbiter_give(ep, req, peer, true);
    swap_key(req);
    return is_given;
}

/* ---- is it of use? ---- */

static bool share_suits(struct mbx_ep *ep, struct peer *peer)
{
    const struct transport_limits *limits = &peer->link->transport->limits;

    if (!limits->is_copy || !limits->is_instant)
        return false;
    if (ep->settings.share == SHARE_ALWAYS)
        return true;
    if (ep_is_oversubscribed(ep))
        return false; /* the processor of the sender may be ours */
    return !backoff_skips(&peer->share);
}

static void share_was_useless(struct peer *peer)
{
    backoff_more(&peer->share, PAUSE_MOST);
}

/* ---- receiver ---- */

/* Nobody writes any more. */
static void unlend(struct mbx_ep *ep, struct request *req)
{
    struct link *link = peer_get(ep, req->peer)->link;

    transport_unexpose(link, req->lent.address, req->lent.key);
    req->flags &= (uint16_t)~REQUEST_LENT;
    ep->lent--;
}

/* False: the sender cannot write there. */
static bool lend(struct mbx_ep *ep, struct request *req, size_t from, size_t to)
{
    struct link *link = peer_get(ep, req->peer)->link;

    assert(from < to && to <= req->total);
    req->share = (struct share){.from = from, .to = to};
    if (!word_open(ep, req))
        return false;
    if (transport_expose(link, req->buf + from, to - from, &req->lent.address,
                         &req->lent.key) != 0) {
        word_close(ep, req);
        return false;
    }
    req->flags |= REQUEST_LENT;
    ep->lent++;
    return true;
}

/* False: the sender has its part, and will say WRITTEN. */
static bool take_back(struct mbx_ep *ep, struct request *req)
{
    if (!word_close(ep, req))
        return false;
    unlend(ep, req);
    return true;
}

static int tell(struct mbx_ep *ep, struct peer *peer, const struct request *req)
{
    const struct wire_share body = {
        .sender = req->remote,
        .receiver = req->completion.request,
        .offset = req->share.from,
        .size = req->share.to - req->share.from,
        .word = req->share.word,
        .as = peer->number,
        .address = req->lent.address,
        .key = req->lent.key,
    };

    return outq_tell(ep, peer, WIRE_SHARE, &body);
}

/* req has read its part, or can read no more (ask: the rest is to come as data), and goes on
 * alone at req->done.  False: not before its sender says WRITTEN. */
static bool join(struct mbx_ep *ep, struct request *req, bool ask)
{
    if (req->share.word == 0) {
        if (!ask)
            req->done = req->share.filled;
        return true;
    }
    if (take_back(ep, req)) {
        share_was_useless(peer_get(ep, req->peer));
        return true;
    }
    req->share.ask = ask;
    proto_move(ep, req, SHARE_FILLING);
    return false;
}

/* req, in SHARE_READ, cannot be read. */
static void read_failed(struct mbx_ep *ep, struct request *req, int error)
{
    rndv_read_failed(ep, req, error);
    if (join(ep, req, true))
        rndv_ask(ep, req);
}

/* Reads a chunk of the part that is read here. */
static void share_read(struct mbx_ep *ep, struct request *req)
{
    int err = req->done < req->share.from
                  ? rndv_read_chunk(ep, req, req->share.from, SHARE_READ_WAIT)
                  : 0;

    ep_stir(ep); /* also if the transport goes on with it */
    if (err == -EINPROGRESS)
        return;
    if (err != 0 && err != -EAGAIN) {
        read_failed(ep, req, err);
    } else if (err == -EAGAIN || req->done < req->share.from) {
        list_add_tail(&ep->active, &req->queue);
    } else if (join(ep, req, false)) {
        proto_move(ep, req, RNDV_READ);
        rndv_read_alone(ep, req);
    }
}

static void on_io_done(struct mbx_ep *ep, struct request *req, int error)
{
    proto_move(ep, req, SHARE_READ);
    if (error < 0) {
        read_failed(ep, req, error);
        return;
    }
    req->done += rndv_chunk_size(ep, req, req->share.from);
    list_add_tail(&ep->active, &req->queue);
    ep_stir(ep);
}

/* req is about to read: its sender is asked to write a part, if that is of use. */
static bool on_read(struct mbx_ep *ep, struct request *req)
{
    size_t size = min_size(ep->settings.read_chunk, req->total - req->done);
    size_t half = size >= 4 * BORDER ? size / 2 & ~(BORDER - 1) : size / 2;
    struct peer *peer = peer_get(ep, req->peer);

    if (half == 0 || !share_suits(ep, peer) ||
        !lend(ep, req, req->done + half, req->done + size))
        return false;
    if (tell(ep, peer, req) != 0 && take_back(ep, req))
        return false;
    proto_move(ep, req, SHARE_READ);
    share_read(ep, req);
    return true;
}

/* req, LENT, is over: nobody is to write there any more. */
static void on_ended(struct mbx_ep *ep, struct request *req)
{
    if (!word_close(ep, req))
        word_abandon(ep, req); /* by a peer that is gone, or does not keep the rules */
    unlend(ep, req);
}

static void share_peer_gone(struct mbx_ep *ep, struct peer *peer, struct request *req,
                            int error)
{
    (void)peer;
    request_lost(ep, req, error);
}

static void share_take_back(void *arg, void *object)
{
    struct mbx_ep *ep = arg;
    struct request *req = object;

    if (PROTO_OF(req->state) == PROTO_SHARE && req->share.word != 0 && take_back(ep, req))
        req->share.filled = req->share.from; /* as if its sender had stopped at once */
}

/* Before the endpoint closes: what a sender has not begun with is read by us alone. */
static void on_stop(struct mbx_ep *ep)
{
    ep->share_from = SIZE_MAX;
    if (ep->lent != 0)
        pool_for_each(&ep->requests, share_take_back, ep);
}

struct request *share_named(const struct mbx_ep *ep, const struct peer *peer, uint64_t receiver)
{
    struct request *req = request_find(ep, receiver);

    return req != NULL && PROTO_OF(req->state) == PROTO_SHARE && req->peer == peer->number
               ? req
               : NULL;
}

int share_ended(struct mbx_ep *ep, struct peer *peer, struct request *req,
                const struct wire_packet *packet)
{
    const struct wire_written *written = &packet->body.written;
    bool is_stopped = (packet->header.flags & WIRE_STOPPED) != 0;

    if (written->done < req->share.from || written->done > req->share.to ||
        is_stopped != (written->done < req->share.to) || !word_give(ep, req, peer))
        return -EPROTO;
    unlend(ep, req);
    ep->stats.shared += !is_stopped;
    backoff_end(&peer->share);
    req->share.filled = written->done;
    if (req->state == SHARE_FILLING) {
        bool ask = req->share.ask;

        join(ep, req, ask);
        rndv_resume(ep, req, ask);
    }
    return 0;
}

/* ---- sender ---- */

static int on_share(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_share *share = &packet->body.share;
    struct request *req = request_find(ep, share->sender);

    if (req == NULL || !request_is_send(req) || req->peer != peer->number ||
        share->offset > req->size || share->size > req->size - share->offset)
        return -EPROTO;
    if (req->state != RNDV_WAIT_FIN || req->protocol != MBX_RNDV_READ || !peer->can_write ||
        ep->offload != NULL || arbiter_claim(peer, share->word, share->as, 0) != 0)
        return 0; /* it reads this part, too */
    /* as if all of the message were to go there, and all before the part had gone */
    req->target = (struct target){
        .receiver = share->receiver,
        .word = share->word,
        .as = share->as,
        .address = share->address - share->offset,
        .key = share->key,
        .size = share->offset + share->size,
    };
    req->flags |= REQUEST_SHARED;
    req->done = share->offset;
    req->total = share->offset + share->size;
    proto_move(ep, req, EARLY_WRITING);
    early_write(ep, req);
    return 0;
}

static const struct proto share_proto = {
    .id = PROTO_SHARE,
    .name = "shared receive",
    .states =
        {
            [SHARE_READ % PROTO_STATES] = {.name = "read",
                                           .kinds = MBX_RECVS,
                                           .queue = PROTO_ACTIVE,
                                           .moves = true,
                                           .next = PROTO_NEXT(SHARE_READ_WAIT) |
                                                   PROTO_NEXT(SHARE_FILLING),
                                           .then = PROTO_THEN(PROTO_RNDV),
                                           .is_first = true},
            [SHARE_READ_WAIT % PROTO_STATES] = {.name = "read-wait",
                                                .kinds = MBX_RECVS,
                                                .moves = true,
                                                .next = PROTO_NEXT(SHARE_READ)},
            [SHARE_FILLING % PROTO_STATES] = {.name = "filling",
                                              .kinds = MBX_RECVS,
                                              .moves = true,
                                              .then = PROTO_THEN(PROTO_RNDV),
                                              .awaits_peer = true},
        },
    .work = share_read,
    .io_done = on_io_done,
    .peer_gone = share_peer_gone,
    .ended = on_ended,
};

const struct module share_module = {
    .name = "share",
    .packets = (const struct packet_handler[]){{WIRE_SHARE, on_share}, {0}},
    .proto = &share_proto,
    .open = on_open,
    .stop = on_stop,
    .read = on_read,
    .is_valid = MBX_CHECKS ? share_is_valid : NULL,
};
