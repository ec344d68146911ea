/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rput_send.c - large receives that travel first, at the sender of their message.
 *
 * A receive that a peer tells of in advance (ANNOUNCE) is kept if our credit there is what the
 * peer says: then nothing of ours was under way when it said so, and nothing has left since;
 * and if all those are kept that a message for it could meet before.  Else it is void.  While
 * some are kept, each send to that peer is compared with them, in the order in which they were
 * posted there, before anything else becomes of it:
 *
 *   suits none          goes as ever
 *   suits, but is short goes as ever; the receives that it suits are forgotten, as it will meet
 *                       one of them, and those behind that overlap with a forgotten one
 *   suits               takes its word: if that is closed the receive is forgotten, and the
 *                       next one that suits is looked for; else the message is written there
 *
 * A send costs nothing for that while none is kept: as in backlog.c, our envelope credit is put
 * aside while there are some, so that the fast path finds none and asks here.
 *
 *   WRITE ── of one chunk: written, and then told ───────────────> complete
 *     └───── longer: told ──> WRITING ──> WRITTEN ── told ───────> complete
 *                                            └────── stopped ────> WAIT_FIN (rndv.c)
 *
 * A transport that does not write at once: WRITE <──> WRITE_MOVING, WRITING <──> MOVING.  A write that
 * has failed: WRITE_STOPPED, whose WRITE says so, or STOPPED, whose WRITTEN does.
 *
 * The longer message is told before it is written because later ones of ours are behind it: the
 * receive must have left its engine when they arrive.  That holds for the shorter one, too, and
 * its packet says that all is there.  A write that fails stops; the receiver fetches the rest.
 *
 * Such a message is matched when the word is taken, so a synchronous send is complete when its
 * data is written.  It uses no credit: there is a receive for it.
 *
 * Nothing is lost if a receive is forgotten.  So no more than RPUT_MOST are kept, and all are
 * dropped when VAIN_MOST sends have been compared in vain, and when sends have to be deferred.
 * But then the peer does not know, so what it tells of behind such a one is void until that one
 * is closed.
 *
 * Invariants
 *   I1  while rput.count is not 0, and no send is being compared: peer.credit.envelopes is 0,
 *       and no send is deferred for that peer
 *   I2  no message that suits a receive that is kept has left since it was told, or was under
 *       way then
 *   I3  the receives that are kept, at most RPUT_MOST, are in the order of their numbers, and
 *       no number is greater than `last`
 *   I4  a send writes no more than the receive has room; if it is stopped, it has not written all
 *       that it was to
 *   I5  its protocol is MBX_RNDV_WRITE if and only if it is complete with what it has written; after
 *       one that is stopped, or is a part (coop.c), its peer says FIN
 */
#include "base/check.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "rput/rput.h"
#include "transport/memory.h"

#define VAIN_MOST 64

/* ---- what is kept ---- */

/* Our credit, while a send is compared, or for good. */
static void credit_fetch(struct peer *peer)
{
    credit_bring_back(peer, peer->rput->envelopes);
    peer->rput->envelopes = 0;
}

static void credit_put_aside(struct peer *peer)
{
    if (peer->rput->count == 0)
        return;
    peer->rput->envelopes = credit_put_away(peer);
}

static int on_credit_came(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes)
{
    (void)ep;
    if (peer->rput == NULL || peer->rput->count == 0)
        return 1;
    if (peer->rput->envelopes + envelopes > CREDIT_UNLIMITED)
        return -EPROTO;
    peer->rput->envelopes += envelopes;
    return 0;
}

/* Forgets what the peer has told: harmless at any time. */
static void rput_drop(struct peer *peer)
{
    if (peer->rput == NULL)
        return;
    credit_fetch(peer);
    peer->rput->forgotten = peer->rput->last;
    peer->rput->count = 0;
    peer->rput->vain = 0;
}

/* The peer may still have it open. */
static void rput_forget(struct rput *rput, uint64_t number)
{
    if (number > rput->forgotten)
        rput->forgotten = number;
}

