/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.h - the parts of a network endpoint; never leaves this folder.
 *
 *   send ─> buffer ─> link.queue ─> fi_send ──────────> their receive buffer
 *           (a copy, registered)        completion gives the buffer back
 *
 *   fi_recv: receive buffers, each for many packets ─> link by id and token ─> deliver
 *                                                       └ refused: stays where it lies,
 *                                                         link.held, and so does what follows
 *
 * Who may call whom (each also everything below it):
 *
 *   ofi.c          opens, polls, waits, closes
 *   keepalive.c    looks for peers that are silent
 *   conn.c         makes links, and clears up behind them
 *   tx.c  rx.c  rdma.c  cswap.c       send, receive, read and write, swap
 *   tcp_probe.c  domain.c  packet.c   a TCP connect as a test; libfabric's objects; formats
 *   provider.c  dl.c                  which provider; libfabric itself
 *
 * How links are opened, and end, is shared with other transports: net/net.h.  What that has to
 * tell goes up through struct net_ops (conn.c).
 */
#ifndef OFI_OFI_H
#define OFI_OFI_H

#include "transport/ofi/conn.h"

struct ofi {
    struct transport base;
    const struct transport_events *events;
    void *arg;
    struct net net;
    int bell; /* eventfd, for wake(); -1 if somebody else waits for us */
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

/* Do the invariants hold?  Between calls from above and from the provider.  With MBX_CHECKS. */
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
