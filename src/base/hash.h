/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hash.h - tables that find an entry by its hash: open addressing with linear probing.
 *
 *   slots    -  a  b  -  -  c  -  -        b has the hash of a: it is in the next slot
 *
 * A slot holds a pointer to the entry, its number, or the entry itself, as the user likes.  The
 * first 8 bytes of a slot in use (all 4 of a slot of 4) are not zero.  A slot that becomes free
 * leaves no tombstone: the entries after it move up.  So a search costs the same after many
 * removals.
 *
 * The user describes the slots in a struct hash_kind.  hash_find() is compiled into its callers
 * with such a constant, so it costs the same as a table written by hand.
 *
 * Invariants (hash_test.c)
 *   I1  at most three quarters of the slots are in use: a search ends
 *   I2  no free slot is between the slot that a hash names and the slot of its entry
 *   I3  entries of the same hash are in the order in which they were added
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

/* Zero-filled memory is an empty table. */
struct hash {
    unsigned char *slots;
    size_t capacity; /* 0 or a power of two */
    size_t count;
};

struct hash_kind {
    size_t size; /* of a slot: 4, or a multiple of 8 */
    uint64_t (*hash)(const void *arg, const void *slot);
    bool (*is)(const void *arg, const void *slot, const void *key);
};

/* ---- hashes ---- */

/* Hashes a word, any bits of which may differ, to 32 bits. */
static inline uint64_t hash_mix(uint64_t word)
{
    return word * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

/* Hashes a word to 64 bits: each bit of the word changes half of them. */
static inline uint64_t hash_spread(uint64_t word)
{
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

/* Hashes size bytes, a multiple of 8. */
static inline uint64_t hash_bytes(const void *bytes, size_t size)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15), word;

    for (size_t at = 0; at < size; at += sizeof word) {
        memcpy(&word, (const unsigned char *)bytes + at, sizeof word);
        hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash;
}

/* ---- slots ---- */

/* The pointer in a slot; NULL if slot is NULL. */
static inline void *hash_pointer(const void *slot)
{
    return slot != NULL ? *(void *const *)slot : NULL;
}

/* The number in a slot; 0 if slot is NULL. */
static inline uint32_t hash_number(const void *slot)
{
    return slot != NULL ? *(const uint32_t *)slot : 0;
}

static ALWAYS_INLINE bool hash_is_free(const struct hash_kind *kind, const void *slot)
{
    uint64_t word = 0;

    memcpy(&word, slot, kind->size == sizeof(uint32_t) ? sizeof(uint32_t) : sizeof word);
    return word == 0;
}

/* The slot of the oldest entry with this hash and key, or NULL. */
static ALWAYS_INLINE void *hash_find(const struct hash *h, const struct hash_kind *kind,
                                     const void *arg, uint64_t hash, const void *key)
{
    if (h->capacity == 0)
        return NULL;
    for (size_t at = (size_t)hash & (h->capacity - 1);; at = (at + 1) & (h->capacity - 1)) {
        unsigned char *slot = h->slots + at * kind->size;

        if (hash_is_free(kind, slot))
            return NULL;
        if (kind->is(arg, slot, key))
            return slot;
    }
}

/* Makes space for one more entry: the next hash_add() will not fail.  0; -ENOMEM, and nothing
 * has changed. */
int hash_reserve(struct hash *h, const struct hash_kind *kind, const void *arg);

/* Adds a copy of this slot.  0; -ENOMEM, and nothing has changed. */
int hash_add(struct hash *h, const struct hash_kind *kind, const void *arg, const void *slot);

/* Removes the entry in this slot of the table.  Slots may move. */
void hash_remove(struct hash *h, const struct hash_kind *kind, const void *arg, void *slot);

/* The first slot in use at or after *position, which moves past it; NULL at the end.  Start
 * with 0. A removal meanwhile may hide another entry from this round. */
void *hash_next(const struct hash *h, const struct hash_kind *kind, size_t *position);

/* Frees the slots; the table is empty. */
void hash_fini(struct hash *h);

#endif
