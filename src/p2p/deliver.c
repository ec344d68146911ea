/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deliver.c - handles an incoming packet.
 *
 *   deliver_packet ── whole eager message ──> matched ──> recv_matched
 *       │                                        └──────> kept (message.c)
 *       └── anything else, checked ── begins a message ──> as above
 *                                  └─ another ──> its handler (mbx_ep.modules.packets)
 */
#include "base/usdt.h"
#include "p2p/credit.h"
#include "p2p/path.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "p2p/tracepoint.h"
#include "transport/bounce.h"

static const char beyond_window[] = "it is beyond the window of its sender";

/* The posted receive that such a message matches.  whole: the size of the packet, if it has the
 * whole message; otherwise 0.  NULL: the message has to wait, in *context, or in the context
 * for unknown ids if that is NULL. */
static inline struct request *deliver_match(struct mbx_ep *ep,
                                            const struct mbx_match_envelope *envelope,
                                            size_t whole, struct context **context)
{
    struct mbx_match_recv *recv;

    *context = context_known(ep, envelope->context_id);
    recv = likely(*context != NULL) ? mbx_match_find(&(*context)->match, envelope) : NULL;
    if (recv == NULL)
        return NULL;
    ep->stats.expected++;
    ep->stats.posted_now--;
    USDT(expected, envelope->context_id, envelope->source, envelope->tag,
         container_of(recv, struct request, match)->completion.request);
    tracepoint_arrive_whole(ep, envelope, container_of(recv, struct request, match), whole);
    if (unlikely(container_of(recv, struct request, match)->size >= ep->modules.watched_from))
        module_recv_left(ep, container_of(recv, struct request, match), RECV_MET, NULL);
    return container_of(recv, struct request, match);
}

int deliver_wait(struct mbx_ep *ep, struct context *context, struct message *message)
{
    int err = mbx_match_keep(&context->match, &message->match);

    if (unlikely(err < 0))
        return err;
    USDT(unexpected, message->match.envelope.context_id, message->match.envelope.source,
         message->match.envelope.tag, ep->stats.unexpected_now);
    ep->stats.unexpected++;
    stats_kept(&ep->stats.unexpected_now, &ep->stats.unexpected_max, 1);
    tracepoint_keep(ep, message);
    return 0;
}

/* Queues the message as unexpected.  As transport_events.deliver. */
static OUT_OF_LINE int deliver_keep(struct mbx_ep *ep, struct context *context,
                                    const struct arrival *arrival)
{
    struct peer *peer = peer_get(ep, arrival->envelope.source);
    struct message *message;

    if (unlikely(!credit_has_space(peer, credit_of(arrival)))) {
        progress_dropped(ep, beyond_window);
        return 0;
    }
    if (context == NULL)
        context = context_unknown(ep);
    message = context != NULL ? message_keep(ep, arrival) : NULL;
    if (unlikely(message == NULL))
        return -EAGAIN;
    if (unlikely(deliver_wait(ep, context, message) < 0)) {
        message_drop(ep, message);
        return -EAGAIN;
    }
    credit_keep(peer, credit_of(arrival));
    if (arrival->is_fragmented)
        eager_assemble(ep, arrival, message);
    if (unlikely(context_is_over(context, arrival->envelope.tag)))
        drop_over(ep, context, message);
    return 0;
}

/* Handles a message that has arrived. */
static int deliver_message(struct mbx_ep *ep, struct peer *peer, const struct arrival *arrival)
{
    struct context *context;
    struct request *req;

    if (unlikely(!credit_admits(peer))) {
        progress_dropped(ep, beyond_window);
        return 0;
    }
    if (unlikely(peer->deferrer != NULL))
        module_message_came(ep, peer);
    req = deliver_match(ep, &arrival->envelope,
                        arrival->rts == NULL && !arrival->is_fragmented
                            ? arrival->size + sizeof(struct wire_header)
                            : 0,
                        &context);
    if (req == NULL)
        return deliver_keep(ep, context, arrival);
    credit_freed(ep, peer, credit_of(arrival));
    if (arrival->rts != NULL || arrival->is_fragmented)
        eager_invite(ep, peer, arrival->size, arrival->rts == NULL);
    recv_matched(ep, req, arrival);
    return 0;
}

/* Makes *arrival of a packet that is or begins a message.  1; -EPROTO. */
static int deliver_begins(struct mbx_ep *ep, struct peer *peer,
                          const struct wire_packet *packet, struct arrival *arrival)
{
    *arrival = (struct arrival){
        .envelope = {packet->header.context_id, peer->number, packet->header.tag},
        .data = packet->header.data,
        .size = packet->payload_size,
        .payload = packet->payload,
        .have = packet->payload_size,
    };
    if (packet->header.type == WIRE_SYNC) {
        arrival->sender = packet->body.sync.sender;
    } else if (packet->header.type == WIRE_FIRST) {
        arrival->sender = packet->body.first.sender;
        arrival->size = packet->body.first.size;
        arrival->is_fragmented = true;
        if (arrival->size > WIRE_EAGER_MAX || peer_assembly(peer)->size != 0)
            return -EPROTO;
    } else if (packet->header.type == WIRE_RTS) {
        arrival->sender = packet->body.rts.sender;
        arrival->size = packet->body.rts.size;
        arrival->rts = &packet->body.rts;
        if (packet->header.flags & WIRE_SHORT_OF)
            credit_extra(ep, peer, false,
                         arrival->size > max_size(ep->limits.eager_max, EAGER_LIMIT_NEAR));
    }
    return 1;
}

