/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * responder.c - performs the requests from an RC queue pair's peer, and answers them.
 *
 * Requests are taken in the order of their numbers.  A repeated request is answered again.  A
 * request that comes too early is dropped, because an earlier one was refused or lost, and the
 * peer sends both again.
 *
 *   SEND, WRITE with immediate ──> a receive ──> its completion ──> ACK
 *   WRITE ──> memory ──> ACK
 *   READ, atomic ──> jobs ──> data, in order.  Other answers wait for these (`owed`).
 *
 * Invariants
 *   R1  a receive is completed once: it is taken with the first frame of its message, kept
 *       while frames are repeated, and completed or flushed
 *   R2  nothing is written for a queue pair in RESET, INIT or ERR
 */
#include <errno.h>
#include <string.h>

#include "adapter/daemon/daemon.h"

#define FRAMES_PER_TURN 8

void responder_reset(struct qp *qp)
{
    qp->expected = 0;
    tm_abandon(qp, IBV_WC_WR_FLUSH_ERR);
    qp->is_receiving = qp->has_recv = qp->has_atomic = false;
    qp->received = 0;
    qp->jobs_first = qp->jobs_count = 0;
    qp->owed = 0;
}

/* ---- answers ---- */

static void send_answer(struct qp *qp, uint32_t type, uint32_t op, uint32_t status)
{
    const struct frame frame = {.type = type,
                                .to = qp->attr.dest_qp_num,
                                .from = qp->object.handle,
                                .op = op,
                                .status = status};

    wire_send(qp->host, &frame, NULL);
}

static void answer(struct qp *qp, uint32_t type, uint32_t op, uint32_t status)
{
    if (qp->jobs_count == 0) {
        send_answer(qp, type, op, status);
        return;
    }
    qp->owed = type;
    qp->owed_op = op;
    qp->owed_status = status;
}

/* Refuses the request; the queue pair fails. */
static void refuse(struct qp *qp, const struct frame *frame, enum ibv_wc_status status,
                   enum ibv_event_type event, const char *what, const char *why)
{
    if (client_is_dead(qp->object.client)) {
        send_answer(qp, FRAME_LOST, frame->op, 0); /* its memory is gone already */
        return;
    }
    client_say(qp->object.client, "queue pair %#x, refused request of queue pair %#x: %s: %s",
               qp->object.handle, frame->from, what, why);
    if (event == IBV_EVENT_QP_ACCESS_ERR)
        counters.access_errors++;
    qp->is_receiving = false;
    if (qp->jobs_count > 0)
        responder_run(qp); /* answers earlier requests */
    qp->jobs_count = 0;
    send_answer(qp, FRAME_ERROR, frame->op, status);
    client_event(qp->object.client, event, qp->cookie);
    qp_fail(qp);
}

/* ---- requests with data ---- */

