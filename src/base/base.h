/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base.h - the macros and small functions that every other file uses.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* The size of a cache line.  Current arm64 servers have 64 bytes as well; on a machine with 128
 * the layouts stay correct and only share more lines than they need. */
#define CACHE_LINE 64

/* The distance between data of two cores that must not share a line: many processors fetch
 * lines in pairs. */
#define CACHE_APART        (2 * CACHE_LINE)

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The structure of which *pointer is the member. */
#define container_of(pointer, type, member)                                                    \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static inline bool is_power_of_two(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* The least multiple of unit (a power of two) that is not less than size. */
static inline size_t round_up(size_t size, size_t unit)
{
    assert(is_power_of_two(unit));
    return (size + unit - 1) & ~(unit - 1);
}

/* Tells the core that this is a polling loop. */
static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

/* Requests the cache line of p as a store would, does not wait for it, and changes nothing. (On
 * x86-64, compilers turn __builtin_prefetch() into a prefetch for reading, unless they are told
 * of a newer processor, and then the store still has to wait.) */
static inline void prefetch_for_store(const void *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1, 3);
#endif
}

#endif
