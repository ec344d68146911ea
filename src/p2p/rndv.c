/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rndv.c - the rendezvous protocol: long messages are announced, then read into the posted
 * buffer.
 *
 *   sender                                      receiver
 *   rts        ── RTS, payload ─────────────>   match, copy the RTS payload
 *   wait-fin                                    read: reads the rest from the sender's
 *                                                     memory, chunk by chunk
 *              <───────────────────── FIN ───   complete
 *   complete
 *
 * or, where the receiver cannot read the sender's memory:
 *
 *   wait-fin   <───────────────────── CTS ───   cts: requests the bytes that it needs
 *   send-data  ── DATA ... ─────────────────>   wait-data
 *   complete                                    complete
 *
 * After a failed read the receiver requests the missing bytes with a CTS; the message does not
 * fail.  A receive that is too short requests, or reads, only the bytes that fit.  The sender's
 * buffer is exposed to the peer from RTS to FIN or CTS.
 */
#include "p2p/p2p.h"
#include "p2p/path.h"
#include "p2p/tracer.h"
#include "core/core.h"
#include "transport/bounce.h"
#include "transport/memory.h"

/* DATA packets that leave before other requests and arrivals get their turn. */
#define DATA_BURST      16

#define RTS_PAYLOAD_FAR 1024 /* unless the receiver copies a long message itself */

static int rndv_control(struct mbx_ep *ep, const struct request *req, enum wire_type type,
                        const void *body, const void *payload, size_t payload_size)
{
    const struct outgoing packet = {
        .type = type,
        .flags = type == WIRE_RTS && (req->flags & REQUEST_SHORT_OF) ? WIRE_SHORT_OF : 0,
        .envelope = type == WIRE_RTS ? &req->completion.status : NULL,
        .body = body,
        .payload = payload,
        .payload_size = payload_size,
    };

    return outq_send(peer_get(ep, req->peer)->link, &packet);
}

size_t rndv_capacity(const struct mbx_ep *ep, enum wire_type type)
{
    return ep->net.transport->limits.packet_max - sizeof(struct wire_header) -
           wire_body_size(type);
}

size_t rndv_payload_size(const struct mbx_ep *ep, const struct peer *peer, enum wire_type type,
                         size_t size)
{
    uint64_t most = ep->settings.tuning.rts_payload;

    if (peer->link->transport->limits.data_max != 0)
        return 0;
    if (most == SETTING_AUTO) {
        bool is_copied = peer_path(peer)->can_read && peer->link->transport->limits.is_copy;

        /* copying the rest takes as long if it includes the beginning */
        most = is_copied && size > min_size(path_packets_max(ep, peer), ep->limits.eager_others)
                   ? 0
                   : RTS_PAYLOAD_FAR;
    }
    return min_size(size, min_size(most, rndv_capacity(ep, type)));
}

/* ---- sender ---- */

void rndv_expose(struct mbx_ep *ep, struct request *req, uint64_t *address, uint64_t *key)
{
    if (req->protocol == MBX_RNDV_READ) {
        rndv_expose_undecided(peer_get(ep, req->peer), req, address, key);
        if (!(req->flags & REQUEST_EXPOSED))
            req->protocol = MBX_RNDV_DATA;
        return;
    }
    *address = req->flags & REQUEST_EXPOSED ? req->remote.address : 0;
    *key = req->flags & REQUEST_EXPOSED ? req->remote.key : 0;
}

void rndv_expose_undecided(const struct peer *peer, struct request *req, uint64_t *address,
                           uint64_t *key)
{
    if (!(req->flags & (REQUEST_EXPOSED | REQUEST_PIECES)) && peer_path(peer)->can_read &&
        transport_expose(peer->link, req->buf, req->size, &req->remote.address,
                         &req->remote.key) == 0)
        req->flags |= REQUEST_EXPOSED;
    *address = req->flags & REQUEST_EXPOSED ? req->remote.address : 0;
    *key = req->flags & REQUEST_EXPOSED ? req->remote.key : 0;
}

static int rndv_send_rts(struct mbx_ep *ep, struct request *req)
{
    struct wire_rts rts = {.sender = req->completion.request, .size = req->size};

    int err;

    rndv_expose(ep, req, &rts.address, &rts.key);
    err = rndv_control(ep, req, WIRE_RTS, &rts, req->buf, req->rts_payload);
    if (err == 0)
        tracer_step(ep, TRACE_RTS, req, req->rts_payload);
    return err;
}

static void rndv_sent(struct mbx_ep *ep, struct request *req, enum mbx_protocol protocol)
{
    ep->stats.sent[protocol]++;
    ep->stats.sent_bytes[protocol] += req->size;
    request_complete(ep, req, 0);
}

