/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advert_send.c - large receives that travel first, at the sender of their message.
 *
 * A receive that a peer tells of in advance (ADVERTISE) is kept if our credit there is what the
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
 * Nothing is lost if a receive is forgotten.  So no more than ADVERT_MOST are kept, and all are
 * dropped when VAIN_MOST sends have been compared in vain, and when sends have to be deferred.
 * But then the peer does not know, so what it tells of behind such a one is void until that one
 * is closed.
 *
 * Invariants
 *   I1  while advert.count is not 0, and no send is being compared: peer.credit.envelopes is 0,
 *       and no send is deferred for that peer
 *   I2  no message that suits a receive that is kept has left since it was advertised, or was under
 *       way then
 *   I3  the receives that are kept, at most ADVERT_MOST, are in the order of their numbers, and
 *       no number is greater than `last`
 *   I4  a send writes no more than the receive has space; if it is stopped, it has not written all
 *       that it was to
 *   I5  its protocol is MBX_RNDV_WRITE if and only if it is complete with what it has written; after
 *       one that is stopped, or is a part (split_copy.c), its peer says FIN
 */
#include "base/check.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "advert/advert.h"
#include "transport/memory.h"

#define VAIN_MOST 64

/* ---- what is kept ---- */

/* Our credit, while a send is compared, or for good. */
static void credit_fetch(struct peer *peer)
{
    credit_bring_back(peer, peer->advert->envelopes);
    peer->advert->envelopes = 0;
}

static void credit_put_aside(struct peer *peer)
{
    if (peer->advert->count == 0)
        return;
    peer->advert->envelopes = credit_put_away(peer);
}

static int on_credit_came(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes)
{
    (void)ep;
    if (peer->advert == NULL || peer->advert->count == 0)
        return 1;
    if (peer->advert->envelopes + envelopes > CREDIT_UNLIMITED)
        return -EPROTO;
    peer->advert->envelopes += envelopes;
    return 0;
}

/* Forgets what the peer has told: harmless at any time. */
static void advert_drop(struct peer *peer)
{
    if (peer->advert == NULL)
        return;
    credit_fetch(peer);
    peer->advert->forgotten = peer->advert->last;
    peer->advert->count = 0;
    peer->advert->vain = 0;
}

/* The peer may still have it open. */
static void advert_forget(struct advert *advert, uint64_t number)
{
    if (number > advert->forgotten)
        advert->forgotten = number;
}

/* It is used up, closed or forgotten. */
static void advert_remove(struct advert *advert, uint32_t index)
{
    assert(index < advert->count);
    advert->count--;
    memmove(&advert->rtrs[index], &advert->rtrs[index + 1],
            (advert->count - index) * sizeof advert->rtrs[0]);
}

/* Is nothing of ours under way that the peer did not know when it told us? */
static bool is_settled(const struct mbx_ep *ep, const struct peer *peer, uint64_t credit)
{
    if (ep->settings.tuning.advert == TUNING_OFF || !ep_matches_here(ep) ||
        !peer_path(peer)->can_write || peer_defer(peer)->is_deferred)
        return false;
    return credit == peer_credit(peer)->envelopes + peer->advert->envelopes;
}

static int on_advertise(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_advertise *body = &packet->body.announce;
    const struct advert_rtr rtr = {
        .envelope = {packet->header.context_id, peer->number, packet->header.tag},
        .ignore = packet->header.data,
        .number = body->number,
        .target = {body->receiver, body->word, body->owner_id, body->address, body->key,
                   body->size},
    };
    struct advert *advert;

    if (peer->advert == NULL)
        peer->advert = mem_calloc(1, sizeof *peer->advert);
    advert = peer->advert;
    if (advert == NULL)
        return -EAGAIN; /* what was told must be known, if only as forgotten */
    if (body->number <= advert->last)
        return -EPROTO;
    advert->last = body->number;
    if (!is_settled(ep, peer, body->credit) || body->from <= advert->forgotten ||
        advert->count == ADVERT_MOST) {
        advert->forgotten = body->number;
        ep->stats.advert_void++;
        tracepoint_step(ep, TRACE_VOID, peer, &rtr.envelope, rtr.ignore, 0, body->receiver);
        return 0;
    }
    credit_fetch(peer);
    advert->rtrs[advert->count++] = rtr;
    credit_put_aside(peer);
    return 0;
}

/* ---- which one ---- */

