/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.h - an endpoint's thread, which polls while the client sleeps: thread.c.
 */
#ifndef PROVIDER_THREAD_H
#define PROVIDER_THREAD_H

#include "provider/compat.h"

#include <pthread.h>
#include <stdatomic.h>

struct prov_ep;

/* An object whose waiters may sleep until something comes in an endpoint. */
struct prov_listener {
    atomic_bool *armed;      /* it wants to be rung, once */
    unsigned queues;         /* rung for completions in these (enum mbx_queue) */
    bool hears_accesses;     /* rung for reads and writes of peers */
    void (*ring)(void *who); /* called with the endpoint's lock */
    void *who;
};

/* Two completion queues, six counters, and the counters of the domain's regions. */
#define PROV_LISTENERS 9

/* The part of an endpoint.  All guarded by the endpoint's lock. */
struct prov_ep_thread {
    pthread_t id;
    pthread_cond_t wanted;
    bool is_there;
    bool always; /* automatic progress */
    bool stops;
    bool is_asleep;             /* in mbx_sleep() */
    bool is_deep;               /* without a time limit */
    bool used;                  /* the client used the endpoint meanwhile */
    struct mbx_served reported; /* accesses of peers when listeners were last rung */
    struct prov_listener listeners[PROV_LISTENERS];
    unsigned listener_count;
};

void prov_thread_init(struct prov_ep *ep);
void prov_thread_fini(struct prov_ep *ep);
/* Adds a listener to ep; or removes the listeners of who.  With the endpoint's lock. */
void prov_thread_listen(struct prov_ep *ep, const struct prov_listener *listener);
void prov_thread_unlisten(struct prov_ep *ep, const void *who);
/* The next thing that comes in ep rings the listener with this flag; starts the thread.  The
 * endpoint has locks. */
int prov_thread_arm(struct prov_ep *ep, atomic_bool *armed);
/* Starts the thread for automatic progress. */
int prov_thread_always(struct prov_ep *ep);
/* The client, which holds the endpoint's lock, uses the endpoint while the thread sleeps. */
void prov_thread_used(struct prov_ep *ep);

#endif