/* Sends the contents of a bounce buffer that the peer reads, up to the end of its request. */
static int rndv_send_buffer(struct mbx_ep *ep, struct request *req)
{
    struct pieces *pieces = req->pieces;
    const struct wire_data data = {.receiver = req->remote.request, .offset = req->done};
    const struct wire_buffer in = {
        .buffer = pieces->buffer,
        .size = min_size(pieces->to - pieces->from, req->end - req->done),
    };
    const struct outgoing packet = {.type = WIRE_DATA,
                                    .flags = WIRE_IN_BUFFER,
                                    .body = &data,
                                    .payload = &in,
                                    .payload_size = sizeof in};
    int err = outq_send(peer_get(ep, req->peer)->link, &packet);

    if (err == 0) {
        ep->stats.buffers++;
        req->done += in.size;
        pieces_buffer_sent(pieces);
    }
    return err;
}

/* Sends the next bytes, in one packet.  0 also if packing failed. */
static int rndv_send_data(struct mbx_ep *ep, struct request *req)
{
    struct wire_data data = {.receiver = req->remote.request, .offset = req->done};
    size_t size = min_size(rndv_capacity(ep, WIRE_DATA), req->end - req->done);
    const char *from;
    int err;

    if (request_is_in_pieces(req) &&
        pieces_take_buffer(req->pieces, peer_get(ep, req->peer)->link, req->end - req->done))
        return rndv_send_buffer(ep, req);
    from = request_next(ep, req, &size);
    if (from == NULL)
        return 0;
    err = rndv_control(ep, req, WIRE_DATA, &data, from, size);
    if (err == 0)
        request_sent(req, size);
    return err;
}

/* Packing the rest of req failed: notifies its receiver. */
static int rndv_send_broken(struct mbx_ep *ep, struct request *req)
{
    const struct wire_data data = {.receiver = req->remote.request, .offset = req->done};
    const struct outgoing packet = {.type = WIRE_DATA, .flags = WIRE_BROKEN, .body = &data};

    return outq_send(peer_get(ep, req->peer)->link, &packet);
}

/* The receiver cannot read: it requests the bytes as messages. */
static int rndv_asked(struct mbx_ep *ep, struct peer *peer, struct request *req,
                      const struct wire_cts *cts)
{
    if (cts->offset > req->size || cts->size > req->size - cts->offset)
        return -EPROTO;
    if (request_is_in_pieces(req) && !request_is_broken(req) &&
        cts->offset != req->pieces->done - (req->pieces->to - req->pieces->from))
        return -EPROTO; /* bytes are packed in order */
    proto_move(ep, req, RNDV_SEND_DATA);
    tracer_step(ep, TRACE_DATA, req, cts->size);
    req->remote.request = cts->receiver;
    req->done = cts->offset;
    req->end = cts->offset + cts->size;
    outq_push(ep, peer, req);
    return 0;
}

static int on_reply(struct mbx_ep *ep, struct peer *peer, struct request *req,
                    const struct wire_packet *packet)
{
    if (req->state != RNDV_WAIT_FIN)
        return -EPROTO;
    if (packet->header.type == WIRE_CTS)
        return rndv_asked(ep, peer, req, &packet->body.cts);
    rndv_sent(ep, req, MBX_RNDV_READ); /* the receiver has all the bytes that it needs */
    return 0;
}

int rndv_reply(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    uint64_t sender =
        packet->header.type == WIRE_CTS ? packet->body.cts.sender : packet->body.fin.sender;
    struct request *req = request_find(ep, sender);

    if (req == NULL || proto_of(ep, req)->reply == NULL || req->peer != peer->number)
        return -EPROTO;
    if (packet->header.flags & WIRE_WITHDRAWN)
        return withdraw_done(ep, req);
    return proto_of(ep, req)->reply(ep, peer, req, packet);
}

/* ---- receiver ---- */

void rndv_received(struct mbx_ep *ep, struct request *req, enum mbx_protocol protocol)
{
    ep->stats.received[protocol]++;
    ep->stats.received_bytes[protocol] += req->completion.status.size;
    req->completion.received = req->total;
    if (protocol == MBX_RNDV_READ) {
        tracer_step(ep, TRACE_FIN, req, 0);
        outq_owe_fin(ep, req, req->remote.request);
    }
    request_complete(ep, req, req->completion.error);
}

void rndv_ask(struct mbx_ep *ep, struct request *req)
{
    credit_allow_buffers(ep, peer_get(ep, req->peer));
    proto_move(ep, req, RNDV_CTS);
    outq_push(ep, peer_get(ep, req->peer), req);
}

