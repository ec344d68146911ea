/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * early_send.c - large receives that travel first, at the sender of their message.
 *
 * A receive that a peer tells of in advance (EARLY) is kept if our credit there is what the
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
 * A send costs nothing for that while none is kept: as in hold.c, our envelope credit is put
 * aside while there are some, so that the fast path finds none and asks here.
 *
 *   WRITE ── of one chunk: written, and then told ───────────────> complete
 *     └───── longer: told ──> WRITING ──> WRITTEN ── told ───────> complete
 *                                            └────── stopped ────> WAIT_FIN (rndv.c)
 *
 * The longer message is told before it is written because later ones of ours are behind it: the
 * receive must have left its engine when they arrive.  That holds for the shorter one, too, and
 * its packet says that all is there.  A write that fails stops; the receiver fetches the rest.
 *
 * Such a message is matched when the word is taken, so a synchronous send is complete when its
 * data is written.  It uses no credit: there is a receive for it.
 *
 * Nothing is lost if a receive is forgotten.  So no more than EARLY_MOST are kept, and all are
 * dropped when VAIN_MOST sends have been compared in vain, and when sends have to be held.  But
 * then the peer does not know, so what it tells of behind such a one is void until that one is
 * closed.
 *
 * Invariants
 *   I1  while early.count is not 0, and no send is being compared: peer.credit.envelopes is 0,
 *       and no send is held for that peer
 *   I2  no message that suits a receive that is kept has left since it was told, or was under
 *       way then
 *   I3  the receives that are kept, at most EARLY_MOST, are in the order of their numbers, and
 *       no number is greater than `last`
 *   I4  a send is MOVING only in WRITE and WRITING, and writes no more than the receive has room
 */
#include "base/check.h"
#include "core/arbiter.h"
#include "p2p/credit.h"
#include "rput/early.h"
#include "core/module.h"
#include "p2p/record.h"
#include "transport/memory.h"

#define VAIN_MOST 64

/* ---- what is kept ---- */

/* Our credit, while a send is compared, or for good. */
static void credit_fetch(struct peer *peer)
{
    peer->credit.envelopes += peer->early->envelopes;
    peer->early->envelopes = 0;
}

static void credit_put_aside(struct peer *peer)
{
    if (peer->early->count == 0)
        return;
    peer->early->envelopes = peer->credit.envelopes;
    peer->credit.envelopes = 0;
}

static int on_credit_came(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes)
{
    (void)ep;
    if (peer->early == NULL || peer->early->count == 0)
        return 1;
    if (peer->early->envelopes + envelopes > CREDIT_UNLIMITED)
        return -EPROTO;
    peer->early->envelopes += envelopes;
    return 0;
}

/* Forgets what the peer has told: harmless at any time. */
static void early_drop(struct peer *peer)
{
    if (peer->early == NULL)
        return;
    credit_fetch(peer);
    peer->early->forgotten = peer->early->last;
    peer->early->count = 0;
    peer->early->vain = 0;
}

/* The peer may still have it open. */
static void early_forget(struct early *early, uint64_t number)
{
    if (number > early->forgotten)
        early->forgotten = number;
}

/* It is used up, closed or forgotten. */
static void early_remove(struct early *early, uint32_t index)
{
    assert(index < early->count);
    early->count--;
    memmove(&early->rtrs[index], &early->rtrs[index + 1],
            (early->count - index) * sizeof early->rtrs[0]);
}

/* Is nothing of ours under way that the peer did not know when it told us? */
static bool is_settled(const struct mbx_ep *ep, const struct peer *peer, uint64_t credit)
{
    if (ep->settings.early_recv == EARLY_OFF || ep->offload != NULL || !peer->can_write ||
        peer->is_held)
        return false;
    return credit == peer->credit.envelopes + peer->early->envelopes;
}

static int on_early(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_early *body = &packet->body.early;
    const struct early_rtr rtr = {
        .envelope = {packet->header.context_id, peer->number, packet->header.tag},
        .ignore = packet->header.data,
        .number = body->number,
        .target = {body->receiver, body->word, body->as, body->address, body->key, body->size},
    };
    struct early *early;

    if (peer->early == NULL)
        peer->early = mem_calloc(1, sizeof *peer->early);
    early = peer->early;
    if (early == NULL)
        return -EAGAIN; /* what was told must be known, if only as forgotten */
    if (body->number <= early->last)
        return -EPROTO;
    early->last = body->number;
    if (!is_settled(ep, peer, body->credit) || body->from <= early->forgotten ||
        early->count == EARLY_MOST) {
        early->forgotten = body->number;
        ep->stats.early_void++;
        record_step(ep, TRACE_VOID, peer, &rtr.envelope, rtr.ignore, 0, body->receiver);
        return 0;
    }
    credit_fetch(peer);
    early->rtrs[early->count++] = rtr;
    credit_put_aside(peer);
    return 0;
}

/* ---- which one ---- */

static bool early_is_for(const struct early_rtr *rtr, const struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    const struct mbx_match_envelope envelope = {status->context_id, status->source,
                                                status->tag};

    return mbx_match_accepts(&rtr->envelope, rtr->ignore, &envelope);
}

