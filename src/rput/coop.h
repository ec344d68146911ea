/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coop.h - long messages that both sides copy, each a part.  Private to src/rput; coop.c
 * tells how.
 *
 *   receiver                                   sender, waits for FIN
 *   RTS met: reads what follows the RTS payload
 *           COOP(r, word, the second half) ──> takes the word of r
 *   reads the first half                       writes the second half
 *                           <──── WRITTEN ──   waits for FIN again
 *   the next part, or FIN
 */
#ifndef RPUT_COOP_H
#define RPUT_COOP_H

#include "rput/rput.h"

enum coop_state {
    COOP_READ = PROTO_STATE(PROTO_COOP, 0), /* reads its part */
    COOP_READ_WAIT,                         /* the transport reads its part */
    COOP_FILLING,                           /* has its part, its sender writes the other one */
};

/* The receive of this state that a WRITTEN of peer names, or NULL. */
struct request *coop_named(const struct mbx_ep *ep, const struct peer *peer, uint64_t receiver);

/* Its sender says WRITTEN.  0; -EPROTO. */
int coop_ended(struct mbx_ep *ep, struct peer *peer, struct request *req,
               const struct wire_packet *packet);

/* Do the invariants hold?  With MBX_CHECKS. */
bool coop_is_valid(const struct mbx_ep *ep);

#endif
