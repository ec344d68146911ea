/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coop.c - long messages that both sides copy, each a part.
 *
 * Where a read or write is a copy by the processor of who asks for it, the sender of a
 * rendezvous has nothing to do while the receiver reads, and its processor, which waits for
 * FIN, is idle.  So the receiver asks it to write: of what is missing, at most a chunk at a
 * time, the second half.  It asks once it reads, and does not wait for an answer: the part has
 * a word (lockword.h), which the sender takes before it writes, and the receiver closes when it
 * has read the first half.  Whoever is first has the second half.  A sender that computes, or
 * whose process does not run, takes nothing, and the receiver reads all by itself.
 *
 *   rndv.c: READ ── COOP ───> READ ── first half read, word closed ──────────> rndv.c: READ
 *                              │ └─── first half read, word taken ──> FILLING
 *                              │                                         │
 *                              └ WRITTEN: noted, then as without word    └ WRITTEN ──> READ
 *
 * A part that could not be written whole is read from where its sender has stopped.  If it is
 * the receiver that cannot read, it asks with a CTS as ever, but not while its sender writes.
 *
 * What is asked for costs a packet, and is of no use if the sender looks too late.  So for each
 * peer, as in rput_recv.c, after one that was of no use `pause` parts are copied by one side.
 *
 * At the sender it is a message that is written in advance (rput_send.c), of which only a part
 * is wanted, and that waits for FIN again when that is written.
 *
 * Invariants
 *   I1  both sides copy a receive only behind the meeting with its message, so that `coop` may
 *       lie where its place in the engine was
 *   I2  it is ANNOUNCED while coop.word is not 0: its sender may write [coop.from, coop.to),
 *       and nobody else touches these; ep_rput(ep)->announced counts such receives
 *   I3  a send that writes a part is in RPUT_WRITING or behind it, and its protocol is not
 *       MBX_RNDV_WRITE
 */
#include "base/check.h"
#include "rput/coop.h"

#include "core/core.h"
#include "rput/rput.h"
#include "transport/memory.h"

/* The border between the parts, as seen from the buffer. */
#define BORDER     ((size_t)4096)

#define PAUSE_MOST 32 /* parts */

static int on_open(struct mbx_ep *ep)
{
    ep_rput(ep)->coop_from = path_shared_copy_from(ep);
    return 0;
}

/* ---- the word ---- */

static bool word_close(struct mbx_ep *ep, struct request *req)
{
    return lockword_close(ep, &req->coop.word, req->peer);
}

/* ---- is it of use? ---- */

/* True: this message is shared; false: one more was not. */
static bool coop_try(struct mbx_ep *ep, struct peer *peer)
{
    if (!path_is_shared_copy(ep, peer))
        return false;
    return ep->settings.tuning.coop == TUNING_ALWAYS || backoff_try(&peer->coop_backoff);
}

static void coop_was_useless(struct peer *peer)
{
    backoff_more(&peer->coop_backoff, PAUSE_MOST);
}

/* ---- receiver ---- */

/* Nobody writes any more. */
static void unexpose(struct mbx_ep *ep, struct request *req)
{
    struct link *link = peer_get(ep, req->peer)->link;

    transport_unexpose(link, req->announced.address, req->announced.key);
    req->flags &= (uint32_t)~REQUEST_ANNOUNCED;
    ep_rput(ep)->announced--;
}

/* False: the sender cannot write there. */
static bool expose(struct mbx_ep *ep, struct request *req, size_t from, size_t to)
{
    struct link *link = peer_get(ep, req->peer)->link;

    assert(request_has(ep, req, PART_COOP));
    assert(from < to && to <= req->total);
    req->coop = (struct coop){.from = from, .to = to};
    lockword_open(ep, &req->coop.word);
    if (req->coop.word == 0)
        return false;
    if (transport_expose(link, req->buf + from, to - from, &req->announced.address,
                         &req->announced.key) != 0) {
        word_close(ep, req);
        return false;
    }
    req->flags |= REQUEST_ANNOUNCED;
    ep_rput(ep)->announced++;
    return true;
}

/* False: the sender has its part, and will say WRITTEN. */
static bool take_back(struct mbx_ep *ep, struct request *req)
{
    assert(request_has(ep, req, PART_COOP));
    if (!word_close(ep, req))
        return false;
    unexpose(ep, req);
    return true;
}

