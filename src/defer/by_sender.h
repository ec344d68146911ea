/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * by_sender.h - MBX_MATCH_AT=sender: a lock word decides which sender wins a receive.  Private to
 * src/defer; by_sender.c tells how.
 *
 * claims.c and receiver.c call these functions if a receive has a word, or is to have one.  The
 * ordinary path calls none of them.
 */
#ifndef DEFER_BY_SENDER_H
#define DEFER_BY_SENDER_H

#include "defer/backlog.h"

/* ---- at a receiver with MBX_MATCH_AT=sender ---- */

/* req is open from now on: it gets a word, if one is free. */
void by_sender_open(struct mbx_ep *ep, struct request *req);

/* rtr, which peer will get, names the word of req, if peer can reach it. */
void by_sender_name(const struct mbx_ep *ep, const struct peer *peer, const struct request *req,
                    struct wire_rtr *rtr);

/* req is not open any more. */
void by_sender_close(struct mbx_ep *ep, struct request *req);

/* ---- at a sender, for an RTR with a word ---- */

/* May a word of this receiver be taken now?  No, while a claim without a word is unresolved. */
static inline bool by_sender_may_take(const struct backlog *backlog)
{
    return backlog->locks == backlog->claims;
}

/* req, a claim that is already counted, takes the word before it leaves. */
void by_sender_take(struct mbx_ep *ep, struct peer *peer, struct request *req, uint64_t word,
                    uint64_t owner_id);

#endif
