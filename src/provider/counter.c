/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.c - counters: the number of operations that ended, without their completions.
 *
 *   endpoint   every operation of ours that ends adds 1 to the counter bound for its kind: to the
 *              value or, if it failed, to the errors.  An operation with a completion is counted
 *              when that is read or set aside, whether or not it is reported
 *   region     every access of a peer adds 1 (mr.c)
 *
 * A client that only reads a counter never reads a queue.  So reading makes progress in the
 * bound endpoints.  Completions there are counted and set aside in the endpoints' queues
 * (prov_cq_collect), or dropped where there is no queue.
 *
 * Reading    a counter that has not changed since the last read counts as an empty poll: many in
 *            a row yield the core (idle.c).
 * Waiting    as for a queue (wait.c): arm, read once more, sleep until rung.  Every change rings
 *            the counter, and so do the endpoints' threads when something completes or is accessed
 *            there (thread.c).  The counter of a region depends on all endpoints of the domain, so
 *            the domain has a bell for these counters: their list.
 *
 * Locks      a counter's own lock precedes the locks of queues and endpoints, and guards the
 *            lists of endpoints and regions.  The numbers are atomic, and changed under any lock.
 *            The domain's bell guards its list, and is the last lock in the order.
 */
#include "base/sys.h"
#include "provider/counter.h"
#include "provider/cq.h"
#include "provider/ep.h"
#include "provider/fabric.h"
#include "provider/param.h"
#include "provider/thread.h"
#include "provider/unsupported.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

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

/* Adds ep to the list first, so that nothing after it in the binding can fail. */
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

static void rung(void *who)
{
    prov_wait_ring(&((struct prov_cntr *)who)->wait);
}

/* Rings for any completion: one of a kind that the counter does not count is a spurious
 * ring. */
static void listen_to(struct prov_cntr *cntr, struct prov_ep *ep)
{
    prov_thread_listen(
        ep, &(struct prov_listener){.armed = &cntr->armed,
                                    .queues = ep->cqs.send_queues | ep->cqs.recv_queues,
                                    .hears_accesses = true,
                                    .ring = rung,
                                    .who = cntr});
}

int prov_cntr_bind(struct prov_cntr *cntr, struct prov_ep *ep, uint64_t flags)
{
    uint64_t known = 0;
    int err;

    if (cntr->domain != ep->domain)
        return -FI_EDOMAIN;
    for (size_t i = 0; i < count_of(kinds); i++) {
        known |= kinds[i].flag;
        if ((flags & kinds[i].flag) && ep->cntrs.of[kinds[i].count] != NULL)
            return -FI_EINVAL;
    }
    if (flags == 0 || (flags & ~known))
        return -FI_EBADFLAGS;
    err = cntr_add_ep(cntr, ep);
    if (err < 0)
        return err;
    prov_ep_lock(ep);
    for (size_t i = 0; i < count_of(kinds); i++) {
        if (!(flags & kinds[i].flag))
            continue;
        ep->cntrs.of[kinds[i].count] = cntr;
        atomic_fetch_add(&cntr->users, 1);
    }
    ep->cntrs.counts = true;
    listen_to(cntr, ep);
    prov_ep_unlock(ep);
    prov_cntr_ring(cntr); /* waiters do not know of ep */
    return 0;
}

/* On return no thread uses ep through the list of cntr. */
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
        struct prov_cntr *cntr = ep->cntrs.of[i];

        if (cntr == NULL)
            continue;
        cntr_remove_ep(cntr, ep);
        prov_ep_lock(ep); /* the endpoint's thread may be about to ring the counter */
        ep->cntrs.of[i] = NULL;
        prov_thread_unlisten(ep, cntr);
        prov_ep_unlock(ep);
        atomic_fetch_sub(&cntr->users, 1);
    }
}

/* ---- regions --------------------------------------------------------------------------- */

static void bell_join(struct prov_cntr *cntr)
{
    pthread_mutex_lock(&cntr->domain->bell.lock);
    cntr->bell_next = cntr->domain->bell.cntrs;
    cntr->domain->bell.cntrs = cntr;
    pthread_mutex_unlock(&cntr->domain->bell.lock);
}

static void bell_leave(struct prov_cntr *cntr)
{
    struct prov_cntr **at = &cntr->domain->bell.cntrs;

    pthread_mutex_lock(&cntr->domain->bell.lock);
    while (*at != cntr)
        at = &(*at)->bell_next;
    *at = cntr->bell_next;
    pthread_mutex_unlock(&cntr->domain->bell.lock);
}

int prov_cntr_add_mr(struct prov_cntr *cntr, struct prov_mr *mr,
                     void (*count)(struct prov_mr *mr))
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
    cntr->count_mr = count;
    atomic_fetch_add(&cntr->users, 1);
    if (cntr->mr_count == 1)
        bell_join(cntr);
unlock:
    pthread_mutex_unlock(&cntr->lock);
    prov_cntr_ring(cntr); /* waiters do not know of mr */
    return err;
}

