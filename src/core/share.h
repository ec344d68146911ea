/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share.h - long messages that both sides copy, each a part.  Private to src/core; share.c
 * tells how.
 *
 *   receiver                                   sender, waits for FIN
 *   RTS met: reads what follows the early data
 *          SHARE(r, word, the second half) ──> takes the word of r
 *   reads the first half                       writes the second half
 *                           <──── WRITTEN ──   waits for FIN again
 *   the next part, or FIN
 */
#ifndef CORE_SHARE_H
#define CORE_SHARE_H

#include "core/core.h"

/* ---- as a receiver ---- */

/* req is about to read: its sender is asked to write a part, if that is of use.  Then req is
 * SHARED. */
void share_ask(struct mbx_ep *ep, struct request *req);

/* May a receive that lacks so much be shared?  Then share_ask() is called of it. */
static inline bool size_is_shared(const struct mbx_ep *ep, const struct request *req)
{
    return req->total - req->done >= ep->share_from && !(req->flags & REQUEST_SHARED);
}

/* So far req itself reads. */
static inline uint64_t share_end(const struct request *req)
{
    return unlikely(req->flags & REQUEST_SHARED) ? req->share.from : req->total;
}

/* req, SHARED, has read its part, or can read no more (ask: the rest is to come as data).
 * True: it is not SHARED any more and goes on at req->done; false: share_ended() goes on. */
bool share_join(struct mbx_ep *ep, struct request *req, bool ask);

/* Of a SHARED request: its sender says WRITTEN.  0; -EPROTO. */
int share_ended(struct mbx_ep *ep, struct peer *peer, struct request *req,
                const struct wire_packet *packet);

/* The SHARED receive that this WRITTEN names, or NULL. */
struct request *share_named(const struct mbx_ep *ep, const struct peer *peer,
                            uint64_t receiver);

/* req, SHARED, is over: nobody is to write there any more. */
void share_drop(struct mbx_ep *ep, struct request *req);

/* Before the endpoint closes: req is read by us alone if its sender has not begun. */
void share_take_back(struct mbx_ep *ep, struct request *req);

/* Do the invariants hold?  With MBX_CHECKS. */
bool share_is_valid(const struct mbx_ep *ep);

extern const struct module share_module;

#endif
