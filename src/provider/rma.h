/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.h - one-sided calls: rma.c, atomic.c.
 */
#ifndef PROVIDER_RMA_H
#define PROVIDER_RMA_H

#include "provider/compat.h"
#include "provider/op.h"

struct prov_ep;

extern struct fi_ops_rma prov_rma_ops;
extern struct fi_ops_atomic prov_atomic_ops;
int prov_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                      struct fi_atomic_attr *attr, uint64_t flags);
/* A record for a one-sided call; its parts count the accesses as they begin.  NULL: no
 * memory. */
struct prov_op *prov_access_op(struct prov_ep *ep, enum prov_op_kind kind, void *context,
                               bool quiet, uint64_t flags);
/* Called after the last access of op began, or with the error that prevented the next.  Returns
 * the result of the call. */
ssize_t prov_access_begun(struct prov_ep *ep, struct prov_op *op, int err);
/* Handles the completion of an access (MBX_ACCESS). */
prov_finish_fn prov_access_finish;

#endif
