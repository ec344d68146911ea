/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.c - messages that came before their receive.
 *
 *   short and eager      | match | data, size | payload |           in the pool, alone
 *   anything else        | match | data, size | more --> | arrival | rts | payload ... |
 *
 * A flood of short messages is what hurts, so those cost nothing but their place in the
 * pool.  The others (longer ones, fragmented ones with room for all fragments, those that
 * want a FIN, and rendezvous) have memory of their own.
 */
#include "base/copy.h"
#include "core/core.h"

/* size of a message that has more. */
#define MESSAGE_LONG UINT32_MAX

struct message_more {
    struct arrival arrival; /* payload and rts point to what follows */
    struct wire_rts rts;
    char payload[];
};

static bool arrival_is_short(const struct arrival *arrival)
{
    return arrival->size <= MESSAGE_INLINE && arrival->rts == NULL && arrival->sender == 0 &&
           !arrival->is_fragmented;
}

/* Bytes of memory of its own: with room for all of an eager message. */
static size_t more_bytes(const struct arrival *arrival)
{
    return sizeof(struct message_more) + (arrival->rts != NULL ? arrival->have : arrival->size);
}

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
        return NULL;
    message->match.envelope = arrival->envelope;
    message->match.state = MATCH_IDLE;
    if (likely(arrival_is_short(arrival))) {
        message->data = arrival->data;
        message->size = (uint32_t)arrival->size;
        copy_small(message->payload, arrival->payload, arrival->size);
    } else {
        message->size = MESSAGE_LONG;
        message->more = more_make(arrival);
        if (message->more == NULL) {
            pool_give(&ep->messages, message);
            return NULL;
        }
        bytes += more_bytes(arrival);
    }
    stats_kept(&ep->stats.unexpected_bytes_now, &ep->stats.unexpected_bytes_max, bytes);
    return message;
}

const struct arrival *message_arrival(const struct message *message, struct arrival *room)
{
    if (unlikely(message->size == MESSAGE_LONG))
        return &message->more->arrival;
    *room = (struct arrival){
        .envelope = message->match.envelope,
        .size = message->size,
        .data = message->data,
        .payload = message->payload,
        .have = message->size,
    };
    return room;
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
    ep->stats.unexpected_bytes_now -= ep->messages.stride;
    if (unlikely(message->size == MESSAGE_LONG)) {
        ep->stats.unexpected_bytes_now -= more_bytes(&message->more->arrival);
        mem_free(message->more);
    }
    pool_give(&ep->messages, message);
}