/* It is used up, closed or forgotten. */
static void rput_remove(struct rput *rput, uint32_t index)
{
    assert(index < rput->count);
    rput->count--;
    memmove(&rput->rtrs[index], &rput->rtrs[index + 1],
            (rput->count - index) * sizeof rput->rtrs[0]);
}

/* Is nothing of ours under way that the peer did not know when it told us? */
static bool is_settled(const struct mbx_ep *ep, const struct peer *peer, uint64_t credit)
{
    if (ep->settings.tuning.rput == TUNING_OFF || !ep_matches_here(ep) ||
        !peer_path(peer)->can_write || peer_sendside(peer)->is_deferred)
        return false;
    return credit == peer_credit(peer)->envelopes + peer->rput->envelopes;
}

static int on_announce(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_announce *body = &packet->body.announce;
    const struct rput_rtr rtr = {
        .envelope = {packet->header.context_id, peer->number, packet->header.tag},
        .ignore = packet->header.data,
        .number = body->number,
        .target = {body->receiver, body->word, body->owner_id, body->address, body->key,
                   body->size},
    };
    struct rput *rput;

    if (peer->rput == NULL)
        peer->rput = mem_calloc(1, sizeof *peer->rput);
    rput = peer->rput;
    if (rput == NULL)
        return -EAGAIN; /* what was told must be known, if only as forgotten */
    if (body->number <= rput->last)
        return -EPROTO;
    rput->last = body->number;
    if (!is_settled(ep, peer, body->credit) || body->from <= rput->forgotten ||
        rput->count == RPUT_MOST) {
        rput->forgotten = body->number;
        ep->stats.rput_void++;
        tracepoint_step(ep, TRACE_VOID, peer, &rtr.envelope, rtr.ignore, 0, body->receiver);
        return 0;
    }
    credit_fetch(peer);
    rput->rtrs[rput->count++] = rtr;
    credit_put_aside(peer);
    return 0;
}

/* ---- which one ---- */

static bool rput_is_for(const struct rput_rtr *rtr, const struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    const struct mbx_match_envelope envelope = {status->context_id, status->source,
                                                status->tag};

    return mbx_match_accepts(&rtr->envelope, rtr->ignore, &envelope);
}

/* The first from *index on that suits req; false if none does. */
static bool rput_suits(const struct rput *rput, const struct request *req, uint32_t *index)
{
    for (; *index < rput->count; ++*index)
        if (rput_is_for(&rput->rtrs[*index], req))
            return true;
    return false;
}

/* Takes the word; false: it is closed, or we cannot. */
static bool rput_claims(struct peer *peer, const struct rput_target *target)
{
    int err = lockword_claim(peer, target->word, target->owner_id, 0);

    if (err != 0 && err != -EALREADY)
        rput_drop(peer); /* it may still be open */
    return err == 0;
}

/* req, which is short, will meet one of those that suit it, if one is still open there.  So
 * what stands behind one of these, and accepts a message that it accepts, may not be the first.
 */
static void rput_step_aside(struct rput *rput, const struct request *req)
{
    struct rput_rtr aside[RPUT_MOST];
    uint32_t count = 0, kept = 0;

    for (uint32_t i = 0; i < rput->count; i++) {
        const struct rput_rtr *rtr = &rput->rtrs[i];
        bool is_aside = rput_is_for(rtr, req);

        for (uint32_t k = 0; k < count && !is_aside; k++)
            is_aside =
                rput_overlap(&aside[k].envelope, aside[k].ignore, &rtr->envelope, rtr->ignore);
        if (is_aside) {
            rput_forget(rput, rtr->number);
            aside[count++] = *rtr;
        } else {
            rput->rtrs[kept++] = *rtr;
        }
    }
    rput->count = kept;
}

