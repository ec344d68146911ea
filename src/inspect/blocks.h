/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks.h - a source that caches the last block that was read from another source: objects of
 * a pool are next to each other, and each read from another process, or through a debugger,
 * costs more than its bytes.
 *
 * The block is as old as its read: call inspect_blocks_forget() before memory is read again.
 */
#ifndef INSPECT_BLOCKS_H
#define INSPECT_BLOCKS_H

#include "inspect/walk.h"

#define INSPECT_BLOCK 4096

struct inspect_blocks {
    struct inspect_source source; /* must be first; used to read */
    const struct inspect_source *from;
    uint64_t block; /* its address; 0: none */
    unsigned char bytes[INSPECT_BLOCK];
};

/* `from` must stay valid as long as blocks is used. */
void inspect_blocks_init(struct inspect_blocks *blocks, const struct inspect_source *from);
void inspect_blocks_forget(struct inspect_blocks *blocks);

#endif
