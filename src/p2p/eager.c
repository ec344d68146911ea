/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eager.c - the eager protocol: all data is sent at once.
 *
 *   sender                                    receiver
 *   one packet:   EAGER or SYNC  ─────────>   match, copy, complete
 *   longer:       FIRST          ─────────>   match, copy
 *                 MORE ...       ─────────>   copy ..., complete
 *   synchronous:                 <─────────   FIN, when matched and complete
 *   in buffers:   FIRST, MORE ... ────────>   match, copy; copy out of the sender's bounce buffers
 *
 * The fragments of a message follow each other on the FIFO path of the pair, and the first
 * packet of the next message comes after the last of them.  So the receiver needs one struct
 * assembly per peer, not a table.
 *
 * For a peer that allows bounce buffers (transport/bounce.h), they carry the data after the
 * first packet of a message of more than PATH_PACKETS_MAX bytes (for a far peer: of each
 * message of several packets): the sender copies it into buffers in its call, without waiting.
 * The buffers are used in rotation, 16 or as many as the receiver has memory for, so their
 * lines have left the receiver's first caches since it last read them; the lines of a short
 * ring have not (docs/decisions/0037).  Buffers also carry a message that has waited for space
 * in the ring, after a first packet that takes little of it (docs/decisions/0038), and a long
 * one, if there are buffers for all of it (docs/decisions/0040).  If no buffer is free, or
 * there is no space for the packet that names it, the rest goes through the ring.
 *
 * Invariants
 *   I1  assembly.offset < assembly.size, or nothing is being assembled
 *   I2  assembly.message or assembly.request, as has_request says, is set while I1's first
 *       half holds, and none otherwise
 */
#include "base/check.h"
#include "base/clock.h"
#include "base/copy.h"
#include "p2p/p2p.h"
#include "p2p/path.h"
#include "core/core.h"
#include "transport/bounce.h"

/* The payload in the first packet of a message that has waited for space in the ring: it should
 * leave space for others, and while the receiver has other messages to copy, overlapping its
 * copy with the next one gains nothing.  Also for a message to a far peer, where a line of a
 * bounce buffer moves as fast as one of the ring. */
#define BUFFERS_FIRST ((size_t)CACHE_LINE)

static inline enum mbx_protocol eager_protocol(const struct mbx_ep *ep, uint64_t size,
                                               bool is_fragmented)
{
    return is_fragmented ? MBX_BOUNCE : path_packet(ep, size);
}

static void eager_count(uint64_t *messages, uint64_t *bytes, enum mbx_protocol protocol,
                        uint64_t size)
{
    messages[protocol]++;
    bytes[protocol] += size;
}

inline void eager_count_received(struct mbx_ep *ep, uint64_t size, bool is_fragmented)
{
    eager_count(ep->stats.received, ep->stats.received_bytes,
                eager_protocol(ep, size, is_fragmented), size);
}

static inline void eager_sent(struct mbx_ep *ep, size_t size)
{
    eager_count(ep->stats.sent, ep->stats.sent_bytes, path_packet(ep, size), size);
}

/* Sends a whole message as one packet; sender is 0 if no FIN is needed.  As
 * transport_ops.send. */
int eager_packet(struct mbx_ep *ep, struct peer *peer, uint32_t context_id, uint64_t tag,
                 uint64_t data, uint64_t sender, const void *buf, size_t size)
{
    const struct wire_header header = {
        .what = wire_what(sender != 0 ? WIRE_SYNC : WIRE_EAGER),
        .tag = tag,
        .data = data,
        .context_id = context_id,
    };
    const struct transport_packet packet = {
        .header = &header,
        .body = sender != 0 ? &sender : NULL,
        .body_size = sender != 0 ? sizeof(struct wire_sync) : 0,
        .payload = buf,
        .payload_size = size,
    };
    int err = peer->link->transport->ops->send(peer->link, &packet);

    if (likely(err == 0))
        eager_sent(ep, size);
    return err;
}

int eager_send(struct mbx_ep *ep, struct peer *peer, uint32_t context_id, uint64_t tag,
               uint64_t data, const void *buf, size_t size)
{
    const struct transport_ops *ops = peer->link->transport->ops;
    int err;

    if (unlikely(ops->send_eager == NULL))
        return eager_packet(ep, peer, context_id, tag, data, 0, buf, size);
    err = ops->send_eager(peer->link, context_id, tag, data, buf, size);
    if (likely(err == 0))
        eager_sent(ep, size);
    return err;
}

int eager_compose(struct mbx_ep *ep, struct peer *peer, const struct mbx_status *status,
                  struct pieces *pieces)
{
    const struct outgoing packet = {
        .type = WIRE_EAGER, .envelope = status, .payload_size = status->size};
    int err = outq_compose(peer->link, &packet, pieces_fill_all, pieces);

