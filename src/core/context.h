/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.h - from a context id to its matching engine.
 */
#ifndef CORE_CONTEXT_H
#define CORE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include <matchbox/match.h>

#include "base/hash.h"

struct mbx_ep;

/* Which messages are current is a question of some bits of their tags: mbx_context_open(). */
enum context_use {
    CONTEXT_FREE,   /* nobody has said so: all are */
    CONTEXT_OPENED, /* those that have these bits */
    CONTEXT_CLOSED, /* those that have others: of whoever opens it next */
};

struct context {
    uint32_t id;
    enum context_use use;
    struct mbx_match match;
    uint64_t tag, ignore; /* unless it is CONTEXT_FREE; 1: the bit is not compared */
};

/* context.c */
struct ep_contexts {
    struct context *last;    /* the one used last, or NULL */
    struct context *unknown; /* or NULL */
    struct hash table;       /* of pointers to them */
    uint64_t seed;           /* of the engines' hash: peers choose tags, and must not know it */
};

/* The engine of a context id, made on first use; NULL: no memory. */
struct context *context_make(struct mbx_ep *ep, uint32_t id);
/* The same, or NULL if there is none yet. */
struct context *context_find(const struct mbx_ep *ep, uint32_t id);
/* Walks all contexts, as hash_next() walks slots. */
struct context *context_next(const struct mbx_ep *ep, size_t *position);
void context_fini(struct mbx_ep *ep);

/* Those of its messages that have these bits are current from now on. */
void context_open(struct context *context, uint64_t tag, uint64_t ignore);
/* Those that were are not. */
void context_close(struct context *context);

/* Can no receive want a message with this tag, not even a later one? */
static inline bool context_is_over(const struct context *context, uint64_t tag)
{
    bool differs = ((tag ^ context->tag) & ~context->ignore) != 0;

    return context->use != CONTEXT_FREE && differs == (context->use == CONTEXT_OPENED);
}

/* Where messages wait whose context id nobody here has named yet: an engine for each that a
 * peer makes up would be memory that others exhaust.  NULL: no memory. */
struct context *context_unknown(struct mbx_ep *ep);

#endif
