/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split_copy.c - lets both sides copy a part each of a long message.
 *
 * If reads and writes are copies by the calling processor, the sender of a rendezvous only
 * waits for the FIN while the receiver reads, and its processor is idle.  So the receiver asks
 * the sender to write a part: the second half of the missing bytes, at most one chunk at a
 * time.  It asks when it starts to read, and does not wait for an answer: the part has a lock
 * word (lockword.h), which the sender takes before it writes, and the receiver closes after it
 * has read the first half.  The first of the two copies the second half.  A sender that
 * computes, or whose process does not run, takes nothing, and the receiver reads everything
 * itself.
 *
 *   rndv.c: READ ── SPLIT_COPY ───> READ ── first half read, word closed ──────────> rndv.c: READ
 *                              │ └─── first half read, word taken ──> FILLING
 *                              │                                         │
 *                              └ WRITTEN: noted, later as without word   └ WRITTEN ──> READ
 *
 * If a part could not be written completely, the receiver reads the rest of it.  If the
 * receiver cannot read, it sends a CTS as usual, but not while its sender writes.
 *
 * A request costs a packet, and is useless if the sender sees it too late.  So, as in
 * advert_recv.c, there is a backoff for each peer: after a useless request `pause` parts are
 * copied by one side.
 *
 * For the sender this is a message for an advertised receive (advert_send.c), of which it
 * writes only a part, and which then waits for the FIN again.
 *
 * Invariants
 *   I1  both sides copy a receive only after it has matched, so that `split_copy` may use the
 *       memory of its entry in the engine
 *   I2  the receive is ANNOUNCED while split_copy.word is not 0: its sender may write
 *       [split_copy.from, split_copy.to), and no other code touches these bytes;
 *       ep_advert(ep)->announced counts such receives
 *   I3  a send that writes a part is in ADVERT_WRITING or a later state, and its protocol is
 *       not MBX_RNDV_WRITE
 */
#include "base/check.h"
#include "advert/split_copy.h"

#include "core/core.h"
#include "advert/advert.h"
#include "transport/memory.h"

/* The alignment of the border between the parts, relative to the buffer. */
#define BORDER     ((size_t)4096)

#define PAUSE_MOST 32 /* parts */

static int split_copy_on_open(struct mbx_ep *ep)
{
    ep_advert(ep)->split_copy_from = path_shared_copy_from(ep);
    return 0;
}

/* ---- the word ---- */

static bool word_close(struct mbx_ep *ep, struct request *req)
{
    return lockword_close(ep, &req->split_copy.word, req->peer);
}

/* ---- is a shared copy of use? ---- */

/* True: this part is copied by both sides; false: it counts as left out. */
static bool split_copy_try(struct mbx_ep *ep, struct peer *peer)
{
    if (!path_is_shared_copy(ep, peer))
        return false;
    return ep->settings.tuning.split_copy == TUNING_ALWAYS ||
           backoff_try(&peer->split_copy_backoff);
}

static void split_copy_was_useless(struct peer *peer)
{
    backoff_more(&peer->split_copy_backoff, PAUSE_MOST);
}

/* ---- receiver ---- */

/* Ends the sender's access. */
static void unexpose(struct mbx_ep *ep, struct request *req)
{
    struct link *link = peer_get(ep, req->peer)->link;

    transport_unexpose(link, req->announced.address, req->announced.key);
    req->flags &= (uint32_t)~REQUEST_ADVERTISED;
    ep_advert(ep)->announced--;
}

/* Exposes a part to the sender.  False: the sender cannot write there. */
static bool expose(struct mbx_ep *ep, struct request *req, size_t from, size_t to)
{
    struct link *link = peer_get(ep, req->peer)->link;

    assert(request_has(ep, req, PART_SPLIT_COPY));
    assert(from < to && to <= req->total);
    req->split_copy = (struct split_copy){.from = from, .to = to};
    lockword_open(ep, &req->split_copy.word);
    if (req->split_copy.word == 0)
        return false;
    if (transport_expose(link, req->buf + from, to - from, &req->announced.address,
                         &req->announced.key) != 0) {
        word_close(ep, req);
        return false;
    }
    req->flags |= REQUEST_ADVERTISED;
    ep_advert(ep)->announced++;
    return true;
}

/* Withdraws the part.  False: the sender has taken it, and will send WRITTEN. */
static bool take_back(struct mbx_ep *ep, struct request *req)
{
    assert(request_has(ep, req, PART_SPLIT_COPY));
    if (!word_close(ep, req))
        return false;
    unexpose(ep, req);
    return true;
}

