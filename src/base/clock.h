/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.h - the time, from the system or from a test.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_US UINT64_C(1000)
#define CLOCK_MS UINT64_C(1000000)
#define CLOCK_S  UINT64_C(1000000000)

typedef uint64_t clock_fn(void);

/* Nanoseconds since some fixed moment; never goes back. */
uint64_t clock_now(void);

/* Nanoseconds since 1970, to compare hosts; 0 (not known) while clock_set() has replaced the
 * clock. */
uint64_t clock_wall(void);

/* Nanoseconds of processor time of this thread.  While the clock is replaced: clock_now(), as
 * if the thread always ran. */
uint64_t clock_thread(void);

/* From now on clock_now() is now(); NULL restores the system's clock.  The whole
 * process shares the setting. */
void clock_set(clock_fn *now);
bool clock_is_replaced(void);

#endif
