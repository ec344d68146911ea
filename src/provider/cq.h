/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq.h - completion queues: cq.c reads them, cq_open.c opens and binds them, cq_wait.c waits on
 * them.
 */
#ifndef PROVIDER_CQ_H
#define PROVIDER_CQ_H

#include "provider/compat.h"
#include "door/idle.h"
#include "provider/wait.h"

#include <pthread.h>
#include <stdatomic.h>

struct prov_domain;
struct prov_ep;
struct prov_event; /* event.h */

/* An endpoint bound to a queue, for its sends, its receives or both. */
struct prov_cq_source {
    struct prov_ep *ep;
    unsigned queues; /* enum mbx_queue */
};

/* The action of the next read of a queue without events. */
enum prov_cq_next {
    PROV_CQ_PROGRESS, /* progress and poll */
    PROV_CQ_POLL,     /* poll only: the last read filled the client's array */
    PROV_CQ_EMPTY,    /* none: the last read left space in the array, so the queue is empty */
};

struct prov_cq {
    struct fid_cq fid;
    struct prov_domain *domain;
    enum fi_cq_format format;
    bool locks;
    bool has_threshold; /* FI_CQ_COND_THRESHOLD */
    pthread_mutex_t lock;
    atomic_uint users; /* poll sets that contain the queue */
    struct prov_cq_source *sources;
    unsigned source_count;
    unsigned turn;        /* the source that is read first */
    struct prov_ep *only; /* the only source, if it and the queue have no locks; or NULL */
    unsigned only_queues; /* the queues of `only` */
    enum prov_cq_next next;
    struct door_idle idle;
    struct prov_wait wait;
    atomic_bool armed; /* a waiter wants to be woken */
    atomic_bool signalled;
    /* Ring of events: event_count of them from event_head on. */
    struct prov_event *events;
    uint32_t event_head, event_count, event_capacity, event_reserved;
};

/* The part of an endpoint: the queues for its completions. cq_open.c writes it. */
struct prov_ep_cqs {
    struct prov_cq *send, *recv;       /* or NULL */
    unsigned send_queues, recv_queues; /* enum mbx_queue */
    bool drops_events;                 /* no queue takes the remote CQ data of writes */
};

static inline void prov_cq_lock(struct prov_cq *cq)
{
    if (unlikely(cq->locks))
        pthread_mutex_lock(&cq->lock);
}

static inline void prov_cq_unlock(struct prov_cq *cq)
{
    if (unlikely(cq->locks))
        pthread_mutex_unlock(&cq->lock);
}

/* ---- cq_open.c ------------------------------------------------------------------------ */

/* A power of two, at least POLL_BATCH of cq.c. */
#define PROV_FIRST_EVENTS 64

int prov_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                 void *context);
/* Sets the Matchbox queues of ep from its capabilities. */
void prov_ep_cqs_init(struct prov_ep *ep);
/* Enables ep, whose queues are bound. */
void prov_ep_cqs_enable(struct prov_ep *ep);
/* 0; -FI_EDOMAIN; -FI_EINVAL if ep already has a queue for these. */
int prov_cq_bind(struct prov_cq *cq, struct prov_ep *ep, unsigned queues);
/* Removes ep from its queues. */
void prov_ep_cqs_unbind(struct prov_ep *ep);

/* ---- cq.c -------------------------------------------------------------------------- */

/* Wakes the waiters that have armed the queue. */
void prov_cq_ring(struct prov_cq *cq);
/* Reserves space for one event of the provider; queues that event; or returns the space.  All
 * with the endpoint unlocked. */
int prov_cq_reserve(struct prov_cq *cq);
void prov_cq_push(struct prov_cq *cq, const struct prov_event *event);
void prov_cq_unreserve(struct prov_cq *cq);
/* Makes progress; completions become events of the queue, and are counted. */
void prov_cq_collect(struct prov_cq *cq);
/* Makes progress in ep; completions for which it has no queue are counted, then dropped. */
void prov_ep_forget(struct prov_ep *ep);
ssize_t prov_cq_read(struct fid_cq *cq, void *buf, size_t count);
ssize_t prov_cq_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr);
ssize_t prov_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags);
const char *prov_cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf,
                             size_t len);

/* ---- cq_wait.c ------------------------------------------------------------------------ */

/* Frees a closed queue, after the last waiter has left. */
void prov_cq_free(struct prov_cq *cq);
ssize_t prov_cq_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond,
                      int timeout);
ssize_t prov_cq_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
                          const void *cond, int timeout);
int prov_cq_signal(struct fid_cq *cq);
/* The next completion wakes the waiters. */
int prov_cq_arm(struct prov_cq *cq);
/* Makes progress; is there something to read? */
bool prov_cq_is_ready(struct prov_cq *cq);
/* fi_trywait(): 0, or -FI_EAGAIN if the caller must not sleep. */
int prov_cq_try(struct prov_cq *cq);

#endif
