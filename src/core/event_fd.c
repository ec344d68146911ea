/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event_fd.c - a descriptor that becomes readable when there may be work: mbx_fd(), mbx_arm().
 *
 * An endpoint does not sleep on a descriptor: shared memory has a futex, a device a flag.  So a
 * thread, the dozer, sleeps as mbx_sleep() does, and writes to an eventfd when it wakes.
 *
 *   user       mbx_arm: a round of progress; nothing?                      epoll says: readable
 *                   │ DOZE                                                       ^
 *   dozer      PARKED ──> BUSY: wait_doze: arms, looks once more ──> ASLEEP ── rings ──> WOKEN
 *                ^          │ found something: rings                                      │
 *                └──────────┴────────────── DOZE: again; PARK ────────────────────────────┘
 *
 * Which thread uses the endpoint.  With MBX_THREADS=one there is no lock.  The dozer uses the
 * endpoint only before ASLEEP and after WOKEN, while the user waits for it in mbx_arm(), in a
 * call that sleeps itself, or in mbx_close().  While it is ASLEEP other threads may make all
 * calls (transport.h), and it stays WOKEN until the next order.  With MBX_THREADS=many the
 * endpoint's lock protects it: the dozer is one more waiting thread, mbx_arm() does not wait
 * for it, and it does not stay WOKEN.
 *
 * No wake is lost.  Nothing is missed between the round of mbx_arm() and the sleep, because
 * wait_doze() checks again after arming.  If the dozer still sleeps when mbx_arm() is called
 * again, it needs no new arming if the transport stays armed (limits.stays_armed); otherwise it
 * is woken and dozes again.  The same holds with a device, and if peers have to be watched that
 * were not watched before.
 *
 * Devices.  A woken dozer stays in the transport's sleep call until the next order, so a device
 * could not get the receiving half of the transport.  event_fd_steps_aside() parks that dozer.
 *
 * The descriptor is written when `armed` becomes `rung`, and read when `rung` is taken back, both
 * under the lock: so it is readable while, and only while, it is rung.
 */
#include "core/event_fd.h"

#include "core/core.h"

#include <pthread.h>

#include "base/sys.h"
#include "base/thread.h"
#include "core/waiter.h"

enum order { ORDER_NONE, ORDER_DOZE, ORDER_PARK, ORDER_END };
enum phase { PARKED, BUSY, ASLEEP, WOKEN };

struct event_fd {
    struct mbx_ep *ep;
    int fd;
    pthread_t dozer;
    pthread_mutex_t lock; /* guards all members below; taken inside the endpoint's lock */
    pthread_cond_t changed;
    enum order order; /* set by the user */
    enum phase phase; /* set by the dozer */
    bool armed, rung;
    bool stays; /* an armed sleep stays armed for the next one */
    bool wants_watch;
    bool watches; /* the dozer wakes up to check whether peers are alive */
};

static void set_phase(struct event_fd *e, enum phase phase)
{
    e->phase = phase;
    pthread_cond_broadcast(&e->changed);
}

static void set_order(struct event_fd *e, enum order order)
{
    e->order = order;
    pthread_cond_broadcast(&e->changed);
    if (e->phase == ASLEEP)
        e->ep->net.transport->ops->wake(e->ep->net.transport);
}

/* ---- the descriptor ---- */

static void ring(struct event_fd *e)
{
    const uint64_t one = 1;

    if (!e->armed)
        return;
    e->armed = false;
    e->rung = true;
    while (sys_write(e->fd, &one, sizeof one) < 0) /* fails only in tests */
        ;
}

/* Makes the descriptor neither armed nor readable.  True: it was readable. */
static bool quiet(struct event_fd *e)
{
    bool was_rung = e->rung;
    uint64_t count;

    e->armed = e->rung = false;
    while (was_rung && sys_read(e->fd, &count, sizeof count) < 0)
        ;
    return was_rung;
}

/* ---- the dozer ---- */

/* A transport that sleeps in slices may sleep again without returning, after an order was
 * given: to arm again, which this call has done if the transport stays armed, or to return. */
static void dozer_sleeps(void *arg)
{
    struct event_fd *e = arg;

    pthread_mutex_lock(&e->lock);
    if (e->order == ORDER_DOZE && e->stays)
        e->order = ORDER_NONE;
    if (e->order != ORDER_NONE)
        e->ep->net.transport->ops->wake(e->ep->net.transport);
    set_phase(e, ASLEEP);
    pthread_mutex_unlock(&e->lock);
}

static void dozer_slept(void *arg)
{
    struct event_fd *e = arg;

    pthread_mutex_lock(&e->lock);
    if (e->order == ORDER_NONE)
        ring(e);
    set_phase(e, WOKEN);
    while (!e->ep->wait.has_threads && e->order == ORDER_NONE)
        pthread_cond_wait(&e->changed, &e->lock);
    set_phase(e, BUSY);
    pthread_mutex_unlock(&e->lock);
}

static void dozer_doze(struct event_fd *e)
{
    const struct mbx_sleep_hooks hooks = {
        .sleeps = dozer_sleeps, .slept = dozer_slept, .arg = e};

    e->order = ORDER_NONE;
    e->watches = e->wants_watch;
    set_phase(e, BUSY);
    pthread_mutex_unlock(&e->lock);
    wait_doze(e->ep, &hooks);
    pthread_mutex_lock(&e->lock);
    if (e->order == ORDER_NONE)
        ring(e);
}

