/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table.h - groups of entries, found by the hash of their common key.
 *
 *   bucket, one cache line    p p p p p p p n | head head head head head head head
 *   bucket                    p 0 p 0 0 0 0 0 | head  -   head  -    -    -    -
 *   ...
 *
 * A bucket has seven places.  It keeps seven bits of the hash of each (p, a print; 0: the place
 * is free) in one word, so that all seven are compared at once, without a branch and without
 * wide registers.  A head with the right print is usually the right one; the user compares it.
 * An empty group gives up its place.
 *
 * A group whose bucket is full goes into the next one that is not; n counts the groups that
 * passed a bucket, so a search goes on only if there are any.  At PASSED_MOST n stays fixed,
 * until the table grows.
 *
 * A hash must be good in its upper bits: the uppermost are the bucket, the next ones the print
 * (table_test checks many seeds and kinds of envelopes).
 *
 * Invariants (table_is_valid)
 *   I1  a group is in the bucket of its hash, or in a later one, and all buckets between count
 *       it as passed
 *   I2  used places are counted, and are at most half of all; groups that passed are counted as
 *       well, unless PASSED_MOST have passed a bucket
 */
#ifndef MATCH_TABLE_H
#define MATCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define BUCKET_GROUPS 7
#define PASSED_MOST   255
#define PRINT_BITS    7

struct bucket {
    uint64_t prints; /* byte i, from the lowest: the print of place i; the highest byte: n */
    uintptr_t heads[BUCKET_GROUPS]; /* the user's; never 0 where there is a print */
};

_Static_assert(sizeof(struct bucket) == CACHE_LINE, "a search is one line");

struct table {
    struct bucket *buckets; /* 2^(57 - shift) */
    uint32_t used;          /* places that are not free */
    uint32_t limit; /* the most places that may be used; 0: the two empty buckets of all unused
                       tables */
    uint32_t shift; /* of a hash: the remaining bits are bucket and print */
};

/* A place in a table, valid until the table grows; or the place to search. */
struct group {
    struct bucket *bucket; /* NULL: there is no such group */
    struct bucket *home;   /* the bucket of its hash */
    uint64_t lane, print;
};

/* The hash with which this head was put into the table. */
typedef uint64_t table_hash_fn(const void *arg, uintptr_t head);

/* Is this the wanted head? */
typedef bool table_is_fn(const void *wanted, uintptr_t head);

/* Makes an empty table. */
void table_init(struct table *t);

/* Frees all memory; the table is empty and can be used again. */
void table_clear(struct table *t);

/* Makes space for a new group, or more: at most `further` ones will follow.  False: no memory,
 * and nothing has changed. */
bool table_grow(struct table *t, uint64_t further, table_hash_fn *hash_of, const void *arg);

bool table_is_valid(const struct table *t, table_hash_fn *hash_of, const void *arg);

/* The rest of table_add() if the bucket of the hash is full, and of table_remove() if it
 * was. */
void table_add_further(struct table *t, struct bucket *home, uint64_t print, uintptr_t head);
void table_unpass(struct table *t, struct bucket *home, const struct bucket *until);

static inline uint32_t table_size(const struct table *t)
{
    return UINT32_C(1) << (64 - PRINT_BITS - t->shift);
}

static inline bool table_is_empty(const struct table *t)
{
    return t->used == 0;
}

static inline bool table_has_space(const struct table *t)
{
    return t->used < t->limit;
}

/* ---- a bucket ---- */

#define LANES_ONE  UINT64_C(0x01010101010101) /* bit 0 of each of the seven bytes */
#define LANES_HIGH UINT64_C(0x80808080808080)

/* Sets the high bit of each byte whose place may have this print.  The lowest one is right; a
 * higher one may be wrong, but its place is not free. */
static inline uint64_t bucket_find(const struct bucket *bucket, uint64_t print)
{
    uint64_t differ = bucket->prints ^ print * LANES_ONE;

    return (differ - LANES_ONE) & ~differ & LANES_HIGH;
}

static inline uint64_t bucket_free(const struct bucket *bucket)
{
    return ~bucket->prints & LANES_HIGH;
}

static inline uint64_t bucket_lane(uint64_t lanes)
{
    return (unsigned)__builtin_ctzll(lanes) / 8;
}

