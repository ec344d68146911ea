/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offload.h - a matching device beside the matching engines.  Private to src/core.
 *
 *   mbx_recv ──> mbx_match_post ──queued──> offload_post ──> shadow ──> device
 *                                                                         │
 *   offload_poll <── shadow_poll <── MATCHED, DATA_VALID, ... <───────────┤
 *      ├── offload_matched ──> recv_matched ──> offload_receive           │
 *      └── progress_deliver, of packets that the device passed on <───────┘
 *              └── met a receive? offload_taken
 *
 * A second transport of the endpoint, whose packets do not go through the device, delivers to
 * offload_beside(): its messages may have to wait for the device's answer (device/beside.h).
 *
 * Without a device ep->offload is NULL, and each of these costs a branch that always goes the
 * same way.
 */
#ifndef CORE_OFFLOAD_H
#define CORE_OFFLOAD_H

#include "core/core.h"
#include "device/shadow.h"

/* The device's answer to offload_revoke(): req is ours, and waits nowhere; or the device has
 * matched it, and recv_matched() follows. */
typedef void offload_answer_fn(struct mbx_ep *ep, struct request *req, bool is_ours);

struct offload {
    struct shadow shadow;
    struct mbx_device *device;
    bool in_loop;      /* the transport's packets are given to the device here */
    bool is_receiving; /* the device is gone: they are ours */
    bool is_quiet;     /* there is nothing to do before the next receive is handed over */
    uint32_t unused;   /* polls since the device last had a receive */
    bool may_repeat;   /* the packet that is offered next may have been told of already */
    bool is_watched;   /* a peer is gone, and the device may not have seen all that it sent */
    uint32_t calm;     /* looks in a row at which the device had nothing to do */
    uint64_t rounds;   /* its own, at the last of them */
    offload_answer_fn *answer;
};

/* Opens what the settings ask for, behind the transport; ep->offload stays NULL if that is
 * nothing.  0 or an error, which is logged. */
int offload_open(struct mbx_ep *ep, const struct transport_config *config);

/* The device stops; before the transport is closed. */
void offload_close(struct mbx_ep *ep);

/* As transport_events.deliver, read_done, repeats. */
int offload_deliver(void *ep, uint32_t peer, const void *packet, size_t size);
void offload_read_done(void *ep, void *cookie, int error);
void offload_repeats(void *ep, uint32_t peer);

/* As transport_events.deliver, of a transport whose packets do not go through the device.  All
 * packets of a peer come by one transport. */
int offload_beside(void *ep, uint32_t peer, const void *packet, size_t size);

/* A message has come so, while the device holds something. */
int offload_arrive(struct mbx_ep *ep, const struct arrival *arrival);

/* What the device did and what it can be given; how much. */
int offload_poll(struct mbx_ep *ep);

/* req was posted and waits in its engine. */
void offload_post(struct mbx_ep *ep, struct request *req);

/* req has left its engine for a message that the device did not match. */
void offload_taken(struct mbx_ep *ep, struct request *req);

/* req has left its engine because its user cancels it.  False: the device is asked first. */
bool offload_cancel(struct mbx_ep *ep, struct request *req);

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

/* A peer holds messages: the device gives back what it has, and gets nothing, until
 * offload_lend(). */
void offload_recall(struct mbx_ep *ep);
void offload_lend(struct mbx_ep *ep);
/* Has it given back all, and does no message wait for its answer?  What is held comes behind
 * that. */
bool offload_is_home(const struct mbx_ep *ep);

/* recv_matched() of a message that the device has matched. */
void offload_receive(struct mbx_ep *ep, struct request *req, const struct arrival *arrival);

/* As transport_ops.wait, with a device that wants to be heard, too. */
int offload_wait(struct mbx_ep *ep, int64_t timeout_ns);

static inline int offload_sleep(struct mbx_ep *ep, int64_t timeout_ns)
{
    return ep->offload == NULL ? ep->transport->ops->wait(ep->transport, timeout_ns)
                               : offload_wait(ep, timeout_ns);
}

/* A peer is gone: what it has sent may be where the device is, which may be slow.  Once for
 * each look at peers (watch.c): has the device seen all?  A device in the loop has. */
void offload_watch(struct mbx_ep *ep);
bool offload_has_seen_all(struct mbx_ep *ep);

/* Has the device sent all FINs that it owes? */
bool offload_is_flushed(const struct mbx_ep *ep);

void offload_stats(const struct mbx_ep *ep, struct mbx_stats *stats);

#endif
