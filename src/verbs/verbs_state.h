/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_state.h - what verbs_open.c sets up and verbs.c works with.
 *
 * Invariants
 *   I1  in_flight counts commands without completion; at most commands + list + 1 of them
 *   I2  an entry is on held from append until its MATCH or a successful DEL has been polled
 *   I3  an entry has its memory registered while it is on held or its data moves
 */
#ifndef VERBS_VERBS_STATE_H
#define VERBS_VERBS_STATE_H

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>

#include "base/list.h"
#include "verbs/verbs.h"
#include "wire/wire.h"

/* Where a packet begins in an untagged buffer. */
#define VERBS_HEADROOM (sizeof(struct wire_header) - sizeof(struct ibv_tmh))

/* What a completion is of; with a number, that is a wr_id. */
enum verbs_kind {
    VERBS_BUFFER = 1,
    VERBS_RECV,
    VERBS_ADD,
    VERBS_DEL,
    VERBS_SYNC,
    VERBS_MISSED,
    VERBS_TAKEN
};

/* A receive; by its handle. */
struct verbs_entry {
    struct list node; /* on held, in the order of the appends */
    struct ibv_mr *mr;
    const void *buf;
    uint32_t list_handle; /* what the hardware calls it */
    bool is_announced;    /* its message is; struct verbs_rts is on its way */
    bool is_revoked;      /* a DEL waits for its completion */
    bool is_taken;        /* ... of take_back, which tells nobody */
};

struct verbs_buffer {
    unsigned char *memory;
    struct ibv_mr *mr;
};

/* A queue pair of verbs_attach(). */
struct verbs_pair {
    struct list node;
    struct ibv_qp *qp;
};

struct verbs {
    struct mbx_device device;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq_ex *cq;
    struct ibv_srq *srq;
    struct mbx_device_limits limits;
    uint32_t peers;
    uint32_t list, commands, untagged;
    uint32_t in_flight, held_count;
    bool is_syncing, is_taking;    /* one at a time */
    bool is_failing;               /* the queue is emptied, then LOST is told */
    bool is_lost;                  /* it has been */
    struct mbx_device_event later; /* a second event of one completion; type 0: none */
    struct list held, pairs;
    struct verbs_entry *entries;  /* [list] */
    struct verbs_buffer *buffers; /* [untagged] */
};

static inline struct verbs *verbs_of(struct mbx_device *device)
{
    return container_of(device, struct verbs, device);
}

/* Ends the hardware's use of memory. */
void verbs_deregister(struct ibv_mr **mr);

extern const struct mbx_device_ops verbs_ops;

/* Those of verbs_ops that verbs_open.c has. */
void verbs_close(struct mbx_device *device);
void verbs_limits(const struct mbx_device *device, struct mbx_device_limits *limits);
int verbs_configure(struct mbx_device *device, uint32_t list, uint32_t commands,
                    uint32_t untagged);

#endif