static int tell(struct mbx_ep *ep, struct peer *peer, const struct request *req)
{
    const struct wire_coop body = {
        .sender = req->remote.request,
        .receiver = req->completion.request,
        .offset = req->coop.from,
        .size = req->coop.to - req->coop.from,
        .word = req->coop.word,
        .owner_id = peer->number,
        .address = req->announced.address,
        .key = req->announced.key,
    };

    return outq_tell(ep, peer, WIRE_COOP, &body);
}

/* req has read its part, or can read no more (ask: the rest is to come as data), and goes on
 * alone at req->done.  False: not before its sender says WRITTEN. */
static bool join(struct mbx_ep *ep, struct request *req, bool ask)
{
    if (req->coop.word == 0) {
        if (!ask)
            req->done = req->coop.filled;
        return true;
    }
    if (take_back(ep, req)) {
        coop_was_useless(peer_get(ep, req->peer));
        return true;
    }
    req->coop.ask = ask;
    proto_move(ep, req, COOP_FILLING);
    return false;
}

/* req, in COOP_READ, cannot be read. */
static void read_failed(struct mbx_ep *ep, struct request *req, int error)
{
    rndv_read_failed(ep, req, error);
    if (join(ep, req, true))
        rndv_ask(ep, req);
}

/* Reads a chunk of the part that is read here. */
static void coop_read(struct mbx_ep *ep, struct request *req)
{
    int err = req->done < req->coop.from
                  ? rndv_read_chunk(ep, req, req->coop.from, COOP_READ_WAIT)
                  : 0;

    assert(err == -EINPROGRESS || request_has(ep, req, PART_COOP));
    ep_wake_sleeper(ep); /* also if the transport goes on with it */
    if (err == -EINPROGRESS)
        return;
    if (err != 0 && err != -EAGAIN) {
        read_failed(ep, req, err);
    } else if (err == -EAGAIN || req->done < req->coop.from) {
        progress_activate(ep, req);
    } else if (join(ep, req, false)) {
        proto_move(ep, req, RNDV_READ);
        rndv_read_alone(ep, req);
    }
}

static void on_io_done(struct mbx_ep *ep, struct request *req, int error)
{
    assert(request_has(ep, req, PART_COOP));
    proto_move(ep, req, COOP_READ);
    if (error < 0) {
        read_failed(ep, req, error);
        return;
    }
    req->done += rndv_chunk_size(ep, req, req->coop.from);
    progress_activate(ep, req);
    ep_wake_sleeper(ep);
}

/* req is about to read: its sender is asked to write a part, if that is of use. */
static bool on_read(struct mbx_ep *ep, struct request *req)
{
    size_t size = min_size(ep->settings.tuning.read_chunk, req->total - req->done);
    size_t half = size >= 4 * BORDER ? size / 2 & ~(BORDER - 1) : size / 2;
    struct peer *peer = peer_get(ep, req->peer);

    if (half == 0 || !coop_try(ep, peer))
        return false;
    proto_move(ep, req, COOP_READ);
    if (!expose(ep, req, req->done + half, req->done + size) ||
        (tell(ep, peer, req) != 0 && take_back(ep, req))) {
        proto_move(ep, req, RNDV_READ);
        return false;
    }
    tracer_step(ep, TRACE_SHARE, req, size - half);
    coop_read(ep, req);
    return true;
}

/* req, ANNOUNCED, is over: nobody is to write there any more. */
static void on_ended(struct mbx_ep *ep, struct request *req)
{
    if (!word_close(ep, req))
        lockword_abandon(
            ep, &req->coop.word); /* by a peer that is gone, or does not keep the rules */
    unexpose(ep, req);
}

static void coop_peer_gone(struct mbx_ep *ep, struct peer *peer, struct request *req, int error)
{
    (void)peer;
    request_lost(ep, req, error);
}

static void coop_take_back(void *arg, void *object)
{
    struct mbx_ep *ep = arg;
    struct request *req = object;

    if (PROTO_OF(req->state) == PROTO_COOP && req->coop.word != 0 && take_back(ep, req))
        req->coop.filled = req->coop.from; /* as if its sender had stopped at once */
}

