/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_ranges.c - see verbs_ranges.h.
 */
#include "device/verbs/verbs_ranges.h"

#include <string.h>

#include "base/base.h"

/* The index of the first range that begins at `at` or later; count: there is none. */
static uint32_t verbs_ranges_find(const struct verbs_ranges *r, uintptr_t at)
{
    uint32_t low = 0, high = r->count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (r->ranges[middle].begin < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool verbs_ranges_add(struct verbs_ranges *r, const void *buf, size_t size)
{
    const struct verbs_range range = {(uintptr_t)buf, (uintptr_t)buf + size};
    const uint32_t at = verbs_ranges_find(r, range.begin);

    assert(size > 0);
    assert(r->count < r->capacity);
    if ((at < r->count && r->ranges[at].begin < range.end) ||
        (at > 0 && r->ranges[at - 1].end > range.begin))
        return false;
    memmove(&r->ranges[at + 1], &r->ranges[at], (r->count - at) * sizeof r->ranges[0]);
    r->ranges[at] = range;
    r->count++;
    return true;
}

void verbs_ranges_remove(struct verbs_ranges *r, const void *buf)
{
    const uint32_t at = verbs_ranges_find(r, (uintptr_t)buf);

    assert(at < r->count && r->ranges[at].begin == (uintptr_t)buf);
    r->count--;
    memmove(&r->ranges[at], &r->ranges[at + 1], (r->count - at) * sizeof r->ranges[0]);
}

bool verbs_ranges_is_valid(const struct verbs_ranges *r)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (r->ranges[i].begin >= r->ranges[i].end ||
            (i > 0 && r->ranges[i - 1].end > r->ranges[i].begin))
            return false;
    return r->count <= r->capacity;
}
