/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context.c - one matching engine per context id, found by number.
 *
 * Open addressing with linear probing; ids are never removed while the endpoint is
 * open.  The id used last is tried first.  At most three quarters of the slots are
 * in use, so a search ends.
 *
 * Peers choose the ids of their messages, and programs number them as they like.  So the
 * hash multiplies by a secret number.  Once more by another one: ids that count up remain a
 * row under one multiplication, which with one secret in fifteen falls into few places.
 */
#include "core/core.h"

static uint32_t context_hash(const struct mbx_ep *ep, uint32_t id, uint32_t slots)
{
    uint64_t secret = id * (ep->contexts.seed | 1);

    return (uint32_t)((secret ^ secret >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 32) &
           (slots - 1);
}

/* The slot of id, or the empty one where it would go. */
static struct context **context_slot(const struct mbx_ep *ep, struct context **table,
                                     uint32_t slots, uint32_t id)
{
    uint32_t at = context_hash(ep, id, slots);

    while (table[at] != NULL && table[at]->id != id)
        at = (at + 1) & (slots - 1);
    return &table[at];
}

static int context_grow(struct mbx_ep *ep)
{
    uint32_t slots = ep->contexts.slots == 0 ? 16 : ep->contexts.slots * 2;
    struct context **table = mem_calloc(slots, sizeof(struct context *));

    if (table == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < ep->contexts.slots; i++)
        if (ep->contexts.table[i] != NULL)
            *context_slot(ep, table, slots, ep->contexts.table[i]->id) = ep->contexts.table[i];
    mem_free(ep->contexts.table);
    ep->contexts.table = table;
    ep->contexts.slots = slots;
    return 0;
}

struct context *context_find(const struct mbx_ep *ep, uint32_t id)
{
    return ep->contexts.slots != 0
               ? *context_slot(ep, ep->contexts.table, ep->contexts.slots, id)
               : NULL;
}

/* The messages of a context that is new come in, in their order. */
static void context_call_in(struct mbx_ep *ep, struct context *context)
{
    struct mbx_match *unclaimed = &ep->contexts.unclaimed->match;

    for (struct mbx_match_msg *next = mbx_match_next_msg(unclaimed, NULL), *msg;
         (msg = next) != NULL;) {
        next = mbx_match_next_msg(unclaimed, msg);
        if (msg->envelope.context_id != context->id)
            continue;
        mbx_match_extract(unclaimed, msg);
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
    if (ep->contexts.count * 4 >= ep->contexts.slots * 3 && context_grow(ep) < 0)
        return NULL;
    context = mem_alloc(sizeof *context);
    if (context == NULL)
        return NULL;
    context->id = id;
    context->use = CONTEXT_FREE;
    mbx_match_init(&context->match, &(struct mbx_match_options){.seed = ep->contexts.seed});
    *context_slot(ep, ep->contexts.table, ep->contexts.slots, id) = context;
    ep->contexts.count++;
    ep->contexts.last = context;
    if (unlikely(ep->contexts.unclaimed != NULL))
        context_call_in(ep, context);
    return context;
}

struct context *context_unclaimed(struct mbx_ep *ep)
{
    if (ep->contexts.unclaimed == NULL &&
        (ep->contexts.unclaimed = mem_alloc(sizeof *ep->contexts.unclaimed)) != NULL) {
        ep->contexts.unclaimed->use = CONTEXT_FREE;
        mbx_match_init(&ep->contexts.unclaimed->match,
                       &(struct mbx_match_options){.seed = ep->contexts.seed});
    }
    return ep->contexts.unclaimed;
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
    for (uint32_t i = 0; i < ep->contexts.slots; i++) {
        if (ep->contexts.table[i] == NULL)
            continue;
        mbx_match_fini(&ep->contexts.table[i]->match);
        mem_free(ep->contexts.table[i]);
    }
    mem_free(ep->contexts.table);
    if (ep->contexts.unclaimed != NULL)
        mbx_match_fini(&ep->contexts.unclaimed->match);
    mem_free(ep->contexts.unclaimed);
}
