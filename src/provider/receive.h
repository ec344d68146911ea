/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.h - the receive side of an endpoint: receive.c.
 */
#ifndef PROVIDER_RECEIVE_H
#define PROVIDER_RECEIVE_H

#include "provider/compat.h"

struct prov_ep;

/* A message taken by PEEK and CLAIM, until a CLAIM with the same context. */
struct prov_claim {
    struct prov_claim *next;
    void *context;
    mbx_message message;
    struct mbx_status status;
};

/* The part of an endpoint. */
struct prov_ep_recv {
    uint64_t flags; /* for operations that pass no flags */
    bool quiet;     /* operations without flags make no completion */
    bool selective; /* FI_SELECTIVE_COMPLETION */
    bool directed;  /* receives compare their source address */
    struct prov_claim *claims;
    size_t size; /* queue depth as announced */
};

/* ep->caps must be set. */
void prov_recv_init(struct prov_ep *ep, const struct fi_rx_attr *attr);
void prov_recv_set_flags(struct prov_ep *ep, uint64_t flags);
void prov_recv_set_selective(struct prov_ep *ep, bool selective);
/* Frees the claims of an endpoint that closes. */
void prov_claims_free(struct prov_ep *ep);

#endif
