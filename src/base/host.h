/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h - which processes are on the same machine, for what shared memory needs.
 *
 * Two processes have the same host if and only if the segments of one can be mapped by the
 * other and its memory can be read: segments have no name and are reached through /proc/PID/fd,
 * and memory is read by process id.  So a host is
 *
 *   this boot of this kernel       another machine, or the same one before a reboot
 *   the pid namespace              a process id means nothing in another one
 *   the user namespace             the kernel lets nobody look into a process of another one
 *   the process, if it is closed   the kernel lets nobody look into a process that is not dumpable:
 *                                  its program may not be read (mode 0111), or it said so itself
 *
 * Separate containers are separate hosts, though they run on one kernel.  The network, the
 * host's name and /dev/shm play no part.
 *
 * Processes of several hosts can share memory by passed descriptors if they find each other's
 * sockets (transport/shm/passing.h), and are of one user.  Such a meeting place is
 *
 *   this boot of this kernel
 *   the network namespace          abstract socket names belong to a network namespace
 *   the user id outside            from /proc/self/uid_map: ids inside a user namespace say nothing
 */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct host {
    uint64_t boot;                          /* a hash of the boot id */
    uint64_t pid_namespace, user_namespace; /* inode numbers */
    uint32_t closed_process;                /* its process id; 0: not closed */
};

/* The host of this process.  0; a negative errno if /proc cannot be read, which is logged. */
int host_read(struct host *host);

/* 64 bits that are equal on one host and differ between two hosts (except with a chance of 1 in
 * 2^64); never 0.  0 and *id; errors as host_read(). */
int host_id(uint64_t *id);

/* As host_id(), for the meeting place. */
int host_meeting_id(uint64_t *id);

/* The variable with which a launcher passes its host to its processes, so that they know
 * whether they run on the same one. */
#define HOST_LAUNCHER  "MBX_LAUNCHER_HOST"
#define HOST_TEXT_SIZE 80

void host_text(const struct host *host, char text[HOST_TEXT_SIZE]);

/* False: text was not written by host_text(). */
bool host_parse(const char *text, struct host *host);

/* The reason why processes of these two hosts share no memory, as "in another user namespace";
 * NULL: they may share it. */
const char *host_difference(const struct host *own, const struct host *other);

/* Is the process in a pid or user namespace other than the kernel's first, as in most
 * containers? */
bool host_is_contained(const struct host *host);

#endif
