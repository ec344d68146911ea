/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hang.h - what the process that reports a hang tells the rank that has started it, by an eventfd: the largest is
 * meant.
 */
#ifndef SEE_HANG_H
#define SEE_HANG_H

enum see_hang {
    SEE_HANG_BUSY = 1,  /* another one is there already */
    SEE_HANG_ABORT = 16 /* the job is deadlocked, and shall end */
};

/* What the rank that ends the job exits with. */
#define SEE_HANG_STATUS 86

#define SEE_HANG_FD     3 /* the eventfd, in that process */

#endif
