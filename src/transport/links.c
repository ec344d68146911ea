/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.c - links.h says it all.
 */
#include "transport/links.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_SLOTS 8

static size_t hash(const struct transport_address *address)
{
    uint64_t words[TRANSPORT_ADDRESS_SIZE / 8];
    uint64_t h = 0;

    memcpy(words, address->bytes, sizeof words);
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return (size_t)h;
}

/* The slot that holds address, or the empty one where it belongs. */
static size_t find_slot(struct links_member *const *slots, size_t slot_count,
                        const struct transport_address *address)
{
    size_t i = hash(address) & (slot_count - 1);

    while (slots[i] != NULL && memcmp(&slots[i]->address, address, sizeof *address) != 0)
        i = (i + 1) & (slot_count - 1);
    return i;
}

void links_init(struct links *links)
{
    *links = (struct links){0};
}

void links_fini(struct links *links)
{
    mem_free(links->slots);
    links_init(links);
}

struct links_member *links_find(const struct links *links,
                                const struct transport_address *address)
{
    if (links->slot_count == 0)
        return NULL;
    return links->slots[find_slot(links->slots, links->slot_count, address)];
}

static int grow(struct links *links)
{
    size_t slot_count = max_size(FIRST_SLOTS, links->slot_count * 2);
    struct links_member **slots = mem_calloc(slot_count, sizeof *slots);

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

int links_add(struct links *links, struct links_member *member)
{
    int err = 0;

    assert(links_find(links, &member->address) == NULL);
    if (links->count + 1 > links->slot_count / 4 * 3)
        err = grow(links);
    if (err != 0)
        return err;
    links->slots[find_slot(links->slots, links->slot_count, &member->address)] = member;
    links->count++;
    return 0;
}

struct links_member *links_next(const struct links *links, size_t *position)
{
    while (*position < links->slot_count) {
        struct links_member *member = links->slots[(*position)++];

        if (member != NULL)
            return member;
    }
    return NULL;
}
