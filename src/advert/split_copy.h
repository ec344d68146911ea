/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split_copy.h - long messages that both sides copy, each a part.  Private to src/advert; split_copy.c
 * tells how.
 *
 *   receiver                                   sender, waits for FIN
 *   RTS met: reads what follows the RTS payload
 *           SPLIT_COPY(r, word, the second half) ──> takes the word of r
 *   reads the first half                       writes the second half
 *                           <──── WRITTEN ──   waits for FIN again
 *   the next part, or FIN
 */
#ifndef ADVERT_SPLIT_COPY_H
#define ADVERT_SPLIT_COPY_H

#include "advert/advert.h"

enum split_copy_state {
    SPLIT_COPY_READ = PROTO_STATE(PROTO_SPLIT_COPY, 0), /* reads its part */
    SPLIT_COPY_READ_WAIT,                               /* the transport reads its part */
    SPLIT_COPY_FILLING, /* has its part, its sender writes the other one */
};

/* The receive of this state that a WRITTEN of peer names, or NULL. */
struct request *split_copy_named(const struct mbx_ep *ep, const struct peer *peer,
                                 uint64_t receiver);

/* Its sender says WRITTEN.  0; -EPROTO. */
int split_copy_ended(struct mbx_ep *ep, struct peer *peer, struct request *req,
                     const struct wire_packet *packet);

/* Do the invariants hold?  With MBX_CHECKS. */
bool split_copy_is_valid(const struct mbx_ep *ep);

#endif
