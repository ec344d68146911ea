/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_table.c - see link_table.h.
 */
#include "transport/link_table.h"

#include <string.h>

static struct link_member *member_of(const struct link *link)
{
    return container_of((struct link *)(uintptr_t)link, struct link_member, link);
}

static uint64_t link_hash(const void *arg, const void *slot)
{
    const struct link_table *links = arg;
    const struct link *link = hash_pointer(slot);

    return links->naming != NULL ? links->naming->hash(link)
                                 : address_hash(&member_of(link)->address);
}

static bool link_is(const void *arg, const void *slot, const void *name)
{
    const struct link_table *links = arg;
    const struct link *link = hash_pointer(slot);

    return links->naming != NULL
               ? links->naming->is(link, name)
               : memcmp(&member_of(link)->address, name, sizeof(struct transport_address)) == 0;
}

static bool link_is_same(const void *arg, const void *slot, const void *link)
{
    (void)arg;
    return hash_pointer(slot) == link;
}

static const struct hash_kind by_name = {sizeof(void *), link_hash, link_is};
static const struct hash_kind by_link = {sizeof(void *), link_hash, link_is_same};

void link_table_init(struct link_table *links, const struct link_naming *naming)
{
    *links = (struct link_table){.naming = naming};
}

void link_table_fini(struct link_table *links)
{
    hash_fini(&links->hash);
}

struct link *link_table_find_by(const struct link_table *links, uint32_t hash, const void *name)
{
    return hash_pointer(hash_find(&links->hash, &by_name, links, hash, name));
}

int link_table_add_link(struct link_table *links, struct link *link)
{
    return hash_add(&links->hash, &by_name, links, &(void *){link});
}

void link_table_remove_link(struct link_table *links, const struct link *link)
{
    void *slot =
        hash_find(&links->hash, &by_link, links, link_hash(links, &(const void *){link}), link);

    assert(slot != NULL);
    hash_remove(&links->hash, &by_link, links, slot);
}

struct link *link_table_next_link(const struct link_table *links, size_t *position)
{
    return hash_pointer(hash_next(&links->hash, &by_name, position));
}

/* ---- for a table of struct link_members ---- */

struct link_member *link_table_find(const struct link_table *links,
                                    const struct transport_address *address)
{
    struct link *link = link_table_find_by(links, address_hash(address), address);

    return link != NULL ? member_of(link) : NULL;
}

int link_table_add(struct link_table *links, struct link_member *member)
{
    assert(link_table_find(links, &member->address) == NULL);
    return link_table_add_link(links, &member->link);
}

struct link_member *link_table_next(const struct link_table *links, size_t *position)
{
    struct link *link = link_table_next_link(links, position);

    return link != NULL ? member_of(link) : NULL;
}
