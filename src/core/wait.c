/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - waits of one thread or of many.
 *
 *   mbx_wait ── complete? ── a few rounds ──> wait_until
 *                                               │
 *                      nobody polls ────────────┴──────────── another thread polls
 *                           v                                      v
 *   wait_poll: rounds of progress, and between             wait_notified: gives the lock and
 *   them it lets others have the lock; idle for            sleeps until it is notified
 *   WAIT_KEEP, others may have the core; for                       │
 *   MBX_SPIN, it sleeps in the transport, which                    │
 *   gives the lock                                                 │
 *                           └───────────── check again ─────────────┘
 *
 * So exactly one of the waiting threads polls or sleeps in the transport, ep->wait.poller; the
 * others cost nothing.  Waiters are notified under the lock, when it is given or after a round
 * that moved something: a waiter whose wait is over, and, when the poller leaves, the one that
 * has waited longest, which then becomes the poller.  With one thread there is one waiter,
 * which polls.
 *
 * Invariants, whenever the lock is free (checked by wait_is_valid(), except "on its way out"
 * and wake(), which leave no state)
 *   I1  a waiter whose wait is over is notified, or on its way out, or is the poller and not
 *       asleep, or the transport's wake() has been called for it
 *   I2  if there are waiters and no poller, one of them is notified
 *   I3  everything that was queued after the poller went to sleep was followed by wake()
 *
 * mbx_sleep() is only the sleep, for a caller that does its own polling: it makes a poller that
 * waits for no completion.
 *
 * A wait yields its core, by a sleep or by sys_yield(): no later than WAIT_KEEP after the last
 * progress, or when its timeout ends before that.  So a waiting rank does not keep the rank
 * that it waits for off its core, whether or not it is known that there are more ranks than
 * cores, and however long MBX_SPIN is.  A call that only checks (mbx_test(), mbx_progress(),
 * mbx_poll(), and a wait with a timeout of 0) never yields the core: its caller may have other
 * work.
 *
 * Four other files wait by the same rule, but measure in their own way (docs/decisions/0072): pml/progress.c,
 * pml/poller.c, door/idle.c and device/soft/agent_main.c.
 *
 * A waiter clears its flag, checks, and then gives the lock to sleep; threads notify under the
 * lock: so no notification between the check and the sleep is missed.
 */
#include "base/sys.h"
#include "core/core.h"
#include "core/event_fd.h"
#include "core/module.h"
#include "core/waiter.h"

/* Empty polls between two clock reads. */
#define WAIT_POLLS 64

/* Empty polls before a wait starts to relax the core between polls: a relax costs up to 40 ns,
 * much of the latency of a message that is already on its way. */
#define WAIT_EAGER 1024

/* The longest time that a wait polls if others need the core. */
#define WAIT_SPIN_SHARED (5 * CLOCK_US)

/* The longest time that a wait without progress keeps its core, while it is not known that
 * others need it: a message and its answer take less. */
#define WAIT_KEEP (50 * CLOCK_US)

static bool waits_for_any(const struct waiter *w)
{
    return w->request == 0 && w->array == NULL;
}

/* The remaining time; negative: no limit. */
static int64_t wait_left(const struct waiter *w, uint64_t now_ns)
{
    uint64_t gone = now_ns - w->start_ns;

    if (w->timeout_ns < 0)
        return -1;
    return gone < (uint64_t)w->timeout_ns ? w->timeout_ns - (int64_t)gone : 0;
}

/* The polling time of a wait.  With more processes or waiters than cores, one of them may need
 * our core. */
static uint64_t wait_spin(const struct mbx_ep *ep)
{
    uint64_t spin = ep->settings.spin_ns;
    bool is_shared = ep_is_oversubscribed(ep) || ep->wait.count > ep->limits.cores;

    return is_shared && spin > WAIT_SPIN_SHARED ? WAIT_SPIN_SHARED : spin;
}

/* ---- polling ---- */

/* Lets other threads have the lock, which may change everything. */
static inline void wait_let_in(struct mbx_ep *ep)
{
    if (unlikely(lock_is_wanted(&ep->wait.lock)))
        lock_pass(&ep->wait.lock);
}