static int split_copy_notify(struct mbx_ep *ep, struct peer *peer, const struct request *req)
{
    const struct wire_split_copy body = {
        .sender = req->remote.request,
        .receiver = req->completion.request,
        .offset = req->split_copy.from,
        .size = req->split_copy.to - req->split_copy.from,
        .word = req->split_copy.word,
        .owner_id = peer->number,
        .address = req->announced.address,
        .key = req->announced.key,
    };

    return outq_notify(ep, peer, WIRE_SPLIT_COPY, &body);
}

/* req has read its part, or cannot read any more (ask: the rest has to come as data), and
 * continues alone at req->done.  False: only after its sender has sent WRITTEN. */
static bool join(struct mbx_ep *ep, struct request *req, bool ask)
{
    if (req->split_copy.word == 0) {
        if (!ask)
            req->done = req->split_copy.filled;
        return true;
    }
    if (take_back(ep, req)) {
        split_copy_was_useless(peer_get(ep, req->peer));
        return true;
    }
    req->split_copy.ask = ask;
    proto_move(ep, req, SPLIT_COPY_FILLING);
    return false;
}

/* req, in SPLIT_COPY_READ, cannot be read. */
static void read_failed(struct mbx_ep *ep, struct request *req, int error)
{
    rndv_read_failed(ep, req, error);
    if (join(ep, req, true))
        rndv_ask(ep, req);
}

/* Reads a chunk of the receiver's part. */
static void split_copy_read(struct mbx_ep *ep, struct request *req)
{
    int err = req->done < req->split_copy.from
                  ? rndv_read_chunk(ep, req, req->split_copy.from, SPLIT_COPY_READ_WAIT)
                  : 0;

    assert(err == -EINPROGRESS || request_has(ep, req, PART_SPLIT_COPY));
    ep_wake_sleeper(ep); /* even if the transport continues the read */
    if (err == -EINPROGRESS)
        return;
    if (err != 0 && err != -EAGAIN) {
        read_failed(ep, req, err);
    } else if (err == -EAGAIN || req->done < req->split_copy.from) {
        progress_activate(ep, req);
    } else if (join(ep, req, false)) {
        proto_move(ep, req, RNDV_READ);
        rndv_read_alone(ep, req);
    }
}

static void on_io_done(struct mbx_ep *ep, struct request *req, int error)
{
    assert(request_has(ep, req, PART_SPLIT_COPY));
    proto_move(ep, req, SPLIT_COPY_READ);
    if (error < 0) {
        read_failed(ep, req, error);
        return;
    }
    req->done += rndv_chunk_size(ep, req, req->split_copy.from);
    progress_activate(ep, req);
    ep_wake_sleeper(ep);
}

/* req is about to be read: asks its sender to write a part, if that is useful. */
static bool split_copy_on_read(struct mbx_ep *ep, struct request *req)
{
    size_t size = min_size(ep->settings.tuning.read_chunk, req->total - req->done);
    size_t half = size >= 4 * BORDER ? size / 2 & ~(BORDER - 1) : size / 2;
    struct peer *peer = peer_get(ep, req->peer);

    if (half == 0 || !split_copy_try(ep, peer))
        return false;
    proto_move(ep, req, SPLIT_COPY_READ);
    if (!expose(ep, req, req->done + half, req->done + size) ||
        (split_copy_notify(ep, peer, req) != 0 && take_back(ep, req))) {
        proto_move(ep, req, RNDV_READ);
        return false;
    }
    tracer_step(ep, TRACE_SHARE, req, size - half);
    split_copy_read(ep, req);
    return true;
}

/* Ends the access of the peer to req, which is ANNOUNCED and over. */
static void split_copy_on_ended(struct mbx_ep *ep, struct request *req)
{
    if (!word_close(ep, req))
        lockword_abandon(
            ep, &req->split_copy.word); /* by a peer that is gone, or breaks the protocol */
    unexpose(ep, req);
}

static void split_copy_peer_gone(struct mbx_ep *ep, struct peer *peer, struct request *req,
                                 int error)
{
    (void)peer;
    request_lost(ep, req, error);
}

static void split_copy_take_back(void *arg, void *object)
{
    struct mbx_ep *ep = arg;
    struct request *req = object;

    if (PROTO_OF(req->state) == PROTO_SPLIT_COPY && req->split_copy.word != 0 &&
        take_back(ep, req))
        req->split_copy.filled =
            req->split_copy.from; /* as if its sender had stopped at once */
}

