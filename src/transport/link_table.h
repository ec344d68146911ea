/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_table.h - the links of an endpoint, found by the address of the other side.
 *
 * A link is found by its name: its address, unless the transport says what else (struct link_naming),
 * because there are many and each is to be short.
 *
 * Invariant
 *   I1  no two links have the same name
 */
#ifndef TRANSPORT_LINK_TABLE_H
#define TRANSPORT_LINK_TABLE_H

#include "base/base.h"
#include "base/hash.h"
#include "transport/transport.h"

/* What the link of a transport starts with that is found by its address. */
struct link_member {
    struct link link;
    struct transport_address address; /* of the other side */
    bool named; /* the core knows it: through connect(), or an accept() that said yes */
};

/* How else links are named. */
struct link_naming {
    uint32_t (*hash)(const struct link *link); /* of its name */
    bool (*is)(const struct link *link, const void *name);
};

struct link_table {
    struct hash hash;                 /* of pointers to them */
    const struct link_naming *naming; /* NULL: they are struct link_members */
};

/* Zero-filled memory is an empty table of struct link_members. */
void link_table_init(struct link_table *links, const struct link_naming *naming);

/* Frees the table, not the links. */
void link_table_fini(struct link_table *links);

/* The link of this name, which has this hash, or NULL. */
struct link *link_table_find_by(const struct link_table *links, uint32_t hash,
                                const void *name);

/* Adds a link whose name is not yet there.  0; -ENOMEM. */
int link_table_add_link(struct link_table *links, struct link *link);

/* Takes out a link that is there. */
void link_table_remove_link(struct link_table *links, const struct link *link);

/* The first link at slot *position or behind, and *position behind it; NULL at the
 * end.  Start with 0.  What is taken out meanwhile may hide another one from this round. */
struct link *link_table_next_link(const struct link_table *links, size_t *position);

/* ---- of a table of struct link_members ---- */

/* The link to this address, or NULL. */
struct link_member *link_table_find(const struct link_table *links,
                                    const struct transport_address *address);

/* As those above. */
int link_table_add(struct link_table *links, struct link_member *member);
void link_table_remove(struct link_table *links, const struct link_member *member);
struct link_member *link_table_next(const struct link_table *links, size_t *position);

#endif