/* The byte of this place in prints. */
static inline unsigned char *bucket_print(struct bucket *bucket, uint64_t lane)
{
    return (unsigned char *)&bucket->prints +
           (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? BUCKET_GROUPS - lane : lane);
}

static inline uint32_t bucket_passed(const struct bucket *bucket)
{
    return (uint32_t)(bucket->prints >> (8 * BUCKET_GROUPS));
}

/* ---- a search ---- */

static inline uintptr_t group_head(struct group group)
{
    return group.bucket->heads[group.lane];
}

static inline void group_set_head(struct group group, uintptr_t head)
{
    group.bucket->heads[group.lane] = head;
}

/* The next bucket, cyclically. */
static inline struct bucket *table_next(const struct table *t, struct bucket *bucket)
{
    return ++bucket != t->buckets + table_size(t) ? bucket : t->buckets;
}

/* The place to search for a group of this hash. */
static inline struct group table_home(const struct table *t, uint64_t hash)
{
    uint64_t rest = hash >> t->shift;

    return (struct group){.home = &t->buckets[rest >> PRINT_BITS],
                          .print = (rest & ((1u << PRINT_BITS) - 1)) | 1u << PRINT_BITS};
}

/* The group with this hash whose head is the wanted one. */
static ALWAYS_INLINE struct group table_find(const struct table *t, uint64_t hash,
                                             table_is_fn *is, const void *wanted)
{
    struct group group = table_home(t, hash);
    struct bucket *bucket = group.home;

    do {
        for (uint64_t lanes = bucket_find(bucket, group.print); lanes != 0;
             lanes &= lanes - 1) {
            group.lane = bucket_lane(lanes);
            if (likely(is(wanted, bucket->heads[group.lane]))) {
                group.bucket = bucket;
                return group;
            }
        }
        if (likely(bucket_passed(bucket) == 0))
            break;
        bucket = table_next(t, bucket);
    } while (bucket != group.home);
    return group;
}

/* As table_find(), but checks only the first place that may be the right one, which it usually
 * is.  *has_none: table_find() would not find one either. */
static ALWAYS_INLINE struct group table_glance(const struct table *t, uint64_t hash,
                                               table_is_fn *is, const void *wanted,
                                               bool *has_none)
{
    struct group group = table_home(t, hash);
    uint64_t lanes = bucket_find(group.home, group.print);

    *has_none = lanes == 0 && bucket_passed(group.home) == 0;
    if (likely(lanes != 0)) {
        group.lane = bucket_lane(lanes);
        if (likely(is(wanted, group.home->heads[group.lane])))
            group.bucket = group.home;
    }
    return group;
}

/* Uses a free place of a bucket that has one. */
static inline void bucket_add(struct bucket *bucket, uint64_t print, uintptr_t head)
{
    uint64_t lane = bucket_lane(bucket_free(bucket));

    bucket->prints |= print << 8 * lane;
    bucket->heads[lane] = head;
}

/* Puts a group into the bucket of its hash, if that has a free place and shows at once that
 * there is no such group yet; the table must have space.  False: nothing has changed. */
static ALWAYS_INLINE bool table_put(struct table *t, uint64_t hash, uintptr_t head)
{
    struct group group = table_home(t, hash);
    bool is_none = (bucket_find(group.home, group.print) | bucket_passed(group.home)) == 0;

    if (unlikely(!is_none || bucket_free(group.home) == 0))
        return false;
    bucket_add(group.home, group.print, head);
    t->used++;
    return true;
}

/* Adds a group that table_find() has not found; the table must have space. */
static inline void table_add(struct table *t, struct group group, uintptr_t head)
{
    t->used++;
    if (likely(bucket_free(group.home) != 0))
        bucket_add(group.home, group.print, head);
    else
        table_add_further(t, group.home, group.print, head);
}

/* Removes a group that table_find() has found. */
static inline void table_remove(struct table *t, struct group group)
{
    *bucket_print(group.bucket, group.lane) = 0;
    t->used--;
    if (unlikely(group.bucket != group.home))
        table_unpass(t, group.home, group.bucket);
}

/* Prefetches the bucket for table_find(). */
static inline void table_prefetch(const struct table *t, uint64_t hash)
{
    prefetch_for_store(table_home(t, hash).home);
}

#endif
