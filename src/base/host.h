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
 *   the process, if it is closed   the kernel lets nobody look into a process that is not dumpable:
 *                                  its program may not be read (mode 0111), or it said so itself
 *
 * Containers of their own are hosts of their own, though they run on one kernel.  The
 * network, the host's name and /dev/shm play no part: they decide nothing of this.
 *
 * Processes of several hosts can share memory by passed descriptors if they find each other's
 * sockets (transport/shm/passing.h), and are of one user.  Such a meeting place is
 *
 *   this boot of this kernel
 *   the network namespace          abstract names of sockets are those of a network namespace
 *   the user, as he is outside     as far as /proc/self/uid_map tells: numbers inside say nothing
 */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct host {
    uint64_t boot;                          /* a hash of the boot id */
    uint64_t pid_namespace, user_namespace; /* inode numbers */
    uint32_t closed_process;                /* its number, or 0: not closed */
};

/* Where this process is.  0; a negative errno if /proc cannot be read, which is logged. */
int host_read(struct host *host);

/* 64 bits that are equal on one host and, but for one chance in 2^64, differ between two;
 * never 0.  0 and *id; errors as of host_read(). */
int host_id(uint64_t *id);

/* As host_id(), for the meeting place. */
int host_meeting_id(uint64_t *id);

/* What a launcher leaves in the environment of its processes (HOST_LAUNCHER), so that they learn
 * whether they are where it is. */
#define HOST_LAUNCHER  "MBX_LAUNCHER_HOST"
#define HOST_TEXT_SIZE 80

void host_text(const struct host *host, char text[HOST_TEXT_SIZE]);

/* False: text is not what host_text() writes. */
bool host_parse(const char *text, struct host *host);

/* Why processes of these two share no memory, as "in another user namespace"; NULL: they may. */
const char *host_difference(const struct host *own, const struct host *other);

/* Is it in a pid or user namespace that is not the kernel's first, as in most containers? */
bool host_is_contained(const struct host *host);

#endif
