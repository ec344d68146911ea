/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.h - fabric and domain, which hold the provider's other objects together, and the
 * description of the provider: fabric.c, info.c, loader.c.
 *
 *   fabric <- domain <- av <-----+
 *                    <- cq <---- endpoint -> mbx_ep
 *                    <- cntr <---+
 *                    <- mr
 *          <- eq <---------------+
 *
 * An arrow is a counted reference: an object that is still referred to refuses to
 * close (-FI_EBUSY).  An endpoint is one Matchbox endpoint; a completion queue is
 * a list of endpoints to poll, so completions wait in the endpoints and a queue
 * cannot overrun.
 *
 * Locks      An endpoint and a queue have a mutex each, taken only if the client
 *            requested a threading model that needs them (prov_needs_locks; for an
 *            endpoint that peers access, prov_is_accessed), or an endpoint has a thread of
 *            ours (thread.c); an address vector always takes its own.
 *            Order: counter, domain, queue, endpoint, vector, bell.
 *            The library's own lock is never on (MBX_THREADS).
 */
#ifndef PROVIDER_FABRIC_H
#define PROVIDER_FABRIC_H

#include "provider/compat.h"

#include <pthread.h>
#include <stdatomic.h>

#define PROV_NAME    "matchbox"
#define PROV_VERSION FI_VERSION(MBX_VERSION_MAJOR * 100 + MBX_VERSION_MINOR, MBX_VERSION_PATCH)
/* Numbers of our own: libfabric assigns none.  Both are positive as an int, because some clients
 * keep them in an int and take a negative value for an error, and libfabric 2 no longer
 * reserves a bit for the numbers of a provider. */
#define PROV_ADDR_FORMAT 0x4d42
#define PROV_PROTOCOL    0x4d42
#define PROV_IOV_LIMIT   8
#define PROV_INJECT_SIZE 4096
#define PROV_MESSAGE_MAX ((size_t)1 << 46)
#define PROV_QUEUE_SIZE  1024 /* announced depth of send and receive queues; a hint only */

struct prov_ep;
struct prov_mr;
struct prov_cntr;

struct prov_fabric {
    struct fid_fabric fid;
    atomic_uint users; /* domains and event queues */
};

/* The memory regions, and the endpoints through which peers access them: mr.c.  Guarded by the
 * domain's lock. */
struct prov_domain_mrs {
    struct prov_ep *eps; /* endpoints that peers may access, linked by domain_next */
    struct prov_mr *first;
    uint64_t next_key;
};

/* Counters of regions, which accesses through any endpoint may change: counter.c. */
struct prov_domain_bell {
    pthread_mutex_t lock; /* guards cntrs */
    struct prov_cntr *cntrs;
    atomic_bool armed; /* a waiter of one of them wants to be woken */
};

struct prov_domain {
    struct fid_domain fid;
    struct prov_fabric *fabric;
    atomic_uint users; /* address vectors, completion queues, endpoints */
    enum fi_threading threading;
    enum fi_av_type av_type;
    uint32_t addr_format;                      /* PROV_ADDR_FORMAT or FI_ADDR_STR (text.h) */
    bool auto_progress;                        /* each endpoint has a thread (thread.c) */
    bool mr_virtual, mr_prov_key, mr_endpoint; /* mr_mode */
    pthread_mutex_t lock;                      /* guards mrs and atomic_limit */
    struct prov_domain_mrs mrs;
    size_t atomic_limit; /* the smallest among its endpoints; 0: not known yet (atomic.c) */
    struct prov_domain_bell bell;
};

/* Peers may access the domain's memory through an endpoint with these capabilities.  Several
 * threads then use the endpoint and its queues even with FI_THREAD_COMPLETION: the thread that
 * registers memory, or reads the counter of a region, may be another than the endpoint's. */
static inline bool prov_is_accessed(uint64_t caps)
{
    return caps & (FI_RMA | FI_ATOMIC);
}

/* False if the threading model makes the client serialise all calls that use one endpoint, by
 * domain or by queue.  In other models a thread may read the queue while another sends. */
static inline bool prov_needs_locks(enum fi_threading threading)
{
    return threading != FI_THREAD_DOMAIN && threading != FI_THREAD_COMPLETION;
}

int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                 const struct fi_info *hints, struct fi_info **info);

#endif
