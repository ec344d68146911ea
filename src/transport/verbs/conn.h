/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn.h - a way to another endpoint: conn.c.  net/net.h opens and ends it.
 *
 * A link is a list of parts; each belongs to the file of its name, which alone writes it.
 *
 * Invariants
 *   I1  by_id[link.id - 1] is the link; ids are never used twice
 *   I2  of a DEAD link no packet of the core waits, nothing is moved, and its queue pairs are not
 *       connected
 *   I3  the queue pairs of an OPEN link, but one to ourselves, are connected
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
    bool is_leaving; /* in_failing: its peer has said BYE */
    uint64_t
        empties; /* in_failing: of the device in our place, when it was found; failed_ns: then */
    uint64_t heard_ns; /* when something came last, as tend() has seen; 0: since then */
    uint64_t asked_ns; /* when its adapter was last asked whether it is there */
    uint64_t
        failed_ns; /* when its queue pairs were found failed, and all theirs back; 0: not */
};

struct ib_conns {
    struct link_table links;
    struct ib_link **by_id;
    uint32_t id_count, id_capacity;
    struct hash by_number; /* of its queue pairs; nothing is removed */
    struct transport_verbs_inlet inlet;
    bool has_warned_layout; /* warned that a peer's adapter compares other bits */
};

extern const struct net_ops ib_net_ops;

void ib_conns_init(struct ib *ib);
void ib_conns_close(struct ib *ib); /* the queue pairs are gone */

/* May packets to this address go over this network?  0; -EINVAL no address of this transport;
 * -EHOSTUNREACH of another network. */
int ib_link_check_address(const struct ib *ib, const struct transport_address *address);

/* The link to address, made if there is none.  0; -ENOMEM, or as above. */
int ib_link_get(struct ib *ib, const struct transport_address *address, struct ib_link **out);

/* The link whose `in`, or `out`, has this number; NULL. */
struct ib_link *ib_link_by_number(const struct ib *ib, uint32_t number);

/* Its queue pair has failed: it ends when what had come before has been delivered. */
void ib_link_failed(struct ib_link *link, const char *why);
void ib_conns_end_failing(struct ib *ib);

/* The peer has said BYE: its link ends, behind what its adapter has answered. */
void ib_link_ends(struct ib_link *link);

/* The adapter is lost: all links end. */
void ib_conns_lose(struct ib *ib);

/* Something has come from the peer. */
static inline void ib_link_heard(struct ib_link *link)
{
    link->heard_ns = 0;
}

/* As transport_ops.check, and .check_address */
int ib_conns_check(struct link *link);
int ib_conns_check_address(const struct transport *t, const struct transport_address *address);

/* Looks after the peers for which something waits. */
void ib_conns_tend(struct ib *ib);

#endif
