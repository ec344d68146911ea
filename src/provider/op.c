/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.c - the records of an endpoint's operations, in slabs.
 *
 * Invariants
 *   I1  a record is FREE if and only if it is on the free list
 *   I2  a slab is never freed before the endpoint closes: pointers to records, which
 *       Matchbox keeps as its requests' user pointers, stay valid
 *   I3  a one-sided operation has parts until its last access has completed
 */
#include "provider/op.h"

#include <stdlib.h>

int prov_op_slab_add(struct prov_ep_ops *ops)
{
    struct prov_op_slab *slab = calloc(1, sizeof *slab);

    if (slab == NULL)
        return -FI_ENOMEM;
    slab->next = ops->slabs;
    ops->slabs = slab;
    ops->slab_count++;
    for (size_t i = PROV_OPS_PER_SLAB; i-- != 0;)
        prov_op_put(ops, &slab->ops[i]);
    return 0;
}

void prov_ops_free(struct prov_ep_ops *ops)
{
    while (ops->slabs != NULL) {
        struct prov_op_slab *slab = ops->slabs;

        ops->slabs = slab->next;
        for (size_t i = 0; i < PROV_OPS_PER_SLAB; i++)
            if (slab->ops[i].kind != PROV_OP_FREE)
                free(slab->ops[i].bounce);
        free(slab);
    }
}
