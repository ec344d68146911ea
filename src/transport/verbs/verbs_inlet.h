/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_inlet.h - a matching device that receives in the place of an endpoint over verbs.
 *
 *   transport          open ─> context, pd, channel
 *   device             makes a completion queue and a tag-matching receive queue of these
 *   inlet              `in` of each link is made by the device; what arrives there is the device's
 *
 *   device ── matched a message ────────> transport_verbs_matched()
 *          └─ a packet in its buffer ───> transport_verbs_arrived(): credit, BYE; true: it is one of
 *                                         the core's ─ deliver ─ transport_verbs_read()
 *
 * A link is *tagged* if both sides have such a device: then messages travel to it as verbs_frame.h
 * says.  On any other link all that the peer sends comes beside what the device matches.
 *
 * Declarations of libibverbs' types alone: who has no use for them needs not its header.
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
    struct ibv_comp_channel *channel; /* what is armed there ends a wait() of the endpoint */
};

struct transport_verbs_inlet {
    struct verbs_layout layout; /* of tagged links */
    uint32_t buffers;           /* packets that may lie unread in it */
    struct ibv_cq *cq;          /* of what completes there; the channel tells of it */
    /* The queue pair, in RESET, by which this peer's packets come; the device owns it, and its
     * send queue.  0; -ERANGE it has none for such a number: the endpoint receives; -errno. */
    int (*attach)(void *arg, uint32_t peer, struct ibv_qp **qp);
    /* The peer is gone: destroys it. */
    void (*detach)(void *arg, uint32_t peer);
    /* How often all that had come was read. */
    uint64_t (*empties)(void *arg);
    void *arg;
};

/* What t has opened.  False: it is no transport over verbs. */
bool transport_verbs_parts(struct transport *t, struct transport_verbs_parts *parts);

/* From now on `in` of each link is made there; before the first link.  What needs an answer, or has
 * more data than fits, is from now on a rendezvous (transport_limits.data_max).  0; -EBUSY there are
 * links; -ENOTSUP. */
int transport_verbs_set_inlet(struct transport *t, const struct transport_verbs_inlet *inlet);

/* The endpoint closes: says so to its peers, and detaches all.  The inlet is not used any more. */
void transport_verbs_end_inlet(struct transport *t);

/* The device cannot be used any more: all links that receive by it end, as if their peers had died. */
void transport_verbs_lose_inlet(struct transport *t);

/* Is it a link on which messages are tagged? */
bool transport_verbs_is_tagged(struct link *link);

/* Is it known that no message of this link comes by the device? */
bool transport_verbs_is_beside(struct link *link);

/* The device has matched a message of this link. */
void transport_verbs_matched(struct link *link);

/* A packet of this link lies in a buffer of the device, as a packet of wire.h.  Once for each packet.
 * True: it is for the core, and read() follows when the core has taken it. */
bool transport_verbs_arrived(struct link *link, const void *packet, size_t size);
void transport_verbs_read(struct link *link);

/* The device says that the queue pair of this link has failed. */
void transport_verbs_failed(struct link *link, const char *why);

#endif
