/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.h - the send side of an endpoint: send.c.
 */
#ifndef PROVIDER_SEND_H
#define PROVIDER_SEND_H

#include "provider/compat.h"
#include "provider/op.h"

struct prov_ep;

/* The part of an endpoint. */
struct prov_ep_send {
    struct prov_op *sent, **sent_end; /* sends that completed at once, to be reported */
    size_t inject_limit;              /* of mbx_inject(); longer messages are copied here */
    uint64_t flags;                   /* for operations that pass no flags */
    bool quiet;                       /* operations without flags make no completion */
    bool selective;                   /* FI_SELECTIVE_COMPLETION */
    size_t size;                      /* queue depth as announced */
};

void prov_send_init(struct prov_ep *ep, size_t inject_limit, const struct fi_tx_attr *attr);
void prov_send_set_flags(struct prov_ep *ep, uint64_t flags);
void prov_send_set_selective(struct prov_ep *ep, bool selective);

/* Adds a send that completed at once, without a completion of Matchbox, to the list of sends to
 * be reported; takes the oldest from the list, which must not be empty. */
static inline void prov_sent_add(struct prov_ep_send *send, struct prov_op *op)
{
    op->next = NULL;
    *send->sent_end = op;
    send->sent_end = &op->next;
}

static inline struct prov_op *prov_sent_take(struct prov_ep_send *send)
{
    struct prov_op *op = send->sent;

    send->sent = op->next;
    if (send->sent == NULL)
        send->sent_end = &send->sent;
    return op;
}

#endif
