/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.h - the two queue pairs of a link: pair.c.
 */
#ifndef IB_PAIR_H
#define IB_PAIR_H

#include <infiniband/verbs.h>

#include "transport/net/packet.h"
#include "transport/verbs/verbs_inlet.h"

struct ib;
struct ib_link;

enum ib_pair_state { IB_PAIR_NONE, IB_PAIR_MADE, IB_PAIR_CONNECTED, IB_PAIR_FAILED };

struct ib_link_pair {
    enum ib_pair_state state;
    struct ibv_qp *out, *in;
    uint32_t out_psn, in_psn; /* their first packet sequence numbers */
    uint32_t inline_max;      /* of out */
    bool is_inlet;            /* `in` belongs to the device (verbs_inlet.h) */
    bool is_tagged;           /* both sides' adapters match the messages that arrive */
    uint32_t number;          /* tagged: the peer's number for us, the source in our tags */
};

/* Makes queue pairs that are not connected.  0; -errno. */
int ib_pair_make(struct ib_link *link);

/* Writes what the peer must know of the queue pairs. */
void ib_pair_offer(const struct ib_link *link, struct net_offer *offer);

/* Connects our queue pairs with the offered ones; *window: how many packets the peer takes at a
 * time.  0; -EPROTO the offer is invalid; -errno. */
int ib_pair_connect(struct ib_link *link, const struct net_offer *offer, uint32_t *window);

/* Nothing is sent or received any more; pending requests end with an error. */
void ib_pair_fail(struct ib_link *link);
void ib_pair_destroy(struct ib_link *link);

/* Destroys only `in`: the peer's adapter writes nothing from here on. */
void ib_pair_destroy_in(struct ib_link *link);

#endif
