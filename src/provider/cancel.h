/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel.h - receives under way by context, from the first fi_cancel() on: cancel.c.
 */
#ifndef PROVIDER_CANCEL_H
#define PROVIDER_CANCEL_H

#include "provider/compat.h"

#include <sys/types.h>

struct prov_ep;
struct prov_op;

/* An endpoint's part: a hash table. */
struct prov_ep_index {
    struct prov_op **heads; /* NULL before the first fi_cancel() */
    size_t size;
};

void prov_index_add(struct prov_ep *ep, struct prov_op *op);
void prov_index_remove(struct prov_op *op);
/* Of an endpoint that closes. */
void prov_index_free(struct prov_ep *ep);
ssize_t prov_cancel(fid_t fid, void *context);

#endif
