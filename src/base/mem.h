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

/* As realloc(): on failure NULL, and the block at pointer is unchanged.  pointer may be NULL.
 * The alignment of mem_alloc_aligned() is not kept. */
void *mem_realloc(void *pointer, size_t size);

/* The size of a huge page. */
#define MEM_HUGE ((size_t)2 << 20)

/* alignment is a power of two and at least sizeof(void *); contents undefined.
 * An alignment of MEM_HUGE also requests huge pages. */
void *mem_alloc_aligned(size_t alignment, size_t size);

/* Frees memory from any function above; NULL is allowed. */
void mem_free(void *pointer);

/* Gives the whole pages in [pointer, pointer+size), a part of a block of mem_alloc(), back to
 * the system until they are used again: their contents are undefined from here on.  Pages of a
 * shared mapping leave our page table and keep their contents. */
void mem_discard(void *pointer, size_t size);
/* Enters these pages of a shared mapping into our page table, and no pages around them, as a
 * read fault would.  Their contents stay as they are. */
void mem_touch(void *pages, size_t size);

/* The n-th allocation from now (1 = the next, of any thread) fails, and no other; 0 switches
 * this off.  A mem_realloc() counts as an allocation. */
void mem_fail_at(uint64_t n);

/* The rest of that n: 0 if no further allocation is going to fail. */
uint64_t mem_fail_left(void);

/* Allocations made and not yet freed. */
uint64_t mem_live(void);

/* For tests: also counts bytes from now on.  Call it before any thread is started. */
void mem_count_bytes(void);

/* The usable bytes of the blocks that were allocated since mem_count_bytes() and are not freed:
 * at least the requested size, without the allocator's own header, which has 8 bytes for each
 * block in the GNU C library.  A block from before that is freed now counts negatively. */
uint64_t mem_bytes(void);

#endif
