/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn.h - a link to another endpoint: conn.c.  net/net.h opens and ends it.
 *
 * A link is a list of parts; each part is written only by the file of the same name.
 *
 * Invariants
 *   I1  by_id[link.id - 1] is the link; ids are never used twice
 *   I2  for a DEAD link no packet of the core waits, no operation moves data, and its queue
 *       pairs are not connected
 *   I3  the queue pairs of an OPEN link are connected, except of a link to ourselves
 */
#ifndef IB_CONN_H
#define IB_CONN_H

#include "base/hash.h"
#include "transport/link_table.h"
#include "transport/net/net.h"
#include "transport/verbs/hca.h"
#include "transport/verbs/pair.h"
#include "transport/verbs/rma.h"
#include "transport/verbs/rx.h"
#include "transport/verbs/tx.h"
#include "transport/verbs/ud.h"

struct ib_link {
    struct link_member member; /* first: the core's link */
    struct net_link net;
    struct ib_link_ud ud;
    struct ib_link_pair pair;
    struct ib_link_tx tx;
    struct ib_link_rx rx;
    struct ib_link_rma rma;
    struct list in_failing;
    bool is_leaving; /* in_failing: its peer has sent BYE */
    uint64_t
        empties; /* in_failing: inlet.empties() at the failure; with failed_ns: at that time */
    uint64_t heard_ns; /* when tend_open() noticed that a packet had come; 0: not noticed yet */
    uint64_t asked_ns; /* when its adapter was last probed */
    uint64_t failed_ns; /* when its failed queue pairs had no requests left; 0: not yet */
};

struct ib_conns {
    struct link_table links;
    struct ib_link **by_id;
    uint32_t id_count, id_capacity;
    struct hash by_number; /* links, by queue pair number; nothing is removed */
    struct transport_verbs_inlet inlet;
    bool has_warned_layout; /* has warned that a peer's adapter compares other bits */
};

extern const struct net_ops ib_net_ops;

void ib_conns_init(struct ib *ib);
void ib_conns_close(struct ib *ib); /* the queue pairs are gone */

/* May packets to this address use this network?  0; -EINVAL not an address of this transport;
 * -EHOSTUNREACH an address of another network. */
int ib_link_check_address(const struct ib *ib, const struct transport_address *address);

/* Finds or makes the link to address.  0; -ENOMEM, or an error of the above. */
int ib_link_get(struct ib *ib, const struct transport_address *address, struct ib_link **out);

/* The link whose `in` or `out` queue pair has this number; or NULL. */
struct ib_link *ib_link_by_number(const struct ib *ib, uint32_t number);

/* The link's queue pair has failed: the link ends when earlier packets have been delivered. */
void ib_link_failed(struct ib_link *link, const char *why);
void ib_conns_end_failing(struct ib *ib);

/* The peer has sent BYE: the link ends after all that its adapter has answered. */
void ib_link_ends(struct ib_link *link);

/* The adapter is lost: all links end. */
void ib_conns_lose(struct ib *ib);

/* A packet has come from the peer. */
static inline void ib_link_heard(struct ib_link *link)
{
    link->heard_ns = 0;
}

/* As transport_ops.check and .check_address */
int ib_conns_check(struct link *link);
int ib_conns_check_address(const struct transport *t, const struct transport_address *address);

/* Checks the peers that something waits for. */
void ib_conns_tend(struct ib *ib);

#endif
