/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.h - memcpy for data that is usually small.
 *
 * Up to COPY_SMALL_MAX bytes are copied as two overlapping copies of a fixed size, without a
 * call or a loop: for a message of 8 bytes this halves the cost of the copy.
 */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <string.h>

#include "base/base.h"

#define COPY_SMALL_MAX 32

/* As memcpy(), for at most COPY_SMALL_MAX bytes; both may be NULL if size is 0.  Returns the
 * end of the copy. */
static inline unsigned char *copy_small(void *to, const void *from, size_t size)
{
    unsigned char *out = to;
    const unsigned char *in = from;

    assert(size <= COPY_SMALL_MAX);
    if (size >= 16) {
        memcpy(out, in, 16);
        memcpy(out + size - 16, in + size - 16, 16);
    } else if (size >= 8) {
        memcpy(out, in, 8);
        memcpy(out + size - 8, in + size - 8, 8);
    } else if (size >= 4) {
        memcpy(out, in, 4);
        memcpy(out + size - 4, in + size - 4, 4);
    } else if (size == 0) {
        return out; /* out may be NULL */
    } else {
        for (size_t i = 0; i < size; i++)
            out[i] = in[i];
    }
    return out + size;
}

/* As copy_small(), for any size. */
static inline unsigned char *copy_bytes(void *to, const void *from, size_t size)
{
    if (likely(size <= COPY_SMALL_MAX))
        return copy_small(to, from, size);
    return (unsigned char *)memcpy(to, from, size) + size;
}

#endif
