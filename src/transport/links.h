/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - the links of an endpoint, found by the address of the other side.
 *
 * A hash table of pointers.  A link lives as long as its endpoint, so nothing is ever
 * taken out.
 *
 * Invariants
 *   I1  at most three quarters of the slots are taken: a search ends
 *   I2  a link stands behind the slot of its hash with no empty slot between
 *   I3  no two links have the same address
 */
#ifndef TRANSPORT_LINKS_H
#define TRANSPORT_LINKS_H

#include "base/base.h"
#include "transport/transport.h"

/* What the link of a transport starts with. */
struct links_member {
    struct link link;
    struct transport_address address; /* of the other side */
    bool named; /* the core knows it: through connect(), or an accept() that said yes */
};

struct links {
    struct links_member **slots;
    size_t slot_count; /* 0 or a power of two */
    size_t count;
};

/* Zero-filled memory is an empty table. */
void links_init(struct links *links);

/* Frees the table, not the links. */
void links_fini(struct links *links);

/* The link to this address, or NULL. */
struct links_member *links_find(const struct links *links,
                                const struct transport_address *address);

/* Adds a link whose address is not yet there.  0; -ENOMEM. */
int links_add(struct links *links, struct links_member *member);

/* The first link at slot *position or behind, and *position behind it; NULL at the
 * end.  Start with 0. */
struct links_member *links_next(const struct links *links, size_t *position);

#endif
