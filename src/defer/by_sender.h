/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * by_sender.h - MBX_MATCH_AT=sender: a lock word decides which sender wins a receive.  Private
 * to src/defer; see by_sender.c.
 *
 * claims.c and receiver.c call these functions only if a receive has a word, or will get one.
 */
#ifndef DEFER_BY_SENDER_H
#define DEFER_BY_SENDER_H

#include "defer/backlog.h"

/* ---- at a receiver with MBX_MATCH_AT=sender ---- */

/* req becomes open: it gets a word, if one is free. */
void by_sender_open(struct mbx_ep *ep, struct request *req);

/* Puts the word of req into rtr, for peer, if peer can reach it. */
void by_sender_name(const struct mbx_ep *ep, const struct peer *peer, const struct request *req,
                    struct wire_rtr *rtr);

/* req is no longer open. */
void by_sender_close(struct mbx_ep *ep, struct request *req);

/* ---- at a sender, for an RTR with a word ---- */

/* May a word of this receiver be taken now?  Not while a claim without a word is unresolved. */
static inline bool by_sender_may_take(const struct backlog *backlog)
{
    return backlog->locks == backlog->claims;
}

/* req, which counts as a claim, takes the word before the claim leaves. */
void by_sender_take(struct mbx_ep *ep, struct peer *peer, struct request *req, uint64_t word,
                    uint64_t owner_id);

#endif
