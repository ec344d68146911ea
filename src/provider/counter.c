/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.c - counters: how many operations ended, without their completions.
 *
 *   endpoint   every operation of ours that ends adds 1 to the counter bound for its kind,
 *              to the value or, if it failed, to the errors; what has a completion is
 *              counted when that is read or set aside, whether or not it is reported
 *   region     every access that a peer made adds 1 (mr.c)
 *
 * Who only looks at a counter never reads a queue.  So looking makes progress in the
 * endpoints that are bound, and what completes there is counted and set aside in their
 * queues (prov_cq_collect), or forgotten where there is no queue.
 *
 * Locks      a counter's own, before those of queues and endpoints, guards the list of
 *            endpoints; the two numbers are atomic, and changed under any lock.
 */
#include "provider/provider.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define LOOKS_AWAKE 2000  /* in vain, before a wait naps between two of them */
#define NAP_NS      50000 /* between looks; nobody wakes us */
#define NS_PER_MS   1000000
#define NS_PER_S    1000000000

static struct prov_cntr *cntr_of(struct fid_cntr *fid)
{
    return container_of(fid, struct prov_cntr, fid);
}

/* ---- endpoints ------------------------------------------------------------------------ */

static const struct {
    uint64_t flag;
    enum prov_count count;
} kinds[] = {
    {FI_SEND, PROV_COUNT_SEND},
    {FI_RECV, PROV_COUNT_RECV},
    {FI_READ, PROV_COUNT_READ},
    {FI_WRITE, PROV_COUNT_WRITE},
    {FI_REMOTE_READ, PROV_COUNT_REMOTE_READ},
    {FI_REMOTE_WRITE, PROV_COUNT_REMOTE_WRITE},
};

/* Makes room in the list: bindings below cannot fail behind it. */
static int cntr_add_ep(struct prov_cntr *cntr, struct prov_ep *ep)
{
    struct prov_ep **eps;
    int err = 0;

    pthread_mutex_lock(&cntr->lock);
    for (unsigned i = 0; i < cntr->ep_count; i++)
        if (cntr->eps[i] == ep)
            goto unlock;
    eps = realloc(cntr->eps, (cntr->ep_count + 1) * sizeof(struct prov_ep *));
    if (eps == NULL) {
        err = -FI_ENOMEM;
        goto unlock;
    }
    eps[cntr->ep_count++] = ep;
    cntr->eps = eps;
unlock:
    pthread_mutex_unlock(&cntr->lock);
    return err;
}

int prov_cntr_bind(struct prov_cntr *cntr, struct prov_ep *ep, uint64_t flags)
{
    uint64_t known = 0;
    int err;

    if (cntr->domain != ep->domain)
        return -FI_EDOMAIN;
    for (size_t i = 0; i < count_of(kinds); i++) {
        known |= kinds[i].flag;
        if ((flags & kinds[i].flag) && ep->cntrs[kinds[i].count] != NULL)
            return -FI_EINVAL;
    }
    if (flags == 0 || (flags & ~known))
        return -FI_EBADFLAGS;
    err = cntr_add_ep(cntr, ep);
    if (err < 0)
        return err;
    for (size_t i = 0; i < count_of(kinds); i++) {
        if (!(flags & kinds[i].flag))
            continue;
        ep->cntrs[kinds[i].count] = cntr;
        atomic_fetch_add(&cntr->users, 1);
    }
    ep->counts = true;
    return 0;
}

/* Nobody can find ep in cntr's list any more, which was the last use of it there. */
static void cntr_remove_ep(struct prov_cntr *cntr, struct prov_ep *ep)
{
    pthread_mutex_lock(&cntr->lock);
    for (unsigned i = 0; i < cntr->ep_count; i++)
        if (cntr->eps[i] == ep)
            cntr->eps[i--] = cntr->eps[--cntr->ep_count];
    pthread_mutex_unlock(&cntr->lock);
}

