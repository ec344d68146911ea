/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.c - a thread of an endpoint that looks while its client does not.
 *
 * It is started when somebody first wants to sleep until something comes (a queue with a
 * wait object), or with the endpoint if the client has asked for automatic progress.
 *
 *   parked ──armed──> look: progress, ring who is armed and has completions
 *      ^                │         ^
 *      └──nobody is armed         └── a message, or a client's use of the endpoint ── asleep
 *
 * It sleeps in mbx_sleep(), with the endpoint unlocked.  A client that uses the endpoint
 * meanwhile tells its queues itself what it has completed (prov_watch_used), and may have
 * made rings hot, which do not wake a sleeper any more: so the watch gets up once, and then
 * sleeps only NAP_NS at a time until the client has not been here for one nap.
 *
 * Invariants
 *   I1  the thread runs and reads with ep->lock, but for its sleep
 *   I2  while a queue is armed and its endpoint has completions for it that came after, it is
 *       rung, or somebody holds ep->lock who will ring it
 *   I3  an endpoint with a watch has locks
 */
#include "provider/provider.h"

#include <signal.h>

#define NAP_NS 1000000

static void gives_lock(void *arg)
{
    struct prov_ep *ep = arg;

    pthread_mutex_unlock(&ep->lock);
}

static void takes_lock(void *arg)
{
    struct prov_ep *ep = arg;

    pthread_mutex_lock(&ep->lock);
}

/* ---- who is told --------------------------------------------------------------------------
 */

static void cq_tell(struct prov_ep *ep, struct prov_cq *cq, unsigned queues)
{
    if (cq != NULL && atomic_load(&cq->armed) && mbx_ready(ep->mbx, queues) &&
        atomic_exchange(&cq->armed, false))
        prov_wait_ring(&cq->wait);
}

static void tell(struct prov_ep *ep)
{
    cq_tell(ep, ep->send_cq, ep->send_queues);
    cq_tell(ep, ep->recv_cq, ep->recv_queues);
}

static bool is_wanted(const struct prov_ep *ep)
{
    return ep->watch.always || (ep->send_cq != NULL && atomic_load(&ep->send_cq->armed)) ||
           (ep->recv_cq != NULL && atomic_load(&ep->recv_cq->armed));
}

OUT_OF_LINE void prov_watch_used(struct prov_ep *ep)
{
    ep->watch.used = true;
    tell(ep);
    if (ep->watch.is_deep) {
        ep->watch.is_deep = false;
        mbx_wake(ep->mbx);
    }
}

/* ---- the thread ----------------------------------------------------------------------------
 */

static void watch_sleep(struct prov_ep *ep)
{
    const struct mbx_sleep_hooks hooks = {gives_lock, takes_lock, ep};
    struct prov_watch *watch = &ep->watch;

    watch->is_deep = !watch->used;
    watch->used = false;
    watch->is_asleep = true;
    mbx_sleep(ep->mbx, watch->is_deep ? -1 : NAP_NS, &hooks);
    watch->is_asleep = false;
    watch->is_deep = false;
}

static void let_in(struct prov_ep *ep)
{
    pthread_mutex_unlock(&ep->lock);
    pthread_mutex_lock(&ep->lock);
}

static void *watch_run(void *arg)
{
    struct prov_ep *ep = arg;
    struct prov_watch *watch = &ep->watch;
    int moved;

    pthread_mutex_lock(&ep->lock);
    while (!watch->stops) {
        if (!is_wanted(ep)) {
            pthread_cond_wait(&watch->wanted, &ep->lock);
            continue;
        }
        moved = prov_ep_progress(ep);
        tell(ep);
        if (moved == 0 && is_wanted(ep))
            watch_sleep(ep);
        else
            let_in(ep);
    }
    pthread_mutex_unlock(&ep->lock);
    return NULL;
}

/* The client's signals are none of the thread's. */
static int watch_start(struct prov_ep *ep)
{
    sigset_t all, old;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&ep->watch.thread, NULL, watch_run, ep);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err != 0)
        return -err;
    ep->watch.is_there = true;
    return 0;
}

static int watch_want(struct prov_ep *ep)
{
    if (!ep->watch.is_there)
        return watch_start(ep);
    pthread_cond_signal(&ep->watch.wanted);
    return 0;
}

int prov_watch_arm(struct prov_ep *ep, struct prov_cq *cq)
{
    int err;

    pthread_mutex_lock(&ep->lock);
    atomic_store(&cq->armed, true);
    err = watch_want(ep);
    pthread_mutex_unlock(&ep->lock);
    return err;
}

int prov_watch_always(struct prov_ep *ep)
{
    int err;

    pthread_mutex_lock(&ep->lock);
    ep->watch.always = true;
    err = watch_want(ep);
    pthread_mutex_unlock(&ep->lock);
    return err;
}

void prov_watch_init(struct prov_ep *ep)
{
    pthread_cond_init(&ep->watch.wanted, NULL);
}

void prov_watch_fini(struct prov_ep *ep)
{
    if (ep->watch.is_there) {
        pthread_mutex_lock(&ep->lock);
        ep->watch.stops = true;
        mbx_wake(ep->mbx);
        pthread_cond_signal(&ep->watch.wanted);
        pthread_mutex_unlock(&ep->lock);
        pthread_join(ep->watch.thread, NULL);
    }
    pthread_cond_destroy(&ep->watch.wanted);
}
