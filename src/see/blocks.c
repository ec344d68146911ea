/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks.c - see blocks.h.
 */
#include "see/blocks.h"

#include <string.h>

static int read_blocks(const struct see_source *source, uint64_t at, void *to, size_t size)
{
    struct see_blocks *blocks = (struct see_blocks *)(uintptr_t)source;
    uint64_t block = at / SEE_BLOCK * SEE_BLOCK;

    if (size > SEE_BLOCK || at - block > SEE_BLOCK - size || block == 0)
        return blocks->from->read(blocks->from, at, to, size);
    if (block != blocks->block) {
        blocks->block = 0;
        if (blocks->from->read(blocks->from, block, blocks->bytes, SEE_BLOCK) != 0)
            return blocks->from->read(blocks->from, at, to, size); /* which may do */
        blocks->block = block;
    }
    memcpy(to, blocks->bytes + (at - block), size);
    return 0;
}

void see_blocks_init(struct see_blocks *blocks, const struct see_source *from)
{
    blocks->source.read = read_blocks;
    blocks->from = from;
    blocks->block = 0;
}

void see_blocks_forget(struct see_blocks *blocks)
{
    blocks->block = 0;
}
