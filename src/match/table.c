/* SPDX-License-Identifier: BSD-3-Clause */
#include "match/table.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define BUCKETS_MIN 16
#define BUCKETS_MAX (UINT32_C(1) << 30)

static struct bucket *make_buckets(uint32_t count)
{
    size_t size = count * sizeof(struct bucket);
    struct bucket *buckets = mem_alloc_aligned(size < MEM_HUGE ? CACHE_APART : MEM_HUGE, size);

    if (buckets != NULL)
        memset(buckets, 0, size);
    return buckets;
}

static void move_bucket(struct table *to, const struct bucket *from)
{
    for (uint32_t lane = 0; lane < BUCKET_GROUPS; lane++)
        if (from->heads[lane] != 0)
            table_set_head(to, table_group(to, from->prints[lane]), from->heads[lane]);
}

int table_grow(struct table *t, uint32_t count)
{
    struct table bigger = {.size = BUCKETS_MIN};

    /* three eighths full then, so that this is not needed again soon */
    while ((uint64_t)bigger.size * BUCKET_GROUPS * 3 < ((uint64_t)t->heads + count) * 8)
        if ((bigger.size *= 2) > BUCKETS_MAX)
            return -ENOMEM;
    bigger.shift = 64 - (uint32_t)__builtin_ctz(bigger.size);
    bigger.buckets = make_buckets(bigger.size);
    if (bigger.buckets == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < t->size; i++)
        move_bucket(&bigger, &t->buckets[i]);
    mem_free(t->buckets);
    *t = bigger;
    return 0;
}

void table_clear(struct table *t)
{
    mem_free(t->buckets);
    *t = (struct table){.size = 0};
}

/* I1: a search for the print of this place ends here. */
static bool place_is_valid(const struct table *t, const struct bucket *bucket, uint32_t lane)
{
    struct group group = table_place(t, bucket->prints[lane]);

    return group.bucket == bucket && group.lane == lane;
}

bool table_is_valid(const struct table *t)
{
    uint32_t used = 0, heads = 0;

    if (!table_has_room(t, 0) || (t->size != 0 && t->size != UINT64_C(1) << (64 - t->shift)))
        return false;
    for (uint32_t i = 0; i < t->size; i++) {
        const struct bucket *bucket = &t->buckets[i];

        for (uint32_t lane = 0; lane < BUCKET_GROUPS; lane++) {
            if (bucket->prints[lane] == 0 && bucket->heads[lane] != 0)
                return false;
            if (bucket->prints[lane] != 0 && !place_is_valid(t, bucket, lane))
                return false;
            used += bucket->prints[lane] != 0;
            heads += bucket->heads[lane] != 0;
        }
    }
    return used == t->used && heads == t->heads;
}