/* The first from *index on that suits req; false if none does. */
static bool early_suits(const struct early *early, const struct request *req, uint32_t *index)
{
    for (; *index < early->count; ++*index)
        if (early_is_for(&early->rtrs[*index], req))
            return true;
    return false;
}

/* Takes the word; false: it is closed, or we cannot. */
static bool early_claims(struct peer *peer, const struct target *target)
{
    int err = arbiter_claim(peer, target->word, target->as, 0);

    if (err != 0 && err != -EALREADY)
        early_drop(peer); /* it may still be open */
    return err == 0;
}

/* req, which is short, will meet one of those that suit it, if one is still open there.  So
 * what stands behind one of these, and accepts a message that it accepts, may not be the first.
 */
static void early_step_aside(struct early *early, const struct request *req)
{
    struct early_rtr aside[EARLY_MOST];
    uint32_t count = 0, kept = 0;

    for (uint32_t i = 0; i < early->count; i++) {
        const struct early_rtr *rtr = &early->rtrs[i];
        bool is_aside = early_is_for(rtr, req);

        for (uint32_t k = 0; k < count && !is_aside; k++)
            is_aside =
                early_overlap(&aside[k].envelope, aside[k].ignore, &rtr->envelope, rtr->ignore);
        if (is_aside) {
            early_forget(early, rtr->number);
            aside[count++] = *rtr;
        } else {
            early->rtrs[kept++] = *rtr;
        }
    }
    early->count = kept;
}

/* Takes a receive for req: its word is ours, and req->target says where it is. */
static bool early_take(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    struct early *early = peer->early;
    uint32_t index = 0;

    if (early->count == 0)
        return false;
    if (!early_suits(early, req, &index)) {
        if (++early->vain == VAIN_MOST)
            early_drop(peer);
        return false;
    }
    early->vain = 0;
    if (req->size < ep->settings.early_size) {
        early_step_aside(early, req);
        return false;
    }
    while (early_suits(early, req, &index)) {
        const struct target target = early->rtrs[index].target;

        early_remove(early, index);
        if (!early_claims(peer, &target))
            continue;
        req->target = target;
        return true;
    }
    return false;
}

/* ---- writing ---- */

/* Nothing more is written of req: the peer has to fetch the rest. */
static void early_stop(struct mbx_ep *ep, struct peer *peer, struct request *req, int err)
{
    ep->stats.early_stopped++;
    req->flags |= REQUEST_STOPPED;
    req->protocol = peer_rndv(peer);
    if (err == -ENOTSUP && peer->can_write) {
        peer->can_write = false;
        early_drop(peer);
        LOG_INFO("the memory of peer %u cannot be written, long messages are fetched by it",
                 peer->number);
    }
}

static size_t chunk_size(const struct mbx_ep *ep, const struct request *req)
{
    return min_size(ep->settings.read_chunk, req->total - req->done);
}

/* One write of at most a chunk.  0 go on, also if it has failed, or if the transport goes on
 * with it (MOVING); -EAGAIN later; -ENOTCONN. */
static int early_chunk(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    const struct target *to = &req->target;
    struct link *link = peer->link;
    int err;

    assert(!(req->flags & REQUEST_MOVING));
    assert(req->done < req->total && req->total <= to->size);
    req->flags |= REQUEST_MOVING; /* it may be told before the call returns */
    err = transport_write(link, to->address + req->done, to->key, req->buf + req->done,
                          chunk_size(ep, req), req);
    if (err == -EINPROGRESS)
        return 0;
    req->flags &= (uint16_t)~REQUEST_MOVING;
    if (err == 0)
        req->done += chunk_size(ep, req);
    else if (err != -EAGAIN && err != -ENOTCONN)
        early_stop(ep, peer, req, err);
    return err == -EAGAIN || err == -ENOTCONN ? err : 0;
}

/* The transport has written what it was to, or not. */
static void early_write_done(struct mbx_ep *ep, struct request *req, int error)
{
    assert(req->flags & REQUEST_MOVING);
    req->flags &= (uint16_t)~REQUEST_MOVING;
    if (error == 0)
        req->done += chunk_size(ep, req);
    else
        early_stop(ep, peer_get(ep, req->peer), req, error);
}

/* Is there nothing more to write? */
static bool is_over(const struct request *req)
{
    return req->done == req->total || (req->flags & REQUEST_STOPPED);
}

