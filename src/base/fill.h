/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fill.h - fills a structure of the caller, who may have another version of it.
 *
 *   caller's, of size bytes    | first version | more | still more |
 *   ours                       | first version | more |
 *                                <── copied ────────> <── zeroed ──>
 *
 * A caller that was compiled with an earlier header gets as much as it has space for; one that was
 * compiled with a later header finds 0 in the members that this library does not know.
 */
#ifndef BASE_FILL_H
#define BASE_FILL_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"

/* first: bytes of the first version; no caller has fewer.  0; -EINVAL size is below first, and
 * nothing is written. */
static inline int fill_struct(const char *call, void *out, size_t size, const void *value,
                              size_t known, size_t first)
{
    if (size < first)
        return log_argument(call, "size", size, "smaller than any version of the structure");
    memcpy(out, value, min_size(size, known));
    if (size > known)
        memset((char *)out + known, 0, size - known);
    return 0;
}

/* last: the member of value (a structure) that was the last one in the first version. */
#define FILL(out, size, value, last)                                                           \
    fill_struct(__func__, out, size, &(value), sizeof(value),                                  \
                (size_t)((const char *)(&(value).last + 1) - (const char *)&(value)))

#endif
