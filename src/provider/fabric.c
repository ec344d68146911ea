/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c - fabric and domain: the objects that hold the others together.
 *
 * Opening them only allocates memory; fi_endpoint() opens the Matchbox endpoint.
 */
#include "provider/av.h"
#include "provider/counter.h"
#include "provider/cq.h"
#include "provider/ep.h"
#include "provider/eq.h"
#include "provider/fabric.h"
#include "provider/mr.h"
#include "provider/rma.h"
#include "provider/sets.h"
#include "provider/unsupported.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- domain ------------------------------------------------------------------- */

static int domain_close(struct fid *fid)
{
    struct prov_domain *domain = container_of(fid, struct prov_domain, fid.fid);

    if (atomic_load(&domain->users) != 0)
        return -FI_EBUSY;
    atomic_fetch_sub(&domain->fabric->users, 1);
    pthread_mutex_destroy(&domain->bell.lock);
    pthread_mutex_destroy(&domain->lock);
    free(domain);
    return 0;
}

static struct fi_ops domain_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = domain_close,
    .bind = prov_no_bind, /* registration is synchronous, so there is no event queue */
    .control = prov_no_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

static int domain_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                            uint64_t flags, void *context)
{
    return flags == 0 ? prov_ep_open(domain, info, ep, context) : -FI_EBADFLAGS;
}

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = prov_av_open,
    .cq_open = prov_cq_open,
    .endpoint = prov_ep_open,
    .scalable_ep = prov_no_scalable_ep,
    .cntr_open = prov_cntr_open,
    .poll_open = prov_poll_open,
    .stx_ctx = prov_no_stx_ctx,
    .srx_ctx = prov_no_srx_ctx,
    .query_atomic = prov_query_atomic,
    .query_collective = prov_no_query_collective,
    .endpoint2 = domain_endpoint2,
};

static void domain_mr_mode(struct prov_domain *domain, int mode)
{
    if (mode == FI_MR_BASIC)
        mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    domain->mr_virtual = mode & FI_MR_VIRT_ADDR;
    domain->mr_prov_key = mode & FI_MR_PROV_KEY;
    domain->mr_endpoint = mode & FI_MR_ENDPOINT;
    domain->mrs.next_key = 1;
}

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **fid,
                       void *context)
{
    struct prov_domain *domain;

    if (info == NULL || info->domain_attr == NULL)
        return -FI_EINVAL;
    domain = calloc(1, sizeof *domain);
    if (domain == NULL)
        return -FI_ENOMEM;
    domain->fid.fid.fclass = FI_CLASS_DOMAIN;
    domain->fid.fid.context = context;
    domain->fid.fid.ops = &domain_fid_ops;
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &prov_mr_ops;
    domain->fabric = container_of(fabric, struct prov_fabric, fid);
    domain->threading = info->domain_attr->threading;
    domain->av_type = info->domain_attr->av_type;
    domain->addr_format = info->addr_format;
    domain->auto_progress = info->domain_attr->data_progress == FI_PROGRESS_AUTO;
    domain_mr_mode(domain, info->domain_attr->mr_mode);
    pthread_mutex_init(&domain->lock, NULL);
    pthread_mutex_init(&domain->bell.lock, NULL);
    atomic_init(&domain->bell.armed, false);
    atomic_init(&domain->users, 0);
    atomic_fetch_add(&domain->fabric->users, 1);
    *fid = &domain->fid;
    return 0;
}

static int domain_open2(struct fid_fabric *fabric, struct fi_info *info,
                        struct fid_domain **fid, uint64_t flags, void *context)
{
    return flags == 0 ? domain_open(fabric, info, fid, context) : -FI_EBADFLAGS;
}

/* ---- fabric ------------------------------------------------------------------- */

static int fabric_close(struct fid *fid)
{
    struct prov_fabric *fabric = container_of(fid, struct prov_fabric, fid.fid);

    if (atomic_load(&fabric->users) != 0)
        return -FI_EBUSY;
    free(fabric);
    return 0;
}

static struct fi_ops fabric_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = fabric_close,
    .bind = prov_no_bind,
    .control = prov_no_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = domain_open,
    .passive_ep = prov_no_passive_ep,
    .eq_open = prov_eq_open,
    .wait_open = prov_wait_open,
    .trywait = prov_trywait,
    .domain2 = domain_open2,
};

int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fid, void *context)
{
    struct prov_fabric *fabric;

    if (attr->name != NULL && strcmp(attr->name, PROV_NAME) != 0)
        return -FI_ENODATA;
    fabric = calloc(1, sizeof *fabric);
    if (fabric == NULL)
        return -FI_ENOMEM;
    fabric->fid.fid.fclass = FI_CLASS_FABRIC;
    fabric->fid.fid.context = context;
    fabric->fid.fid.ops = &fabric_fid_ops;
    fabric->fid.ops = &fabric_ops;
    atomic_init(&fabric->users, 0);
    *fid = &fabric->fid;
    return 0;
}
