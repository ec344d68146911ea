/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.h - the parts of a network endpoint; only for this folder.
 *
 *   send ─> buffer ─> link.queue ─> fi_send ──────────> their receive buffer
 *           (a copy, registered)        completion gives the buffer back
 *
 *   fi_recv: receive buffers, each for many packets ─> link by id and token ─> deliver
 *                                                       └ refused: stays in place, on
 *                                                         link.held, and so do later packets
 *
 * Allowed calls (each file may also call those below it):
 *
 *   ofi.c          opens, polls, waits, closes
 *   keepalive.c    checks silent peers
 *   conn.c         makes links, and cleans up after them
 *   tx.c  rx.c  rdma.c  cswap.c       send, receive, read and write, swap
 *   tcp_probe.c  domain.c  packet.c   a TCP connect as a test; libfabric's objects; formats
 *   provider.c  dl.c                  which provider; libfabric itself
 *
 * net/net.h, which opens and ends links, is shared with other transports.  It calls up through
 * struct net_ops (conn.c).
 */
#ifndef OFI_OFI_H
#define OFI_OFI_H

#include "transport/ofi/conn.h"

struct ofi {
    struct transport base;
    const struct transport_events *events;
    void *arg;
    struct net net;
    int bell; /* eventfd, for wake(); -1 if the owner waits for us */
    bool is_closing;
    struct ofi_domain domain;
    struct ofi_conns conns;
    struct ofi_tx tx;
    struct ofi_rx rx;
    struct ofi_rdma rdma;
    struct ofi_cswap cswap;
    struct ofi_keepalive keepalive;
};

extern const struct net_ops ofi_net_ops;

struct transport_network;

/* As transport_network_ops.describe: describe.c. */
int ofi_describe(const struct transport_config *config, struct transport_network *network);

/* Do the invariants hold, between calls from above and from the provider?  With MBX_CHECKS. */
bool ofi_is_valid(const struct ofi *ofi);
bool ofi_link_is_valid(const struct ofi_link *link);

static inline struct ofi *ofi_of(const struct transport *t)
{
    return container_of(t, struct ofi, base);
}

static inline struct ofi_link *ofi_link_of(struct link *link)
{
    return container_of(link, struct ofi_link, member.link);
}

static inline struct ofi_link *ofi_link_of_net(struct net_link *net)
{
    return container_of(net, struct ofi_link, net);
}

static inline struct ofi *ofi_of_link(const struct ofi_link *link)
{
    return ofi_of(link->member.link.transport);
}

#endif
