/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * valid.c - checks of an endpoint's records, their lists, and the events of a queue; valid.h.
 */
#include "provider/valid.h"

#include <assert.h>

/* Records of the check that each call pays for: a full check comes when all are paid. */
#define CHECK_PAID 64

/* POLL_BATCH of cq.c. */
#define BATCH 16

/* Totals over all records, from one visit of each. */
struct census {
    size_t used;   /* not FREE */
    size_t parts;  /* PART */
    size_t owed;   /* parts according to the MULTI_QUEUED receives */
    size_t listed; /* MULTI_QUEUED receives on the list */
    bool is_valid;
};

/* ---- records ---- */

static bool is_receive(const struct prov_op *op)
{
    return op->kind == PROV_OP_RECV || op->kind == PROV_OP_MULTI_QUEUED;
}

static bool prov_index_is_valid(const struct prov_ep *ep, const struct prov_op *op)
{
    bool is_there = op->same_at != NULL;

    return HOLDS("index.c I1", is_there == (is_receive(op) && ep->index.heads != NULL)) &&
           HOLDS("index.c I2", !is_there || *op->same_at == op) &&
           HOLDS("index.c I2", !is_there || op->same == NULL || op->same->same_at == &op->same);
}

static bool kind_is_valid(const struct prov_op *op)
{
    const struct prov_multi *m = op->multi;

    switch ((int)op->kind) {
    case PROV_OP_READ:
    case PROV_OP_WRITE:
        return HOLDS("op.c I3", op->parts != 0);
    case PROV_OP_MULTI_QUEUED:
        return HOLDS("multi.c I4", m->op == op) &&
               HOLDS("multi.c I4", m->listed || (m->many && m->parts != 0));
    case PROV_OP_PART:
        return HOLDS("multi.c I4", m->many && m->parts != 0);
    case PROV_OP_SENTINEL:
        return HOLDS("multi.c I6", m == NULL || (m->sentinel == op && m->listed));
    default:
        return true;
    }
}

static void check_op(const struct prov_ep *ep, const struct prov_op *op, struct census *census)
{
    census->is_valid = HOLDS("op.c I1", op->kind <= PROV_OP_SENTINEL) && kind_is_valid(op) &&
                       prov_index_is_valid(ep, op);
    census->used += op->kind != PROV_OP_FREE;
    census->parts += op->kind == PROV_OP_PART;
    if (op->kind != PROV_OP_MULTI_QUEUED || !census->is_valid)
        return;
    census->owed += op->multi->parts;
    census->listed += op->multi->listed;
}

static struct census census_of(const struct prov_ep *ep)
{
    struct census census = {.is_valid = true};

    for (const struct prov_op_slab *slab = ep->ops.slabs; slab != NULL; slab = slab->next)
        for (size_t i = 0; i < PROV_OPS_PER_SLAB && census.is_valid; i++)
            check_op(ep, &slab->ops[i], &census);
    return census;
}

static bool free_is_valid(const struct prov_ep *ep, size_t used)
{
    size_t free_count = 0, all = ep->ops.slab_count * PROV_OPS_PER_SLAB;

    for (const struct prov_op *op = ep->ops.free; op != NULL && free_count <= all;
         op = op->next) {
        free_count++;
        if (!HOLDS("op.c I1", op->kind == PROV_OP_FREE))
            return false;
    }
    return HOLDS("op.c I1", free_count + used == all);
}

static bool sent_is_valid(const struct prov_ep_send *send)
{
    struct prov_op *const *at = &send->sent;

    for (; *at != NULL; at = &(*at)->next)
        if (!HOLDS("send.c I1", (*at)->kind == PROV_OP_SEND))
            return false;
    return HOLDS("send.c I1", at == send->sent_end);
}

/* ---- receives of multi.c ---- */

static bool multi_is_valid(const struct prov_multi *m, const struct prov_multi *before)
{
    return HOLDS("multi.c I3", m->listed) && HOLDS("multi.c I3", m->before == before) &&
           HOLDS("multi.c I3", m->used <= m->len) &&
           HOLDS("multi.c I3", m->used == 0 || (m->many && m->used != m->len)) &&
           HOLDS("multi.c I3", m->used == 0 || m->len - m->used >= m->min) &&
           HOLDS("multi.c I6", m->sentinel == NULL || m->sentinel->multi == m);
}

static bool list_is_valid(const struct prov_ep_multi *multi, size_t listed)
{
    const struct prov_multi *before = NULL;
    size_t count = 0, any = 0, unguarded = 0;

    for (const struct prov_multi *m = multi->first; m != NULL; before = m, m = m->next) {
        if (!multi_is_valid(m, before))
            return false;
        count++;
        any += m->source == MBX_ANY_SOURCE;
        unguarded += m->source != MBX_ANY_SOURCE && m->sentinel == NULL;
    }
    return HOLDS("multi.c I3", multi->last == before) && HOLDS("multi.c I3", count == listed) &&
           HOLDS("multi.c I3", multi->any == any) &&
           HOLDS("multi.c I6", multi->unguarded == unguarded);
}

static bool taker_is_valid(const struct prov_ep_multi *multi)
{
    return multi->message == 0 || (HOLDS("multi.c I5", multi->taker != NULL) &&
                                   HOLDS("multi.c I5", multi->taker->parts != 0));
}

/* ---- all ---- */

bool prov_ep_is_valid(const struct prov_ep *ep)
{
    struct census census = census_of(ep);

    return census.is_valid && free_is_valid(ep, census.used) && sent_is_valid(&ep->send) &&
           list_is_valid(&ep->multi, census.listed) && taker_is_valid(&ep->multi) &&
           HOLDS("multi.c I5", census.owed == census.parts + (ep->multi.message != 0));
}

bool prov_cq_is_valid(const struct prov_cq *cq)
{
    uint32_t capacity = cq->event_capacity;

    return HOLDS("cq.c I2", capacity >= BATCH) &&
           HOLDS("cq.c I2", (capacity & (capacity - 1)) == 0) &&
           HOLDS("cq.c I2", cq->event_head < capacity) &&
           HOLDS("cq.c I2", cq->event_reserved <= capacity) &&
           HOLDS("cq.c I2", cq->event_count + cq->event_reserved <= capacity);
}

void prov_check_now_and_then(const struct prov_cq *cq, struct prov_ep *ep)
{
    assert(prov_cq_is_valid(cq));
    ep->check_paid += CHECK_PAID;
    if (ep->check_paid < ep->ops.slab_count * PROV_OPS_PER_SLAB)
        return;
    ep->check_paid = 0;
    assert(prov_ep_is_valid(ep));
}
