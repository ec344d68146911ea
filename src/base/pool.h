/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pool.h - objects of one size, at stable addresses, with ids that go stale.
 *
 *   chunks[0] -> | id | object | id | object | ...     one allocation each, never
 *   chunks[1] -> | id | object | id |//////////////     moved, freed by pool_fini()
 *
 * Slots are added to the free list some at a time (POOL_STEP_BYTES), so that a chunk's memory
 * is not touched before its objects are needed.  pool_trim() takes slots away again, from the
 * end, down to the last live object: the memory of these slots goes back to the system, and the
 * chunks stay allocated where they are.
 *
 *   id:   generation          | live |  index
 *         63 ...                            ... 0      index has as many bits as
 *                                                      max_objects needs
 *
 * An id can leave the process: for any value that comes back, pool_find() returns the live
 * object with exactly this id, or NULL.  The header of an object (16 bytes in front of it)
 * holds its id, or the id of its last life with the live bit cleared.  Taking sets the live
 * bit; giving clears it and counts the generation.
 *
 * Invariants (pool_is_valid)
 *   I1  slot i is in chunk i / chunk_objects; its id has index i
 *   I2  the live bit is set if and only if the object is taken; live counts them
 *   I3  every slot that is not live is on the free list exactly once
 *   I4  an id is never given out twice in the life of a pool (until a slot was taken
 *       2^(63 - index bits) times: 2^33 with 2^30 objects).  Slots that pool_trim() has removed
 *       come again with ids above all earlier ones
 *   I5  slots that were never taken have the highest indices, and are at the bottom of the free
 *       list, lowest index first
 *
 * take, give, id and find cost O(1).  Only one thread at a time may use a pool.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/base.h"

struct pool_slot {
    uint64_t id;
    struct pool_slot *next_free;
};

static_assert(sizeof(struct pool_slot) == 16, "objects keep the alignment of malloc");

/* Glossary: generation - a number that is new at each reuse, so that a late packet is
 * recognised */
struct pool {
    struct pool_slot *free; /* last in, first out: its lines are warm */
    unsigned char **chunks;
    uint32_t slot_count; /* slots with an id; the rest of the last chunk is untouched */
    uint32_t live;
    uint32_t max_objects;
    uint32_t chunk_mask; /* objects of a chunk, a power of two, minus 1 */
    uint32_t chunk_shift;
    uint64_t index_mask, live_bit; /* of an id */
    uint64_t base;                 /* the id of new slots, without the index */
    uint32_t kept;                 /* by pool_trim(): all these slots have been taken before */
    uint32_t most_before;          /* pool_most() at that trim */
    size_t stride;                 /* from slot to slot */
    uint32_t chunk_count, chunk_capacity;
};

typedef void pool_visit_fn(void *arg, void *object);

#define POOL_MAX_OBJECTS (UINT32_C(1) << 31)

/* Bytes of slots that are added to the free list at a time (at least one slot): a page. */
#define POOL_STEP_BYTES 4096u

/* With fewer slots none are removed. */
#define POOL_SLACK 64u

/* Allocates nothing yet; every chunk will hold chunk_objects (rounded up to a power
 * of two) objects of object_size bytes, aligned to 16.  Slots longer than a cache line begin at
 * one.  1 <= max_objects <= POOL_MAX_OBJECTS, chunk_objects >= 1.  Undone by pool_fini(). */
void pool_init(struct pool *pool, size_t object_size, uint32_t chunk_objects,
               uint32_t max_objects);

/* Frees all memory, objects that are still live included. */
void pool_fini(struct pool *pool);

/* Adds slots to an empty free list; false if max_objects are there, or no memory. */
bool pool_grow(struct pool *pool);

/* An object with undefined contents; NULL if max_objects are live or there is no
 * memory.  Released by pool_give(). */
static inline void *pool_take(struct pool *pool)
{
    struct pool_slot *slot;

    if (unlikely(pool->free == NULL) && !pool_grow(pool))
        return NULL;
    slot = pool->free;
    pool->free = slot->next_free;
    slot->id |= pool->live_bit;
    pool->live++;
    return slot + 1;
}

/* Gives the object back: its id is stale from here on. */
static inline void pool_give(struct pool *pool, void *object)
{
    struct pool_slot *slot = (struct pool_slot *)object - 1;

    assert((slot->id & pool->live_bit) != 0);
    slot->id += pool->live_bit; /* clears the bit; the carry counts the generation */
    slot->next_free = pool->free;
    pool->free = slot;
    pool->live--;
}

/* Never 0. */
static inline uint64_t pool_id(const struct pool *pool, const void *object)
{
    const struct pool_slot *slot = (const struct pool_slot *)object - 1;

    (void)pool;
    return slot->id;
}

static inline struct pool_slot *pool_slot_at(const struct pool *pool, uint32_t index)
{
    unsigned char *chunk = pool->chunks[index >> pool->chunk_shift];

    return (struct pool_slot *)(void *)(chunk + (index & pool->chunk_mask) * pool->stride);
}

/* The live object with this id, or NULL.  Safe for any value. */
static inline void *pool_find(const struct pool *pool, uint64_t id)
{
    uint64_t index = id & pool->index_mask;
    struct pool_slot *slot;

    if (unlikely(index >= pool->slot_count) || unlikely((id & pool->live_bit) == 0))
        return NULL;
    slot = pool_slot_at(pool, (uint32_t)index);
    return likely(slot->id == id) ? slot + 1 : NULL;
}

/* How many objects are taken. */
static inline uint32_t pool_live(const struct pool *pool)
{
    return pool->live;
}

/* Memory of all slots that were ever needed, free ones included. */
static inline uint64_t pool_bytes(const struct pool *pool)
{
    return pool->slot_count * (uint64_t)pool->stride;
}

/* The most objects that were ever taken at one time.  Walks the slots of a chunk. */
uint32_t pool_most(const struct pool *pool);

/* Are most slots free?  Then pool_trim() may give memory back. */
static inline bool pool_is_slack(const struct pool *pool)
{
    return pool->slot_count > POOL_SLACK && pool->live < pool->slot_count / 8;
}

/* Removes the slots after the last live object (but keeps a first step of them), and gives
 * their memory back.  Ids that were given out stay stale, and objects stay where they are.
 * Walks all slots.  False: there was nothing to give back. */
bool pool_trim(struct pool *pool);

/* Visits each live object once, in index order.  visit may give the object that it
 * was called with; objects that it takes may or may not be visited. */
void pool_for_each(struct pool *pool, pool_visit_fn *visit, void *arg);

/* Checks all invariants; walks everything. */
bool pool_is_valid(const struct pool *pool);

#endif
