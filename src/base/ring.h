/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.h - records of any size from one process to another, through shared memory.
 *
 *            head                       tail
 *             |                          |
 *   cells  | r1     | r2 | r3         | 0 | old bytes ...      | skip .... |
 *            3 cells  1     3           next frame word          to the end
 *
 * One producer, one consumer.  A record takes consecutive cells of one cache line each.  Its
 * first 4 bytes, the frame word, belong to the ring: the size of the record in bytes, including
 * these 4, or 0 for "nothing here yet".  The caller's data starts at offset RING_FRAME_SIZE.
 * There is no shared tail: the consumer polls the frame word at its head, so a record of up to
 * 64 bytes costs one line written and one line read.  A record never crosses the end of the
 * ring: a skip frame sends the consumer to cell 0.
 *
 * head and tail count cells and are not reduced modulo cell_count; their low bits are the
 * cell.  The tail is private to the producer; the consumer publishes the head in batches, so
 * its cache line seldom moves.
 *
 * Zero-filled memory is a valid empty ring.
 *
 * Invariants
 *   I1  head <= tail <= head + cell_count
 *   I2  the frame word at tail is 0: the producer zeroes the word after a record before it
 *       publishes the record, and so reserves one cell more than it fills
 *   I3  the producer writes only cells that it knows to be released: the acquire of head in
 *       ring_refill() pairs with the release in ring_consumer_flush()
 *   I4  the consumer reads only published records: the acquire of the frame word in ring_peek()
 *       pairs with the release in ring_publish()
 *   I6  if zeroed == tail + 1 the frame word there is also 0, before the next record is
 *       written: publishing a record of one cell then touches no other line
 *   I5  a record has at most 5/16 of the cells, and the consumer keeps less than 4/16 of
 *       released cells unpublished, and perhaps a skip of less than 5/16 that it followed.  So
 *       in an empty ring the producer always gets its cells and one more: after a followed skip
 *       it needs no other skip (5/16 + 9/16), otherwise at most 10/16 + 4/16
 *
 * The other side is not trusted.  A frame word is read once and checked against the
 * end of the ring and the longest record; a head is checked against I1.  A failed check breaks
 * this half of the ring: its error is -EPROTO from then on, and nothing more is read or
 * written.  The contents of a record can still change while they are read; the caller copies
 * before it checks.
 *
 * Cost on x86-64 (gcc -O2, with assertions): 50 instructions to reserve and publish a record
 * of one cell with 8 bytes of data, 10 to find the ring empty, 26 to peek and release such a
 * record; no locked instructions.
 *
 * armed, producer_waiting, closed and moved belong to the caller: this file only gives them a
 * place.  To sleep, the consumer stores armed, issues a full barrier, and calls ring_is_empty()
 * a last time; the producer calls ring_publish(), issues a full barrier (unless the consumer
 * uses membarrier) and loads armed.
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "base/base.h"

#define RING_CELL_SIZE CACHE_LINE

/* The bytes of the frame word at the front of each record. */
#define RING_FRAME_SIZE 4u

#define RING_MIN_CELLS  4u
#define RING_MAX_CELLS  (1u << 24)

/* After each record of at most RING_AHEAD cells, the producer prefetches the lines RING_AHEAD
 * cells further on.  The consumer has them since the last lap; without the prefetch, stores,
 * which become visible in order, would wait for one line after the other: one for each record
 * of a stream. */
#define RING_AHEAD 4u

/* The lines after the first one of a record that are prefetched when its frame word is seen. */
#define RING_REST 4u

/* "The next record is at cell 0"; longer than any record. */
#define RING_SKIP        UINT32_MAX

#define RING_KEEPER_SIZE 40u

struct ring {
    /* written by the consumer */
    alignas(CACHE_LINE) _Atomic uint64_t head; /* cells released */
    _Atomic uint32_t armed;                    /* stopped polling, needs a doorbell */

    /* written by the producer, so seldom that the line stays with the consumer */
    _Atomic uint32_t producer_waiting; /* full: flush the head soon */
    _Atomic uint32_t closed;           /* no record will follow */
    _Atomic uint32_t moved;            /* the next records are elsewhere */

    /* the rest of the line is for the owner of the ring */
    unsigned char keeper[RING_KEEPER_SIZE];

    alignas(CACHE_LINE) unsigned char cells[];
};

static_assert(offsetof(struct ring, cells) == CACHE_LINE, "the state of a ring is a line");
static_assert(sizeof(_Atomic uint32_t) == 4, "the frame word is 4 bytes");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "between processes");

