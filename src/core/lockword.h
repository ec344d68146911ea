/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lockword.h - which sender wins a receive.  Part of core.h.
 *
 * Several senders may have a message for one receive.  Two mechanisms can decide between them:
 *
 *   a word    in memory of the receiver that the transport lets the senders compare and
 *             exchange (transport_cswap(): atomics in shared memory, or of the network's
 *             provider).  One exchange takes the lock and records its owner.  Then the sender
 *             notifies the receiver, which learns the owner from the word even if the winner
 *             dies before that
 *   claims    the receiver itself: it gives the receive to the first claim that it processes
 *
 * With MBX_MATCH_AT=sender a receive has a word while one is free; all other receives are
 * decided by claims.  Without that setting, a receive that is advertised to one sender has a
 * word (advert_recv.c): only that sender may take it, and the word decides between that sender
 * and a cancel.
 *
 *   word      generation:32 | state:8 | owner:24       the owner is our number for the sender
 *   name      generation:32 | index + 1                of a word, as in an RTR
 *
 *   CLOSED ──lockword_open──> OPEN ──lockword_take, by a sender──> TAKEN
 *     ^                        └────lockword_close─────┐             │
 *     └───────────────────────────────────────────────┴─────────────┘ lockword_close
 *
 * The generation is new each time a word is opened, so a late exchange does not find the value
 * that it expects.
 */
#ifndef CORE_LOCKWORD_H
#define CORE_LOCKWORD_H

#include "core/ep.h"

/* ---- only for lockword.c and lockword_valid.c ---- */

enum word_state { WORD_CLOSED, WORD_OPEN, WORD_TAKEN };

#define OWNER_BITS 24
#define OWNER_MAX  ((UINT32_C(1) << OWNER_BITS) - 1)

/* Glossary: lock word - a word for one receive that senders compare and swap */
struct lockwords {
    uint32_t count, free_count;
    uint32_t *free;  /* indices */
    uint64_t last[]; /* [count]: the last value that we wrote there */
};

static inline uint64_t lockword_make(uint32_t generation, enum word_state state, uint32_t owner)
{
    return (uint64_t)generation << 32 | (uint64_t)state << OWNER_BITS | owner;
}

/* ---- for others ---- */

/* 0; -ENOMEM. */
int lockword_init(struct mbx_ep *ep);
void lockword_fini(struct mbx_ep *ep);

/* A receive becomes visible to senders: *name names its word, or is 0. */
void lockword_open(struct mbx_ep *ep, uint64_t *name);

/* Closes the word, so that no sender can win the receive any more; the word is free, and *name
 * is 0.  False: a sender has won, and nothing has changed.  heir: the only sender that may take
 * the word, or MBX_ANY_SOURCE; values from other senders are ignored. */
bool lockword_close(struct mbx_ep *ep, uint64_t *name, uint32_t heir);

/* The receive is matched although a sender has taken its word: that sender's claim is lost, and
 * the word is free. */
void lockword_abandon(struct mbx_ep *ep, uint64_t *name);

/* peer asks for the receive: it reports that it has won (has_won), or claims it.  True: peer
 * gets it, and the word is free. */
bool lockword_give(struct mbx_ep *ep, uint64_t *name, const struct peer *peer, bool has_won);

/* Our number of the sender that has taken the word; MBX_ANY_SOURCE: none has. */
uint32_t lockword_owner(const struct mbx_ep *ep, uint64_t name);

/* As lockword_owner(), by a plain load of the word: cheap enough to repeat, but a change by a
 * network adapter may be seen late. */
uint32_t lockword_owner_seen(const struct mbx_ep *ep, uint64_t name);

/* For a sender: takes the word of this name at peer, whose number for us is `owner_id`.  0 the
 * word is ours; -EINPROGRESS transport_events.cswap_done(cookie) reports the result, unless
 * cookie is 0; -EALREADY it is no longer open; other: it cannot be reached, so claim. */
int lockword_take(const struct peer *peer, uint64_t name, uint64_t owner_id, uint64_t cookie);

#endif
