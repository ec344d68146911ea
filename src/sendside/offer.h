/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offer.h - held sends that their receiver may take by itself.  Private to src/core.
 *
 * What a sender holds for a peer (hold.c) lies, as far as there is room, in a table on its
 * transport's words for tables (atomics.h), where the peer loads it:
 *
 *   version | epoch | count, is_all | claimed    OFFER_HEAD words
 *   entry 0: envelope, data, size, address, key, sender, payload
 *   ...                                          the first sends that are held, in their order
 *   entry OFFER_ENTRIES - 1
 *
 * The version is the arbiter between the two, one word:
 *
 *   taken:32 | busy:1 | generation:31            taken: bit i, entry i is the receiver's
 *
 *   sender                                       receiver (take.c)
 *   show: write the table,                       read the version, and what the table has;
 *         then the version, a new generation     decide;
 *   shut: exchange it for busy; what has been    exchange the version for the same with one
 *         taken until then is the receiver's     more bit: that message is its own
 *
 * So a bit is set only in a table that is as it was read, and by who has the bit the sender
 * knows of it before it does anything with that message.  Nobody waits for anybody: who finds
 * the version busy or changed goes the other way (reach.c), and the sender's exchange fails at
 * most once for each entry.
 *
 * A message with which the sender has claimed a receive is marked, and stands before later ones
 * until the claim is resolved: what it suits is not taken past it.  The receiver knows the
 * claims that it has granted, of which the sender may not have heard yet; these are gone.
 *
 * Invariants
 *   I1  the entries are a prefix of hold.sends, but for those whose bit is set
 *   I2  the epoch is that of the last HOLD that is sent or owed, and no other table of the
 *       endpoint ever had it; so who has not processed that HOLD, behind whatever left before
 *       it, takes nothing
 *   I3  while a table is open, its marks are those of hold.sends, and !hold.is_peeked
 *   I4  nothing that was read from the table is used, but for the taken bits, and these are
 *       compared with what may be
 */
#ifndef CORE_OFFER_H
#define CORE_OFFER_H

#include "p2p/p2p.h"

#define OFFER_ENTRIES 32
#define OFFER_PAYLOAD 128 /* words of payload in an entry */

/* ---- in the words for tables ---- */

enum offer_head { OFFER_VERSION, OFFER_EPOCH, OFFER_COUNT, OFFER_CLAIMED, OFFER_HEAD = 8 };

enum offer_entry {
    OFFER_CONTEXT, /* the id; the upper half is 1 if the whole payload is in the entry */
    OFFER_TAG,
    OFFER_DATA,
    OFFER_SIZE,
    OFFER_ADDRESS, /* as of an RTS */
    OFFER_KEY,
    OFFER_SENDER,
    OFFER_INSIDE,
    OFFER_ENTRY = OFFER_INSIDE + OFFER_PAYLOAD
};

#define OFFER_WORDS  (OFFER_HEAD + OFFER_ENTRIES * OFFER_ENTRY)
#define OFFER_ALL    (UINT64_C(1) << 32) /* in OFFER_COUNT: nothing else is held */
#define OFFER_INLINE (sizeof(uint64_t) * OFFER_PAYLOAD)
#define OFFER_BUSY   (UINT64_C(1) << 31)

static_assert(OFFER_INLINE >= MESSAGE_INLINE, "needs no address");
static_assert(OFFER_ENTRIES == 32, "bits in the version");

static inline uint32_t offer_taken(uint64_t version)
{
    return (uint32_t)(version >> 32);
}

static inline uint64_t offer_bit(uint32_t i)
{
    return UINT64_C(1) << (32 + i);
}

/* The word of entry i of the table whose first word is at index. */
static inline uint64_t offer_at(uint64_t index, uint32_t i)
{
    return index + OFFER_HEAD + (uint64_t)i * OFFER_ENTRY;
}

/* ---- as a sender ---- */

struct offer {
    uint64_t index;   /* of its first word */
    uint64_t version; /* what we have left there */
    uint64_t epoch;
    bool is_used, is_open, is_all;
    bool is_known; /* the peer has heard of it, or will before it looks */
    uint32_t count;
    uint32_t gone;    /* bits: of these, no longer held */
    uint32_t claimed; /* ... claimed with; while it is open */
    struct request *entries[OFFER_ENTRIES];
    struct list *next; /* the first of hold.sends that is in none of them, or its head */
};

/* Of an endpoint, at most. */
#define OFFERS_MOST 8

struct offers {
    uint32_t count;
    struct offer offers[OFFERS_MOST];
};

/* A table for what is held for peer, shut and empty; NULL: none is free, or it cannot have one.
 */
struct offer *offer_get(struct mbx_ep *ep, const struct peer *peer, struct list *sends);

/* It is free again.  Shuts it, whatever was taken. */
void offer_give(struct mbx_ep *ep, struct offer *offer);

/* Nobody takes anything any more.  *taken: bits of the entries that the peer has taken since it
 * was shown.  0; -EPROTO the peer has written what it must not: *taken is 0. */
int offer_shut(struct mbx_ep *ep, struct offer *offer, uint32_t *taken);

/* Would offer_show() change what an open table has? */
bool offer_is_due(const struct offer *offer, const struct list *sends);

/* Shows what is held, which is in this epoch; offer is shut. */
void offer_show(struct mbx_ep *ep, const struct peer *peer, struct offer *offer,
                struct list *sends, uint64_t epoch);

/* req, which stands at next or in the table, leaves the sends. */
void offer_forget(struct offer *offer, const struct request *req);

/* Whoever takes it needs nothing but what is in the entry.  Of a longer one a matched probe,
 * which has no memory for the payload, fetches that later. */
static inline bool offer_is_short(const struct request *req)
{
    return req->size <= MESSAGE_INLINE;
}

/* Before the transport is closed: nothing that we hold can be taken any more. */
void offer_close(struct mbx_ep *ep);
void offer_fini(struct mbx_ep *ep);

#endif
