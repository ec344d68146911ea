/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bias.h - data that belongs to the first thread that uses it, until a second one comes.
 *
 *   nobody's ── first thread ──> OWNED ── second thread ──> REVOKED ── the owner is outside ──> SHARED
 *                                                                                         for ever
 *
 * The owner takes no lock: it counts itself inside by a plain store, and then looks whether it
 * is still the owner.  The second thread revokes, and then looks whether the owner is inside.
 * Each writes and then reads, so each needs a full barrier in between.  The second thread makes
 * both, by membarrier(2), which is a barrier in every running thread of the process: so it costs
 * the owner none.  When the owner has left, the second thread calls share(), once: it prepares
 * the data for an ordinary lock, which all threads use from then on.  The model is
 * models/bias.pml.
 *
 *   owner                       second thread
 *     inside = 1                  state = REVOKED
 *     (compiler barrier)          membarrier
 *     state is OWNED? go on       inside is 0? share(), state = SHARED
 *     ...
 *     inside = 0 (release)
 *
 * Calls may be nested: only the outermost one gives the data up.  The owner also leaves between
 * the rounds of a wait, and before it yields or sleeps (bias_step_out()).  An owner that has ended
 * is outside for ever; a later thread with its identity becomes the owner, which is right because
 * the first one has ended.
 *
 * If a promised membarrier fails, the second thread waits for BIAS_DRAIN_NS instead: a store
 * leaves its processor by itself, within microseconds.
 *
 * Invariants
 *   I1  at most one thread is inside, and share() runs while none is
 *   I2  only the owner writes `inside`; it is 0 in state SHARED
 *   I3  the owner changes from nobody to a thread to BIAS_NOBODY, never back
 *
 * Zeroed memory belongs to nobody yet; bias_open() must be called before a thread enters.
 */
#ifndef BASE_BIAS_H
#define BASE_BIAS_H

#include <stdatomic.h>

#include "base/base.h"

/* Owner (of an endpoint, `bias`): the only thread that has called so far, and which takes no lock */
enum bias_state {
    BIAS_OWNED, /* by a thread, or by nobody yet */
    BIAS_REVOKED,
    BIAS_SHARED
};

#define BIAS_NOBODY ((uintptr_t)1) /* owner, in state SHARED */

struct bias;

struct bias_use {
    /* Prepares the data for many threads.  Called once, while no thread is inside. */
    void (*share)(struct bias *bias);
    /* False: only one thread can come so far, and need not be remembered. */
    bool (*has_begun)(void);
    /* A thread that is not the owner calls, or the owner for the first time: before it is let in. */
    void (*meets)(void);
    /* True: the other threads are gone (after fork()), so that nobody waits for them. */
    bool (*is_gone)(void);
};

struct bias {
    _Atomic uintptr_t owner; /* bias_self(); 0: nobody yet */
    _Atomic uint32_t inside; /* calls in which the owner is, one within the other */
    _Atomic uint32_t state;  /* enum bias_state */
    _Atomic int32_t thread;  /* the system's number of the owner */
    const struct bias_use *use;
};

/* False: the data is SHARED from the start, because this system has no membarrier, or because
 * may_own is false.  share() is then not called. */
bool bias_open(struct bias *bias, const struct bias_use *use, bool may_own);

/* The slow paths: of a thread that is not the owner, and of the owner, which has counted itself
 * inside and finds that another thread has revoked. */
void bias_enter_slowly(struct bias *bias);
void bias_give_up(struct bias *bias);

/* A number that no two living threads have. */
static inline uintptr_t bias_self(void)
{
    return (uintptr_t)__builtin_thread_pointer();
}

static inline bool bias_is_mine(const struct bias *bias)
{
    return atomic_load_explicit(&bias->owner, memory_order_relaxed) == bias_self();
}

static inline void bias_count(struct bias *bias, uint32_t inside)
{
    atomic_store_explicit(&bias->inside, inside, memory_order_relaxed);
    /* after the store: membarrier turns it into a full barrier where it matters */
    atomic_signal_fence(memory_order_seq_cst);
}

/* Begins to use the data: as its owner, or after share() has been called. */
static inline void bias_enter(struct bias *bias)
{
    if (likely(bias_is_mine(bias))) {
        bias_count(bias, atomic_load_explicit(&bias->inside, memory_order_relaxed) + 1);
        if (unlikely(atomic_load_explicit(&bias->state, memory_order_relaxed) != BIAS_OWNED))
            bias_give_up(bias);
    } else {
        bias_enter_slowly(bias);
    }
}

static inline void bias_leave(struct bias *bias)
{
    if (likely(bias_is_mine(bias)))
        /* the release pairs with the acquire of the thread that waits for it */
        atomic_store_explicit(&bias->inside,
                              atomic_load_explicit(&bias->inside, memory_order_relaxed) - 1,
                              memory_order_release);
}

/* Does another thread wait for the owner to leave?  Costs a load. */
static inline bool bias_is_wanted(const struct bias *bias)
{
    return atomic_load_explicit(&bias->state, memory_order_relaxed) == BIAS_REVOKED;
}

/* In the middle of a call, where the data is consistent: leaves.  False, and nothing is done, in
 * a nested call and in a thread that is not the owner. */
static inline bool bias_step_out(struct bias *bias)
{
    if (!bias_is_mine(bias) || atomic_load_explicit(&bias->inside, memory_order_relaxed) != 1)
        return false;
    bias_leave(bias);
    return true;
}

/* Returns to the call after bias_step_out(), with its result.  The data may be shared now. */
static inline void bias_step_in(struct bias *bias, bool was_inside)
{
    if (was_inside)
        bias_enter(bias);
}

#endif
