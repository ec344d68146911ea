/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index.c - active receives by the client's context, for fi_cancel().
 *
 * Most clients never cancel, so nothing is kept until the first fi_cancel().  That call
 * puts all active receives into a hash table by context.  From then on each receive is
 * added when it is posted and removed when its record is released: the cost of a cancel
 * does not depend on the number of receives.
 *
 * It is not a struct hash, which would grow when a receive is posted, and may fail then.  The lists are made of the
 * records, so a receive that is posted or released needs no memory and no search, and contexts may be equal.
 *
 * Invariants, once ep->index.heads is allocated
 *   I1  the records with same_at set are the records of receives that are not released
 *   I2  *op->same_at == op; the list of a hash ends with NULL
 *   I3  index.size is a power of two, at least half the number of records if memory
 *       allowed
 */
#include "provider/index.h"

#include "base/hash.h"
#include "provider/ep.h"

#include <stdlib.h>

#define INDEX_FIRST 256

static struct prov_op **index_head(const struct prov_ep *ep, const void *context)
{
    return &ep->index.heads[hash_mix((uintptr_t)context) & (ep->index.size - 1)];
}

void prov_index_add(struct prov_ep *ep, struct prov_op *op)
{
    struct prov_op **head = index_head(ep, op->context);

    op->same = *head;
    op->same_at = head;
    if (op->same != NULL)
        op->same->same_at = &op->same;
    *head = op;
}

void prov_index_remove(struct prov_op *op)
{
    *op->same_at = op->same;
    if (op->same != NULL)
        op->same->same_at = op->same_at;
    op->same_at = NULL;
}

static bool is_receive(const struct prov_op *op)
{
    return op->kind == PROV_OP_RECV || op->kind == PROV_OP_MULTI_QUEUED;
}

static size_t index_size_for(const struct prov_ep *ep)
{
    size_t size = INDEX_FIRST;

    while (size < ep->ops.slab_count * PROV_OPS_PER_SLAB / 2)
        size *= 2;
    return size;
}

/* Builds a table for the present number of records; if memory is short, the old table stays. */
static OUT_OF_LINE void index_build(struct prov_ep *ep)
{
    size_t size = index_size_for(ep);
    struct prov_op **heads = calloc(size, sizeof *heads);

    if (heads == NULL)
        return;
    free(ep->index.heads);
    ep->index.heads = heads;
    ep->index.size = size;
    for (struct prov_op_slab *slab = ep->ops.slabs; slab != NULL; slab = slab->next)
        for (size_t i = PROV_OPS_PER_SLAB; i-- != 0;)
            if (is_receive(&slab->ops[i]))
                prov_index_add(ep, &slab->ops[i]);
}

void prov_index_free(struct prov_ep *ep)
{
    free(ep->index.heads);
}

bool prov_index_build(struct prov_ep *ep)
{
    if (ep->index.heads == NULL || ep->index.size < index_size_for(ep))
        index_build(ep);
    return ep->index.heads != NULL;
}

struct prov_op *prov_index_first(const struct prov_ep *ep, const void *context)
{
    return *index_head(ep, context);
}