void prov_cntr_remove_mr(struct prov_cntr *cntr, struct prov_mr *mr)
{
    pthread_mutex_lock(&cntr->lock);
    for (unsigned i = 0; i < cntr->mr_count; i++)
        if (cntr->mrs[i] == mr)
            cntr->mrs[i--] = cntr->mrs[--cntr->mr_count];
    if (cntr->mr_count == 0)
        bell_leave(cntr);
    pthread_mutex_unlock(&cntr->lock);
    atomic_fetch_sub(&cntr->users, 1);
}

static void regions_rung(void *who)
{
    struct prov_domain *domain = who;

    pthread_mutex_lock(&domain->bell.lock);
    for (struct prov_cntr *c = domain->bell.cntrs; c != NULL; c = c->bell_next)
        prov_cntr_ring(c);
    pthread_mutex_unlock(&domain->bell.lock);
}

void prov_cntr_ring_regions(struct prov_domain *domain)
{
    if (atomic_load(&domain->bell.armed) && atomic_exchange(&domain->bell.armed, false))
        regions_rung(domain);
}

void prov_cntr_listen_regions(struct prov_ep *ep)
{
    prov_thread_listen(ep, &(struct prov_listener){.armed = &ep->domain->bell.armed,
                                                   .hears_accesses = true,
                                                   .ring = regions_rung,
                                                   .who = ep->domain});
}

/* ---- progress -------------------------------------------------------------------------- */

/* Counts the accesses of peers through ep.  At an endpoint, an access that returns a result
 * counts as a read and not as a write (fi_endpoint(3)); a client may wait for an exact number
 * of writes.  At a region it counts as both (mr.c). */
static void ep_count_served(struct prov_ep *ep)
{
    struct prov_cntr *reads = ep->cntrs.of[PROV_COUNT_REMOTE_READ];
    struct prov_cntr *writes = ep->cntrs.of[PROV_COUNT_REMOTE_WRITE];
    struct mbx_served served;

    if (reads == NULL && writes == NULL)
        return;
    prov_ep_lock(ep);
    mbx_served_get(ep->mbx, &served, sizeof served);
    if (reads != NULL)
        prov_cntr_count(reads, 0, served.reads - ep->cntrs.served.reads);
    if (writes != NULL)
        prov_cntr_count(writes, 0,
                        served.writes - served.both -
                            (ep->cntrs.served.writes - ep->cntrs.served.both));
    ep->cntrs.served = served;
    prov_ep_unlock(ep);
}

/* Counts the completions of ep. */
static void ep_collect(struct prov_ep *ep)
{
    if (ep->cqs.send != NULL)
        prov_cq_collect(ep->cqs.send);
    if (ep->cqs.recv != NULL && ep->cqs.recv != ep->cqs.send)
        prov_cq_collect(ep->cqs.recv);
    if (ep->cqs.send == NULL || ep->cqs.recv == NULL)
        prov_ep_forget(ep);
    ep_count_served(ep);
}

/* Peers may access a region through any endpoint of the domain. */
static void mrs_collect(struct prov_cntr *cntr)
{
    pthread_mutex_lock(&cntr->domain->lock);
    for (struct prov_ep *ep = cntr->domain->mrs.eps; ep != NULL; ep = ep->domain_next)
        ep_collect(ep);
    pthread_mutex_unlock(&cntr->domain->lock);
    for (unsigned i = 0; i < cntr->mr_count; i++)
        cntr->count_mr(cntr->mrs[i]);
}

/* The caller holds the counter's lock. */
static void progress(struct prov_cntr *cntr)
{
    for (unsigned i = 0; i < cntr->ep_count; i++)
        ep_collect(cntr->eps[i]);
    if (cntr->mr_count != 0)
        mrs_collect(cntr);
}

static void cntr_progress(struct prov_cntr *cntr)
{
    pthread_mutex_lock(&cntr->lock);
    progress(cntr);
    pthread_mutex_unlock(&cntr->lock);
}

/* ---- calls ------------------------------------------------------------------------------- */

