/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - CLOCK_MONOTONIC, unless a test brought its own.
 */
#include "base/clock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static clock_fn *_Atomic clock_replaced;

static uint64_t clock_system(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail on Linux */
    return (uint64_t)now.tv_sec * CLOCK_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_now(void)
{
    /* pairs with the release in clock_set(): what the test prepared for now() */
    clock_fn *now = atomic_load_explicit(&clock_replaced, memory_order_acquire);

    return now != NULL ? now() : clock_system();
}

void clock_set(clock_fn *now)
{
    atomic_store_explicit(&clock_replaced, now, memory_order_release);
}
