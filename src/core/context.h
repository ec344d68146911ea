/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.h - from a context id to its matching engine.
 */
#ifndef CORE_CONTEXT_H
#define CORE_CONTEXT_H

#include <stdint.h>

#include <matchbox/match.h>

struct mbx_ep;

struct context {
    uint32_t id;
    struct mbx_match match;
};

/* context.c */
struct ep_contexts {
    struct context *last;      /* the one used last, or NULL */
    struct context *unclaimed; /* or NULL */
    struct context **table;    /* open addressing, slots is a power of two */
    uint32_t slots, count;
    uint64_t seed; /* of the engines' hash: peers choose tags, and must not know it */
};

/* The engine of a context id, made on first use; NULL: no memory. */
struct context *context_make(struct mbx_ep *ep, uint32_t id);
/* The same, or NULL if there is none yet. */
struct context *context_find(const struct mbx_ep *ep, uint32_t id);
void context_fini(struct mbx_ep *ep);

/* Where messages wait whose context id nobody here has named yet: an engine for each that a
 * peer makes up would be memory that others exhaust.  NULL: no memory. */
struct context *context_unclaimed(struct mbx_ep *ep);

#endif