/* The last packet of req has left. */
static void early_sent(struct mbx_ep *ep, struct request *req)
{
    if (req->flags & (REQUEST_STOPPED | REQUEST_SHARED)) {
        if (req->flags & REQUEST_SHARED)
            req->flags &= (uint16_t) ~(REQUEST_STOPPED | REQUEST_SHARED);
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

    if (req->flags & REQUEST_STOPPED) {
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

    if (req->flags & REQUEST_STOPPED) {
        flags = WIRE_STOPPED;
        rndv_expose(ep, req, &body.address, &body.key);
    }
    return outq_tell_message(ep, peer, WIRE_WRITTEN, flags, &none, &body, NULL, 0);
}

/* The WRITE or WRITTEN of req leaves now.  As eager_step(). */
static int early_step(struct mbx_ep *ep, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    struct peer *peer = peer_get(ep, req->peer);
    bool is_end = req->state == EARLY_WRITTEN;
    bool is_last = is_end || is_over(req);
    int err = is_end ? tell_ended(ep, peer, req) : tell_begun(ep, peer, req);

    if (err != 0 && (err == -EAGAIN || !(req->flags & REQUEST_MOVING)))
        return err; /* else it ends when the transport lets go of it */
    if (!is_end)
        record_step(ep, TRACE_WRITE, peer,
                    &(struct mbx_match_envelope){status->context_id, peer->number, status->tag},
                    0, req->completion.request, req->target.receiver);
    if (is_last) {
        early_sent(ep, req);
        return 0;
    }
    proto_move(ep, req, EARLY_WRITING);
    list_add_tail(&ep->active, &req->queue);
    ep_stir(ep);
    return 0;
}

/* req, whose WRITE has left, has written all that it will. */
static void early_finish(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    int err = -EAGAIN;

    proto_move(ep, req, EARLY_WRITTEN);
    if (list_is_empty(&peer->out))
        err = early_step(ep, req);
    if (err == -EAGAIN)
        outq_push(ep, peer, req);
    else if (err < 0)
        request_complete(ep, req, err);
}

void early_write(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);
    bool is_idle = !(req->flags & REQUEST_MOVING) && !is_over(req);
    int err;

    assert(req->state == EARLY_WRITING);
    assert(!list_is_linked(&req->queue));
    err = is_idle ? early_chunk(ep, peer, req) : 0;
    ep_stir(ep);
    if (err == -ENOTCONN)
        request_complete(ep, req, err);
    else if (is_over(req))
        early_finish(ep, peer, req);
    else
        list_add_tail(&ep->active, &req->queue);
}

/* req has its receive.  As send_first(). */
static int early_begin(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;

    record_step(ep, TRACE_LOCK, peer,
                &(struct mbx_match_envelope){status->context_id, peer->number, status->tag}, 0,
                req->completion.request, req->target.receiver);
    req->protocol = MBX_RNDV_WRITE;
    proto_move(ep, req, EARLY_WRITE);
    req->total = min_size(req->size, req->target.size);
    if (req->total <= ep->settings.read_chunk && early_chunk(ep, peer, req) == -ENOTCONN)
        return -ENOTCONN;
    return send_first(ep, peer, req);
}

/* A send to a peer with peer->early: goes into a receive that is known, or as send_or_hold().
 */
static int early_send(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    bool is_taken = early_take(ep, peer, req);
    int err;

    if (is_taken)
        return early_begin(ep, peer, req);
    credit_fetch(peer);
    err = send_or_hold(ep, peer, req);
    credit_put_aside(peer);
    return err;
}

/* ---- as a module ---- */

static void on_deferring(struct mbx_ep *ep, struct peer *peer)
{
    (void)ep;
    early_drop(peer);
}

static bool on_is_flushed(const struct mbx_ep *ep)
{
    struct list *node;

    list_for_each (node, &ep->active)
        if (request_of_queue(node)->state == EARLY_WRITING)
            return false;
    return true;
}

static void early_send_gone(struct mbx_ep *ep, struct peer *peer, struct request *req,
                            int error)
{
    (void)peer;
    request_complete(ep, req, error);
}

static const struct proto early_send_proto = {
    .id = PROTO_EARLY_SEND,
    .name = "early send",
    .states =
        {
            [EARLY_WRITE % PROTO_STATES] = {.name = "write",
                                            .kinds = MBX_SENDS,
                                            .out = PROTO_ALWAYS,
                                            .moves = true,
                                            .next = PROTO_NEXT(EARLY_WRITING),
                                            .then = PROTO_THEN(PROTO_RNDV),
                                            .is_first = true},
            [EARLY_WRITING % PROTO_STATES] = {.name = "writing",
                                              .kinds = MBX_SENDS,
                                              .queue = PROTO_ACTIVE,
                                              .moves = true,
                                              .next = PROTO_NEXT(EARLY_WRITTEN),
                                              .is_first = true},
            [EARLY_WRITTEN % PROTO_STATES] = {.name = "written",
                                              .kinds = MBX_SENDS,
                                              .out = PROTO_ALWAYS,
                                              .moves = true,
                                              .then = PROTO_THEN(PROTO_RNDV)},
        },
    .step = early_step,
    .work = early_write,
    .io_done = early_write_done,
    .peer_gone = early_send_gone,
};

const struct module early_send_module = {
    .name = "early send",
    .proto = &early_send_proto,
    .packets = (const struct packet_handler[]){{WIRE_EARLY, on_early}, {0}},
    .is_flushed = on_is_flushed,
    .send = early_send,
    .deferring = on_deferring,
    .credit_came = on_credit_came,
    .is_valid = MBX_CHECKS ? early_send_is_valid : NULL,
};
