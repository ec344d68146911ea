/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mr.h - memory regions, which peers may access: mr.c.
 */
#ifndef PROVIDER_MR_H
#define PROVIDER_MR_H

#include "provider/compat.h"

struct prov_cntr;
struct prov_domain;
struct prov_ep;

/* Constant, or guarded by the domain's lock. */
struct prov_mr {
    struct fid_mr fid;
    struct prov_mr *next;
    struct prov_domain *domain;
    struct prov_ep *ep; /* the only endpoint, or NULL: all */
    bool enabled;       /* registered with its endpoints */
    struct mbx_region region;
    struct prov_cntr *reads, *writes; /* or NULL */
    struct mbx_served past;           /* accesses through endpoints that are closed */
    struct mbx_served seen;           /* accesses that are already counted */
};

extern struct fi_ops_mr prov_mr_ops;
/* The regions of ep's domain are registered with ep; or no longer. */
int prov_mr_join(struct prov_ep *ep);
void prov_mr_leave(struct prov_ep *ep);

#endif
