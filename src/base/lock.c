/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock.c - the slow paths of lock.h, for a lock that is contended.
 */
#include "base/lock.h"

#include "base/sys.h"

/* Pauses between the looks at a held lock, before the thread sleeps: 30 to 80 us in all on x86-64, and most holders
 * give the lock sooner.  Each look moves the line of the lock to another core, and a thread that gets the
 * lock moves all the lines that it guards.  So the first looks only take an offer, and the pauses after
 * them are long: two threads that take the lock all the time have it in turns of many calls. */
static const uint16_t lock_pauses[] = {8, 8, 8, 8, 128, 256, 512, 512};
#define LOCK_EARLY 4u /* looks that only take an offer */

/* Looks at one's own offer before sleeping. */
#define LOCK_OFFER_LOOKS 512u

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

static void lock_pause(unsigned relaxes)
{
    for (unsigned i = 0; i < relaxes; i++)
        cpu_relax();
}

/* Takes a lock that is offered, or free unless it is early.  False: it is held. */
static bool lock_try(struct lock *lock, bool is_early)
{
    uint32_t seen = atomic_load_explicit(&lock->state, memory_order_relaxed);

    return seen != LOCK_HELD && (seen != LOCK_FREE || !is_early) &&
           atomic_compare_exchange_strong_explicit(&lock->state, &seen, LOCK_HELD,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* Takes the lock; the caller is already counted in wanting. */
static void lock_take_wanted(struct lock *lock)
{
    for (unsigned look = 0; !lock_try(lock, look < LOCK_EARLY); look++) {
        if (look < ARRAY_COUNT(lock_pauses))
            lock_pause(lock_pauses[look]);
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
    for (unsigned look = 0; atomic_load_explicit(&lock->state, memory_order_relaxed) == offer;
         look++) {
        if (look < LOCK_OFFER_LOOKS)
            cpu_relax();
        else
            lock_sleep(lock, offer);
    }
    lock_take_wanted(lock);
    atomic_fetch_sub(&lock->wanting, 1);
}
