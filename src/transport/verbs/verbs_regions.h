/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_regions.h - registered memory of an adapter, kept for many messages.
 *
 *   get(buf) ── kept, covers buf ────────────> that region
 *            ├─ requested for the second time ─> registered by whole pages, watched (base/memwatch.h)
 *            └─ otherwise ─────────────────────> registered for this one use
 *   put(region) ── kept: stays ── unmapped, or space is needed ──> deregistered
 *
 * A registration holds pages, not addresses.  So a region is kept only while its memory is
 * watched, and each get checks what was unmapped.
 *
 * Invariants
 *   I1  bytes is the sum of the kept regions, at most bytes_max; kept_count, their number
 *   I2  a kept region is on kept, the one used last first, and its range is watched
 *   I3  a region with uses is registered
 *
 * Threads    all calls of one struct: one at a time.
 */
#ifndef TRANSPORT_VERBS_REGIONS_H
#define TRANSPORT_VERBS_REGIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/memwatch.h"

struct ibv_mr;
struct ibv_pd;
struct verbs_regions;

/* A memory region of an adapter. */
struct verbs_region {
    struct ibv_mr *mr;
    struct verbs_regions *regions;
    struct memwatch_range range;
    struct list node; /* on kept, or nowhere */
    uint32_t uses;
    int access;
};

struct verbs_regions_stats {
    uint64_t found; /* gets that found a kept region */
    uint64_t made;  /* gets that registered memory */
    uint64_t gone;  /* kept ones whose memory was unmapped */
    uint64_t bytes; /* kept now */
};

/*
 * verbs_regions_open - regions of a protection domain.
 *
 * bytes_max  limit of kept regions; 0: none is kept; UINT64_MAX: a quarter of what this process may
 *            lock (RLIMIT_MEMLOCK), and no more than 1 GiB
 * Returns    NULL without memory.
 */
struct verbs_regions *verbs_regions_open(struct ibv_pd *pd, uint64_t bytes_max);

/* All regions must have been put. */
void verbs_regions_close(struct verbs_regions *regions);

/* verbs_region_get - registered memory with all of [buf, buf+size), for at least this access
 * (IBV_ACCESS_*).  NULL and errno: it cannot be registered. */
struct verbs_region *verbs_region_get(struct verbs_regions *regions, const void *buf,
                                      size_t size, int access);

/* The adapter does not use the region any more for the caller of get. */
void verbs_region_put(struct verbs_region *region);

/* Drops regions whose memory was unmapped, as each get does. */
void verbs_regions_tend(struct verbs_regions *regions);

void verbs_regions_stats(const struct verbs_regions *regions,
                         struct verbs_regions_stats *stats);

#endif
