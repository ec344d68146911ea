/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compose.h - an optional operation of a transport: the payload of a packet is written directly
 * to the memory from which it is sent, which saves a copy.
 *
 * A transport without this operation has no table.
 */
#ifndef TRANSPORT_COMPOSE_H
#define TRANSPORT_COMPOSE_H

#include <errno.h>

#include "transport/transport.h"

/* Writes at most size bytes to `to`, and returns how many; 0: there is nothing to send. */
typedef size_t transport_fill_fn(void *arg, void *to, size_t size);

struct transport_compose {
    /* Takes one packet as transport_ops.send does; `writes` writes its payload, at most
     * packet->payload_size bytes; packet->payload is ignored.  Besides the results of send():
     * -EAGAIN     full: writes() was not called
     * -ECANCELED  writes() has returned 0: nothing was sent */
    int (*send)(struct link *link, const struct transport_packet *packet,
                transport_fill_fn *writes, void *arg);
};

/* -ENOTSUP: the transport cannot do this, and writes() was not called. */
static inline int transport_compose(struct link *link, const struct transport_packet *packet,
                                    transport_fill_fn *writes, void *arg)
{
    const struct transport_compose *compose = link->transport->ops->compose;

    return compose != NULL ? compose->send(link, packet, writes, arg) : -ENOTSUP;
}

#endif
