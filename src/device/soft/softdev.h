/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * softdev.h - the software device as the application sees it: a struct mbx_device.
 *
 *   driver    where the agent runs       how it gets its packets
 *   LOOP      softdev_run(), called      softdev_deliver(), called by the owner of
 *             by the application         the transport with each packet
 *   THREAD    a thread of this process   it receives instead of the transport (handoff.h)
 *   PROCESS   a process of its own       like THREAD; memory is reached by copies across
 *
 * All three match alike and talk to the application through the same two rings (channel.h).
 */
#ifndef DEVICE_SOFT_SOFTDEV_H
#define DEVICE_SOFT_SOFTDEV_H

#include <matchbox/device.h>

#include "transport/transport.h"

enum softdev_driver { SOFTDEV_LOOP, SOFTDEV_THREAD, SOFTDEV_PROCESS };

struct softdev_config {
    enum softdev_driver driver;
    struct transport *transport;
    const struct transport_config *transport_config; /* THREAD, PROCESS: for take_over() */
    uint64_t read_chunk, spin_ns;
    uint64_t check_ns;  /* as channel.check_ns */
    uint64_t answer_ns; /* THREAD, PROCESS: time limit to begin, and then to start */
    uint64_t seed;
    const char *program; /* PROCESS: the program; "": searched next to the library */
    /* The number of the peer at this address.  0; -ENOMEM: asked again later; any other error:
     * the peer is refused. */
    int (*number)(void *arg, const struct transport_address *address, uint32_t *peer);
    /* THREAD, PROCESS: may the transport be handed over, or taken back, now?  NULL: always. */
    bool (*may_hand_over)(void *arg);
    /* LOOP: the link to a peer. */
    struct link *(*link)(void *arg, uint32_t peer);
    void *arg;
};

/* Opens a device that waits for configure().  0; -EINVAL the transport cannot be handed over;
 * -ENOMEM. */
int softdev_open(const struct softdev_config *config, struct mbx_device **out);

/* LOOP: does the pending work; returns how much. */
int softdev_run(struct mbx_device *device);
int softdev_deliver(struct mbx_device *device, uint32_t peer, const void *packet, size_t size);
/* LOOP: a read has ended; false: it is not a read of the device. */
bool softdev_read_done(struct mbx_device *device, void *cookie, int error);

/* softdev_stop - the device does nothing after this returns, whatever it was doing.  Its
 * earlier events can still be polled; the last one is LOST. */
void softdev_stop(struct mbx_device *device);

/* softdev_repeated - after a stop and the last event: did an event report the packet that the
 * device was delivering when it stopped? */
bool softdev_repeated(const struct mbx_device *device);

/* softdev_detach - the caller has nothing left in the device: it is to stop receiving until the
 * next append.  A device elsewhere takes a while to stop; polls go on as before. */
void softdev_detach(struct mbx_device *device);

/* May packets go to the device? */
bool softdev_is_there(const struct mbx_device *device);

/* Are there events that were not polled? */
bool softdev_has_events(const struct mbx_device *device);

/* Before and after a sleep in the transport.  False: there is something to do. */
bool softdev_lie_down(struct mbx_device *device);
void softdev_get_up(struct mbx_device *device);

/* How often a device elsewhere has found nothing to do; makes it look again now. */
uint64_t softdev_idle_rounds(struct mbx_device *device);

/* Has a device elsewhere looked and found nothing to do since the last call with *rounds, and
 * is nothing on its way between it and us?  Makes it look again now. */
bool softdev_is_calm(struct mbx_device *device, uint64_t *rounds);

/* Can the device run in a process of its own?  Writes the answer as a line. */
bool soft_process_explain(char *line, size_t size);

#endif
