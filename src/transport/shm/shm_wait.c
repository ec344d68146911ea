/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm_wait.c - sleeps until a packet, space or an end may be there.
 *
 * bell.h explains why no wake-up is lost.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/sys.h"
#include "transport/shm/shm.h"

#define SLICE_NS         SHM_SWEEP_NS    /* the longest sleep without a check for dead peers */
#define SLICE_STARVED_NS (10 * CLOCK_MS) /* free slots, or memory, are not signalled */
#define SLICE_UNSURE_NS  CLOCK_MS        /* the bell may not ring: the barrier failed */

static bool has_work(struct shm *shm)
{
    return shm_bell_rang(shm) || inbound_any(shm) || link_has_space(shm);
}

static bool is_starved(const struct shm *shm)
{
    struct list *node;

    list_for_each (node, &shm->blocked)
        if (container_of(node, struct shm_link, in_blocked)->state != LINK_FULL)
            return true;
    return false;
}

/* Sleeps while the bell's count is `seen`; 0 or the error of the futex. */
static int sleep_slice(struct shm *shm, uint32_t seen, uint64_t timeout_ns)
{
    int err;

    if (shm->events->sleeps != NULL)
        shm->events->sleeps(shm->arg);
    err = sys_futex_wait(&shm->bell->count, seen, timeout_ns) < 0 ? errno : 0;
    if (shm->events->slept != NULL)
        shm->events->slept(shm->arg);
    return err;
}

/* 0: there may be something; -ETIMEDOUT; -EINTR. */
static int sleep_until(struct shm *shm, uint64_t deadline, uint64_t slice)
{
    uint32_t seen = shm->base.hint.seen; /* another thread may answer the bell while we sleep */

    for (;;) {
        uint64_t now = clock_now(), nap;
        int err;

        if (now >= deadline)
            return -ETIMEDOUT;
        if (inbound_recheck(shm, now) || shm_sweep(shm, now))
            return 0;
        nap = shm->doubt ? min_size(slice, inbound_doubt_left(shm, now)) : slice;
        err = sleep_slice(shm, seen, min_size(nap, deadline - now));
        if (err == EINTR)
            return -EINTR;
        if (seen != shm->base.hint.seen || has_work(shm) || slice == SLICE_STARVED_NS ||
            (err != 0 && err != ETIMEDOUT && err != EAGAIN))
            return 0;
    }
}

static uint64_t deadline_of(int64_t timeout_ns)
{
    uint64_t now = clock_now();

    return timeout_ns < 0 || (uint64_t)timeout_ns > UINT64_MAX - now
               ? UINT64_MAX
               : now + (uint64_t)timeout_ns;
}

static int arm_and_sleep(struct shm *shm, uint64_t deadline)
{
    bool asked = link_ask_for_space(shm);
    bool sure, found;

    inbound_arm_all(shm);
    sure = bell_arm_barrier(shm->own);
    found = has_work(shm); /* once: a link that has just died is reported only once */
    if (!sure || found)
        inbound_disarm_all(shm);
    else
        inbound_retire_all(shm);
    if (found)
        return 0;
    if (asked)
        inbound_doubt(shm, clock_now());
    if (is_starved(shm))
        return sleep_until(shm, deadline, SLICE_STARVED_NS);
    return sleep_until(shm, deadline, sure ? SLICE_NS : SLICE_UNSURE_NS);
}

int shm_wait(struct transport *t, int64_t timeout_ns)
{
    struct shm *shm = shm_of(t);
    int err;

    if (has_work(shm))
        return 0;
    if (timeout_ns == 0)
        return -ETIMEDOUT;
    /* before the last look at the count, in futex_wait: see bell.h */
    bell_lie_down(shm->bell, shm->base.hint.seen);
    err = arm_and_sleep(shm, deadline_of(timeout_ns));
    bell_get_up(shm->bell);
    return err;
}

void shm_wake(struct transport *t)
{
    bell_wake(shm_of(t)->bell);
}
