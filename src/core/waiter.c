/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waiter.c - decides which waits are over, and notifies their threads, when the endpoint's lock
 * is given; see wait.c.
 */
#include "core/waiter.h"

#include "core/core.h"

#include "base/check.h"
#include "base/sys.h"

bool wait_any_done(struct mbx_ep *ep, unsigned queues)
{
    if ((queues & MBX_FAILURES) && failure_any(ep))
        return true;
    for (unsigned queue = MBX_SENDS; queue <= MBX_EVENTS; queue <<= 1)
        if ((queues & queue) && !list_is_empty(&ep->requests.done[queue]))
            return true;
    return false;
}

static OUT_OF_LINE bool wait_array_is_over(struct mbx_ep *ep, struct waiter *w)
{
    if (!w->has_news)
        return false;
    for (int i = 0; i < w->array_count; i++)
        if (w->array[i] != 0 && wait_request_is_over(ep, w->array[i]))
            return true;
    w->has_news = false;
    return false;
}

bool wait_is_over(struct mbx_ep *ep, struct waiter *w)
{
    if (w->request != 0)
        return wait_request_is_over(ep, w->request);
    return w->array != NULL ? wait_array_is_over(ep, w) : wait_any_done(ep, w->queues);
}

/* The number of completions that the wait of w needs, if this request is one of them; otherwise
 * 0. */
static uint32_t count_needed(const struct waiter *w, mbx_request request)
{
    bool is_one = w->request == request;
    uint32_t count = 0;

    for (int i = 0; w->array != NULL && i < w->array_count; i++) {
        is_one |= w->array[i] == request;
        count += w->array[i] != 0;
    }
    return !is_one ? 0 : w->request != 0 && count != 0 ? count : 1;
}

uint32_t wait_is_for(const struct mbx_ep *ep, mbx_request request)
{
    const struct list *node;
    uint32_t needed = 0;

    list_for_each (node, &ep->wait.waiters) {
        const struct waiter *w = container_of(node, const struct waiter, node);

        if (w->timeout_ns < 0 && needed == 0)
            needed = count_needed(w, request);
    }
    return needed;
}

const char *wait_call(const struct mbx_ep *ep)
{
    const struct list *node;

    list_for_each (node, &ep->wait.waiters) {
        const struct waiter *w = container_of(node, const struct waiter, node);

        if (w->timeout_ns < 0 && w->request != 0)
            return w->array != NULL ? "mbx_wait_all" : "mbx_wait";
        if (w->timeout_ns < 0 && w->array != NULL)
            return w->most == 1 ? "mbx_wait_any" : "mbx_wait_some";
    }
    return NULL;
}

void wait_notify_one(struct waiter *w)
{
    /* the release pairs with the acquire in wait_is_notified() */
    atomic_store_explicit(&w->notified, 1, memory_order_release);
    sys_futex_wake(&w->notified, 1); /* under the lock, so that w exists until its thread gets
                                        the lock */
}

OUT_OF_LINE void wait_notify(struct mbx_ep *ep)
{
    bool needs_poller = ep->wait.is_stirred;
    struct list *node;

    ep->wait.wakeup_pending = ep->wait.is_stirred = false;
    list_for_each (node, &ep->wait.waiters) {
        struct waiter *w = waiter_of(node);

        w->has_news = true;
        if (wait_is_notified(w) || !wait_is_over(ep, w))
            continue;
        if (w == ep->wait.poller)
            needs_poller = true;
        else
            wait_notify_one(w);
    }
    if (needs_poller && ep->wait.is_asleep)
        ep->net.transport->ops->wake(ep->net.transport);
}

OUT_OF_LINE void wait_leave(struct mbx_ep *ep)
{
    if (unlikely(ep->wait.count != 0))
        wait_check(ep);
    if (MBX_CHECKS)
        assert(wait_is_valid(ep));
    lock_give(&ep->wait.lock);
}