/* Takes a receive for req: its word is ours, and req->target says where it is. */
static bool rput_take(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    struct rput *rput = peer->rput;
    uint32_t index = 0;

    if (rput->count == 0)
        return false;
    if (!rput_suits(rput, req, &index)) {
        if (++rput->vain == VAIN_MOST)
            rput_drop(peer);
        return false;
    }
    rput->vain = 0;
    if (req->size < ep->settings.tuning.rput_size || request_is_in_pieces(req)) {
        rput_step_aside(rput, req);
        return false;
    }
    while (rput_suits(rput, req, &index)) {
        const struct rput_target target = rput->rtrs[index].target;

        rput_remove(rput, index);
        if (!rput_claims(peer, &target))
            continue;
        req->target = target;
        return true;
    }
    return false;
}

/* ---- writing ---- */

static bool write_has_left(const struct request *req)
{
    return req->state >= RPUT_WRITING;
}

/* The transport writes a chunk of req. */
static void rput_moves(struct mbx_ep *ep, struct request *req)
{
    proto_move(ep, req, write_has_left(req) ? RPUT_MOVING : RPUT_WRITE_MOVING);
}

/* It does no longer. */
static void rput_rests(struct mbx_ep *ep, struct request *req)
{
    proto_move(ep, req, write_has_left(req) ? RPUT_WRITING : RPUT_WRITE);
}

static bool is_moving(const struct request *req)
{
    return req->state == RPUT_MOVING || req->state == RPUT_WRITE_MOVING;
}

/* Nothing more is written of req, which is moving: the peer has to fetch the rest. */
static void rput_stop(struct mbx_ep *ep, struct peer *peer, struct request *req, int err)
{
    ep->stats.rput_stopped++;
    proto_move(ep, req, write_has_left(req) ? RPUT_STOPPED : RPUT_WRITE_STOPPED);
    req->protocol = path_rndv(peer);
    if (err == -ENOTSUP && peer_path(peer)->can_write) {
        path_cannot_write(peer);
        rput_drop(peer);
        LOG_INFO("the memory of peer %u cannot be written, long messages are fetched by it",
                 peer->number);
    }
}

static size_t chunk_size(const struct mbx_ep *ep, const struct request *req)
{
    return min_size(ep->settings.tuning.read_chunk, req->end - req->done);
}

/* One write of at most a chunk.  0 go on, also if it has failed, or if the transport goes on
 * with it; -EAGAIN later; -ENOTCONN. */
static int rput_chunk(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    const struct rput_target *to = &req->target;
    struct link *link = peer->link;
    int err;

    assert(request_has(ep, req, PART_TARGET));
    assert(req->state == RPUT_WRITE || req->state == RPUT_WRITING);
    assert(req->done < req->end && req->end <= to->size);
    rput_moves(ep, req); /* it may be told before the call returns */
    err = transport_write(link, to->address + req->done, to->key, req->buf + req->done,
                          chunk_size(ep, req), req);
    if (err == -EINPROGRESS)
        return 0;
    if (err != 0 && err != -EAGAIN && err != -ENOTCONN) {
        rput_stop(ep, peer, req, err);
        return 0;
    }
    rput_rests(ep, req);
    if (err == 0)
        req->done += chunk_size(ep, req);
    return err;
}

/* The transport has written what it was to, or not. */
static void rput_write_done(struct mbx_ep *ep, struct request *req, int error)
{
    assert(request_has(ep, req, PART_TARGET));
    assert(is_moving(req));
    if (error != 0) {
        rput_stop(ep, peer_get(ep, req->peer), req, error);
        return;
    }
    rput_rests(ep, req);
    req->done += chunk_size(ep, req);
}

/* Is there nothing more to write? */
static bool is_over(const struct request *req)
{
    return req->done == req->end || req->state == RPUT_STOPPED ||
           req->state == RPUT_WRITE_STOPPED;
}

/* The last packet of req has left. */
static void rput_sent(struct mbx_ep *ep, struct request *req)
{
    assert(request_has(ep, req, PART_TARGET));
    if (req->protocol != MBX_RNDV_WRITE) {
        proto_move(ep, req, RNDV_WAIT_FIN);
        return;
    }
    send_count(ep, req);
    request_complete(ep, req, 0);
}

