/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offload.h - a matching device beside the matching engines.
 *
 * lib names the module and gives the transport offload_deliver(), offload_read_done() and
 * offload_repeats(); other folders call nothing here.
 *
 *   mbx_recv ─> mbx_match_post ─queued─> recv_posted ─> shadow ─────> device
 *                                                                     │
 *   offload_poll <── shadow_poll <── MATCHED, DATA_VALID, ... <───────┤
 *      ├── on_matched ──> offload_receive                             │
 *      └── deliver_packet, of packets that the device passed on <───┘
 *              └── met a receive? recv_left
 *
 * A second transport of the endpoint, whose packets do not go through the device, delivers to
 * offload_bypass(): its messages may have to wait for the device's answer (device/host/bypass.h).
 *
 * What the device holds of unexpected messages (held.h):
 *
 *   deliver_wait ─> message_kept ─> shadow ── HOLD ──> device
 *   mbx_recv ─> mbx_match_post ─found─> message_found ─> shadow ── ADD ──> device
 *   offload_poll <── MATCHED (HELD) ── on_paired ──> recv_given
 *
 * Without a device ep->device and ep->offload are NULL, and each of these costs a branch that always
 * goes the same way.
 */
#ifndef DEVICE_HOST_OFFLOAD_H
#define DEVICE_HOST_OFFLOAD_H

#include "device/host/shadow.h"
#include "p2p/p2p.h"

/* The device's answer to offload_revoke(): req is ours, and waits nowhere; or the device has
 * matched it, which follows. */
typedef void offload_answer_fn(struct mbx_ep *ep, struct request *req, bool is_ours);

enum offload_proto {
    PROTO_OFFLOAD = 12 /* a receive that the device has */
};

enum offload_state {
    OFFLOAD_MATCHED = PROTO_STATE(PROTO_OFFLOAD, 0), /* the device moves the data */
    OFFLOAD_RECLAIMED, /* asked back from the device, for a message beside it */
    OFFLOAD_PAIRED,    /* the device holds its message, and is to match the two */
};

struct offload_driver;

/* Glossary: device - an execution context of its own that matches: the software device, or an
 * RDMA adapter; the other half is the host */
struct offload {
    struct work work;
    struct shadow shadow;
    const struct offload_driver *driver; /* driver.h */
    struct mbx_device *device;
    bool is_receiving; /* the device is gone: they are ours */
    bool is_quiet;     /* there is nothing to do before the next receive is handed over */
    uint32_t unused;   /* polls since the device last had a receive */
    bool is_offered; /* the next packet of a device that receives always was looked at before */
    bool may_repeat; /* the packet that is offered next may have been told of already */
    bool is_watched; /* a peer is gone, and the device may not have seen all that it sent */
    uint32_t calm;   /* checks in a row at which the device had nothing to do */
    uint64_t rounds; /* its own, at the last of them */
    offload_answer_fn *answer;
};

/* As transport_events.deliver, read_done, repeats. */
int offload_deliver(void *ep, uint32_t peer, const void *packet, size_t size);
void offload_read_done(void *ep, void *cookie, int error);
void offload_repeats(void *ep, uint32_t peer);

/* As transport_events.deliver, of a transport whose packets do not go through the device.  All
 * packets of a peer come by one transport. */
int offload_bypass(void *ep, uint32_t peer, const void *packet, size_t size);

/*
 * offload_revoke - takes req back, for a message that does not come through the device.
 *
 * Afterwards req is in no engine, no message that arrives can meet it, and a cancel is
 * too late: whoever calls this gives it a message, or completes it.
 *
 * Returns    0 it is ours, its state is REQUEST_POSTED; -EINPROGRESS the device is asked, and
 *            offload_on_answer()'s function will be called, once, from offload_poll();
 *            -EALREADY it is not posted any more.
 */
int offload_revoke(struct mbx_ep *ep, struct request *req);

/* Who is told. */
void offload_on_answer(struct mbx_ep *ep, offload_answer_fn *answer);

/* Do the invariants hold?  With MBX_CHECKS. */
bool offload_is_valid(const struct mbx_ep *ep);

extern const struct module offload_module;

#endif
