/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.h - what offload knows of a device beyond the contract (matchbox/device.h): how its
 * packets reach it, when it works, and how one sleeps beside it.
 *
 *   driver                in_loop  what arrives reaches the device
 *   soft                  yes      by deliver(), from the transport that the endpoint polls
 *   soft-thread, -process no       by the transport, while it is handed over (handoff.h)
 *   verbs                 no       at once: it receives in the transport's place (verbs_inlet.h)
 *
 * A function that may be NULL says what that means.  All others are there.
 */
#ifndef DEVICE_HOST_DRIVER_H
#define DEVICE_HOST_DRIVER_H

#include <matchbox/device.h>

#include "core/core.h"

struct offload_driver {
    bool in_loop;  /* run() and deliver() are all that makes it work */
    bool is_inlet; /* it receives always: matched() and packet() */

    uint32_t buffers;   /* for messages that the device passes to software */
    uint64_t threshold; /* MBX_DEVICE_THRESHOLD, where it is not set */

    /* Can the settings be had on this transport?  0; -EOPNOTSUPP they cannot, and matching in
     * software will do; or an error.  These two were logged. */
    int (*check)(const struct mbx_ep *ep);

    /* Opens a device that waits for configure().  0 or an error; -EOPNOTSUPP as check(). */
    int (*open)(struct mbx_ep *ep, struct mbx_device **device);

    /* is_inlet: it is configured, and is to receive from now on.  0 or an error. */
    int (*started)(struct mbx_ep *ep);

    /* is_inlet: the endpoint closes; the device receives nothing any more when this returns. */
    void (*leave)(struct mbx_ep *ep);

    /* The device does nothing any more when this returns; its events up to here can still be
     * polled, and end with LOST.  More than once. */
    void (*stop)(struct mbx_device *device);

    /* Not in_loop: behind the last event, packets are to come to us.  0; -EINVAL they do; -EBUSY
     * later; or an error. */
    int (*take_over)(struct mbx_ep *ep);

    /* Has it said something that was not polled? */
    bool (*has_events)(const struct mbx_device *device);

    /* Before and behind a sleep in the transport.  False: there is something to do. */
    bool (*lie_down)(struct mbx_device *device);
    void (*get_up)(struct mbx_device *device);

    /* is_inlet: is it known that what this peer sends does not come by the device? */
    bool (*is_beside)(const struct mbx_ep *ep, uint32_t peer);

    /* is_inlet: it has matched a message that came from this peer; asked before anything else of it.  And a
     * packet has come, as transport_events.deliver. */
    void (*matched)(struct mbx_ep *ep, uint32_t peer);
    int (*packet)(struct mbx_ep *ep, uint32_t peer, const void *packet, size_t size);

    /* in_loop: does what there is to do; how much.  NULL otherwise. */
    int (*run)(struct mbx_device *device);
    /* in_loop: as transport_events.deliver.  NULL otherwise. */
    int (*deliver)(struct mbx_device *device, uint32_t peer, const void *packet, size_t size);
    /* in_loop: the end of a read; false: it is not one of the device's.  NULL otherwise. */
    bool (*read_done)(struct mbx_device *device, void *cookie, int error);

    /* Elsewhere, where alone these four are called. */

    /* May packets go to it? */
    bool (*is_there)(const struct mbx_device *device);
    /* Nothing is left in it: it is not to receive any more, until the next append. */
    void (*detach)(struct mbx_device *device);
    /* How often it found nothing to do; and it looks again now. */
    uint64_t (*idle_rounds)(struct mbx_device *device);
    /* Has it found nothing to do since the last call with *rounds, and is nothing on its way
     * between it and us?  It looks again now. */
    bool (*is_calm)(struct mbx_device *device, uint64_t *rounds);

    /* Behind a stop and the last event: has the packet that it was delivering when it stopped
     * been told of by an event?  Asked of a packet that its transport repeats(). */
    bool (*repeated)(const struct mbx_device *device);
};

/* driver_soft.c */
extern const struct offload_driver offload_driver_soft, offload_driver_soft_thread,
    offload_driver_soft_process;

/* driver_verbs.c */
extern const struct offload_driver offload_driver_verbs;

#endif
