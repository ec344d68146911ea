/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq_wait.c - waiting on a completion queue: blocking reads, signals, and the checks for
 * fi_trywait() and the sets.
 *
 *   read ── nothing? ──> arm (thread.c) ──> read once more ──> sleep until the queue is rung
 *
 * A queue is rung for completions of its endpoints, by their threads (thread.c) or by other threads
 * of the client that use them, and for events that are set aside in it (cq.c).  A ring may be
 * spurious: the reader then repeats the loop.
 */
#include "provider/cq.h"
#include "provider/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct prov_cq *prov_cq_wait_of(struct fid_cq *fid)
{
    return container_of(fid, struct prov_cq, fid);
}

int prov_cq_arm(struct prov_cq *cq)
{
    int err = 0;

    prov_cq_lock(cq);
    cq->next = PROV_CQ_PROGRESS;
    for (unsigned i = 0; i < cq->source_count && err == 0; i++)
        err = prov_thread_arm(cq->sources[i].ep, &cq->armed);
    prov_cq_unlock(cq);
    return err;
}

bool prov_cq_is_ready(struct prov_cq *cq)
{
    bool is;

    prov_cq_collect(cq);
    prov_cq_lock(cq);
    is = cq->event_count != 0;
    prov_cq_unlock(cq);
    return is;
}

static size_t entry_size(enum fi_cq_format format)
{
    switch (format) {
    case FI_CQ_FORMAT_MSG:
        return sizeof(struct fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA:
        return sizeof(struct fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
        return sizeof(struct fi_cq_tagged_entry);
    case FI_CQ_FORMAT_CONTEXT:
    case FI_CQ_FORMAT_UNSPEC:
        break;
    }
    return sizeof(struct fi_cq_entry);
}

int prov_cq_try(struct prov_cq *cq)
{
    int err;

    if (cq->wait.object == FI_WAIT_NONE)
        return -FI_EINVAL;
    if (cq->wait.object == FI_WAIT_YIELD) /* there is nothing to sleep on */
        return -FI_EAGAIN;
    prov_wait_lower(&cq->wait);
    err = prov_cq_arm(cq);
    if (err < 0)
        return err;
    return prov_cq_is_ready(cq) || atomic_exchange(&cq->signalled, false) ? -FI_EAGAIN : 0;
}

static int prov_cq_wait_arm(void *arg)
{
    return prov_cq_arm(arg);
}

/* Waits for one entry or more, or for an error. -FI_EAGAIN: the time is up, or fi_cq_signal()
 * was called; -FI_ECANCELED: the queue is closed. */
static ssize_t cq_await(struct prov_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
                        int64_t deadline_ns)
{
    struct prov_waiter waiter = prov_waiter_begin(&cq->wait, deadline_ns);
    int err;

    do {
        ssize_t n = prov_cq_readfrom(&cq->fid, buf, count, src_addr);

        if (n != -FI_EAGAIN || atomic_exchange(&cq->signalled, false))
            return n;
        err = prov_waiter_wait(&waiter, prov_cq_wait_arm, cq);
    } while (err == 0);
    return err == -FI_ETIMEDOUT ? -FI_EAGAIN : err;
}

/* The smallest number of entries that the caller waits for. */
static size_t threshold(const struct prov_cq *cq, const void *cond, size_t count)
{
    size_t wanted = (size_t)(uintptr_t)cond;

    if (!cq->has_threshold || wanted == 0)
        return 1;
    return wanted < count ? wanted : count;
}

/* As cq_await(), but until `wanted` entries are there. */
static ssize_t cq_await_all(struct prov_cq *cq, void *buf, size_t count, fi_addr_t *src_addr,
                            size_t wanted, int64_t deadline_ns)
{
    size_t done = 0;

    do {
        ssize_t n = cq_await(cq, (char *)buf + done * entry_size(cq->format), count - done,
                             src_addr == NULL ? NULL : src_addr + done, deadline_ns);

        if (n < 0)
            return done == 0 ? n : (ssize_t)done;
        done += (size_t)n;
    } while (done < wanted);
    return (ssize_t)done;
}

void prov_cq_free(struct prov_cq *cq)
{
    pthread_mutex_destroy(&cq->lock);
    free(cq->sources);
    free(cq->events);
    free(cq);
}

static void cq_leave(void *arg)
{
    struct prov_cq *cq = arg;

    if (prov_wait_leave(&cq->wait))
        prov_cq_free(cq);
}

ssize_t prov_cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src_addr,
                          const void *cond, int timeout)
{
    struct prov_cq *cq = prov_cq_wait_of(fid);
    ssize_t n;

    if (cq->wait.object == FI_WAIT_NONE || cq->wait.object == FI_WAIT_SET)
        return -FI_EINVAL;
    if (count == 0) /* no event could end the wait */
        return prov_cq_readfrom(&cq->fid, buf, 0, src_addr);
    prov_wait_enter(&cq->wait);
    pthread_cleanup_push(cq_leave, cq);
    n = cq_await_all(cq, buf, count, src_addr, threshold(cq, cond, count),
                     prov_deadline(timeout));
    pthread_cleanup_pop(1);
    return n;
}

ssize_t prov_cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond,
                      int timeout)
{
    return prov_cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

int prov_cq_signal(struct fid_cq *fid)
{
    struct prov_cq *cq = prov_cq_wait_of(fid);

    if (cq->wait.object == FI_WAIT_NONE)
        return -FI_EINVAL;
    atomic_store(&cq->signalled, true);
    prov_wait_ring(&cq->wait);
    return 0;
}