static uint64_t counter_read(struct prov_cntr *cntr, _Atomic uint64_t *number,
                             _Atomic uint64_t *seen)
{
    bool tires = false;
    uint64_t now;

    pthread_mutex_lock(&cntr->lock);
    progress(cntr);
    now = atomic_load(number);
    if (atomic_exchange(seen, now) == now)
        tires = door_idle_tires(&cntr->idle);
    else
        door_idle_ends(&cntr->idle);
    pthread_mutex_unlock(&cntr->lock);
    if (unlikely(tires))
        sys_yield();
    return now;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    struct prov_cntr *cntr = cntr_of(fid);

    return counter_read(cntr, &cntr->value, &cntr->seen_value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    struct prov_cntr *cntr = cntr_of(fid);

    return counter_read(cntr, &cntr->errors, &cntr->seen_errors);
}

uint64_t prov_cntr_total(struct prov_cntr *cntr)
{
    cntr_progress(cntr);
    return atomic_load(&cntr->value) + atomic_load(&cntr->errors);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
    prov_cntr_count(cntr_of(fid), 0, value);
    return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    prov_cntr_count(cntr_of(fid), FI_EOTHER, value);
    return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    atomic_store(&cntr_of(fid)->value, value);
    prov_cntr_ring(cntr_of(fid));
    return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    atomic_store(&cntr_of(fid)->errors, value);
    prov_cntr_ring(cntr_of(fid));
    return 0;
}

/* ---- waiting ------------------------------------------------------------------------------
 */

/* Endpoints have locks from the first wait on.  A client without threading makes no call now
 * that uses an object bound to this counter or, with FI_THREAD_DOMAIN, the domain. */
static int eps_arm(struct prov_cntr *cntr)
{
    int err = 0;

    for (unsigned i = 0; i < cntr->ep_count && err == 0; i++) {
        if (!cntr->eps[i]->locks)
            cntr->eps[i]->locks = true;
        err = prov_thread_arm(cntr->eps[i], &cntr->armed);
    }
    return err;
}

static int regions_arm(struct prov_cntr *cntr)
{
    struct prov_domain *domain = cntr->domain;
    int err = 0;

    atomic_store(&domain->bell.armed, true);
    pthread_mutex_lock(&domain->lock);
    for (struct prov_ep *ep = domain->mrs.eps; ep != NULL && err == 0; ep = ep->domain_next) {
        if (!ep->locks) /* with FI_THREAD_DOMAIN; otherwise it has them (prov_is_accessed) */
            ep->locks = true;
        err = prov_thread_arm(ep, &domain->bell.armed);
    }
    pthread_mutex_unlock(&domain->lock);
    return err;
}

int prov_cntr_arm(struct prov_cntr *cntr)
{
    int err;

    pthread_mutex_lock(&cntr->lock);
    atomic_store(&cntr->armed, true);
    err = eps_arm(cntr);
    if (err == 0 && cntr->mr_count != 0)
        err = regions_arm(cntr);
    pthread_mutex_unlock(&cntr->lock);
    return err < 0 ? -FI_EAGAIN : 0;
}

int prov_cntr_try(struct prov_cntr *cntr)
{
    uint64_t value, errors;
    int err;

    if (cntr->wait.object == FI_WAIT_NONE)
        return -FI_EINVAL;
    if (cntr->wait.object == FI_WAIT_YIELD) /* nothing to sleep on */
        return -FI_EAGAIN;
    prov_wait_lower(&cntr->wait);
    err = prov_cntr_arm(cntr);
    cntr_progress(cntr);
    value = atomic_load(&cntr->value);
    errors = atomic_load(&cntr->errors);
    if (atomic_exchange(&cntr->seen_value, value) != value)
        err = -FI_EAGAIN;
    if (atomic_exchange(&cntr->seen_errors, errors) != errors)
        err = -FI_EAGAIN;
    return err;
}

static int prov_counter_arm(void *arg)
{
    return prov_cntr_arm(arg);
}

/* A client that waits although it chose FI_WAIT_NONE polls, as with FI_WAIT_YIELD. */
static int cntr_await(struct prov_cntr *cntr, uint64_t threshold, int64_t deadline_ns)
{
    struct prov_waiter waiter = prov_waiter_begin(&cntr->wait, deadline_ns);
    uint64_t errors = atomic_load(&cntr->errors);
    int err;

    do {
        if (cntr_read(&cntr->fid) >= threshold)
            return 0;
        if (atomic_load(&cntr->errors) != errors)
            return -FI_EAVAIL;
        err = prov_waiter_wait(&waiter, prov_counter_arm, cntr);
    } while (err == 0);
    return err;
}

static void cntr_free(struct prov_cntr *cntr)
{
    pthread_mutex_destroy(&cntr->lock);
    free(cntr->eps);
    free(cntr->mrs);
    free(cntr);
}

static void cntr_leave(void *arg)
{
    struct prov_cntr *cntr = arg;

    if (prov_wait_leave(&cntr->wait))
        cntr_free(cntr);
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
    struct prov_cntr *cntr = cntr_of(fid);
    int err;

    if (cntr->wait.object == FI_WAIT_SET)
        return -FI_EINVAL;
    prov_wait_enter(&cntr->wait);
    pthread_cleanup_push(cntr_leave, cntr);
    err = cntr_await(cntr, threshold, prov_deadline(timeout));
    pthread_cleanup_pop(1);
    return err;
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
    if (prov_wait_close(&cntr->wait, fid))
        cntr_free(cntr);
    return 0;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
    struct prov_cntr *cntr = container_of(fid, struct prov_cntr, fid.fid);

    return prov_wait_control(&cntr->wait, command, arg);
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
    return attr->flags != 0 ? -FI_EBADFLAGS : 0;
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
    pthread_mutex_init(&cntr->lock, NULL);
    door_idle_init(&cntr->idle, prov_is_oversubscribed());
    err = prov_wait_init(&cntr->wait, attr->wait_obj, attr->wait_set, &cntr->fid.fid);
    if (err < 0) {
        pthread_mutex_destroy(&cntr->lock);
        free(cntr);
        return err;
    }
    atomic_fetch_add(&cntr->domain->users, 1);
    *fid = &cntr->fid;
    return 0;
}
