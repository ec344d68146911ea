/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * multi.h - buffers that take many messages, and the untagged receives posted after them:
 * multi.c.
 */
#ifndef PROVIDER_MULTI_H
#define PROVIDER_MULTI_H

#include "provider/compat.h"
#include "provider/op.h"

struct prov_ep;

/* For multi.c and valid.c alone. */
struct prov_multi {
    struct prov_multi *next, *before; /* on the list */
    struct prov_op *op;               /* the client's receive */
    struct prov_op *sentinel;         /* or NULL */
    uint32_t source;                  /* peer, or MBX_ANY_SOURCE */
    bool many; /* false: an ordinary receive, posted after such a buffer */
    bool listed;
    bool cancelled; /* to be reported when the parts are complete */
    char *buf;
    size_t len, used, min;
    unsigned parts; /* not yet complete */
};

/* The part of an endpoint: untagged receives that are matched here, and a message for one of
 * them. */
struct prov_ep_multi {
    struct prov_multi *first, *last;
    mbx_message message; /* 0: none */
    unsigned any, unguarded;
    struct mbx_status status;
    struct prov_multi *taker;
    size_t min; /* FI_OPT_MIN_MULTI_RECV */
};

/* Must untagged receives of this endpoint wait here? */
static inline bool prov_multi_is_busy(const struct prov_ep_multi *multi)
{
    return multi->first != NULL || multi->message != 0;
}

void prov_multi_init(struct prov_ep *ep);
/* Sets the minimum for buffers that are posted from now on. */
void prov_multi_set_min(struct prov_ep *ep, size_t min);
/* Puts a receive on the list; many: its buffer takes messages until it is full. */
int prov_multi_post(struct prov_ep *ep, struct prov_op *op, uint32_t source, void *buf,
                    size_t len, bool many);
/* Matches the receives on the list with the messages that have arrived. */
void prov_multi_pull(struct prov_ep *ep);

/* 0: the receive is gone; -FI_EINPROGRESS: it will end with PROV_FINISH_CANCELLED;
 * -FI_ENOENT. */
int prov_multi_cancel(struct prov_ep *ep, struct prov_op *op);
/* A part has completed; a sentinel has ended, because its peer is gone or its receive is. */
prov_finish_fn prov_multi_finish_part, prov_multi_finish_sentinel;
/* Does this receive take many messages? */
bool prov_multi_is_many(const struct prov_op *op);
/* Frees the receives of an endpoint that closes; its records still exist. */
void prov_multi_free(struct prov_ep *ep);

#endif
