/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rndv.c - long messages: announced, then fetched into the posted buffer.
 *
 *   sender                                      receiver
 *   rts        ── RTS, early data ──────────>   match, copy the early data
 *   wait-fin                                    read: reads the rest from the sender's
 *                                                     memory, chunk by chunk
 *              <───────────────────── FIN ───   complete
 *   complete
 *
 * or, where the receiver cannot read the sender's memory:
 *
 *   wait-fin   <───────────────────── CTS ───   cts: asks for the bytes that it wants
 *   send-data  ── DATA ... ─────────────────>   wait-data
 *   complete                                    complete
 *
 * A read that fails becomes a CTS for what is missing; the message does not fail.  A
 * receive that is too short asks for, and reads, only what fits.  The sender's buffer
 * is lent to the peer from RTS to FIN or CTS.
 */
#include "core/access.h"
#include "core/core.h"
#include "core/distance.h"
#include "core/early.h"
#include "core/hold.h"
#include "core/module.h"
#include "core/share.h"
#include "transport/memory.h"

/* DATA packets that leave before others get their turn, and arrivals theirs. */
#define DATA_BURST     16

#define EARLY_DATA_FAR 1024 /* MBX_EARLY_DATA=auto: where bytes are asked for and come */

static const struct {
    const char *name;
    unsigned next;
} rndv_states[REQUEST_STATES] = {
    [REQUEST_RTS] = {"rts", 1u << REQUEST_WAIT_FIN},
    [REQUEST_WAIT_FIN] = {"wait-fin", 1u << REQUEST_SEND_DATA},
    [REQUEST_SEND_DATA] = {"send-data", 0},
    [REQUEST_POSTED] = {"posted", 1u << REQUEST_READ | 1u << REQUEST_CTS},
    [REQUEST_DEVICE] = {"device", 1u << REQUEST_READ | 1u << REQUEST_CTS},
    [REQUEST_READ] = {"read", 1u << REQUEST_READ_WAIT | 1u << REQUEST_CTS},
    [REQUEST_READ_WAIT] = {"read-wait", 1u << REQUEST_READ | 1u << REQUEST_CTS},
    [REQUEST_CTS] = {"cts", 1u << REQUEST_WAIT_DATA},
    [REQUEST_WAIT_DATA] = {"wait-data", 0},
    [REQUEST_FILLING] = {"filling", 1u << REQUEST_READ | 1u << REQUEST_CTS},
};

static void rndv_move(struct request *req, enum request_state to)
{
    assert(rndv_states[req->state].next & (1u << to));
    LOG_TRACE("rendezvous: %s -> %s, request %llx", rndv_states[req->state].name,
              rndv_states[to].name, (unsigned long long)req->completion.request);
    req->state = (uint8_t)to;
}

static int rndv_control(struct mbx_ep *ep, const struct request *req, enum wire_type type,
                        const void *body, const void *payload, size_t payload_size)
{
    struct link *link = peer_get(ep, req->peer)->link;
    struct wire_header header = {.type = (uint8_t)type, .version = WIRE_VERSION};
    const struct transport_packet packet = {
        .header = &header,
        .body = body,
        .body_size = wire_body_size(type),
        .payload = payload,
        .payload_size = payload_size,
    };

    if (type == WIRE_RTS) {
        header.flags = req->flags & REQUEST_SHORT_OF ? WIRE_SHORT_OF : 0;
        header.tag = req->completion.status.tag;
        header.data = req->completion.status.data;
        header.context_id = req->completion.status.context_id;
    }
    return link->transport->ops->send(link, &packet);
}

size_t rndv_room(const struct mbx_ep *ep, enum wire_type type)
{
    return ep->transport->limits.packet_max - sizeof(struct wire_header) - wire_body_size(type);
}

size_t rndv_early(const struct mbx_ep *ep, const struct peer *peer, enum wire_type type,
                  size_t size)
{
    uint64_t most = ep->settings.early_data;

    if (most == SETTING_AUTO) {
        bool is_copied = peer->can_read && peer->link->transport->limits.is_copy;

        /* a copy of the rest is as fast with the beginning */
        most = is_copied && size > distance_eager_max(ep, peer) ? 0 : EARLY_DATA_FAR;
    }
    return min_size(size, min_size(most, rndv_room(ep, type)));
}

