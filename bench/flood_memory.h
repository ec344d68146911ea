/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flood_memory.h - the resident memory of this process: now, at its peak, over time.
 *
 * The peak is the kernel's own (VmHWM), so it includes everything between two samples.  A
 * thread takes the samples.  When there is no space for more, every other one is dropped and the
 * interval is doubled, so that they always cover the whole time.
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

/* Resets the peak.  False: the kernel does not allow it. */
bool memory_peak_reset(void);
uint64_t memory_peak_kib(void);

/* Begins to take samples; false: no thread could be started.  Ended by memory_unwatch(). */
bool memory_watch(void);

/* Returns the number of samples; the oldest comes first. */
unsigned memory_unwatch(const struct memory_sample **samples);

#endif
