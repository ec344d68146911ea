/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link_table.c - link_table.h says it all.
 */
#include "transport/link_table.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_SLOTS 8

/* The slot that holds address, or the empty one where it belongs. */
static size_t find_slot(struct link_member *const *slots, size_t slot_count,
                        const struct transport_address *address)
{
    size_t i = address_hash(address) & (slot_count - 1);

    while (slots[i] != NULL && memcmp(&slots[i]->address, address, sizeof *address) != 0)
        i = (i + 1) & (slot_count - 1);
    return i;
}

void link_table_init(struct link_table *links)
{
    *links = (struct link_table){0};
}

void link_table_fini(struct link_table *links)
{
    mem_free(links->slots);
    link_table_init(links);
}

struct link_member *link_table_find(const struct link_table *links,
                                    const struct transport_address *address)
{
    if (links->slot_count == 0)
        return NULL;
    return links->slots[find_slot(links->slots, links->slot_count, address)];
}

static int grow(struct link_table *links)
{
    size_t slot_count = max_size(FIRST_SLOTS, links->slot_count * 2);
    struct link_member **slots = mem_calloc(slot_count, sizeof *slots);

    if (slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < links->slot_count; i++)
        if (links->slots[i] != NULL)
            slots[find_slot(slots, slot_count, &links->slots[i]->address)] = links->slots[i];
    mem_free(links->slots);
    links->slots = slots;
    links->slot_count = slot_count;
    return 0;
}

int link_table_add(struct link_table *links, struct link_member *member)
{
    int err = 0;

    assert(link_table_find(links, &member->address) == NULL);
    if (links->count + 1 > links->slot_count / 4 * 3)
        err = grow(links);
    if (err != 0)
        return err;
    links->slots[find_slot(links->slots, links->slot_count, &member->address)] = member;
    links->count++;
    return 0;
}

/* Those behind the hole that a search would not find any more move into it, and leave the next. */
void link_table_remove(struct link_table *links, const struct link_member *member)
{
    size_t mask = links->slot_count - 1;
    size_t hole = find_slot(links->slots, links->slot_count, &member->address);

    assert(links->slots[hole] == member);
    links->slots[hole] = NULL;
    links->count--;
    for (size_t at = (hole + 1) & mask; links->slots[at] != NULL; at = (at + 1) & mask) {
        size_t home = address_hash(&links->slots[at]->address) & mask;

        if (((at - home) & mask) < ((at - hole) & mask))
            continue; /* its search begins behind the hole */
        links->slots[hole] = links->slots[at];
        links->slots[at] = NULL;
        hole = at;
    }
}

struct link_member *link_table_next(const struct link_table *links, size_t *position)
{
    while (*position < links->slot_count) {
        struct link_member *member = links->slots[(*position)++];

        if (member != NULL)
            return member;
    }
    return NULL;
}
