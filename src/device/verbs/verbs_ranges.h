/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_ranges.h - the memory of the receives that the adapter holds: no two of them overlap.
 *
 * The request of an announced message lies at the beginning of its receive's buffer until
 * software has read it.  The data of a second receive with that memory would overwrite it.
 *
 * Invariants
 *   I1  ranges[0] to ranges[count-1] are not empty, are in address order, and do not overlap.
 *       So a range that overlaps any of them overlaps one of its neighbours
 */
#ifndef DEVICE_VERBS_RANGES_H
#define DEVICE_VERBS_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct verbs_range {
    uintptr_t begin, end;
};

struct verbs_ranges {
    struct verbs_range *ranges; /* [capacity], in the caller's memory */
    uint32_t count, capacity;
};

/* verbs_ranges_add - false: [buf, buf+size) overlaps an existing range, and nothing is added.
 * There must be space, and size must not be 0. */
bool verbs_ranges_add(struct verbs_ranges *r, const void *buf, size_t size);

/* verbs_ranges_remove - removes the range that begins at buf, which must exist. */
void verbs_ranges_remove(struct verbs_ranges *r, const void *buf);

/* verbs_ranges_is_valid - I1; for tests. */
bool verbs_ranges_is_valid(const struct verbs_ranges *r);

#endif