/* ---- sender ---- */

void rndv_expose(struct mbx_ep *ep, struct request *req, uint64_t *address, uint64_t *key)
{
    if (req->protocol == MBX_RNDV_READ) {
        rndv_offer(peer_get(ep, req->peer), req, address, key);
        if (!(req->flags & REQUEST_EXPOSED))
            req->protocol = MBX_RNDV_DATA;
        return;
    }
    *address = req->flags & REQUEST_EXPOSED ? req->address : 0;
    *key = req->flags & REQUEST_EXPOSED ? req->key : 0;
}

void rndv_offer(const struct peer *peer, struct request *req, uint64_t *address, uint64_t *key)
{
    if (!(req->flags & REQUEST_EXPOSED) && peer->can_read &&
        transport_expose(peer->link, req->buf, req->size, &req->address, &req->key) == 0)
        req->flags |= REQUEST_EXPOSED;
    *address = req->flags & REQUEST_EXPOSED ? req->address : 0;
    *key = req->flags & REQUEST_EXPOSED ? req->key : 0;
}

static int rndv_send_rts(struct mbx_ep *ep, struct request *req)
{
    struct wire_rts rts = {.sender = req->completion.request, .size = req->size};

    rndv_expose(ep, req, &rts.address, &rts.key);
    return rndv_control(ep, req, WIRE_RTS, &rts, req->buf, req->done);
}

static void rndv_sent(struct mbx_ep *ep, struct request *req, enum mbx_protocol protocol)
{
    ep->stats.sent[protocol]++;
    ep->stats.sent_bytes[protocol] += req->size;
    request_complete(ep, req, 0);
}

static int rndv_send_data(struct mbx_ep *ep, struct request *req)
{
    size_t size = min_size(rndv_room(ep, WIRE_DATA), req->total - req->done);
    struct wire_data data = {.receiver = req->remote, .offset = req->done};
    int err = rndv_control(ep, req, WIRE_DATA, &data, req->buf + req->done, size);

    if (err == 0)
        req->done += size;
    return err;
}

/* The receiver cannot read: it wants the bytes in messages. */
static int on_cts(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_cts *cts = &packet->body.cts;
    struct request *req = request_named(ep, cts->sender, peer->number, REQUEST_WAIT_GRANT);

    if (req != NULL)
        hold_cts(ep, req); /* it says what the GRANT behind it will say */
    hold_probed(ep, peer, cts->sender);
    req = request_named(ep, cts->sender, peer->number, REQUEST_WAIT_FIN);
    if (req == NULL || req->protocol <= MBX_BOUNCE || cts->offset > req->size ||
        cts->size > req->size - cts->offset)
        return -EPROTO;
    rndv_move(req, REQUEST_SEND_DATA);
    req->remote = cts->receiver;
    req->done = cts->offset;
    req->total = cts->offset + cts->size;
    peer_queue(ep, peer, req);
    return 0;
}

/* The receiver has all that it wants: of a rendezvous or of a synchronous send. */
static int on_fin(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_fin *fin = &packet->body.fin;
    struct request *req;

    hold_probed(ep, peer, fin->sender);
    req = request_named(ep, fin->sender, peer->number, REQUEST_WAIT_FIN);
    if (req == NULL) {
        req = request_named(ep, fin->sender, peer->number, REQUEST_WAIT_GRANT);
        if (req == NULL)
            return -EPROTO;
        hold_done(ep, req); /* the payload came with its claim */
        return 0;
    }
    if (req->protocol > MBX_BOUNCE)
        rndv_sent(ep, req, MBX_RNDV_READ);
    else
        request_complete(ep, req, 0);
    return 0;
}

/* ---- receiver ---- */

/* All that fits is in the buffer. */
static void rndv_received(struct mbx_ep *ep, struct request *req, enum mbx_protocol protocol)
{
    ep->stats.received[protocol]++;
    ep->stats.received_bytes[protocol] += req->completion.status.size;
    req->completion.received = req->total;
    if (protocol == MBX_RNDV_READ)
        rndv_owe_fin(ep, req, req->remote);
    request_complete(ep, req, req->completion.error);
}

