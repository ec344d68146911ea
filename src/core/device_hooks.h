/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_hooks.h - what a device that matches does at an endpoint.
 *
 * mbx_ep.device is NULL while no device has a part in matching: then everything is matched here.
 * Otherwise the functions of these names in ep.h call it.  What other modules do besides, such as
 * receives that are posted, is in module.h.
 */
#ifndef CORE_DEVICE_HOOKS_H
#define CORE_DEVICE_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

struct mbx_ep;
struct message;
struct request;
struct stats;

struct device_hooks {
    /* Has the device passed on all that the peers that are gone had sent?  Once in each check. */
    bool (*has_seen_all)(struct mbx_ep *ep);
    /* As transport_ops.wait, instead of it. */
    int (*sleep)(struct mbx_ep *ep, int64_t timeout_ns);
    /* Adds what the device has counted. */
    void (*stats)(const struct mbx_ep *ep, struct stats *stats);

    /* req has left its engine and is to be cancelled.  False: recv_cancelled() is called later, if
     * the device has not matched it. */
    bool (*recv_cancel)(struct mbx_ep *ep, struct request *req);

    /* A message waits in the queue of unexpected messages; it has left that, for a probe; and for
     * req, which was posted: true: req gets it later.  Only after tracepoint_notify_device(). */
    void (*message_kept)(struct mbx_ep *ep, struct message *message);
    void (*message_left)(struct mbx_ep *ep, struct message *message);
    bool (*message_found)(struct mbx_ep *ep, struct message *message, struct request *req);

    /* A peer defers its sends: receives are given back, and none is given away until extra_credit. */
    void (*recall)(struct mbx_ep *ep);
    void (*extra_credit)(struct mbx_ep *ep);
    /* Is every receive matched here and nowhere else? */
    bool (*is_home)(const struct mbx_ep *ep);
};

#endif
