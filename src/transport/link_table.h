/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_table.h - the links of an endpoint, found by the address of the other side.
 *
 * A link is found by its name: the address, unless the transport defines another name (struct
 * link_naming), to make links short because there are many.
 *
 * Invariant
 *   I1  no two links have the same name
 */
#ifndef TRANSPORT_LINK_TABLE_H
#define TRANSPORT_LINK_TABLE_H

#include <errno.h>

#include "base/base.h"
#include "base/hash.h"
#include "transport/transport.h"

/* The beginning of a transport's link, if links are found by their addresses. */
struct link_member {
    struct link link;
    struct transport_address address; /* the other side's */
    bool named;   /* the core knows it: through connect(), or an accept() that returned 0 */
    bool refused; /* by the core, permanently, unless connect() names it */
};

/* Presents the other side to the core.  0; -EAGAIN later; another error: the core refuses it, and
 * the transport sets refused. */
static inline int link_member_present(struct link_member *member,
                                      const struct transport_events *events, void *arg)
{
    uint32_t peer;
    int err;

    if (likely(member->named))
        return 0;
    if (member->refused)
        return -EPERM;
    err = events->accept(arg, &member->link, &member->address, &peer);
    if (err == 0) {
        member->link.peer = peer;
        member->named = true;
    }
    return err;
}

/* Another way of naming links. */
struct link_naming {
    uint32_t (*hash)(const struct link *link); /* the hash of its name */
    bool (*is)(const struct link *link, const void *name);
};

struct link_table {
    struct hash hash;                 /* of pointers to links */
    const struct link_naming *naming; /* NULL: they are struct link_members */
};

/* Zero-filled memory is an empty table of struct link_members. */
void link_table_init(struct link_table *links, const struct link_naming *naming);

/* Frees the table, not the links. */
void link_table_fini(struct link_table *links);

/* The link with this name, whose hash is given, or NULL. */
struct link *link_table_find_by(const struct link_table *links, uint32_t hash,
                                const void *name);

/* Adds a link whose name is not in the table yet.  0; -ENOMEM. */
int link_table_add_link(struct link_table *links, struct link *link);

/* Removes a link that is in the table. */
void link_table_remove_link(struct link_table *links, const struct link *link);

/* Returns the first link in slot *position or a later one, and sets *position to the slot after
 * it; NULL at the end.  Start with 0.  A removal meanwhile may hide another link from this
 * iteration. */
struct link *link_table_next_link(const struct link_table *links, size_t *position);

/* ---- for a table of struct link_members ---- */

/* The link to this address, or NULL. */
struct link_member *link_table_find(const struct link_table *links,
                                    const struct transport_address *address);

/* Like the functions above. */
int link_table_add(struct link_table *links, struct link_member *member);
struct link_member *link_table_next(const struct link_table *links, size_t *position);

#endif
