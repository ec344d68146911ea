/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_ranges.h - which memory the receives have that the adapter holds: no two of them overlap.
 *
 * What an announced message says of itself lies at the beginning of the buffer of its receive until
 * software has read it, and the data of a second receive with that memory would overwrite it.
 *
 * Invariants
 *   I1  ranges[0] to ranges[count-1] are not empty, in the order of their addresses, and do not
 *       overlap.  So a range overlaps with one of them only if it does with one of its neighbours
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

/* verbs_ranges_add - false: [buf, buf+size) overlaps with one that is there, and nothing happens.
 * There is space.  size is not 0. */
bool verbs_ranges_add(struct verbs_ranges *r, const void *buf, size_t size);

/* verbs_ranges_remove - the one that begins at buf, which is there. */
void verbs_ranges_remove(struct verbs_ranges *r, const void *buf);

/* verbs_ranges_is_valid - I1; for tests. */
bool verbs_ranges_is_valid(const struct verbs_ranges *r);

#endif
