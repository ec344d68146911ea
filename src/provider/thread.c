/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.c - a thread of an endpoint that looks while its client does not.
 *
 * It is started when somebody first wants to sleep until something comes (a queue with a
 * wait object), or with the endpoint if the client has asked for automatic progress.
 *
 *   parked ──armed──> look: progress, ring who is armed and has completions
 *      ^                │         ^
 *      └──nobody is armed         └── a message, or a client's use of the endpoint ── asleep
 *
 * It sleeps in mbx_sleep(), with the endpoint unlocked.  A client that uses the endpoint
 * meanwhile tells its queues itself what it has completed (prov_thread_used), and may have
 * made rings hot, which do not wake a sleeper any more: so the thread gets up once, and then
 * sleeps only NAP_NS at a time until the client has not been here for one nap.
 *
 * Invariants
 *   I1  the thread runs and reads with ep->lock, but for its sleep
 *   I2  while a queue or a counter is armed and the endpoint has something for it that came
 *       after, it is rung, or somebody holds ep->lock who will ring it
 *   I3  an endpoint with a thread has locks
 *
 * Who has completions for a counter may also have them for a queue: the counter's waiter sets
 * them aside there.  A ring for other completions than a counter's own is one for nothing.
 */
#include "provider/ep.h"
#include "provider/fabric.h"
#include "provider/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

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

/* Have peers read or written here since the counters were told? */
static bool has_served(struct prov_ep *ep)
{
    struct mbx_served before = ep->thread.told;

    mbx_served_get(ep->mbx, &ep->thread.told, sizeof ep->thread.told);
    return ep->thread.told.reads != before.reads || ep->thread.told.writes != before.writes;
}

static void cntrs_tell(struct prov_ep *ep)
{
    bool served = has_served(ep);

    if (served)
        prov_cntr_ring_regions(ep->domain);
    if (!ep->cntrs.counts ||
        !(served || mbx_ready(ep->mbx, ep->cqs.send_queues | ep->cqs.recv_queues)))
        return;
    for (unsigned i = 0; i < PROV_COUNTS; i++)
        if (ep->cntrs.of[i] != NULL)
            prov_cntr_ring(ep->cntrs.of[i]);
}

static void tell(struct prov_ep *ep)
{
    cq_tell(ep, ep->cqs.send, ep->cqs.send_queues);
    cq_tell(ep, ep->cqs.recv, ep->cqs.recv_queues);
    cntrs_tell(ep);
}

static bool cntrs_are_armed(const struct prov_ep *ep)
{
    if (atomic_load(&ep->domain->bell.armed))
        return true;
    for (unsigned i = 0; ep->cntrs.counts && i < PROV_COUNTS; i++)
        if (ep->cntrs.of[i] != NULL && atomic_load(&ep->cntrs.of[i]->armed))
            return true;
    return false;
}

static bool is_wanted(const struct prov_ep *ep)
{
    return ep->thread.always || (ep->cqs.send != NULL && atomic_load(&ep->cqs.send->armed)) ||
           (ep->cqs.recv != NULL && atomic_load(&ep->cqs.recv->armed)) || cntrs_are_armed(ep);
}

OUT_OF_LINE void prov_thread_used(struct prov_ep *ep)
{
    ep->thread.used = true;
    tell(ep);
    if (ep->thread.is_deep) {
        ep->thread.is_deep = false;
        mbx_wake(ep->mbx);
    }
}

/* ---- the thread ----------------------------------------------------------------------------
 */

static void thread_sleep(struct prov_ep *ep)
{
    const struct mbx_sleep_hooks hooks = {.sleeps = gives_lock, .slept = takes_lock, .arg = ep};
    struct prov_ep_thread *thread = &ep->thread;

    thread->is_deep = !thread->used;
    thread->used = false;
    thread->is_asleep = true;
    mbx_sleep(ep->mbx, thread->is_deep ? -1 : NAP_NS, &hooks);
    thread->is_asleep = false;
    thread->is_deep = false;
}

static void let_in(struct prov_ep *ep)
{
    pthread_mutex_unlock(&ep->lock);
    pthread_mutex_lock(&ep->lock);
}

static void *thread_run(void *arg)
{
    struct prov_ep *ep = arg;
    struct prov_ep_thread *thread = &ep->thread;
    int moved;

    pthread_mutex_lock(&ep->lock);
    while (!thread->stops) {
        if (!is_wanted(ep)) {
            pthread_cond_wait(&thread->wanted, &ep->lock);
            continue;
        }
        moved = prov_ep_progress(ep);
        tell(ep);
        if (moved == 0 && is_wanted(ep))
            thread_sleep(ep);
        else
            let_in(ep);
    }
    pthread_mutex_unlock(&ep->lock);
    return NULL;
}

/* The client's signals are none of the thread's. */
static int thread_start(struct prov_ep *ep)
{
    sigset_t all, old;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&ep->thread.id, NULL, thread_run, ep);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err != 0)
        return -err;
    ep->thread.is_there = true;
    return 0;
}

static int thread_want(struct prov_ep *ep)
{
    if (!ep->thread.is_there)
        return thread_start(ep);
    pthread_cond_signal(&ep->thread.wanted);
    return 0;
}

int prov_thread_arm(struct prov_ep *ep, atomic_bool *armed)
{
    int err;

    pthread_mutex_lock(&ep->lock);
    atomic_store(armed, true);
    err = thread_want(ep);
    pthread_mutex_unlock(&ep->lock);
    return err;
}

int prov_thread_always(struct prov_ep *ep)
{
    int err;

    pthread_mutex_lock(&ep->lock);
    ep->thread.always = true;
    err = thread_want(ep);
    pthread_mutex_unlock(&ep->lock);
    return err;
}

void prov_thread_init(struct prov_ep *ep)
{
    pthread_cond_init(&ep->thread.wanted, NULL);
}

void prov_thread_fini(struct prov_ep *ep)
{
    if (ep->thread.is_there) {
        pthread_mutex_lock(&ep->lock);
        ep->thread.stops = true;
        mbx_wake(ep->mbx);
        pthread_cond_signal(&ep->thread.wanted);
        pthread_mutex_unlock(&ep->lock);
        pthread_join(ep->thread.id, NULL);
    }
    pthread_cond_destroy(&ep->thread.wanted);
}