/* Lets other threads have the core, and the lock. */
static void wait_yield(struct mbx_ep *ep)
{
    ep_unlock(ep);
    sys_yield();
    ep_lock(ep);
}

void wait_refuse(struct mbx_ep *ep, void (*call)(void))
{
    ep->wait.has_threads = ep->wait.detours = true; /* so that all calls take the lock */
    lock_refuse(&ep->wait.lock, call);
}

void ep_own(struct mbx_ep *ep)
{
    ep->wait.has_threads = false;
    ep->wait.detours = ep->wait.is_recorded;
}

void ep_share(struct mbx_ep *ep)
{
    ep->wait.has_threads = ep->wait.detours = true;
    ep_wake_sleeper(ep);
}

void wait_sleeps(void *arg)
{
    struct mbx_ep *ep = arg;

    ep->wait.is_asleep = true;
    ep_unlock(ep);
    if (ep->wait.hooks != NULL && ep->wait.hooks->sleeps != NULL)
        ep->wait.hooks->sleeps(ep->wait.hooks->arg);
}

void wait_slept(void *arg)
{
    struct mbx_ep *ep = arg;

    if (ep->wait.hooks != NULL && ep->wait.hooks->slept != NULL)
        ep->wait.hooks->slept(ep->wait.hooks->arg);
    ep_lock(ep);
    ep->wait.is_asleep = false;
}

/* Sleeps.  Nothing has moved for a while, and no other thread had the lock since the last
 * round: so earlier work was tried, and anything new wakes us. */
static int wait_sleep(struct mbx_ep *ep, const struct waiter *w)
{
    int err;

    int64_t left_ns = wait_left(w, clock_now());

    if (liveness_is_on(ep) && (left_ns < 0 || left_ns > liveness_ns(ep)))
        left_ns = liveness_ns(ep);
    progress_check_soon(ep); /* make the slow checks right after the sleep */
    ep->wait.is_stirred = false;
    err = device_sleep(ep, left_ns);
    ep->stats.sleeps++;
    return err == -EINTR ? err : 0;
}

/* Is there work that needs no packet? */
static bool is_moving(const struct mbx_ep *ep)
{
    return !list_is_empty(&ep->progress.active);
}

/* Polls until the wait of w is over; 0; -ETIMEDOUT; -EINTR. */
static int wait_poll(struct mbx_ep *ep, struct waiter *w)
{
    uint64_t idle_ns = 0, kept_ns = 0, now_ns;
    unsigned idle = 0;
    int err = 0, moved;

    wait_check(ep); /* for completions during wait_request() */
    for (unsigned round = 1; err == 0; round++) {
        wait_let_in(ep);
        if (wait_is_over(ep, w))
            return 0;
        moved = progress_round(ep);
        if (moved > 0 || ep->wait.wakeup_pending)
            wait_check(ep);
        if (moved > 0)
            idle = 0;
        else if (++idle > WAIT_EAGER)
            cpu_relax();
        if (round % WAIT_POLLS != 0)
            continue;
        now_ns = clock_now();
        if (w->start_ns == 0)
            w->start_ns = now_ns;
        if (wait_left(w, now_ns) == 0)
            return -ETIMEDOUT;
        if (idle < WAIT_POLLS) {
            idle_ns = 0;
            continue;
        }
        if (idle_ns == 0)
            idle_ns = kept_ns = now_ns;
        if (now_ns - idle_ns >= wait_spin(ep) && !is_moving(ep)) {
            err = wait_sleep(ep, w);
        } else if (now_ns - kept_ns >= WAIT_KEEP) {
            wait_yield(ep);
            kept_ns = now_ns;
        }
    }
    return err;
}

/* ---- being notified ---- */

/* Sleeps until w is notified.  0; -ETIMEDOUT; -EINTR. */
static int wait_asleep(struct waiter *w)
{
    while (!wait_is_notified(w)) {
        int64_t left = wait_left(w, clock_now());

        if (left == 0)
            return -ETIMEDOUT;
        if (sys_futex_wait(&w->notified, 0, left < 0 ? UINT64_MAX : (uint64_t)left) < 0 &&
            errno == EINTR)
            return -EINTR;
    }
    return 0;
}

