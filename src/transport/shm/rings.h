/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rings.h - decides which ring a pair gets.
 *
 * The first packets of a pair go into its mailbox (segment.h).  Later packets go into the ring
 * of the slot that the sender has reserved.  The receiver has chosen the ring's size at open:
 *
 *   MBX_SHM_RING_SIZE  ranks share cores  second cache holds     first SEGMENT_LONG_RINGS  other
 *                                         all buffers (bounce.c)   slots                     slots
 *   set                any                any                    that size                 that size
 *   auto               yes                any                    32 KiB                    32 KiB
 *   auto               no                 yes                    64 KiB                    16 KiB
 *   auto               no                 no                     16 KiB                    16 KiB
 *
 * If ranks share cores, a rank can run until it needs a message that its peer has not sent: in
 * a halo exchange, two exchanges ahead.  With two messages of 4 KiB in each exchange, all of
 * them have to fit into the ring, or the core changes hands twice as often
 * (docs/decisions/0036).  If the second cache holds everything that passes through it, a ring
 * that holds a window of messages does no harm (docs/decisions/0042).
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
    uint32_t cells;      /* of each ring, */
    uint32_t long_shift; /* but 1 << this times as many in the first SEGMENT_LONG_RINGS */
};

/* The values that follow from a configuration. */
struct rings_choice {
    uint64_t
        bytes; /* of one ring, before rounding; must be RINGS_BYTES_MIN to RINGS_BYTES_MAX */
    struct rings rings;
    size_t packet_max;   /* bytes of the largest packet */
    size_t second_cache; /* of a core; 0: unknown */
};

struct rings_choice rings_choose(const struct transport_config *config);

/* The ring of one slot. */
struct rings_place {
    size_t offset; /* from the beginning of the first ring */
    uint32_t cells;
};

/* The place of slot i's ring; i may be the number of slots: the end of the last ring. */
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
