/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * read.c - copying straight out of another process's memory.
 *
 * Nothing is registered: whoever exposes says where its buffer lies, and that it is its
 * own (the cookie of its endpoint); the reader asks the system for the bytes.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/shm/shm.h"

#define READ_CHECK_NS CLOCK_S /* how long a pid is believed to be the same process */

/* 0 if the pid is still the process that we know. */
static int check_identity(struct shm_link *link)
{
    uint64_t now = clock_now();

    if (link->checked_ns != 0 && now - link->checked_ns < READ_CHECK_NS)
        return 0;
    if (segment_probe(&link->to) == -ENOENT)
        return link_kill(link, -ENOTCONN);
    link->checked_ns = now;
    return 0;
}

static int read_failed(struct shm_link *link, int err)
{
    switch (err) {
    case ESRCH:
        return link_kill(link, -ENOTCONN);
    case EPERM:
    case EACCES:
    case ENOSYS:
        LOG_WARN("shm: reading the memory of pid %u is forbidden, error %d %s; large messages "
                 "are copied twice (see kernel.yama.ptrace_scope)",
                 link->to.pid, err, strerror(err));
        return -ENOTSUP;
    default:
        return -err;
    }
}

/* By the system, also within one process: the address is what a packet said, and a wrong
 * one is to be an error and not a crash. */
static int read_memory(struct shm_link *link, unsigned char *dst, uint64_t address, size_t size)
{
    while (size > 0) {
        ssize_t done = sys_process_vm_readv((pid_t)link->to.pid, dst, address, size);

        if (done < 0)
            return read_failed(link, errno);
        if (done == 0)
            return -EFAULT;
        dst += done;
        address += (uint64_t)done;
        size -= (size_t)done;
    }
    return 0;
}

int shm_read(struct link *l, void *dst, uint64_t address, uint64_t key, size_t size,
             void *cookie)
{
    struct shm *shm = shm_of(l->transport);
    struct shm_link *link = link_of(l);
    int err;

    (void)cookie; /* a read is done when it returns */
    if (!shm->attach)
        return -ENOTSUP;
    if (key != link->to.cookie)
        return -EINVAL;
    err = link_attach(link);
    if (err != 0)
        return err;
    if (link->to.pid != shm->pid)
        err = check_identity(link);
    if (err == 0)
        err = read_memory(link, dst, address, size);
    if (err != 0)
        return err;
    /* an owner that closes may use its memory for something else: what was read before
     * it said so is good.  The fence: no read above is done behind the look. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&link->remote->control->closed) != 0 ? link_kill(link, -ENOTCONN) : 0;
}

int shm_expose(struct link *l, const void *buf, size_t size, uint64_t *address, uint64_t *key)
{
    (void)size;
    *address = (uintptr_t)buf;
    *key = shm_of(l->transport)->address.cookie;
    return 0;
}

void shm_unexpose(struct link *l, uint64_t address, uint64_t key)
{
    (void)l; /* nothing was registered */
    (void)address;
    (void)key;
}
