/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull.h - lets a receiver pull messages out of its sender's table.  Private to src/defer;
 * sendtable.h describes the table.
 */
#ifndef DEFER_PULL_H
#define DEFER_PULL_H

#include "defer/backlog.h"
#include "defer/sendtable.h"

/* The peer's table, from its DEFER; index 0: none. */
struct pull_table {
    uint64_t index, epoch;
    uint64_t granted[BACKLOG_CLAIMS]; /* the sends whose claims were granted last */
    uint32_t granted_count;
};

/* Notes that this send of the peer has claimed a receive and got it. */
static inline void pull_granted(struct pull_table *table, uint64_t sender)
{
    table->granted[table->granted_count++ % BACKLOG_CLAIMS] = sender;
}

/* Glossary: pull - take a message out of the send table, by compare-and-swap of its version */
/* A message in a table, and the version of the table when it was seen. */
struct pull {
    uint64_t version;
    uint32_t entry;
    uint64_t payload[SENDTABLE_PAYLOAD];
    struct wire_rts rts;
    struct arrival arrival; /* payload and rts point to the members above */
};

/* Searches for the first message in the table that such a receive would match; source is the
 * peer. 1 *pull, which stays in the table; 0 the peer defers none; -EAGAIN not known; or as
 * transport_load(). */
int pull_find(const struct peer *peer, const struct pull_table *table,
              const struct mbx_match_envelope *envelope, uint64_t ignore, struct pull *pull);

/* Pulls the message: compares and swaps our bit into the version of the table.  True: it is
 * ours.  False: the table has changed since pull_find(), and stays as it is. */
bool pull_commit(const struct peer *peer, const struct pull_table *table,
                 const struct pull *pull);

/* Is it still there? */
bool pull_is_there(const struct peer *peer, const struct pull_table *table,
                   const struct pull *pull);

#endif
