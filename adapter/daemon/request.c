/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c - the requests in the ring of a send queue, and their completions.
 */
#include <string.h>

#include "adapter/daemon/daemon.h"

uint64_t request_tail(struct qp *qp)
{
    const uint64_t tail = atomic_load_explicit(&qp->send_ring->tail, memory_order_acquire);

    if (tail - qp->acked <= qp->send_size)
        return tail;
    client_broke(qp->object.client, "the index of a send queue");
    return qp->next;
}

bool request_read(struct qp *qp, uint64_t index, struct send_work *work)
{
    const unsigned char *entry;

    if (qp->send_size == 0)
        return false;
    entry = qp->send_entries + index % qp->send_size * qp->send_stride;
    memcpy(&work->wr, entry, sizeof work->wr);
    if (work->wr.flags & IBV_SEND_INLINE) {
        if (work->wr.inline_size > qp->cap.max_inline_data) {
            client_broke(qp->object.client, "more inline data than the queue pair allows");
            return false;
        }
        work->wr.num_sge = 0;
        memcpy(work->data, entry + sizeof work->wr, work->wr.inline_size);
        return true;
    }
    if (work->wr.num_sge > qp->cap.max_send_sge) {
        client_broke(qp->object.client,
                     "a request with more buffers than its queue pair allows");
        return false;
    }
    memcpy(work->sge, entry + sizeof work->wr, work->wr.num_sge * sizeof work->sge[0]);
    return true;
}

uint64_t request_length(const struct send_work *work)
{
    return work->wr.flags & IBV_SEND_INLINE ? work->wr.inline_size
                                            : sge_length(work->sge, work->wr.num_sge);
}

static enum ibv_wc_opcode opcode_of(const struct send_work *work)
{
    switch (work->wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

void request_complete(struct qp *qp, const struct send_work *work, enum ibv_wc_status status)
{
    const struct adapter_cqe cqe = {.wr_id = work->wr.wr_id,
                                    .status = status,
                                    .opcode = opcode_of(work),
                                    .byte_len = (uint32_t)request_length(work),
                                    .qp_num = qp->number};

    atomic_store_explicit(&qp->send_ring->head, qp->acked, memory_order_release);
    if (qp->srq != NULL && qp->srq->tm != NULL) {
        tm_sent(qp, work, status);
        return;
    }
    if (qp->all_signaled || (work->wr.flags & IBV_SEND_SIGNALED) || status != IBV_WC_SUCCESS)
        cq_push(qp->send_cq, &cqe, false);
}
