/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waiter.h - one thread that waits in an endpoint, and for what.  Private to src/core.
 *
 * A wait for one request looks at it after each round of progress.  A wait for an array looks
 * through the array only if a request of it may have become complete (has_news): its requests are
 * REQUEST_AWAITED, which tells wait.c when one of them is.
 */
#ifndef CORE_WAITER_H
#define CORE_WAITER_H

#include "core/ep.h"

struct waiter {
    struct list node; /* on ep->wait.waiters */
    /* One of these three; with none, nothing is ever there.  With a request, the array is what is waited for besides, and all of
     * it is (mbx_wait_all). */
    mbx_request request;
    unsigned queues; /* any completion of these */
    int most;        /* of the array that are taken; without a request */
    const mbx_request *array;
    int array_count;
    bool has_news; /* one of the array may be complete */

    int64_t timeout_ns;
    uint64_t start_ns; /* 0: the clock has not been looked at */
    _Atomic uint32_t notified;
};

/* Waits for what w says.  0; -ETIMEDOUT; -EINTR.  Under the lock, which others get meanwhile. */
int wait_until(struct mbx_ep *ep, struct waiter *w);

static inline struct waiter *waiter_of(struct list *node)
{
    return container_of(node, struct waiter, node);
}

/* Is one of these queues not empty? */
bool wait_any_done(struct mbx_ep *ep, unsigned queues);
/* Is the wait of w over? */
bool wait_is_over(struct mbx_ep *ep, struct waiter *w);
void wait_notify_one(struct waiter *w);
/* notifies those whose wait is over, and the poller if it has to get up. */
void wait_notify(struct mbx_ep *ep);

static inline bool wait_is_notified(const struct waiter *w)
{
    return atomic_load_explicit(&w->notified, memory_order_acquire) != 0;
}

/* Something has happened: to a waiter? */
static inline void wait_check(struct mbx_ep *ep)
{
    if (unlikely(ep->wait.wakeup_pending) || unlikely(ep->wait.any_count != 0))
        wait_notify(ep);
}

/* Sleeps once, or until the thread that sleeps here already tells of something: for a thread that
 * tells others.  hooks as of mbx_sleep().  Takes the lock. */
void wait_doze(struct mbx_ep *ep, const struct mbx_sleep_hooks *hooks);

/* Do the invariants of wait.c hold?  With the lock, which is about to be given.  With MBX_CHECKS. */
bool wait_is_valid(const struct mbx_ep *ep);

#define QUEUES_ALL (MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS | MBX_FAILURES)

/* Does any queue have an entry? */
static inline bool wait_has_entries(struct mbx_ep *ep)
{
    return wait_any_done(ep, QUEUES_ALL);
}

/* Is there nothing to wait for any more in this request: it is complete, or gone (another thread
 * has taken it), or has a failure to tell? */
static inline bool wait_request_is_over(const struct mbx_ep *ep, mbx_request request)
{
    const struct request *req = request_find(ep, request);

    return req == NULL || req->state == REQUEST_COMPLETE || failure_concerns(ep, req);
}

#endif
