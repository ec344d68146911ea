/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rings.c - see rings.h.
 */
#include "transport/shm/rings.h"

#include "base/sys.h"
#include "transport/shm/shm.h"

#define BYTES_DEFAULT (UINT64_C(16) << 10)
#define BYTES_SHARED  (UINT64_C(32) << 10) /* if ranks share cores */
#define LONG_SHIFT    2u                   /* the longer rings have 64 KiB */

/* The most cells that fit into bytes, at most RINGS_BYTES_MAX; the ring's head is
 * additional. */
static uint32_t cells_for(uint64_t bytes)
{
    uint32_t cells = RING_MIN_CELLS;

    while ((uint64_t)cells * 2 * RING_CELL_SIZE <= min_size(bytes, RINGS_BYTES_MAX))
        cells *= 2;
    return cells;
}

struct rings_choice rings_choose(const struct transport_config *config)
{
    uint64_t set = config->settings.shm.ring_size, cache = config->settings.shm.second_cache;
    bool is_set = set != 0 && set != UINT64_MAX, shares = config->settings.shm.shares_cores;
    struct rings_choice choice = {
        .bytes = is_set   ? set
                 : shares ? BYTES_SHARED
                          : BYTES_DEFAULT,
        .second_cache = cache != 0 ? cache : sys_second_cache(),
    };

    choice.rings.cells = cells_for(choice.bytes);
    if (!is_set && !shares && bounce_fits(choice.second_cache))
        choice.rings.long_shift = LONG_SHIFT;
    /* ranks may disagree on whether they share cores; so that does not change packets */
    choice.packet_max = ring_max_record(cells_for(is_set ? set : BYTES_DEFAULT));
    return choice;
}
