/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked.h - a child that fork() has made, and the endpoints of its parent.
 *
 * Child and parent would write to the same rings, each as if it were alone, and a job hangs or receives
 * something else.  So in the child the lock of each endpoint is refused (lock.h): the first call that wants
 * it logs an error, and ends the child.  The parent notices nothing.  A call costs nothing for that: what guards an endpoint of many
 * threads is there in any case.
 *
 * A child that executes a program, or ends, has made no such call; neither has one that closes the endpoint, which does
 * nothing.  It may open endpoints of its own.
 */
#ifndef CORE_FORKED_H
#define CORE_FORKED_H

#include <stdbool.h>

#include "base/list.h"

struct mbx_ep;

/* Among those of this process. */
struct ep_forked {
    struct list node;
};

/* From when an endpoint is open until it is closed. */
void forked_add(struct mbx_ep *ep);
void forked_remove(struct mbx_ep *ep);

/* Was it opened by the process of which this one is a child? */
bool forked_is_parents(const struct mbx_ep *ep);

#endif
