/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device_hooks.h - the functions of a matching device at an endpoint.
 *
 * mbx_ep.device is NULL while no device takes part in matching: then everything is matched in
 * software.  Otherwise the functions of these names in ep.h call it.  Hooks that other modules
 * also have, such as for posted receives, are in module.h.
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
    /* Has the device passed on everything from the peers that are gone?  Called once in each
     * check. */
    bool (*has_seen_all)(struct mbx_ep *ep);
    /* Replaces transport_ops.wait. */
    int (*sleep)(struct mbx_ep *ep, int64_t timeout_ns);
    /* Adds the device's counts. */
    void (*stats)(const struct mbx_ep *ep, struct stats *stats);

    /* req has left its engine, to be cancelled.  False: recv_cancelled() is called later,
     * unless the device has matched req. */
    bool (*recv_cancel)(struct mbx_ep *ep, struct request *req);

    /* Called when a message is queued as unexpected; when it leaves that queue for a probe; and
     * when it leaves for req, which was posted (true: req gets it later).  Only after
     * tracepoint_notify_device(). */
    void (*message_kept)(struct mbx_ep *ep, struct message *message);
    void (*message_left)(struct mbx_ep *ep, struct message *message);
    bool (*message_found)(struct mbx_ep *ep, struct message *message, struct request *req);

    /* A peer defers its sends: the device gives receives back, and gets none until
     * extra_credit. */
    void (*recall)(struct mbx_ep *ep);
    void (*extra_credit)(struct mbx_ep *ep);
    /* Is every receive matched in software? */
    bool (*is_home)(const struct mbx_ep *ep);
};

#endif
