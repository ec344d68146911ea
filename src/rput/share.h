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

#include "p2p/p2p.h"

enum share_state {
    SHARE_READ = PROTO_STATE(PROTO_SHARE, 0), /* reads its part */
    SHARE_READ_WAIT,                          /* the transport reads its part */
    SHARE_FILLING, /* has its part, its sender writes the other one */
};

/* The receive of this state that a WRITTEN of peer names, or NULL. */
struct request *share_named(const struct mbx_ep *ep, const struct peer *peer,
                            uint64_t receiver);

/* Its sender says WRITTEN.  0; -EPROTO. */
int share_ended(struct mbx_ep *ep, struct peer *peer, struct request *req,
                const struct wire_packet *packet);

/* Do the invariants hold?  With MBX_CHECKS. */
bool share_is_valid(const struct mbx_ep *ep);

extern const struct module share_module;

#endif
