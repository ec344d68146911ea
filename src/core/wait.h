/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.h - the lock of an endpoint, and the threads that wait in it; wait.c, waiter.c,
 * event_fd.c.
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
    /* MBX_THREADS=many: the lock guards the endpoint, except its settings */
    bool has_threads;
    bool detours;     /* sends take the long path: has_threads, or they are recorded */
    bool is_recorded; /* sends are recorded */
    struct lock lock;
    struct list waiters;
    struct waiter *poller; /* the waiter that polls the transport, or NULL */
    uint32_t count;        /* of waiters */
    uint32_t any_count;    /* of waiters for any completion */
    bool is_asleep;        /* the poller sleeps, without the lock */
    bool wakeup_pending;   /* an awaited request has completed, or: */
    bool is_stirred;       /* there is work that a sleeping poller does not know of */
    const struct mbx_sleep_hooks *hooks; /* of a poller in mbx_sleep(), or NULL */
    struct event_fd *event_fd;           /* of mbx_fd(), or NULL */
};

/* Makes each call from now on call `call`, which does not return (forked.h). */
void wait_refuse(struct mbx_ep *ep, void (*call)(void));

/* With many threads: gives the lock, and notifies the waiters whose wait is over. */
void wait_leave(struct mbx_ep *ep);

/* Does a thread wait for this request without a timeout?  Returns the number for
 * mbx_explain_waits(). */
uint32_t wait_is_for(const struct mbx_ep *ep, mbx_request request);

/* The name of a call in which a thread waits for requests without a timeout; NULL: there is
 * none. */
const char *wait_call(const struct mbx_ep *ep);

/* Sleeps once, as the poller, in mbx_close(), while no other thread makes a call.  Under the
 * lock. */
void wait_closing(struct mbx_ep *ep, int64_t timeout_ns);

/* transport_events.sleeps and slept. */
void wait_sleeps(void *ep);
void wait_slept(void *ep);

#endif
