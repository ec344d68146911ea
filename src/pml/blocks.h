/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks.h - packing and unpacking by the description of a datatype.
 *
 * Open MPI describes a committed datatype by items: runs of blocks of the same size at the same
 * distance, and loops around them.  Its convertor can do much more than copy these, and takes about
 * ten times as long for small blocks.
 */
#ifndef PML_BLOCKS_H
#define PML_BLOCKS_H

#include "pml/series.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PML_LOOPS 4

/* The progress of packing or unpacking a message. */
struct pml_blocks {
    const union dt_elem_desc *items; /* of the datatype; count of them */
    size_t count, next;              /* next: the item after the run */
    char *element;                   /* the present element: its items are relative to this */
    ptrdiff_t extent;                /* distance to the next element */
    char *base;                      /* the items of the innermost loop are relative to this */
    char *at;                        /* the run: its next byte */
    size_t block, left;              /* bytes of each block, and bytes left of this one */
    ptrdiff_t stride;                /* distance from one block to the next */
    size_t blocks;                   /* blocks left in the run, including this one */
    size_t depth;
    struct {
        size_t item; /* the first item of the loop */
        size_t left; /* iterations left, including this one */
        char *base;  /* the loop itself is relative to this */
    } loops[PML_LOOPS];
};

/* True if this module can handle the datatype. */
bool pml_blocks_suit(const ompi_datatype_t *type);

/* Starts at the beginning of the message.  The datatype must stay committed until the message
 * has completed. */
void pml_blocks_begin(struct pml_blocks *blocks, const void *buf, size_t count,
                      const ompi_datatype_t *type);

/* Packs or unpacks the next size bytes of the message, which must have as many left. */
void pml_blocks_pack(struct pml_blocks *blocks, void *to, size_t size);
void pml_blocks_unpack(struct pml_blocks *blocks, const void *from, size_t size);

#endif
