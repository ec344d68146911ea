/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network.h - optional operations of a network transport: for use as a part of an endpoint that
 * also has other paths (mux.c), and for tools that describe it.
 *
 * A transport without these operations has no table.
 */
#ifndef TRANSPORT_NETWORK_H
#define TRANSPORT_NETWORK_H

#include "transport/transport.h"

struct transport_network {
    char provider[64], interface[64]; /* ofi: libfabric's names of provider and domain */
    char threading[16];               /* as in FI_THREAD_..., in lower case */
    uint32_t version;     /* of libfabric: the major version in the upper 16 bits; or 0 */
    uint64_t message_max; /* bytes */
    bool can_read, can_exchange;
};

struct transport_network_ops {
    /* Sets the endpoint's complete address, which handshakes carry; before the first link. */
    void (*rename)(struct transport *t, const struct transport_address *address);

    /* Has the network met a peer? */
    bool (*is_used)(const struct transport *t);

    /* begun: packets, reads and writes given to the network so far; ended: packets that came
     * from it, reads and writes that ended.  If the sums over all endpoints are equal and all
     * are flushed, nothing is under way. */
    void (*count)(const struct transport *t, uint64_t *begun, uint64_t *ended);

    /* May the owner sleep until the descriptor *fd is readable?  0 yes; 1 there is something to
     * poll; -EAGAIN the descriptor would not report everything: sleep only briefly. */
    int (*prepare)(struct transport *t, int *fd);

    /* Describes what an endpoint with this configuration would use.  0; otherwise as
     * transport_ops.open. */
    int (*describe)(const struct transport_config *config, struct transport_network *network);
};

#endif
