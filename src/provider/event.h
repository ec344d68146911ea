/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.h - from Matchbox's completion to what libfabric's client is told: event.c.
 */
#ifndef PROVIDER_EVENT_H
#define PROVIDER_EVENT_H

#include "provider/compat.h"
#include "provider/envelope.h"
#include "provider/ep.h"

/* Something that a queue has to report before it polls its endpoints again. */
struct prov_event {
    void *context;
    uint64_t flags;
    size_t len;
    void *buf; /* where the message lies, if the receive took many; else NULL */
    uint64_t data;
    uint64_t tag;
    fi_addr_t source;
    size_t olen;
    int error; /* 0, or a positive FI_ error */
    int prov_errno;
};

/* What is reported of an untagged receive that was taken back here. */
void prov_event_cancelled(struct prov_event *event, void *context, bool many);
/* What is reported of a write of a peer that carried data (MBX_EVENTS). */
void prov_event_written(struct prov_event *event, struct prov_ep *ep,
                        const struct mbx_completion *c);
/* Matchbox's errors are errno values; libfabric has a name of its own for one. */
int prov_event_error(int error);
/* What a scattered receive brought goes to the client's vector; the bounce is freed. */
void prov_bounce_finish(struct prov_op *op, const struct mbx_completion *c);

/* What the completion of a send or a receive is for the client; takes the operation's record
 * back.  False: there is nothing to report; event->context is set nevertheless. */
static inline bool prov_event_from(struct prov_ep *ep, const struct mbx_completion *c,
                                   bool wants_source, struct prov_event *event)
{
    struct prov_op *op = c->user;
    bool quiet = op->quiet;

    event->context = op->context;
    event->flags = op->flags;
    if (unlikely(op->bounce != NULL))
        prov_bounce_finish(op, c);
    if (unlikely(ep->cntrs.counts))
        prov_count_op(&ep->cntrs, op->kind, c->error);
    prov_op_put(&ep->ops, op);
    if (unlikely(c->error == 0 && quiet))
        return false;
    event->len = c->kind == MBX_RECVS ? c->received : 0;
    event->buf = NULL;
    event->data = 0;
    event->tag = 0;
    event->source = FI_ADDR_NOTAVAIL;
    event->error = 0;
    if (likely(c->kind == MBX_RECVS)) {
        event->tag = c->status.tag & ~PROV_HAS_DATA;
        if (c->status.tag & PROV_HAS_DATA) {
            event->flags |= FI_REMOTE_CQ_DATA;
            event->data = c->status.data;
        }
        if (wants_source && c->error != -ECANCELED)
            event->source = prov_av_find(ep, c->status.source);
    }
    if (unlikely(c->error != 0)) {
        event->error = prov_event_error(c->error);
        event->prov_errno = -c->error;
        event->olen = c->error == -EMSGSIZE ? c->status.size - c->received : 0;
    }
    return true;
}

#endif
