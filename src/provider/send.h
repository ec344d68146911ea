/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.h - what an endpoint knows of its sends: send.c.
 */
#ifndef PROVIDER_SEND_H
#define PROVIDER_SEND_H

#include "provider/compat.h"
#include "provider/op.h"

struct prov_ep;

/* An endpoint's part. */
struct prov_ep_send {
    struct prov_op *sent, **sent_end; /* sends that were complete at once, to be reported */
    size_t inject_limit;              /* of mbx_inject(); longer ones are copied here */
    uint64_t flags;                   /* for operations that pass no flags */
    bool quiet;                       /* such operations make no completion */
    bool selective;                   /* FI_SELECTIVE_COMPLETION */
    size_t size;                      /* queue depth as announced */
};

void prov_send_init(struct prov_ep *ep, size_t inject_limit, const struct fi_tx_attr *attr);
void prov_send_set_flags(struct prov_ep *ep, uint64_t flags);
void prov_send_set_selective(struct prov_ep *ep, bool selective);

/* A send that is complete, and that no queue of Matchbox's tells of, joins those that are to be
 * reported; and the oldest of them, of which there is one, leaves them. */
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
