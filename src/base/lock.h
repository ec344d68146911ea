/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock.h - a lock for short work, with a way to let others in.
 *
 *            take            give
 *   FREE ──────────> HELD ──────────> FREE
 *                     │ ^
 *                pass v │ take, by a waiter
 *                   OFFERED
 *
 * A thread that finds the lock held counts itself as wanting it, looks at it several times with pauses, and
 * sleeps.  There is no queue: nobody waits for a thread that is not running.  The lock is fair only
 * where fairness is needed: a holder that would take it again at once, for ever (a loop that
 * polls), passes it while another thread wants it, and gets it back later.
 *
 * Invariants
 *   I1  wanting counts the threads in lock_take() that found the lock held, and the threads in
 *       lock_pass(); asleep counts the threads among them that sleep or are about to
 *   I2  a thread never takes its own offer: offers are numbered, so that a thread that slept
 *       through a whole turn does not mistake the next offer for its own
 *   I3  no thread sleeps for long while the lock is free: lock_give() reads wanting after it
 *       has freed the lock, a waiter sleeps only if the lock is still held after it was counted
 *       in wanting, and both orders are sequentially consistent
 *
 * Zeroed memory is a free lock.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdatomic.h>

#include "base/base.h"

enum lock_state {
    LOCK_FREE,
    LOCK_HELD,
    LOCK_REFUSED, /* for ever */
    LOCK_OFFERED  /* and all values above: the number of the offer */
};

struct lock {
    _Atomic uint32_t state; /* enum lock_state */
    _Atomic uint32_t wanting;
    _Atomic uint32_t asleep;
    uint32_t offers; /* written by the holder */
};

/* The slow paths. */
void lock_take_held(struct lock *lock);
void lock_wake(struct lock *lock);

/* Not recursive. */
static inline void lock_take(struct lock *lock)
{
    uint32_t seen = LOCK_FREE;

    /* the acquire pairs with the stores of lock_give() and lock_pass() */
    if (unlikely(!atomic_compare_exchange_strong_explicit(
            &lock->state, &seen, LOCK_HELD, memory_order_acquire, memory_order_relaxed)))
        lock_take_held(lock);
}

static inline void lock_give(struct lock *lock)
{
    atomic_store(&lock->state, LOCK_FREE);
    if (unlikely(atomic_load(&lock->wanting) != 0)) /* after the store: I3 */
        lock_wake(lock);
}

/* Refuses the lock to all threads from now on: a thread that tries to take it calls `call`,
 * which does not return.  There is one such function for all locks. */
void lock_refuse(struct lock *lock, void (*call)(void));

static inline bool lock_is_refused(const struct lock *lock)
{
    return atomic_load_explicit(&lock->state, memory_order_relaxed) == LOCK_REFUSED;
}

/* For the holder: is another thread waiting?  Costs a load. */
static inline bool lock_is_wanted(const struct lock *lock)
{
    return atomic_load_explicit(&lock->wanting, memory_order_relaxed) != 0;
}

/* For the holder, while the lock is wanted: lets another thread hold it, and returns with the
 * lock held again. */
void lock_pass(struct lock *lock);

#endif
