/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks.h - packing and unpacking by the description of a datatype.
 *
 * Open MPI describes a committed datatype by items: runs of blocks of the same size at the same
 * distance, and loops around them.  Its convertor can do much more than to copy these, which costs
 * it some ten times as long where the blocks are small.
 */
#ifndef PML_BLOCKS_H
#define PML_BLOCKS_H

#include "pml/series.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PML_LOOPS 4

/* How far a message is packed or unpacked. */
struct pml_blocks {
    const union dt_elem_desc *items; /* of the datatype, so many */
    size_t count, next;              /* next: the item behind the run */
    char *element;                   /* where the items of this element are counted from; */
    ptrdiff_t extent;                /* so far is the next one */
    char *base;                      /* what the items of the innermost loop are counted from */
    char *at;                        /* the run: its next byte, */
    size_t block, left;              /* bytes of each block, and what is left of this one, */
    ptrdiff_t stride;                /* from one block to the next, */
    size_t blocks;                   /* and how many are left, with this one */
    size_t depth;
    struct {
        size_t item; /* its first, */
        size_t left; /* turns, with this one, */
        char *base;  /* and what it is counted from itself */
    } loops[PML_LOOPS];
};

/* Can it be used for this datatype? */
bool pml_blocks_suit(const ompi_datatype_t *type);

/* Nothing is packed or unpacked yet.  The datatype stays committed until the message has gone. */
void pml_blocks_begin(struct pml_blocks *blocks, const void *buf, size_t count,
                      const ompi_datatype_t *type);

/* The next size bytes of the message, of which there are so many. */
void pml_blocks_pack(struct pml_blocks *blocks, void *to, size_t size);
void pml_blocks_unpack(struct pml_blocks *blocks, const void *from, size_t size);

#endif
