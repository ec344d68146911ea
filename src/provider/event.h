/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.h - conversion of Matchbox's completions to libfabric's: event.c.
 */
#ifndef PROVIDER_EVENT_H
#define PROVIDER_EVENT_H

#include "provider/compat.h"
#include "provider/envelope.h"
#include "provider/ep.h"

/* A report that a queue must make before it polls its endpoints again. */
struct prov_event {
    void *context;
    uint64_t flags;
    size_t len;
    void *buf; /* the place of the message in a FI_MULTI_RECV buffer; or NULL */
    uint64_t data;
    uint64_t tag;
    fi_addr_t source;
    size_t olen;
    int error; /* 0, or a positive FI_ error */
    int prov_errno;
};

/* The event of an untagged receive that the provider has cancelled. */
void prov_event_cancelled(struct prov_event *event, void *context, bool many);
/* The event of a peer's write that carried data (MBX_EVENTS). */
void prov_event_written(struct prov_event *event, struct prov_ep *ep,
                        const struct mbx_completion *c);
/* The libfabric error for an errno value of Matchbox. */
int prov_event_error(int error);
/* Scatters a receive into the client's vector; frees the bounce. */
void prov_bounce_finish(struct prov_op *op, const struct mbx_completion *c);

/* Converts the completion of a send or a receive; releases the operation's record.  False: there
 * is nothing to report; event->context is set nevertheless. */
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