static bool advert_is_for(const struct advert_rtr *rtr, const struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    const struct mbx_match_envelope envelope = {status->context_id, status->source,
                                                status->tag};

    return mbx_match_accepts(&rtr->envelope, rtr->ignore, &envelope);
}

/* The first from *index on that suits req; false if none does. */
static bool advert_suits(const struct advert *advert, const struct request *req,
                         uint32_t *index)
{
    for (; *index < advert->count; ++*index)
        if (advert_is_for(&advert->rtrs[*index], req))
            return true;
    return false;
}

/* Takes the word; false: it is closed, or we cannot. */
static bool advert_takes_word(struct peer *peer, const struct advert_target *target)
{
    int err = lockword_take(peer, target->word, target->owner_id, 0);

    if (err != 0 && err != -EALREADY)
        advert_drop(peer); /* it may still be open */
    return err == 0;
}

/* req, which is short, will meet one of those that suit it, if one is still open there.  So
 * what stands behind one of these, and accepts a message that it accepts, may not be the first.
 */
static void advert_step_aside(struct advert *advert, const struct request *req)
{
    struct advert_rtr aside[ADVERT_MOST];
    uint32_t count = 0, kept = 0;

    for (uint32_t i = 0; i < advert->count; i++) {
        const struct advert_rtr *rtr = &advert->rtrs[i];
        bool is_aside = advert_is_for(rtr, req);

        for (uint32_t k = 0; k < count && !is_aside; k++)
            is_aside = advert_overlap(&aside[k].envelope, aside[k].ignore, &rtr->envelope,
                                      rtr->ignore);
        if (is_aside) {
            advert_forget(advert, rtr->number);
            aside[count++] = *rtr;
        } else {
            advert->rtrs[kept++] = *rtr;
        }
    }
    advert->count = kept;
}

/* Takes a receive for req: its word is ours, and req->target says where it is. */
static bool advert_take(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    struct advert *advert = peer->advert;
    uint32_t index = 0;

    if (advert->count == 0)
        return false;
    if (!advert_suits(advert, req, &index)) {
        if (++advert->vain == VAIN_MOST)
            advert_drop(peer);
        return false;
    }
    advert->vain = 0;
    if (req->size < ep->settings.tuning.advert_size || request_is_in_pieces(req)) {
        advert_step_aside(advert, req);
        return false;
    }
    while (advert_suits(advert, req, &index)) {
        const struct advert_target target = advert->rtrs[index].target;

        advert_remove(advert, index);
        if (!advert_takes_word(peer, &target))
            continue;
        req->target = target;
        return true;
    }
    return false;
}

/* ---- writing ---- */

static bool write_has_left(const struct request *req)
{
    return req->state >= ADVERT_WRITING;
}

/* The transport writes a chunk of req. */
static void advert_moves(struct mbx_ep *ep, struct request *req)
{
    proto_move(ep, req, write_has_left(req) ? ADVERT_MOVING : ADVERT_WRITE_MOVING);
}

/* It does no longer. */
static void advert_rests(struct mbx_ep *ep, struct request *req)
{
    proto_move(ep, req, write_has_left(req) ? ADVERT_WRITING : ADVERT_WRITE);
}

static bool is_moving(const struct request *req)
{
    return req->state == ADVERT_MOVING || req->state == ADVERT_WRITE_MOVING;
}