/* Reading has failed, or is not possible: ask for the rest. */
static void rndv_ask(struct mbx_ep *ep, struct request *req)
{
    if (unlikely(req->flags & REQUEST_SHARED) && !share_join(ep, req, true))
        return; /* not while its sender writes */
    rndv_move(req, REQUEST_CTS);
    peer_queue(ep, peer_get(ep, req->peer), req);
}

static void rndv_read_failed(struct mbx_ep *ep, struct request *req, int err)
{
    struct peer *peer = peer_get(ep, req->peer);

    ep->stats.read_fallbacks++;
    if (err == -ENOTSUP && peer->can_read) {
        peer->can_read = false;
        LOG_INFO("the memory of peer %u cannot be read, long messages are copied through the "
                 "transport",
                 req->peer);
    }
    rndv_ask(ep, req);
}

/* One read of at most a chunk.  0 go on, -EAGAIN later, -EINPROGRESS read_done() tells
 * or has told; after any other error the request has moved on to CTS. */
static int rndv_read_chunk(struct mbx_ep *ep, struct request *req)
{
    struct link *link = peer_get(ep, req->peer)->link;
    size_t size = min_size(ep->settings.read_chunk, share_end(req) - req->done);
    int err;

    rndv_move(req, REQUEST_READ_WAIT); /* the transport may tell before it returns */
    err = transport_read(link, req->buf + req->done, req->address + req->done, req->key, size,
                         req);
    if (err == -EINPROGRESS)
        return err;
    if (err != 0 && err != -EAGAIN) {
        rndv_read_failed(ep, req, err);
        return err;
    }
    rndv_move(req, REQUEST_READ);
    if (err == 0)
        req->done += size;
    return err;
}

/* Reads a chunk; while there is more to read, req is on reading. */
void rndv_read(struct mbx_ep *ep, struct request *req)
{
    int err;

    assert(req->state == REQUEST_READ);
    assert(!list_is_linked(&req->queue));
    if (size_is_shared(ep, req))
        share_ask(ep, req);
    do {
        err = req->done < share_end(req) ? rndv_read_chunk(ep, req) : 0;
        if (err != 0 || !(req->flags & REQUEST_SHARED) || req->done < share_end(req))
            break;
    } while (share_join(ep, req, false));
    if (req->state == REQUEST_FILLING)
        return;
    if (err == 0 && req->done == req->total)
        rndv_received(ep, req, MBX_RNDV_READ);
    else if (err == 0 || err == -EAGAIN)
        list_add_tail(&ep->reading, &req->queue);
    ep_stir(ep); /* also if the transport goes on with it */
}

void rndv_read_done(void *arg, void *cookie, int error)
{
    struct mbx_ep *ep = arg;
    struct request *req = cookie;

    if (req->state == REQUEST_SERVE_WAIT) {
        serve_moved(ep, req, error);
        return;
    }
    if (req->flags & REQUEST_MOVING) {
        early_write_done(ep, req, error);
        return;
    }
    if (error < 0) {
        rndv_read_failed(ep, req, error);
        return;
    }
    assert(req->done < share_end(req));
    req->done += min_size(ep->settings.read_chunk, share_end(req) - req->done);
    rndv_move(req, REQUEST_READ);
    list_add_tail(&ep->reading, &req->queue);
    ep_stir(ep);
}

void rndv_resume(struct mbx_ep *ep, struct request *req, bool ask)
{
    if (req->done < req->total &&
        (ask || !(peer_get(ep, req->peer)->can_read && req->address))) {
        rndv_ask(ep, req);
        return;
    }
    rndv_move(req, REQUEST_READ);
    rndv_read(ep, req);
}

/* req has met an RTS: its early data first, then the rest. */
OUT_OF_LINE void rndv_receive(struct mbx_ep *ep, struct request *req,
                              const struct arrival *arrival)
{
    size_t early = min_size(arrival->have, req->total);

    if (early != 0)
        memcpy(req->buf, arrival->payload, early);
    req->done = early;
    req->remote = arrival->sender;
    req->address = arrival->rts->address;
    req->key = arrival->rts->key;
    rndv_resume(ep, req, false);
}

