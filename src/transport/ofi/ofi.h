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
 *   handshake.c    opens links
 *   conn.c         makes and ends links
 *   tx.c  rx.c  rdma.c  cswap.c       send, receive, read and write, swap
 *   tcp_probe.c  domain.c  packet.c   a TCP connect as a test; libfabric's objects; formats
 *   provider.c  dl.c                  which provider; libfabric itself
 *
 * What tx, rx and rdma have to tell of a link goes up through struct ofi_upcalls.
 */
#ifndef OFI_OFI_H
#define OFI_OFI_H

#include "transport/ofi/conn.h"

/* What the lower parts call: set at open. */
struct ofi_upcalls {
    /* tx: writes what a control packet says behind its prefix, ofi_body_size(kind) bytes.
     * NULL: nothing. */
    void (*fill[OFI_KINDS])(struct ofi_link *link, unsigned char *body);

    /* rx: a control packet has come, with a copy of its body.  NULL: nobody wants it. */
    void (*on_packet[OFI_KINDS])(struct ofi *ofi, struct ofi_link *link, const void *body);

    /* tx, rdma: somebody wants to reach the peer of a NEW link. */
    void (*wanted)(struct ofi_link *link);

    /* tx: a packet of this kind, of a link that is not DEAD, could not be sent. */
    void (*not_sent)(struct ofi_link *link, enum ofi_kind kind, int error);

    /* rx: packets of an open link were lost on the way. */
    void (*broken)(struct ofi_link *link);

    /* rx: the peer has sent something behind the end of the link, or before its beginning. */
    void (*late)(struct ofi_link *link);

    /* rx: the core does not want the peer. */
    void (*refused)(struct ofi_link *link);
};

struct ofi {
    struct transport base;
    const struct transport_events *events;
    void *arg;
    const struct ofi_upcalls *upcalls;
    struct transport_address self;
    uint8_t key[TRANSPORT_KEY_SIZE];
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

extern const struct ofi_upcalls ofi_upcalls; /* those of an endpoint */

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

static inline struct ofi *ofi_of_link(const struct ofi_link *link)
{
    return ofi_of(link->member.link.transport);
}

#endif
