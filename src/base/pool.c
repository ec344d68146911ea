/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.c - growing and shrinking a pool; see pool.h.
 */
#include "base/array.h"
#include "base/pool.h"

#include "base/mem.h"

static bool slot_is_live(const struct pool *pool, const struct pool_slot *slot)
{
    return (slot->id & pool->live_bit) != 0;
}

/* The least b with 2^b >= value. */
static uint32_t bits_for(uint32_t value)
{
    return value <= 1 ? 0 : 32 - (uint32_t)__builtin_clz(value - 1);
}

void pool_init(struct pool *pool, size_t object_size, uint32_t chunk_objects,
               uint32_t max_objects)
{
    assert(chunk_objects >= 1 && chunk_objects <= POOL_MAX_OBJECTS);
    assert(max_objects >= 1 && max_objects <= POOL_MAX_OBJECTS);
    *pool = (struct pool){
        .max_objects = max_objects,
        .chunk_shift = bits_for(chunk_objects),
        .chunk_mask = (UINT32_C(1) << bits_for(chunk_objects)) - 1,
        .index_mask = (UINT64_C(1) << bits_for(max_objects)) - 1,
        .live_bit = UINT64_C(1) << bits_for(max_objects),
        .stride = round_up(sizeof(struct pool_slot) + object_size,
                           object_size > CACHE_LINE ? CACHE_LINE : sizeof(struct pool_slot)),
    };
}

void pool_fini(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        mem_free(pool->chunks[i]);
    mem_free(pool->chunks);
    *pool = (struct pool){0};
}

/* Adds a chunk, smaller if max_objects leaves less. */
static bool add_chunk(struct pool *pool)
{
    size_t left = pool->max_objects - pool->slot_count;
    unsigned char *chunk;

    if (left == 0 || !array_reserve(pool->chunks, pool->chunk_capacity, pool->chunk_count + 1))
        return false;
    chunk = mem_alloc_aligned(CACHE_LINE,
                              min_size(left, (size_t)pool->chunk_mask + 1) * pool->stride);
    if (chunk == NULL)
        return false;
    pool->chunks[pool->chunk_count++] = chunk;
    return true;
}

/* The number of slots that are added at a time. */
static uint32_t slots_of_step(const struct pool *pool)
{
    return (uint32_t)max_size(POOL_STEP_BYTES / pool->stride, 1);
}

/* Adds slots to the free list: the next ones of the last chunk, or the first ones of a new
 * chunk. */
bool pool_grow(struct pool *pool)
{
    uint32_t first = pool->slot_count;
    size_t left;

    if (first >> pool->chunk_shift == pool->chunk_count && !add_chunk(pool))
        return false;
    left = min_size(pool->max_objects - first,
                    (size_t)pool->chunk_mask + 1 - (first & pool->chunk_mask));
    if (left == 0)
        return false;
    pool->slot_count += (uint32_t)min_size(left, slots_of_step(pool));
    for (uint32_t i = pool->slot_count; i-- > first;) { /* so that the lowest is on top */
        struct pool_slot *slot = pool_slot_at(pool, i);

        slot->id = pool->base | i;
        slot->next_free = pool->free;
        pool->free = slot;
    }
    return true;
}

/* Was the slot ever taken?  If not, its generation was never counted. */
static bool slot_is_used(const struct pool *pool, uint32_t index)
{
    return index < pool->kept || pool_slot_at(pool, index)->id != (pool->base | index);
}

/* The number of slots that were ever taken; by I5 they come first. */
static uint32_t used_slots(const struct pool *pool)
{
    uint32_t used = pool->slot_count;

    while (used > 0 && !slot_is_used(pool, used - 1))
        used--;
    return used;
}

/* The most objects at any time: by I5 a slot is taken for the first time only while all slots
 * before it are taken. */
uint32_t pool_most(const struct pool *pool)
{
    uint32_t used = used_slots(pool);

    return used > pool->most_before ? used : pool->most_before;
}

/* ---- giving memory back ---- */

/* The slots up to the last live one, and at least a step. */
static uint32_t slots_to_keep(const struct pool *pool)
{
    uint32_t keep = pool->slot_count, least = slots_of_step(pool);

    while (keep > least && !slot_is_live(pool, pool_slot_at(pool, keep - 1)))
        keep--;
    return keep;
}

/* Discards the memory of the slots from this one on, in each chunk. */
static void discard_from(struct pool *pool, uint32_t keep)
{
    uint32_t capacity = pool->chunk_mask + 1;

    for (uint32_t from = keep, next; from < pool->slot_count; from = next) {
        next = (from & ~pool->chunk_mask) + capacity;
        if (next > pool->slot_count || next < from)
            next = pool->slot_count;
        mem_discard(pool_slot_at(pool, from), (next - from) * pool->stride);
    }
}

bool pool_trim(struct pool *pool)
{
    uint32_t keep = slots_to_keep(pool);

    if (used_slots(pool) <= keep)
        return false;
    pool->most_before = pool_most(pool);
    for (uint32_t i = keep; i < pool->slot_count; i++) {
        uint64_t id = pool_slot_at(pool, i)->id & ~pool->index_mask;

        if (id > pool->base)
            pool->base = id;
    }
    discard_from(pool, keep);
    pool->slot_count = pool->kept = keep;
    pool->free = NULL;
    for (uint32_t i = keep; i-- > 0;) {
        struct pool_slot *slot = pool_slot_at(pool, i);

        if (slot_is_live(pool, slot))
            continue;
        slot->next_free = pool->free;
        pool->free = slot;
    }
    return true;
}

/* ---- looking ---- */

void pool_for_each(struct pool *pool, pool_visit_fn *visit, void *arg)
{
    for (uint32_t i = 0; i < pool->slot_count; i++) {
        struct pool_slot *slot = pool_slot_at(pool, i);

        if (slot_is_live(pool, slot))
            visit(arg, slot + 1);
    }
}

/* Checks I1 and I2; counts the live objects. */
static bool slots_are_valid(const struct pool *pool, uint32_t *live)
{
    *live = 0;
    for (uint32_t i = 0; i < pool->slot_count; i++) {
        const struct pool_slot *slot = pool_slot_at(pool, i);

        if ((slot->id & pool->index_mask) != i)
            return false;
        *live += slot_is_live(pool, slot);
    }
    return *live == pool->live;
}

/* Checks I5. */
static bool used_come_first(const struct pool *pool)
{
    uint32_t used = used_slots(pool);

    for (uint32_t i = 0; i < used; i++)
        if (!slot_is_used(pool, i))
            return false;
    return pool->live <= used;
}

/* Checks I3: the free list has the right length, and none of its slots is live.  A list that
 * returns to itself would be longer. */
static bool free_list_is_valid(const struct pool *pool, uint32_t live)
{
    uint32_t left = pool->slot_count - live;

    for (const struct pool_slot *slot = pool->free; slot != NULL; slot = slot->next_free)
        if (slot_is_live(pool, slot) || left-- == 0)
            return false;
    return left == 0;
}

bool pool_is_valid(const struct pool *pool)
{
    uint32_t live;

    return pool->slot_count <= pool->max_objects && slots_are_valid(pool, &live) &&
           used_come_first(pool) && free_list_is_valid(pool, live);
}
