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

/* An endpoint's part.  All guarded by the endpoint's lock. */
struct prov_ep_thread {
    pthread_t id;
    pthread_cond_t wanted;
    bool is_there;
    bool always; /* automatic progress */
    bool stops;
    bool is_asleep;         /* in Matchbox, */
    bool is_deep;           /* without a limit */
    bool used;              /* the client was here meanwhile */
    struct mbx_served told; /* accesses of peers, when counters were last told */
};

void prov_thread_init(struct prov_ep *ep);
void prov_thread_fini(struct prov_ep *ep);
/* What next completes in ep rings the queue or counter whose flag this is; starts the thread.
 * The endpoint has locks. */
int prov_thread_arm(struct prov_ep *ep, atomic_bool *armed);
/* Makes progress from now on. */
int prov_thread_always(struct prov_ep *ep);
/* The client uses the endpoint, whose lock it has, while the thread sleeps. */
void prov_thread_used(struct prov_ep *ep);

#endif
