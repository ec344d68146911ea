/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.h - maps a context id to its matching engine.
 */
#ifndef CORE_CONTEXT_H
#define CORE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include <matchbox/match.h>

#include "base/hash.h"

struct mbx_ep;

/* Whether a message is current depends on some bits of its tag: mbx_context_open(). */
enum context_use {
    CONTEXT_FREE,   /* neither opened nor closed: all messages are current */
    CONTEXT_OPENED, /* messages with these bits are current */
    CONTEXT_CLOSED, /* messages with other bits are current: they belong to the next use of the
                       id */
};

struct context {
    uint32_t id;
    enum context_use use;
    struct mbx_match match;
    uint64_t tag, ignore; /* if not CONTEXT_FREE; 1: the bit is not compared */
};

/* Written by context.c. */
struct ep_contexts {
    struct context *last;    /* the last one used, or NULL */
    struct context *unknown; /* or NULL */
    struct hash table;       /* of pointers to contexts */
    uint64_t seed;           /* for the hash of the engines, which is secret because peers
                                choose tags */
};

/* The engine of a context id, made on first use; NULL: no memory. */
struct context *context_make(struct mbx_ep *ep, uint32_t id);
/* The engine of a context id, or NULL if there is none yet. */
struct context *context_find(const struct mbx_ep *ep, uint32_t id);
/* Walks all contexts, as hash_next() walks slots. */
struct context *context_next(const struct mbx_ep *ep, size_t *position);
void context_fini(struct mbx_ep *ep);

/* From now on the messages with these bits are current. */
void context_open(struct context *context, uint64_t tag, uint64_t ignore);
/* The messages that were current are no longer current. */
void context_close(struct context *context);

/* Is this tag over, so that no receive, not even a later one, can match a message with it? */
static inline bool context_is_over(const struct context *context, uint64_t tag)
{
    bool differs = ((tag ^ context->tag) & ~context->ignore) != 0;

    return context->use != CONTEXT_FREE && differs == (context->use == CONTEXT_OPENED);
}

/* Holds the messages whose context id was not used here yet: with an engine for each such id,
 * peers could exhaust the memory.  NULL: no memory. */
struct context *context_unknown(struct mbx_ep *ep);

#endif