/* Before the endpoint closes: we alone read the parts that no sender has taken. */
static void on_stop(struct mbx_ep *ep)
{
    ep_advert(ep)->split_copy_from = SIZE_MAX;
    if (ep_advert(ep)->announced != 0)
        pool_for_each(&ep->requests.pool, split_copy_take_back, ep);
}

struct request *split_copy_named(const struct mbx_ep *ep, const struct peer *peer,
                                 uint64_t receiver)
{
    struct request *req = request_find(ep, receiver);

    return req != NULL && PROTO_OF(req->state) == PROTO_SPLIT_COPY && req->peer == peer->number
               ? req
               : NULL;
}

int split_copy_ended(struct mbx_ep *ep, struct peer *peer, struct request *req,
                     const struct wire_packet *packet)
{
    const struct wire_written *written = &packet->body.written;
    bool is_stopped = (packet->header.flags & WIRE_STOPPED) != 0;

    if (written->done < req->split_copy.from || written->done > req->split_copy.to ||
        is_stopped != (written->done < req->split_copy.to) ||
        !lockword_give(ep, &req->split_copy.word, peer, true))
        return -EPROTO;
    unexpose(ep, req);
    ep->stats.split_copy_parts += !is_stopped;
    backoff_end(&peer->split_copy_backoff);
    req->split_copy.filled = written->done;
    if (req->state == SPLIT_COPY_FILLING) {
        bool ask = req->split_copy.ask;

        join(ep, req, ask);
        rndv_resume(ep, req, ask);
    }
    return 0;
}

/* ---- sender ---- */

static int on_split_copy(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_split_copy *split_copy = &packet->body.split_copy;
    struct request *req = request_find(ep, split_copy->sender);

    if (req == NULL || !request_is_send(req) || req->peer != peer->number ||
        request_is_in_pieces(req) || split_copy->offset > req->size ||
        split_copy->size > req->size - split_copy->offset)
        return -EPROTO;
    if (req->state != RNDV_WAIT_FIN || req->protocol != MBX_RNDV_READ ||
        !peer_path(peer)->can_write || !ep_matches_here(ep) ||
        lockword_take(peer, split_copy->word, split_copy->owner_id, 0) != 0)
        return 0; /* the receiver reads this part itself */
    /* as if the whole message were written there, and the bytes before the part were
     * complete */
    req->target = (struct advert_target){
        .receiver = split_copy->receiver,
        .word = split_copy->word,
        .owner_id = split_copy->owner_id,
        .address = split_copy->address - split_copy->offset,
        .key = split_copy->key,
        .size = split_copy->offset + split_copy->size,
    };
    req->done = split_copy->offset;
    req->end = split_copy->offset + split_copy->size;
    proto_move(ep, req, ADVERT_WRITING);
    advert_write(ep, req);
    return 0;
}

static const struct proto split_copy_proto = {
    .id = PROTO_SPLIT_COPY,
    .part = PART_SPLIT_COPY,
    .name = "split_copy receive",
    .states =
        {
            [SPLIT_COPY_READ % PROTO_STATES] = {.name = "read",
                                                .kinds = MBX_RECVS,
                                                .queue = PROTO_ACTIVE,
                                                .moves = true,
                                                .next = PROTO_NEXT(SPLIT_COPY_READ_WAIT) |
                                                        PROTO_NEXT(SPLIT_COPY_FILLING),
                                                .then = PROTO_THEN(PROTO_RNDV),
                                                .from = {RNDV_READ},
                                                .is_open = true},
            [SPLIT_COPY_READ_WAIT % PROTO_STATES] = {.name = "read-wait",
                                                     .kinds = MBX_RECVS,
                                                     .moves = true,
                                                     .next = PROTO_NEXT(SPLIT_COPY_READ),
                                                     .is_open = true},
            [SPLIT_COPY_FILLING % PROTO_STATES] = {.name = "filling",
                                                   .kinds = MBX_RECVS,
                                                   .moves = true,
                                                   .then = PROTO_THEN(PROTO_RNDV),
                                                   .is_open = true,
                                                   .awaits_peer = true},
        },
    .work = split_copy_read,
    .io_done = on_io_done,
    .peer_gone = split_copy_peer_gone,
    .ended = split_copy_on_ended,
};

const struct module split_copy_module = {
    .name = "split_copy",
    .packets = (const struct packet_handler[]){{WIRE_SPLIT_COPY, on_split_copy}, {0}},
    .proto = &split_copy_proto,
    .open = split_copy_on_open,
    .stop = on_stop,
    .read = split_copy_on_read,
    .is_valid = MBX_CHECKS ? split_copy_is_valid : NULL,
};