void rndv_read_failed(struct mbx_ep *ep, struct request *req, int error)
{
    struct peer *peer = peer_get(ep, req->peer);
    char text[NAMES_PEER_TEXT];

    ep->stats.read_fallbacks++;
    if (error != -ENOTSUP || !peer_path(peer)->can_read)
        return;
    path_cannot_read(peer);
    LOG_INFO("the memory of %s cannot be read, long messages are copied through the transport",
             names_peer_text(ep, req->peer, text));
}

size_t rndv_chunk_size(const struct mbx_ep *ep, const struct request *req, uint64_t end)
{
    return min_size(ep->settings.tuning.read_chunk, end - req->done);
}

int rndv_read_chunk(struct mbx_ep *ep, struct request *req, uint64_t end, unsigned waits)
{
    struct link *link = peer_get(ep, req->peer)->link;
    size_t size = rndv_chunk_size(ep, req, end);
    unsigned reads = req->state;
    int err;

    proto_move(ep, req, waits); /* the transport may report the result before it returns */
    err = transport_read(link, req->buf + req->done, req->remote.address + req->done,
                         req->remote.key, size, req);
    if (err == -EINPROGRESS)
        return err;
    proto_move(ep, req, reads);
    if (err == 0)
        req->done += size;
    return err;
}

void rndv_read_alone(struct mbx_ep *ep, struct request *req)
{
    int err = req->done < req->total ? rndv_read_chunk(ep, req, req->total, RNDV_READ_WAIT) : 0;

    ep_wake_sleeper(ep); /* even if the transport continues the read */
    if (err == 0 && req->done == req->total) {
        rndv_received(ep, req, MBX_RNDV_READ);
    } else if (err == 0 || err == -EAGAIN) {
        progress_activate(ep, req);
    } else if (err != -EINPROGRESS) {
        rndv_read_failed(ep, req, err);
        rndv_ask(ep, req);
    }
}

/* Reads a chunk; while there is more to read, req is on active. */
static void rndv_read(struct mbx_ep *ep, struct request *req)
{
    assert(req->state == RNDV_READ);
    assert(!list_is_linked(&req->queue));
    if (req->total - req->done < ep_advert(ep)->split_copy_from || !module_read(ep, req))
        rndv_read_alone(ep, req);
}

static void rndv_on_read(struct mbx_ep *ep, struct request *req, int error)
{
    if (error < 0) {
        rndv_read_failed(ep, req, error);
        rndv_ask(ep, req);
        return;
    }
    assert(req->done < req->total);
    req->done += rndv_chunk_size(ep, req, req->total);
    proto_move(ep, req, RNDV_READ);
    progress_activate(ep, req);
    ep_wake_sleeper(ep);
}

void rndv_resume(struct mbx_ep *ep, struct request *req, bool ask)
{
    if (req->done < req->total &&
        (ask || !(peer_path(peer_get(ep, req->peer))->can_read && req->remote.address))) {
        rndv_ask(ep, req);
    } else if (request_is_in_pieces(req)) {
        tracer_step(ep, TRACE_READ, req, req->total - req->done);
        proto_move(ep, req, PIECES_READ);
        rndv_read_pieces(ep, req);
    } else {
        tracer_step(ep, TRACE_READ, req, req->total - req->done);
        proto_move(ep, req, RNDV_READ);
        rndv_read(ep, req);
    }
}

/* req has matched an RTS: stores the RTS payload, then continues with the rest. */
OUT_OF_LINE void rndv_receive(struct mbx_ep *ep, struct request *req,
                              const struct arrival *arrival)
{
    size_t payload = min_size(arrival->have, req->total);

    if (payload != 0)
        request_put(req, 0, arrival->payload, payload);
    req->done = payload;
    req->remote.request = arrival->sender;
    req->remote.address = arrival->rts->address;
    req->remote.key = arrival->rts->key;
    rndv_resume(ep, req, false);
}

static int rndv_send_cts(struct mbx_ep *ep, struct request *req)
{
    struct wire_cts cts = {
        .sender = req->remote.request,
        .receiver = req->completion.request,
        .offset = req->done,
        .size = req->total - req->done,
    };
    int err = rndv_control(ep, req, WIRE_CTS, &cts, NULL, 0);

    if (err == 0)
        tracer_step(ep, TRACE_CTS, req, cts.size);
    return err;
}

