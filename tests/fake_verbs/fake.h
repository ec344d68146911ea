/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake.h - an RDMA device that is not there.  Test code.
 *
 *   program ── verbs.h ──> fake_verbs.c   devices, memory, queue pairs    (names of libibverbs)
 *                          fake_tags.c    the receive queue that matches  (tables of verbs.h)
 *                             └── struct tm_unit, the engine of the software device
 *
 * Loaded before libibverbs it takes the place of the few functions that a program needs which
 * opens a device, matches tags and sends over queue pairs to itself; the stock programs that
 * ask a device what it can do work, too.  It has no thread: commands, arrivals and transfers
 * wait in queues, and each call performs a few of them in an order that comes from a seed.
 *
 * It is strict where hardware would be silent, and aborts: a full completion queue, memory
 * that is not registered (any more), a tag with bits outside its mask, a handle that is not in
 * use, a device that is closed with something open.
 *
 *   FAKE_VERBS_DEVICES  how many devices there are (1)
 *   FAKE_VERBS_TAGS     max_num_tags (127); 0: it cannot match
 *   FAKE_VERBS_SEED     of the order in which it works (1)
 */
#ifndef FAKE_VERBS_FAKE_H
#define FAKE_VERBS_FAKE_H

#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>

#include "base/list.h"
#include "base/random.h"
#include "softdev/tm_unit.h"

#define FAKE_MTU 4096 /* a message that fits is matched and there at once */

struct fake_context {
    struct verbs_context verbs;
    struct list pairs, queues, regions;
    uint32_t open; /* objects */
    uint32_t next_number;
    struct random random;
    bool is_lost;
};

struct fake_region {
    struct ibv_mr mr;
    struct list node;
};

struct fake_completion {
    uint64_t wr_id;
    enum ibv_wc_status status;
    enum ibv_wc_opcode opcode;
    unsigned flags;
    uint32_t bytes;
    struct ibv_wc_tm_info info;
    uint32_t slot;     /* of the list */
    uint32_t releases; /* how many of its expected completions this is */
};

struct fake_cq {
    struct ibv_cq_ex cq;
    struct fake_srq *srq; /* whose completions these are */
    struct fake_completion *ring, now;
    uint32_t size, first, count;
};

/* A receive of the list.  It is in use while completions are expected that can name it. */
struct fake_slot {
    uint64_t wr_id;
    struct ibv_sge sge;
    uint32_t expected;
    struct fake_packet *moving; /* its data is on its way */
};

struct fake_command {
    struct tm_command command;
    struct ibv_ops_wr wr;
};

struct fake_buffer {
    uint64_t wr_id;
    struct ibv_sge sge;
};

struct fake_srq {
    struct ibv_srq srq;
    struct list node; /* of the context */
    struct fake_cq *cq;
    struct tm_unit unit;
    bool has_failed; /* the last DEL */
    struct fake_slot *slots;
    uint32_t list;
    struct fake_command *commands; /* a ring */
    uint32_t commands_size, commands_first, commands_count;
    struct fake_buffer *buffers; /* a ring */
    uint32_t buffers_size, buffers_first, buffers_count;
};

struct fake_packet {
    struct list node;
    uint32_t size;
    unsigned char bytes[];
};

struct fake_qp {
    struct ibv_qp qp;
    struct list node; /* of the context */
    struct fake_srq *srq;
    struct fake_qp *peer;
    struct list arrivals;
};

/* Ends the program: it did what hardware would not forgive. */
void fake_abort(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *fake_calloc(size_t count, size_t size);

static inline struct fake_context *fake_context_of(struct ibv_context *context)
{
    return container_of(context, struct fake_context, verbs.context);
}

/* Aborts if the program may not touch this memory through the device. */
void fake_check_memory(struct fake_context *context, const struct ibv_sge *sge);

/* Performs a few things that wait, by chance. */
void fake_wander(struct fake_context *context);
/* One thing; false: nothing can move. */
bool fake_step(struct fake_context *context);

/* fake_tags.c: what the tables of verbs.h name. */
struct ibv_cq_ex *fake_create_cq_ex(struct ibv_context *context,
                                    struct ibv_cq_init_attr_ex *attr);
struct ibv_srq *fake_create_srq_ex(struct ibv_context *context,
                                   struct ibv_srq_init_attr_ex *attr);
int fake_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void fake_srq_fini(struct fake_srq *srq);

/* One of each; false: there is nothing to do. */
bool fake_command_step(struct fake_srq *srq);
bool fake_transfer_step(struct fake_srq *srq);
bool fake_arrival_step(struct fake_qp *qp);

/* For tests that know of the fake: all that waits is performed; the device is lost. */
void fake_verbs_run(struct ibv_context *context);
void fake_verbs_lose(struct ibv_context *context);

#endif
