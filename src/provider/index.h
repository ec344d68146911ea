/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index.h - receives under way by context, from the first fi_cancel() on: index.c.
 */
#ifndef PROVIDER_INDEX_H
#define PROVIDER_INDEX_H

#include <stdbool.h>
#include <stddef.h>

struct prov_ep;
struct prov_op;

/* An endpoint's part: a hash table. */
struct prov_ep_index {
    struct prov_op **heads; /* NULL before the first fi_cancel() */
    size_t size;
};

/* All receives that are under way are in the table from now on.  False: there is no memory. */
bool prov_index_build(struct prov_ep *ep);
/* The first record of the list, linked by same, where those of this context are; or NULL. */
struct prov_op *prov_index_first(const struct prov_ep *ep, const void *context);
void prov_index_add(struct prov_ep *ep, struct prov_op *op);
void prov_index_remove(struct prov_op *op);
/* Of an endpoint that closes. */
void prov_index_free(struct prov_ep *ep);

#endif
