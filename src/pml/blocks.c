/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks.c - packing and unpacking by the description of a datatype.
 *
 *   items of a datatype      run   loop   run   run   end of the loop   run
 *                             │     └─────────────────────┘              │
 *                             blocks at the same distance
 *
 * Offsets within a loop are relative to the beginning of its iteration, and outside of loops to
 * the beginning of the element.  Elements follow each other at the distance of the extent.
 *
 * Invariants
 *   I1  blocks.left <= blocks.block; bytes are left of the run if and only if blocks.blocks != 0
 *   I2  the caller packs or unpacks no more bytes than the message has, so that there is a next
 *       run when one is needed
 */
#include "pml/blocks.h"

#include <string.h>

#include "base/compiler.h"

/* ---- from run to run ---- */

/* The nesting depth of a datatype's loops. */
static size_t loops_depth(const union dt_elem_desc *items, size_t count)
{
    size_t depth = 0, most = 0;

    for (size_t i = 0; i < count; i++) {
        if (items[i].elem.common.type == OPAL_DATATYPE_LOOP)
            depth++;
        else if (items[i].elem.common.type == OPAL_DATATYPE_END_LOOP && depth > 0)
            depth--;
        most = depth > most ? depth : most;
    }
    return most;
}

bool pml_blocks_suit(const ompi_datatype_t *type)
{
    const opal_datatype_t *described = &type->super;

    if (described->opt_desc.used == 0 || described->opt_desc.desc == NULL)
        return false;
    /* loops counts all loops, nested or consecutive */
    return described->loops <= PML_LOOPS ||
           loops_depth((const union dt_elem_desc *)described->opt_desc.desc,
                       described->opt_desc.used) <= PML_LOOPS;
}

/* The only run of a datatype that has no more than one block: its elements are the blocks. */
static bool blocks_are_elements(const struct pml_blocks *blocks)
{
    return blocks->count == 1 && blocks->items->elem.count == 1;
}

static size_t item_block(const union dt_elem_desc *item)
{
    return item->elem.blocklen * opal_datatype_basicDatatypes[item->elem.common.type]->size;
}

void pml_blocks_begin(struct pml_blocks *blocks, const void *buf, size_t count,
                      const ompi_datatype_t *type)
{
    blocks->items = (const union dt_elem_desc *)type->super.opt_desc.desc;
    blocks->count = type->super.opt_desc.used;
    blocks->next = 0;
    blocks->element = blocks->base = (char *)(uintptr_t)buf;
    blocks->extent = type->super.ub - type->super.lb;
    blocks->blocks = 0;
    blocks->depth = 0;
    if (blocks_are_elements(blocks)) {
        blocks->block = blocks->left = item_block(blocks->items);
        blocks->at = blocks->base + blocks->items->elem.disp;
        blocks->stride = blocks->extent;
        blocks->blocks = count;
    }
}

static void loop_begins(struct pml_blocks *blocks)
{
    size_t depth = blocks->depth++;

    blocks->loops[depth].left = blocks->items[blocks->next++].loop.loops;
    blocks->loops[depth].item = blocks->next;
    blocks->loops[depth].base = blocks->base;
}

static void loop_turns(struct pml_blocks *blocks)
{
    size_t depth = blocks->depth - 1, first = blocks->loops[depth].item;

    if (--blocks->loops[depth].left != 0) {
        blocks->base += blocks->items[first - 1].loop.extent;
        blocks->next = first;
    } else {
        blocks->base = blocks->loops[depth].base;
        blocks->depth = depth;
        blocks->next++;
    }
}

static void run_begins(struct pml_blocks *blocks)
{
    const union dt_elem_desc *item = &blocks->items[blocks->next++];

    blocks->block = blocks->left = item_block(item);
    blocks->at = blocks->base + item->elem.disp;
    blocks->stride = item->elem.extent;
    blocks->blocks = blocks->block != 0 ? item->elem.count : 0;
}

static void blocks_next(struct pml_blocks *blocks)
{
    while (blocks->blocks == 0) {
        if (blocks->next == blocks->count) {
            blocks->base = blocks->element += blocks->extent;
            blocks->next = 0;
        }
        switch (blocks->items[blocks->next].elem.common.type) {
        case OPAL_DATATYPE_LOOP:
            loop_begins(blocks);
            break;
        case OPAL_DATATYPE_END_LOOP:
            loop_turns(blocks);
            break;
        default:
            run_begins(blocks);
        }
    }
}

