/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address.c - which machine this is, and who on it still lives.
 *
 * A process that has been killed stays visible to kill() until its parent looks, so a
 * pidfd is asked instead: it is readable from the moment when the last thread is gone.
 */
#include "transport/shm/address.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/shm/proof.h"

#define BOOT_ID_PATH       "/proc/sys/kernel/random/boot_id"
#define PID_NAMESPACE_PATH "/proc/self/ns/pid"

static int fail(const char *path)
{
    int err = -errno;

    LOG_ERROR("shm: cannot read %s, error %d %s; shared memory needs /proc", path, -err,
              strerror(-err));
    return err;
}

static int read_boot_id(char text[64])
{
    int fd = sys_open(BOOT_ID_PATH, O_RDONLY, 0);
    ssize_t size;
    int err = 0;

    if (fd < 0)
        return fail(BOOT_ID_PATH);
    memset(text, 0, 64);
    size = sys_read(fd, text, 64);
    if (size < 0)
        err = fail(BOOT_ID_PATH);
    sys_close(fd);
    return err;
}

static int read_pid_namespace(uint64_t *inode)
{
    int fd = sys_open(PID_NAMESPACE_PATH, O_RDONLY, 0);
    struct stat status;
    int err = 0;

    if (fd < 0)
        return fail(PID_NAMESPACE_PATH);
    if (sys_fstat(fd, &status) < 0)
        err = fail(PID_NAMESPACE_PATH);
    else
        *inode = status.st_ino;
    sys_close(fd);
    return err;
}

int address_host(uint64_t *host)
{
    static const uint8_t no_secret[TRANSPORT_KEY_SIZE] = "matchbox host id";
    struct {
        char boot_id[64];
        uint64_t pid_namespace;
    } who = {.pid_namespace = 0};
    int err = read_boot_id(who.boot_id);

    if (err == 0)
        err = read_pid_namespace(&who.pid_namespace);
    if (err == 0)
        *host = proof_make(no_secret, &who, sizeof who);
    return err;
}

int address_parse(const struct transport_address *bytes, uint64_t host, struct shm_address *out)
{
    struct shm_address a;

    memcpy(&a, bytes, sizeof a);
    if (a.kind != TRANSPORT_SHM || (a.zero[0] | a.zero[1] | a.zero[2]) != 0 || a.pid == 0 ||
        a.pid > INT32_MAX || a.fd > INT32_MAX)
        return -EINVAL;
    if (a.host != host)
        return -EHOSTUNREACH;
    *out = a;
    return 0;
}

bool process_is_alive(uint32_t pid)
{
    struct pollfd poll = {.events = POLLIN};
    bool alive;

    if (pid == 0 || pid > INT32_MAX)
        return false;
    poll.fd = sys_pidfd_open((pid_t)pid);
    if (poll.fd < 0)
        return errno != ESRCH && (sys_kill((pid_t)pid, 0) == 0 || errno != ESRCH);
    alive = sys_poll(&poll, 1, 0) <= 0 || (poll.revents & POLLIN) == 0;
    sys_close(poll.fd);
    return alive;
}
