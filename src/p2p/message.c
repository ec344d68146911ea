/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.c - unexpected messages.
 *
 *   short and eager      | match | data, size | sender, payload |    only in the pool
 *   RTS without payload  | match | data, RTS  | rts             |    only in the pool
 *   anything else        | match | data, LONG | more --> | arrival | rts | payload ... |
 *
 * A message that costs no payload credit uses only its slot in the pool, which its envelope
 * credit pays for.  Other messages (longer ones, fragmented ones with space for all fragments,
 * RTS with payload) have memory of their own, within the limits of credit.h.
 */
#include "base/copy.h"
#include "p2p/p2p.h"
#include "p2p/credit.h"

struct message_more {
    struct arrival
        arrival; /* first, for lib/inspect_root.c; payload and rts point to what follows */
    struct wire_rts rts;
    char payload[];
};

static bool arrival_is_short(const struct arrival *arrival)
{
    return arrival->size <= MESSAGE_INLINE && arrival->rts == NULL && !arrival->is_fragmented;
}

/* The bytes of its own memory, with space for all of an eager message. */
static size_t more_bytes(const struct arrival *arrival)
{
    return sizeof(struct message_more) + (arrival->rts != NULL ? arrival->have : arrival->size);
}

static_assert(sizeof(struct message_more) + 16 <= 192, "credit_bytes() has space for it");

static struct message_more *more_make(const struct arrival *arrival)
{
    struct message_more *more = mem_alloc(more_bytes(arrival));

    if (more == NULL)
        return NULL;
    more->arrival = *arrival;
    more->arrival.payload = more->payload;
    if (arrival->rts != NULL) {
        more->rts = *arrival->rts;
        more->arrival.rts = &more->rts;
    }
    if (arrival->have != 0)
        memcpy(more->payload, arrival->payload, arrival->have);
    return more;
}

struct message *message_keep(struct mbx_ep *ep, const struct arrival *arrival)
{
    struct message *message = pool_take(&ep->messages);
    size_t bytes = ep->messages.stride;

    if (unlikely(message == NULL))
        return message_missing(ep);
    message->match.envelope = arrival->envelope;
    message->match.state = MBX_MATCH_IDLE;
    if (likely(arrival_is_short(arrival))) {
        message->data = arrival->data;
        message->size = (uint32_t)arrival->size;
        message->sender = arrival->sender;
        copy_small(message->payload, arrival->payload, arrival->size);
    } else if (arrival->rts != NULL && arrival->have == 0) {
        message->data = arrival->data;
        message->size = MESSAGE_RTS;
        message->rts = *arrival->rts;
    } else {
        message->size = MESSAGE_LONG;
        message->more = more_make(arrival);
        if (message->more == NULL) {
            pool_give(&ep->messages, message);
            return message_missing(ep);
        }
        bytes += more_bytes(arrival);
    }
    if (stats_kept(&ep->stats.unexpected_bytes_now, &ep->stats.unexpected_bytes_max, bytes))
        credit_kept(ep);
    return message;
}

const struct arrival *message_arrival(const struct message *message, struct arrival *storage)
{
    if (unlikely(message->size == MESSAGE_LONG))
        return &message->more->arrival;
    *storage = (struct arrival){
        .envelope = message->match.envelope,
        .size = message->size,
        .data = message->data,
        .payload = message->payload,
        .sender = message->sender,
        .have = message->size,
    };
    if (message->size == MESSAGE_RTS) {
        storage->size = message->rts.size;
        storage->rts = &message->rts;
        storage->have = 0;
    }
    return storage;
}

void message_describe(const struct message *message, struct mbx_status *status)
{
    struct arrival storage;
    const struct arrival *arrival = message_arrival(message, &storage);

    *status = (struct mbx_status){
        .context_id = arrival->envelope.context_id,
        .source = arrival->envelope.source,
        .tag = arrival->envelope.tag,
        .data = arrival->data,
        .size = arrival->size,
    };
}

bool message_is_ready_long(const struct message *message, size_t size)
{
    const struct arrival *arrival;

    if (message->size == MESSAGE_RTS)
        return false;
    arrival = &message->more->arrival;
    return arrival->rts == NULL && arrival->have == arrival->size && arrival->size <= size &&
           arrival->sender == 0;
}

uint64_t message_credit(const struct message *message)
{
    return likely(message->size != MESSAGE_LONG) ? 0 : credit_of(&message->more->arrival);
}

void message_append(struct message *message, const void *payload, size_t size)
{
    struct message_more *more = message->more;

    assert(message->size == MESSAGE_LONG && size <= more->arrival.size - more->arrival.have);
    memcpy(more->payload + more->arrival.have, payload, size);
    more->arrival.have += size;
}

void message_drop(struct mbx_ep *ep, struct message *message)
{
    if (unlikely(message->size == MESSAGE_LONG)) {
        ep->stats.unexpected_bytes_now -= more_bytes(&message->more->arrival);
        mem_free(message->more);
    }
    message_drop_short(ep, message);
}
