/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table.h - groups of entries, found by the print of what they have in common.
 *
 *   bucket, one cache line    print print 0 0 | head head - -
 *   bucket                    print print print print | head 0 head head      then the next
 *   ...
 *
 * A print is a seeded hash of 64 bits and stands for the key: two keys with one print
 * share a group, which costs its users a comparison and never a wrong match.  A group
 * that empties keeps its place, as programs use the same keys again and again; when
 * places run out, the empty ones are dropped.
 *
 * A print is good as a name, but its bits are not all good as a number of a bucket: with one
 * seed in a hundred, tags that count up share their low ones.  So a multiplication spreads it,
 * and the top bits of that count (table_test looks at many seeds and kinds of envelopes).
 *
 * The four prints of a bucket are compared without a branch between them, so a search is
 * one cache line and one prediction, which is mostly right.
 *
 * Invariants (table_is_valid)
 *   I1  a group lies in the bucket of its print, or in one behind that, and all between
 *       are full
 *   I2  used places are counted, and at most 9/16 of all; groups with a head likewise
 */
#ifndef MATCH_TABLE_H
#define MATCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define BUCKET_GROUPS 4

struct bucket {
    uint64_t prints[BUCKET_GROUPS]; /* 0: the place is free */
    uintptr_t heads[BUCKET_GROUPS]; /* of the users; 0: nobody */
};

_Static_assert(sizeof(struct bucket) == CACHE_LINE, "a search is one line");

struct table {
    struct bucket *buckets; /* NULL until the first group */
    uint32_t size;          /* buckets: a power of two, or 0 */
    uint32_t used;          /* places that have a print */
    uint32_t heads;         /* groups that have a head */
    uint32_t shift;         /* 64 - log2(size) */
};

/* A place in a table: good until the table grows. */
struct group {
    struct bucket *bucket;
    uint32_t lane;
};

/* Makes room for so many new groups.  -ENOMEM: nothing has changed. */
int table_grow(struct table *t, uint32_t count);

/* Frees all; the table is empty and can be used again. */
void table_clear(struct table *t);

bool table_is_valid(const struct table *t);

static inline bool table_has_room(const struct table *t, uint32_t count)
{
    return ((uint64_t)t->used + count) * 16 <= (uint64_t)t->size * BUCKET_GROUPS * 9;
}

static inline int table_reserve(struct table *t, uint32_t count)
{
    return likely(table_has_room(t, count)) ? 0 : table_grow(t, count);
}

/* The bucket where the search for print begins; the table has buckets. */
static inline uint32_t table_home(const struct table *t, uint64_t print)
{
    return (uint32_t)(print * UINT64_C(0x9e3779b97f4a7c15) >> t->shift);
}

/* Bit i: print i of the bucket is this one. */
static inline uint32_t bucket_find(const struct bucket *bucket, uint64_t print)
{
    return (uint32_t)(bucket->prints[0] == print) |
           (uint32_t)(bucket->prints[1] == print) << 1 |
           (uint32_t)(bucket->prints[2] == print) << 2 |
           (uint32_t)(bucket->prints[3] == print) << 3;
}

/* Where print's group is, or would be.  There is a free place, so the search ends. */
static inline struct group table_place(const struct table *t, uint64_t print)
{
    for (uint32_t i = table_home(t, print);; i = (i + 1) & (t->size - 1)) {
        struct bucket *bucket = &t->buckets[i];
        uint32_t found = bucket_find(bucket, print);

        if (unlikely(found == 0))
            found = bucket_find(bucket, 0);
        if (likely(found != 0))
            return (struct group){bucket, (uint32_t)__builtin_ctz(found)};
    }
}

static inline uintptr_t group_head(struct group group)
{
    return group.bucket->heads[group.lane];
}

/* The head of print's group, or 0. */
static inline uintptr_t table_head(const struct table *t, uint64_t print)
{
    return likely(t->size != 0) ? group_head(table_place(t, print)) : 0;
}

/* Fetches what table_place() will look at. */
static inline void table_prefetch(const struct table *t, uint64_t print)
{
    if (t->size != 0)
        __builtin_prefetch(&t->buckets[table_home(t, print)], 1);
}

/* print's group, made if there is none; there is room. */
static inline struct group table_group(struct table *t, uint64_t print)
{
    struct group group = table_place(t, print);
    uint64_t *known = &group.bucket->prints[group.lane];

    t->used += *known == 0;
    *known = print;
    return group;
}

static inline void table_set_head(struct table *t, struct group group, uintptr_t head)
{
    uintptr_t *now = &group.bucket->heads[group.lane];

    t->heads += (uint32_t)(head != 0) - (uint32_t)(*now != 0);
    *now = head;
}

#endif
