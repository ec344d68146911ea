/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - the wait object of a completion queue, an event queue, a counter or a wait set.
 *
 * It counts rings.  A thread that wants to sleep
 *
 *   reads the count, requests a ring (prov_thread_arm), polls once more, and sleeps until
 *   the count has changed
 *
 * so that anything after the poll rings, and anything before it is seen.  A client
 * with a descriptor does the same by fi_trywait(), which lowers the descriptor, and poll().
 *
 *   object         how a client waits
 *   UNSPEC         fi_cq_sread() and similar calls
 *   FD, POLLFD     these, or poll() for an eventfd, which is readable from a ring until the
 *                  next fi_trywait()
 *   SET            fi_wait() on a wait set, which is rung with it
 *   YIELD          fi_cq_sread() and similar calls, which poll and yield the core
 *   MUTEX_COND     not offered: a ring between fi_trywait() and the client's wait would be
 *                  lost
 *
 * Closing        an object with waiters wakes them, and their calls return -FI_ECANCELED.
 *                fi_close() does not wait for these calls, because its thread may be the
 *                one that sleeps, in a signal handler.  So the last of fi_close() and the
 *                calls frees the object:
 *
 *                  enter   users + 1
 *                  leave   users - 1; at 0 the caller frees the object
 *                  close   closed, ring, users - 1; at 0 the caller frees the object
 *
 * A thread       that sleeps may also be cancelled (pthread_cancel), and leaves the call.
 *
 * Locks  none: a sleeping thread holds nothing that a signal handler or another thread needs.
 */
#include "base/clock.h"
#include "base/sys.h"
#include "provider/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)
#define SPIN_NS   20000
#define NAP_NS    50000

/* Bits of the word `rings`. */
#define ASLEEP 1u /* somebody may sleep */
#define RING   2u

int64_t prov_now_ns(void)
{
    return (int64_t)clock_now();
}

int64_t prov_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : prov_now_ns() + timeout_ms * NS_PER_MS;
}

void prov_sleep_once(void)
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

int prov_wait_init(struct prov_wait *w, enum fi_wait_obj object, struct fid_wait *set,
                   struct fid *owner)
{
    int err = object_check(object, set);

    if (err < 0)
        return err;
    w->object = object;
    w->fd = -1;
    w->set = NULL;
    atomic_init(&w->rings, 0);
    atomic_init(&w->raised, false);
    atomic_init(&w->closed, false);
    atomic_init(&w->users, 1);
    if (has_descriptor(object)) {
        w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (w->fd < 0)
            return -errno;
    }
    if (object == FI_WAIT_SET) {
        w->set = container_of(set, struct prov_wait_group, fid);
        err = w->set->join(w->set, owner);
    }
    return err;
}

void prov_wait_enter(struct prov_wait *w)
{
    atomic_fetch_add(&w->users, 1);
}

bool prov_wait_leave(struct prov_wait *w)
{
    return atomic_fetch_sub(&w->users, 1) == 1;
}

/* The ring wakes a client that polls the descriptor; closing the descriptor would not. */
bool prov_wait_close(struct prov_wait *w, struct fid *owner)
{
    if (w->set != NULL)
        w->set->leave(w->set, owner);
    w->set = NULL;
    atomic_store(&w->closed, true);
    prov_wait_ring(w);
    if (w->fd >= 0)
        close(w->fd);
    return prov_wait_leave(w);
}

int prov_wait_control(struct prov_wait *w, int command, void *arg)
{
    struct fi_wait_pollfd *polled = arg;
    size_t capacity;

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
    capacity = polled->nfds;
    polled->nfds = 1;
    if (capacity == 0)
        return -FI_ETOOSMALL;
    polled->change_index = 1; /* always the same descriptor */
    polled->fd[0] = (struct pollfd){.fd = w->fd, .events = POLLIN};
    return 0;
}

/* ---- ringing and sleeping -----------------------------------------------------------------
 */

