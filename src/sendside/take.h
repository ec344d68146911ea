/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * take.h - messages that their receiver takes out of its sender's table.  Private to src/core;
 * offer.h has the table.
 */
#ifndef CORE_TAKE_H
#define CORE_TAKE_H

#include "sendside/hold.h"
#include "sendside/offer.h"

/* Where a peer's messages lie, as its HOLD said; index 0: nowhere. */
struct take_table {
    uint64_t index, epoch;
    uint64_t granted[HOLD_CLAIMS]; /* sends whose claims were the last that were good */
    uint32_t granted_count;
};

/* This send of the peer has claimed a receive, and has it. */
static inline void take_granted(struct take_table *table, uint64_t sender)
{
    table->granted[table->granted_count++ % HOLD_CLAIMS] = sender;
}

/* A message in a table, and the version that it was seen with. */
struct take {
    uint64_t version;
    uint32_t entry;
    uint64_t payload[OFFER_PAYLOAD];
    struct wire_rts rts;
    struct arrival arrival; /* payload and rts point to what is above */
};

/* Looks for the first message in the table that such a receive would take; source is the peer.
 * 1 *take, which stays where it is; 0 the peer holds none; -EAGAIN it is not known; or as
 * transport_load(). */
int take_find(const struct peer *peer, const struct take_table *table,
              const struct mbx_match_envelope *envelope, uint64_t ignore, struct take *take);

/* Takes the message: compares and swaps our bit into the version of the table.  True: it is
 * ours.  False: the table has changed since take_find(), and stays as it is. */
bool take_have(const struct peer *peer, const struct take_table *table,
               const struct take *take);

/* It is still there. */
bool take_is_there(const struct peer *peer, const struct take_table *table,
                   const struct take *take);

#endif
