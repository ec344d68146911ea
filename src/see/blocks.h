/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks.h - a source that keeps the block of another source that was read last: objects of a pool lie side by side, and
 * each read of the memory of another process, or through a debugger, costs more than its bytes.
 *
 * What it keeps is of the moment of its reading: see_blocks_forget() before something is read again.
 */
#ifndef SEE_BLOCKS_H
#define SEE_BLOCKS_H

#include "see/walk.h"

#define SEE_BLOCK 4096

struct see_blocks {
    struct see_source source; /* first: what is read by */
    const struct see_source *from;
    uint64_t block; /* its address; 0: none */
    unsigned char bytes[SEE_BLOCK];
};

/* `from` has to stay as long as blocks is used. */
void see_blocks_init(struct see_blocks *blocks, const struct see_source *from);
void see_blocks_forget(struct see_blocks *blocks);

#endif