static void *dozer_run(void *arg)
{
    struct event_fd *e = arg;

    pthread_mutex_lock(&e->lock);
    while (e->order != ORDER_END) {
        if (e->order == ORDER_DOZE) {
            dozer_doze(e);
            continue;
        }
        if (e->order == ORDER_PARK)
            e->order = ORDER_NONE;
        set_phase(e, PARKED);
        pthread_cond_wait(&e->changed, &e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* ---- requests of the user's thread ---- */

/* The dozer sleeps or is parked, or has found something and made the descriptor readable. */
static bool has_settled(const struct event_fd *e)
{
    return e->order == ORDER_NONE && (e->phase == ASLEEP || e->phase == PARKED || e->rung);
}

/* 0 armed; 1 the dozer has found something already (reported only with MBX_THREADS=one, where
 * this waits for the dozer). */
static int event_fd_arm(struct event_fd *e, bool wants_watch)
{
    bool found = false;

    pthread_mutex_lock(&e->lock);
    quiet(e);
    e->armed = true;
    e->wants_watch = wants_watch;
    if (e->phase != ASLEEP || !e->stays || wants_watch > e->watches) {
        set_order(e, ORDER_DOZE);
        while (!e->ep->wait.has_threads && !has_settled(e))
            pthread_cond_wait(&e->changed, &e->lock);
        found = !e->ep->wait.has_threads && e->rung;
    }
    if (found)
        quiet(e);
    pthread_mutex_unlock(&e->lock);
    return found;
}

void event_fd_recall_now(struct event_fd *e)
{
    pthread_mutex_lock(&e->lock);
    quiet(e);
    if (e->phase != PARKED) {
        set_order(e, ORDER_PARK);
        while (e->phase != PARKED)
            pthread_cond_wait(&e->changed, &e->lock);
    }
    pthread_mutex_unlock(&e->lock);
}

bool event_fd_steps_aside(struct event_fd *e)
{
    bool is_up;

    pthread_mutex_lock(&e->lock);
    is_up = e->phase != ASLEEP;
    if (e->phase == WOKEN) {
        set_order(e, ORDER_PARK); /* the descriptor stays readable */
        while (e->phase != PARKED)
            pthread_cond_wait(&e->changed, &e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    return is_up;
}

/* ---- open and close ---- */

static int event_fd_open(struct mbx_ep *ep)
{
    struct event_fd *e = mem_calloc(1, sizeof *e);
    int err;

    if (e == NULL)
        return -ENOMEM;
    e->ep = ep;
    e->stays = ep->net.transport->limits.stays_armed && ep_matches_here(ep);
    e->fd = sys_eventfd(0, 0);
    err = e->fd < 0 ? -errno : 0;
    if (err < 0)
        goto free;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    err = thread_start(&e->dozer, dozer_run, e);
    if (err < 0)
        goto close;
    ep->wait.event_fd = e;
    return 0;

close:
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    sys_close(e->fd);
free:
    mem_free(e);
    return err;
}

void event_fd_close(struct mbx_ep *ep)
{
    struct event_fd *e = ep->wait.event_fd;

    if (e == NULL)
        return;
    pthread_mutex_lock(&e->lock);
    quiet(e);
    set_order(e, ORDER_END);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->dozer, NULL);
    ep->wait.event_fd = NULL;
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    sys_close(e->fd);
    mem_free(e);
}

/* ---- calls ---- */

int mbx_fd(struct mbx_ep *ep)
{
    int err = 0;

    ep_lock(ep);
    if (ep->wait.event_fd == NULL)
        err = event_fd_open(ep);
    if (err == 0)
        err = ep->wait.event_fd->fd;
    ep_unlock(ep);
    return err;
}

/* Is there work, or an entry to read, without a sleep? */
static bool has_something(struct mbx_ep *ep)
{
    if (progress_round(ep) > 0 || wait_has_entries(ep))
        return true;
    if (!ep->wait.is_stirred || ep->wait.has_threads)
        return false;
    event_fd_recall_now(ep->wait.event_fd); /* there is work that is not done while the dozer
                                               sleeps */
    return progress_round(ep) > 0 || wait_has_entries(ep);
}

int mbx_arm(struct mbx_ep *ep)
{
    bool found, wants_watch;

    if (ep->wait.event_fd == NULL)
        return log_argument("mbx_arm", "ep", 0, "mbx_fd() was not called");
    ep_lock(ep);
    found = has_something(ep);
    wants_watch = liveness_is_on(ep);
    progress_check_soon(ep); /* the first round after the sleep makes the slow checks */
    ep_unlock(ep);
    return found ? 1 : event_fd_arm(ep->wait.event_fd, wants_watch);
}

int mbx_disarm(struct mbx_ep *ep)
{
    struct event_fd *e = ep->wait.event_fd;

    if (e == NULL)
        return log_argument("mbx_disarm", "ep", 0, "mbx_fd() was not called");
    pthread_mutex_lock(&e->lock);
    quiet(e);
    pthread_mutex_unlock(&e->lock);
    return 0;
}