/* Handles any packet that wire_check() has accepted.  0 done; 1 it is or begins a message,
 * *arrival; -EAGAIN no memory now; -EPROTO it is not valid in the state of its message. */
static int deliver_checked(struct mbx_ep *ep, struct peer *peer,
                           const struct wire_packet *packet, struct arrival *arrival)
{
    unsigned type = packet->header.type;

    if (type <= WIRE_FIRST || type == WIRE_RTS)
        return deliver_begins(ep, peer, packet, arrival);
    return ep->modules.packets[type] != NULL ? ep->modules.packets[type](ep, peer, packet)
                                             : -EPROTO;
}

/* Sets the payload of packet, if it is in a bounce buffer of its sender.  0; -EPROTO there is
 * no buffer with this number. */
static int deliver_find_buffer(const struct peer *peer, struct wire_packet *packet)
{
    if (likely(!(packet->header.flags & WIRE_IN_BUFFER)))
        return 0;
    packet->payload = transport_bounce_find(peer->link, packet->buffer, packet->payload_size);
    return packet->payload != NULL ? 0 : -EPROTO;
}

/* Gives the packet's bounce buffer back to the sender, unless the packet will be delivered
 * again (-EAGAIN). */
static void deliver_return_buffer(const struct peer *peer, const struct wire_packet *packet,
                                  int result)
{
    if (unlikely(packet->header.flags & WIRE_IN_BUFFER) && result != -EAGAIN)
        transport_bounce_release(peer->link, packet->buffer);
}

int deliver_open(struct mbx_ep *ep, uint32_t number, const void *bytes, size_t size,
                 struct wire_packet *storage, struct arrival *arrival)
{
    const char *reason = "it does not fit the state of its message";
    int result = wire_check(bytes, size, storage, &reason);

    if (likely(result == 0))
        result = deliver_find_buffer(peer_get(ep, number), storage);
    if (likely(result == 0)) {
        result = deliver_checked(ep, peer_get(ep, number), storage, arrival);
        if (result != 1)
            deliver_return_buffer(peer_get(ep, number), storage, result);
    }
    if (unlikely(result < 0) && result != -EAGAIN) {
        progress_dropped(ep, reason);
        return 0;
    }
    return result;
}

/* Handles any packet, valid or not.  As transport_events.deliver. */
static OUT_OF_LINE int deliver_check(struct mbx_ep *ep, uint32_t number, const void *bytes,
                                     size_t size)
{
    struct wire_packet packet;
    struct arrival arrival;
    int result = deliver_open(ep, number, bytes, size, &packet, &arrival);

    if (result != 1)
        return result;
    result = deliver_message(ep, peer_get(ep, number), &arrival);
    deliver_return_buffer(peer_get(ep, number), &packet, result);
    return result;
}

/* The arrival of a whole eager message in one packet. */
static inline struct arrival deliver_eager(const struct wire_header *header, uint32_t number,
                                           const void *bytes, size_t size)
{
    return (struct arrival){
        .envelope = {header->context_id, number, header->tag},
        .size = size - sizeof *header,
        .data = header->data,
        .payload = (const char *)bytes + sizeof *header,
        .have = size - sizeof *header,
    };
}

/* One packet has arrived.  As transport_events.deliver.
 *
 * On the short path, struct arrival is filled only where its use is known: then the compiler,
 * which inlines the matching and the following steps here, need not store it, nor test its
 * kind. */
FLATTEN int deliver_packet(void *arg, uint32_t number, const void *bytes, size_t size)
{
    struct mbx_ep *ep = arg;
    struct wire_header header;
    struct context *context;
    struct request *req;
    struct peer *peer;

    if (unlikely(!wire_is_eager(bytes, size, &header)))
        return deliver_check(ep, number, bytes, size);
    peer = peer_get(ep, number);
    if (unlikely(!credit_admits(peer))) {
        progress_dropped(ep, beyond_window);
        return 0;
    }
    if (unlikely(peer->deferrer != NULL))
        module_message_came(ep, peer);
    req = deliver_match(
        ep, &(const struct mbx_match_envelope){header.context_id, number, header.tag}, size,
        &context);
    if (likely(req != NULL)) {
        struct arrival arrival;

        credit_freed_eager(ep, peer, size - sizeof header);
        /* no call between here and its use */
        arrival = deliver_eager(&header, number, bytes, size);
        if (!recv_callback(ep, req, &arrival))
            recv_matched(ep, req, &arrival);
        return 0;
    } else {
        const struct arrival arrival = deliver_eager(&header, number, bytes, size);

        return deliver_keep(ep, context, &arrival);
    }
}
