/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message.c - messages that came before their receive.
 *
 * A kept message owns a copy of its payload: small ones inside the object, larger
 * ones in memory of their own, with room for all fragments of an eager message.
 */
#include "core/core.h"

/* Bytes that a kept message needs behind payload. */
static size_t message_room(const struct arrival *arrival)
{
    return arrival->is_rts ? arrival->have : arrival->size;
}

struct message *message_keep(struct mbx_ep *ep, const struct arrival *arrival)
{
    size_t room = message_room(arrival);
    struct message *message = pool_take(&ep->messages);
    char *copy;

    if (message == NULL)
        return NULL;
    copy = room <= MESSAGE_INLINE ? message->storage : mem_alloc(room);
    if (copy == NULL) {
        pool_give(&ep->messages, message);
        return NULL;
    }
    if (arrival->have != 0)
        memcpy(copy, arrival->payload, arrival->have);
    message->arrival = *arrival;
    message->arrival.payload = copy;
    message->match.envelope = arrival->envelope;
    message->match.state = MATCH_IDLE;
    stats_kept(&ep->stats.unexpected_bytes_now, &ep->stats.unexpected_bytes_max,
               sizeof *message + (room <= MESSAGE_INLINE ? 0 : room));
    return message;
}

void message_drop(struct mbx_ep *ep, struct message *message)
{
    size_t room = message_room(&message->arrival);

    ep->stats.unexpected_bytes_now -= sizeof *message;
    if (message->arrival.payload != message->storage) {
        ep->stats.unexpected_bytes_now -= room;
        mem_free((char *)(uintptr_t)message->arrival.payload);
    }
    pool_give(&ep->messages, message);
}
