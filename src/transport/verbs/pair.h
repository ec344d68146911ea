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
    uint32_t out_psn, in_psn; /* with which they begin to send */
    uint32_t inline_max;      /* of out */
    bool is_inlet;            /* in is the device's (verbs_inlet.h) */
    bool is_tagged;  /* messages are matched by the peer's adapter, and ours by our own */
    uint32_t number; /* tagged: what the peer calls us, the source in our tags */
};

/* Queue pairs that are not connected.  0; -errno. */
int ib_pair_make(struct ib_link *link);

/* What the peer has to know of them. */
void ib_pair_offer(const struct ib_link *link, struct net_offer *offer);

/* Connects them with those of an offer, and says how many packets the peer takes at a time.
 * 0; -EPROTO nobody offers that; -errno. */
int ib_pair_connect(struct ib_link *link, const struct net_offer *offer, uint32_t *window);

/* Nothing is sent or received any more; what was under way ends with an error. */
void ib_pair_fail(struct ib_link *link);
void ib_pair_destroy(struct ib_link *link);

/* `in` alone: the peer's adapter writes nothing from here on. */
void ib_pair_destroy_in(struct ib_link *link);

#endif