struct ring_producer {
    struct ring *shared;
    uint64_t tail;       /* the next cell to fill */
    uint64_t head_seen;  /* an earlier or the current head of the consumer */
    uint64_t zeroed;     /* I6; equal to tail: no cell */
    uint32_t cell_count; /* a power of two */
    int error;           /* 0, or -EPROTO: the consumer broke I1 */
};

struct ring_consumer {
    struct ring *shared;
    uint64_t head;       /* the next cell to read */
    uint64_t published;  /* the head that the producer can see */
    uint32_t cell_count; /* a power of two */
    uint32_t cells_held; /* by the record that ring_peek() returned; 0 = none */
    uint32_t cell_limit; /* a record of one cell has fewer bytes than this after its frame
                            word */
    uint32_t data_limit; /* any record has fewer bytes than this after its frame word; 0 after
                            an error, so that no frame is accepted again */
    int error;           /* 0, or -EPROTO: a frame word was invalid */
};

/* Bytes of shared memory for a ring of cell_count cells; it must start on a cache line. */
static inline size_t ring_bytes(uint32_t cell_count)
{
    return sizeof(struct ring) + (size_t)cell_count * RING_CELL_SIZE;
}

/* The longest record, frame word included: 5/16 of the ring, so that a ring of 16 KiB takes a
 * page with its header as one record. */
static inline uint32_t ring_max_record(uint32_t cell_count)
{
    return cell_count * 5 / 16 * RING_CELL_SIZE;
}

static inline bool ring_count_is_valid(uint32_t cell_count)
{
    return is_power_of_two(cell_count) && cell_count >= RING_MIN_CELLS &&
           cell_count <= RING_MAX_CELLS;
}

/* Each half must start on a ring that was never used.  The halves hold no resources: there is
 * nothing to undo. */
static inline void ring_producer_init(struct ring_producer *p, struct ring *shared,
                                      uint32_t cell_count)
{
    assert(ring_count_is_valid(cell_count));
    *p = (struct ring_producer){.shared = shared, .cell_count = cell_count};
}

static inline void ring_consumer_init(struct ring_consumer *c, struct ring *shared,
                                      uint32_t cell_count)
{
    assert(ring_count_is_valid(cell_count));
    *c = (struct ring_consumer){
        .shared = shared,
        .cell_count = cell_count,
        .cell_limit = RING_CELL_SIZE - RING_FRAME_SIZE + 1,
        .data_limit = ring_max_record(cell_count) - RING_FRAME_SIZE + 1,
    };
}

/* Initializes a consumer that continues where another one of this ring stopped: at head, or at
 * the head that the other one has published if that is further on.  ring_peek() returns the
 * record there next, whether or not the other consumer had peeked at it. */
static inline void ring_consumer_resume(struct ring_consumer *c, struct ring *shared,
                                        uint32_t cell_count, uint64_t head)
{
    ring_consumer_init(c, shared, cell_count);
    c->published = atomic_load_explicit(&shared->head, memory_order_relaxed);
    c->head = (int64_t)(head - c->published) < 0 ? c->published : head;
    if (c->head - c->published > cell_count) { /* I1 */
        c->error = -EPROTO;
        c->cell_limit = c->data_limit = 0;
    }
}

static inline uint32_t ring_cells_of(uint32_t size)
{
    return (size + RING_CELL_SIZE - 1) / RING_CELL_SIZE;
}

static inline unsigned char *ring_cell(struct ring *r, uint32_t cell)
{
    return r->cells + (size_t)cell * RING_CELL_SIZE;
}

static inline _Atomic uint32_t *ring_frame(struct ring *r, uint32_t cell)
{
    return (_Atomic uint32_t *)(void *)ring_cell(r, cell);
}

/* ---- producer ---- */

/* Free cells that the producer knows of. */
static inline uint64_t ring_space(const struct ring_producer *p)
{
    return p->cell_count - (p->tail - p->head_seen);
}

/* Reads the consumer's head.  True if this many cells are free.  Seldom called. */
static inline bool ring_refill(struct ring_producer *p, uint64_t cells)
{
    uint64_t head;

    if (p->error != 0)
        return false;
    /* pairs with the release in ring_consumer_flush() */
    head = atomic_load_explicit(&p->shared->head, memory_order_acquire);
    if (p->tail - head > p->cell_count) {
        p->error = -EPROTO;
        p->head_seen = p->tail - p->cell_count; /* full for ever */
        return false;
    }
    p->head_seen = head;
    return ring_space(p) >= cells;
}

