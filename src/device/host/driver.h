/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.h - what offload needs to know of a device beyond the contract (matchbox/device.h):
 * how packets reach it, when it works, and how the endpoint sleeps while it works.
 *
 *   driver                in_loop  how packets reach the device
 *   soft                  yes      by deliver(), from the transport that the endpoint polls
 *   soft-thread, -process no       by the transport, which is handed over to it (handoff.h)
 *   verbs                 no       directly: the device receives, not the transport (verbs_inlet.h)
 *
 * The comment of a function that may be NULL says what NULL means.  All other functions are
 * set.
 */
#ifndef DEVICE_HOST_DRIVER_H
#define DEVICE_HOST_DRIVER_H

#include <matchbox/device.h>

#include "core/core.h"

struct offload_driver {
    bool in_loop;  /* run() and deliver() alone make it work */
    bool is_inlet; /* it always receives: matched() and packet() */

    uint32_t buffers;   /* for messages that the device passes to the host */
    uint64_t threshold; /* MBX_DEVICE_THRESHOLD, if it is not set */

    /* Do the settings work with this transport? 0; -EOPNOTSUPP they do not, and software is to
     * match instead; or an error.  Both failures were logged. */
    int (*check)(const struct mbx_ep *ep);

    /* Opens a device that waits for configure(). 0 or an error; -EOPNOTSUPP as in check(). */
    int (*open)(struct mbx_ep *ep, struct mbx_device **device);

    /* is_inlet: the device is configured, and is to receive from now on. 0 or an error. */
    int (*started)(struct mbx_ep *ep);

    /* is_inlet: the endpoint closes.  The device receives nothing after this returns. */
    void (*leave)(struct mbx_ep *ep);

    /* The device does nothing after this returns.  Its earlier events can still be polled; the
     * last one is LOST.  May be called more than once. */
    void (*stop)(struct mbx_device *device);

    /* Not in_loop: after the last event, the host is to receive again.  0; -EINVAL it does
     * already; -EBUSY later; or an error. */
    int (*take_over)(struct mbx_ep *ep);

    /* Are there events that were not polled? */
    bool (*has_events)(const struct mbx_device *device);

    /* Before and after a sleep in the transport.  False: there is something to do. */
    bool (*lie_down)(struct mbx_device *device);
    void (*get_up)(struct mbx_device *device);

    /* is_inlet: is it certain that the messages of this peer do not come through the device? */
    bool (*is_beside)(const struct mbx_ep *ep, uint32_t peer);

    /* is_inlet: matched() - the device has matched a message from this peer; called before the
     * match is handled. packet() - a packet has come, as transport_events.deliver. */
    void (*matched)(struct mbx_ep *ep, uint32_t peer);
    int (*packet)(struct mbx_ep *ep, uint32_t peer, const void *packet, size_t size);

    /* in_loop: does the pending work; returns how much.  NULL otherwise. */
    int (*run)(struct mbx_device *device);
    /* in_loop: as transport_events.deliver.  NULL otherwise. */
    int (*deliver)(struct mbx_device *device, uint32_t peer, const void *packet, size_t size);
    /* in_loop: a read has ended; false: it is not a read of the device.  NULL otherwise. */
    bool (*read_done)(struct mbx_device *device, void *cookie, int error);

    /* Called only for a device elsewhere: */

    /* May packets go to the device? */
    bool (*is_there)(const struct mbx_device *device);
    /* The device holds nothing: it is to stop receiving until the next append. */
    void (*detach)(struct mbx_device *device);
    /* How often the device has found nothing to do; makes it look again now. */
    uint64_t (*idle_rounds)(struct mbx_device *device);
    /* Has the device found nothing to do since the last call with *rounds, and is nothing on
     * its way between device and host?  Makes it look again now. */
    bool (*is_calm)(struct mbx_device *device, uint64_t *rounds);

    /* After a stop and the last event: did an event report the packet that the device was
     * delivering when it stopped?  Asked about a packet that its transport repeats(). */
    bool (*repeated)(const struct mbx_device *device);
};

/* driver_soft.c */
extern const struct offload_driver offload_driver_soft, offload_driver_soft_thread,
    offload_driver_soft_process;

/* driver_verbs.c */
extern const struct offload_driver offload_driver_verbs;

#endif
