/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.h - the thread of an endpoint that looks while its client does not: thread.c.
 */
#ifndef PROVIDER_THREAD_H
#define PROVIDER_THREAD_H

#include "provider/compat.h"

#include <pthread.h>
#include <stdatomic.h>

struct prov_ep;

/* Who may sleep until something comes in an endpoint. */
struct prov_listener {
    atomic_bool *armed;      /* wants to be rung, once */
    unsigned queues;         /* for what completes in these (enum mbx_queue), */
    bool hears_accesses;     /* or for what peers read and write */
    void (*ring)(void *who); /* with the endpoint's lock */
    void *who;
};

/* Two completion queues, six counters, and the counters of the domain's regions. */
#define PROV_LISTENERS 9

/* An endpoint's part.  All guarded by the endpoint's lock. */
struct prov_ep_thread {
    pthread_t id;
    pthread_cond_t wanted;
    bool is_there;
    bool always; /* automatic progress */
    bool stops;
    bool is_asleep;             /* in Matchbox, */
    bool is_deep;               /* without a limit */
    bool used;                  /* the client was here meanwhile */
    struct mbx_served reported; /* accesses of peers, when listeners were last told */
    struct prov_listener listeners[PROV_LISTENERS];
    unsigned listener_count;
};

void prov_thread_init(struct prov_ep *ep);
void prov_thread_fini(struct prov_ep *ep);
/* ep has one listener more, or none more that is who.  With the endpoint's lock. */
void prov_thread_listen(struct prov_ep *ep, const struct prov_listener *listener);
void prov_thread_unlisten(struct prov_ep *ep, const void *who);
/* What next comes in ep rings the listener whose flag this is; starts the thread.  The endpoint
 * has locks. */
int prov_thread_arm(struct prov_ep *ep, atomic_bool *armed);
/* Makes progress from now on. */
int prov_thread_always(struct prov_ep *ep);
/* The client uses the endpoint, whose lock it has, while the thread sleeps. */
void prov_thread_used(struct prov_ep *ep);

#endif
