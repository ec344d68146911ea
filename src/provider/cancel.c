/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel.c - fi_cancel(): finds a receive by its context (index.c), and cancels it.
 */
#include "provider/cancel.h"
#include "provider/cq.h"
#include "provider/ep.h"
#include "provider/event.h"
#include "provider/index.h"
#include "provider/multi.h"

#include <errno.h>

/* A device may match the receive before it handles the cancel.  True if the receive was
 * cancelled. */
static bool cancel_settle(struct prov_ep *ep, mbx_request request)
{
    int err;

    while ((err = mbx_cancel(ep->mbx, request)) == -EINPROGRESS)
        mbx_progress(ep->mbx);
    return err == -ECANCELED;
}

enum cancelled {
    CANCEL_NONE,  /* the receive has matched, and completes normally */
    CANCEL_TELLS, /* its own completion will report the cancel */
    CANCEL_NOW,   /* the caller makes the completion, now */
    CANCEL_LATER, /* the completion comes with the last part, in the reserved space */
};

static enum cancelled cancel_op(struct prov_ep *ep, struct prov_op *op)
{
    if (op->kind == PROV_OP_MULTI_QUEUED) {
        int err = prov_multi_cancel(ep, op);

        return err == 0 ? CANCEL_NOW : err == -FI_EINPROGRESS ? CANCEL_LATER : CANCEL_NONE;
    }
    if (mbx_cancel(ep->mbx, op->request) != 0)
        return CANCEL_NONE;
    return cancel_settle(ep, op->request) ? CANCEL_TELLS : CANCEL_NONE;
}

/* Fills event for CANCEL_NOW. */
static enum cancelled cancel_locked(struct prov_ep *ep, void *context, struct prov_event *event)
{
    enum cancelled done = CANCEL_NONE;
    struct prov_op *op, *next;

    for (op = prov_index_first(ep, context); op != NULL && done == CANCEL_NONE; op = next) {
        next = op->same;
        if (op->context != context)
            continue;
        prov_event_cancelled(event, context, prov_multi_is_many(op));
        done = cancel_op(ep, op);
    }
    return done;
}

/*
 * 0 means that a completion with FI_ECANCELED will come.  A receive that has matched is an
 * error, because Open MPI waits for exactly that completion after a 0.
 *
 * A receive in multi.c cannot make its own completion; space for the completion is reserved here,
 * before anything is done.
 */
ssize_t prov_cancel(fid_t fid, void *context)
{
    struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);
    struct prov_cq *cq = ep->caps & FI_MULTI_RECV ? ep->cqs.recv : NULL;
    enum cancelled done = CANCEL_NONE;
    struct prov_event event;
    bool able;

    if (cq != NULL && prov_cq_reserve(cq) < 0)
        return -FI_ENOMEM;
    prov_ep_lock(ep);
    able = prov_index_build(ep);
    if (able)
        done = cancel_locked(ep, context, &event);
    if (ep->cntrs.counts && (done == CANCEL_NOW || done == CANCEL_LATER))
        prov_count_op(&ep->cntrs, PROV_OP_RECV, -ECANCELED);
    prov_ep_unlock(ep);
    if (cq != NULL && done == CANCEL_NOW)
        prov_cq_push(cq, &event);
    else if (cq != NULL && done != CANCEL_LATER)
        prov_cq_unreserve(cq);
    if (!able)
        return -FI_ENOMEM;
    return done == CANCEL_NONE ? -FI_ENOENT : 0;
}
