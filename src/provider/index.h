/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * index.h - active receives by context, from the first fi_cancel() on: index.c.
 */
#ifndef PROVIDER_INDEX_H
#define PROVIDER_INDEX_H

#include <stdbool.h>
#include <stddef.h>

struct prov_ep;
struct prov_op;

/* The part of an endpoint: a hash table. */
struct prov_ep_index {
    struct prov_op **heads; /* NULL before the first fi_cancel() */
    size_t size;
};

/* Builds the table with all active receives, and keeps it current.  False: there is no
 * memory. */
bool prov_index_build(struct prov_ep *ep);
/* The first record, linked by same, of the list that holds this context; or NULL. */
struct prov_op *prov_index_first(const struct prov_ep *ep, const void *context);
void prov_index_add(struct prov_ep *ep, struct prov_op *op);
void prov_index_remove(struct prov_op *op);
/* Frees the table of an endpoint that closes. */
void prov_index_free(struct prov_ep *ep);

#endif
