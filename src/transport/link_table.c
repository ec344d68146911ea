/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_table.c - link_table.h says it all.
 */
#include "transport/link_table.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_SLOTS 8

static struct link_member *member_of(const struct link *link)
{
    return container_of((struct link *)(uintptr_t)link, struct link_member, link);
}

static uint32_t hash_of(const struct link_table *links, const struct link *link)
{
    return links->naming != NULL ? links->naming->hash(link)
                                 : address_hash(&member_of(link)->address);
}

static bool is_named(const struct link_table *links, const struct link *link, const void *name)
{
    return links->naming != NULL
               ? links->naming->is(link, name)
               : memcmp(&member_of(link)->address, name, sizeof(struct transport_address)) == 0;
}

void link_table_init(struct link_table *links, const struct link_naming *naming)
{
    *links = (struct link_table){.naming = naming};
}

void link_table_fini(struct link_table *links)
{
    mem_free(links->slots);
    link_table_init(links, links->naming);
}

struct link *link_table_find_by(const struct link_table *links, uint32_t hash, const void *name)
{
    size_t mask = links->slot_count - 1;

    if (links->slot_count == 0)
        return NULL;
    for (size_t i = hash & mask; links->slots[i] != NULL; i = (i + 1) & mask)
        if (is_named(links, links->slots[i], name))
            return links->slots[i];
    return NULL;
}

/* Puts link into the empty slot where it belongs. */
static void put(struct link_table *links, struct link *link)
{
    size_t mask = links->slot_count - 1;
    size_t i = hash_of(links, link) & mask;

    while (links->slots[i] != NULL)
        i = (i + 1) & mask;
    links->slots[i] = link;
}

static int grow(struct link_table *links)
{
    struct link_table more = *links;

    more.slot_count = max_size(FIRST_SLOTS, links->slot_count * 2);
    more.slots = mem_calloc(more.slot_count, sizeof(struct link *));
    if (more.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < links->slot_count; i++)
        if (links->slots[i] != NULL)
            put(&more, links->slots[i]);
    mem_free(links->slots);
    *links = more;
    return 0;
}

int link_table_add_link(struct link_table *links, struct link *link)
{
    int err = 0;

    if (links->count + 1 > links->slot_count / 4 * 3)
        err = grow(links);
    if (err != 0)
        return err;
    put(links, link);
    links->count++;
    return 0;
}

/* Those behind the hole that a search would not find any more move into it, and leave the next. */
void link_table_remove_link(struct link_table *links, const struct link *link)
{
    size_t mask = links->slot_count - 1;
    size_t hole = hash_of(links, link) & mask;

    while (links->slots[hole] != link) {
        assert(links->slots[hole] != NULL);
        hole = (hole + 1) & mask;
    }
    links->slots[hole] = NULL;
    links->count--;
    for (size_t at = (hole + 1) & mask; links->slots[at] != NULL; at = (at + 1) & mask) {
        size_t home = hash_of(links, links->slots[at]) & mask;

        if (((at - home) & mask) < ((at - hole) & mask))
            continue; /* its search begins behind the hole */
        links->slots[hole] = links->slots[at];
        links->slots[at] = NULL;
        hole = at;
    }
}

struct link *link_table_next_link(const struct link_table *links, size_t *position)
{
    while (*position < links->slot_count) {
        struct link *link = links->slots[(*position)++];

        if (link != NULL)
            return link;
    }
    return NULL;
}

/* ---- of a table of struct link_members ---- */

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

void link_table_remove(struct link_table *links, const struct link_member *member)
{
    link_table_remove_link(links, &member->link);
}

struct link_member *link_table_next(const struct link_table *links, size_t *position)
{
    struct link *link = link_table_next_link(links, position);

    return link != NULL ? member_of(link) : NULL;
}
