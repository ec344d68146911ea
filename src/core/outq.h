/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outq.h - sends packets to a peer, now or when there is space; see outq.c.  Part of core.h.
 */
#ifndef CORE_OUTQ_H
#define CORE_OUTQ_H

#include <stddef.h>
#include <stdint.h>

#include <matchbox/matchbox.h>

#include "base/list.h"
#include "transport/compose.h"
#include "transport/transport.h"
#include "wire/wire.h"

struct mbx_ep;
struct peer;
struct request;

/* A peer to which more FINs are owed gets no more credit: it does not read, and each message
 * that it sends may add another FIN. */
#define FINS_MOST 256

/* The small packets that are owed to a peer, in the order in which they are sent: struct
 * control of module.h. */
enum peer_owes {
    OWES_ANSWER = 1 << 0, /* the content is in receiver.c */
    OWES_CREDIT = 1 << 1,
    OWES_DEFER = 1 << 2, /* sent after the messages on out */
    OWES_RTR = 1 << 3,   /* the content is in receiver.c */
    OWES_PEEKED = 1 << 4,
    OWES_PEEK = 1 << 5,
    OWES_COMPARE = 1 << 6,  /* not a packet: the deferred sends are compared again */
    OWES_WITHDRAW = 1 << 7, /* the content is in withdraw.c */
};
#define CONTROLS 8

/* Part of a peer. */
struct peer_outq {
    struct list list; /* requests, by request.out */
    struct list busy; /* on ep_progress.busy */
    uint32_t leaving; /* messages on list whose first packet has not left */
    uint32_t fins;    /* FINs on list */
};

/* A packet whose parts are in separate memory; wire.h. */
struct outgoing {
    enum wire_type type;
    unsigned flags;                    /* enum wire_flags */
    const struct mbx_status *envelope; /* tag, data and context id; NULL: it has none */
    const void *body;
    size_t body_size; /* 0: the size for the type */
    const void *payload;
    size_t payload_size;
};

static inline struct wire_header outq_header(const struct outgoing *packet)
{
    const struct mbx_status none = {0}, *envelope = packet->envelope;

    return (struct wire_header){
        .type = (uint8_t)packet->type,
        .version = WIRE_VERSION,
        .flags = (uint16_t)packet->flags,
        .tag = envelope != NULL ? envelope->tag : none.tag,
        .data = envelope != NULL ? envelope->data : none.data,
        .context_id = envelope != NULL ? envelope->context_id : none.context_id,
    };
}

static inline struct transport_packet outq_parts(const struct outgoing *packet,
                                                 const struct wire_header *header)
{
    return (struct transport_packet){
        .header = header,
        .body = packet->body,
        .body_size = packet->body_size != 0 ? packet->body_size : wire_body_size(packet->type),
        .payload = packet->payload,
        .payload_size = packet->payload_size,
    };
}

/* As transport_ops.send. */
static inline int outq_send(struct link *link, const struct outgoing *packet)
{
    const struct wire_header header = outq_header(packet);
    const struct transport_packet parts = outq_parts(packet, &header);

    return link->transport->ops->send(link, &parts);
}

/* As transport_compose(). */
static inline int outq_compose(struct link *link, const struct outgoing *packet,
                               transport_fill_fn *fill, void *arg)
{
    const struct wire_header header = outq_header(packet);
    const struct transport_packet parts = outq_parts(packet, &header);

    return transport_compose(link, &parts, fill, arg);
}

/* Queues req after everything that already waits to be sent to its peer. */
void outq_push(struct mbx_ep *ep, struct peer *peer, struct request *req);
/* Sends one packet without a message, of this type and with this body.  As
 * transport_ops.send. */
int outq_notify(struct mbx_ep *ep, struct peer *peer, enum wire_type type, const void *body);
/* As outq_notify(), with flags, the envelope and data of status, and payload. */
int outq_notify_message(struct mbx_ep *ep, struct peer *peer, enum wire_type type,
                        unsigned flags, const struct mbx_status *status, const void *body,
                        const void *payload, size_t payload_size);
/* This is owed to the peer; it is sent from the next round on. */
void outq_owe(struct mbx_ep *ep, struct peer *peer, enum peer_owes what);
/* As outq_owe(), and tried at once. */
void outq_owe_now(struct mbx_ep *ep, struct peer *peer, enum peer_owes what);
/* The receive req has its message: sends a FIN to the sender, now or when there is space. */
void outq_owe_fin(struct mbx_ep *ep, struct request *req, uint64_t sender);
/* Sends the next packets of req. */
int outq_step(struct mbx_ep *ep, struct request *req);
/* Sends the packets that wait for this peer while there is space.  Returns their number. */
int outq_flush(struct mbx_ep *ep, struct peer *peer);

#endif
