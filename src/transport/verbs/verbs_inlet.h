/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_inlet.h - what a matching device that receives in the place of an endpoint over verbs needs
 * of it: the adapter as the endpoint has opened it, and a place on which the peers' queue pairs sit.
 *
 *   transport          open ─> context, pd, channel
 *   device             makes a completion queue and a tag-matching receive queue of these
 *   transport          inlet ─> queue pairs for peers are made on that receive queue
 *
 * Declarations of libibverbs' types alone: who has no use for them needs not its header.
 */
#ifndef TRANSPORT_VERBS_INLET_H
#define TRANSPORT_VERBS_INLET_H

#include <stdbool.h>
#include <stdint.h>

struct ibv_context;
struct ibv_pd;
struct ibv_comp_channel;
struct ibv_cq;
struct ibv_srq;
struct ibv_qp;
struct transport;
struct link;

struct transport_verbs_parts {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* what is armed there ends a wait() of the endpoint */
    uint8_t port;
};

/* Where what peers send arrives. */
struct transport_verbs_inlet {
    struct ibv_srq *srq; /* NULL: the endpoint's own */
    struct ibv_cq *cq;   /* of what completes on srq, and on the send queues of its queue pairs,
                          * which are the device's: no entry of them is the endpoint's */
    /* The queue pairs are gone, the protection domain is not yet: both of these can be destroyed. */
    void (*closed)(void *arg);
    void *arg;
};

/* What t has opened.  False: it is no transport over verbs. */
bool transport_verbs_parts(struct transport *t, struct transport_verbs_parts *parts);

/* From now on `in` of each link is made there; before the first link.  0; -EBUSY there are links. */
int transport_verbs_set_inlet(struct transport *t, const struct transport_verbs_inlet *inlet);

/* The queue pairs of an open link, on which the device and the endpoint send to the peer.
 * False: it is none, or not open. */
bool transport_verbs_pairs(struct link *link, struct ibv_qp **out, struct ibv_qp **in);

/* The link whose `in` has this number.  NULL: there is none. */
struct link *transport_verbs_link_of(struct transport *t, uint32_t number);

#endif
