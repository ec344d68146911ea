/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table.c - see table.h.
 */
#include "match/table.h"

#include <string.h>

#include "base/mem.h"

#define BUCKETS_MIN 16
#define BUCKETS_MAX (UINT32_C(1) << 30)
#define FOLLOW_MOST 31 /* a table grows for at most this many new groups per existing one */
#define PASSED_ONE  (UINT64_C(1) << (8 * BUCKET_GROUPS))

/* The buckets of all tables that were never used: a search ends here. */
static struct bucket no_buckets[2];

void table_init(struct table *t)
{
    *t = (struct table){.buckets = no_buckets, .shift = 63 - PRINT_BITS};
}

void table_clear(struct table *t)
{
    if (t->limit != 0)
        mem_free(t->buckets);
    table_init(t);
}

void table_add_further(struct table *t, struct bucket *home, uint64_t print, uintptr_t head)
{
    for (; bucket_free(home) == 0; home = table_next(t, home))
        if (bucket_passed(home) < PASSED_MOST)
            home->prints += PASSED_ONE;
    bucket_add(home, print, head);
}

/* Subtracts a removed group from the counts of the buckets that it had passed. */
void table_unpass(struct table *t, struct bucket *home, const struct bucket *until)
{
    for (; home != until; home = table_next(t, home))
        if (bucket_passed(home) < PASSED_MOST)
            home->prints -= PASSED_ONE;
}

/* ---- growth ---- */

static uint32_t limit_of(uint32_t size)
{
    return (uint32_t)((uint64_t)size * BUCKET_GROUPS / 2);
}

static bool make_buckets(struct table *t, uint32_t size)
{
    size_t bytes = size * sizeof(struct bucket);

    t->buckets = mem_alloc_aligned(bytes < MEM_HUGE ? CACHE_APART : MEM_HUGE, bytes);
    if (t->buckets == NULL)
        return false;
    memset(t->buckets, 0, bytes);
    t->used = 0;
    t->limit = limit_of(size);
    t->shift = 64 - PRINT_BITS - (uint32_t)__builtin_ctz(size);
    return true;
}

static void move_bucket(struct table *to, const struct bucket *from, table_hash_fn *hash_of,
                        const void *arg)
{
    for (uint64_t lanes = from->prints & LANES_HIGH; lanes != 0; lanes &= lanes - 1) {
        uintptr_t head = from->heads[bucket_lane(lanes)];

        table_add(to, table_home(to, hash_of(arg, head)), head);
    }
}

/* The number of groups to make space for: twice as many as now, so that the table need not grow
 * again soon; or all further ones, if they are not too many, since they may share few
 * groups. */
static uint64_t wanted_capacity(uint64_t used, uint64_t further)
{
    return used + max_size(used, min_size(further, FOLLOW_MOST * used));
}

bool table_grow(struct table *t, uint64_t further, table_hash_fn *hash_of, const void *arg)
{
    uint32_t size = BUCKETS_MIN;
    struct table bigger;

    while (limit_of(size) < wanted_capacity(t->used, further))
        if ((size *= 2) > BUCKETS_MAX)
            return false;
    if (!make_buckets(&bigger, size))
        return false;
    for (uint32_t i = 0; i < table_size(t); i++)
        move_bucket(&bigger, &t->buckets[i], hash_of, arg);
    table_clear(t);
    *t = bigger;
    return true;
}

/* ---- invariants ---- */

static bool is_same_head(const void *wanted, uintptr_t head)
{
    return head == (uintptr_t)wanted;
}

/* I1: a search for the group in this place finds it, and the print is right. */
static bool place_is_valid(const struct table *t, const struct bucket *bucket, uint64_t lane,
                           uint64_t hash)
{
    struct group group = table_find(t, hash, is_same_head, (void *)bucket->heads[lane]);

    return group.bucket == bucket && group.lane == lane;
}

/* The number of buckets that the group of this hash has passed. */
static uint64_t distance(const struct table *t, uint64_t hash, const struct bucket *bucket)
{
    uint64_t passed = 0;

    for (struct bucket *at = table_home(t, hash).home; at != bucket; at = table_next(t, at))
        passed++;
    return passed;
}

bool table_is_valid(const struct table *t, table_hash_fn *hash_of, const void *arg)
{
    uint64_t passed = 0, counted = 0;
    bool is_counted = true;
    uint32_t used = 0;

    if (t->used > t->limit ||
        t->limit != (t->buckets == no_buckets ? 0 : limit_of(table_size(t))))
        return false;
    for (uint32_t i = 0; i < table_size(t); i++) {
        const struct bucket *bucket = &t->buckets[i];

        for (uint64_t lanes = bucket->prints & LANES_HIGH; lanes != 0; lanes &= lanes - 1) {
            uint64_t lane = bucket_lane(lanes);

            if (bucket->heads[lane] == 0 ||
                !place_is_valid(t, bucket, lane, hash_of(arg, bucket->heads[lane])))
                return false;
            passed += distance(t, hash_of(arg, bucket->heads[lane]), bucket);
            used++;
        }
        counted += bucket_passed(bucket);
        is_counted = is_counted && bucket_passed(bucket) != PASSED_MOST;
    }
    return used == t->used && (!is_counted || passed == counted);
}