/* Does not write to an eventfd that is already readable. */
static void raise_fd(struct prov_wait *w)
{
    const uint64_t one = 1;

    if (w->fd >= 0 && !atomic_exchange(&w->raised, true))
        (void)!write(w->fd, &one, sizeof one);
}

void prov_wait_ring(struct prov_wait *w)
{
    uint32_t rings = atomic_load(&w->rings);

    while (!atomic_compare_exchange_weak(&w->rings, &rings, (rings & ~ASLEEP) + RING))
        continue;
    raise_fd(w);
    if (rings & ASLEEP)
        syscall(SYS_futex, &w->rings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    if (w->set != NULL)
        w->set->ring(w->set);
}

void prov_wait_ring_armed(struct prov_wait *w, atomic_bool *armed)
{
    if (atomic_load(armed) && atomic_exchange(armed, false))
        prov_wait_ring(w);
}

/* A ring between the read and the store does not write; the poll that follows sees its cause.  A
 * ring that writes only after our read causes a spurious wake. */
void prov_wait_lower(struct prov_wait *w)
{
    uint64_t count;

    if (w->fd < 0)
        return;
    (void)!read(w->fd, &count, sizeof count);
    atomic_store(&w->raised, false);
}

uint32_t prov_wait_rings(struct prov_wait *w)
{
    return atomic_load(&w->rings) & ~ASLEEP;
}

/* A thread that is cancelled here holds nothing. -1 and errno: EAGAIN: there was a ring; EINTR:
 * a signal; ETIMEDOUT. */
static int futex_sleep(struct prov_wait *w, uint32_t rings, int64_t deadline_ns)
{
    const struct timespec until = {.tv_sec = deadline_ns / NS_PER_S,
                                   .tv_nsec = deadline_ns % NS_PER_S};
    int type, err;

    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    err = (int)syscall(SYS_futex, &w->rings, FUTEX_WAIT_BITSET_PRIVATE, rings | ASLEEP,
                       deadline_ns == INT64_MAX ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
    pthread_setcanceltype(type, NULL);
    return err;
}

int prov_wait_sleep(struct prov_wait *w, uint32_t rings, int64_t deadline_ns)
{
    int err = 0;

    if ((atomic_fetch_or(&w->rings, ASLEEP) & ~ASLEEP) == rings &&
        futex_sleep(w, rings, deadline_ns) < 0 && errno == ETIMEDOUT &&
        prov_wait_rings(w) == rings)
        err = -FI_ETIMEDOUT;
    return atomic_load(&w->closed) ? -FI_ECANCELED : err;
}

/* ---- blocking calls --------------------------------------------------------------------- */

struct prov_waiter prov_waiter_begin(struct prov_wait *wait, int64_t deadline_ns)
{
    return (struct prov_waiter){
        .wait = wait, .spin_until_ns = prov_now_ns() + SPIN_NS, .deadline_ns = deadline_ns};
}

/* Arms on one call and sleeps on the next, so that the caller polls once in between. */
int prov_waiter_wait(struct prov_waiter *waiter, int (*arm)(void *arg), void *arg)
{
    int64_t now = prov_now_ns();

    if (atomic_load(&waiter->wait->closed))
        return -FI_ECANCELED;
    if (now >= waiter->deadline_ns)
        return -FI_ETIMEDOUT;
    if (now < waiter->spin_until_ns)
        return 0;
    if (waiter->wait->object == FI_WAIT_YIELD || waiter->wait->object == FI_WAIT_NONE) {
        sys_yield();
    } else if (!waiter->is_armed) {
        waiter->rings = prov_wait_rings(waiter->wait);
        waiter->is_armed = arm(arg) == 0;
        if (!waiter->is_armed)
            prov_sleep_once();
    } else {
        waiter->is_armed = false;
        if (prov_wait_sleep(waiter->wait, waiter->rings, waiter->deadline_ns) == -FI_ECANCELED)
            return -FI_ECANCELED;
    }
    return 0; /* after the last sleep the caller polls once more */
}
