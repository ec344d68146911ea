/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap_work.h - the parts that both sides of an overlap comparison must share: the computation,
 * and the marks in messages.
 *
 * `mbx perf overlap` is compared with an MPI program (bench/overlap_mpi.c), so both use the same
 * code.  It needs nothing of the library: the MPI program is built without it.
 */
#ifndef TOOLS_OVERLAP_WORK_H
#define TOOLS_OVERLAP_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of the monotonic clock. */
uint64_t work_now(void);

/* Computes; each step needs the result of the previous one. */
void work_compute(uint64_t steps);

/* As work_compute(); returns the nanoseconds that it took. */
double work_compute_timed(uint64_t steps);

/* Nanoseconds of a step, from the fastest of several tries, which was not disturbed. */
double work_calibrate(void);

/* Puts mark at the beginning and at the end of a message, as many bytes of it as fit. */
void work_stamp(void *message, size_t size, uint64_t mark);
bool work_is_stamped(const void *message, size_t size, uint64_t mark);

#endif
