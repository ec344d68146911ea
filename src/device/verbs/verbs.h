/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h - hardware that matches tags, through libibverbs.
 *
 * What travels is told in verbs_frame.h.
 *
 * Untagged buffers receive 16 bytes behind their beginning, so that an eager packet can be turned
 * where it lies into what it would have been on any other wire: a packet of wire.h.
 */
#ifndef DEVICE_VERBS_VERBS_H
#define DEVICE_VERBS_VERBS_H

#include <matchbox/device.h>

#include "transport/verbs/verbs_frame.h"

#define VERBS_EAGER_MAX    8192
#define VERBS_UNTAGGED_MIN 33 /* a real one does not match before it has had so many buffers */

/* The bits of mbx_device_recv.region: memory that the caller has registered, with the device's
 * protection domain. */
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
    const char *name;            /* of libibverbs' device; NULL: the first that matches tags */
    uint32_t peers;              /* that may send: 0 .. peers - 1 */
    uint32_t eager_max;          /* bytes of the longest eager message; 0: VERBS_EAGER_MAX */
    struct verbs_layout layout;  /* of all links */
    struct ibv_context *context; /* the caller's, and so is pd, until close; NULL: opened */
    struct ibv_pd *pd;           /* here; name is not looked at */
    struct verbs_regions *regions; /* the caller's, of pd; NULL: memory is registered for each
                                    * receive */
    struct ibv_comp_channel *channel; /* where verbs_arm() tells; or NULL */
    /* A FIN of the hardware has come from this peer: sets *sender, the request that it is of.
     * False: there is none.  NULL: nobody sends a rendezvous from here. */
    bool (*fin)(void *arg, uint32_t peer, const struct verbs_fin *fin, uint64_t *sender);
    /* The link of this peer has failed, its queue pair is in ERR, and the caller's
     * verbs_detach() follows, later.  NULL: verbs_poll() calls verbs_detach(). */
    void (*link_failed)(void *arg, uint32_t peer, const char *why);
    void *arg;
};

/* Opens the hardware.  0; -ENODEV libibverbs has no device (of that name); -EOPNOTSUPP none of
 * them matches tags, libibverbs cannot be loaded, or this library is built without; -ENOMEM; what
 * libibverbs says. */
int verbs_open(const struct verbs_config *config, struct mbx_device **device);

/* verbs_attach - a queue pair (RC, state RESET) by which this peer's messages come; after
 * configure().  The device owns it, and its send queue, on which it reads and sends FINs: whoever
 * brings it to RTS sets max_rd_atomic above 0.  Whoever wants to send to the peer needs another
 * one.  0; -EALREADY the peer has one; -errno. */
int verbs_attach(struct mbx_device *device, uint32_t peer, struct ibv_qp **qp);

/* verbs_detach - the peer is gone.  When this returns the device writes nothing for it any more;
 * what it had matched and not filled ends with -ENOTCONN, by a later poll. */
void verbs_detach(struct mbx_device *device, uint32_t peer);

/* verbs_arm - the completion channel tells of the next event.  0; -ENODEV. */
int verbs_arm(struct mbx_device *device);

/* verbs_lie_down - as verbs_arm(), and then looks.  False: there is an event to poll, or the device
 * is gone. */
bool verbs_lie_down(struct mbx_device *device);

/* verbs_empties - how often all that had come was polled. */
uint64_t verbs_empties(const struct mbx_device *device);

/* verbs_idles - how often there was nothing to poll, no command waited for its answer, and no message
 * was being read. */
uint64_t verbs_idles(const struct mbx_device *device);

/* verbs_queue - of what the device is told of; after configure(). */
struct ibv_cq *verbs_queue(struct mbx_device *device);

/* verbs_untagged - the buffers that configure() has asked for. */
uint32_t verbs_untagged(const struct mbx_device *device);

/* verbs_lose - the caller knows that the device cannot be used any more (an async event). */
void verbs_lose(struct mbx_device *device, const char *why);

/* verbs_explain - one line: which hardware there is, or why none can be used.
 * True: verbs_open() would find a device. */
bool verbs_explain(char *line, size_t size);

#endif
