/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell.h - notifies a receiver that does not poll.
 *
 * A receiver polls only its hot rings.  It arms the other rings, and all rings to sleep: it
 * sets a word in shared memory that requests a notification.  A sender that has published a
 * packet looks whether the receiver has armed.
 *
 *   receiver                         sender
 *   armed = 1                        publish
 *   full barrier                     full barrier
 *   is something there?              is armed set?  then ring the bell
 *
 * One of the two sees the other, or both do.  The sender does this for each message, the
 * receiver seldom; so the receiver pays for both barriers, with membarrier(2): during that
 * call, every running thread of the registered processes executes a full barrier, and a thread
 * that does not run executed one when it was switched out.  The sender's barrier is then only a
 * compiler barrier.  If the receiver has no membarrier (segment.needs_fence), or the sender
 * could not register, the sender executes a real one.
 *
 * A second look.  On some systems membarrier does not reach every thread that it should: Linux
 * misses the registration for a processor that at that moment keeps our memory map for a kernel
 * thread, or is idle (docs/decisions/0019).  A thread that later runs there may read armed
 * before its published packet becomes visible, and nobody rings.  But the packet becomes
 * visible soon, with or without a barrier.  So armed rings are looked at again after
 * SHM_DOUBT_NS, far longer than a store stays in a store buffer, and then not again.  A packet
 * that was missed is late by that time, and there is at most one more round per sleep.
 *
 * To ring the bell, the sender sets the bit of the slot in ready[], increments the doorbell's
 * count, and wakes the sleeper if sleeping is set.  count and sleeping are only accessed with
 * sequential consistency: the sender increments count and then reads sleeping; the receiver
 * sets sleeping and then reads count, the last time within the futex call.
 *
 * sleeping holds the count that the sleeper has seen, and a bit.  A sender may be slow: when it
 * reads sleeping, the receiver may have answered its count and be about to sleep again.  The
 * sender must leave that sleeper alone: if it cleared sleeping before the receiver was in the
 * futex call, it would wake nobody, and the next sender would find nobody to wake.
 *
 * A bell has one sleeper.  An endpoint that is handed over has two sleepers, and so two bells:
 * the receiving half sleeps on the doorbell, the owner on its own bell.  A peer that makes
 * space does not know which of the two waits for space, and rings both.
 */
/* Doorbell: the word by which a sender wakes a receiver */
#ifndef SHM_BELL_H
#define SHM_BELL_H

#include "transport/shm/segment.h"

/* Registration.  The kernel waits until all of its processors have passed a point before it
 * reports that a process with several threads is registered, which takes about 15 ms.  So such
 * a process registers in a thread of its own, and its senders use fences meanwhile; a receiver
 * that arms during the registration reaches it by one way or the other. */
enum bell_state {
    BELL_FENCES,     /* failed: senders use fences */
    BELL_REGISTERS,  /* under way: senders use fences */
    BELL_REGISTERED, /* senders need no fences */
};

/* Registers this process, or begins to; returns the state.  The thread is detached: it may
 * outlive the endpoint. */
enum bell_state bell_register(void);

/* The state now, after bell_register(). */
enum bell_state bell_registered(void);

/* True if bell_arm_barrier() can work in this process. */
bool bell_can_barrier(void);

/* The sender's barrier between publishing and reading armed. */
static inline void bell_publish_barrier(bool fence)
{
    if (unlikely(fence))
        __sync_synchronize();
    else
        atomic_signal_fence(memory_order_seq_cst);
}

/* The receiver's barrier between arming and the last check; it pairs with a sender's
 * bell_publish_barrier().  False: it failed, and arming cannot be relied on. */
bool bell_arm_barrier(const struct segment *own);

/* Notifies the receiver of s: it looks at slot. */
void bell_ring(struct segment *s, uint32_t slot);

/* Notifies both halves that send as the owner of s that there is space. */
void bell_notify_space(struct segment *s);

/* Notifies the sleeper of this bell: bell_count(), then bell_rouse(). */
void bell_wake(struct segment_bell *bell);

#define BELL_STEP 2u /* the lowest bit of a count is never set */

/* Increments the count; returns the new one. */
uint32_t bell_count(struct segment_bell *bell);

/* Wakes the sleeper if it has not seen this count. */
void bell_rouse(struct segment_bell *bell, uint32_t count);

/* The sleeper, which has answered the bell up to `seen`, is about to look a last time and to
 * sleep; and it is awake again. */
void bell_lie_down(struct segment_bell *bell, uint32_t seen);
void bell_get_up(struct segment_bell *bell);

#endif
