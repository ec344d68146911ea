/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks.c - see blocks.h.
 */
#include "inspect/blocks.h"

#include <string.h>

static int read_blocks(const struct inspect_source *source, uint64_t at, void *to, size_t size)
{
    struct inspect_blocks *blocks = (struct inspect_blocks *)(uintptr_t)source;
    uint64_t block = at / INSPECT_BLOCK * INSPECT_BLOCK;

    if (size > INSPECT_BLOCK || at - block > INSPECT_BLOCK - size || block == 0)
        return blocks->from->read(blocks->from, at, to, size);
    if (block != blocks->block) {
        blocks->block = 0;
        if (blocks->from->read(blocks->from, block, blocks->bytes, INSPECT_BLOCK) != 0)
            return blocks->from->read(blocks->from, at, to, size); /* a smaller read may
                                                                      succeed */
        blocks->block = block;
    }
    memcpy(to, blocks->bytes + (at - block), size);
    return 0;
}

void inspect_blocks_init(struct inspect_blocks *blocks, const struct inspect_source *from)
{
    blocks->source.read = read_blocks;
    blocks->from = from;
    blocks->block = 0;
}

void inspect_blocks_forget(struct inspect_blocks *blocks)
{
    blocks->block = 0;
}
