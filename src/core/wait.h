/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - the lock of an endpoint, and who waits in it; wait.c, waiter.c, event_fd.c.
 */
#ifndef CORE_WAIT_H
#define CORE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include <matchbox/matchbox.h>

#include "base/list.h"
#include "base/lock.h"

struct event_fd;
struct mbx_ep;
struct waiter;

struct ep_wait {
    /* MBX_THREADS=many: the endpoint, but for its settings, is guarded by lock */
    bool has_threads;
    bool detours; /* calls that send take the long way: has_threads, or they are recorded */
    struct lock lock;
    struct list waiters;
    struct waiter *poller; /* the one of them that polls the transport, or NULL */
    uint32_t count;        /* of waiters */
    uint32_t any_count;    /* of those that wait for any completion */
    bool is_asleep;        /* the poller sleeps, and does not hold the lock */
    bool wakeup_pending;   /* an awaited request has completed, or: */
    bool is_stirred;       /* there is something to do that the sleeper does not know of */
    const struct mbx_sleep_hooks *hooks; /* of a poller in mbx_sleep(), or NULL */
    struct event_fd *event_fd;           /* of mbx_fd(), or NULL */
};

/* Whoever makes a call from now on has `call` called, which does not return (forked.h). */
void wait_refuse(struct mbx_ep *ep, void (*call)(void));

/* With many threads: gives the lock, and notifies those whose wait is over. */
void wait_leave(struct mbx_ep *ep);

/* Does a thread wait for this request, for as long as it takes?  The number of mbx_explain_waits(). */
uint32_t wait_is_for(const struct mbx_ep *ep, mbx_request request);

/* The call by which a thread waits for requests as long as it takes; NULL: none does. */
const char *wait_call(const struct mbx_ep *ep);

/* Sleeps once, as the poller, in mbx_close(): nobody else makes a call.  Under the lock. */
void wait_closing(struct mbx_ep *ep, int64_t timeout_ns);

/* As transport_events.sleeps and slept. */
void wait_sleeps(void *ep);
void wait_slept(void *ep);

#endif
