/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - see memory.h.
 */
#include "memory.h"

#include <errno.h>

#include "base/sys.h"

static int memory_read(const struct inspect_source *source, uint64_t at, void *to, size_t size)
{
    const struct memory *memory = (const struct memory *)(const void *)source;
    ssize_t done = sys_process_vm_readv((pid_t)memory->pid, to, at, size);

    return done == (ssize_t)size ? 0 : done < 0 ? -errno : -EFAULT;
}

void memory_init(struct memory *memory, uint32_t pid)
{
    *memory = (struct memory){.source = {memory_read}, .pid = pid};
}
