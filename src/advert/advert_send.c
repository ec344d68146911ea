/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advert_send.c - advertised receives, at the sender of their message.
 *
 * A receive that a peer advertises (ADVERTISE) is kept under two conditions.  Our credit there
 * must be the one in the packet: then no message of ours was on its way at that time, and none
 * has left since.  And all earlier receives that a message for it could match must be kept.
 * Otherwise it is void.  While receives are kept, each send to that peer is first compared with
 * them, in their posting order:
 *
 *   matches none        is sent as usual
 *   matches, is short   is sent as usual; the receives that it matches are forgotten, since it
 *                       will get one of them, and so are later ones that overlap with a
 *                       forgotten one
 *   matches             takes the word: if it is closed the receive is forgotten, and the next
 *                       one that matches is tried; otherwise the message is written there
 *
 * While no receive is kept, this costs a send nothing: as in backlog.c, our envelope credit is
 * withheld while receives are kept, so that the fast path finds no credit and calls this file.
 *
 *   WRITE ── of one chunk: written, then WRITE leaves ──────────> complete
 *     └───── longer: WRITE leaves ──> WRITING ──> WRITTEN leaves ──> complete
 *                                                 └── stopped ──> WAIT_FIN (rndv.c)
 *
 * With a transport that writes asynchronously: WRITE <──> WRITE_MOVING, WRITING <──> MOVING.
 * After a failed write: WRITE_STOPPED, which the WRITE reports, or STOPPED, which the WRITTEN
 * reports.
 *
 * The WRITE of a longer message leaves before its data is written, because later messages of
 * ours follow: the receive must have left its engine when they arrive.  The same holds for the
 * shorter message, whose WRITE reports that all data is there.  After a failed write the
 * receiver reads the rest.
 *
 * The message is matched when the word is taken, so a synchronous send is complete when its
 * data is written.  It uses no credit, since it has a receive.
 *
 * Forgetting a receive is harmless.  So no more than ADVERT_MOST are kept, and all are dropped
 * when VAIN_MOST sends have matched none, and when sends have to be deferred.  But the peer
 * does not know that, so later receives that overlap with a forgotten one are void until that
 * one is closed.
 *
 * Invariants
 *   I1  while advert.count is not 0, except during a comparison: peer.credit.envelopes is 0,
 *       and no send to that peer is deferred
 *   I2  no message that matches a kept receive has left since it was advertised, or was on its
 *       way then
 *   I3  the kept receives, at most ADVERT_MOST, are in the order of their numbers, and no
 *       number is greater than `last`
 *   I4  a send writes no more than the size of the receive; if it was stopped, it has not
 *       written everything
 *   I5  its protocol is MBX_RNDV_WRITE if and only if it completes when it has written its
 *       data; a send that was stopped, or writes a part (split_copy.c), waits for a FIN
 */
#include "base/check.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "advert/advert.h"
#include "transport/memory.h"

#define VAIN_MOST 64

/* ---- adverts that are kept ---- */

/* Makes our credit available, during a comparison or for good. */
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

/* Drops all receives that the peer has advertised: harmless at any time. */
static void advert_drop(struct peer *peer)
{
    if (peer->advert == NULL)
        return;
    credit_fetch(peer);
    peer->advert->forgotten = peer->advert->last;
    peer->advert->count = 0;
    peer->advert->vain = 0;
}

/* Notes a forgotten receive, which the peer may still have open. */
static void advert_forget(struct advert *advert, uint64_t number)
{
    if (number > advert->forgotten)
        advert->forgotten = number;
}

/* Removes a receive that is used, closed or forgotten. */
static void advert_remove(struct advert *advert, uint32_t index)
{
    assert(index < advert->count);
    advert->count--;
    memmove(&advert->rtrs[index], &advert->rtrs[index + 1],
            (advert->count - index) * sizeof advert->rtrs[0]);
}

/* When the peer sent the ADVERTISE, was no message of ours on its way? */
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
        return -EAGAIN; /* each ADVERTISE must be remembered, if only as forgotten */
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

/* The first receive from *index on that matches req; false if there is none. */
static bool advert_suits(const struct advert *advert, const struct request *req,
                         uint32_t *index)
{
    for (; *index < advert->count; ++*index)
        if (advert_is_for(&advert->rtrs[*index], req))
            return true;
    return false;
}

/* Takes the word of a receive; false: it is closed, or cannot be reached. */
static bool advert_takes_word(struct peer *peer, const struct advert_target *target)
{
    int err = lockword_take(peer, target->word, target->owner_id, 0);

    if (err != 0 && err != -EALREADY)
        advert_drop(peer); /* it may still be open */
    return err == 0;
}

/* req, which is short, will match one of its receives, if one of them is still open there.  So
 * a later receive that overlaps with one of these may not be the first match for a message. */
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

/* Takes a receive for req: its word is ours, and req->target has its address. */
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

/* The transport starts to write a chunk of req. */
static void advert_moves(struct mbx_ep *ep, struct request *req)
{
    proto_move(ep, req, write_has_left(req) ? ADVERT_MOVING : ADVERT_WRITE_MOVING);
}

/* The transport has finished a chunk of req. */
static void advert_rests(struct mbx_ep *ep, struct request *req)
{
    proto_move(ep, req, write_has_left(req) ? ADVERT_WRITING : ADVERT_WRITE);
}

static bool is_moving(const struct request *req)
{
    return req->state == ADVERT_MOVING || req->state == ADVERT_WRITE_MOVING;
}

/* Stops writing req, which is moving: the peer has to read the rest. */
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

/* Writes at most a chunk.  0 continue, also after a failure, or if the transport continues the
 * write; -EAGAIN later; -ENOTCONN. */
static int advert_chunk(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    const struct advert_target *to = &req->target;
    struct link *link = peer->link;
    int err;

    assert(request_has(ep, req, PART_TARGET));
    assert(req->state == ADVERT_WRITE || req->state == ADVERT_WRITING);
    assert(req->done < req->end && req->end <= to->size);
    advert_moves(ep, req); /* the result may be reported before the call returns */
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

/* The transport has completed a write, or failed. */
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

/* Sends the WRITE or WRITTEN of req now.  As eager_step(). */
static int advert_step(struct mbx_ep *ep, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    struct peer *peer = peer_get(ep, req->peer);
    bool is_end = req->state == ADVERT_WRITTEN;
    bool is_last = is_end || advert_send_is_over(req);
    int err = is_end ? notify_ended(ep, peer, req) : notify_begun(ep, peer, req);

    assert(request_has(ep, req, PART_TARGET));
    if (err != 0 && (err == -EAGAIN || !is_moving(req)))
        return err; /* otherwise it ends when the transport has finished */
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

/* req, whose WRITE has left, has written everything that it will write. */
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

/* req has taken its receive: starts to write.  As send_first(). */
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

/* A send to a peer with peer->advert: writes it into a known receive, or continues as
 * send_or_defer(). */
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
