/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h - which processes are on the same machine, for what shared memory needs.
 *
 * Two processes have the same host if and only if the segments of one can be mapped by
 * the other and its memory read: segments have no name, they are reached through
 * /proc/PID/fd, and memory by the number of the process.  So a host is
 *
 *   this boot of this kernel       another machine, or the same one before a reboot
 *   the pid namespace              a number of a process means nothing in another one
 *   the user namespace             the kernel lets nobody look into a process of another one
 *
 * Containers of their own are hosts of their own, though they run on one kernel.  The
 * network, the host's name and /dev/shm play no part: they decide nothing of this.
 */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stdint.h>

/* 64 bits that are equal on one host and, but for one chance in 2^64, differ between two;
 * never 0.  0 and *id; a negative errno if /proc cannot be read, which is logged. */
int host_id(uint64_t *id);

#endif
