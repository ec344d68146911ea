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
 *   READ ── SHARE ──> READ, SHARED ── first half read, word closed ────────────> READ
 *                       │    └─────── first half read, word taken ──> FILLING
 *                       │                                               │
 *                       └── WRITTEN: noted, and then as without word    └ WRITTEN ──> READ
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
 *   I1  a receive is SHARED only in READ, READ_WAIT and FILLING, behind the meeting with its
 *       message, so that `share` may lie where its place in the engine was
 *   I2  while share.word is not 0 its sender may write [share.from, share.to), and nobody else
 *       touches these; ep->lent counts such receives
 *   I3  a send is SHARED only in WRITING and WRITTEN
 */
#include "base/check.h"
#include "core/share.h"

#include "core/arbiter.h"
#include "core/early.h"
#include "core/module.h"
#include "transport/memory.h"

/* The border between the parts, as seen from the buffer. */
#define BORDER    ((size_t)4096)

#define PAUSE_MAX 5 /* 2 to the power of it less 1, parts */

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
    if (ep->peer_count > ep->cores)
        return false; /* the processor of the sender may be ours */
    if (peer->share_skip == 0)
        return true;
    peer->share_skip--;
    return false;
}

static void share_was_useless(struct peer *peer)
{
    if (peer->share_pause < PAUSE_MAX)
        peer->share_pause++;
    peer->share_skip = (uint8_t)((1u << peer->share_pause) - 1) & 31;
}

/* ---- receiver ---- */

static void lend(struct mbx_ep *ep, struct request *req, size_t from, size_t to)
{
    struct link *link = peer_get(ep, req->peer)->link;

    assert(from < to && to <= req->total);
    req->share = (struct share){.from = from, .to = to};
    if (!word_open(ep, req))
        return;
    if (transport_expose(link, req->buf + from, to - from, &req->lent.address,
                         &req->lent.key) != 0) {
        word_close(ep, req);
        return;
    }
    req->flags |= REQUEST_SHARED;
    ep->lent++;
}

/* Nobody writes any more. */
static void unlend(struct mbx_ep *ep, struct request *req)
{
    struct link *link = peer_get(ep, req->peer)->link;

    transport_unexpose(link, req->lent.address, req->lent.key);
    ep->lent--;
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

    return peer_tell(ep, peer, WIRE_SHARE, &body);
}

OUT_OF_LINE void share_ask(struct mbx_ep *ep, struct request *req)
{
    size_t size = min_size(ep->settings.read_chunk, req->total - req->done);
    size_t half = size >= 4 * BORDER ? size / 2 & ~(BORDER - 1) : size / 2;
    struct peer *peer = peer_get(ep, req->peer);

    if (half == 0 || !share_suits(ep, peer))
        return;
    lend(ep, req, req->done + half, req->done + size);
    if ((req->flags & REQUEST_SHARED) && tell(ep, peer, req) != 0)
        share_take_back(ep, req);
}

void share_take_back(struct mbx_ep *ep, struct request *req)
{
    if (req->share.word == 0 || !word_close(ep, req))
        return;
    unlend(ep, req);
    req->flags &= (uint16_t)~REQUEST_SHARED;
}

void share_drop(struct mbx_ep *ep, struct request *req)
{
    assert(!request_is_send(req));
    if (req->share.word != 0) {
        if (!word_close(ep, req))
            word_abandon(ep, req); /* by a peer that is gone, or does not keep the rules */
        unlend(ep, req);
    }
    req->flags &= (uint16_t)~REQUEST_SHARED;
}

bool share_join(struct mbx_ep *ep, struct request *req, bool ask)
{
    assert(req->flags & REQUEST_SHARED);
    assert(!request_is_send(req)); /* of a send the union has another member */
    if (req->share.word != 0) {
        share_take_back(ep, req);
        if (req->flags & REQUEST_SHARED) {
            req->share.ask = ask;
            req->state = REQUEST_FILLING;
            return false;
        }
        share_was_useless(peer_get(ep, req->peer));
        return true;
    }
    req->flags &= (uint16_t)~REQUEST_SHARED;
    if (!ask)
        req->done = req->share.filled;
    return true;
}

struct request *share_named(const struct mbx_ep *ep, const struct peer *peer, uint64_t receiver)
{
    struct request *req = request_find(ep, receiver);

    return req != NULL && !request_is_send(req) && (req->flags & REQUEST_SHARED) &&
                   req->peer == peer->number
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
    peer->share_pause = peer->share_skip = 0;
    req->share.filled = written->done;
    if (req->state == REQUEST_FILLING) {
        bool ask = req->share.ask;

        share_join(ep, req, ask);
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
    if (req->state != REQUEST_WAIT_FIN || req->protocol != MBX_RNDV_READ || !peer->can_write ||
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
    req->state = REQUEST_WRITING;
    early_write(ep, req);
    return 0;
}

const struct module share_module = {
    .name = "share",
    .packets = (const struct packet_handler[]){{WIRE_SHARE, on_share}, {0}},
    .open = on_open,
    .is_valid = MBX_CHECKS ? share_is_valid : NULL,
};
