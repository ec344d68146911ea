/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock.c - the slow paths of lock.h, for a lock that is contended.
 */
#include "base/lock.h"

#include "base/sys.h"

/* Polls of a held lock before sleeping: most holders give the lock sooner. */
#define LOCK_SPINS 100

/* Sleeps while the state has this value; may return early. */
static void lock_sleep(struct lock *lock, uint32_t state)
{
    atomic_fetch_add(&lock->asleep, 1);
    (void)sys_futex_wait(&lock->state, state, UINT64_MAX); /* the caller looks at the state
                                                              again in any case */
    atomic_fetch_sub(&lock->asleep, 1);
}

OUT_OF_LINE void lock_wake(struct lock *lock)
{
    if (atomic_load(&lock->asleep) != 0)
        sys_futex_wake(&lock->state, 1);
}

/* Takes a lock that is free or offered.  False: it is held. */
static bool lock_try(struct lock *lock)
{
    uint32_t seen = atomic_load_explicit(&lock->state, memory_order_relaxed);

    return seen != LOCK_HELD &&
           atomic_compare_exchange_strong_explicit(&lock->state, &seen, LOCK_HELD,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* Takes the lock; the caller is already counted in wanting. */
static void lock_take_wanted(struct lock *lock)
{
    for (unsigned spins = 0; !lock_try(lock); spins++) {
        if (spins < LOCK_SPINS)
            cpu_relax();
        else
            lock_sleep(lock, LOCK_HELD);
    }
}

static void (*refused)(void);

void lock_refuse(struct lock *lock, void (*call)(void))
{
    refused = call;
    atomic_store(&lock->state, LOCK_REFUSED);
}

OUT_OF_LINE void lock_take_held(struct lock *lock)
{
    if (lock_is_refused(lock))
        refused();
    atomic_fetch_add(&lock->wanting, 1); /* before the next look at state: I3 */
    lock_take_wanted(lock);
    atomic_fetch_sub(&lock->wanting, 1);
}

/* The next offer's state; the same value comes again after 2^31 offers. */
static uint32_t lock_offer(struct lock *lock)
{
    return LOCK_OFFERED + (lock->offers++ & (UINT32_MAX >> 1));
}

OUT_OF_LINE void lock_pass(struct lock *lock)
{
    uint32_t offer = lock_offer(lock);

    atomic_fetch_add(&lock->wanting, 1);
    atomic_store(&lock->state, offer);
    lock_wake(lock);
    for (unsigned spins = 0; atomic_load_explicit(&lock->state, memory_order_relaxed) == offer;
         spins++) {
        if (spins < LOCK_SPINS)
            cpu_relax();
        else
            lock_sleep(lock, offer);
    }
    lock_take_wanted(lock);
    atomic_fetch_sub(&lock->wanting, 1);
}
