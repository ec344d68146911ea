/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outq.c - packets that wait to be sent to a peer.
 *
 *   peer.outq.list    requests, first in, first out: the step of their protocol sends their
 *               packets; also complete receives that owe their sender a FIN
 *   peer.owes    small packets that are owed, one bit each (module.h)
 *
 * A sender tries at once if nothing waits for this peer, and queues here if there is no space.
 * A peer with waiting packets is on mbx_ep.progress.busy, and each round of progress flushes
 * these peers.
 */
#include "core/outq.h"

#include "core/core.h"
#include "core/module.h"

static void outq_is_busy(struct mbx_ep *ep, struct peer *peer)
{
    ep_wake_sleeper(ep);
    if (!list_is_linked(&peer->outq.busy))
        list_add_tail(&ep->progress.busy, &peer->outq.busy);
}

void outq_push(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    assert(req->peer == peer->number);
    list_add_tail(&peer->outq.list, &req->out);
    outq_is_busy(ep, peer);
}

/* ---- packets without a message ---- */

int outq_notify_message(struct mbx_ep *ep, struct peer *peer, enum wire_type type,
                        unsigned flags, const struct mbx_status *status, const void *body,
                        const void *payload, size_t payload_size)
{
    const struct outgoing packet = {
        .type = type,
        .flags = flags,
        .envelope = status,
        .body = body,
        .payload = payload,
        .payload_size = payload_size,
    };
    int err = outq_send(peer->link, &packet);

    ep->stats.control += err == 0;
    if (unlikely(err != 0 && err != -EAGAIN))
        liveness_suspect(peer);
    return err;
}

int outq_notify(struct mbx_ep *ep, struct peer *peer, enum wire_type type, const void *body)
{
    return outq_notify_message(ep, peer, type, 0, NULL, body, NULL, 0);
}

/* ---- FIN ---- */

static int outq_send_fin(struct mbx_ep *ep, struct request *req)
{
    struct wire_fin fin = {.sender = req->remote.request};
    const struct outgoing packet = {
        .type = WIRE_FIN,
        .flags = req->flags & REQUEST_WITHDRAWN ? WIRE_WITHDRAWN : 0,
        .body = &fin,
    };
    int err = outq_send(peer_get(ep, req->peer)->link, &packet);

    if (err != -EAGAIN)
        req->flags &= (uint32_t)~REQUEST_OWES_FIN;
    return err;
}

OUT_OF_LINE void outq_owe_fin(struct mbx_ep *ep, struct request *req, uint64_t sender)
{
    struct peer *peer = peer_get(ep, req->peer);

    req->remote.request = sender;
    req->flags |= REQUEST_OWES_FIN;
    if (!list_is_empty(&peer->outq.list) || outq_send_fin(ep, req) == -EAGAIN) {
        peer->outq.fins++;
        outq_push(ep, peer, req);
    }
}

/* ---- packets that are owed ---- */

/* Sends the owed packets while there is space.  Returns the number of packets. */
static int outq_pay(struct mbx_ep *ep, struct peer *peer)
{
    int paid = 0, err;

    for (unsigned i = 0; i < CONTROLS && peer->owes != 0; i++) {
        const struct control *control = ep->modules.controls[i];

        if (!(peer->owes & (1u << i)) || control->is_first)
            continue;
        err = control->send(ep, peer);
        paid += err == -EINPROGRESS;
        if (err == -EAGAIN || err == -EINPROGRESS)
            continue;
        /* sent, or it can never be: earlier packets of the peer may settle the rest
         * (liveness.c) */
        peer->owes &= (uint8_t)~control->what;
        paid++;
    }
    return paid;
}

/* Sends the owed packets at the beginning of a round. */
static int outq_pay_first(struct mbx_ep *ep, struct peer *peer)
{
    uint8_t first = peer->owes & ep->modules.owes_first;

    peer->owes &= (uint8_t)~first;
    for (unsigned i = 0; first != 0 && i < CONTROLS; i++)
        if (first & (1u << i))
            ep->modules.controls[i]->send(ep, peer);
    return peer->owes != 0 ? outq_pay(ep, peer) : 0;
}

void outq_owe(struct mbx_ep *ep, struct peer *peer, enum peer_owes what)
{
    peer->owes |= (uint8_t)what;
    outq_is_busy(ep, peer);
}

void outq_owe_now(struct mbx_ep *ep, struct peer *peer, enum peer_owes what)
{
    peer->owes |= (uint8_t)what;
    outq_pay(ep, peer);
    if (peer->owes != 0)
        outq_is_busy(ep, peer);
}

/* ---- requests ---- */

int outq_step(struct mbx_ep *ep, struct request *req)
{
    const struct proto *proto = proto_of(ep, req);
    int err = 0; /* the request ended while it waited here */

    if (req->flags & REQUEST_OWES_FIN)
        err = outq_send_fin(ep, req);
    else if (proto->step != NULL)
        err = proto->step(ep, req);
    if (err == -EAGAIN)
        ep->stats.full++;
    return err;
}

int outq_flush(struct mbx_ep *ep, struct peer *peer)
{
    int moved;

    moved = peer->owes != 0 ? outq_pay_first(ep, peer) : 0;
    while (!list_is_empty(&peer->outq.list)) {
        struct request *req = request_of_out(peer->outq.list.next);
        bool owes_fin = req->flags & REQUEST_OWES_FIN;
        int err = outq_step(ep, req);

        if (err == -EAGAIN || err == -EINPROGRESS) {
            moved += err == -EINPROGRESS;
            ep_wake_sleeper(ep);
            /* a long answer lets other requests go first; messages keep their order */
            if (proto_of(ep, req)->states[req->state % PROTO_STATES].lets_pass) {
                list_remove(&req->out);
                list_add_tail(&peer->outq.list, &req->out);
            }
            break;
        }
        assert(peer->outq.leaving != 0 || !(req->flags & REQUEST_LEAVING));
        assert(peer->outq.fins != 0 || !owes_fin);
        peer->outq.leaving -= (req->flags & REQUEST_LEAVING) != 0;
        peer->outq.fins -= owes_fin;
        req->flags &= (uint32_t)~REQUEST_LEAVING;
        if (err < 0 && !owes_fin)
            /* no packet of the peer will end it, because its own packet can never leave */
            proto_of(ep, req)->peer_gone(ep, peer, req, err);
        request_left(ep, req);
        moved++;
    }
    if (peer->owes & ep->modules.owes_behind)
        moved += outq_pay(ep, peer);
    if (list_is_empty(&peer->outq.list) && peer->owes == 0)
        list_remove(&peer->outq.busy);
    return moved;
}
