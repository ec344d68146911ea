/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * requester.c - sends the requests of an RC queue pair, and completes them.
 *
 *   ring:   ... | acked ........ | next ........ | tail
 *     completed   unanswered      not sent yet
 *                                 (`sent` bytes of next have left)
 *
 * The index of a request identifies it; its number on the wire begins with sq_psn.  Requests
 * complete in order, so an answer to one answers all before it.  A request that was refused for
 * lack of a receive (RNR), or did not reach its queue pair, is sent again, with all that follow
 * it, after the time that the verbs prescribe: the receiver's min_rnr_timer and rnr_retry, or
 * the timeout and retry_cnt.  So is a request that is not answered in time.
 *
 * Within a host, an answer comes while its frame is being sent: so the state that the answer
 * uses is updated before.
 */
#include <errno.h>
#include <string.h>

#include "adapter/daemon/daemon.h"

#define FRAMES_PER_TURN 8
#define TIMEOUT_LEAST                                                                          \
    (5 * CLOCK_S) /* the other daemon may be waiting for a core; its end is noticed at once */
#define NO_TIMEOUT (100 * CLOCK_MS) /* timeout 0 means forever: the interval of retries */

/* min_rnr_timer in units of 10 us (InfiniBand specification, RNR NAK timer field) */
static const uint32_t rnr_10us[32] = {65536, 1,    2,    3,     4,     6,     8,     12,
                                      16,    24,   32,   48,    64,    96,    128,   192,
                                      256,   384,  512,  768,   1024,  1536,  2048,  3072,
                                      4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152};

void requester_reset(struct qp *qp)
{
    if (qp->srq != NULL && qp->srq->tm != NULL)
        requester_flush(qp); /* requests that the adapter itself posted */
    qp->base = qp->acked = qp->next = request_tail(qp);
    atomic_store_explicit(&qp->send_ring->head, qp->acked, memory_order_release);
    qp->sent = qp->read_done = qp->wait_until = 0;
    qp->reads_out = qp->retries = qp->rnr_retries = 0;
    qp->deadline = NEVER;
}

static uint32_t number_of(const struct qp *qp, uint64_t index)
{
    return (uint32_t)(qp->attr.sq_psn + (index - qp->base));
}

