/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sendtable.h - deferred sends that their receiver may take by itself.  Private to
 * src/defer.
 *
 * The deferred sends to a peer (backlog.c) are, as far as there is space, in a table on its
 * transport's words for tables (atomics.h), where the peer loads it:
 *
 *   version | epoch | count, is_all | claimed    SENDTABLE_HEAD words
 *   entry 0: envelope, data, size, address, key, sender, payload
 *   ...                                          the first sends that are deferred, in their order
 *   entry SENDTABLE_ENTRIES - 1
 *
 * The version decides between the two, one word:
 *
 *   taken:32 | busy:1 | generation:31            taken: bit i, entry i is the receiver's
 *
 *   sender                                       receiver (pull.c)
 *   show: write the table,                       read the version, and what the table has;
 *         then the version, a new generation     decide;
 *   shut: exchange it for busy; what has been    exchange the version for the same with one
 *         taken until then is the receiver's     more bit: that message is its own
 *
 * So a bit is set only in a table that is as it was read, and by who has the bit the sender
 * knows of it before it does anything with that message.  Nobody waits for anybody: who finds
 * the version busy or changed goes the other way (receiver.c), and the sender's exchange fails
 * at most once for each entry.
 *
 * A message with which the sender has claimed a receive is marked, and stands before later ones
 * until the claim is resolved: what it suits is not taken past it.  The receiver knows the
 * claims that it has granted, of which the sender may not have heard yet; these are gone.
 *
 * Invariants
 *   I1  the entries are a prefix of backlog.sends, but for those whose bit is set
 *   I2  the epoch is that of the last DEFER that is sent or owed, and no other table of the
 *       endpoint ever had it; so who has not processed that DEFER, behind whatever left before
 *       it, takes nothing
 *   I3  while a table is open, its marks are those of backlog.sends, and backlog.peeked is 0
 *   I4  nothing that was read from the table is used, but for the taken bits, and these are
 *       compared with what may be
 */
#ifndef DEFER_SENDTABLE_H
#define DEFER_SENDTABLE_H

#include "p2p/p2p.h"

#define SENDTABLE_ENTRIES 32
#define SENDTABLE_PAYLOAD 128 /* words of payload in an entry */

/* ---- in the words for tables ---- */

enum sendtable_head {
    SENDTABLE_VERSION,
    SENDTABLE_EPOCH,
    SENDTABLE_COUNT,
    SENDTABLE_CLAIMED,
    SENDTABLE_HEAD = 8
};

enum sendtable_entry {
    SENDTABLE_CONTEXT, /* the id; the upper half is 1 if the whole payload is in the entry */
    SENDTABLE_TAG,
    SENDTABLE_DATA,
    SENDTABLE_SIZE,
    SENDTABLE_ADDRESS, /* as of an RTS */
    SENDTABLE_KEY,
    SENDTABLE_SENDER,
    SENDTABLE_INSIDE,
    SENDTABLE_ENTRY = SENDTABLE_INSIDE + SENDTABLE_PAYLOAD
};

#define SENDTABLE_WORDS  (SENDTABLE_HEAD + SENDTABLE_ENTRIES * SENDTABLE_ENTRY)
#define SENDTABLE_ALL    (UINT64_C(1) << 32) /* in SENDTABLE_COUNT: nothing else is deferred */
#define SENDTABLE_INLINE (sizeof(uint64_t) * SENDTABLE_PAYLOAD)
#define SENDTABLE_BUSY   (UINT64_C(1) << 31)

static_assert(SENDTABLE_INLINE >= MESSAGE_INLINE, "needs no address");
static_assert(SENDTABLE_ENTRIES == 32, "bits in the version");

static inline uint32_t sendtable_pulled(uint64_t version)
{
    return (uint32_t)(version >> 32);
}

static inline uint64_t sendtable_bit(uint32_t i)
{
    return UINT64_C(1) << (32 + i);
}

/* The word of entry i of the table whose first word is at index. */
static inline uint64_t sendtable_at(uint64_t index, uint32_t i)
{
    return index + SENDTABLE_HEAD + (uint64_t)i * SENDTABLE_ENTRY;
}

/* ---- as a sender ---- */

/* Glossary: send table - the first deferred sends for a peer, in shared memory, with a version
 * word */
struct sendtable {
    uint64_t index;   /* of its first word */
    uint64_t version; /* what we have left there */
    uint64_t epoch;
    bool is_used, is_open, is_all;
    bool is_known; /* the peer has heard of it, or will before it looks */
    uint32_t count;
    uint32_t gone;    /* bits: of these, no longer deferred */
    uint32_t claimed; /* ... claimed with; while it is open */
    struct request *entries[SENDTABLE_ENTRIES];
    struct list *next; /* the first of backlog.sends that is in none of them, or its head */
};

/* Of an endpoint, at most. */
#define SENDTABLES_MOST 8

struct sendtables {
    uint32_t count;
    struct sendtable sendtables[SENDTABLES_MOST];
};

/* A table for what is deferred for peer, shut and empty; NULL: none is free, or it cannot have
 * one.
 */
struct sendtable *sendtable_get(struct mbx_ep *ep, const struct peer *peer, struct list *sends);

/* It is free again.  Shuts it, whatever was taken. */
void sendtable_give(struct mbx_ep *ep, struct sendtable *sendtable);

/* Nobody takes anything any more.  *taken: bits of the entries that the peer has taken since it
 * was shown.  0; -EPROTO the peer has written what it must not: *taken is 0. */
int sendtable_shut(struct mbx_ep *ep, struct sendtable *sendtable, uint32_t *taken);

/* Would sendtable_publish() change what an open table has? */
bool sendtable_is_due(const struct sendtable *sendtable, const struct list *sends);

/* Shows what is deferred, which is in this epoch; sendtable is shut. */
void sendtable_publish(struct mbx_ep *ep, const struct peer *peer, struct sendtable *sendtable,
                       struct list *sends, uint64_t epoch);

/* req, which stands at next or in the table, leaves the sends. */
void sendtable_forget(struct sendtable *sendtable, const struct request *req);

/* Whoever takes it needs nothing but what is in the entry.  Of a longer one a matched probe,
 * which has no memory for the payload, fetches that later. */
static inline bool sendtable_is_short(const struct request *req)
{
    return req->size <= MESSAGE_INLINE && !request_is_in_pieces(req);
}

/* Before the transport is closed: nothing that we defer can be taken any more. */
void sendtable_close(struct mbx_ep *ep);
void sendtable_fini(struct mbx_ep *ep);

#endif