/* Sends the consumer to cell 0; there is space for the skip and for a frame word in cell 0. */
static inline void ring_skip(struct ring_producer *p, uint32_t cell)
{
    atomic_store_explicit(ring_frame(p->shared, 0), 0, memory_order_relaxed);
    /* pairs with the acquire in ring_peek(): cell 0 is empty before the consumer looks there */
    atomic_store_explicit(ring_frame(p->shared, cell), RING_SKIP, memory_order_release);
    p->tail += p->cell_count - cell;
}

/* Producer: ring_reserve() for a record of one cell, which needs no skip. */
static inline void *ring_reserve_cell(struct ring_producer *p)
{
    if (unlikely(ring_space(p) < 2) && !ring_refill(p, 2))
        return NULL;
    return ring_cell(p->shared, (uint32_t)p->tail & (p->cell_count - 1));
}

/* Producer: returns where to write a record of size bytes (frame word included; at most
 * ring_max_record()), aligned to a cache line, or NULL: the ring is full, or broken
 * (p->error).  Write after the first RING_FRAME_SIZE bytes, then call ring_publish(); without
 * that call nothing is sent.  One record at a time. */
static inline void *ring_reserve(struct ring_producer *p, uint32_t size)
{
    uint32_t cells = ring_cells_of(size);
    uint32_t cell = (uint32_t)p->tail & (p->cell_count - 1);
    uint32_t to_end = p->cell_count - cell;
    uint64_t need = (uint64_t)cells + 1;

    assert(size >= RING_FRAME_SIZE && size <= ring_max_record(p->cell_count));
    if (unlikely(cells > to_end))
        need += to_end;
    if (unlikely(ring_space(p) < need) && !ring_refill(p, need))
        return NULL;
    if (unlikely(cells > to_end)) {
        ring_skip(p, cell);
        cell = 0;
    }
    if (cells > 1)
        p->zeroed = p->tail; /* the caller may write there, even if it does not publish */
    return ring_cell(p->shared, cell);
}

/* The producer's position, read once: a compiler must assume that each store into the ring
 * changes the producer. */
struct ring_place {
    struct ring *shared;
    uint64_t tail, head_seen;
    uint32_t cell_count;
};

static inline struct ring_place ring_place(const struct ring_producer *p)
{
    return (struct ring_place){p->shared, p->tail, p->head_seen, p->cell_count};
}

static inline _Atomic uint32_t *ring_frame_at(struct ring_place at, uint64_t cell)
{
    return ring_frame(at.shared, (uint32_t)cell & (at.cell_count - 1));
}

/* Publishes a record of this many cells.  Returns the free cells that the producer knows of. */
static inline uint64_t ring_publish_cells(struct ring_producer *p, struct ring_place at,
                                          void *record, uint32_t size, uint32_t cells)
{
    uint64_t next = at.tail + cells;
    uint64_t space = at.cell_count - (next - at.head_seen);

    assert(size >= RING_FRAME_SIZE);
    if (unlikely(next != p->zeroed))
        atomic_store_explicit(ring_frame_at(at, next), 0, memory_order_relaxed);
    /* pairs with the acquire in ring_peek(): the record, and the zero after it */
    atomic_store_explicit((_Atomic uint32_t *)record, size, memory_order_release);
    p->tail = next;
    /* I6: zeroes the word after the next record, assuming that it has one cell.  Done together
     * with that record, the store would delay it by moving one more line, which the consumer
     * read a lap ago. */
    if (likely(space >= 2)) {
        p->zeroed = next + 1;
        atomic_store_explicit(ring_frame_at(at, next + 1), 0, memory_order_relaxed);
    }
    return space;
}

/* After a record of this many cells was published at `at`: prefetches the lines of a later
 * record, unless the consumer may still have to read them. */
static inline void ring_ask_ahead(struct ring_place at, uint32_t cells, uint64_t space)
{
    uint64_t ahead = at.tail + cells + RING_AHEAD;

    if (likely(space >= RING_AHEAD + cells))
        for (uint32_t i = 0; i < cells; i++)
            prefetch_for_store(ring_frame_at(at, ahead + i));
}

/* Producer: publishes the record that ring_reserve() returned, with its final size, which must
 * not be more than was reserved. */
static inline void ring_publish(struct ring_producer *p, void *record, uint32_t size)
{
    struct ring_place at = ring_place(p);
    uint32_t cells = ring_cells_of(size);
    uint64_t space = ring_publish_cells(p, at, record, size, cells);

    if (cells <= RING_AHEAD)
        ring_ask_ahead(at, cells, space);
}

