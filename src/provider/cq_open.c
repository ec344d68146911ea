/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq_open.c - open, bind and close a completion queue.  cq.c reads the queue and reports its
 * completions.
 */
#include "provider/cq.h"
#include "provider/ep.h"
#include "provider/event.h"
#include "provider/fabric.h"
#include "provider/param.h"
#include "provider/thread.h"
#include "provider/unsupported.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The queue of most clients has one endpoint, for which cq.c has a short path. */
static void sources_changed(struct prov_cq *cq)
{
    cq->turn = 0;
    cq->only = NULL;
    if (cq->source_count != 1 || cq->locks)
        return;
    cq->only = cq->sources[0].ep;
    cq->only_queues = cq->sources[0].queues;
}

static void rung(void *who)
{
    prov_wait_ring(&((struct prov_cq *)who)->wait);
}

static void ep_joins(struct prov_cq *cq, struct prov_ep *ep, unsigned queues)
{
    prov_ep_lock(ep);
    if (queues & MBX_SENDS)
        ep->cqs.send = cq;
    if (queues & MBX_RECVS)
        ep->cqs.recv = cq;
    prov_thread_listen(ep, &(struct prov_listener){
                               .armed = &cq->armed, .queues = queues, .ring = rung, .who = cq});
    prov_ep_unlock(ep);
}

int prov_cq_bind(struct prov_cq *cq, struct prov_ep *ep, unsigned queues)
{
    struct prov_cq_source *sources;
    int err = 0;

    if (cq->domain != ep->domain)
        return -FI_EDOMAIN;
    if ((queues & MBX_SENDS && ep->cqs.send != NULL) ||
        (queues & MBX_RECVS && ep->cqs.recv != NULL))
        return -FI_EINVAL;
    /* a thread of the provider will use the endpoint as well */
    if (cq->wait.object != FI_WAIT_NONE && cq->wait.object != FI_WAIT_YIELD)
        ep->locks = true;
    if (prov_is_accessed(ep->caps) && cq->domain->threading == FI_THREAD_COMPLETION)
        cq->locks = true;

    prov_cq_lock(cq);
    for (unsigned i = 0; i < cq->source_count; i++) {
        if (cq->sources[i].ep == ep) {
            cq->sources[i].queues |= queues;
            goto unlock;
        }
    }
    sources = realloc(cq->sources, (cq->source_count + 1) * sizeof *sources);
    if (sources == NULL) {
        err = -FI_ENOMEM;
        goto unlock;
    }
    sources[cq->source_count++] = (struct prov_cq_source){.ep = ep, .queues = queues};
    cq->sources = sources;
    sources_changed(cq);
unlock:
    prov_cq_unlock(cq);
    if (err == 0)
        ep_joins(cq, ep, queues);
    return err;
}

/* Removes the endpoint from the queue, and the queue from the endpoint. */
static void cq_unbind(struct prov_cq *cq, struct prov_ep *ep)
{
    prov_cq_lock(cq);
    prov_ep_lock(ep); /* the endpoint's thread may be about to wake the queue's waiters */
    if (ep->cqs.send == cq)
        ep->cqs.send = NULL;
    if (ep->cqs.recv == cq)
        ep->cqs.recv = NULL;
    prov_thread_unlisten(ep, cq);
    prov_ep_unlock(ep);
    for (unsigned i = 0; i < cq->source_count; i++)
        if (cq->sources[i].ep == ep)
            cq->sources[i--] = cq->sources[--cq->source_count];
    sources_changed(cq);
    prov_cq_unlock(cq);
}

void prov_ep_cqs_init(struct prov_ep *ep)
{
    bool is_accessed = prov_is_accessed(ep->caps);

    ep->cqs.send_queues = MBX_SENDS | (is_accessed ? MBX_ACCESS : 0);
    ep->cqs.recv_queues = MBX_RECVS | (is_accessed ? MBX_EVENTS : 0);
}

void prov_ep_cqs_enable(struct prov_ep *ep)
{
    ep->cqs.drops_events = (ep->cqs.recv_queues & MBX_EVENTS) && ep->cqs.recv == NULL;
}

void prov_ep_cqs_unbind(struct prov_ep *ep)
{
    if (ep->cqs.send != NULL)
        cq_unbind(ep->cqs.send, ep);
    if (ep->cqs.recv != NULL)
        cq_unbind(ep->cqs.recv, ep);
}

static int cq_close(struct fid *fid)
{
    struct prov_cq *cq = container_of(fid, struct prov_cq, fid.fid);

    if (cq->source_count != 0 || atomic_load(&cq->users) != 0)
        return -FI_EBUSY;
    atomic_fetch_sub(&cq->domain->users, 1);
    if (prov_wait_close(&cq->wait, fid))
        prov_cq_free(cq);
    return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
    struct prov_cq *cq = container_of(fid, struct prov_cq, fid.fid);

    return prov_wait_control(&cq->wait, command, arg);
}

static struct fi_ops cq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = cq_close,
    .bind = prov_no_bind,
    .control = cq_control,
    .ops_open = prov_no_ops_open,
    .tostr = prov_no_tostr,
    .ops_set = prov_no_ops_set,
};

static struct fi_ops_cq cq_ops = {
    .size = sizeof(struct fi_ops_cq),
    .read = prov_cq_read,
    .readfrom = prov_cq_readfrom,
    .readerr = prov_cq_readerr,
    .sread = prov_cq_sread,
    .sreadfrom = prov_cq_sreadfrom,
    .signal = prov_cq_signal,
    .strerror = prov_cq_strerror,
};

static int cq_attr_check(const struct fi_cq_attr *attr)
{
    if (attr->format > FI_CQ_FORMAT_TAGGED || attr->wait_cond > FI_CQ_COND_THRESHOLD)
        return -FI_EINVAL;
    return attr->flags & ~FI_AFFINITY ? -FI_EBADFLAGS : 0;
}

int prov_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **fid,
                 void *context)
{
    struct prov_cq *cq;
    int err = attr == NULL ? -FI_EINVAL : cq_attr_check(attr);

    if (err < 0)
        return err;
    cq = calloc(1, sizeof *cq);
    if (cq == NULL)
        return -FI_ENOMEM;
    cq->events = malloc(PROV_FIRST_EVENTS * sizeof *cq->events);
    if (cq->events == NULL) {
        err = -FI_ENOMEM;
        goto free_cq;
    }
    cq->event_capacity = PROV_FIRST_EVENTS;
    cq->fid.fid.fclass = FI_CLASS_CQ;
    cq->fid.fid.context = context;
    cq->fid.fid.ops = &cq_fid_ops;
    cq->fid.ops = &cq_ops;
    cq->domain = container_of(domain, struct prov_domain, fid);
    cq->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
    cq->locks = prov_needs_locks(cq->domain->threading);
    cq->has_threshold = attr->wait_cond == FI_CQ_COND_THRESHOLD;
    door_idle_init(&cq->idle, prov_is_oversubscribed());
    pthread_mutex_init(&cq->lock, NULL);
    atomic_init(&cq->users, 0);
    atomic_init(&cq->armed, false);
    atomic_init(&cq->signalled, false);
    err = prov_wait_init(&cq->wait, attr->wait_obj, attr->wait_set, &cq->fid.fid);
    if (err < 0)
        goto free_events;
    atomic_fetch_add(&cq->domain->users, 1);
    attr->format = cq->format;
    *fid = &cq->fid;
    return 0;

free_events:
    pthread_mutex_destroy(&cq->lock);
    free(cq->events);
free_cq:
    free(cq);
    return err;
}