    if (err == 0)
        eager_sent(ep, status->size);
    return err;
}

int eager_in_buffer(struct mbx_ep *ep, struct peer *peer, const struct mbx_status *status,
                    struct pieces *pieces)
{
    struct wire_buffer in = {.size = status->size};
    const struct outgoing packet = {.type = WIRE_EAGER,
                                    .flags = WIRE_IN_BUFFER,
                                    .envelope = status,
                                    .payload = &in,
                                    .payload_size = sizeof in};
    int err;

    if (!pieces_take_buffer(pieces, peer->link, status->size))
        return pieces->error != 0 ? -ECANCELED : -EAGAIN;
    if (pieces->to != status->size)
        return -EAGAIN;
    in.buffer = pieces->buffer;
    err = outq_send(peer->link, &packet);
    if (err == 0) {
        ep->stats.buffers++;
        eager_sent(ep, status->size);
        pieces_buffer_sent(pieces);
    }
    return err;
}

/* The bytes of the next packet, which has this capacity.  The last two packets have equal
 * sizes: while the receiver copies the one, the other is on its way.  After a full packet, a
 * short one takes as long as a half packet does. */
static size_t eager_fragment_size(size_t capacity, size_t left)
{
    if (left <= capacity || left / 2 >= capacity)
        return min_size(capacity, left);
    return min_size(capacity, (left / 2 + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
}

/* Sends a fragment to peer, and measures its copy.  As transport_ops.send. */
static OUT_OF_LINE int eager_timed(struct peer *peer, const struct outgoing *packet)
{
    uint64_t start = clock_now();
    int err = outq_send(peer->link, packet);

    if (err == 0)
        path_measured(peer, packet->payload_size, clock_now() - start);
    return err;
}

/* Sends the next fragment of req. */
static int eager_fragment(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);
    bool is_first = req->done == 0, is_timed;
    bool sync = req->flags & REQUEST_SYNC;
    const struct wire_first first = {.sender = sync ? req->completion.request : 0,
                                     .size = req->size};
    const struct wire_more more = {.offset = req->done};
    struct outgoing packet = {
        .type = is_first ? WIRE_FIRST : WIRE_MORE,
        .flags = is_first && sync ? WIRE_WANTS_FIN : 0,
        .envelope = is_first ? &req->completion.status : NULL,
        .body = is_first ? (const void *)&first : (const void *)&more,
        .body_size = is_first ? sizeof first : sizeof more,
        .payload = req->buf + req->done,
    };
    int err;

    /* The endpoint's limit, which this message exceeded, and not the limit of the link's
     * transport, which may differ. */
    packet.payload_size = eager_fragment_size(ep->net.transport->limits.packet_max -
                                                  sizeof(struct wire_header) - packet.body_size,
                                              req->size - req->done);
    is_timed = is_first && path_is_measured(ep, peer);
    if (is_first)
        path_left(peer);
    if (is_timed) {
        err = eager_timed(peer, &packet);
    } else {
        if (is_first && path_is_short_first(ep, peer, req->size, list_is_linked(&req->out)))
            packet.payload_size = BUFFERS_FIRST;
        err = outq_send(peer->link, &packet);
    }
    if (err == 0)
        req->done += packet.payload_size;
    return err;
}

/* Sends as many fragments as there is space for.  0 all of them. */
static int eager_fragments(struct mbx_ep *ep, struct request *req)
{
    int err;

    while ((err = eager_fragment(ep, req)) == 0 && req->done < req->size)
        ;
    return err;
}

/* Sends the next fragment of req in a bounce buffer.  -ENOBUFS there is no buffer; otherwise as
 * transport_ops.send. */
static int eager_fragment_in_buffer(struct mbx_ep *ep, struct request *req)
{
    struct link *link = peer_get(ep, req->peer)->link;
    struct wire_more more = {.offset = req->done};
    struct wire_buffer in;
    const struct outgoing packet = {.type = WIRE_MORE,
                                    .flags = WIRE_IN_BUFFER,
                                    .body = &more,
                                    .payload = &in,
                                    .payload_size = sizeof in};
    uint32_t buffer;
    size_t capacity;
    void *place =
        transport_bounce_take_among(link, transport_bounce_rotation(link), &buffer, &capacity);
    int err;

    if (place == NULL)
        return -ENOBUFS;
    in = (struct wire_buffer){buffer, min_size(capacity, req->size - req->done)};
    memcpy(place, req->buf + req->done, in.size);
    err = outq_send(link, &packet);
    if (err != 0) {
        transport_bounce_untake(link, buffer);
        return err;
    }
    ep->stats.buffers++;
    req->done += in.size;
    return 0;
}

/* As eager_fragments(), for a message of which nothing has left.  If there is no space, no data
 * is copied into a buffer a second time: the message then goes through the ring. */
static int eager_begin(struct mbx_ep *ep, struct request *req)
{
    int err;

    if (!path_uses_buffers(ep, peer_get(ep, req->peer), req->size))
        return eager_fragments(ep, req);
    err = eager_fragment(ep, req);
    while (err == 0 && req->done < req->size)
        err = eager_fragment_in_buffer(ep, req);
    return err == -ENOBUFS ? eager_fragments(ep, req) : err;
}

/* Sends as much of req as possible.  0 its last packet has left. */
static int eager_step(struct mbx_ep *ep, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    bool sync = req->flags & REQUEST_SYNC;
    int err;

    if (req->size + (sync ? sizeof(struct wire_sync) : 0) <= ep->limits.short_max) {
        err =
            eager_packet(ep, peer_get(ep, req->peer), status->context_id, status->tag,
                         status->data, sync ? req->completion.request : 0, req->buf, req->size);
    } else {
        err = req->done == 0 ? eager_begin(ep, req) : eager_fragments(ep, req);
        if (err == 0)
            eager_count(ep->stats.sent, ep->stats.sent_bytes, MBX_BOUNCE, req->size);
    }
    if (err < 0)
        return err;
    if (sync)
        proto_move(ep, req, EAGER_WAIT_FIN);
    else
        request_complete(ep, req, 0);
    return 0;
}

/* The whole message of req has been copied, so all its fragments have left the sender. */
static void eager_done(struct mbx_ep *ep, struct request *req)
{
    if (unlikely(req->remote.request != 0))
        outq_owe_fin(ep, req, req->remote.request);
    req->completion.received = req->total;
    request_complete(ep, req, req->completion.error);
}

/* eager_done() for a message that is here completely.  It uses its arguments, so that no value
 * that was written before the copy is read after it. */
static inline void eager_done_at_once(struct mbx_ep *ep, struct request *req, uint64_t sender,
                                      uint64_t total, int error)
{
    if (unlikely(sender != 0))
        outq_owe_fin(ep, req, sender);
    req->completion.received = total;
    request_complete(ep, req, error);
}

static_assert(WIRE_EAGER_MAX < 1 << 30, "the bits of assembly.size");

void eager_invite(struct mbx_ep *ep, struct peer *peer, size_t size, bool is_eager)
{
    if (!path_uses_buffers(ep, peer, size) || size > ep->limits.buffers_max)
        return;
    path_came(ep, peer, size, is_eager);
    credit_allow_buffers(ep, peer);
}

/* The rest of the message that req has matched will come in fragments. */
static OUT_OF_LINE void eager_await(struct mbx_ep *ep, struct request *req,
                                    const struct arrival *arrival)
{
    proto_move(ep, req, EAGER_ASSEMBLE);
    *peer_assembly(peer_get(ep, req->peer)) = (struct assembly){
        .request = req,
        .size = (uint32_t)arrival->size,
        .offset = (uint32_t)arrival->have,
        .has_request = true,
    };
}

/* The available part of the matched eager message is in the buffer of req; total: its
 * req->total. */
static inline void eager_received(struct mbx_ep *ep, struct request *req,
                                  const struct arrival *arrival, uint64_t total, int error)
{
    size_t size = arrival->size, have = arrival->have;

    eager_count_received(ep, size, arrival->is_fragmented);
    if (likely(have == size)) {
        eager_done_at_once(ep, req, arrival->sender, total, error);
    } else {
        req->remote.request = arrival->sender;
        eager_await(ep, req, arrival);
    }
}

/* req has matched an eager message, of which arrival->have bytes are here. */
void eager_receive(struct mbx_ep *ep, struct request *req, const struct arrival *arrival)
{
    uint64_t total = req->total;
    int error = req->completion.error;

    copy_bytes(req->buf, arrival->payload, min_size(arrival->have, total));
    eager_received(ep, req, arrival, total, error);
}

OUT_OF_LINE void eager_receive_pieces(struct mbx_ep *ep, struct request *req,
                                      const struct arrival *arrival)
{
    if (arrival->is_fragmented || arrival->size > PIECES_PACKET_MAX) /* so that the next message
                                                                        can come in a buffer */
        credit_allow_buffers(ep, peer_get(ep, req->peer));
    pieces_unpack(req->pieces, arrival->payload, min_size(arrival->have, req->total));
    eager_received(ep, req, arrival, req->total, req->completion.error);
}

void eager_assemble(struct mbx_ep *ep, const struct arrival *arrival, struct message *message)
{
    struct peer *peer = peer_get(ep, arrival->envelope.source);

    transport_bounce_allow(peer->link, true);
    *peer_assembly(peer) = (struct assembly){
        .message = message,
        .size = (uint32_t)arrival->size,
        .offset = (uint32_t)arrival->have,
    };
}

/* Copies the part of a fragment that fits into its receive. */
static void eager_more_request(struct request *req, uint64_t offset, const void *payload,
                               size_t size)
{
    if (offset < req->total)
        request_put(req, offset, payload, min_size(size, req->total - offset));
}

void eager_await_end(struct mbx_ep *ep, struct request *req)
{
    proto_move(ep, req, EAGER_ASSEMBLE);
    *peer_assembly(peer_get(ep, req->peer)) = (struct assembly){
        .request = req,
        .size = (uint32_t)min_size(req->completion.status.size, WIRE_EAGER_MAX),
        .has_request = true,
        .is_lost = true,
    };
}

/* A fragment of a message whose beginning was lost with a device that is gone. */
static OUT_OF_LINE int eager_more_lost(struct mbx_ep *ep, struct assembly *assembly,
                                       uint64_t offset, uint64_t size)
{
    uint64_t end = offset + size;
    struct request *req = assembly->request;

    if (end > assembly->size)
        return -EPROTO;
    if (end < assembly->size)
        return 0;
    *assembly = (struct assembly){.size = 0};
    eager_done(ep, req);
    return 0;
}

static struct request *assembly_request(const struct assembly *assembly)
{
    return assembly->has_request ? assembly->request : NULL;
}

/* A further fragment has arrived. */
static int on_more(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const uint64_t offset = packet->body.more.offset, size = packet->payload_size;
    struct assembly *assembly = peer_assembly(peer);
    struct request *req = assembly_request(assembly);

    if (unlikely(assembly->is_lost))
        return eager_more_lost(ep, assembly, offset, size);
    if (offset != assembly->offset || size > assembly->size - assembly->offset)
        return -EPROTO;
    if (req != NULL)
        eager_more_request(req, offset, packet->payload, size);
    else
        message_append(assembly->message, packet->payload, size);
    assembly->offset += (uint32_t)size;
    if (assembly->offset < assembly->size)
        return 0;
    *assembly = (struct assembly){.size = 0};
    if (req != NULL)
        eager_done(ep, req);
    return 0;
}

/* ---- as a protocol ---- */

static int eager_reply(struct mbx_ep *ep, struct peer *peer, struct request *req,
                       const struct wire_packet *packet)
{
    (void)peer;
    if (req->state != EAGER_WAIT_FIN || packet->header.type != WIRE_FIN)
        return -EPROTO;
    request_complete(ep, req, 0);
    return 0;
}

static void eager_peer_gone(struct mbx_ep *ep, struct peer *peer, struct request *req,
                            int error)
{
    if (req->state != EAGER_ASSEMBLE) {
        request_complete(ep, req, error);
        return;
    }
    if (!peer_assembly(peer)->is_lost)
        req->done = min_size(peer_assembly(peer)->offset, req->total);
    *peer_assembly(peer) = (struct assembly){.size = 0};
    request_lost(ep, req, error);
}

/* A send that is not synchronous is complete as soon as it has left. */
static int eager_cancel(struct mbx_ep *ep, struct request *req)
{
    return req->flags & REQUEST_SYNC ? withdraw_ask(ep, req) : -EALREADY;
}

static const struct proto eager_proto = {
    .id = PROTO_EAGER,
    .name = "eager",
    .states =
        {
            [EAGER_SENDING % PROTO_STATES] = {.name = "sending",
                                              .kinds = MBX_SENDS,
                                              .out = PROTO_ALWAYS,
                                              .next = PROTO_NEXT(EAGER_WAIT_FIN),
                                              .is_first = true},
            [EAGER_WAIT_FIN % PROTO_STATES] =
                {.name = "wait-fin", .kinds = MBX_SENDS, .is_first = true, .awaits_peer = true},
            [EAGER_ASSEMBLE % PROTO_STATES] =
                {.name = "assemble", .kinds = MBX_RECVS, .is_first = true, .awaits_peer = true},
        },
    .step = eager_step,
    .reply = eager_reply,
    .cancel = eager_cancel,
    .peer_gone = eager_peer_gone,
};

/* Is a message of this peer incomplete? */
static bool eager_on_refers(struct mbx_ep *ep, const struct peer *peer)
{
    (void)ep;
    return peer_assembly(peer)->size != 0;
}

const struct module eager_module = {
    .name = "eager",
    .proto = &eager_proto,
    .packets = (const struct packet_handler[]){{WIRE_MORE, on_more}, {0}},
    .peer_refers = eager_on_refers,
    .is_valid = MBX_CHECKS ? eager_is_valid : NULL,
};
