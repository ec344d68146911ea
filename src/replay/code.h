/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * code.h - items of a record as bytes.
 */
#ifndef REPLAY_CODE_H
#define REPLAY_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/format.h"
#include "replay/replay.h"

/* Both sides know this about a signature: its last outcomes, the most recent first. */
struct code_signature {
    struct replay_signature is;
    uint64_t values[FORMAT_OUTCOMES];
    uint8_t results[FORMAT_OUTCOMES]; /* result, and the class of the size << 4 */
    uint8_t count;
    uint8_t next; /* the signature of the event that last followed one of this */
    bool is_defined;
};

/* The content of a definition. */
static inline struct replay_signature code_defined(const struct format_item_words *item)
{
    return (struct replay_signature){
        .comm = format_count(item->word) & REPLAY_COMM_MASK,
        .place = (uint16_t)(format_count(item->word) >> FORMAT_PLACE_SHIFT),
        .source = (int32_t)(uint32_t)(item->value >> 32),
        .tag = (int32_t)(uint32_t)item->value,
        .kind = (uint8_t)(format_a(item->word) |
                          (format_count(item->word) >> FORMAT_KIND_SHIFT & 1) << 4),
        .requests = (uint8_t)format_b(item->word)};
}

/* The state of an empty stream is all zeros. */
struct code {
    struct code_signature signatures[FORMAT_SIGNATURES];
    uint8_t last; /* signature of the last event */
};

/* Write-once files of a rank's record, for write.c and places.c.  A descriptor, or a negative errno; 0 or a negative errno. */
int replay_create(const char *folder, uint32_t rank, const char *kind);
int replay_write_all(int fd, const void *bytes, size_t size);

/* The bytes of items, at most FORMAT_ITEM_BYTES each; returns how many. */
size_t code_write(struct code *code, const struct format_item_words *items, size_t count,
                  unsigned char *bytes);

/* The items of bytes, which must be exactly count.  False: these bytes are no such items. */
bool code_read(struct code *code, const unsigned char *bytes, size_t size,
               struct format_item_words *items, size_t count);

/* Is this an item that a program can have made?  A definition, or an event of a signature that is defined. */
bool code_is_right(const struct code *code, const struct format_item_words *item);

/* An item that is right: a definition is noted. */
void code_note(struct code *code, const struct format_item_words *item);

#endif
