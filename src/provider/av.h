/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * av.h - addresses by number (fi_addr_t) and back: av.c.
 */
#ifndef PROVIDER_AV_H
#define PROVIDER_AV_H

#include "provider/compat.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"

#define PROV_PEER_UNKNOWN UINT32_MAX
#define PROV_AV_NONE      UINT32_MAX

struct prov_domain;
struct prov_ep;
struct prov_eq;

struct prov_av_entry {
    struct mbx_address address;
    uint32_t next; /* the next free entry, or PROV_AV_NONE */
    bool used;
};

/*
 * The vector may hold an address several times.  The lookup by address gives the number that was
 * inserted first.
 *
 * entries[0..count) with used set are in numbers, the others on the free list.
 */
struct prov_av {
    struct fid_av fid;
    struct prov_domain *domain;
    pthread_mutex_t lock;
    atomic_uint users;   /* bound endpoints */
    struct prov_ep *eps; /* linked by av.next */
    struct prov_eq *eq;  /* FI_EVENT: the queue that gets the events of insertions */
    bool has_events;
    struct prov_av_entry *entries;
    struct hash numbers; /* index + 1 by address */
    uint32_t count, capacity, free;
};

/* The part of an endpoint: a cache of its vector. */
struct prov_ep_av {
    _Atomic uint32_t *peers;  /* peer number by fi_addr, or PROV_PEER_UNKNOWN */
    uint64_t peer_limit;      /* entries of peers */
    _Atomic fi_addr_t *addrs; /* fi_addr by peer number, or FI_ADDR_NOTAVAIL */
    uint32_t addr_limit;
    struct prov_av *vector;
    struct prov_ep *next;     /* of the same vector */
    _Atomic bool is_reported; /* the library knows which MPI runs (report.h) */
};

int prov_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                 void *context);
/* 0; -FI_EDOMAIN; -FI_EINVAL if the endpoint has a vector already. */
int prov_av_bind(struct prov_av *av, struct prov_ep *ep);
/* Removes an endpoint that closes from its vector, if it has one. */
void prov_av_unbind(struct prov_ep *ep);
/* Makes addr a peer of ep and remembers its number. */
int prov_av_resolve(struct prov_ep *ep, fi_addr_t addr, uint32_t *peer);
/* The client communicates, but the call names no peer: a receive from any source. */
void prov_av_report(struct prov_ep *ep);
/* fi_addr_t of a peer; FI_ADDR_NOTAVAIL if the peer's address is not in the vector. */
fi_addr_t prov_av_find(struct prov_ep *ep, uint32_t peer);

#endif