static int tell_begun(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    struct wire_write body = {
        .receiver = req->target.receiver,
        .sender = req->completion.request,
        .size = req->size,
        .done = req->done,
    };
    unsigned flags = 0;

    if (req->state == RPUT_WRITE_STOPPED) {
        flags = WIRE_STOPPED;
        rndv_expose(ep, req, &body.address, &body.key);
    }
    return outq_tell_message(ep, peer, WIRE_WRITE, flags, &req->completion.status, &body, NULL,
                             0);
}

static int tell_ended(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    static const struct mbx_status none;
    struct wire_written body = {.receiver = req->target.receiver, .done = req->done};
    unsigned flags = 0;

    if (req->done < req->end) {
        flags = WIRE_STOPPED;
        rndv_expose(ep, req, &body.address, &body.key);
    }
    return outq_tell_message(ep, peer, WIRE_WRITTEN, flags, &none, &body, NULL, 0);
}

/* The WRITE or WRITTEN of req leaves now.  As eager_step(). */
static int rput_step(struct mbx_ep *ep, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    struct peer *peer = peer_get(ep, req->peer);
    bool is_end = req->state == RPUT_WRITTEN;
    bool is_last = is_end || is_over(req);
    int err = is_end ? tell_ended(ep, peer, req) : tell_begun(ep, peer, req);

    assert(request_has(ep, req, PART_TARGET));
    if (err != 0 && (err == -EAGAIN || !is_moving(req)))
        return err; /* else it ends when the transport lets go of it */
    if (!is_end)
        tracepoint_step(
            ep, TRACE_WRITE, peer,
            &(struct mbx_match_envelope){status->context_id, peer->number, status->tag}, 0,
            req->completion.request, req->target.receiver);
    if (is_last) {
        rput_sent(ep, req);
        return 0;
    }
    proto_move(ep, req, is_moving(req) ? RPUT_MOVING : RPUT_WRITING);
    progress_activate(ep, req);
    ep_wake_sleeper(ep);
    return 0;
}

/* req, whose WRITE has left, has written all that it will. */
static void rput_finish(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    int err = -EAGAIN;

    proto_move(ep, req, RPUT_WRITTEN);
    if (list_is_empty(&peer->outq.list))
        err = rput_step(ep, req);
    if (err == -EAGAIN)
        outq_push(ep, peer, req);
    else if (err < 0)
        request_complete(ep, req, err);
}

void rput_write(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);
    int err = 0;

    assert(request_has(ep, req, PART_TARGET));
    assert(write_has_left(req) && req->state != RPUT_WRITTEN);
    assert(!list_is_linked(&req->queue));
    if (req->state == RPUT_WRITING && !is_over(req))
        err = rput_chunk(ep, peer, req);
    ep_wake_sleeper(ep);
    if (err == -ENOTCONN)
        request_complete(ep, req, err);
    else if (is_over(req))
        rput_finish(ep, peer, req);
    else
        progress_activate(ep, req);
}

/* req has its receive.  As send_first(). */
static int rput_begin(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;

    tracepoint_step(ep, TRACE_LOCK, peer,
                    &(struct mbx_match_envelope){status->context_id, peer->number, status->tag},
                    0, req->completion.request, req->target.receiver);
    req->protocol = MBX_RNDV_WRITE;
    proto_move(ep, req, RPUT_WRITE);
    req->end = min_size(req->size, req->target.size);
    if (req->end <= ep->settings.tuning.read_chunk && rput_chunk(ep, peer, req) == -ENOTCONN)
        return -ENOTCONN;
    return send_first(ep, peer, req);
}

/* A send to a peer with peer->rput: goes into a receive that is known, or as send_or_defer().
 */