void prov_cntr_unbind(struct prov_ep *ep)
{
    for (unsigned i = 0; i < PROV_COUNTS; i++) {
        if (ep->cntrs[i] == NULL)
            continue;
        cntr_remove_ep(ep->cntrs[i], ep);
        atomic_fetch_sub(&ep->cntrs[i]->users, 1);
        ep->cntrs[i] = NULL;
    }
    ep->counts = false;
}

/* ---- regions --------------------------------------------------------------------------- */

int prov_cntr_add_mr(struct prov_cntr *cntr, struct prov_mr *mr)
{
    struct prov_mr **mrs;
    int err = 0;

    pthread_mutex_lock(&cntr->lock);
    for (unsigned i = 0; i < cntr->mr_count; i++)
        if (cntr->mrs[i] == mr)
            goto unlock;
    mrs = realloc(cntr->mrs, (cntr->mr_count + 1) * sizeof(struct prov_mr *));
    if (mrs == NULL) {
        err = -FI_ENOMEM;
        goto unlock;
    }
    mrs[cntr->mr_count++] = mr;
    cntr->mrs = mrs;
    atomic_fetch_add(&cntr->users, 1);
unlock:
    pthread_mutex_unlock(&cntr->lock);
    return err;
}

void prov_cntr_remove_mr(struct prov_cntr *cntr, struct prov_mr *mr)
{
    pthread_mutex_lock(&cntr->lock);
    for (unsigned i = 0; i < cntr->mr_count; i++)
        if (cntr->mrs[i] == mr)
            cntr->mrs[i--] = cntr->mrs[--cntr->mr_count];
    pthread_mutex_unlock(&cntr->lock);
    atomic_fetch_sub(&cntr->users, 1);
}

/* ---- progress -------------------------------------------------------------------------- */

/* What peers did through ep. */
static void ep_count_served(struct prov_ep *ep)
{
    struct prov_cntr *reads = ep->cntrs[PROV_COUNT_REMOTE_READ];
    struct prov_cntr *writes = ep->cntrs[PROV_COUNT_REMOTE_WRITE];
    struct mbx_served served;

    if (reads == NULL && writes == NULL)
        return;
    prov_ep_lock(ep);
    mbx_served_get(ep->mbx, &served);
    if (reads != NULL)
        atomic_fetch_add(&reads->value, served.reads - ep->served.reads);
    if (writes != NULL)
        atomic_fetch_add(&writes->value, served.writes - ep->served.writes);
    ep->served = served;
    prov_ep_unlock(ep);
}

/* What completes in ep becomes known to its counters. */
static void ep_collect(struct prov_ep *ep)
{
    if (ep->send_cq != NULL)
        prov_cq_collect(ep->send_cq);
    if (ep->recv_cq != NULL && ep->recv_cq != ep->send_cq)
        prov_cq_collect(ep->recv_cq);
    if (ep->send_cq == NULL || ep->recv_cq == NULL)
        prov_ep_forget(ep);
    ep_count_served(ep);
}

/* A region may be accessed through any endpoint. */
static void mrs_collect(struct prov_cntr *cntr)
{
    pthread_mutex_lock(&cntr->domain->lock);
    for (struct prov_ep *ep = cntr->domain->eps; ep != NULL; ep = ep->domain_next)
        ep_collect(ep);
    pthread_mutex_unlock(&cntr->domain->lock);
    for (unsigned i = 0; i < cntr->mr_count; i++)
        prov_mr_count(cntr->mrs[i]);
}

static void cntr_progress(struct prov_cntr *cntr)
{
    pthread_mutex_lock(&cntr->lock);
    for (unsigned i = 0; i < cntr->ep_count; i++)
        ep_collect(cntr->eps[i]);
    if (cntr->mr_count != 0)
        mrs_collect(cntr);
    pthread_mutex_unlock(&cntr->lock);
}

/* ---- calls ------------------------------------------------------------------------------- */