static int on_data(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_data *data = &packet->body.data;
    struct request *req = request_named(ep, data->receiver, peer->number, RNDV_WAIT_DATA);

    if (req == NULL || data->offset != req->done ||
        packet->payload_size > req->total - req->done)
        return -EPROTO;
    if (packet->header.flags & WIRE_BROKEN) {
        request_lost(ep, req, -EIO);
        return 0;
    }
    request_put(req, req->done, packet->payload, packet->payload_size);
    req->done += packet->payload_size;
    if (req->done == req->total)
        rndv_received(ep, req, MBX_RNDV_DATA);
    return 0;
}

static int rndv_step_data(struct mbx_ep *ep, struct request *req)
{
    int err = 0;

    for (int n = 0;
         n < DATA_BURST && req->done < req->end && err == 0 && !request_is_broken(req); n++)
        err = rndv_send_data(ep, req);
    if (request_is_in_pieces(req))
        pieces_settle(ep, req->pieces);
    if (err != 0)
        return err;
    if (request_is_broken(req)) {
        err = rndv_send_broken(ep, req);
        if (err == 0)
            request_complete(ep, req, -EIO);
    } else if (req->done < req->end) {
        err = -EINPROGRESS;
    } else {
        rndv_sent(ep, req, MBX_RNDV_DATA);
    }
    return err;
}

/* Sends as many packets of req as possible.  0 nothing more to send for now. */
static int rndv_step(struct mbx_ep *ep, struct request *req)
{
    int err;

    if (req->state == RNDV_SEND_DATA)
        return rndv_step_data(ep, req);
    err = req->state == RNDV_RTS ? rndv_send_rts(ep, req) : rndv_send_cts(ep, req);
    if (err == 0)
        proto_move(ep, req, req->state == RNDV_RTS ? RNDV_WAIT_FIN : RNDV_WAIT_DATA);
    return err;
}

/* ---- as a protocol ---- */

static void rndv_peer_gone(struct mbx_ep *ep, struct peer *peer, struct request *req, int error)
{
    (void)peer;
    if (request_is_send(req))
        request_complete(ep, req, error);
    else
        request_lost(ep, req, error);
}

static int rndv_cancel(struct mbx_ep *ep, struct request *req)
{
    return req->state == RNDV_RTS || req->state == RNDV_WAIT_FIN ? withdraw_ask(ep, req)
                                                                 : -EALREADY;
}

static const struct proto rndv_proto = {
    .id = PROTO_RNDV,
    .name = "rendezvous",
    .states =
        {
            [RNDV_RTS % PROTO_STATES] = {.name = "rts",
                                         .kinds = MBX_SENDS,
                                         .out = PROTO_ALWAYS,
                                         .next = PROTO_NEXT(RNDV_WAIT_FIN),
                                         .is_first = true},
            [RNDV_WAIT_FIN % PROTO_STATES] = {.name = "wait-fin",
                                              .kinds = MBX_SENDS,
                                              .next = PROTO_NEXT(RNDV_SEND_DATA),
                                              .is_first = true,
                                              .awaits_peer = true},
            [RNDV_SEND_DATA % PROTO_STATES] = {.name = "send-data",
                                               .kinds = MBX_SENDS,
                                               .out = PROTO_ALWAYS,
                                               .moves = true,
                                               .lets_pass = true},
            [RNDV_READ %
                PROTO_STATES] = {.name = "read",
                                 .kinds = MBX_RECVS,
                                 .queue = PROTO_ACTIVE,
                                 .moves = true,
                                 .next = PROTO_NEXT(RNDV_READ_WAIT) | PROTO_NEXT(RNDV_CTS),
                                 .is_first = true},
            [RNDV_READ_WAIT %
                PROTO_STATES] = {.name = "read-wait",
                                 .kinds = MBX_RECVS,
                                 .moves = true,
                                 .next = PROTO_NEXT(RNDV_READ) | PROTO_NEXT(RNDV_CTS)},
            [RNDV_CTS % PROTO_STATES] = {.name = "cts",
                                         .kinds = MBX_RECVS,
                                         .out = PROTO_ALWAYS,
                                         .moves = true,
                                         .next = PROTO_NEXT(RNDV_WAIT_DATA),
                                         .is_first = true},
            [RNDV_WAIT_DATA % PROTO_STATES] =
                {.name = "wait-data", .kinds = MBX_RECVS, .moves = true, .awaits_peer = true},
        },
    .step = rndv_step,
    .work = rndv_read,
    .io_done = rndv_on_read,
    .reply = on_reply,
    .cancel = rndv_cancel,
    .peer_gone = rndv_peer_gone,
};

const struct module rndv_module = {
    .name = "rendezvous",
    .proto = &rndv_proto,
    .packets =
        (const struct packet_handler[]){
            {WIRE_CTS, rndv_reply}, {WIRE_DATA, on_data}, {WIRE_FIN, rndv_reply}, {0}},
};
