/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * own.h - an endpoint of many threads (MBX_THREADS=many) that takes no lock yet: for the component,
 * which lets in one thread at a time until a second one calls.
 */
#ifndef CORE_OWN_H
#define CORE_OWN_H

#include <stdbool.h>

struct mbx_ep;

/* From now on ep takes no lock, as with MBX_THREADS=one.  No other thread knows it yet. */
void ep_own(struct mbx_ep *ep);

/* From now on ep takes its lock.  No thread is in a call, except one that may be between the two
 * hooks of mbx_sleep(). */
void ep_share(struct mbx_ep *ep);

/* Was ep opened by the parent of this process? */
bool forked_is_parents(const struct mbx_ep *ep);

#endif
