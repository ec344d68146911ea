/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks.h - a source that keeps the block of another source that was read last: objects of a pool lie side by side, and
 * each read of the memory of another process, or through a debugger, costs more than its bytes.
 *
 * What it keeps is of the moment of its reading: inspect_blocks_forget() before something is read again.
 */
#ifndef INSPECT_BLOCKS_H
#define INSPECT_BLOCKS_H

#include "inspect/walk.h"

#define INSPECT_BLOCK 4096

struct inspect_blocks {
    struct inspect_source source; /* first: what is read by */
    const struct inspect_source *from;
    uint64_t block; /* its address; 0: none */
    unsigned char bytes[INSPECT_BLOCK];
};

/* `from` has to stay as long as blocks is used. */
void inspect_blocks_init(struct inspect_blocks *blocks, const struct inspect_source *from);
void inspect_blocks_forget(struct inspect_blocks *blocks);

#endif
