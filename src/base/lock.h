/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock.h - a lock for short work, with a way to let others in.
 *
 *            take            give
 *   FREE ──────────> HELD ──────────> FREE
 *                     │ ^
 *                pass v │ take, by one who already wants it
 *                   OFFERED
 *
 * Who finds the lock held says that he wants it, polls a little, and sleeps.  Whoever
 * comes first gets it: with short work that is faster than a queue, because nobody waits
 * for one who is not running.  It is fair only where fairness is needed: a holder that
 * would take the lock again at once, for ever (a loop that polls), passes it while
 * somebody wants it, and then gets it back behind that one.
 *
 * Invariants
 *   I1  wanting counts those in lock_take() that found the lock held, and those in
 *       lock_pass(); asleep those of them that sleep or are about to
 *   I2  who offers the lock is not the one who takes that offer: offers are numbered, so
 *       that one who slept through a whole turn does not mistake the next for his own
 *   I3  nobody sleeps for long while the lock is free: who gives it looks at wanting
 *       behind the giving, who wants it sleeps only if it is held behind the wanting, and
 *       both orders are sequentially consistent
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
    LOCK_REFUSED, /* for good */
    LOCK_OFFERED  /* and all above: the number of the offer */
};

struct lock {
    _Atomic uint32_t state; /* enum lock_state */
    _Atomic uint32_t wanting;
    _Atomic uint32_t asleep;
    uint32_t offers; /* the holder's */
};

/* The slow halves. */
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
    if (unlikely(atomic_load(&lock->wanting) != 0)) /* behind the store: I3 */
        lock_wake(lock);
}

/* Nobody takes it any more: who tries has `call` called, which does not return.  One call for all locks. */
void lock_refuse(struct lock *lock, void (*call)(void));

static inline bool lock_is_refused(const struct lock *lock)
{
    return atomic_load_explicit(&lock->state, memory_order_relaxed) == LOCK_REFUSED;
}

/* For the holder: does somebody wait?  Costs a load. */
static inline bool lock_is_wanted(const struct lock *lock)
{
    return atomic_load_explicit(&lock->wanting, memory_order_relaxed) != 0;
}

/* For the holder, if the lock is wanted: somebody else has held it, or holds it until
 * this returns; then it is ours again. */
void lock_pass(struct lock *lock);

#endif
