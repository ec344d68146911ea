/* SPDX-License-Identifier: BSD-3-Clause */
/* array.c - see array.h. */
#include "base/array.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"

#define SLOTS_FIRST 8u

bool array_grow(void *array, uint32_t *slots, uint64_t wanted, size_t size, bool is_zeroed)
{
    size_t grown = max_size(wanted, max_size(2 * (size_t)*slots, SLOTS_FIRST));
    unsigned char *block;

    if (wanted <= *slots)
        return true;
    if (grown > UINT32_MAX) {
        errno = ENOMEM;
        return false;
    }
    memcpy(&block, array, sizeof block); /* a pointer of any type */
    block = mem_realloc(block, grown * size);
    if (block == NULL)
        return false;
    if (is_zeroed)
        memset(block + *slots * size, 0, (grown - *slots) * size);
    memcpy(array, &block, sizeof block);
    *slots = (uint32_t)grown;
    return true;
}
