/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mr.c - memory regions: memory that peers may read, write and update.
 *
 * libfabric registers with a domain, Matchbox with an endpoint.  So the domain keeps both lists,
 * and a region is registered with all its endpoints, including endpoints that open
 * later.  If the client requested FI_MR_ENDPOINT, it is registered with the endpoint that it was
 * bound to; when that endpoint closes, the region is unbound, and may be bound and enabled again.
 *
 *   mr_mode        a region's first byte is            its key is
 *   0 (scalable)   0                                   the client's
 *   VIRT_ADDR      its address                         the client's
 *   PROV_KEY       (as VIRT_ADDR says)                 ours: they count up
 *
 * A region may be bound to counters: Matchbox counts the accesses, and they are added when
 * somebody reads the counter (mr_count).
 *
 * Locks      the domain's lock guards both lists and all regions; it comes after a counter's lock,
 *            and before the locks of queues and endpoints.
 */
#include "provider/counter.h"
#include "provider/ep.h"
#include "provider/fabric.h"
#include "provider/mr.h"
#include "provider/unsupported.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>

#define REMOTE_ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define LOCAL_ACCESS  (FI_SEND | FI_RECV | FI_READ | FI_WRITE)

static struct prov_mr *mr_of(struct fid *fid)
{
    return container_of(fid, struct prov_mr, fid.fid);
}

/* ---- with an endpoint ----------------------------------------------------------------- */

static bool is_for(const struct prov_mr *mr, const struct prov_ep *ep)
{
    return mr->enabled && (mr->ep == NULL || mr->ep == ep);
}

static int mr_add(struct prov_mr *mr, struct prov_ep *ep)
{
    int err;

    prov_ep_lock(ep);
    err = mbx_register(ep->mbx, mr->fid.key, &mr->region);
    prov_ep_unlock(ep);
    return err == -EEXIST ? -FI_ENOKEY : err;
}

static void served_add(struct mbx_served *sum, const struct mbx_served *more)
{
    sum->reads += more->reads;
    sum->writes += more->writes;
    sum->both += more->both;
}

/* Deregisters a region, and keeps its count of accesses through ep. */
static void mr_remove(struct prov_mr *mr, struct prov_ep *ep)
{
    struct mbx_served served = {0};

    prov_ep_lock(ep);
    mbx_deregister_served(ep->mbx, mr->fid.key, &served, sizeof served);
    prov_ep_unlock(ep);
    served_add(&mr->past, &served);
}

/* Unbinds a region whose endpoint closes.  The next endpoint may get the same address in
 * memory. */
static void mr_unbind(struct prov_mr *mr)
{
    mr->ep = NULL;
    mr->enabled = false;
}

int prov_mr_join(struct prov_ep *ep)
{
    struct prov_domain *domain = ep->domain;
    int err = 0;

    pthread_mutex_lock(&domain->lock);
    for (struct prov_mr *mr = domain->mrs.first; mr != NULL && err == 0; mr = mr->next)
        if (is_for(mr, ep))
            err = mr_add(mr, ep);
    if (err == 0) {
        ep->domain_next = domain->mrs.eps;
        domain->mrs.eps = ep;
    }
    pthread_mutex_unlock(&domain->lock);
    prov_cntr_ring_regions(domain); /* waiters for accesses do not know of ep */
    return err;
}

void prov_mr_leave(struct prov_ep *ep)
{
    struct prov_domain *domain = ep->domain;
    struct prov_ep **at = &domain->mrs.eps;

    pthread_mutex_lock(&domain->lock);
    while (*at != NULL && *at != ep)
        at = &(*at)->domain_next;
    if (*at != NULL) {
        *at = ep->domain_next;
        for (struct prov_mr *mr = domain->mrs.first; mr != NULL; mr = mr->next)
            if (is_for(mr, ep))
                mr_remove(mr, ep);
    }
    for (struct prov_mr *mr = domain->mrs.first; mr != NULL; mr = mr->next)
        if (mr->ep == ep)
            mr_unbind(mr);
    pthread_mutex_unlock(&domain->lock);
}

/* ---- with all --------------------------------------------------------------------------- */

