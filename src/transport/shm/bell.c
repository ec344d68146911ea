/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bell.c - bell.h explains the protocol.
 */
#include "transport/shm/bell.h"

#include <linux/membarrier.h>
#include <unistd.h>

#include "base/program.h"
#include "base/sys.h"
#include "base/thread.h"

/* The registration of this process. */
static struct {
    pthread_mutex_t lock;
    pid_t process; /* the registered process; after a fork() it is another one */
    _Atomic enum bell_state state;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *registry_run(void *arg)
{
    bool is_registered = sys_membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;

    atomic_store(&registry.state, is_registered ? BELL_REGISTERED : BELL_FENCES);
    return arg;
}

/* False: the thread was not created. */
static bool registry_start(void)
{
    pthread_t thread;

    return thread_start(&thread, registry_run, NULL) == 0 && pthread_detach(thread) == 0;
}

enum bell_state bell_register(void)
{
    /* program_stays() may take the loader's lock, which must not be taken while holding ours */
    bool beside = !sys_has_one_thread() && program_stays();

    pthread_mutex_lock(&registry.lock);
    if (registry.process != getpid() || bell_registered() == BELL_FENCES) {
        registry.process = getpid();
        atomic_store(&registry.state, BELL_REGISTERS);
        if (!beside || !registry_start())
            registry_run(NULL);
    }
    pthread_mutex_unlock(&registry.lock);
    return bell_registered();
}

enum bell_state bell_registered(void)
{
    return atomic_load(&registry.state);
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

    /* the side that clears it makes the system call, so each sleep costs only one */
    if (sleeping != 0 && (int32_t)(count - sleeping) > 0 &&
        atomic_compare_exchange_strong(&bell->sleeping, &sleeping, 0))
        sys_futex_wake(&bell->count, 1);
}

void bell_wake(struct segment_bell *bell)
{
    bell_rouse(bell, bell_count(bell));
}

void bell_notify_space(struct segment *s)
{
    bell_wake(&s->control->doorbell);
    bell_wake(&s->control->owner);
}

void bell_ring(struct segment *s, uint32_t slot)
{
    uint64_t bit = UINT64_C(1) << slot % 64;
    /* the release pairs with the acquire in answer_bell() */
    uint64_t before =
        atomic_fetch_or_explicit(&s->control->ready[slot / 64], bit, memory_order_acq_rel);

    /* already set: we rang for the slot, and the receiver will still look */
    if ((before & bit) == 0)
        bell_wake(&s->control->doorbell);
}
