/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ep.h - the endpoint: a list of parts, each of which belongs to the file of its name and is
 * written by that file alone; and functions for the whole endpoint: endpoint.c.
 */
#ifndef PROVIDER_EP_H
#define PROVIDER_EP_H

#include "provider/av.h"
#include "provider/compat.h"
#include "provider/counter.h"
#include "provider/cq.h"
#include "door/idle.h"
#include "provider/index.h"
#include "provider/multi.h"
#include "provider/name.h"
#include "provider/op.h"
#include "provider/receive.h"
#include "provider/send.h"
#include "provider/thread.h"

#include <pthread.h>
#include <stdatomic.h>

struct prov_domain;
struct prov_eq;
struct prov_profile;

struct prov_ep {
    struct fid_ep fid;
    struct mbx_ep *mbx;
    bool locks; /* cq_open.c and counter.c set it too, if their threads use the endpoint */
    bool enabled;
    /* used by every operation */
    struct prov_ep_ops ops;
    struct prov_ep_av av;
    struct prov_ep_send send;
    struct prov_ep_recv recv;
    struct prov_ep_multi multi;
    struct prov_ep_index index;
    struct prov_ep_cqs cqs;
    struct prov_ep_cntrs cntrs;
    /* used by few */
    pthread_mutex_t lock;
    struct prov_domain *domain;
    struct prov_ep *domain_next; /* the next in the domain's list (mr.c) */
    struct prov_eq *eq;
    uint64_t caps;
    size_t atomic_limit;
    struct door_idle idle; /* calls that were refused, probes that found nothing */
    struct prov_ep_thread thread;
    struct prov_ep_name name;
    struct prov_profile *profiles; /* NULL if none is open (profile.c) */
    _Atomic uintptr_t notifying;   /* the thread that runs a profile's callback, or 0 */
    size_t check_paid;             /* of the checks (valid.c) */
};

int prov_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                 void *context);
/* Drops remote CQ data of an endpoint without a queue for it (event.c). */
void prov_events_drop(struct prov_ep *ep);

static inline struct prov_ep *prov_ep_of(struct fid_ep *fid)
{
    return container_of(fid, struct prov_ep, fid);
}

static inline void prov_ep_lock(struct prov_ep *ep)
{
    if (unlikely(ep->locks))
        pthread_mutex_lock(&ep->lock);
}

static inline void prov_ep_unlock(struct prov_ep *ep)
{
    if (likely(!ep->locks))
        return;
    if (unlikely(ep->thread.is_asleep))
        prov_thread_used(ep);
    pthread_mutex_unlock(&ep->lock);
}

/* Makes progress, also for the receives that multi.c matches. */
static inline int prov_ep_progress(struct prov_ep *ep)
{
    int moved = mbx_progress(ep->mbx);

    if (unlikely(prov_multi_is_busy(&ep->multi)))
        prov_multi_pull(ep);
    if (unlikely(ep->cqs.drops_events))
        prov_events_drop(ep);
    return moved;
}

#endif
