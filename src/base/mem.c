/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem.c - the C library's allocator, counted.
 *
 * A block carries no header, so any alignment works.  A test that counts bytes gets the size of
 * a block from malloc_usable_size().
 */
#include "base/mem.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/countdown.h"

static _Atomic int64_t fail_countdown;
static _Atomic uint64_t live_count, live_bytes;
static bool counts_bytes; /* set before there are threads */

static bool mem_fails(void)
{
    if (!countdown_fires(&fail_countdown))
        return false;
    errno = ENOMEM;
    return true;
}

static size_t bytes_of(void *pointer)
{
    return unlikely(counts_bytes) ? malloc_usable_size(pointer) : 0;
}

static void count_bytes(size_t more, size_t less)
{
    if (unlikely(counts_bytes))
        atomic_fetch_add_explicit(&live_bytes, more - less, memory_order_relaxed);
}

/* Counts a new block; NULL passes through. */
static void *mem_count(void *pointer)
{
    if (pointer == NULL)
        return NULL;
    atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    count_bytes(bytes_of(pointer), 0);
    return pointer;
}

void *mem_alloc(size_t size)
{
    return mem_fails() ? NULL : mem_count(malloc(max_size(size, 1)));
}

void *mem_calloc(size_t count, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(count, size, &total)) { /* sanitizers abort at an overflow in
                                                          calloc() */
        errno = ENOMEM;
        return NULL;
    }
    return mem_fails() ? NULL : mem_count(calloc(1, max_size(total, 1)));
}

void *mem_realloc(void *pointer, size_t size)
{
    size_t before = bytes_of(pointer);
    void *moved;

    if (pointer == NULL)
        return mem_alloc(size);
    moved = mem_fails() ? NULL : realloc(pointer, max_size(size, 1));
    if (moved != NULL)
        count_bytes(bytes_of(moved), before);
    return moved;
}

void *mem_alloc_aligned(size_t alignment, size_t size)
{
    void *pointer;
    int err;

    assert(is_power_of_two(alignment) && alignment >= sizeof(void *));
    if (mem_fails())
        return NULL;
    err = posix_memalign(&pointer, alignment, max_size(size, 1));
    if (err != 0) {
        errno = err;
        return NULL;
    }
    if (alignment >= MEM_HUGE)
        madvise(pointer, size, MADV_HUGEPAGE); /* a failure only costs time */
    return mem_count(pointer);
}

void mem_free(void *pointer)
{
    if (pointer == NULL)
        return;
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
    count_bytes(0, bytes_of(pointer));
    free(pointer);
}

void mem_fail_at(uint64_t n)
{
    assert(n <= INT64_MAX);
    atomic_store(&fail_countdown, (int64_t)n);
}

uint64_t mem_fail_left(void)
{
    return (uint64_t)atomic_load(&fail_countdown);
}

uint64_t mem_live(void)
{
    return atomic_load_explicit(&live_count, memory_order_relaxed);
}

void mem_count_bytes(void)
{
    counts_bytes = true;
}

uint64_t mem_bytes(void)
{
    return atomic_load_explicit(&live_bytes, memory_order_relaxed);
}
