/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn.h - a link to another endpoint over the network: conn.c.  net/net.h opens and ends it.
 *
 * A link is a list of parts; each part is written only by the file of the same name.
 *
 * Invariants
 *   I1  by_id[link.id - 1] is the link; ids are never used twice
 *   I2  for a DEAD link no packet of the core waits, no operation moves data, and no probe
 *       connects to its peer
 */
#ifndef OFI_CONN_H
#define OFI_CONN_H

#include "transport/link_table.h"
#include "transport/ofi/cswap.h"
#include "transport/net/net.h"
#include "transport/ofi/keepalive.h"
#include "transport/net/packet.h"
#include "transport/ofi/rdma.h"
#include "transport/ofi/rx.h"
#include "transport/ofi/tcp_probe.h"
#include "transport/ofi/tx.h"

struct ofi_link {
    struct link_member member; /* first: the core's link */
    fi_addr_t to;              /* the provider's address of the peer */
    struct net_link net;
    struct ofi_link_tx tx;
    struct ofi_link_rx rx;
    struct ofi_link_keepalive keepalive;
    struct ofi_link_probe probe;
    struct ofi_link_rdma rdma;
};

struct ofi_conns {
    struct link_table links;
    struct ofi_link **by_id;
    uint32_t id_count, id_capacity;
};

void ofi_conns_init(struct ofi *ofi);
void ofi_conns_close(struct ofi *ofi);

/* May packets to this address use this network?  0; -EINVAL not an address of this transport;
 * -EHOSTUNREACH an address of another provider. */
int ofi_link_check_address(const struct ofi *ofi, const struct transport_address *address);

/* Finds or makes the link to address.  0; -ENOMEM, or an error of the above. */
int ofi_link_get(struct ofi *ofi, const struct transport_address *address,
                 struct ofi_link **out);

#endif
