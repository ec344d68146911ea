/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c - conversion of Matchbox's completions to libfabric's.
 */
#include "provider/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define DROP_BATCH 16 /* events */

void prov_event_cancelled(struct prov_event *event, void *context, bool many)
{
    *event = (struct prov_event){
        .context = context,
        .flags = FI_MSG | FI_RECV | (many ? FI_MULTI_RECV : 0),
        .source = FI_ADDR_NOTAVAIL,
        .error = FI_ECANCELED,
        .prov_errno = ECANCELED,
    };
}

void prov_event_written(struct prov_event *event, struct prov_ep *ep,
                        const struct mbx_completion *c)
{
    *event = (struct prov_event){
        .flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
        .len = c->status.size,
        .data = c->status.data,
        .source = prov_av_find(ep, c->status.source),
    };
}

/* Remote CQ data that nobody can read must not stop its sender, as it would: only a limited
 * number of events per peer can wait.  FI_REMOTE_WRITE counts the write itself as any other. */
void prov_events_drop(struct prov_ep *ep)
{
    struct mbx_completion completions[DROP_BATCH];

    while (mbx_poll(ep->mbx, MBX_EVENTS, completions, DROP_BATCH) == DROP_BATCH)
        continue;
}

int prov_event_error(int error)
{
    return error == -EMSGSIZE ? FI_ETRUNC : -error;
}

void prov_bounce_finish(struct prov_op *op, const struct mbx_completion *c)
{
    const char *from = op->bounce->data;
    size_t left = op->kind == PROV_OP_RECV ? c->received : 0;

    for (size_t i = 0; i < op->bounce->count && left != 0; i++) {
        const struct iovec *iov = &op->bounce->iov[i];
        size_t part = left < iov->iov_len ? left : iov->iov_len;

        if (part != 0)
            memcpy(iov->iov_base, from, part);
        from += part;
        left -= part;
    }
    free(op->bounce);
    op->bounce = NULL;
}
