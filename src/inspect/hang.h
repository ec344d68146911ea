/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hang.h - what the process that reports a hang tells the rank that has started it, by an eventfd: the largest is
 * meant.
 */
#ifndef INSPECT_HANG_H
#define INSPECT_HANG_H

enum inspect_hang {
    INSPECT_HANG_BUSY = 1,  /* another one is there already */
    INSPECT_HANG_ABORT = 16 /* the job is deadlocked, and shall end */
};

/* What the rank that ends the job exits with. */
#define INSPECT_HANG_STATUS 86

#define INSPECT_HANG_FD     3 /* the eventfd, in that process */

#endif
