/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.h - counters of operations that ended: counter.c.
 */
#ifndef PROVIDER_COUNTER_H
#define PROVIDER_COUNTER_H

#include "provider/compat.h"
#include "door/idle.h"
#include "provider/op.h"
#include "provider/wait.h"

#include <pthread.h>
#include <stdatomic.h>

struct prov_domain;
struct prov_ep;
struct prov_mr;

/* Things that a counter may count.  The operations come first: their kind, minus 1. */
enum prov_count {
    PROV_COUNT_SEND,
    PROV_COUNT_RECV,
    PROV_COUNT_READ,
    PROV_COUNT_WRITE,
    PROV_COUNT_REMOTE_READ,
    PROV_COUNT_REMOTE_WRITE,
    PROV_COUNTS
};

struct prov_cntr {
    struct fid_cntr fid;
    struct prov_domain *domain;
    atomic_uint users; /* bindings */
    pthread_mutex_t lock;
    struct prov_ep **eps; /* endpoints in which a read makes progress */
    unsigned ep_count;
    struct prov_mr **mrs; /* regions whose accesses it counts, by count_mr */
    void (*count_mr)(struct prov_mr *mr);
    unsigned mr_count;
    struct prov_cntr *bell_next; /* the next in the domain's bell, while mr_count is not 0 */
    _Atomic uint64_t value, errors;
    _Atomic uint64_t seen_value, seen_errors; /* last read by the client */
    struct door_idle idle;                    /* guarded by lock */
    struct prov_wait wait;
    atomic_bool armed; /* a waiter wants to be woken */
};

/* The part of an endpoint. */
struct prov_ep_cntrs {
    bool counts;                       /* some counter is bound */
    struct prov_cntr *of[PROV_COUNTS]; /* by kind; or NULL */
    struct mbx_served served;          /* the accesses that are already counted */
};

int prov_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                   void *context);
/* flags: the kinds of operation to count. */
int prov_cntr_bind(struct prov_cntr *cntr, struct prov_ep *ep, uint64_t flags);
/* Removes ep from all its counters. */
void prov_cntr_unbind(struct prov_ep *ep);
/* count is called to add new accesses of mr to its counters. */
int prov_cntr_add_mr(struct prov_cntr *cntr, struct prov_mr *mr,
                     void (*count)(struct prov_mr *mr));
void prov_cntr_remove_mr(struct prov_cntr *cntr, struct prov_mr *mr);
/* Makes progress; returns values plus errors. */
uint64_t prov_cntr_total(struct prov_cntr *cntr);
/* The next change rings the counter. -FI_EAGAIN: nothing would ring it, so the caller must
 * poll. */
int prov_cntr_arm(struct prov_cntr *cntr);
/* fi_trywait(): 0, or -FI_EAGAIN if the caller must not sleep. */
int prov_cntr_try(struct prov_cntr *cntr);
/* Accesses of peers through ep, which is opening, ring the counters of regions. */
void prov_cntr_listen_regions(struct prov_ep *ep);
/* Wakes the waiters of the domain's counters of regions, if one is armed. */
void prov_cntr_ring_regions(struct prov_domain *domain);

/* Wakes the waiters that have armed the counter. */
static inline void prov_cntr_ring(struct prov_cntr *cntr)
{
    prov_wait_ring_armed(&cntr->wait, &cntr->armed);
}

/* Adds count to the value or, after an error, to the errors. */
static inline void prov_cntr_count(struct prov_cntr *cntr, int error, uint64_t count)
{
    atomic_fetch_add(error == 0 ? &cntr->value : &cntr->errors, count);
    if (unlikely(atomic_load(&cntr->armed)))
        prov_cntr_ring(cntr);
}

/* Counts an operation of ours that has ended. */
static inline void prov_count_op(struct prov_ep_cntrs *cntrs, enum prov_op_kind kind, int error)
{
    struct prov_cntr *cntr = cntrs->of[(kind < PROV_OP_MULTI_QUEUED ? kind : PROV_OP_RECV) - 1];

    if (cntr != NULL)
        prov_cntr_count(cntr, error, 1);
}

#endif
