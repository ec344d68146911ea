/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.c - one matching engine per context id, found by number.
 *
 * Contexts are never removed while the endpoint is open.  The last one used is tried first.
 *
 * Peers choose the ids of their messages, and programs number them as they like.  So the hash
 * multiplies by a secret number, and then by a second number: consecutive ids stay an
 * arithmetic sequence under one multiplication, which one secret in fifteen maps to few slots.
 */
#include "core/core.h"

static uint64_t id_hash(const struct mbx_ep *ep, uint32_t id)
{
    uint64_t secret = id * (ep->contexts.seed | 1);

    return hash_mix(secret ^ secret >> 32);
}

static uint64_t context_hash(const void *ep, const void *slot)
{
    return id_hash(ep, ((const struct context *)hash_pointer(slot))->id);
}

static bool context_is(const void *ep, const void *slot, const void *id)
{
    (void)ep;
    return ((const struct context *)hash_pointer(slot))->id == *(const uint32_t *)id;
}

static const struct hash_kind by_id = {sizeof(void *), context_hash, context_is};

struct context *context_find(const struct mbx_ep *ep, uint32_t id)
{
    return hash_pointer(hash_find(&ep->contexts.table, &by_id, ep, id_hash(ep, id), &id));
}

struct context *context_next(const struct mbx_ep *ep, size_t *position)
{
    return hash_pointer(hash_next(&ep->contexts.table, &by_id, position));
}

/* Moves the messages of a new context into it, in their order. */
static void context_call_in(struct mbx_ep *ep, struct context *context)
{
    struct mbx_match *unknown = &ep->contexts.unknown->match;

    for (struct mbx_match_msg *next = mbx_match_next_msg(unknown, NULL), *msg;
         (msg = next) != NULL;) {
        next = mbx_match_next_msg(unknown, msg);
        if (msg->envelope.context_id != context->id)
            continue;
        mbx_match_extract(unknown, msg);
        mbx_match_keep(&context->match, msg);
    }
}

OUT_OF_LINE struct context *context_make(struct mbx_ep *ep, uint32_t id)
{
    struct context *context = context_find(ep, id);

    if (context != NULL) {
        ep->contexts.last = context;
        return context;
    }
    if (hash_reserve(&ep->contexts.table, &by_id, ep) < 0)
        return NULL;
    context = mem_alloc(sizeof *context);
    if (context == NULL)
        return NULL;
    context->id = id;
    context->use = CONTEXT_FREE;
    mbx_match_init(&context->match, &(struct mbx_match_options){.seed = ep->contexts.seed});
    (void)hash_add(&ep->contexts.table, &by_id, ep, &(void *){context});
    ep->contexts.last = context;
    if (unlikely(ep->contexts.unknown != NULL))
        context_call_in(ep, context);
    return context;
}

struct context *context_unknown(struct mbx_ep *ep)
{
    if (ep->contexts.unknown == NULL &&
        (ep->contexts.unknown = mem_alloc(sizeof *ep->contexts.unknown)) != NULL) {
        ep->contexts.unknown->use = CONTEXT_FREE;
        mbx_match_init(&ep->contexts.unknown->match,
                       &(struct mbx_match_options){.seed = ep->contexts.seed});
    }
    return ep->contexts.unknown;
}

void context_open(struct context *context, uint64_t tag, uint64_t ignore)
{
    context->use = CONTEXT_OPENED;
    context->tag = tag;
    context->ignore = ignore;
}

void context_close(struct context *context)
{
    context->use = CONTEXT_CLOSED;
}

void context_fini(struct mbx_ep *ep)
{
    struct context *context;
    size_t position = 0;

    while ((context = context_next(ep, &position)) != NULL) {
        mbx_match_fini(&context->match);
        mem_free(context);
    }
    hash_fini(&ep->contexts.table);
    if (ep->contexts.unknown != NULL)
        mbx_match_fini(&ep->contexts.unknown->match);
    mem_free(ep->contexts.unknown);
}
