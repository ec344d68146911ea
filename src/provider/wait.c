/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - what a client sleeps on: the wait object of a completion queue, an event queue, a
 * counter or a wait set.
 *
 * It counts rings.  Whoever wants to sleep
 *
 *   reads the count, asks to be rung (prov_watch_arm), looks once more, and sleeps until
 *   the count has changed
 *
 * so that what comes after the look rings, and what came before it is seen.  A client
 * with a descriptor does the same by fi_trywait(), which lowers the descriptor, and poll().
 *
 *   object         how a client waits
 *   UNSPEC         fi_cq_sread() and its like
 *   FD, POLLFD     these, or poll() for an eventfd, which is readable from a ring until the
 *                  next fi_trywait()
 *   SET            fi_wait() on a wait set, which is rung with it
 *   YIELD          fi_cq_sread() and its like, which poll and give the core away
 *   MUTEX_COND     not offered: a ring between fi_trywait() and the client's wait would be
 *                  lost
 *
 * Locks  its own, behind all others.
 */
#include "provider/provider.h"

#include <sched.h>
#include <sys/eventfd.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)
#define SPIN_NS   20000
#define NAP_NS    50000

int64_t prov_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t prov_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : prov_now_ns() + timeout_ms * NS_PER_MS;
}

void prov_nap(void)
{
    const struct timespec some = {.tv_nsec = NAP_NS};

    nanosleep(&some, NULL);
}

/* ---- open and close --------------------------------------------------------------------- */

static bool has_descriptor(enum fi_wait_obj object)
{
    return object == FI_WAIT_FD || object == FI_WAIT_POLLFD;
}

static int object_check(enum fi_wait_obj object, struct fid_wait *set)
{
    switch (object) {
    case FI_WAIT_NONE:
    case FI_WAIT_UNSPEC:
    case FI_WAIT_FD:
    case FI_WAIT_POLLFD:
    case FI_WAIT_YIELD:
        return 0;
    case FI_WAIT_SET:
        return set == NULL ? -FI_EINVAL : 0;
    case FI_WAIT_MUTEX_COND:
        return -FI_ENOSYS;
    }
    return -FI_EINVAL;
}

static void init_changed(pthread_cond_t *changed)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(changed, &attr);
    pthread_condattr_destroy(&attr);
}

int prov_wait_init(struct prov_wait *w, enum fi_wait_obj object, struct fid_wait *set,
                   struct fid *owner)
{
    int err = object_check(object, set);

    if (err < 0)
        return err;
    w->object = object;
    w->fd = -1;
    w->set = NULL;
    w->rings = 0;
    w->raised = false;
    if (has_descriptor(object)) {
        w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (w->fd < 0)
            return -errno;
    }
    if (object == FI_WAIT_SET) {
        err = prov_wait_set_add(set, owner);
        if (err < 0)
            return err;
        w->set = set;
    }
    pthread_mutex_init(&w->lock, NULL);
    init_changed(&w->changed);
    return 0;
}

void prov_wait_fini(struct prov_wait *w, struct fid *owner)
{
    if (w->set != NULL)
        prov_wait_set_remove(w->set, owner);
    if (w->fd >= 0)
        close(w->fd);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

int prov_wait_control(struct prov_wait *w, int command, void *arg)
{
    struct fi_wait_pollfd *polled = arg;
    size_t room;

    if (command == FI_GETWAITOBJ) {
        *(enum fi_wait_obj *)arg = w->object;
        return 0;
    }
    if (command != FI_GETWAIT || w->fd < 0)
        return -FI_ENOSYS;
    if (w->object == FI_WAIT_FD) {
        *(int *)arg = w->fd;
        return 0;
    }
    room = polled->nfds;
    polled->nfds = 1;
    if (room == 0)
        return -FI_ETOOSMALL;
    polled->change_index = 1; /* it is always the same descriptor */
    polled->fd[0] = (struct pollfd){.fd = w->fd, .events = POLLIN};
    return 0;
}

/* ---- ringing and sleeping -----------------------------------------------------------------
 */

/* An eventfd that is already readable is left alone. */
static void raise_fd(struct prov_wait *w)
{
    const uint64_t one = 1;

    if (w->fd >= 0 && !w->raised)
        w->raised = write(w->fd, &one, sizeof one) == (ssize_t)sizeof one;
}

void prov_wait_ring(struct prov_wait *w)
{
    pthread_mutex_lock(&w->lock);
    w->rings++;
    raise_fd(w);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->set != NULL)
        prov_wait_set_ring(w->set);
}

void prov_wait_lower(struct prov_wait *w)
{
    uint64_t count;

    pthread_mutex_lock(&w->lock);
    if (w->raised)
        w->raised = read(w->fd, &count, sizeof count) != (ssize_t)sizeof count;
    pthread_mutex_unlock(&w->lock);
}

uint64_t prov_wait_rings(struct prov_wait *w)
{
    uint64_t rings;

    pthread_mutex_lock(&w->lock);
    rings = w->rings;
    pthread_mutex_unlock(&w->lock);
    return rings;
}

bool prov_wait_sleep(struct prov_wait *w, uint64_t rings, int64_t deadline_ns)
{
    struct timespec until = {.tv_sec = deadline_ns / NS_PER_S,
                             .tv_nsec = deadline_ns % NS_PER_S};
    bool rung;
    int err = 0;

    pthread_mutex_lock(&w->lock);
    while (w->rings == rings && err == 0)
        err = deadline_ns == INT64_MAX ? pthread_cond_wait(&w->changed, &w->lock)
                                       : pthread_cond_timedwait(&w->changed, &w->lock, &until);
    rung = w->rings != rings;
    pthread_mutex_unlock(&w->lock);
    return rung;
}

/* ---- blocking calls --------------------------------------------------------------------- */

struct prov_waiter prov_waiter_begin(struct prov_wait *wait, int64_t deadline_ns)
{
    return (struct prov_waiter){
        .wait = wait, .spin_until_ns = prov_now_ns() + SPIN_NS, .deadline_ns = deadline_ns};
}

/* Armed first and asleep only after one more look, which is the caller's. */
bool prov_waiter_rest(struct prov_waiter *waiter, int (*arm)(void *arg), void *arg)
{
    int64_t now = prov_now_ns();

    if (now >= waiter->deadline_ns)
        return false;
    if (now < waiter->spin_until_ns)
        return true;
    if (waiter->wait->object == FI_WAIT_YIELD || waiter->wait->object == FI_WAIT_NONE) {
        sched_yield();
    } else if (!waiter->is_armed) {
        waiter->rings = prov_wait_rings(waiter->wait);
        waiter->is_armed = arm(arg) == 0;
        if (!waiter->is_armed)
            prov_nap();
    } else {
        prov_wait_sleep(waiter->wait, waiter->rings, waiter->deadline_ns);
        waiter->is_armed = false;
    }
    return true;
}
