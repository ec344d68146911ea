/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split_copy.h - lets both sides copy a part each of a long message.  Private to src/advert;
 * see split_copy.c.
 *
 *   receiver                                   sender, waits for FIN
 *   RTS matched: reads the bytes after the RTS payload
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
    SPLIT_COPY_FILLING, /* has read its part, its sender writes the other one */
};

/* The receive in this protocol that a WRITTEN of peer names, or NULL. */
struct request *split_copy_named(const struct mbx_ep *ep, const struct peer *peer,
                                 uint64_t receiver);

/* The sender of req has sent WRITTEN.  0; -EPROTO. */
int split_copy_ended(struct mbx_ep *ep, struct peer *peer, struct request *req,
                     const struct wire_packet *packet);

/* Checks the invariants.  With MBX_CHECKS. */
bool split_copy_is_valid(const struct mbx_ep *ep);

#endif
