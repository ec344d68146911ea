/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flush.c - flush of an endpoint and of a worker.
 *
 * A flush waits for active messages and accesses, not for tagged sends: a program may flush an RMA window while one
 * of its synchronous sends is pending.  It is complete when none is under way, including any that begin meanwhile.  A
 * peer answers an access when it has performed it, so that a flush needs no message of its own.
 *
 * An access without a request that has failed is reported by the next flush of its endpoint, and of its worker.
 *
 * Invariant (ucpx_worker_is_valid)
 *   I1  a record in the list of flushes is OPEN, and FLUSH or CLOSE
 *   I2  ep->waits counts the records in that list that name ep, and ep->callers the calls that wait for it; ep is not
 *       freed before they end
 */
#include "ucp/door.h"

static bool must_wait(const struct ucpx_record *record)
{
    return ucpx_under_way(record->worker, record->ep) != 0;
}

/* The result of a flush of ep, or of the worker if that is NULL. */
static ucs_status_t result_of(struct ucp_worker *worker, struct ucp_ep *ep)
{
    ucs_status_t *lost = ep != NULL ? &ep->lost : &worker->lost, status = *lost;

    *lost = UCS_OK;
    return status;
}

unsigned ucpx_flushes_report(struct ucp_worker *worker)
{
    struct list *node, *next;
    unsigned count = 0;

    list_for_each_safe (node, next, &worker->flushes) {
        struct ucpx_record *record = container_of(node, struct ucpx_record, link);
        struct ucp_ep *ep = record->ep;
        ucs_status_t status;

        if (must_wait(record))
            continue;
        status = record->kind == UCPX_FLUSH ? result_of(worker, ep) : UCS_OK;
        list_remove(node);
        record->ep = NULL;
        if (ep != NULL) {
            ep->waits--;
            ucpx_ep_let_go(ep);
        }
        ucpx_record_end(record, status);
        count++;
    }
    return count;
}

void ucpx_flush_add(struct ucpx_record *record, struct ucp_ep *ep)
{
    record->ep = ep;
    if (ep != NULL)
        ep->waits++;
    list_add_tail(&record->worker->flushes, &record->link);
}

/* ep: or NULL, all of the worker. */
static ucs_status_ptr_t flush(struct ucp_worker *worker, struct ucp_ep *ep,
                              const struct ucpx_how *how)
{
    struct ucpx_record *record = ucpx_record_begin(worker, UCPX_FLUSH, how);

    if (record == NULL)
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    record->ep = ep;
    if (!must_wait(record)) {
        record->ep = NULL;
        return ucpx_record_at_once(record, how, result_of(worker, ep));
    }
    if (how->mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) {
        record->ep = NULL;
        return ucpx_record_refuse(record, UCS_ERR_NO_RESOURCE);
    }
    ucpx_flush_add(record, ep);
    return ucpx_request_of(record);
}

static ucs_status_ptr_t flush_locked(struct ucp_worker *worker, struct ucp_ep *ep,
                                     const struct ucpx_how *how)
{
    ucs_status_ptr_t result;

    ucpx_lock(worker);
    result = flush(worker, ep, how);
    ucpx_unlock(worker);
    return result;
}

static ucs_status_ptr_t flush_nbx(struct ucp_worker *worker, struct ucp_ep *ep,
                                  const ucp_request_param_t *param)
{
    struct ucpx_how how;
    ucs_status_t status = ucpx_how_read(&how, param, UCPX_CALLS_SEND);

    return status == UCS_OK ? flush_locked(worker, ep, &how) : UCS_STATUS_PTR(status);
}

static ucs_status_ptr_t flush_nb(struct ucp_worker *worker, struct ucp_ep *ep,
                                 ucp_send_callback_t cb)
{
    const struct ucpx_how how = {.calls = cb != NULL ? UCPX_CALLS_SEND_NB : UCPX_CALLS_NONE,
                                 .callback.send_nb = cb};

    return flush_locked(worker, ep, &how);
}

/* A callback may call this, and no other callback is called then. */
void ucpx_flush_wait(struct ucp_worker *worker, struct ucp_ep *ep)
{
    if (ep != NULL)
        ep->callers++;
    while (ucpx_under_way(worker, ep) != 0) {
        ucpx_unlock(worker);
        ucp_worker_progress(worker);
        ucpx_lock(worker);
    }
    if (ep != NULL)
        ep->callers--;
}

static ucs_status_t flush_all(struct ucp_worker *worker, struct ucp_ep *ep)
{
    ucs_status_t status;

    ucpx_lock(worker);
    ucpx_flush_wait(worker, ep);
    status = result_of(worker, ep);
    if (ep != NULL)
        ucpx_ep_let_go(ep);
    ucpx_unlock(worker);
    return status;
}

ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    return flush_nbx(ep->worker, ep, param);
}

ucs_status_ptr_t ucp_ep_flush_nb(ucp_ep_h ep, unsigned flags, ucp_send_callback_t cb)
{
    (void)flags;
    return flush_nb(ep->worker, ep, cb);
}

ucs_status_t ucp_ep_flush(ucp_ep_h ep)
{
    return flush_all(ep->worker, ep);
}

ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h worker, const ucp_request_param_t *param)
{
    return flush_nbx(worker, NULL, param);
}

ucs_status_ptr_t ucp_worker_flush_nb(ucp_worker_h worker, unsigned flags,
                                     ucp_send_callback_t cb)
{
    (void)flags;
    return flush_nb(worker, NULL, cb);
}

ucs_status_t ucp_worker_flush(ucp_worker_h worker)
{
    return flush_all(worker, NULL);
}
