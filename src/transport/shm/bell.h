/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell.h - "look here", for a receiver that does not look by itself.
 *
 * A receiver polls only its hot rings.  For the others, and to sleep, it arms: it
 * says in shared memory that it wants to be notified.  A sender that has published looks
 * whether the receiver has armed.
 *
 *   receiver                         sender
 *   armed = 1                        publish
 *   full barrier                     full barrier
 *   is something there?              is armed set?  then ring the bell
 *
 * One of the two sees the other, or both do.  The sender does this for each message,
 * the receiver seldom; so the receiver pays for both barriers, with membarrier(2):
 * while that runs, every running thread of the processes that have registered executes
 * a full barrier, and a thread that does not run has done one when it was switched
 * away.  The sender's barrier is then only one for the compiler.  If the
 * receiver has no membarrier (segment.needs_fence), or the sender could not register,
 * the sender's is a real one.
 *
 * Once more.  There are systems on which membarrier does not reach all whom it should: Linux
 * does not note the registration for a processor that at that time keeps our memory map for a
 * thread of the kernel, or for none (docs/decisions/0019).  A thread that later runs there
 * may read armed before what it has published can be seen, and nobody rings.  But what was
 * published is seen soon, with or without a barrier.  So what was armed is looked at again
 * after SHM_DOUBT_NS, far longer than a store stays in a processor, and then no more.  A
 * packet that falls through is that much late, and there is at most one more turn per sleep.
 *
 * The bell itself: the bit of the slot in ready[], then the doorbell's count goes on, then a
 * wake if sleeping is set.  count and sleeping are only used with sequential consistency:
 * the sender counts and then looks at sleeping; the receiver sets sleeping and then
 * looks at count, the last time within the futex call.
 *
 * sleeping is the count that the sleeper has seen, and a bit.  A sender may be slow: by the
 * time that it looks at sleeping, the receiver may have answered its count and lain down
 * again.  It must leave that sleeper alone: if it took sleeping, and the receiver was not yet
 * in the futex call, nobody would be woken, and the next sender would find nobody to wake.
 *
 * A bell has one sleeper.  An endpoint that is handed over has two, and so two bells: who
 * receives sleeps on the doorbell, the owner on its own.  Whoever makes space does not know
 * which of the two waits for it, and rings both.
 */
/* Glossary: doorbell - the word by which a sender wakes a receiver */
#ifndef SHM_BELL_H
#define SHM_BELL_H

#include "transport/shm/segment.h"

/* Registering.  The kernel lets all of its processors come by before it says that a process with several threads is
 * registered, which takes some 15 ms.  So that process is registered by a thread of its own, and its senders use
 * fences meanwhile; a receiver that arms while it is being registered reaches it by one or the other. */
enum bell_state {
    BELL_FENCES,     /* it failed: senders use fences */
    BELL_REGISTERS,  /* until it is over, senders use fences */
    BELL_REGISTERED, /* senders use none */
};

/* Registers this process, or begins to; how it is now.  Nobody waits for that thread: it may outlive the endpoint. */
enum bell_state bell_register(void);

/* How it is now, of who has registered. */
enum bell_state bell_registered(void);

/* True if bell_arm_barrier() can work in this process. */
bool bell_can_barrier(void);

/* The sender's barrier between publish and the look at armed. */
static inline void bell_publish_barrier(bool fence)
{
    if (unlikely(fence))
        __sync_synchronize();
    else
        atomic_signal_fence(memory_order_seq_cst);
}

/* The receiver's barrier between arming and the last check, for a sender's
 * bell_publish_barrier().  False: it failed; what was armed cannot be relied on. */
bool bell_arm_barrier(const struct segment *own);

/* Notifies the receiver of s, which looks at slot. */
void bell_ring(struct segment *s, uint32_t slot);

/* Notifies whoever sends in the name of s that there is space. */
void bell_notify_space(struct segment *s);

/* Notifies the sleeper of this bell: bell_count(), then bell_rouse(). */
void bell_wake(struct segment_bell *bell);

#define BELL_STEP 2u /* the lowest bit of a count is never set */

/* The count goes on; to where. */
uint32_t bell_count(struct segment_bell *bell);

/* Wakes who sleeps and has not seen this count. */
void bell_rouse(struct segment_bell *bell, uint32_t count);

/* The sleeper, who has answered the bell up to seen, is about to look at it for the last time,
 * and to sleep; it is awake. */
void bell_lie_down(struct segment_bell *bell, uint32_t seen);
void bell_get_up(struct segment_bell *bell);

#endif
