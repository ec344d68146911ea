/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem.h - allocation that is counted and that a test can make fail.
 *
 * Every allocation of the library goes through here.  All functions may be
 * called from any thread.  Each failure sets errno to ENOMEM.  A size of 0 is
 * taken as 1, so NULL always means failure.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Contents undefined. */
void *mem_alloc(size_t size);

/* Zero-filled; NULL also if count * size does not fit a size_t. */
void *mem_calloc(size_t count, size_t size);

/* As realloc(): on failure NULL, and pointer still holds what it held.  pointer
 * may be NULL.  The alignment of mem_alloc_aligned() is not kept. */
void *mem_realloc(void *pointer, size_t size);

/* What a huge page holds. */
#define MEM_HUGE ((size_t)2 << 20)

/* alignment is a power of two and at least sizeof(void *); contents undefined.
 * An alignment of MEM_HUGE asks the system for huge pages, too. */
void *mem_alloc_aligned(size_t alignment, size_t size);

/* Releases what any of the above returned; NULL is allowed. */
void mem_free(void *pointer);

/* The whole pages in [pointer, pointer+size), a part of what mem_alloc() returned, go back to
 * the system until they are used again: their contents are undefined from here on.  Those of a shared mapping leave our page
 * table, and keep theirs. */
void mem_discard(void *pointer, size_t size);
/* These pages of a shared mapping are in our page table from now on, and none around them, which a read of the first one
 * would bring along.  What they hold stays as it is. */
void mem_touch(void *pages, size_t size);

/* The n-th allocation from now (1 = the next, of any thread) fails, and only
 * that one; 0 switches this off.  A mem_realloc() counts as an allocation. */
void mem_fail_at(uint64_t n);

/* What is left of that n: 0 if none is going to fail, any more or at all. */
uint64_t mem_fail_left(void);

/* Allocations made and not yet freed. */
uint64_t mem_live(void);

/* Of a test: from now on bytes are counted, too.  Before any thread is started. */
void mem_count_bytes(void);

/* Of the blocks made since, and not yet freed, what may be written to: at least what was asked
 * for.  Without what the allocator adds to a block for itself, 8 bytes each in the GNU C
 * library. Blocks from before that are freed count below 0. */
uint64_t mem_bytes(void);

#endif