/* Lets the poller work until w is notified.  0; -ETIMEDOUT; -EINTR. */
static int wait_notified(struct mbx_ep *ep, struct waiter *w)
{
    uint64_t spin_ns = wait_spin(ep), now_ns = clock_now(), until_ns = now_ns + spin_ns;
    uint64_t kept_ns = now_ns;
    int err = 0;

    if (w->start_ns == 0)
        w->start_ns = now_ns;
    ep_unlock(ep);
    while (!wait_is_notified(w) && now_ns < until_ns && wait_left(w, now_ns) != 0) {
        for (int i = 0; i < WAIT_POLLS && !wait_is_notified(w); i++)
            cpu_relax();
        now_ns = clock_now();
        if (now_ns - kept_ns >= WAIT_KEEP) {
            sys_yield();
            kept_ns = now_ns;
        }
    }
    if (!wait_is_notified(w)) {
        err = wait_asleep(w);
        ep_lock(ep);
        ep->stats.sleeps++;
        return err;
    }
    ep_lock(ep);
    return 0;
}

/* ---- waiting ---- */

static void wait_join(struct mbx_ep *ep, struct waiter *w)
{
    list_add_tail(&ep->wait.waiters, &w->node);
    ep->wait.count++;
    ep->wait.any_count += waits_for_any(w);
    w->has_news = true; /* for the first check */
}

/* If nobody polls any more, the next waiter has to. */
static void wait_part(struct mbx_ep *ep, struct waiter *w)
{
    list_remove(&w->node);
    ep->wait.count--;
    ep->wait.any_count -= waits_for_any(w);
    if (ep->wait.poller == NULL && !list_is_empty(&ep->wait.waiters))
        wait_notify_one(waiter_of(ep->wait.waiters.next));
}

OUT_OF_LINE int wait_until(struct mbx_ep *ep, struct waiter *w)
{
    int err = 0;

    event_fd_recall(ep);
    wait_join(ep, w);
    while (err == 0 && !wait_is_over(ep, w)) {
        atomic_store_explicit(&w->notified, 0, memory_order_relaxed);
        if (ep->wait.poller != NULL) {
            err = wait_notified(ep, w);
        } else {
            ep->wait.poller = w;
            err = wait_poll(ep, w);
            ep->wait.poller = NULL;
        }
    }
    wait_part(ep, w);
    if (err != 0 && wait_is_over(ep, w))
        return 0;
    if (err == -ETIMEDOUT && w->timeout_ns != 0)
        wait_yield(ep); /* the caller may wait again, each time for less than WAIT_KEEP */
    return err;
}

/* As wait_request(), after the first rounds. */
static OUT_OF_LINE int wait_long(struct mbx_ep *ep, struct request *req, int64_t timeout_ns,
                                 struct mbx_completion *completion)
{
    struct waiter w = {.request = req->completion.request, .timeout_ns = timeout_ns};
    int err;

    if (ep->wait.has_threads)
        req->flags |= REQUEST_AWAITED;
    err = wait_until(ep, &w);
    if (err < 0)
        return err;
    req = request_find(ep, w.request);
    if (req == NULL)
        return -ESTALE; /* another thread has taken it */
    if (req->state != REQUEST_COMPLETE)
        return failure_notify(req);
    return request_consume(ep, req, completion);
}

/* req is not complete yet: mbx_wait() from here on. */
static OUT_OF_LINE int wait_request(struct mbx_ep *ep, struct request *req, int64_t timeout_ns,
                                    struct mbx_completion *completion)
{
    int polls = 0;

    if (unlikely(req->flags & REQUEST_DONE))
        return request_refuse_callback("mbx_wait", req->completion.request);
    do /* most answers are on their way already */
        progress_round(ep);
    while (req->state != REQUEST_COMPLETE && ++polls < WAIT_POLLS &&
           !lock_is_wanted(&ep->wait.lock));
    if (unlikely(req->state != REQUEST_COMPLETE))
        return wait_long(ep, req, timeout_ns, completion);
    return request_consume(ep, req, completion);
}

static inline int wait_start(struct mbx_ep *ep, mbx_request request, int64_t timeout_ns,
                             struct mbx_completion *completion)
{
    struct request *req = request_find(ep, request);

