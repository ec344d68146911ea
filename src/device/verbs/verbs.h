/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h - hardware that matches tags, through libibverbs.
 *
 * verbs_frame.h describes the packets on the wire.
 *
 * A packet lands 16 bytes after the beginning of its untagged buffer, so that an eager packet
 * can be converted in place into the packet that any other transport would deliver (wire.h).
 */
#ifndef DEVICE_VERBS_VERBS_H
#define DEVICE_VERBS_VERBS_H

#include <matchbox/device.h>

#include "transport/verbs/verbs_frame.h"

#define VERBS_EAGER_MAX    8192
#define VERBS_UNTAGGED_MIN 33 /* hardware matches only after it got this many */

/* The value of mbx_device_recv.region for memory that the caller has registered with the
 * device's protection domain. */
static inline uint64_t verbs_region(uint32_t lkey)
{
    return UINT64_C(1) << 32 | lkey;
}

struct ibv_comp_channel;
struct ibv_context;
struct ibv_cq;
struct ibv_pd;
struct ibv_qp;
struct verbs_regions;

struct verbs_config {
    const char *name;            /* libibverbs' device; NULL: the first that matches tags */
    uint32_t peers;              /* peers 0 to peers - 1 may send */
    uint32_t eager_max;          /* bytes of the longest eager message; 0: VERBS_EAGER_MAX */
    struct verbs_layout layout;  /* the same on all links */
    struct ibv_context *context; /* the caller's context, used until close; NULL: this file */
    struct ibv_pd *pd;           /* opens one.  The caller's pd for it; name is ignored then */
    struct verbs_regions *regions; /* the caller's, for pd; NULL: memory is registered for each
                                    * receive */
    struct ibv_comp_channel *channel; /* gets the events of verbs_arm(); or NULL */
    /* The hardware has received a FIN from this peer: sets *sender to the request that the FIN
     * is for.  False: there is none.  NULL: this endpoint sends no rendezvous. */
    bool (*fin)(void *arg, uint32_t peer, const struct verbs_fin *fin, uint64_t *sender);
    /* The link of this peer has failed and its queue pair is in ERR; the caller must call
     * verbs_detach(), later.  NULL: verbs_poll() calls verbs_detach(). */
    void (*link_failed)(void *arg, uint32_t peer, const char *why);
    void *arg;
};

/* Opens the hardware.  0; -ENODEV libibverbs has no device (of that name); -EOPNOTSUPP none of
 * them matches tags, libibverbs cannot be loaded, or this library is built without it; -ENOMEM;
 * or an error of libibverbs. */
int verbs_open(const struct verbs_config *config, struct mbx_device **device);

/* verbs_attach - creates a queue pair (RC, state RESET) that receives this peer's messages;
 * call it after configure().  The device owns the queue pair, and reads and sends FINs on its
 * send queue: whoever brings it to RTS must set max_rd_atomic above 0.  Sending to the peer
 * needs another queue pair.  0; -EALREADY the peer has one; -errno. */
int verbs_attach(struct mbx_device *device, uint32_t peer, struct ibv_qp **qp);

/* verbs_detach - the peer is gone.  The device writes nothing for it after this returns;
 * matched receives whose data has not come end with -ENOTCONN, in a later poll. */
void verbs_detach(struct mbx_device *device, uint32_t peer);

/* verbs_arm - makes the completion channel report the next event.  0; -ENODEV. */
int verbs_arm(struct mbx_device *device);

/* verbs_lie_down - like verbs_arm(), and then looks.  False: there is an event to poll, or the
 * device is gone. */
bool verbs_lie_down(struct mbx_device *device);

/* verbs_empties - how often a poll has found the completion queue empty. */
uint64_t verbs_empties(const struct mbx_device *device);

/* verbs_idles - how often the completion queue was empty, no command was unanswered, and no
 * message was being read. */
uint64_t verbs_idles(const struct mbx_device *device);

/* verbs_queue - the device's completion queue; after configure(). */
struct ibv_cq *verbs_queue(struct mbx_device *device);

/* verbs_untagged - the number of buffers that configure() was given. */
uint32_t verbs_untagged(const struct mbx_device *device);

/* verbs_lose - the caller has learnt that the device is unusable (an async event). */
void verbs_lose(struct mbx_device *device, const char *why);

/* verbs_explain - writes a line: which hardware there is, or why none can be used.  True:
 * verbs_open() would find a device. */
bool verbs_explain(char *line, size_t size);

#endif
