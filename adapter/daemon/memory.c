/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - regions that applications registered, and access to their memory.
 *
 * The kernel copies between the processes (process_vm_readv, process_vm_writev), so an
 * application is served even while it computes, sleeps or is stopped.  Every access names a
 * key, and the key's region must allow it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "adapter/daemon/daemon.h"
#include "base/mem.h"
#include "base/sys.h"

int memory_map(struct mapping *mapping, const char *name, size_t bytes)
{
    const int fd = sys_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -errno;
    if (sys_ftruncate(fd, (off_t)bytes) != 0 ||
        sys_fcntl_seal(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
        (mapping->base = sys_mmap(bytes, fd, 0)) == MAP_FAILED) {
        const int err = -errno;

        sys_close(fd);
        return err;
    }
    mapping->fd = fd;
    mapping->bytes = bytes;
    return 0;
}

void memory_unmap(struct mapping *mapping)
{
    if (mapping->bytes == 0)
        return;
    sys_munmap(mapping->base, mapping->bytes);
    if (mapping->fd >= 0)
        sys_close(mapping->fd);
    mapping->bytes = 0;
}

static int copy(pid_t pid, void *local, uint64_t remote, size_t size, bool is_write)
{
    unsigned char *bytes = local;

    while (size > 0) {
        const ssize_t done = is_write ? sys_process_vm_writev(pid, bytes, remote, size)
                                      : sys_process_vm_readv(pid, bytes, remote, size);

        if (done <= 0)
            return done < 0 && errno != EFAULT ? -errno : -EFAULT;
        bytes += done;
        remote += (uint64_t)done;
        size -= (size_t)done;
    }
    return 0;
}

/* Does the memory exist at both ends of the range? */
static int look_at(struct client *client, uint64_t addr, uint64_t length)
{
    char byte;
    int err = copy(client->pid, &byte, addr, 1, false);

    return err != 0 ? err : copy(client->pid, &byte, addr + length - 1, 1, false);
}

#define ACCESS_KNOWN                                                                           \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
     IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_NEEDS_WRITE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

static int refuse(struct adapter_reply *reply, int err, const char *why)
{
    strncpy(reply->text, why, sizeof reply->text - 1);
    return err;
}

static int check(struct client *client, uint64_t addr, uint64_t length, uint32_t access,
                 struct adapter_reply *reply)
{
    /* optional access flags may be ignored */
    access &= ~(uint32_t)IBV_ACCESS_OPTIONAL_RANGE;
    if (access & ~(uint32_t)ACCESS_KNOWN)
        return refuse(
            reply, -EOPNOTSUPP,
            "reg_mr: only local write and remote write, read and atomic access exist here");
    if ((access & ACCESS_NEEDS_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE))
        return refuse(
            reply, -EINVAL,
            "reg_mr: remote write or atomic access also needs IBV_ACCESS_LOCAL_WRITE");
    if (length == 0 || addr + length < addr)
        return refuse(reply, -EINVAL, "reg_mr: a length of 0, or beyond the end of memory");
    switch (look_at(client, addr, length)) {
    case 0:
        return 0;
    case -EPERM:
        return refuse(reply, -EPERM,
                      "reg_mr: the adapter may not access this process's memory (see "
                      "kernel.yama.ptrace_scope)");
    default:
        return refuse(reply, -EFAULT, "reg_mr: there is no such memory");
    }
}

int region_create(struct client *client, const struct adapter_request *request,
                  struct adapter_reply *reply)
{
    struct pd *pd = object_find(client, KIND_PD, request->mr.pd);
    struct mr *mr;
    int err;

    if (pd == NULL)
        return -EINVAL;
    err = check(client, request->mr.addr, request->mr.length, request->mr.access, reply);
    if (err != 0)
        return err;
    mr = mem_calloc(1, sizeof *mr);
    if (mr == NULL)
        return -ENOMEM;
    mr->pd = pd;
    mr->addr = request->mr.addr;
    mr->length = request->mr.length;
    mr->iova = request->mr.iova;
    mr->access = request->mr.access;
    err = object_add(&mr->object, KIND_MR, client);
    if (err == 0 && (err = beneath_mr(mr)) != 0)
        object_remove(&mr->object);
    if (err != 0) {
        mem_free(mr);
        return err;
    }
    pd->object.users++;
    reply->handle = mr->object.handle;
    reply->mr.lkey = mr->lkey;
    reply->mr.rkey = mr->rkey;
    return 0;
}

int region_change(struct client *client, const struct adapter_request *request,
                  struct adapter_reply *reply)
{
    struct mr *mr = object_find(client, KIND_MR, request->handle);
    const uint32_t flags = request->mr.flags;
    struct mr changed;
    int err;

    if (mr == NULL || flags == 0 || (flags & ~(uint32_t)IBV_REREG_MR_FLAGS_SUPPORTED))
        return -EINVAL;
    changed = *mr;
    if (flags & IBV_REREG_MR_CHANGE_PD)
        changed.pd = object_find(client, KIND_PD, request->mr.pd);
    if (flags & IBV_REREG_MR_CHANGE_ACCESS)
        changed.access = request->mr.access;
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        changed.addr = changed.iova = request->mr.addr;
        changed.length = request->mr.length;
    }
    if (changed.pd == NULL)
        return -EINVAL;
    err = check(client, changed.addr, changed.length, changed.access, reply);
    if (err != 0)
        return err;
    err = beneath_mr_change(mr, &changed, flags);
    if (err != 0)
        return err;
    mr->pd->object.users--;
    changed.pd->object.users++;
    mr->pd = changed.pd;
    mr->addr = changed.addr;
    mr->iova = changed.iova;
    mr->length = changed.length;
    mr->access = changed.access;
    reply->handle = mr->object.handle;
    reply->mr.lkey = mr->lkey;
    reply->mr.rkey = mr->rkey;
    return 0;
}