static bool takes_recv(const struct frame *frame)
{
    return frame->opcode == IBV_WR_SEND || frame->opcode == IBV_WR_SEND_WITH_IMM ||
           frame->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_send(const struct frame *frame)
{
    return frame->opcode == IBV_WR_SEND || frame->opcode == IBV_WR_SEND_WITH_IMM;
}

static const struct pd *recv_pd(const struct qp *qp)
{
    return qp->srq != NULL ? qp->srq->pd : qp->pd;
}

static void complete_recv(struct qp *qp, const struct frame *frame, enum ibv_wc_status status)
{
    const struct adapter_cqe cqe = {
        .wr_id = qp->recv_work.wr.wr_id,
        .status = status,
        .opcode = is_send(frame) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
        .byte_len = (uint32_t)frame->total,
        .imm = frame->imm,
        .qp_num = qp->number,
        .src_qp = frame->from,
        .flags = frame->opcode != IBV_WR_SEND ? IBV_WC_WITH_IMM : 0,
        .slid = (uint16_t)frame->slid,
    };

    qp->has_recv = false;
    cq_push(qp->recv_cq, &cqe, (frame->flags & FRAME_SOLICITED) != 0);
}

static bool is_tm(const struct qp *qp, const struct frame *frame)
{
    return qp->srq != NULL && qp->srq->tm != NULL && is_send(frame);
}

static bool begin_tm(struct qp *qp, const struct frame *frame, const unsigned char *data)
{
    switch (tm_begin(qp, frame, data)) {
    case TM_BEGUN:
        return true;
    case TM_NOT_READY:
        counters.rnr_naks++;
        answer(qp, FRAME_RNR, frame->op, qp->attr.min_rnr_timer);
        break;
    case TM_TOO_SHORT:
        refuse(qp, frame, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, "send",
               "the message is longer than the buffer that it met");
        break;
    case TM_REFUSED:
        refuse(qp, frame, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, "send",
               "the headers of tag matching are missing or wrong");
        break;
    }
    return false;
}

/* A message begins.  False: an answer was sent. */
static bool begin(struct qp *qp, const struct frame *frame, const unsigned char *data)
{
    const char *why = "";

    qp->is_receiving = false;
    qp->received = 0;
    if (!is_send(frame) && frame->total > 0 &&
        (!(qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) ||
         region_find(qp->pd, frame->rkey, frame->remote_addr, frame->total,
                     IBV_ACCESS_REMOTE_WRITE, &why) == NULL)) {
        refuse(qp, frame, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, "RDMA write",
               *why != '\0' ? why : "the queue pair was not given IBV_ACCESS_REMOTE_WRITE");
        return false;
    }
    if (is_tm(qp, frame)) {
        qp->is_receiving = begin_tm(qp, frame, data);
        return qp->is_receiving;
    }
    if (takes_recv(frame) && !qp->has_recv) {
        if (qp_take_recv(qp, &qp->recv_work) == 0) {
            counters.rnr_naks++;
            answer(qp, FRAME_RNR, frame->op, qp->attr.min_rnr_timer);
            return false;
        }
        qp->has_recv = true;
    }
    if (is_send(frame) &&
        frame->total > sge_length(qp->recv_work.sge, qp->recv_work.wr.num_sge)) {
        complete_recv(qp, frame, IBV_WC_LOC_LEN_ERR);
        refuse(qp, frame, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, "send",
               "the message is longer than the receive");
        return false;
    }
    qp->is_receiving = true;
    return true;
}

/* Writes a frame's data to its destination.  False: an answer was sent. */
static bool land(struct qp *qp, const struct frame *frame, const unsigned char *data)
{
    const char *why = "";
    const struct mr *mr;

    if (frame->size == 0)
        return true;
    if (is_tm(qp, frame)) {
        if (tm_land(qp, frame, data, &why) == 0)
            return true;
        tm_abandon(qp, IBV_WC_LOC_PROT_ERR);
        refuse(qp, frame, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL, "the memory of a receive",
               why);
        return false;
    }
    if (is_send(frame)) {
        if (scatter(recv_pd(qp), qp->recv_work.sge, qp->recv_work.wr.num_sge, frame->offset,
                    data, frame->size, &why) == 0)
            return true;
        complete_recv(qp, frame, IBV_WC_LOC_PROT_ERR);
        refuse(qp, frame, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_FATAL, "the memory of a receive",
               why);
        return false;
    }
    mr = region_find(qp->pd, frame->rkey, frame->remote_addr, frame->total,
                     IBV_ACCESS_REMOTE_WRITE, &why);
    if (mr != NULL &&
        memory_write(mr, frame->remote_addr + frame->offset, data, frame->size) == 0)
        return true;
    refuse(qp, frame, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, "RDMA write",
           *why != '\0' ? why : "the registered memory is not there any more");
    return false;
}

static void take_message(struct qp *qp, const struct frame *frame, const unsigned char *data)
{
    if ((frame->flags & FRAME_FIRST) && (frame->offset != 0 || !begin(qp, frame, data)))
        return;
    if (!qp->is_receiving || frame->offset != qp->received || frame->offset > frame->total ||
        frame->size > frame->total - frame->offset)
        return; /* only the first frame's total was validated */
    if (!land(qp, frame, data))
        return;
    qp->received += frame->size;
    if (!(frame->flags & FRAME_LAST) || qp->received != frame->total)
        return;
    qp->is_receiving = false;
    qp->expected++;
    if (is_tm(qp, frame))
        tm_end(qp, frame, data);
    else if (qp->has_recv)
        complete_recv(qp, frame, IBV_WC_SUCCESS);
    if (qp->state != IBV_QPS_ERR) /* an overrun completion queue puts it in ERR */
        answer(qp, FRAME_ACK, frame->op, 0);
}

/* ---- reads and atomics ---- */

static const char *check_read(const struct qp *qp, const struct frame *frame, uint32_t access)
{
    const char *why = "";

    if (!(qp->attr.qp_access_flags & access))
        return "the queue pair was not given this access";
    if (frame->total == 0)
        return NULL;
    return region_find(qp->pd, frame->rkey, frame->remote_addr, frame->total, access, &why) !=
                   NULL
               ? NULL
               : why;
}

static bool is_too_much(const struct qp *qp)
{
    return qp->jobs_count >= qp->attr.max_dest_rd_atomic || qp->jobs_count == ADAPTER_READS_MAX;
}

static void add_job(struct qp *qp, struct read_job job)
{
    qp->jobs[(qp->jobs_first + qp->jobs_count++) % ADAPTER_READS_MAX] = job;
    qp_wake(qp);
}

static void take_read(struct qp *qp, const struct frame *frame)
{
    const char *why = check_read(qp, frame, IBV_ACCESS_REMOTE_READ);

    if (why != NULL) {
        refuse(qp, frame, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, "RDMA read", why);
        return;
    }
    if (is_too_much(qp)) {
        refuse(qp, frame, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, "RDMA read",
               "more at a time than max_dest_rd_atomic");
        return;
    }
    if (frame->op == qp->expected)
        qp->expected++;
    add_job(qp, (struct read_job){.op = frame->op,
                                  .rkey = frame->rkey,
                                  .addr = frame->remote_addr,
                                  .length = frame->total});
}

static void take_atomic(struct qp *qp, const struct frame *frame)
{
    const char *why = check_read(qp, frame, IBV_ACCESS_REMOTE_ATOMIC);
    const struct mr *mr;
    uint64_t before, after;

    if (frame->total != 8 || frame->remote_addr % 8 != 0 || is_too_much(qp)) {
        refuse(qp, frame, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, "atomic",
               "not 8 aligned bytes, or more at a time than max_dest_rd_atomic");
        return;
    }
    mr = why != NULL ? NULL
                     : region_find(qp->pd, frame->rkey, frame->remote_addr, 8,
                                   IBV_ACCESS_REMOTE_ATOMIC, &why);
    if (mr == NULL || memory_read(mr, frame->remote_addr, &before, 8) != 0) {
        refuse(qp, frame, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, "atomic",
               why != NULL ? why : "the registered memory is not there any more");
        return;
    }
    if (frame->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        after = before + frame->compare_add;
    else
        after = before == frame->compare_add ? frame->swap : before;
    if (after != before)
        memory_write(mr, frame->remote_addr, &after, 8);
    qp->has_atomic = true;
    qp->atomic_op = frame->op;
    qp->atomic_result = before;
    qp->expected++;
    add_job(qp, (struct read_job){
                    .op = frame->op, .length = 8, .is_atomic = true, .result = before});
}

/* Answers a part of the oldest job; false: there is no space now, or no job. */
static bool answer_job(struct qp *qp)
{
    struct read_job *job = &qp->jobs[qp->jobs_first];
    struct frame frame = {.type = FRAME_DATA_OF_READ,
                          .to = qp->attr.dest_qp_num,
                          .from = qp->object.handle,
                          .op = job->op,
                          .offset = job->done,
                          .total = job->length};
    const char *why = "";
    const struct mr *mr;

    if (qp->jobs_count == 0 || !qp_can_receive(qp) || !wire_has_space(qp->host))
        return false;
    frame.size = (uint32_t)min_size(FRAME_DATA, job->length - job->done);
    if (job->is_atomic) {
        memcpy(bounce, &job->result, sizeof job->result);
    } else if (frame.size > 0) {
        mr = region_find(qp->pd, job->rkey, job->addr, job->length, IBV_ACCESS_REMOTE_READ,
                         &why);
        if (mr == NULL || memory_read(mr, job->addr + job->done, bounce, frame.size) != 0) {
            qp->jobs_count = 0;
            refuse(qp, &(struct frame){.op = job->op, .from = qp->attr.dest_qp_num},
                   IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, "RDMA read",
                   mr == NULL ? why : "the registered memory is not there any more");
            return false;
        }
    }
    job->done += frame.size;
    if (job->done == job->length) {
        frame.flags = FRAME_LAST;
        qp->jobs_first = (qp->jobs_first + 1) % ADAPTER_READS_MAX;
        qp->jobs_count--;
    }
    wire_send(qp->host, &frame, bounce);
    return true;
}

void responder_run(struct qp *qp)
{
    const uint32_t most = step_frames(FRAMES_PER_TURN);
    uint32_t turn = 0;

    while (turn < most && answer_job(qp))
        turn++;
    if (turn == most)
        qp_wake(qp);
    if (qp->jobs_count == 0 && qp->owed != 0) {
        const uint32_t type = qp->owed;

        qp->owed = 0;
        send_answer(qp, type, qp->owed_op, qp->owed_status);
    }
}

/* ---- all requests ---- */

/* The request was taken before: its answer was lost, or crossed this repetition. */
static void take_again(struct qp *qp, const struct frame *frame)
{
    if (frame->opcode == IBV_WR_RDMA_READ) {
        while (qp->jobs_count > 0) {
            const struct read_job *job =
                &qp->jobs[(qp->jobs_first + qp->jobs_count - 1) % ADAPTER_READS_MAX];

            if ((int32_t)(job->op - frame->op) < 0)
                break;
            qp->jobs_count--;
        }
        take_read(qp, frame);
    } else if (frame->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
               frame->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        if (qp->has_atomic && qp->atomic_op == frame->op && !is_too_much(qp))
            add_job(qp, (struct read_job){.op = frame->op,
                                          .length = 8,
                                          .is_atomic = true,
                                          .result = qp->atomic_result});
    } else if (frame->flags & FRAME_LAST) {
        answer(qp, FRAME_ACK, frame->op, 0);
    }
}

void responder_take(struct qp *qp, const struct frame *frame, const unsigned char *data)
{
    const int32_t ahead = (int32_t)(frame->op - qp->expected);

    if (ahead > 0)
        return;
    if (ahead < 0) {
        take_again(qp, frame);
        return;
    }
    switch (frame->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        take_message(qp, frame, data);
        break;
    case IBV_WR_RDMA_READ:
        take_read(qp, frame);
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        take_atomic(qp, frame);
        break;
    default:
        refuse(qp, frame, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, "a request",
               "there is no such operation");
        break;
    }
}

void responder_flush(struct qp *qp)
{
    const struct adapter_cqe cqe = {.wr_id = qp->recv_work.wr.wr_id,
                                    .status = IBV_WC_WR_FLUSH_ERR,
                                    .opcode = IBV_WC_RECV,
                                    .qp_num = qp->number};

    qp->is_receiving = false;
    qp->jobs_count = 0;
    qp->owed = 0;
    tm_abandon(qp, IBV_WC_WR_FLUSH_ERR);
    if (!qp->has_recv)
        return;
    qp->has_recv = false;
    cq_push(qp->recv_cq, &cqe, true);
}