/* Nothing more is written of req, which is moving: the peer has to fetch the rest. */
static void advert_stop(struct mbx_ep *ep, struct peer *peer, struct request *req, int err)
{
    ep->stats.advert_stopped++;
    proto_move(ep, req, write_has_left(req) ? ADVERT_STOPPED : ADVERT_WRITE_STOPPED);
    req->protocol = path_rndv(peer);
    if (err == -ENOTSUP && peer_path(peer)->can_write) {
        path_cannot_write(peer);
        advert_drop(peer);
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
static int advert_chunk(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    const struct advert_target *to = &req->target;
    struct link *link = peer->link;
    int err;

    assert(request_has(ep, req, PART_TARGET));
    assert(req->state == ADVERT_WRITE || req->state == ADVERT_WRITING);
    assert(req->done < req->end && req->end <= to->size);
    advert_moves(ep, req); /* it may be told before the call returns */
    err = transport_write(link, to->address + req->done, to->key, req->buf + req->done,
                          chunk_size(ep, req), req);
    if (err == -EINPROGRESS)
        return 0;
    if (err != 0 && err != -EAGAIN && err != -ENOTCONN) {
        advert_stop(ep, peer, req, err);
        return 0;
    }
    advert_rests(ep, req);
    if (err == 0)
        req->done += chunk_size(ep, req);
    return err;
}

/* The transport has written what it was to, or not. */
static void advert_write_done(struct mbx_ep *ep, struct request *req, int error)
{
    assert(request_has(ep, req, PART_TARGET));
    assert(is_moving(req));
    if (error != 0) {
        advert_stop(ep, peer_get(ep, req->peer), req, error);
        return;
    }
    advert_rests(ep, req);
    req->done += chunk_size(ep, req);
}

/* Is there nothing more to write? */
static bool advert_send_is_over(const struct request *req)
{
    return req->done == req->end || req->state == ADVERT_STOPPED ||
           req->state == ADVERT_WRITE_STOPPED;
}

/* The last packet of req has left. */
static void advert_sent(struct mbx_ep *ep, struct request *req)
{
    assert(request_has(ep, req, PART_TARGET));
    if (req->protocol != MBX_RNDV_WRITE) {
        proto_move(ep, req, RNDV_WAIT_FIN);
        return;
    }
    send_count(ep, req);
    request_complete(ep, req, 0);
}

static int notify_begun(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    struct wire_write body = {
        .receiver = req->target.receiver,
        .sender = req->completion.request,
        .size = req->size,
        .done = req->done,
    };
    unsigned flags = 0;

    if (req->state == ADVERT_WRITE_STOPPED) {
        flags = WIRE_STOPPED;
        rndv_expose(ep, req, &body.address, &body.key);
    }
    return outq_notify_message(ep, peer, WIRE_WRITE, flags, &req->completion.status, &body,
                               NULL, 0);
}

static int notify_ended(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    static const struct mbx_status none;
    struct wire_written body = {.receiver = req->target.receiver, .done = req->done};
    unsigned flags = 0;

    if (req->done < req->end) {
        flags = WIRE_STOPPED;
        rndv_expose(ep, req, &body.address, &body.key);
    }
    return outq_notify_message(ep, peer, WIRE_WRITTEN, flags, &none, &body, NULL, 0);
}

/* The WRITE or WRITTEN of req leaves now.  As eager_step(). */
static int advert_step(struct mbx_ep *ep, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    struct peer *peer = peer_get(ep, req->peer);
    bool is_end = req->state == ADVERT_WRITTEN;
    bool is_last = is_end || advert_send_is_over(req);
    int err = is_end ? notify_ended(ep, peer, req) : notify_begun(ep, peer, req);

    assert(request_has(ep, req, PART_TARGET));
    if (err != 0 && (err == -EAGAIN || !is_moving(req)))
        return err; /* else it ends when the transport lets go of it */
    if (!is_end)
        tracepoint_step(
            ep, TRACE_WRITE, peer,
            &(struct mbx_match_envelope){status->context_id, peer->number, status->tag}, 0,
            req->completion.request, req->target.receiver);
    if (is_last) {
        advert_sent(ep, req);
        return 0;
    }
    proto_move(ep, req, is_moving(req) ? ADVERT_MOVING : ADVERT_WRITING);
    progress_activate(ep, req);
    ep_wake_sleeper(ep);
    return 0;
}

/* req, whose WRITE has left, has written all that it will. */
static void advert_finish(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    int err = -EAGAIN;

    proto_move(ep, req, ADVERT_WRITTEN);
    if (list_is_empty(&peer->outq.list))
        err = advert_step(ep, req);
    if (err == -EAGAIN)
        outq_push(ep, peer, req);
    else if (err < 0)
        request_complete(ep, req, err);
}

void advert_write(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);
    int err = 0;

    assert(request_has(ep, req, PART_TARGET));
    assert(write_has_left(req) && req->state != ADVERT_WRITTEN);
    assert(!list_is_linked(&req->queue));
    if (req->state == ADVERT_WRITING && !advert_send_is_over(req))
        err = advert_chunk(ep, peer, req);
    ep_wake_sleeper(ep);
    if (err == -ENOTCONN)
        request_complete(ep, req, err);
    else if (advert_send_is_over(req))
        advert_finish(ep, peer, req);
    else
        progress_activate(ep, req);
}

/* req has its receive.  As send_first(). */
static int advert_begin(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;

    tracepoint_step(ep, TRACE_LOCK, peer,
                    &(struct mbx_match_envelope){status->context_id, peer->number, status->tag},
                    0, req->completion.request, req->target.receiver);
    req->protocol = MBX_RNDV_WRITE;
    proto_move(ep, req, ADVERT_WRITE);
    req->end = min_size(req->size, req->target.size);
    if (req->end <= ep->settings.tuning.read_chunk && advert_chunk(ep, peer, req) == -ENOTCONN)
        return -ENOTCONN;
    return send_first(ep, peer, req);
}

/* A send to a peer with peer->advert: goes into a receive that is known, or as send_or_defer().
 */
static int on_send(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    bool is_taken = advert_take(ep, peer, req);
    int err;

    if (is_taken)
        return advert_begin(ep, peer, req);
    credit_fetch(peer);
    err = send_or_defer(ep, peer, req);
    credit_put_aside(peer);
    return err;
}

/* ---- as a module ---- */

static void on_deferring(struct mbx_ep *ep, struct peer *peer)
{
    (void)ep;
    advert_drop(peer);
}

static bool advert_send_on_is_flushed(const struct mbx_ep *ep)
{
    struct list *node;

    list_for_each (node, &ep->progress.active)
        if (PROTO_OF(request_of_queue(node)->state) == PROTO_ADVERT_SEND)
            return false;
    return true;
}

static void advert_send_gone(struct mbx_ep *ep, struct peer *peer, struct request *req,
                             int error)
{
    (void)peer;
    request_complete(ep, req, error);
}

static const struct proto advert_send_proto = {
    .id = PROTO_ADVERT_SEND,
    .part = PART_TARGET,
    .name = "advert send",
    .states =
        {
            [ADVERT_WRITE % PROTO_STATES] = {.name = "write",
                                             .kinds = MBX_SENDS,
                                             .out = PROTO_ALWAYS,
                                             .moves = true,
                                             .next = PROTO_NEXT(ADVERT_WRITE_MOVING) |
                                                     PROTO_NEXT(ADVERT_WRITING),
                                             .from = {SEND_NEW, RNDV_WAIT_FIN}},
            [ADVERT_WRITE_MOVING % PROTO_STATES] = {.name = "write-moving",
                                                    .kinds = MBX_SENDS,
                                                    .out = PROTO_ALWAYS,
                                                    .moves = true,
                                                    .next = PROTO_NEXT(ADVERT_WRITE) |
                                                            PROTO_NEXT(ADVERT_WRITE_STOPPED) |
                                                            PROTO_NEXT(ADVERT_MOVING)},
            [ADVERT_WRITE_STOPPED % PROTO_STATES] = {.name = "write-stopped",
                                                     .kinds = MBX_SENDS,
                                                     .out = PROTO_ALWAYS,
                                                     .moves = true,
                                                     .then = PROTO_THEN(PROTO_RNDV)},
            [ADVERT_WRITING %
                PROTO_STATES] = {.name = "writing",
                                 .kinds = MBX_SENDS,
                                 .queue = PROTO_ACTIVE,
                                 .moves = true,
                                 .next = PROTO_NEXT(ADVERT_MOVING) | PROTO_NEXT(ADVERT_WRITTEN),
                                 .from = {SEND_NEW, RNDV_WAIT_FIN}},
            [ADVERT_MOVING % PROTO_STATES] = {.name = "moving",
                                              .kinds = MBX_SENDS,
                                              .queue = PROTO_ACTIVE,
                                              .moves = true,
                                              .next = PROTO_NEXT(ADVERT_WRITING) |
                                                      PROTO_NEXT(ADVERT_STOPPED)},
            [ADVERT_STOPPED % PROTO_STATES] = {.name = "stopped",
                                               .kinds = MBX_SENDS,
                                               .queue = PROTO_ACTIVE,
                                               .moves = true,
                                               .next = PROTO_NEXT(ADVERT_WRITTEN)},
            [ADVERT_WRITTEN % PROTO_STATES] = {.name = "written",
                                               .kinds = MBX_SENDS,
                                               .out = PROTO_ALWAYS,
                                               .moves = true,
                                               .then = PROTO_THEN(PROTO_RNDV)},
        },
    .step = advert_step,
    .work = advert_write,
    .io_done = advert_write_done,
    .peer_gone = advert_send_gone,
};

const struct module advert_send_module = {
    .name = "advert send",
    .proto = &advert_send_proto,
    .packets = (const struct packet_handler[]){{WIRE_ADVERTISE, on_advertise}, {0}},
    .is_flushed = advert_send_on_is_flushed,
    .send = on_send,
    .deferring = on_deferring,
    .credit_came = on_credit_came,
    .is_valid = MBX_CHECKS ? advert_send_is_valid : NULL,
};