/* ---- copying ---- */

/* Up to 32 bytes: two copies of the same size that overlap. */
static inline void block_copy(char *to, const char *from, size_t size)
{
    if (size > 32) {
        memcpy(to, from, size);
    } else if (size >= 16) {
        memcpy(to, from, 16);
        memcpy(to + size - 16, from + size - 16, 16);
    } else if (size >= 8) {
        memcpy(to, from, 8);
        memcpy(to + size - 8, from + size - 8, 8);
    } else if (size >= 4) {
        memcpy(to, from, 4);
        memcpy(to + size - 4, from + size - 4, 4);
    } else {
        for (size_t i = 0; i < size; i++)
            to[i] = from[i];
    }
}

/* Copies `blocks` blocks.  The compiler knows the size in every case except the last. */
static ALWAYS_INLINE void blocks_copy_of(char *to, ptrdiff_t to_next, const char *from,
                                         ptrdiff_t from_next, size_t blocks, size_t size)
{
    for (; blocks != 0; blocks--, to += to_next, from += from_next)
        block_copy(to, from, size);
}

static void blocks_copy(char *to, ptrdiff_t to_next, const char *from, ptrdiff_t from_next,
                        size_t blocks, size_t size)
{
    switch (size) {
    case 4:
        blocks_copy_of(to, to_next, from, from_next, blocks, 4);
        break;
    case 8:
        blocks_copy_of(to, to_next, from, from_next, blocks, 8);
        break;
    case 16:
        blocks_copy_of(to, to_next, from, from_next, blocks, 16);
        break;
    case 24:
        blocks_copy_of(to, to_next, from, from_next, blocks, 24);
        break;
    case 32:
        blocks_copy_of(to, to_next, from, from_next, blocks, 32);
        break;
    default:
        blocks_copy_of(to, to_next, from, from_next, blocks, size);
    }
}

/* Copies whole blocks of the run, as many as `size` bytes hold.  Returns the number of
 * bytes. */
static inline size_t run_move(struct pml_blocks *blocks, char *bytes, size_t size, bool packs)
{
    size_t block = blocks->block, whole = size / block;

    if (whole > blocks->blocks)
        whole = blocks->blocks;
    if (packs)
        blocks_copy(bytes, (ptrdiff_t)block, blocks->at, blocks->stride, whole, block);
    else
        blocks_copy(blocks->at, blocks->stride, bytes, (ptrdiff_t)block, whole, block);
    blocks->at += (ptrdiff_t)whole * blocks->stride;
    blocks->blocks -= whole;
    return whole * block;
}

/* Copies as much of the next block as `size` bytes hold.  Returns the number of bytes. */
static inline size_t part_move(struct pml_blocks *blocks, char *bytes, size_t size, bool packs)
{
    size_t part = size < blocks->left ? size : blocks->left;

    if (packs)
        block_copy(bytes, blocks->at, part);
    else
        block_copy(blocks->at, bytes, part);
    blocks->at += part;
    blocks->left -= part;
    if (blocks->left == 0) {
        blocks->at += blocks->stride - (ptrdiff_t)blocks->block;
        blocks->left = blocks->block;
        blocks->blocks--;
    }
    return part;
}

static ALWAYS_INLINE void blocks_move(struct pml_blocks *blocks, char *bytes, size_t size,
                                      bool packs)
{
    while (size != 0) {
        size_t moved;

        if (blocks->blocks == 0)
            blocks_next(blocks);
        if (blocks->blocks > 1 && blocks->left == blocks->block && size >= blocks->block)
            moved = run_move(blocks, bytes, size, packs);
        else
            moved = part_move(blocks, bytes, size, packs);
        bytes += moved;
        size -= moved;
    }
}

void pml_blocks_pack(struct pml_blocks *blocks, void *to, size_t size)
{
    blocks_move(blocks, to, size, true);
}

void pml_blocks_unpack(struct pml_blocks *blocks, const void *from, size_t size)
{
    blocks_move(blocks, (char *)(uintptr_t)from, size, false);
}
