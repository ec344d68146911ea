/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_fd.h - a descriptor that becomes readable when there may be work.  Part of core.h.
 */
#ifndef CORE_EVENT_FD_H
#define CORE_EVENT_FD_H

#include "core/ep.h"

struct event_fd;

/* From here on only the caller uses the endpoint, until the next mbx_arm(): for calls that
 * sleep in the transport themselves.  Does nothing with MBX_THREADS=many, where the lock
 * protects the endpoint. */
void event_fd_recall_now(struct event_fd *e);

/* Called by the endpoint's only thread.  True: the dozer, if it had been woken, has left the
 * sleep of the transport; the descriptor is unchanged.  False: the dozer sleeps. */
bool event_fd_steps_aside(struct event_fd *e);

static inline void event_fd_recall(struct mbx_ep *ep)
{
    if (unlikely(ep->wait.event_fd != NULL) && !ep->wait.has_threads)
        event_fd_recall_now(ep->wait.event_fd);
}

/* Ends the thread and closes the descriptor, if there is one; no other thread uses ep. */
void event_fd_close(struct mbx_ep *ep);

#endif