static uint64_t cntr_read(struct fid_cntr *fid)
{
    struct prov_cntr *cntr = cntr_of(fid);

    cntr_progress(cntr);
    return atomic_load(&cntr->value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    struct prov_cntr *cntr = cntr_of(fid);

    cntr_progress(cntr);
    return atomic_load(&cntr->errors);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
    atomic_fetch_add(&cntr_of(fid)->value, value);
    return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    atomic_fetch_add(&cntr_of(fid)->errors, value);
    return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    atomic_store(&cntr_of(fid)->value, value);
    return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    atomic_store(&cntr_of(fid)->errors, value);
    return 0;
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Until the next look. */
static void rest(unsigned looks)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    if (looks < LOOKS_AWAKE)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
    struct prov_cntr *cntr = cntr_of(fid);
    uint64_t errors = atomic_load(&cntr->errors);
    int64_t end = timeout < 0 ? INT64_MAX : now_ns() + (int64_t)timeout * NS_PER_MS;

    if (!cntr->waits)
        return -FI_EINVAL;
    for (unsigned looks = 0;; looks++) {
        if (cntr_read(fid) >= threshold)
            return 0;
        if (atomic_load(&cntr->errors) != errors)
            return -FI_EAVAIL;
        if (timeout >= 0 && now_ns() >= end)
            return -FI_ETIMEDOUT;
        rest(looks);
    }
}

static struct fi_ops_cntr cntr_ops = {
    .size = sizeof(struct fi_ops_cntr),
    .read = cntr_read,
    .readerr = cntr_readerr,
    .add = cntr_add,
    .set = cntr_set,
    .wait = cntr_wait,
    .adderr = cntr_adderr,
    .seterr = cntr_seterr,
};

/* ---- open and close ------------------------------------------------------------------------
 */

static int cntr_close(struct fid *fid)
{
    struct prov_cntr *cntr = container_of(fid, struct prov_cntr, fid.fid);

    if (atomic_load(&cntr->users) != 0)
        return -FI_EBUSY;
    atomic_fetch_sub(&cntr->domain->users, 1);
    pthread_mutex_destroy(&cntr->lock);
    free(cntr->eps);
    free(cntr->mrs);
    free(cntr);
    return 0;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
    struct prov_cntr *cntr = container_of(fid, struct prov_cntr, fid.fid);

    if (command != FI_GETWAITOBJ)
        return -FI_ENOSYS;
    *(enum fi_wait_obj *)arg = cntr->waits ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
    return 0;
}

static struct fi_ops cntr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = cntr_close,
    .bind = prov_no_bind,
    .control = cntr_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

static int cntr_attr_check(const struct fi_cntr_attr *attr)
{
    if (attr->events != FI_CNTR_EVENTS_COMP)
        return -FI_EINVAL;
    if (attr->flags != 0)
        return -FI_EBADFLAGS;
    switch (attr->wait_obj) {
    case FI_WAIT_NONE:
    case FI_WAIT_UNSPEC:
    case FI_WAIT_YIELD:
        return 0;
    case FI_WAIT_SET: /* nothing could wake them: only a look makes progress */
    case FI_WAIT_FD:
    case FI_WAIT_MUTEX_COND:
    case FI_WAIT_POLLFD:
        break;
    }
    return -FI_ENOSYS;
}

int prov_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **fid,
                   void *context)
{
    static const struct fi_cntr_attr none;
    struct prov_cntr *cntr;
    int err;

    if (attr == NULL)
        attr = (struct fi_cntr_attr *)(uintptr_t)&none;
    err = cntr_attr_check(attr);
    if (err < 0)
        return err;
    cntr = calloc(1, sizeof *cntr);
    if (cntr == NULL)
        return -FI_ENOMEM;
    cntr->fid.fid.fclass = FI_CLASS_CNTR;
    cntr->fid.fid.context = context;
    cntr->fid.fid.ops = &cntr_fid_ops;
    cntr->fid.ops = &cntr_ops;
    cntr->domain = container_of(domain, struct prov_domain, fid);
    cntr->waits = attr->wait_obj != FI_WAIT_NONE;
    pthread_mutex_init(&cntr->lock, NULL);
    atomic_init(&cntr->users, 0);
    atomic_init(&cntr->value, 0);
    atomic_init(&cntr->errors, 0);
    atomic_fetch_add(&cntr->domain->users, 1);
    *fid = &cntr->fid;
    return 0;
}
