/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ud.c - unreliable datagrams: one frame each, without an answer.
 *
 * A datagram is dropped and counted if its queue pair does not exist or does not receive, has
 * another queue key, or has no receive posted.  The first 40 bytes of a receive are for the
 * global route header, whether the datagram has one or not.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "adapter/daemon/daemon.h"

#define DATAGRAMS_PER_TURN 16
#define NEXT_HEADER_IBA    0x1b

static void own_gid(uint8_t gid[16])
{
    const uint64_t halves[2] = {htobe64(UINT64_C(0xfe80) << 48), htobe64(host.guid)};

    memcpy(gid, halves, sizeof halves);
}

static enum ibv_wc_status prepare(struct qp *qp, const struct send_work *work,
                                  struct frame *frame, const unsigned char **data)
{
    const char *why = "";
    uint64_t length;

    if (work->wr.opcode != IBV_WR_SEND && work->wr.opcode != IBV_WR_SEND_WITH_IMM)
        return IBV_WC_LOC_QP_OP_ERR;
    length = work->wr.flags & IBV_SEND_INLINE ? work->wr.inline_size
                                              : sge_length(work->sge, work->wr.num_sge);
    if (length > ADAPTER_MTU) {
        client_say(qp->object.client, "a datagram of %lu bytes; there is space for %u",
                   (unsigned long)length, ADAPTER_MTU);
        return IBV_WC_LOC_LEN_ERR;
    }
    *frame = (struct frame){
        .type = FRAME_DATAGRAM,
        .size = (uint32_t)length,
        .to = work->wr.remote_qpn,
        .from = qp->object.handle,
        .opcode = work->wr.opcode,
        .flags = FRAME_FIRST | FRAME_LAST |
                 (work->wr.flags & IBV_SEND_SOLICITED ? FRAME_SOLICITED : 0) |
                 (work->wr.to.is_global ? FRAME_GRH : 0),
        .imm = work->wr.imm,
        /* highest bit set: the queue pair's own key is used (InfiniBand specification,
         * 10.2.5) */
        .qkey = work->wr.remote_qkey >> 31 ? qp->attr.qkey : work->wr.remote_qkey,
        .slid = host.lid,
        .total = length,
    };
    own_gid(frame->sgid);
    memcpy(frame->dgid, work->wr.to.gid, sizeof frame->dgid);
    *data = work->data;
    if (work->wr.flags & IBV_SEND_INLINE)
        return IBV_WC_SUCCESS;
    *data = bounce;
    if (gather(qp->pd, work->sge, work->wr.num_sge, 0, bounce, length, &why) == 0)
        return IBV_WC_SUCCESS;
    client_say(qp->object.client, "local memory that is to be sent: %s", why);
    return IBV_WC_LOC_PROT_ERR;
}

void ud_run(struct qp *qp)
{
    struct send_work work;

    for (uint32_t turn = 0; requester_has_work(qp); turn++) {
        const unsigned char *data;
        enum ibv_wc_status status;
        struct frame frame;
        uint32_t to;

        if (turn == DATAGRAMS_PER_TURN) {
            qp_wake(qp);
            return;
        }
        if (request_tail(qp) == qp->next || !request_read(qp, qp->next, &work))
            return;
        status = prepare(qp, &work, &frame, &data);
        qp->next = ++qp->acked;
        if (status == IBV_WC_SUCCESS) {
            counters.datagrams++;
            if (!wire_route(&work.wr.to, &to) || !wire_has_space(to) ||
                !wire_send(to, &frame, data))
                counters.datagrams_dropped++;
        }
        request_complete(qp, &work, status);
        if (status != IBV_WC_SUCCESS) {
            qp_fail(qp);
            return;
        }
    }
}

static int write_header(const struct pd *pd, const struct recv_work *recv,
                        const struct frame *frame)
{
    struct ibv_grh grh = {.version_tclass_flow = htobe32(6u << 28),
                          .paylen = htobe16((uint16_t)frame->size),
                          .next_hdr = NEXT_HEADER_IBA,
                          .hop_limit = 64};
    const char *why = "";

    static_assert(sizeof grh == ADAPTER_GRH, "as it travels");
    memcpy(grh.sgid.raw, frame->sgid, sizeof frame->sgid);
    memcpy(grh.dgid.raw, frame->dgid, sizeof frame->dgid);
    return scatter(pd, recv->sge, recv->wr.num_sge, 0, &grh, sizeof grh, &why);
}

void ud_take(struct qp *qp, const struct frame *frame, const unsigned char *data)
{
    const struct pd *pd = qp->srq != NULL ? qp->srq->pd : qp->pd;
    struct adapter_cqe cqe = {.status = IBV_WC_SUCCESS,
                              .opcode = IBV_WC_RECV,
                              .byte_len = frame->size + ADAPTER_GRH,
                              .imm = frame->imm,
                              .qp_num = qp->number,
                              .src_qp = frame->from,
                              .slid = (uint16_t)frame->slid};
    struct recv_work recv;
    const char *why = "";

    if (frame->size > ADAPTER_MTU || frame->qkey != qp->attr.qkey ||
        qp_take_recv(qp, &recv) == 0) {
        counters.datagrams_dropped++;
        return;
    }
    cqe.wr_id = recv.wr.wr_id;
    cqe.flags = (frame->opcode == IBV_WR_SEND_WITH_IMM ? IBV_WC_WITH_IMM : 0) |
                (frame->flags & FRAME_GRH ? IBV_WC_GRH : 0);
    if (sge_length(recv.sge, recv.wr.num_sge) < cqe.byte_len) {
        client_say(qp->object.client,
                   "a datagram of %u bytes, and the 40 of its header, for a receive of %lu",
                   frame->size, (unsigned long)sge_length(recv.sge, recv.wr.num_sge));
        cqe.status = IBV_WC_LOC_LEN_ERR;
    } else if (((frame->flags & FRAME_GRH) && write_header(pd, &recv, frame) != 0) ||
               (frame->size > 0 && scatter(pd, recv.sge, recv.wr.num_sge, ADAPTER_GRH, data,
                                           frame->size, &why) != 0)) {
        client_say(qp->object.client, "the memory of a receive: %s", why);
        cqe.status = IBV_WC_LOC_PROT_ERR;
    }
    cq_push(qp->recv_cq, &cqe, (frame->flags & FRAME_SOLICITED) != 0);
    if (cqe.status != IBV_WC_SUCCESS)
        qp_fail(qp);
}
