/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - the system's clocks, unless a test has replaced them.
 */
#include "base/clock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static clock_fn *_Atomic clock_replaced;

static uint64_t clock_system(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now); /* cannot fail on Linux */
    return (uint64_t)now.tv_sec * CLOCK_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_now(void)
{
    /* pairs with the release in clock_set(): makes visible what the test prepared for now() */
    clock_fn *now = atomic_load_explicit(&clock_replaced, memory_order_acquire);

    return now != NULL ? now() : clock_system(CLOCK_MONOTONIC);
}

bool clock_is_replaced(void)
{
    return atomic_load_explicit(&clock_replaced, memory_order_acquire) != NULL;
}

uint64_t clock_wall(void)
{
    return clock_is_replaced() ? 0 : clock_system(CLOCK_REALTIME);
}

uint64_t clock_thread(void)
{
    clock_fn *now = atomic_load_explicit(&clock_replaced, memory_order_acquire);

    return now != NULL ? now() : clock_system(CLOCK_THREAD_CPUTIME_ID);
}

void clock_set(clock_fn *now)
{
    atomic_store_explicit(&clock_replaced, now, memory_order_release);
}