static int mr_enable(struct prov_mr *mr)
{
    struct prov_ep *ep, *failed = NULL;
    int err = 0;

    mr->enabled = true;
    for (ep = mr->domain->mrs.eps; ep != NULL && err == 0; ep = ep->domain_next) {
        if (is_for(mr, ep))
            err = mr_add(mr, ep);
        failed = err < 0 ? ep : NULL;
    }
    if (err == 0)
        return 0;
    for (ep = mr->domain->mrs.eps; ep != failed; ep = ep->domain_next)
        if (is_for(mr, ep))
            mr_remove(mr, ep);
    mr->enabled = false;
    return err;
}

static void mr_disable(struct prov_mr *mr)
{
    for (struct prov_ep *ep = mr->domain->mrs.eps; ep != NULL; ep = ep->domain_next)
        if (is_for(mr, ep))
            mr_remove(mr, ep);
    mr->enabled = false;
}

static bool key_is_free(const struct prov_domain *domain, uint64_t key)
{
    for (const struct prov_mr *mr = domain->mrs.first; mr != NULL; mr = mr->next)
        if (mr->fid.key == key)
            return false;
    return true;
}

/* ---- counters ------------------------------------------------------------------------------
 */

static void count_more(struct prov_cntr *cntr, uint64_t count)
{
    if (cntr != NULL && count != 0)
        prov_cntr_count(cntr, 0, count);
}

/* An atomic that modifies counts as a write (fi_mr(3)); if it also returns a result, it is a
 * read too.  A counter for both counts it once. */
static void served_count(struct prov_mr *mr, const struct mbx_served *now)
{
    uint64_t reads = now->reads - mr->seen.reads, both = now->both - mr->seen.both;

    count_more(mr->reads, mr->reads == mr->writes ? reads - both : reads);
    count_more(mr->writes, now->writes - mr->seen.writes);
    mr->seen = *now;
}

static void mr_count(struct prov_mr *mr)
{
    struct mbx_served sum, one;

    pthread_mutex_lock(&mr->domain->lock);
    sum = mr->past;
    for (struct prov_ep *ep = mr->domain->mrs.eps; ep != NULL; ep = ep->domain_next) {
        prov_ep_lock(ep);
        if (is_for(mr, ep) && mbx_region_served(ep->mbx, mr->fid.key, &one, sizeof one) == 0)
            served_add(&sum, &one);
        prov_ep_unlock(ep);
    }
    served_count(mr, &sum);
    pthread_mutex_unlock(&mr->domain->lock);
}

static int mr_bind_cntr(struct prov_mr *mr, struct prov_cntr *cntr, uint64_t flags)
{
    int err;

    if (cntr->domain != mr->domain)
        return -FI_EDOMAIN;
    if (flags == 0 || (flags & ~REMOTE_ACCESS))
        return -FI_EBADFLAGS;
    if ((flags & FI_REMOTE_READ && mr->reads != NULL) ||
        (flags & FI_REMOTE_WRITE && mr->writes != NULL))
        return -FI_EINVAL;
    mr_count(mr); /* earlier accesses are not counted */
    err = prov_cntr_add_mr(cntr, mr, mr_count);
    if (err < 0)
        return err;
    if (flags & FI_REMOTE_READ)
        mr->reads = cntr;
    if (flags & FI_REMOTE_WRITE)
        mr->writes = cntr;
    return 0;
}

/* ---- the object ----------------------------------------------------------------------------
 */

static int mr_bind_ep(struct prov_mr *mr, struct prov_ep *ep)
{
    int err = 0;

    if (ep->domain != mr->domain)
        return -FI_EDOMAIN;
    pthread_mutex_lock(&mr->domain->lock);
    if (mr->enabled)
        err = -FI_EOPBADSTATE;
    else
        mr->ep = ep;
    pthread_mutex_unlock(&mr->domain->lock);
    return err;
}

