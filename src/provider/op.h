/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.h - records of active operations, with the data for their completions: op.c.
 *
 * Every operation with a completion has a record from slabs that grow with the operations in
 * flight and are kept until the endpoint closes.  A record is on the free list, or held by
 * Matchbox as the user pointer of one request, or held by multi.c.
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
    PROV_OP_READ,         /* and atomics that return a result */
    PROV_OP_WRITE,        /* and other atomics */
    PROV_OP_MULTI_QUEUED, /* a receive that multi.c matches; Matchbox does not hold it */
    PROV_OP_PART,         /* a message that goes to the buffer of a MULTI_QUEUED receive */
    PROV_OP_SENTINEL,     /* ends when the peer of a MULTI_QUEUED receive ends */
};

#define PROV_OP_KINDS (PROV_OP_SENTINEL + 1)

/* A gathered send, or a receive to be scattered; its data follows. */
struct prov_bounce {
    size_t count;
    struct iovec iov[PROV_IOV_LIMIT];
    char data[];
};

struct prov_op {
    struct prov_op *next; /* free list */
    void *context;
    mbx_request request;
    struct prov_bounce *bounce; /* NULL for most operations */
    enum prov_op_kind kind;
    bool quiet;     /* report errors only */
    uint8_t plain;  /* the queue (enum mbx_queue) of a completion that needs no special
                     * treatment; or 0 */
    uint8_t parts;  /* one-sided: accesses that have not completed */
    int error;      /* one-sided: the first error of its accesses, or 0 */
    uint64_t flags; /* the kind of operation, for the completion */
    struct prov_op **same_at; /* the pointer to this record in the index; NULL: none */
    struct prov_op *same;     /* the next record there (index.c) */
    struct prov_multi *multi; /* MULTI_QUEUED, PART; SENTINEL: or NULL */
    void *buf;                /* PART: where it begins */
};

/* The completion of an operation, for the client: bits. */
enum prov_finish {
    PROV_FINISH_EVENT = 1,     /* this event */
    PROV_FINISH_CANCELLED = 2, /* after the event: a FI_MULTI_RECV receive with the event's
                                * context was cancelled, for which space is reserved */
};
typedef unsigned prov_finish_fn(struct prov_ep *ep, struct prov_op *op,
                                const struct mbx_completion *c, struct prov_event *event);
/* Finish functions by kind; NULL for plain sends and receives: endpoint.c.  They release the
 * record, if that was its last completion. */
extern prov_finish_fn *const prov_op_finish[PROV_OP_KINDS];

#define PROV_OPS_PER_SLAB 128

struct prov_op_slab {
    struct prov_op_slab *next;
    struct prov_op ops[PROV_OPS_PER_SLAB];
};

/* The part of an endpoint. */
struct prov_ep_ops {
    struct prov_op *free;
    struct prov_op_slab *slabs;
    size_t slab_count;
};

int prov_op_slab_add(struct prov_ep_ops *ops);
/* Frees all records and their contents. */
void prov_ops_free(struct prov_ep_ops *ops);

/* A record for an operation; NULL if memory is short.  Released by prov_op_put(). */
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
