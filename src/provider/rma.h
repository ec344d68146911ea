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
/* A record for a one-sided call; its accesses are counted in parts as they begin.  NULL: no
 * memory. */
struct prov_op *prov_access_op(struct prov_ep *ep, enum prov_op_kind kind, void *context,
                               bool quiet, uint64_t flags);
/* All accesses of op have begun, or err says why the next has not.  What the call returns. */
ssize_t prov_access_begun(struct prov_ep *ep, struct prov_op *op, int err);
/* An access of the call has completed (MBX_ACCESS). */
prov_finish_fn prov_access_finish;

#endif