static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct prov_mr *mr = mr_of(fid);

    switch (bfid->fclass) {
    case FI_CLASS_EP:
        return mr_bind_ep(mr, container_of(bfid, struct prov_ep, fid.fid));
    case FI_CLASS_CNTR:
        return mr_bind_cntr(mr, container_of(bfid, struct prov_cntr, fid.fid), flags);
    default:
        return -FI_EINVAL;
    }
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    struct prov_mr *mr = mr_of(fid);
    int err = 0;

    (void)arg;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    pthread_mutex_lock(&mr->domain->lock);
    if (!mr->enabled)
        err = mr->ep == NULL && mr->domain->mr_endpoint ? -FI_EOPBADSTATE : mr_enable(mr);
    pthread_mutex_unlock(&mr->domain->lock);
    return err;
}

static int mr_close(struct fid *fid)
{
    struct prov_mr *mr = mr_of(fid), **at;
    struct prov_domain *domain = mr->domain;

    pthread_mutex_lock(&domain->lock);
    if (mr->enabled)
        mr_disable(mr);
    pthread_mutex_unlock(&domain->lock);
    mr_count(mr);
    if (mr->reads != NULL)
        prov_cntr_remove_mr(mr->reads, mr);
    if (mr->writes != NULL && mr->writes != mr->reads)
        prov_cntr_remove_mr(mr->writes, mr);
    pthread_mutex_lock(&domain->lock);
    for (at = &domain->mrs.first; *at != mr;)
        at = &(*at)->next;
    *at = mr->next;
    pthread_mutex_unlock(&domain->lock);
    atomic_fetch_sub(&domain->users, 1);
    free(mr);
    return 0;
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = mr_close,
    .bind = mr_bind,
    .control = mr_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

/* The caller holds the domain's lock. */
static int mr_insert(struct prov_domain *domain, struct prov_mr *mr, uint64_t key)
{
    int err;

    if (domain->mr_prov_key)
        while (!key_is_free(domain, key = domain->mrs.next_key++))
            continue;
    if (!key_is_free(domain, key))
        return -FI_ENOKEY;
    mr->fid.key = key;
    if (!domain->mr_endpoint && (err = mr_enable(mr)) < 0)
        return err;
    mr->next = domain->mrs.first;
    domain->mrs.first = mr;
    return 0;
}

static unsigned rights_of(uint64_t access)
{
    return (access & FI_REMOTE_READ ? MBX_REMOTE_READ : 0) |
           (access & FI_REMOTE_WRITE ? MBX_REMOTE_WRITE : 0);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **out)
{
    struct prov_domain *domain = container_of(fid, struct prov_domain, fid.fid);
    const struct iovec *iov = attr->mr_iov;
    struct prov_mr *mr;
    int err;

    if (flags & ~FI_RMA_EVENT)
        return -FI_EBADFLAGS;
    if (attr->iov_count != 1 || attr->offset != 0 ||
        (attr->access & ~(REMOTE_ACCESS | LOCAL_ACCESS)))
        return -FI_EINVAL;
    mr = calloc(1, sizeof *mr);
    if (mr == NULL)
        return -FI_ENOMEM;
    mr->fid.fid.fclass = FI_CLASS_MR;
    mr->fid.fid.context = attr->context;
    mr->fid.fid.ops = &mr_fid_ops;
    mr->fid.mem_desc = mr;
    mr->domain = domain;
    mr->region = (struct mbx_region){
        .buf = iov->iov_base,
        .size = iov->iov_len,
        .address = domain->mr_virtual ? (uintptr_t)iov->iov_base : 0,
        .rights = rights_of(attr->access),
    };
    pthread_mutex_lock(&domain->lock);
    err = mr_insert(domain, mr, attr->requested_key);
    pthread_mutex_unlock(&domain->lock);
    if (err < 0) {
        free(mr);
        return err;
    }
    atomic_fetch_add(&domain->users, 1);
    *out = &mr->fid;
    return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                   uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
                   void *context)
{
    const struct fi_mr_attr attr = {
        .mr_iov = iov,
        .iov_count = count,
        .access = access,
        .offset = offset,
        .requested_key = key,
        .context = context,
    };

    return mr_regattr(fid, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
                  uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
                  void *context)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return mr_regv(fid, &iov, 1, access, offset, key, flags, mr, context);
}

struct fi_ops_mr prov_mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = mr_regattr,
};
