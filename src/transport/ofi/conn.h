/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn.h - a way to another endpoint over the network, from its making to the end: conn.c.
 *
 * A link is a list of parts; each belongs to the file of its name, which alone writes it.
 *
 * Invariants
 *   I1  by_id[link.id - 1] is the link; ids are never used twice
 *   I2  unauthenticated counts the links that are ANSWERING
 *   I3  a link has an error, or has died, or is lost, only if it is DEAD; of a DEAD one no packet of
 *       the core waits, nothing is moved, and nobody tries to connect to its peer
 *   I4  the peer of an OPEN link has a name
 */
#ifndef OFI_CONN_H
#define OFI_CONN_H

#include "transport/link_table.h"
#include "transport/ofi/cswap.h"
#include "transport/ofi/handshake.h"
#include "transport/ofi/keepalive.h"
#include "transport/ofi/packet.h"
#include "transport/ofi/rdma.h"
#include "transport/ofi/rx.h"
#include "transport/ofi/tcp_probe.h"
#include "transport/ofi/tx.h"

enum ofi_state {
    OFI_NEW,       /* nothing was sent */
    OFI_CALLING,   /* we have said HELLO */
    OFI_ANSWERING, /* the peer has said HELLO, and is not authenticated yet */
    OFI_OPEN,
    OFI_DEAD /* permanent: link.error */
};

struct ofi_link {
    struct link_member member; /* first: the core's link */
    fi_addr_t to;              /* the provider's */
    enum ofi_state state;
    int error;            /* DEAD */
    bool has_died;        /* DEAD: without a BYE */
    bool is_lost;         /* DEAD: it was never met, and is no more */
    bool is_self;         /* to our own endpoint: no packet travels */
    uint32_t id;          /* of this link, here */
    struct ofi_name ours; /* what the peer calls us */
    struct ofi_link_tx tx;
    struct ofi_link_rx rx;
    struct ofi_link_handshake handshake;
    struct ofi_link_keepalive keepalive;
    struct ofi_link_probe probe;
    struct ofi_link_rdma rdma;
};

struct ofi_conns {
    struct link_table links;
    struct ofi_link **by_id;
    uint32_t id_count, id_room;
    uint32_t unauthenticated; /* links that are ANSWERING */
};

void ofi_conns_init(struct ofi *ofi);
void ofi_conns_close(struct ofi *ofi);

/* May packets to this address go over this network?  0; -EINVAL no address of this transport;
 * -EHOSTUNREACH of another provider. */
int ofi_link_check_address(const struct ofi *ofi, const struct transport_address *address);

/* The link to address, made if there is none.  0; -ENOMEM, or as above. */
int ofi_link_get(struct ofi *ofi, const struct transport_address *address,
                 struct ofi_link **out);
void ofi_link_set(struct ofi_link *link, enum ofi_state state);

/* Nothing can be sent any more; error for who tries. */
void ofi_link_kill(struct ofi_link *link, int error, bool has_died);

/* The peer was never met, and is no more: nobody knows whether it has closed or died. */
void ofi_link_lose(struct ofi_link *link);

/* What the parts below tell of a link: ofi_upcalls. */
void ofi_link_broken(struct ofi_link *link);
void ofi_link_late(struct ofi_link *link);
void ofi_link_refused(struct ofi_link *link);

/* Packets that have arrived: ofi_upcalls.on_packet. */
void ofi_link_on_bye(struct ofi *ofi, struct ofi_link *link, const void *none);
void ofi_link_on_broken(struct ofi *ofi, struct ofi_link *link, const void *none);

#endif
