/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * denied.c - finds the cause of a refusal in /proc.
 *
 *   /proc/PID      belongs to the user of the process
 *   /proc/PID/fd   belongs to root, if the process is not dumpable
 */
#include "transport/shm/denied.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"

/* The owner of a file below /proc, or -1. */
static int64_t owner_of_path(const char *path)
{
    int fd = sys_open(path, O_PATH, 0);
    struct stat status;
    int err;

    if (fd < 0)
        return -1;
    err = sys_fstat(fd, &status);
    sys_close(fd);
    return err < 0 ? -1 : (int64_t)status.st_uid;
}

void denied_descriptor(uint32_t pid, char text[DENIED_SIZE])
{
    char path[48];
    int64_t user, owner;

    snprintf(path, sizeof path, "/proc/%u", pid);
    user = owner_of_path(path);
    snprintf(path, sizeof path, "/proc/%u/fd", pid);
    owner = owner_of_path(path);
    if (user >= 0 && user != (int64_t)geteuid())
        snprintf(text, DENIED_SIZE, "is of another user, %lld", (long long)user);
    else if (user >= 0 && owner != user)
        snprintf(
            text, DENIED_SIZE,
            "shares its memory with nobody: the file of its program may not be read (mode "
            "0111), or it is not dumpable for another reason; MBX_TRANSPORT=shm+ofi for all "
            "ranks reaches it over the network");
    else
        snprintf(
            text, DENIED_SIZE,
            "may not be looked into, though it is of this user: a security module (SELinux, "
            "AppArmor) or a seccomp filter forbids it; MBX_TRANSPORT=shm+ofi for all ranks "
            "reaches it over the network");
}

void denied_passing(char text[DENIED_SIZE])
{
    snprintf(
        text, DENIED_SIZE,
        "shares its memory with its own user alone, and is of another user outside of its "
        "container; MBX_SHM_PASS=never and MBX_TRANSPORT=shm+ofi for all ranks reach it over "
        "the network");
}

/* The number that follows `key` in a file below /proc, or -1. */
static long number_in(const char *path, const char *key)
{
    char text[4096];
    int fd = sys_open(path, O_RDONLY, 0);
    ssize_t size;
    const char *found;

    if (fd < 0)
        return -1;
    size = sys_read(fd, text, sizeof text - 1);
    sys_close(fd);
    if (size < 0)
        return -1;
    text[size] = '\0';
    found = strstr(text, key);
    return found != NULL ? strtol(found + strlen(key), NULL, 10) : -1;
}

void denied_memory(int error, char text[DENIED_SIZE])
{
    long scope = number_in("/proc/sys/kernel/yama/ptrace_scope", "");
    long seccomp = number_in("/proc/self/status", "\nSeccomp:");

    if (scope > 1 && error != ENOSYS)
        snprintf(text, DENIED_SIZE,
                 "kernel.yama.ptrace_scope is %ld; with 0 or 1 it would be allowed", scope);
    else if (seccomp > 0)
        snprintf(
            text, DENIED_SIZE,
            "a seccomp filter of this process, as containers have one, may forbid "
            "process_vm_readv; they allow it with --cap-add=SYS_PTRACE, or another profile");
    else if (error == ENOSYS)
        snprintf(text, DENIED_SIZE, "this kernel was built without CONFIG_CROSS_MEMORY_ATTACH");
    else
        snprintf(
            text, DENIED_SIZE,
            "a security module (SELinux, AppArmor) may forbid it, or the other process is not "
            "dumpable");
}