    if (unlikely(req == NULL))
        return -ESTALE;
    if (req->state != REQUEST_COMPLETE)
        return wait_request(ep, req, timeout_ns, completion);
    return request_consume(ep, req, completion);
}

static OUT_OF_LINE int wait_locked(struct mbx_ep *ep, mbx_request request, int64_t timeout_ns,
                                   struct mbx_completion *completion)
{
    int err;

    ep_lock(ep);
    err = wait_start(ep, request, timeout_ns, completion);
    ep_unlock(ep);
    return err;
}

int mbx_wait(struct mbx_ep *ep, mbx_request request, int64_t timeout_ns,
             struct mbx_completion *completion)
{
    if (unlikely(ep->wait.has_threads))
        return wait_locked(ep, request, timeout_ns, completion);
    return wait_start(ep, request, timeout_ns, completion);
}

int mbx_wait_queues(struct mbx_ep *ep, unsigned queues, int64_t timeout_ns)
{
    struct waiter w = {.queues = queues, .timeout_ns = timeout_ns};
    int err;

    if (!queues_are_valid(queues))
        return queues_refused("mbx_wait_queues", queues);
    ep_lock(ep);
    err = wait_until(ep, &w);
    ep_unlock(ep);
    return err;
}

/* Sleeps as the poller, so that other threads notify us (MBX_THREADS=many). */
static int wait_sleep_as_poller(struct mbx_ep *ep, struct waiter *w,
                                const struct mbx_sleep_hooks *hooks)
{
    int err;

    ep->wait.poller = w;
    ep->wait.hooks = hooks;
    err = wait_sleep(ep, w);
    ep->wait.hooks = NULL;
    ep->wait.poller = NULL;
    return err;
}

void wait_closing(struct mbx_ep *ep, int64_t timeout_ns)
{
    struct waiter w = {.timeout_ns = timeout_ns};

    ep->wait.poller = &w;
    ep->wait.is_stirred = false;
    device_sleep(ep, timeout_ns);
    ep->wait.poller = NULL;
}

/* Sleeps once. */
static int wait_nap(struct mbx_ep *ep, struct waiter *w, const struct mbx_sleep_hooks *hooks)
{
    int err;

    event_fd_recall(ep);
    if (ep->wait.poller != NULL)
        return -EBUSY;
    if (is_moving(ep))
        return 0; /* there is work that does not come through the transport */
    wait_join(ep, w);
    err = wait_sleep_as_poller(ep, w, hooks);
    wait_part(ep, w);
    return err == 0 && wait_left(w, clock_now()) == 0 ? -ETIMEDOUT : err;
}

void wait_doze(struct mbx_ep *ep, const struct mbx_sleep_hooks *hooks)
{
    struct waiter w = {.queues = QUEUES_ALL, .timeout_ns = -1, .start_ns = clock_now()};

    ep_lock(ep);
    wait_join(ep, &w);
    atomic_store_explicit(&w.notified, 0, memory_order_relaxed);
    if (!wait_has_entries(ep) && !is_moving(ep)) {
        if (ep->wait.poller != NULL)
            wait_notified(ep, &w);
        else
            wait_sleep_as_poller(ep, &w, hooks);
    }
    wait_part(ep, &w);
    ep_unlock(ep);
}

int mbx_ready(struct mbx_ep *ep, unsigned queues)
{
    int result;

    if (!queues_are_valid(queues))
        return queues_refused("mbx_ready", queues);
    ep_lock(ep);
    result = wait_any_done(ep, queues);
    ep_unlock_unchanged(ep);
    return result;
}

int mbx_sleep(struct mbx_ep *ep, int64_t timeout_ns, const struct mbx_sleep_hooks *hooks)
{
    struct waiter w = {.timeout_ns = timeout_ns, .start_ns = clock_now()};
    int err;

    if (hooks != NULL && hooks->flags != 0)
        return log_argument("mbx_sleep", "hooks->flags", hooks->flags, "unknown flag");
    ep_lock(ep);
    err = wait_nap(ep, &w, hooks);
    ep_unlock(ep);
    return err;
}

void mbx_wake(struct mbx_ep *ep)
{
    ep->net.transport->ops->wake(ep->net.transport);
}