static int rndv_send_cts(struct mbx_ep *ep, struct request *req)
{
    struct wire_cts cts = {
        .sender = req->remote,
        .receiver = req->completion.request,
        .offset = req->done,
        .size = req->total - req->done,
    };

    return rndv_control(ep, req, WIRE_CTS, &cts, NULL, 0);
}

static int on_data(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_data *data = &packet->body.data;
    struct request *req = request_named(ep, data->receiver, peer->number, REQUEST_WAIT_DATA);

    if (req == NULL || data->offset != req->done ||
        packet->payload_size > req->total - req->done)
        return -EPROTO;
    memcpy(req->buf + req->done, packet->payload, packet->payload_size);
    req->done += packet->payload_size;
    if (req->done == req->total)
        rndv_received(ep, req, MBX_RNDV_DATA);
    return 0;
}

/* ---- FIN ---- */

int rndv_send_fin(struct mbx_ep *ep, struct request *req)
{
    struct wire_fin fin = {.sender = req->remote};
    int err = rndv_control(ep, req, WIRE_FIN, &fin, NULL, 0);

    if (err != -EAGAIN)
        req->flags &= (uint16_t)~REQUEST_OWES_FIN;
    return err;
}

OUT_OF_LINE void rndv_owe_fin(struct mbx_ep *ep, struct request *req, uint64_t sender)
{
    struct peer *peer = peer_get(ep, req->peer);

    req->remote = sender;
    req->flags |= REQUEST_OWES_FIN;
    if (!list_is_empty(&peer->out) || rndv_send_fin(ep, req) == -EAGAIN) {
        peer->fins++;
        peer_queue(ep, peer, req);
    }
}

/* Pushes what req has to send as far as it goes.  0 nothing more to send for now. */
int rndv_step(struct mbx_ep *ep, struct request *req)
{
    int err = 0;

    switch ((enum request_state)req->state) {
    case REQUEST_RTS:
        if ((err = rndv_send_rts(ep, req)) == 0)
            rndv_move(req, REQUEST_WAIT_FIN);
        break;
    case REQUEST_SEND_DATA:
        for (int n = 0; n < DATA_BURST && req->done < req->total && err == 0; n++)
            err = rndv_send_data(ep, req);
        if (err == 0 && req->done < req->total)
            err = -EINPROGRESS;
        if (err == 0)
            rndv_sent(ep, req, MBX_RNDV_DATA);
        break;
    case REQUEST_CTS:
        if ((err = rndv_send_cts(ep, req)) == 0)
            rndv_move(req, REQUEST_WAIT_DATA);
        break;
    case REQUEST_WRITE:
    case REQUEST_WRITTEN:
        err = early_step(ep, req);
        break;
    case REQUEST_POSTED:
    case REQUEST_HELD:
    case REQUEST_LOCK:
    case REQUEST_CLAIM:
    case REQUEST_WAIT_GRANT:
    case REQUEST_EAGER:
    case REQUEST_WAIT_FIN:
    case REQUEST_WRITING:
    case REQUEST_DEVICE:
    case REQUEST_REVOKING:
    case REQUEST_CLAIMED:
    case REQUEST_ASSEMBLE:
    case REQUEST_READ:
    case REQUEST_READ_WAIT:
    case REQUEST_WAIT_DATA:
    case REQUEST_ACCESS:
    case REQUEST_WAIT_ANSWER:
    case REQUEST_PUSH:
    case REQUEST_SERVE:
    case REQUEST_SERVE_WAIT:
    case REQUEST_WAIT_PUSH:
    case REQUEST_FILLING:
    case REQUEST_COMPLETE:
    case REQUEST_LINGER:
    case REQUEST_STATES:
        break;
    }
    return err;
}

const struct module rndv_module = {
    .name = "rndv",
    .packets =
        (const struct packet_handler[]){
            {WIRE_CTS, on_cts}, {WIRE_DATA, on_data}, {WIRE_FIN, on_fin}, {0}},
};
