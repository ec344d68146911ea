/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hang.h - the values that a process that reports a hang sends to the rank that has started it,
 * through an eventfd: the largest one counts.
 */
#ifndef INSPECT_HANG_H
#define INSPECT_HANG_H

enum inspect_hang {
    INSPECT_HANG_BUSY = 1, /* another reporting process is running already */
    INSPECT_HANG_OVER = 2, /* this one has ended: the rank that it watched has moved */
    INSPECT_HANG_ABORT =
        1 << 20 /* the job is deadlocked, and has to end; more than any sum of the others */
};

/* The exit status of the rank that ends the job. */
#define INSPECT_HANG_STATUS 86

#define INSPECT_HANG_FD     3 /* the eventfd, in that process */

#endif
