/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_table.h - the links of an endpoint, found by the address of the other side.
 *
 * A hash table of pointers.  A link that is taken out leaves no hole: those behind it move up.
 *
 * Invariants
 *   I1  at most three quarters of the slots are taken: a search ends
 *   I2  a link stands behind the slot of its hash with no empty slot between
 *   I3  no two links have the same address
 */
#ifndef TRANSPORT_LINK_TABLE_H
#define TRANSPORT_LINK_TABLE_H

#include "base/base.h"
#include "transport/transport.h"

/* What the link of a transport starts with. */
struct link_member {
    struct link link;
    struct transport_address address; /* of the other side */
    bool named; /* the core knows it: through connect(), or an accept() that said yes */
};

struct link_table {
    struct link_member **slots;
    size_t slot_count; /* 0 or a power of two */
    size_t count;
};

/* Zero-filled memory is an empty table. */
void link_table_init(struct link_table *links);

/* Frees the table, not the links. */
void link_table_fini(struct link_table *links);

/* The link to this address, or NULL. */
struct link_member *link_table_find(const struct link_table *links,
                                    const struct transport_address *address);

/* Adds a link whose address is not yet there.  0; -ENOMEM. */
int link_table_add(struct link_table *links, struct link_member *member);

/* Takes out a link that is there. */
void link_table_remove(struct link_table *links, const struct link_member *member);

/* The first link at slot *position or behind, and *position behind it; NULL at the
 * end.  Start with 0.  What is taken out meanwhile may hide another one from this round. */
struct link_member *link_table_next(const struct link_table *links, size_t *position);

#endif
