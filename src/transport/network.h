/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network.h - what a transport over a network does besides, as a part of an endpoint that has other
 * ways, too (mux.c), and for people who ask what there is.
 *
 * A transport without these operations has no table.
 */
#ifndef TRANSPORT_NETWORK_H
#define TRANSPORT_NETWORK_H

#include "transport/transport.h"

struct transport_network {
    char provider[64], interface[64]; /* ofi: libfabric's names of it and of its domain */
    char threading[16];               /* as in FI_THREAD_..., in small letters */
    uint32_t version;     /* of libfabric: 16 bits the number before the point; or 0 */
    uint64_t message_max; /* bytes */
    bool can_read, can_exchange;
};

struct transport_network_ops {
    /* The endpoint's whole address, which handshakes name; before the first link. */
    void (*rename)(struct transport *t, const struct transport_address *address);

    /* Has it met anybody? */
    bool (*is_used)(const struct transport *t);

    /* What it has given to the network so far, packets, reads and writes; and packets that came
     * from it, reads and writes that ended.  Where the sums of all endpoints are equal and all are
     * flushed, nothing is under way. */
    void (*count)(const struct transport *t, uint64_t *begun, uint64_t *ended);

    /* May the owner sleep until the descriptor *fd is readable?  0 yes; 1 there is something to
     * poll; -EAGAIN nobody would tell: it may sleep a moment. */
    int (*prepare)(struct transport *t, int *fd);

    /* What an endpoint with this configuration would use.  0; otherwise as transport_ops.open. */
    int (*describe)(const struct transport_config *config, struct transport_network *network);
};

#endif
