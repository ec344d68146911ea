/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked.h - protects the endpoints of a process from its children after fork().
 *
 * Child and parent would both write to the same rings, and the job would hang or receive wrong
 * data.  So in the child the lock of each endpoint is refused (lock.h): the first call that
 * takes it logs an error and ends the child.  The parent is not affected.  This adds no cost to
 * a call: it uses the lock that endpoints with many threads have in any case.
 *
 * A child may execute a program, or end.  It may also close the endpoint, which does nothing,
 * and open endpoints of its own.
 */
#ifndef CORE_FORKED_H
#define CORE_FORKED_H

#include <stdbool.h>

#include "base/list.h"
#include "core/own.h"

struct mbx_ep;

/* Links the endpoints of this process. */
struct ep_forked {
    struct list node;
};

/* Called when an endpoint has been opened, and when it is closed. */
void forked_add(struct mbx_ep *ep);
void forked_remove(struct mbx_ep *ep);

#endif
