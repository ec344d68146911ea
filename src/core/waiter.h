/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waiter.h - a thread that waits in an endpoint.  Private to src/core.
 *
 * A wait for one request checks it after each round of progress.  A wait for an array checks
 * the array only if one of its requests may have completed (has_news): its requests are
 * REQUEST_AWAITED, so wait.c is notified when one completes.
 */
#ifndef CORE_WAITER_H
#define CORE_WAITER_H

#include "core/ep.h"

struct waiter {
    struct list node; /* on ep->wait.waiters */
    /* One of these three; with none, the wait never finds anything.  With a request and an
     * array, the wait is for the request, as part of a wait for the whole array
     * (mbx_wait_all). */
    mbx_request request;
    unsigned queues; /* a wait for any completion in these */
    int most;        /* the most requests to take from the array; not used with a request */
    const mbx_request *array;
    int array_count;
    bool has_news; /* a request of the array may be complete */

    int64_t timeout_ns;
    uint64_t start_ns; /* 0: the clock has not been read */
    _Atomic uint32_t notified;
};

/* Waits as w describes.  0; -ETIMEDOUT; -EINTR.  Under the lock, which other threads get
 * meanwhile. */
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
/* Notifies the waiters whose wait is over, and the poller if it has to wake up. */
void wait_notify(struct mbx_ep *ep);

static inline bool wait_is_notified(const struct waiter *w)
{
    return atomic_load_explicit(&w->notified, memory_order_acquire) != 0;
}

/* Called after an event: notifies the waiters that it may concern. */
static inline void wait_check(struct mbx_ep *ep)
{
    if (unlikely(ep->wait.wakeup_pending) || unlikely(ep->wait.any_count != 0))
        wait_notify(ep);
}

/* Sleeps once, or until the thread that already sleeps here reports something: for a thread
 * that notifies others.  hooks as in mbx_sleep().  Takes the lock. */
void wait_doze(struct mbx_ep *ep, const struct mbx_sleep_hooks *hooks);

/* Checks the invariants of wait.c.  The caller holds the lock, and is about to give it.  With
 * MBX_CHECKS. */
bool wait_is_valid(const struct mbx_ep *ep);

#define QUEUES_ALL (MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS | MBX_FAILURES)

/* Does any queue have an entry? */
static inline bool wait_has_entries(struct mbx_ep *ep)
{
    return wait_any_done(ep, QUEUES_ALL);
}

/* Is the wait for this request over: it is complete, or gone (another thread has taken it), or
 * has a failure to report? */
static inline bool wait_request_is_over(const struct mbx_ep *ep, mbx_request request)
{
    const struct request *req = request_find(ep, request);

    return req == NULL || req->state == REQUEST_COMPLETE || failure_concerns(ep, req);
}

#endif
