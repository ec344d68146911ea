/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap_work.h - what both sides of a comparison of overlap must do alike: the computation,
 * and the marks in messages.
 *
 * `mbx perf overlap` and the MPI program beside it (bench/overlap_mpi.c) are measured against
 * each other, so it is the same code.  It needs nothing of the library: the MPI program is
 * built without it.
 */
#ifndef TOOLS_OVERLAP_WORK_H
#define TOOLS_OVERLAP_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of the monotonic clock. */
uint64_t work_now(void);

/* Each step needs the result of the one before. */
void work_compute(uint64_t steps);

/* The same; how many nanoseconds it took. */
double work_compute_timed(uint64_t steps);

/* Nanoseconds of a step: of the fastest try, so that it is ours alone. */
double work_calibrate(void);

/* Puts mark at the beginning and at the end of a message, as much of it as fits. */
void work_stamp(void *message, size_t size, uint64_t mark);
bool work_is_stamped(const void *message, size_t size, uint64_t mark);

#endif
