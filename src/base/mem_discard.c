/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem_discard.c - gives pages back to the system, and touches them.  It is separate from mem.c
 * because the matching engine's own library contains mem.c and uses nothing of the system
 * except the allocator.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

void mem_discard(void *pointer, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)pointer + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)pointer + size) & ~(page - 1);

    if (begin < end) /* a failure (locked memory) only means that nothing is given back */
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void mem_touch(void *pages, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (madvise(pages, size, MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t at = 0; at < size; at += page) /* before Linux 5.14 */
        atomic_fetch_or((volatile _Atomic unsigned char *)pages + at, 0);
}
