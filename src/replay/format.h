/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * format.h - the numbers of a record: version 3, little-endian.
 *
 *   rank-R.mbxrec
 *        0  header   who recorded what; with a checksum
 *      128  commit   two slots, used in turn; the one with the higher number holds
 *      256  end      flags, and a checksum over the header, the commits and the flags; it holds if the record is complete
 *     4096  ring     FORMAT_RING items of 16 bytes that are not in a chunk yet; empty in a complete record
 *    69632  chunks   each with a header of 32 bytes, a checksum, and bytes of code.c; written once
 *   rank-R.mbxlate   outcomes that came after their event had left the ring, and exact receives that were cancelled;
 *                    40 bytes each, with a checksum; it is there if there are any
 *   rank-R.mbxplaces where the program has called: line N is place N, "ADDRESS FILE\n", the address in hexadecimal
 *
 * Item, two words; the second one is stored last:
 *
 *   value   event: the value of its outcome         definition: source << 32 | tag
 *   word    bits  0  4  enum format_item
 *                 4  8  lap of the ring, modulo 256: an item of an earlier lap is none
 *                12  8  number of the signature
 *                20  4  event: enum replay_result   definition: enum replay_kind, its lower 4 bits
 *                24  4  event: class of the size    definition: requests
 *                28 36  event: how many times       definition: place, 16 bits, bit 4 of the kind, and communicator, 19 bits
 */
#ifndef REPLAY_FORMAT_H
#define REPLAY_FORMAT_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "replay/replay.h"

#define FORMAT_MAGIC       UINT64_C(0x524544524f58424d) /* "MBXORDER" */
#define FORMAT_VERSION     3u
#define FORMAT_HEADER_SIZE 128u
#define FORMAT_COMMIT_AT   128u
#define FORMAT_END_AT      256u
#define FORMAT_RING_AT     4096u
#define FORMAT_RING        4096u /* items */
#define FORMAT_CHUNKS_AT   (FORMAT_RING_AT + FORMAT_RING * 16u)
#define FORMAT_CHUNK_ITEMS (FORMAT_RING / 2)
#define FORMAT_ITEM_BYTES  24u /* an item of a chunk at most */
#define FORMAT_CHUNK_BYTES (FORMAT_CHUNK_ITEMS * FORMAT_ITEM_BYTES)
#define FORMAT_LATE_SIZE   40u
#define FORMAT_SIGNATURES  256u
#define FORMAT_OUTCOMES    15u
#define FORMAT_DISTANCE    16u /* items that a repetition looks back */

enum format_item { FORMAT_EMPTY, FORMAT_EVENT, FORMAT_DEFINITION };

enum format_late { FORMAT_LATE_OUTCOME = 1, FORMAT_LATE_CANCELLED };

#define FORMAT_TIMES_MAX   ((UINT64_C(1) << 36) - 1)
#define FORMAT_KIND_SHIFT  19
#define FORMAT_PLACE_SHIFT 20
#define FORMAT_PLACES_MAX  UINT16_MAX

struct format_header {
    uint64_t magic;
    uint32_t version, size_of_header, rank, size, pid, threads;
    uint64_t wall_ns, arguments, mpi;
    unsigned char build[24];
    uint64_t zero[5];
    uint64_t check;
};

struct format_commit {
    uint64_t number; /* stored last */
    uint64_t items;  /* that have left the ring */
    uint64_t end;    /* of the last chunk, in the file */
    uint64_t zero;
};

struct format_end {
    uint64_t flags; /* enum replay_flags */
    uint64_t late;  /* entries of the other file */
    uint64_t check;
};

struct format_chunk {
    uint32_t number, bytes, items, zero;
    uint64_t first; /* item */
    uint64_t check;
};

struct format_late_one {
    uint64_t number; /* of the wildcard receive, or of the program's receive */
    uint64_t value;
    uint32_t kind, result, size_class, zero;
    uint64_t check;
};

struct format_item_words {
    uint64_t value, word;
};

static inline uint64_t format_word(enum format_item type, uint64_t lap, unsigned slot,
                                   unsigned a, unsigned b, uint64_t count)
{
    return (uint64_t)type | (lap & 0xff) << 4 | (uint64_t)(slot & 0xff) << 12 |
           (uint64_t)(a & 0xf) << 20 | (uint64_t)(b & 0xf) << 24 | count << 28;
}

static inline enum format_item format_type(uint64_t word)
{
    return (enum format_item)(word & 0xf);
}

static inline unsigned format_lap(uint64_t word)
{
    return (unsigned)(word >> 4 & 0xff);
}

static inline unsigned format_slot(uint64_t word)
{
    return (unsigned)(word >> 12 & 0xff);
}

static inline unsigned format_a(uint64_t word)
{
    return (unsigned)(word >> 20 & 0xf);
}

static inline unsigned format_b(uint64_t word)
{
    return (unsigned)(word >> 24 & 0xf);
}

static inline uint64_t format_count(uint64_t word)
{
    return word >> 28;
}

/* The word without the lap. */
static inline uint64_t format_lapless(uint64_t word)
{
    return word & ~UINT64_C(0xff0);
}

/* The checksum of a structure that ends with it. */
#define FORMAT_CHECK(one) hash_bytes(&(one), sizeof(one) - sizeof(uint64_t))

static_assert(sizeof(struct format_header) == FORMAT_HEADER_SIZE, "format");
static_assert(sizeof(struct format_commit) == 32 && sizeof(struct format_chunk) == 32,
              "format");
static_assert(sizeof(struct format_late_one) == 40, "format");
static_assert(REPLAY_COMM_MASK == (UINT64_C(1) << FORMAT_KIND_SHIFT) - 1 &&
                  FORMAT_PLACE_SHIFT == FORMAT_KIND_SHIFT + 1 && REPLAY_KINDS <= 32 &&
                  REPLAY_RESULTS <= 16,
              "the fields of an item do not overlap");
static_assert(REPLAY_ONCE == UINT64_C(1) << 28 && REPLAY_OFTEN >> 28 >= FORMAT_TIMES_MAX - 1,
              "format_word()");

#endif
