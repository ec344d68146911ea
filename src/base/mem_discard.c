/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem_discard.c - gives pages back; apart from mem.c because the matching engine's own library, which has that
 * one, calls nothing of the system but the allocator.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

void mem_discard(void *pointer, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)pointer + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)pointer + size) & ~(page - 1);

    if (begin < end) /* if not (locked memory), it is only not given back */
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}
