/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.h - one operation under way: what must be known when it completes: op.c.
 *
 * Every operation with a completion has a record from slabs that grow with the operations in
 * flight and are kept until the endpoint closes.  A record is on the free list, or in Matchbox's
 * hands as the user pointer of one request, or in those of multi.c.
 */
#ifndef PROVIDER_OP_H
#define PROVIDER_OP_H

#include "provider/compat.h"
#include "provider/fabric.h"
#include "provider/index.h"

#include <sys/uio.h>

struct prov_ep;
struct prov_event; /* event.h */
struct prov_multi; /* multi.c */

enum prov_op_kind {
    PROV_OP_FREE,
    PROV_OP_SEND,
    PROV_OP_RECV,
    PROV_OP_READ,         /* and atomics that bring a result */
    PROV_OP_WRITE,        /* and other atomics */
    PROV_OP_MULTI_QUEUED, /* a receive that multi.c matches; not in Matchbox's hands */
    PROV_OP_PART,         /* a message that goes to the buffer of one of these */
    PROV_OP_SENTINEL,     /* a receive of ours that ends when the peer of one of these does */
};

#define PROV_OP_KINDS (PROV_OP_SENTINEL + 1)

/* A gathered send or a receive to be scattered: data stands behind it. */
struct prov_bounce {
    size_t count;
    struct iovec iov[PROV_IOV_LIMIT];
    char data[];
};

struct prov_op {
    struct prov_op *next; /* free list */
    void *context;
    mbx_request request;
    struct prov_bounce *bounce; /* ours; NULL for most */
    enum prov_op_kind kind;
    bool quiet;     /* report errors only */
    uint8_t plain;  /* the queue (enum mbx_queue) from which it comes back as usual, with
                       nothing to do or to leave out; or 0 */
    uint8_t parts;  /* one-sided: accesses that have not completed */
    int error;      /* of those that have: the first one, or 0 */
    uint64_t flags; /* what it was, for the completion */
    struct prov_op **same_at; /* what points here in the index; NULL: it is not there */
    struct prov_op *same;     /* the next one there (index.c) */
    struct prov_multi *multi; /* MULTI_QUEUED, PART; SENTINEL: or NULL */
    void *buf;                /* PART: where it begins */
};

/* What the completion of an operation is for the client: bits. */
enum prov_finish {
    PROV_FINISH_EVENT = 1,     /* this event */
    PROV_FINISH_CANCELLED = 2, /* and behind it that a receive of many messages, of the event's
                                  context, was cancelled, for which there is space */
};
typedef unsigned prov_finish_fn(struct prov_ep *ep, struct prov_op *op,
                                const struct mbx_completion *c, struct prov_event *event);
/* By kind, of those that are no plain send or receive, in whose place is NULL: endpoint.c.
 * Takes the record back, if that was its last completion. */
extern prov_finish_fn *const prov_op_finish[PROV_OP_KINDS];

#define PROV_OPS_PER_SLAB 128

struct prov_op_slab {
    struct prov_op_slab *next;
    struct prov_op ops[PROV_OPS_PER_SLAB];
};

/* An endpoint's part. */
struct prov_ep_ops {
    struct prov_op *free;
    struct prov_op_slab *slabs;
    size_t slab_count;
};

int prov_op_slab_add(struct prov_ep_ops *ops);
/* All records, and what they hold. */
void prov_ops_free(struct prov_ep_ops *ops);

/* An operation's record; NULL if memory is short.  Released by prov_op_put(). */
static inline struct prov_op *prov_op_get(struct prov_ep_ops *ops)
{
    struct prov_op *op = ops->free;

    if (unlikely(op == NULL)) {
        if (prov_op_slab_add(ops) < 0)
            return NULL;
        op = ops->free;
    }
    ops->free = op->next;
    op->plain = 0;
    return op;
}

static inline void prov_op_put(struct prov_ep_ops *ops, struct prov_op *op)
{
    if (unlikely(op->same_at != NULL))
        prov_index_remove(op);
    op->kind = PROV_OP_FREE;
    op->next = ops->free;
    ops->free = op;
}

#endif
