/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offload.h - a matching device in addition to the matching engines.
 *
 * lib names the module and gives the transport offload_deliver(), offload_read_done() and
 * offload_repeats(); other folders call nothing here.
 *
 *   mbx_recv ─> mbx_match_post ─queued─> recv_posted ─> shadow ─────> device
 *                                                                     │
 *   offload_poll <── shadow_poll <── MATCHED, DATA_VALID, ... <───────┤
 *      ├── on_matched ──> offload_receive                             │
 *      └── deliver_packet, for packets that the device passed on <────┘
 *              └── met a receive? recv_left
 *
 * The packets of a second transport do not go through the device; it delivers to
 * offload_bypass().  Its messages may have to wait for the device's answer
 * (device/host/bypass.h).
 *
 * Unexpected messages that the device holds (held.h):
 *
 *   deliver_wait ─> message_kept ─> shadow ── HOLD ──> device
 *   mbx_recv ─> mbx_match_post ─found─> message_found ─> shadow ── ADD ──> device
 *   offload_poll <── MATCHED (HELD) ── on_paired ──> recv_given
 *
 * Without a device, ep->device and ep->offload are NULL, and each of these calls costs a branch
 * that always goes the same way.
 */
#ifndef DEVICE_HOST_OFFLOAD_H
#define DEVICE_HOST_OFFLOAD_H

#include "device/host/shadow.h"
#include "p2p/p2p.h"

enum offload_proto {
    PROTO_OFFLOAD = 12 /* a receive that the device has */
};

enum offload_state {
    OFFLOAD_MATCHED = PROTO_STATE(PROTO_OFFLOAD, 0), /* the device moves the data */
    OFFLOAD_PAIRED, /* the device holds its message, and will report the match */
};

struct offload_driver;

/* Glossary: device - an execution context of its own that matches: the software device, or an
 * RDMA adapter; the other half is the host */
struct offload {
    struct work work;
    struct shadow shadow;
    const struct offload_driver *driver; /* driver.h */
    struct mbx_device *device;
    bool is_receiving; /* the device is gone: the host receives packets */
    bool is_quiet;     /* nothing to do until the next receive is handed over */
    uint32_t unused;   /* polls since the device last had a receive */
    bool is_offered; /* the next packet of a device that receives always was looked at before */
    bool may_repeat; /* the packet that is offered next may have been reported already */
    bool is_watched; /* a peer is gone, and the device may not have seen all that it sent */
    uint32_t calm;   /* checks in a row at which the device had nothing to do */
    uint64_t rounds; /* the device's count of idle rounds at the last check */
};

/* As transport_events.deliver, read_done and repeats. */
int offload_deliver(void *ep, uint32_t peer, const void *packet, size_t size);
void offload_read_done(void *ep, void *cookie, int error);
void offload_repeats(void *ep, uint32_t peer);

/* As transport_events.deliver, for a transport whose packets do not go through the device.  All
 * packets of a peer come by the same transport. */
int offload_bypass(void *ep, uint32_t peer, const void *packet, size_t size);

/* Do the invariants hold?  With MBX_CHECKS. */
bool offload_is_valid(const struct mbx_ep *ep);

extern const struct module offload_module;

#endif