/* Producer: publishes a record of one cell that ring_reserve_cell() returned; `at` is the
 * producer's position, unchanged since. */
static inline void ring_publish_cell(struct ring_producer *p, struct ring_place at,
                                     void *record, uint32_t size)
{
    assert(size <= RING_CELL_SIZE);
    ring_ask_ahead(at, 1, ring_publish_cells(p, at, record, size, 1));
}

/* ---- consumer ---- */

/* No later record is accepted. */
static inline void ring_break(struct ring_consumer *c)
{
    c->error = -EPROTO;
    c->cell_limit = c->data_limit = 0;
    c->cells_held = 0;
}

/* Prefetches up to RING_REST lines of a record after its first one: all are written, and the
 * work on the first one takes about as long as the others need to arrive. */
static inline void ring_ask_for_rest(struct ring_consumer *c, uint32_t cell)
{
    for (uint32_t i = 1; i < c->cells_held && i <= RING_REST; i++)
        __builtin_prefetch(ring_cell(c->shared, cell + i));
}

/* Handles a frame word other than "one cell, here": follows a skip, checks the frame, and holds
 * the cells.  False if there is no record, or no valid one. */
static inline bool ring_peek_cells(struct ring_consumer *c, uint32_t *cell, uint32_t *frame)
{
    if (*frame == RING_SKIP) { /* only once: a second skip is too long for a record */
        c->head += c->cell_count - *cell;
        *cell = 0;
        *frame = atomic_load_explicit(ring_frame(c->shared, 0), memory_order_acquire);
        if (*frame == 0)
            return false;
    }
    /* a frame below RING_FRAME_SIZE wraps, and so is too long as well */
    if (unlikely(*frame - RING_FRAME_SIZE >= c->data_limit) ||
        unlikely(ring_cells_of(*frame) > c->cell_count - *cell)) {
        ring_break(c);
        return false;
    }
    c->cells_held = ring_cells_of(*frame);
    ring_ask_for_rest(c, *cell);
    return true;
}

/* Consumer: the oldest record and its size (frame word included), or NULL: nothing
 * has arrived, or the ring is broken (check c->error if there is no record).  The record stays
 * in place until ring_release(); another peek returns it again.  *size is the checked size; the
 * frame word in the record must not be read again. */
static inline void *ring_peek(struct ring_consumer *c, uint32_t *size)
{
    uint32_t cell = (uint32_t)c->head & (c->cell_count - 1);
    /* pairs with the releases in ring_publish() and ring_skip() */
    uint32_t frame = atomic_load_explicit(ring_frame(c->shared, cell), memory_order_acquire);

    if (frame == 0)
        return NULL;
    if (likely(frame - RING_FRAME_SIZE < c->cell_limit))
        c->cells_held = 1;
    else if (!ring_peek_cells(c, &cell, &frame))
        return NULL;
    *size = frame;
    return ring_cell(c->shared, cell);
}

/* Consumer: a word that is not 0 as soon as ring_peek() has something to do. */
static inline const _Atomic uint32_t *ring_next(const struct ring_consumer *c)
{
    return ring_frame(c->shared, (uint32_t)c->head & (c->cell_count - 1));
}

/* Consumer: publishes its head.  Needed only when the producer waits for space:
 * producer_waiting is set, or the ring will not be polled for a while. */
static inline void ring_consumer_flush(struct ring_consumer *c)
{
    if (c->head == c->published)
        return;
    /* pairs with the acquire in ring_refill(): our reads are complete */
    atomic_store_explicit(&c->shared->head, c->head, memory_order_release);
    c->published = c->head;
}

/* Producer: has the consumer published that it has read all records? */
static inline bool ring_is_taken(const struct ring_producer *p)
{
    /* pairs with the release in ring_consumer_flush() */
    return atomic_load_explicit(&p->shared->head, memory_order_acquire) == p->tail;
}

/* Consumer: releases the record that ring_peek() returned. */
static inline void ring_release(struct ring_consumer *c)
{
    assert(c->cells_held != 0);
    c->head += c->cells_held;
    c->cells_held = 0;
    if (unlikely(c->head - c->published >= c->cell_count / 4))
        ring_consumer_flush(c);
}

/* Consumer: true if nothing has arrived (a skip counts as something until ring_peek() has
 * followed it).  A broken ring is empty. */
static inline bool ring_is_empty(const struct ring_consumer *c)
{
    uint32_t cell = (uint32_t)c->head & (c->cell_count - 1);

    return c->error != 0 ||
           atomic_load_explicit(ring_frame(c->shared, cell), memory_order_acquire) == 0;
}

#endif