static int on_send(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    bool is_taken = rput_take(ep, peer, req);
    int err;

    if (is_taken)
        return rput_begin(ep, peer, req);
    credit_fetch(peer);
    err = send_or_defer(ep, peer, req);
    credit_put_aside(peer);
    return err;
}

/* ---- as a module ---- */

static void on_deferring(struct mbx_ep *ep, struct peer *peer)
{
    (void)ep;
    rput_drop(peer);
}

static bool on_is_flushed(const struct mbx_ep *ep)
{
    struct list *node;

    list_for_each (node, &ep->progress.active)
        if (PROTO_OF(request_of_queue(node)->state) == PROTO_RPUT_SEND)
            return false;
    return true;
}

static void rput_send_gone(struct mbx_ep *ep, struct peer *peer, struct request *req, int error)
{
    (void)peer;
    request_complete(ep, req, error);
}

static const struct proto rput_send_proto = {
    .id = PROTO_RPUT_SEND,
    .part = PART_TARGET,
    .name = "rput send",
    .states =
        {
            [RPUT_WRITE % PROTO_STATES] = {.name = "write",
                                           .kinds = MBX_SENDS,
                                           .out = PROTO_ALWAYS,
                                           .moves = true,
                                           .next = PROTO_NEXT(RPUT_WRITE_MOVING) |
                                                   PROTO_NEXT(RPUT_WRITING),
                                           .from = {SEND_NEW, RNDV_WAIT_FIN}},
            [RPUT_WRITE_MOVING % PROTO_STATES] = {.name = "write-moving",
                                                  .kinds = MBX_SENDS,
                                                  .out = PROTO_ALWAYS,
                                                  .moves = true,
                                                  .next = PROTO_NEXT(RPUT_WRITE) |
                                                          PROTO_NEXT(RPUT_WRITE_STOPPED) |
                                                          PROTO_NEXT(RPUT_MOVING)},
            [RPUT_WRITE_STOPPED % PROTO_STATES] = {.name = "write-stopped",
                                                   .kinds = MBX_SENDS,
                                                   .out = PROTO_ALWAYS,
                                                   .moves = true,
                                                   .then = PROTO_THEN(PROTO_RNDV)},
            [RPUT_WRITING %
                PROTO_STATES] = {.name = "writing",
                                 .kinds = MBX_SENDS,
                                 .queue = PROTO_ACTIVE,
                                 .moves = true,
                                 .next = PROTO_NEXT(RPUT_MOVING) | PROTO_NEXT(RPUT_WRITTEN),
                                 .from = {SEND_NEW, RNDV_WAIT_FIN}},
            [RPUT_MOVING %
                PROTO_STATES] = {.name = "moving",
                                 .kinds = MBX_SENDS,
                                 .queue = PROTO_ACTIVE,
                                 .moves = true,
                                 .next = PROTO_NEXT(RPUT_WRITING) | PROTO_NEXT(RPUT_STOPPED)},
            [RPUT_STOPPED % PROTO_STATES] = {.name = "stopped",
                                             .kinds = MBX_SENDS,
                                             .queue = PROTO_ACTIVE,
                                             .moves = true,
                                             .next = PROTO_NEXT(RPUT_WRITTEN)},
            [RPUT_WRITTEN % PROTO_STATES] = {.name = "written",
                                             .kinds = MBX_SENDS,
                                             .out = PROTO_ALWAYS,
                                             .moves = true,
                                             .then = PROTO_THEN(PROTO_RNDV)},
        },
    .step = rput_step,
    .work = rput_write,
    .io_done = rput_write_done,
    .peer_gone = rput_send_gone,
};

const struct module rput_send_module = {
    .name = "rput send",
    .proto = &rput_send_proto,
    .packets = (const struct packet_handler[]){{WIRE_ANNOUNCE, on_announce}, {0}},
    .is_flushed = on_is_flushed,
    .send = on_send,
    .deferring = on_deferring,
    .credit_came = on_credit_came,
    .is_valid = MBX_CHECKS ? rput_send_is_valid : NULL,
};
