/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_inlet.h - a matching device that receives instead of an endpoint over verbs.
 *
 *   transport          open ─> context, pd, channel
 *   device             makes a completion queue and a tag-matching receive queue with these
 *   inlet              the device makes `in` of each link, and receives what arrives there
 *
 *   device ── matched a message ────────> transport_verbs_matched()
 *          └─ a packet in its buffer ───> transport_verbs_arrived(): credit, BYE; true: it is for
 *                                         the core ─ deliver ─ transport_verbs_read()
 *
 * A link is *tagged* if both sides have such a device: then messages on it have the format of
 * verbs_frame.h.  On any other link, all of the peer's messages bypass the device's matching.
 *
 * Declares types of libibverbs only by name, so that this file does not need libibverbs'
 * header.
 */
#ifndef TRANSPORT_VERBS_INLET_H
#define TRANSPORT_VERBS_INLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/verbs/verbs_frame.h"

struct ibv_context;
struct ibv_pd;
struct ibv_comp_channel;
struct ibv_cq;
struct ibv_qp;
struct verbs_regions;
struct transport;
struct link;

struct transport_verbs_parts {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct verbs_regions *regions;    /* of pd */
    struct ibv_comp_channel *channel; /* events on it end a wait() of the endpoint */
};

struct transport_verbs_inlet {
    struct verbs_layout layout; /* the layout of tagged links */
    uint32_t buffers;           /* packets that may be unread in the device */
    struct ibv_cq *cq;          /* the device's completion queue, with events on the channel */
    /* Makes the queue pair, in RESET, by which this peer's packets come; the device owns the
     * queue pair, and its send queue.  0; -ERANGE there is none for this number: the endpoint
     * receives; -errno. */
    int (*attach)(void *arg, uint32_t peer, struct ibv_qp **qp);
    /* The peer is gone: destroys the queue pair. */
    void (*detach)(void *arg, uint32_t peer);
    /* How often the device has found its completion queue empty. */
    uint64_t (*empties)(void *arg);
    void *arg;
};

/* The objects that t has opened.  False: t is not a transport over verbs. */
bool transport_verbs_parts(struct transport *t, struct transport_verbs_parts *parts);

/* From now on the device makes `in` of each link; call this before the first link.  From now on
 * a message that needs an answer, or has more data than fits, is a rendezvous
 * (transport_limits.data_max).  0; -EBUSY there are links; -ENOTSUP. */
int transport_verbs_set_inlet(struct transport *t, const struct transport_verbs_inlet *inlet);

/* The endpoint closes: tells its peers, and detaches all.  The inlet is not used any more. */
void transport_verbs_end_inlet(struct transport *t);

/* The device is unusable: all links that receive through it end, as if their peers had died. */
void transport_verbs_lose_inlet(struct transport *t);

/* Are messages on this link tagged? */
bool transport_verbs_is_tagged(struct link *link);

/* Is it certain that the peer's messages bypass the device's matching? */
bool transport_verbs_is_beside(struct link *link);

/* The device has matched a message of this link. */
void transport_verbs_matched(struct link *link);

/* A packet of this link, in the format of wire.h, lies in a buffer of the device.  Called once
 * for each packet.  True: it is for the core, and read() follows when the core has taken it. */
bool transport_verbs_arrived(struct link *link, const void *packet, size_t size);
void transport_verbs_read(struct link *link);

/* The device reports that the queue pair of this link has failed. */
void transport_verbs_failed(struct link *link, const char *why);

#endif
