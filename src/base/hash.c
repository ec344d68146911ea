/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hash.c - see hash.h.
 */
#include "base/hash.h"

#include <errno.h>

#include "base/base.h"
#include "base/mem.h"

#define FIRST_CAPACITY 8

static unsigned char *slot_at(const struct hash *h, const struct hash_kind *kind, size_t at)
{
    return h->slots + at * kind->size;
}

static bool is_free_at(const struct hash *h, const struct hash_kind *kind, size_t at)
{
    return hash_is_free(kind, slot_at(h, kind, at));
}

/* Needs a free slot (I1). */
static void hash_put(struct hash *h, const struct hash_kind *kind, const void *arg,
                     const void *slot)
{
    size_t at = (size_t)kind->hash(arg, slot) & (h->capacity - 1);

    while (!is_free_at(h, kind, at))
        at = (at + 1) & (h->capacity - 1);
    memcpy(slot_at(h, kind, at), slot, kind->size);
}

/* Entries of the same hash are next to each other, perhaps across the end.  So the walk of the
 * old slots starts at a free one, which keeps their order (I3). */
static void put_all(struct hash *h, const struct hash_kind *kind, const void *arg,
                    const struct hash *old)
{
    size_t from = 0;

    while (from < old->capacity && !is_free_at(old, kind, from))
        from++;
    for (size_t i = 0; i < old->capacity; i++) {
        size_t at = (from + i) & (old->capacity - 1);

        if (!is_free_at(old, kind, at))
            hash_put(h, kind, arg, slot_at(old, kind, at));
    }
}

int hash_reserve(struct hash *h, const struct hash_kind *kind, const void *arg)
{
    struct hash more = {.capacity = max_size(FIRST_CAPACITY, h->capacity * 2),
                        .count = h->count};

    if (h->count + 1 <= h->capacity / 4 * 3)
        return 0;
    more.slots = mem_calloc(more.capacity, kind->size);
    if (more.slots == NULL)
        return -ENOMEM;
    put_all(&more, kind, arg, h);
    mem_free(h->slots);
    *h = more;
    return 0;
}

int hash_add(struct hash *h, const struct hash_kind *kind, const void *arg, const void *slot)
{
    int err = hash_reserve(h, kind, arg);

    assert(!hash_is_free(kind, slot));
    if (err != 0)
        return err;
    hash_put(h, kind, arg, slot);
    h->count++;
    return 0;
}

/* Each later entry that a search would miss because of the hole moves into it, and leaves the
 * next hole. */
void hash_remove(struct hash *h, const struct hash_kind *kind, const void *arg, void *slot)
{
    size_t mask = h->capacity - 1,
           hole = (size_t)((unsigned char *)slot - h->slots) / kind->size;

    assert(!is_free_at(h, kind, hole));
    for (size_t at = (hole + 1) & mask; !is_free_at(h, kind, at); at = (at + 1) & mask) {
        size_t home = (size_t)kind->hash(arg, slot_at(h, kind, at)) & mask;

        if (((at - home) & mask) < ((at - hole) & mask))
            continue; /* its search begins after the hole */
        memcpy(slot_at(h, kind, hole), slot_at(h, kind, at), kind->size);
        hole = at;
    }
    memset(slot_at(h, kind, hole), 0, kind->size);
    h->count--;
}

void *hash_next(const struct hash *h, const struct hash_kind *kind, size_t *position)
{
    while (*position < h->capacity) {
        size_t at = (*position)++;

        if (!is_free_at(h, kind, at))
            return slot_at(h, kind, at);
    }
    return NULL;
}

void hash_fini(struct hash *h)
{
    mem_free(h->slots);
    *h = (struct hash){0};
}
