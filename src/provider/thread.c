/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.c - an endpoint's thread, which polls while the client sleeps.
 *
 * It is started when a client first wants to sleep until something comes (a queue with a
 * wait object), or with the endpoint if the client has requested automatic progress.
 *
 *   parked ──armed──> poll: progress, ring listeners that are armed and ready
 *      ^                │         ^
 *      └──nobody is armed         └── a message, or a client's use of the endpoint ── asleep
 *
 * The thread rings listeners: queues, counters, and the counters of regions, each with the
 * queues or accesses that it listens for.
 *
 * It sleeps in mbx_sleep(), with the endpoint unlocked.  A client that uses the endpoint
 * meanwhile rings the listeners itself for its completions (prov_thread_used), and may have
 * made rings hot, which no longer wake a sleeper.  So the thread wakes up once, and then
 * sleeps only NAP_NS at a time until the client has not been here for one nap.
 *
 * Invariants
 *   I1  the thread runs and reads with ep->lock, except while it sleeps
 *   I2  while a listener is armed and the endpoint has something for it that came
 *       after, it is rung, or a thread that holds ep->lock will ring it
 *   I3  an endpoint with a thread has locks
 *
 * A waiter of a counter may find completions that belong to a queue: it sets them aside there.  A
 * ring for a completion that the counter does not count is spurious.
 */
#include "provider/ep.h"
#include "provider/thread.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/thread.h"

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

/* ---- notifications ------------------------------------------------------------------------ */

/* Have peers read or written here since listeners were last rung? */
static bool has_served(struct prov_ep *ep)
{
    struct mbx_served before = ep->thread.reported;

    mbx_served_get(ep->mbx, &ep->thread.reported, sizeof ep->thread.reported);
    return ep->thread.reported.reads != before.reads ||
           ep->thread.reported.writes != before.writes;
}

static bool is_ready(struct prov_ep *ep, const struct prov_listener *l, bool has_served)
{
    return (l->hears_accesses && has_served) ||
           (l->queues != 0 && mbx_ready(ep->mbx, l->queues));
}

static void notify_listeners(struct prov_ep *ep)
{
    bool served = has_served(ep);

    for (unsigned i = 0; i < ep->thread.listener_count; i++) {
        const struct prov_listener *l = &ep->thread.listeners[i];

        if (atomic_load(l->armed) && is_ready(ep, l, served) &&
            atomic_exchange(l->armed, false))
            l->ring(l->who);
    }
}

static bool prov_thread_is_wanted(const struct prov_ep *ep)
{
    for (unsigned i = 0; i < ep->thread.listener_count; i++)
        if (atomic_load(ep->thread.listeners[i].armed))
            return true;
    return ep->thread.always;
}

void prov_thread_listen(struct prov_ep *ep, const struct prov_listener *listener)
{
    assert(ep->thread.listener_count < PROV_LISTENERS);
    ep->thread.listeners[ep->thread.listener_count++] = *listener;
}

void prov_thread_unlisten(struct prov_ep *ep, const void *who)
{
    struct prov_ep_thread *thread = &ep->thread;

    for (unsigned i = 0; i < thread->listener_count; i++)
        if (thread->listeners[i].who == who)
            thread->listeners[i--] = thread->listeners[--thread->listener_count];
}

OUT_OF_LINE void prov_thread_used(struct prov_ep *ep)
{
    ep->thread.used = true;
    notify_listeners(ep);
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
        if (!prov_thread_is_wanted(ep)) {
            pthread_cond_wait(&thread->wanted, &ep->lock);
            continue;
        }
        moved = prov_ep_progress(ep);
        notify_listeners(ep);
        if (moved == 0 && prov_thread_is_wanted(ep))
            thread_sleep(ep);
        else
            let_in(ep);
    }
    pthread_mutex_unlock(&ep->lock);
    return NULL;
}

static int thread_want(struct prov_ep *ep)
{
    int err = 0;

    if (ep->thread.is_there)
        pthread_cond_signal(&ep->thread.wanted);
    else
        err = thread_start(&ep->thread.id, thread_run, ep);
    ep->thread.is_there = err == 0;
    return err;
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
