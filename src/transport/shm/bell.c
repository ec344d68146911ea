/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell.c - bell.h explains who must see what.
 */
#include "transport/shm/bell.h"

#include <linux/membarrier.h>

#include "base/sys.h"

bool bell_register(void)
{
    return sys_membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

bool bell_can_barrier(void)
{
    return sys_membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

bool bell_arm_barrier(const struct segment *own)
{
    __sync_synchronize(); /* pairs with the real fence of a sender that uses one */
    return own->needs_fence || sys_membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

void bell_lie_down(struct segment_bell *bell, uint32_t seen)
{
    atomic_store(&bell->sleeping, seen | 1);
}

void bell_get_up(struct segment_bell *bell)
{
    atomic_store(&bell->sleeping, 0);
}

uint32_t bell_count(struct segment_bell *bell)
{
    return atomic_fetch_add(&bell->count, BELL_STEP) + BELL_STEP;
}

void bell_rouse(struct segment_bell *bell, uint32_t count)
{
    uint32_t sleeping = atomic_load(&bell->sleeping);

    /* whoever takes it makes the system call, so a sleeper costs one */
    if (sleeping != 0 && (int32_t)(count - sleeping) > 0 &&
        atomic_compare_exchange_strong(&bell->sleeping, &sleeping, 0))
        sys_futex_wake(&bell->count, 1);
}

void bell_wake(struct segment_bell *bell)
{
    bell_rouse(bell, bell_count(bell));
}

void bell_tell_room(struct segment *s)
{
    bell_wake(&s->control->doorbell);
    bell_wake(&s->control->owner);
}

void bell_ring(struct segment *s, uint32_t slot)
{
    uint64_t bit = UINT64_C(1) << slot % 64;
    /* the release pairs with the acquire in poll's answer_doorbell() */
    uint64_t before =
        atomic_fetch_or_explicit(&s->control->ready[slot / 64], bit, memory_order_acq_rel);

    /* still set: we rang for it and the owner has not looked yet, but will */
    if ((before & bit) == 0)
        bell_wake(&s->control->doorbell);
}
