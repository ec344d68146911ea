/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sendtable.h - a table of deferred sends, from which their receiver may pull.  Private to
 * src/defer.
 *
 * The first deferred sends to a peer (backlog.c), while there is space, are in a table in the
 * transport's words for tables (atomics.h), which the peer can load:
 *
 *   version | epoch | count, is_all | claimed    SENDTABLE_HEAD words
 *   entry 0: envelope, data, size, address, key, sender, payload
 *   ...                                          the first deferred sends, in their order
 *   entry SENDTABLE_ENTRIES - 1
 *
 * The version, one word, decides between sender and receiver:
 *
 *   taken:32 | busy:1 | generation:31            taken: bit i: the receiver has entry i
 *
 *   sender                                       receiver (pull.c)
 *   show: write the table,                       read the version and the entries;
 *         then the version, a new generation     decide;
 *   shut: exchange it for busy; messages taken   exchange the version for one with one
 *         until then are the receiver's          more bit: that message is the receiver's
 *
 * So a bit is set only if the table is still as it was read, and the sender learns of it before
 * it does anything with that message.  Neither side waits: a receiver that finds the version
 * busy or changed uses RTRs or PEEKs (receiver.c), and the sender's exchange fails at most once
 * for each entry.
 *
 * A message with which the sender has claimed a receive is marked, and keeps its place before
 * later ones until the claim is resolved: a receive that matches it may not pull a later
 * message.  The receiver ignores marked messages whose claims it has granted, which the sender
 * may not know yet.
 *
 * Invariants
 *   I1  the entries without a taken bit are a prefix of backlog.sends
 *   I2  the epoch is the one of the last DEFER that is sent or owed, and no other table of the
 *       endpoint ever had it; so a peer that has not processed that DEFER, and all packets
 *       before it, pulls nothing
 *   I3  while a table is open, its marks agree with backlog.sends, and backlog.peeked is 0
 *   I4  the sender uses nothing that it reads from the table except the taken bits, and checks
 *       that these are plausible
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
    SENDTABLE_ADDRESS, /* as in an RTS */
    SENDTABLE_KEY,
    SENDTABLE_SENDER,
    SENDTABLE_INSIDE,
    SENDTABLE_ENTRY = SENDTABLE_INSIDE + SENDTABLE_PAYLOAD
};

#define SENDTABLE_WORDS  (SENDTABLE_HEAD + SENDTABLE_ENTRIES * SENDTABLE_ENTRY)
#define SENDTABLE_ALL    (UINT64_C(1) << 32) /* in SENDTABLE_COUNT: no other send is deferred */
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
    uint64_t version; /* the last one that we wrote there */
    uint64_t epoch;
    bool is_used, is_open, is_all;
    bool is_known; /* the peer knows it, or will before it looks */
    uint32_t count;
    uint32_t gone;    /* bits: entries that are no longer deferred */
    uint32_t claimed; /* bits: entries that have claimed a receive; set while the table is
                         open */
    struct request *entries[SENDTABLE_ENTRIES];
    struct list *next; /* the first of backlog.sends after the entries, or its head */
};

/* The most tables of an endpoint. */
#define SENDTABLES_MOST 8

struct sendtables {
    uint32_t count;
    struct sendtable sendtables[SENDTABLES_MOST];
};

/* A table for the deferred sends to peer, shut and empty; NULL: none is free, or the peer
 * cannot use one. */
struct sendtable *sendtable_get(struct mbx_ep *ep, const struct peer *peer, struct list *sends);

/* Shuts it and makes it free, ignoring taken bits. */
void sendtable_give(struct mbx_ep *ep, struct sendtable *sendtable);

/* Ends pulling.  *taken: bits of the entries that the peer has pulled since the table was
 * shown.  0; -EPROTO the peer has written an invalid version: *taken is 0. */
int sendtable_shut(struct mbx_ep *ep, struct sendtable *sendtable, uint32_t *taken);

/* Would sendtable_publish() change the contents of an open table? */
bool sendtable_is_due(const struct sendtable *sendtable, const struct list *sends);

/* Shows the deferred sends, in this epoch; sendtable must be shut. */
void sendtable_publish(struct mbx_ep *ep, const struct peer *peer, struct sendtable *sendtable,
                       struct list *sends, uint64_t epoch);

/* req, which is at next or in the table, leaves the sends. */
void sendtable_forget(struct sendtable *sendtable, const struct request *req);

/* Does its entry contain everything that a receiver needs?  For a longer send, a matched probe,
 * which has no memory for the payload, reads it later. */
static inline bool sendtable_is_short(const struct request *req)
{
    return req->size <= MESSAGE_INLINE && !request_is_in_pieces(req);
}

/* Before the transport is closed: no deferred send can be pulled any more. */
void sendtable_close(struct mbx_ep *ep);
void sendtable_fini(struct mbx_ep *ep);

#endif
