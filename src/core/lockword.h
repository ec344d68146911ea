/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lockword.h - which sender wins a receive.  Part of core.h.
 *
 * Several senders may have a message that suits one receive.  Two things can decide between
 * them:
 *
 *   a word    in memory of the receiver that the transport lets the senders compare and
 *             exchange (transport_cswap(): atomics in shared memory, or of the network's
 *             provider).  One exchange takes the lock and says who has it; then the receiver is
 *             told, and learns it from the word even if the winner dies before
 *   claims    the receiver itself: it gives the receive to the first claim that it processes
 *
 * A receive has a word with MBX_MATCH_AT=sender, while there is one free; all others are
 * decided by claims.  Without that, a receive that is advertised to one sender has one
 * (advert_recv.c): nobody else may take it, and it stands between that sender and a cancel.
 *
 *   word      generation:32 | state:8 | owner:24       the owner is our number of the sender
 *   name      generation:32 | index + 1                of a word, as it stands in an RTR
 *
 *   CLOSED ──lockword_open──> OPEN ──lockword_take, by a sender──> TAKEN
 *     ^                        └────lockword_close─────┐             │
 *     └───────────────────────────────────────────────┴─────────────┘ lockword_close
 *
 * The generation is new each time a word is opened, so an exchange that comes late meets
 * another word than it expects.
 */
#ifndef CORE_LOCKWORD_H
#define CORE_LOCKWORD_H

#include "core/ep.h"

/* ---- of lockword.c alone, and of lockword_valid.c ---- */

enum word_state { WORD_CLOSED, WORD_OPEN, WORD_TAKEN };

#define OWNER_BITS 24
#define OWNER_MAX  ((UINT32_C(1) << OWNER_BITS) - 1)

/* Glossary: lock word - a word for one receive that senders compare and swap */
struct lockwords {
    uint32_t count, free_count;
    uint32_t *free;  /* indexes */
    uint64_t last[]; /* [count]: what we have left there */
};

static inline uint64_t lockword_make(uint32_t generation, enum word_state state, uint32_t owner)
{
    return (uint64_t)generation << 32 | (uint64_t)state << OWNER_BITS | owner;
}

/* ---- for others ---- */

/* 0; -ENOMEM. */
int lockword_init(struct mbx_ep *ep);
void lockword_fini(struct mbx_ep *ep);

/* A receive becomes open for senders: *name names its word, or is 0. */
void lockword_open(struct mbx_ep *ep, uint64_t *name);

/* Nobody is to win the receive any more; its word is free, and *name is 0.  False: a sender has
 * it, and nothing has changed.  heir: the only one who knows the word, or MBX_ANY_SOURCE; what
 * anybody else writes there does not count. */
bool lockword_close(struct mbx_ep *ep, uint64_t *name, uint32_t heir);

/* The receive is matched though a sender has taken its word, which is free then: its claim is
 * lost. */
void lockword_abandon(struct mbx_ep *ep, uint64_t *name);

/* peer is to have the receive: it says so (has_won), or it claims it.  True: so it is, and the
 * word is free. */
bool lockword_give(struct mbx_ep *ep, uint64_t *name, const struct peer *peer, bool has_won);

/* Our number of the sender who has taken the word; MBX_ANY_SOURCE: nobody has. */
uint32_t lockword_owner(const struct mbx_ep *ep, uint64_t name);

/* As lockword_owner(), by a plain load of the word: cheap enough to repeat, but where an adapter
 * writes the word the change may be seen late. */
uint32_t lockword_owner_seen(const struct mbx_ep *ep, uint64_t name);

/* At a sender: takes the word of this name at peer, whose number for us is `owner_id`.
 * 0 it is ours; -EINPROGRESS transport_events.cswap_done(cookie) will tell, unless cookie is 0;
 * -EALREADY it is not open any more; other: it cannot be reached, so claim. */
int lockword_take(const struct peer *peer, uint64_t name, uint64_t owner_id, uint64_t cookie);

#endif