const struct mr *region_find(const struct pd *pd, uint32_t key, uint64_t addr, uint64_t length,
                             uint32_t access, const char **why)
{
    const struct mr *mr = beneath_mr_of_key(key);

    if (mr == NULL)
        *why = "there is no region with this key (any more)";
    else if (mr->pd != pd)
        *why = "the region with this key belongs to another protection domain";
    else if (addr < mr->iova || length > mr->length || addr - mr->iova > mr->length - length)
        *why = "the bytes lie outside the region";
    else if ((mr->access & access) != access)
        *why = "the region was registered without this access";
    else
        return mr;
    return NULL;
}

/* A process that ends loses its memory before it is seen to have ended. */
static int of_client(struct client *client, int err)
{
    if (err == -ESRCH)
        client->is_gone = true;
    return err;
}

int memory_read(const struct mr *mr, uint64_t addr, void *to, size_t size)
{
    struct client *client = mr->object.client;

    return of_client(client, copy(client->pid, to, mr->addr + (addr - mr->iova), size, false));
}

int memory_write(const struct mr *mr, uint64_t addr, const void *from, size_t size)
{
    struct client *client = mr->object.client;

    return of_client(client, copy(client->pid, (void *)(uintptr_t)from,
                                  mr->addr + (addr - mr->iova), size, true));
}

uint64_t sge_length(const struct ibv_sge *sge, uint32_t count)
{
    uint64_t length = 0;

    for (uint32_t i = 0; i < count; i++)
        length += sge[i].length;
    return length;
}

static int walk(const struct pd *pd, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
                void *local, size_t size, bool is_write, const char **why)
{
    unsigned char *bytes = local;

    for (uint32_t i = 0; i < count && size > 0; i++) {
        const struct mr *mr;
        size_t part;
        int err;

        if (offset >= sge[i].length) {
            offset -= sge[i].length;
            continue;
        }
        part = min_size(size, sge[i].length - offset);
        mr = region_find(pd, sge[i].lkey, sge[i].addr, sge[i].length,
                         is_write ? IBV_ACCESS_LOCAL_WRITE : 0, why);
        if (mr == NULL)
            return -EACCES;
        err = is_write ? memory_write(mr, sge[i].addr + offset, bytes, part)
                       : memory_read(mr, sge[i].addr + offset, bytes, part);
        if (err != 0) {
            *why = "the registered memory is not there any more";
            return err;
        }
        bytes += part;
        size -= part;
        offset = 0;
    }
    return size == 0 ? 0 : -EINVAL;
}

int gather(const struct pd *pd, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
           void *to, size_t size, const char **why)
{
    return walk(pd, sge, count, offset, to, size, false, why);
}

int scatter(const struct pd *pd, const struct ibv_sge *sge, uint32_t count, uint64_t offset,
            const void *from, size_t size, const char **why)
{
    return walk(pd, sge, count, offset, (void *)(uintptr_t)from, size, true, why);
}
