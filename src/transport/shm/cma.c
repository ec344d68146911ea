/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma.c - cross-memory attach: copies directly from and to the memory of another process.
 *
 * Nothing is registered: expose() returns the buffer's address, and the cookie of the endpoint
 * as a key; the other side makes system calls that copy the bytes.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/memory.h"
#include "transport/shm/denied.h"
#include "transport/shm/shm.h"

/* How long a pid is trusted to be the same process.  The kernel reuses a number only after all
 * others: in this time nobody creates that many processes, not even with 32,768 numbers. */
#define READ_CHECK_NS (10 * CLOCK_MS)

static bool cma_is_there(const struct shm_link *link)
{
    const struct transport_address address = link_address(link);

    return passing_is_number(address.process) ? process_is_alive(address.process)
                                              : segment_probe(&address) != -ENOENT;
}

/* 0 if the pid is still the process that was met. */
static int check_identity(struct shm_link *link)
{
    uint64_t now = clock_now();

    if (link->checked_ns != 0 && now - link->checked_ns < READ_CHECK_NS)
        return 0;
    if (!cma_is_there(link))
        return link_kill(link, -ENOTCONN);
    link->checked_ns = now;
    return 0;
}

static int access_failed(struct shm_link *link, int err)
{
    char denied[DENIED_SIZE];

    switch (err) {
    case ESRCH:
        return link_kill(link, -ENOTCONN);
    case EPERM:
    case EACCES:
    case ENOSYS:
        denied_memory(err, denied);
        LOG_WARN("shm: access to the memory of pid %u is forbidden, error %d %s: %s; large "
                 "messages are copied twice (slower, results are the same)",
                 link_pid(link), err, strerror(err), denied);
        return -ENOTSUP;
    default:
        return -err;
    }
}

/* Uses system calls also within one process: the address comes from a packet, and a wrong one
 * must be an error and not a crash. */
static int read_memory(struct shm_link *link, unsigned char *dst, uint64_t address, size_t size)
{
    while (size > 0) {
        ssize_t done = sys_process_vm_readv((pid_t)link_pid(link), dst, address, size);

        if (done < 0)
            return access_failed(link, errno);
        if (done == 0)
            return -EFAULT;
        dst += done;
        address += (uint64_t)done;
        size -= (size_t)done;
    }
    return 0;
}

static int write_memory(struct shm_link *link, const unsigned char *src, uint64_t address,
                        size_t size)
{
    while (size > 0) {
        ssize_t done = sys_process_vm_writev((pid_t)link_pid(link), src, address, size);

        if (done < 0)
            return access_failed(link, errno);
        if (done == 0)
            return -EFAULT;
        src += done;
        address += (uint64_t)done;
        size -= (size_t)done;
    }
    return 0;
}

/* -ENOTSUP without a system call, if pids have no meaning or the kernel forbids access. */
static int check_host(struct shm *shm, const struct shm_link *link)
{
    if (segment_is_of_host(link->remote, shm->host))
        return 0;
    if (!shm->has_warned_hosts)
        LOG_INFO("shm: pid %u is in other pid or user namespaces, or one of the two is not "
                 "dumpable: "
                 "memory is shared, but not read across them (cross-memory attach), so long "
                 "messages are copied twice; said once",
                 link_pid(link));
    shm->has_warned_hosts = true;
    return -ENOTSUP;
}

/* May we access the memory of the other side of this link, exposed with this key? */
static int check_access(struct shm *shm, struct shm_link *link, uint64_t key)
{
    int err;

    if (!shm->attach)
        return -ENOTSUP;
    if (key != link->cookie)
        return -EINVAL;
    err = link_attach(link);
    if (err == 0)
        err = check_host(shm, link);
    if (err == 0 && link_sender(link) != shm->process)
        err = check_identity(link);
    return err;
}

static bool has_closed(const struct shm_link *link)
{
    return atomic_load(&link->remote->control->closed) != 0;
}

static int shm_read(struct link *l, void *dst, uint64_t address, uint64_t key, size_t size,
                    void *cookie)
{
    struct shm_link *link = link_of(l);
    int err = check_access(shm_of(l->transport), link, key);

    (void)cookie; /* a read is done when it returns */
    if (err == 0)
        err = read_memory(link, dst, address, size);
    if (err != 0)
        return err;
    /* an owner that closes may reuse its memory: reads before it closed are valid.  The fence
     * keeps the reads above before this check. */
    atomic_thread_fence(memory_order_acquire);
    return has_closed(link) ? link_kill(link, -ENOTCONN) : 0;
}

/* If the owner closes during the write, its memory may still be written a moment later. */
static int shm_write(struct link *l, uint64_t address, uint64_t key, const void *src,
                     size_t size, void *cookie)
{
    struct shm_link *link = link_of(l);
    int err = check_access(shm_of(l->transport), link, key);

    (void)cookie; /* a write is done when it returns */
    if (err != 0)
        return err;
    return has_closed(link) ? link_kill(link, -ENOTCONN)
                            : write_memory(link, src, address, size);
}

static int shm_expose(struct link *l, const void *buf, size_t size, uint64_t *address,
                      uint64_t *key)
{
    const struct shm *shm = shm_of(l->transport);

    (void)size;
    if (shm->role == SHM_RECEIVER)
        return -ENOTSUP; /* its memory is not in the process of the address */
    *address = (uintptr_t)buf;
    *key = shm->address.cookie;
    return 0;
}

static void shm_unexpose(struct link *l, uint64_t address, uint64_t key)
{
    (void)l; /* nothing was registered */
    (void)address;
    (void)key;
}

const struct transport_memory shm_memory = {
    .expose = shm_expose,
    .unexpose = shm_unexpose,
    .read = shm_read,
    .write = shm_write,
};
