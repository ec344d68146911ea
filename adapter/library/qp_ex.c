/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp_ex.c - requests built call by call through struct ibv_qp_ex.
 *
 * wr_start() takes the lock of the send queue, each wr_*() of an operation begins an entry
 * after the tail, the setters fill the entry, and wr_complete() publishes all entries or none.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "adapter/library/library.h"

static struct lib_qp *lib_qp(struct ibv_qp_ex *qp)
{
    return container_of(qp, struct lib_qp, ex);
}

static void start(struct ibv_qp_ex *qp)
{
    struct lib_qp *own = lib_qp(qp);

    pthread_mutex_lock(&own->send_lock);
    own->built = own->send.tail;
    own->building = NULL;
    own->error = qp->qp_base.state < IBV_QPS_RTS || lib_is_matching(qp->qp_base.srq) ? EINVAL
                 : lib_context(qp->qp_base.context)->is_lost                         ? EIO
                                                                                     : 0;
}

static int complete(struct ibv_qp_ex *qp)
{
    struct lib_qp *own = lib_qp(qp);
    const int err = own->error;

    if (err == 0) {
        own->send.tail = own->built;
        atomic_store_explicit(&own->send.ring->tail, own->send.tail, memory_order_release);
    }
    pthread_mutex_unlock(&own->send_lock);
    if (err == 0)
        control_ring(lib_context(qp->qp_base.context));
    return err;
}

static void give_up(struct ibv_qp_ex *qp)
{
    pthread_mutex_unlock(&lib_qp(qp)->send_lock);
}

/* ---- operations ---- */

/* Begins an entry; without space, a dummy entry, so that the setters need no check. */
static struct adapter_send *begin(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
    static _Thread_local struct {
        struct adapter_send send;
        unsigned char data[ADAPTER_SGE_MAX * sizeof(struct ibv_sge)];
    } nowhere;
    struct lib_qp *own = lib_qp(qp);

    if (own->error == 0 && !ring_has_space(&own->send, own->built))
        own->error = ENOMEM;
    if (own->error != 0) {
        own->building = &nowhere.send;
    } else {
        own->building =
            (struct adapter_send *)(void *)(own->send.entries +
                                            own->built % own->send.size * own->send.stride);
        own->built++;
    }
    *own->building =
        (struct adapter_send){.wr_id = qp->wr_id, .opcode = opcode, .flags = qp->wr_flags};
    own->building->flags &= ~(uint32_t)IBV_SEND_INLINE;
    return own->building;
}

static void wr_send(struct ibv_qp_ex *qp)
{
    begin(qp, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
    begin(qp, IBV_WR_SEND_WITH_IMM)->imm = imm;
}

static void rdma(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr,
                 uint32_t imm)
{
    struct adapter_send *send = begin(qp, opcode);

    send->rkey = rkey;
    send->remote_addr = addr;
    send->imm = imm;
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
    rdma(qp, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, __be32 imm)
{
    rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
    rdma(qp, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void atomic(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode, uint32_t rkey,
                   uint64_t addr, uint64_t compare_add, uint64_t swap)
{
    struct adapter_send *send = begin(qp, opcode);

    send->rkey = rkey;
    send->remote_addr = addr;
    send->compare_add = compare_add;
    send->swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr,
                              uint64_t compare, uint64_t swap)
{
    atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr,
                                uint64_t add)
{
    atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

/* ---- data of an operation ---- */

static void set_sge_list(struct ibv_qp_ex *qp, size_t count, const struct ibv_sge *sge)
{
    struct lib_qp *own = lib_qp(qp);

    if (count > own->cap.max_send_sge) {
        own->error = EINVAL;
        return;
    }
    own->building->num_sge = (uint32_t)count;
    if (count > 0)
        memcpy(own->building + 1, sge, count * sizeof *sge);
}

static void set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
    set_sge_list(qp, 1, &(struct ibv_sge){.addr = addr, .length = length, .lkey = lkey});
}

static void set_inline_data_list(struct ibv_qp_ex *qp, size_t count,
                                 const struct ibv_data_buf *list)
{
    struct lib_qp *own = lib_qp(qp);
    unsigned char *to = (unsigned char *)(own->building + 1);
    size_t size = 0;

    for (size_t i = 0; i < count; i++) {
        if (list[i].length > own->cap.max_inline_data - size) {
            own->error = ENOMEM;
            return;
        }
        memcpy(to + size, list[i].addr, list[i].length);
        size += list[i].length;
    }
    own->building->flags |= IBV_SEND_INLINE;
    own->building->inline_size = (uint32_t)size;
}

static void set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
    set_inline_data_list(qp, 1, &(struct ibv_data_buf){addr, length});
}

static void set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct adapter_send *send = lib_qp(qp)->building;

    send->remote_qpn = qpn;
    send->remote_qkey = qkey;
    send->to = container_of(ah, struct lib_ah, ah)->to;
}

void qp_ex_fill(struct lib_qp *qp)
{
    struct ibv_qp_ex *ex = &qp->ex;

    qp->has_ex = true;
    ex->comp_mask = 0;
    ex->wr_start = start;
    ex->wr_complete = complete;
    ex->wr_abort = give_up;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_rdma_write = wr_rdma_write;
    ex->wr_rdma_write_imm = wr_rdma_write_imm;
    ex->wr_rdma_read = wr_rdma_read;
    ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ex->wr_set_sge = set_sge;
    ex->wr_set_sge_list = set_sge_list;
    ex->wr_set_inline_data = set_inline_data;
    ex->wr_set_inline_data_list = set_inline_data_list;
    ex->wr_set_ud_addr = set_ud_addr;
}
