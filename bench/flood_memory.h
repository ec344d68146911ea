/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flood_memory.h - the resident memory of this process: now, at its peak, over time.
 *
 * The peak is the kernel's own (VmHWM), so nothing between two samples is missed.  Samples are
 * taken by a thread; when there is no space for more, every other one is dropped and the
 * interval doubled, so that they always cover all of the time.
 */
#ifndef BENCH_FLOOD_MEMORY_H
#define BENCH_FLOOD_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct memory_sample {
    uint64_t ms; /* since memory_watch() */
    uint64_t kib;
};

uint64_t memory_kib(void);

/* The peak begins anew.  False: the kernel does not let it. */
bool memory_peak_reset(void);
uint64_t memory_peak_kib(void);

/* Begins to take samples; false: there is no thread for it.  Ended by memory_unwatch(). */
bool memory_watch(void);

/* How many there are, oldest first. */
unsigned memory_unwatch(const struct memory_sample **samples);

#endif
