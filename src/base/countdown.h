/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * countdown.h - "the n-th from now fails", shared by mem.c and sys.c.
 *
 * A countdown holds the number of events up to the one that fires; 0 is off and costs one
 * relaxed load per event.  Exactly one event fires, however many threads count.
 */
#ifndef BASE_COUNTDOWN_H
#define BASE_COUNTDOWN_H

#include <stdatomic.h>

#include "base/base.h"

#define COUNTDOWN_ALWAYS (-1)

/* The slow half of countdown_fires(). */
static inline bool countdown_tick(_Atomic int64_t *countdown, int64_t left)
{
    if (left == COUNTDOWN_ALWAYS)
        return true;
    while (left > 0 && !atomic_compare_exchange_weak(countdown, &left, left - 1))
        continue; /* left is now the value that another thread stored */
    return left == 1;
}

/* Counts one event.  True: this event fires (with COUNTDOWN_ALWAYS, every event does). */
static inline bool countdown_fires(_Atomic int64_t *countdown)
{
    int64_t left = atomic_load_explicit(countdown, memory_order_relaxed);

    return unlikely(left != 0) && countdown_tick(countdown, left);
}

#endif
