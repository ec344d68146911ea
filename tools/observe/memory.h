/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h - the memory of another process, which continues to run.
 */
#ifndef TOOLS_MEMORY_H
#define TOOLS_MEMORY_H

#include "inspect/walk.h"

struct memory {
    struct inspect_source source; /* must be first; used to read */
    uint32_t pid;
};

/* Opens nothing, so nothing undoes it.  A read fails with the errno of process_vm_readv(), or -EFAULT if only a part of the
 * range is there. */
void memory_init(struct memory *memory, uint32_t pid);

#endif
