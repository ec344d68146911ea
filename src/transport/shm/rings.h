/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rings.h - which ring a pair gets; nothing else decides it.
 *
 * The first packets of a pair go into its mailbox (segment.h).  What follows goes into the ring of the
 * slot that the sender has reserved, whose size the receiver has chosen when it was opened:
 *
 *   MBX_SHM_RING_SIZE  ranks share cores  second cache holds     first SEGMENT_LONG_RINGS  other
 *                                         all chunks (bounce.c)    slots                     slots
 *   set                any                any                    that size                 that size
 *   auto               yes                any                    32 KiB                    32 KiB
 *   auto               no                 yes                    64 KiB                    16 KiB
 *   auto               no                 no                     16 KiB                    16 KiB
 *
 * Whoever has its core may go on until it needs what its peer has not sent: in a halo exchange, two
 * exchanges ahead.  With two messages of 4 KiB in each they all have to go into the ring, or the core
 * changes hands twice as often (docs/decisions/0036).  Where a second cache holds all that goes through
 * it, a ring that holds a window of messages is not in the way (docs/decisions/0042).
 */
#ifndef SHM_RINGS_H
#define SHM_RINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "base/ring.h"
#include "transport/transport.h"

#define RINGS_BYTES_MIN (UINT64_C(4) << 10)
#define RINGS_BYTES_MAX (UINT64_C(64) << 20)

/* The rings of the first slots may be longer than the others. */
#define SEGMENT_LONG_RINGS     8u
#define SEGMENT_LONG_SHIFT_MAX 8u

/* The rings of a segment. */
struct rings {
    uint32_t cells;      /* of each, */
    uint32_t long_shift; /* and 1 << this times as many of the first SEGMENT_LONG_RINGS */
};

/* What an endpoint that is opened with a configuration makes of it. */
struct rings_choice {
    uint64_t
        bytes; /* of one ring, before they are rounded; to be RINGS_BYTES_MIN to RINGS_BYTES_MAX */
    struct rings rings;
    size_t packet_max;   /* bytes of the largest packet */
    size_t second_cache; /* of a core; 0: nobody says */
};

struct rings_choice rings_choose(const struct transport_config *config);

/* The ring of one slot. */
struct rings_place {
    size_t offset; /* behind the beginning of the first ring */
    uint32_t cells;
};

/* Of slot i; i may be the number of slots: the end of the last ring. */
static inline struct rings_place rings_place(struct rings rings, uint32_t i)
{
    uint32_t long_cells = rings.cells << rings.long_shift;
    size_t longs = min_size(i, SEGMENT_LONG_RINGS);

    return (struct rings_place){
        .offset = longs * ring_bytes(long_cells) + (i - longs) * ring_bytes(rings.cells),
        .cells = i < SEGMENT_LONG_RINGS ? long_cells : rings.cells,
    };
}

static inline bool rings_are_valid(struct rings rings)
{
    return ring_count_is_valid(rings.cells) && rings.long_shift <= SEGMENT_LONG_SHIFT_MAX &&
           ring_count_is_valid(rings.cells << rings.long_shift);
}

#endif
