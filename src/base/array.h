/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * array.h - arrays that grow, in memory of mem.h.  An array is a pointer and the number of its slots,
 * both 0 at first; mem_free() frees it.
 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes space for `wanted` entries; new ones are undefined, or zero-filled.  The slots are at least
 * doubled.  False: no memory, and nothing has changed. */
#define array_reserve(array, slots, wanted)                                                    \
    array_grow(&(array), &(slots), wanted, sizeof *(array), false)
#define array_reserve_zeroed(array, slots, wanted)                                             \
    array_grow(&(array), &(slots), wanted, sizeof *(array), true)

/* array is the address of the pointer. */
bool array_grow(void *array, uint32_t *slots, uint64_t wanted, size_t size, bool is_zeroed);

#endif