/* Before the endpoint closes: what a sender has not begun with is read by us alone. */
static void on_stop(struct mbx_ep *ep)
{
    ep_rput(ep)->coop_from = SIZE_MAX;
    if (ep_rput(ep)->announced != 0)
        pool_for_each(&ep->requests.pool, coop_take_back, ep);
}

struct request *coop_named(const struct mbx_ep *ep, const struct peer *peer, uint64_t receiver)
{
    struct request *req = request_find(ep, receiver);

    return req != NULL && PROTO_OF(req->state) == PROTO_COOP && req->peer == peer->number
               ? req
               : NULL;
}

int coop_ended(struct mbx_ep *ep, struct peer *peer, struct request *req,
               const struct wire_packet *packet)
{
    const struct wire_written *written = &packet->body.written;
    bool is_stopped = (packet->header.flags & WIRE_STOPPED) != 0;

    if (written->done < req->coop.from || written->done > req->coop.to ||
        is_stopped != (written->done < req->coop.to) ||
        !lockword_give(ep, &req->coop.word, peer, true))
        return -EPROTO;
    unexpose(ep, req);
    ep->stats.coop_parts += !is_stopped;
    backoff_end(&peer->coop_backoff);
    req->coop.filled = written->done;
    if (req->state == COOP_FILLING) {
        bool ask = req->coop.ask;

        join(ep, req, ask);
        rndv_resume(ep, req, ask);
    }
    return 0;
}

/* ---- sender ---- */

static int on_coop(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_coop *coop = &packet->body.coop;
    struct request *req = request_find(ep, coop->sender);

    if (req == NULL || !request_is_send(req) || req->peer != peer->number ||
        request_is_in_pieces(req) || coop->offset > req->size ||
        coop->size > req->size - coop->offset)
        return -EPROTO;
    if (req->state != RNDV_WAIT_FIN || req->protocol != MBX_RNDV_READ ||
        !peer_path(peer)->can_write || !ep_matches_here(ep) ||
        lockword_claim(peer, coop->word, coop->owner_id, 0) != 0)
        return 0; /* it reads this part, too */
    /* as if all of the message were to go there, and all before the part had gone */
    req->target = (struct rput_target){
        .receiver = coop->receiver,
        .word = coop->word,
        .owner_id = coop->owner_id,
        .address = coop->address - coop->offset,
        .key = coop->key,
        .size = coop->offset + coop->size,
    };
    req->done = coop->offset;
    req->end = coop->offset + coop->size;
    proto_move(ep, req, RPUT_WRITING);
    rput_write(ep, req);
    return 0;
}

static const struct proto coop_proto = {
    .id = PROTO_COOP,
    .part = PART_COOP,
    .name = "coop receive",
    .states =
        {
            [COOP_READ % PROTO_STATES] = {.name = "read",
                                          .kinds = MBX_RECVS,
                                          .queue = PROTO_ACTIVE,
                                          .moves = true,
                                          .next = PROTO_NEXT(COOP_READ_WAIT) |
                                                  PROTO_NEXT(COOP_FILLING),
                                          .then = PROTO_THEN(PROTO_RNDV),
                                          .from = {RNDV_READ},
                                          .is_open = true},
            [COOP_READ_WAIT % PROTO_STATES] = {.name = "read-wait",
                                               .kinds = MBX_RECVS,
                                               .moves = true,
                                               .next = PROTO_NEXT(COOP_READ),
                                               .is_open = true},
            [COOP_FILLING % PROTO_STATES] = {.name = "filling",
                                             .kinds = MBX_RECVS,
                                             .moves = true,
                                             .then = PROTO_THEN(PROTO_RNDV),
                                             .is_open = true,
                                             .awaits_peer = true},
        },
    .work = coop_read,
    .io_done = on_io_done,
    .peer_gone = coop_peer_gone,
    .ended = on_ended,
};

const struct module coop_module = {
    .name = "coop",
    .packets = (const struct packet_handler[]){{WIRE_COOP, on_coop}, {0}},
    .proto = &coop_proto,
    .open = on_open,
    .stop = on_stop,
    .read = on_read,
    .is_valid = MBX_CHECKS ? coop_is_valid : NULL,
};
