/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel.c - fi_cancel(): finds a receive by its context, and takes it back.
 *
 * Most clients never cancel, so nothing is kept for it until the first call.  That one
 * puts all receives under way into a hash table by context, and from then on each is
 * added when it is posted and removed when its record is released: a cancel costs the
 * same however many receives there are.
 *
 * Invariants, once ep->index.heads is there
 *   I1  the records with same_at set are those of receives that are not released
 *   I2  *op->same_at == op; the list of a hash ends with NULL
 *   I3  index_size is a power of two, at least half the number of records if memory
 *       allowed
 */
#include "provider/cancel.h"
#include "provider/cq.h"
#include "provider/ep.h"
#include "provider/event.h"
#include "provider/multi.h"

#include <errno.h>
#include <stdlib.h>

#define INDEX_FIRST 256

static struct prov_op **index_head(const struct prov_ep *ep, const void *context)
{
    uint64_t hash = (uint64_t)(uintptr_t)context * UINT64_C(0x9e3779b97f4a7c15);

    return &ep->index.heads[(hash >> 32) & (ep->index.size - 1)];
}

void prov_index_add(struct prov_ep *ep, struct prov_op *op)
{
    struct prov_op **head = index_head(ep, op->context);

    op->same = *head;
    op->same_at = head;
    if (op->same != NULL)
        op->same->same_at = &op->same;
    *head = op;
}

void prov_index_remove(struct prov_op *op)
{
    *op->same_at = op->same;
    if (op->same != NULL)
        op->same->same_at = op->same_at;
    op->same_at = NULL;
}

static bool is_receive(const struct prov_op *op)
{
    return op->kind == PROV_OP_RECV || op->kind == PROV_OP_MULTI_QUEUED;
}

static size_t index_size_for(const struct prov_ep *ep)
{
    size_t size = INDEX_FIRST;

    while (size < ep->ops.slab_count * PROV_OPS_PER_SLAB / 2)
        size *= 2;
    return size;
}

/* A table for the records that there are; if memory is short, the old one serves. */
static OUT_OF_LINE void index_build(struct prov_ep *ep)
{
    size_t size = index_size_for(ep);
    struct prov_op **heads = calloc(size, sizeof *heads);

    if (heads == NULL)
        return;
    free(ep->index.heads);
    ep->index.heads = heads;
    ep->index.size = size;
    for (struct prov_op_slab *slab = ep->ops.slabs; slab != NULL; slab = slab->next)
        for (size_t i = PROV_OPS_PER_SLAB; i-- != 0;)
            if (is_receive(&slab->ops[i]))
                prov_index_add(ep, &slab->ops[i]);
}

void prov_index_free(struct prov_ep *ep)
{
    free(ep->index.heads);
}

/* ---- taking back ---------------------------------------------------------------------- */

/* A device may have matched it in the meantime.  True: it was cancelled. */
static bool cancel_settle(struct prov_ep *ep, mbx_request request)
{
    int err;

    while ((err = mbx_cancel(ep->mbx, request)) == -EINPROGRESS)
        mbx_progress(ep->mbx);
    return err == -ECANCELED;
}

enum cancelled {
    CANCEL_NONE,  /* it has matched: it completes normally */
    CANCEL_TELLS, /* its own completion says so */
    CANCEL_NOW,   /* we say so, now */
    CANCEL_LATER, /* the room that was reserved will be used */
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

    for (op = *index_head(ep, context); op != NULL && done == CANCEL_NONE; op = next) {
        next = op->same;
        if (op->context != context)
            continue;
        prov_event_cancelled(event, context, prov_multi_is_many(op));
        done = cancel_op(ep, op);
    }
    return done;
}

/*
 * 0 means that the completion will say FI_ECANCELED: a receive that has matched is an
 * error, because Open MPI waits for exactly that completion after a 0.
 *
 * A receive that multi.c has cannot make its completion itself; the room for that is
 * reserved here, before anything is done.
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
    if (ep->index.heads == NULL || ep->index.size < index_size_for(ep))
        index_build(ep);
    able = ep->index.heads != NULL;
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
