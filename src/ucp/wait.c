/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.c - a client that sleeps until its worker has something to do (UCP_FEATURE_WAKEUP).
 *
 *   ucp_worker_get_efd, ucp_worker_arm   a descriptor for the client's own loop; or it is in an epoll set of the client's
 *   ucp_worker_wait                      sleeps here
 *   ucp_worker_signal                    ends either, from any thread
 *
 * Nothing is missed between the last look and the sleep:
 *
 *   what arrives    the library sees to it: mbx_arm(), mbx_sleep()
 *   a signal        stays in is_signaled until ucp_worker_arm() or ucp_worker_wait() takes it
 *   a cancel        completes a request outside of ucp_worker_progress(), and wakes who sleeps
 *   an operation    that begins after ucp_worker_arm(), or while another thread sleeps, may need progress that nothing
 *                   which arrives would cause: is_armed lets ucpx_record_begin() wake the sleeper
 *
 * Nobody sleeps while a callback is due or runs, or a flush waits: ucp_worker_progress() is called for these.  If
 * several threads use the worker, a thread does not sleep before it has checked again after something was reported: it
 * may have checked its request before that, and would miss its end.
 */
#include "ucp/door.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/log.h"
#include "base/sys.h"

static bool can_wait(const struct ucp_worker *worker)
{
    return worker->context->features & UCP_FEATURE_WAKEUP;
}

/* This thread's entry: one that it has already, or the oldest. */
static struct ucpx_looker *looker_of_caller(struct ucp_worker *worker)
{
    struct ucpx_looker *looker;

    for (unsigned i = 0; i < UCPX_LOOKERS; i++)
        if (pthread_equal(worker->lookers[i].thread, pthread_self()))
            return &worker->lookers[i];
    looker = &worker->lookers[worker->next_looker++ % UCPX_LOOKERS];
    *looker = (struct ucpx_looker){.thread = pthread_self()};
    return looker;
}

/* Was something reported since this thread looked? */
static bool take_reports(struct ucp_worker *worker)
{
    struct ucpx_looker *looker;
    bool has_news;

    if (worker->reports == 0)
        return false;
    looker = looker_of_caller(worker);
    has_news = looker->seen != worker->reports;
    looker->seen = worker->reports;
    return has_news;
}

/* Takes a signal, and what was reported. */
static bool take_news(struct ucp_worker *worker)
{
    bool has_reports = take_reports(worker);

    return ucpx_worker_has_due(worker) || atomic_exchange(&worker->is_signaled, false) ||
           has_reports;
}

OUT_OF_LINE void ucpx_worker_wake(struct ucp_worker *worker)
{
    worker->is_armed = false;
    mbx_wake(worker->mbx);
}

void ucpx_worker_has_news(struct ucp_worker *worker)
{
    worker->reports += worker->has_lock;
    if (worker->is_armed)
        ucpx_worker_wake(worker);
}

/* ---- a descriptor ---- */

/* When the worker closes its descriptor, the set forgets it. */
ucs_status_t ucpx_wait_open(struct ucp_worker *worker, const ucp_worker_params_t *params)
{
    uint64_t fields = params->field_mask;
    struct epoll_event event = {.events = EPOLLIN};
    int fd;

    if (!(fields & UCP_WORKER_PARAM_FIELD_EVENT_FD) || !can_wait(worker))
        return UCS_OK;
    if (fields & UCP_WORKER_PARAM_FIELD_USER_DATA)
        event.data.ptr = params->user_data;
    fd = mbx_fd(worker->mbx);
    if (fd < 0)
        return ucpx_status(fd);
    worker->is_watched = true;
    if (epoll_ctl(params->event_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return UCS_OK;
    LOG_ERROR("libucp: the event descriptor %d of ucp_worker_create is refused: %s; it must be "
              "of an epoll set",
              params->event_fd, strerror(errno));
    return UCS_ERR_INVALID_PARAM;
}

ucs_status_t ucp_worker_get_efd(ucp_worker_h worker, int *fd)
{
    int result;

    if (!can_wait(worker))
        return UCS_ERR_INVALID_PARAM;
    if (worker->is_watched)
        return UCS_ERR_UNSUPPORTED;
    ucpx_lock(worker);
    result = mbx_fd(worker->mbx);
    ucpx_unlock(worker);
    if (result < 0)
        return ucpx_status(result);
    *fd = result;
    return UCS_OK;
}

static ucs_status_t arm(struct ucp_worker *worker)
{
    int result;

    if (take_news(worker))
        return UCS_ERR_BUSY;
    result = mbx_fd(worker->mbx);
    if (result >= 0)
        result = mbx_arm(worker->mbx);
    if (result < 0)
        return ucpx_status(result);
    if (result == 0 && take_news(worker)) {
        (void)mbx_disarm(worker->mbx);
        result = 1;
    }
    worker->is_armed = result == 0;
    return result == 0 ? UCS_OK : UCS_ERR_BUSY;
}

ucs_status_t ucp_worker_arm(ucp_worker_h worker)
{
    ucs_status_t status;

    if (!can_wait(worker))
        return UCS_ERR_INVALID_PARAM;
    ucpx_lock(worker);
    status = arm(worker);
    ucpx_unlock(worker);
    return status;
}

/* ---- sleeping ---- */

/* The library would wake now: so does a signal that has come since it was looked for. */
static void sleeps(void *arg)
{
    struct ucp_worker *worker = arg;

    if (atomic_load(&worker->is_signaled))
        mbx_wake(worker->mbx);
    ucpx_unlock(worker);
}

static void slept(void *arg)
{
    ucpx_lock(arg);
}

/* 0; -EBUSY another thread sleeps. */
static int nap(struct ucp_worker *worker)
{
    const struct mbx_sleep_hooks hooks = {.sleeps = sleeps, .slept = slept, .arg = worker};
    int err = 0;

    do {
        if (take_news(worker))
            break;
        worker->is_armed = true;
        err = mbx_sleep(worker->mbx, -1, &hooks);
    } while (err == -EINTR);
    return err;
}

/* If several threads wait, one sleeps.  The others return at once, and yield their cores. */
ucs_status_t ucp_worker_wait(ucp_worker_h worker)
{
    int err;

    if (!can_wait(worker))
        return UCS_ERR_INVALID_PARAM;
    ucpx_lock(worker);
    err = nap(worker);
    ucpx_unlock(worker);
    if (err == -EBUSY)
        sys_yield();
    return err == 0 || err == -EBUSY ? UCS_OK : ucpx_status(err);
}

ucs_status_t ucp_worker_signal(ucp_worker_h worker)
{
    if (!can_wait(worker))
        return UCS_ERR_INVALID_PARAM;
    atomic_store(&worker->is_signaled, true);
    mbx_wake(worker->mbx);
    return UCS_OK;
}

/* Memory changes by the progress of its owner: so one round is made, without callbacks. */
void ucp_worker_wait_mem(ucp_worker_h worker, void *address)
{
    bool tires;

    (void)address;
    ucpx_lock(worker);
    tires = mbx_progress(worker->mbx) == 0 && door_idle_tires(&worker->idle);
    ucpx_unlock(worker);
    if (tires)
        sys_yield();
}