static bool is_atomic(const struct send_work *work)
{
    return work->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
           work->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* Does its answer carry data? */
static bool is_read(const struct send_work *work)
{
    return work->wr.opcode == IBV_WR_RDMA_READ || is_atomic(work);
}

/* ---- answers ---- */

static uint64_t interval_of(const struct qp *qp)
{
    return qp->attr.timeout == 0 ? NO_TIMEOUT : UINT64_C(4096) << qp->attr.timeout;
}

static void set_deadline(struct qp *qp)
{
    if (qp->acked == qp->next) {
        qp->deadline = NEVER;
        return;
    }
    qp->deadline = clock_now() + max_size(interval_of(qp), TIMEOUT_LEAST);
    qp_wait_until(qp->deadline);
}

/* The oldest request has ended. */
static void end_oldest(struct qp *qp, const struct send_work *work, enum ibv_wc_status status)
{
    qp->acked++;
    qp->read_done = 0;
    qp->retries = qp->rnr_retries = 0;
    if (is_read(work) && qp->reads_out > 0)
        qp->reads_out--;
    request_complete(qp, work, status);
}

/* All requests before index have succeeded. */
static void answered_before(struct qp *qp, uint64_t index)
{
    struct send_work work;

    while (qp->acked < index && request_read(qp, qp->acked, &work) && !is_read(&work))
        end_oldest(qp, &work, IBV_WC_SUCCESS);
    set_deadline(qp);
}

/* The oldest request fails, and so does the queue pair. */
static void fail_oldest(struct qp *qp, enum ibv_wc_status status)
{
    struct send_work work;

    if (qp->acked == qp->next && qp->sent > 0)
        qp->next++; /* a part of it has left */
    if (qp->acked == qp->next)
        return;
    if (request_read(qp, qp->acked, &work))
        end_oldest(qp, &work, status);
    qp_fail(qp);
}

void requester_again(struct qp *qp)
{
    qp->next = qp->acked;
    qp->sent = qp->read_done = 0;
    qp->reads_out = 0;
    qp->deadline = NEVER;
}

static void wait_and_repeat(struct qp *qp, uint64_t ns)
{
    requester_again(qp);
    qp->wait_until = clock_now() + ns;
    qp_wait_until(qp->wait_until);
}

/* No answer has come: sends again, or gives up after retry_cnt. */
static void repeat_lost(struct qp *qp)
{
    if (qp->attr.timeout != 0 && qp->retries++ >= qp->attr.retry_cnt) {
        counters.retries_exceeded++;
        client_say(qp->object.client, "queue pair %#x: queue pair %#x does not answer",
                   qp->object.handle, qp->attr.dest_qp_num);
        fail_oldest(qp, IBV_WC_RETRY_EXC_ERR);
        return;
    }
    counters.retries++;
    wait_and_repeat(qp, interval_of(qp));
}

static void repeat_unready(struct qp *qp, uint32_t timer)
{
    if (qp->attr.rnr_retry != 7 && qp->rnr_retries++ >= qp->attr.rnr_retry) {
        fail_oldest(qp, IBV_WC_RNR_RETRY_EXC_ERR);
        return;
    }
    wait_and_repeat(qp, rnr_10us[timer % 32] * UINT64_C(10) * CLOCK_US);
}

static void take_data(struct qp *qp, const struct frame *frame, const unsigned char *data)
{
    struct send_work work;
    const char *why = "";

    if (!request_read(qp, qp->acked, &work) || !is_read(&work) ||
        frame->offset != qp->read_done || frame->offset + frame->size > request_length(&work))
        return; /* of an earlier attempt */
    if (frame->size > 0 && scatter(qp->pd, work.sge, work.wr.num_sge, frame->offset, data,
                                   frame->size, &why) != 0) {
        client_say(qp->object.client, "RDMA read into local memory: %s", why);
        fail_oldest(qp, IBV_WC_LOC_PROT_ERR);
        return;
    }
    qp->read_done += frame->size;
    if (qp->read_done == request_length(&work) && (frame->flags & FRAME_LAST))
        end_oldest(qp, &work, IBV_WC_SUCCESS);
    set_deadline(qp);
}

void requester_answered(struct qp *qp, const struct frame *frame, const unsigned char *data)
{
    const uint64_t index = qp->acked + (uint32_t)(frame->op - number_of(qp, qp->acked));

    if (qp->state != IBV_QPS_RTS || index > qp->next || (index == qp->next && qp->sent == 0))
        return; /* an old answer */
    switch (frame->type) {
    case FRAME_ACK:
        if (index < qp->next)
            answered_before(qp, index + 1);
        break;
    case FRAME_DATA_OF_READ:
        answered_before(qp, index);
        if (qp->acked == index && index < qp->next)
            take_data(qp, frame, data);
        break;
    case FRAME_ERROR:
        answered_before(qp, index);
        if (qp->acked == index)
            fail_oldest(qp,
                        frame->status > IBV_WC_SUCCESS && frame->status <= IBV_WC_GENERAL_ERR
                            ? frame->status
                            : IBV_WC_GENERAL_ERR);
        break;
    case FRAME_RNR:
        answered_before(qp, index);
        if (qp->acked == index && qp->wait_until == 0)
            repeat_unready(qp, frame->status);
        break;
    case FRAME_LOST:
        if (qp->wait_until == 0)
            repeat_lost(qp);
        break;
    default:
        break;
    }
    qp_wake(qp);
}

void requester_clock(struct qp *qp, uint64_t now)
{
    if (qp->state != IBV_QPS_RTS)
        return;
    if (qp->wait_until != 0 && now >= qp->wait_until) {
        qp->wait_until = 0;
        qp_wake(qp);
    } else if (qp->wait_until != 0) {
        qp_wait_until(qp->wait_until);
    }
    if (qp->deadline <= now)
        repeat_lost(qp);
    else if (qp->deadline != NEVER)
        qp_wait_until(qp->deadline);
}

/* ---- sending ---- */

bool requester_has_work(const struct qp *qp)
{
    const uint64_t tail = atomic_load_explicit(&qp->send_ring->tail, memory_order_relaxed);

    return qp->state == IBV_QPS_RTS && qp->wait_until == 0 && qp->next != tail;
}

/* Checks a request before any of it leaves; IBV_WC_SUCCESS: it is valid. */
static enum ibv_wc_status check(struct qp *qp, const struct send_work *work)
{
    const uint64_t length = request_length(work);
    const char *why = "";

    switch (work->wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        break;
    default:
        client_say(qp->object.client, "opcode %u is not offered on RC", work->wr.opcode);
        return IBV_WC_LOC_QP_OP_ERR;
    }
    if (length > ADAPTER_MESSAGE_MAX || (is_atomic(work) && length != 8)) {
        client_say(qp->object.client, "a message of %lu bytes", (unsigned long)length);
        return IBV_WC_LOC_LEN_ERR;
    }
    if (!is_read(work))
        return IBV_WC_SUCCESS;
    if (qp->attr.max_rd_atomic == 0 || (work->wr.flags & IBV_SEND_INLINE)) {
        client_say(qp->object.client,
                   "an RDMA read or atomic on a queue pair with max_rd_atomic 0, or inline");
        return IBV_WC_LOC_QP_OP_ERR;
    }
    for (uint32_t i = 0; i < work->wr.num_sge; i++) {
        const struct ibv_sge *sge = &work->sge[i];

        if (sge->length > 0 && region_find(qp->pd, sge->lkey, sge->addr, sge->length,
                                           IBV_ACCESS_LOCAL_WRITE, &why) == NULL) {
            client_say(qp->object.client, "the target of an RDMA read, lkey %#x: %s", sge->lkey,
                       why);
            return IBV_WC_LOC_PROT_ERR;
        }
    }
    return IBV_WC_SUCCESS;
}

/* The request fails once all before it have ended; until then nothing is sent. */
static void fail_next(struct qp *qp, const struct send_work *work, enum ibv_wc_status status)
{
    if (qp->acked != qp->next)
        return;
    qp->acked++;
    qp->next++;
    request_complete(qp, work, status);
    qp_fail(qp);
}

static bool is_send(const struct send_work *work)
{
    return work->wr.opcode == IBV_WR_SEND || work->wr.opcode == IBV_WR_SEND_WITH_IMM;
}

static void count(const struct qp *qp, const struct send_work *work)
{
    counters.sends_past_reads += is_send(work) && qp->reads_out > 0;
    if (is_send(work))
        counters.sends++;
    else if (is_atomic(work))
        counters.atomics++;
    else if (work->wr.opcode == IBV_WR_RDMA_READ)
        counters.rdma_reads++;
    else
        counters.rdma_writes++;
}

/* Sends a frame of the request at next; false: nothing more can be sent now. */
static bool send_frame(struct qp *qp, const struct send_work *work)
{
    const uint64_t length = request_length(work);
    const bool has_data = !is_read(work);
    struct frame frame = {.type = FRAME_REQUEST,
                          .to = qp->attr.dest_qp_num,
                          .from = qp->object.handle,
                          .op = number_of(qp, qp->next),
                          .opcode = work->wr.opcode,
                          .imm = work->wr.imm,
                          .rkey = work->wr.rkey,
                          .total = length,
                          .offset = qp->sent,
                          .remote_addr = work->wr.remote_addr,
                          .compare_add = work->wr.compare_add,
                          .swap = work->wr.swap};
    const unsigned char *data = bounce;
    const char *why = "";

    if (has_data) {
        frame.size = (uint32_t)min_size(FRAME_DATA, length - qp->sent);
        if (work->wr.flags & IBV_SEND_INLINE)
            data = work->data + qp->sent;
        else if (gather(qp->pd, work->sge, work->wr.num_sge, qp->sent, bounce, frame.size,
                        &why) != 0) {
            client_say(qp->object.client, "local memory that is to be sent: %s", why);
            if (qp->sent > 0) { /* the other side never gets the rest, as on hardware */
                answered_before(qp, qp->acked);
                fail_oldest(qp, IBV_WC_LOC_PROT_ERR);
            } else {
                fail_next(qp, work, IBV_WC_LOC_PROT_ERR);
            }
            return false;
        }
    }
    frame.flags = (qp->sent == 0 ? FRAME_FIRST : 0) |
                  (!has_data || qp->sent + frame.size == length ? FRAME_LAST : 0) |
                  (work->wr.flags & IBV_SEND_SOLICITED ? FRAME_SOLICITED : 0);
    qp->sent += frame.size;
    counters.bytes_sent += frame.size;
    if (frame.flags & FRAME_LAST) {
        count(qp, work);
        qp->next++;
        qp->sent = 0;
        qp->reads_out += is_read(work);
    }
    set_deadline(qp);
    if (!qp->is_reachable || !wire_send(qp->host, &frame, data)) {
        if (qp->state == IBV_QPS_RTS && qp->wait_until == 0 &&
            (qp->acked != qp->next || qp->sent > 0))
            repeat_lost(qp);
    }
    return qp->state == IBV_QPS_RTS && qp->wait_until == 0;
}

static bool is_fenced(const struct qp *qp, const struct send_work *work)
{
    return (work->wr.flags & IBV_SEND_FENCE) && qp->reads_out > 0 &&
           !(host.quirks & QUIRK_UNFENCED);
}

void requester_run(struct qp *qp)
{
    struct send_work work;

    for (uint32_t turn = 0; requester_has_work(qp); turn++) {
        enum ibv_wc_status status;

        if (turn == step_frames(FRAMES_PER_TURN)) {
            qp_wake(qp);
            return;
        }
        if (request_tail(qp) == qp->next || !request_read(qp, qp->next, &work))
            return;
        if (qp->sent == 0) {
            if (is_fenced(qp, &work))
                return; /* an answer wakes us */
            status = check(qp, &work);
            if (status != IBV_WC_SUCCESS) {
                fail_next(qp, &work, status);
                return;
            }
            if (is_read(&work) && qp->reads_out >= qp->attr.max_rd_atomic)
                return;
        }
        if (!wire_has_space(qp->host))
            return; /* wire.c wakes us */
        if (!send_frame(qp, &work))
            return;
    }
}

void requester_flush(struct qp *qp)
{
    const uint64_t tail = request_tail(qp);
    struct send_work work;

    qp->wait_until = 0;
    qp->deadline = NEVER;
    while (qp->acked != tail && !qp->object.client->is_gone) {
        if (!request_read(qp, qp->acked, &work))
            return;
        qp->acked++;
        qp->next = qp->acked;
        qp->sent = 0;
        request_complete(qp, &work, IBV_WC_WR_FLUSH_ERR);
    }
}
