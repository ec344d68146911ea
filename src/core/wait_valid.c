/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait_valid.c - checks the waiters and their notifications: wait.c I1 to I3, when the lock is
 * given.
 */
#include "core/valid.h"

#include "core/core.h"
#include "core/waiter.h"

static bool is_any_done(const struct mbx_ep *ep, unsigned queues)
{
    for (unsigned queue = MBX_SENDS; queue <= MBX_EVENTS; queue <<= 1)
        if ((queues & queue) && !list_is_empty(&ep->requests.done[queue]))
            return true;
    return false;
}

/* As wait_is_over(), but changes nothing, and without the queue MBX_FAILURES. */
static bool wait_valid_is_over(const struct mbx_ep *ep, const struct waiter *w)
{
    if (w->request != 0)
        return wait_request_is_over(ep, w->request);
    if (w->array == NULL)
        return is_any_done(ep, w->queues);
    for (int i = 0; i < w->array_count; i++)
        if (w->array[i] != 0 && wait_request_is_over(ep, w->array[i]))
            return true;
    return false;
}

bool wait_is_valid(const struct mbx_ep *ep)
{
    uint32_t waiters = 0, notified = 0, any = 0;
    struct list *node;

    list_for_each (node, &ep->wait.waiters) {
        const struct waiter *w = waiter_of(node);

        waiters++;
        notified += wait_is_notified(w);
        any += w->request == 0 && w->array == NULL;
        if (!HOLDS("wait.c I1",
                   w == ep->wait.poller || wait_is_notified(w) || !wait_valid_is_over(ep, w)))
            return false;
    }
    return HOLDS("wait.c I2", waiters == 0 || ep->wait.poller != NULL || notified != 0) &&
           HOLDS("wait.c I2", waiters == ep->wait.count && any == ep->wait.any_count) &&
           HOLDS("wait.c I3", !ep->wait.is_asleep || ep->wait.poller != NULL) &&
           HOLDS("wait.c I3",
                 !ep->wait.is_asleep || !(ep->wait.is_stirred || ep->wait.wakeup_pending));
}
