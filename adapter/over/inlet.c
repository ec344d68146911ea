/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inlet.c - where the messages of a matching list come in.
 *
 * Its queue pairs receive from one shared queue beneath, into buffers that belong to the list.  What has
 * come is handed to tm.c as a whole, in the order of its queue pair, as the emulated adapter hands it
 * frames.  A matched message is copied to its receive, an unmatched one to an untagged buffer; then the
 * buffer is posted again.
 *
 *   shared queue ──> buffer ── tm_begin() ──┬── tm_land(), tm_end() ──> posted again
 *                                           └── not ready: it waits, and what follows on its queue
 *                                               pair behind it
 *
 * What differs from an adapter that matches: a message has been acknowledged before it is looked at.  So
 * where no untagged buffer is there, senders get RNR only when all buffers of the list are taken.  A message
 * that is refused (without the headers, or longer than what it met) ends the connection at this
 * side; its sender finds that with its next request.
 *
 * Invariants
 *   N1  a buffer is posted, or it is in the list of one queue pair that waits, or it is being looked at
 *   N2  a message waits only behind one of the same queue pair that tm.c could not take
 */
#include <errno.h>
#include <string.h>

#include "adapter/over/over.h"
#include "base/mem.h"

struct buffer {
    struct list waits; /* of the inlet; linked: its message has not been taken */
    struct qp *qp;
    struct ibv_wc wc;
};

struct inlet {
    struct outlet outlet;
    struct srq *srq;
    struct ibv_srq *beneath;
    struct ibv_mr *mr;
    unsigned char *memory; /* [count] of `eager` bytes */
    struct buffer buffers[BUFFERS];
    uint32_t count;
    struct list waiting; /* the oldest first */
};

struct inlet *inlet_of(const struct srq *srq)
{
    return srq->beneath;
}

struct ibv_srq *inlet_srq(const struct srq *srq)
{
    return inlet_of(srq)->beneath;
}

struct ibv_cq *inlet_cq(const struct srq *srq)
{
    return inlet_of(srq)->outlet.cq;
}

/* ---- making and ending ---- */

static void post(struct inlet *inlet, uint32_t index)
{
    struct ibv_sge sge = {.addr = (uintptr_t)inlet->memory + (uint64_t)index * over.eager,
                          .length = over.eager,
                          .lkey = inlet->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = WR_IS_BUFFER | index, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;

    if (ibv_post_srq_recv(inlet->beneath, &wr, &bad) != 0)
        over.is_lost = true; /* there is space for all of them */
}

static int fill(struct inlet *inlet)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_sge = 1}};

    inlet->count = (uint32_t)min_size(BUFFERS, (size_t)over.device.max_srq_wr);
    inlet->memory = mem_alloc_aligned(4096, (size_t)inlet->count * over.eager);
    if (inlet->memory == NULL)
        return -ENOMEM;
    inlet->mr = over.calls.reg_mr(inlet->srq->pd->beneath, inlet->memory,
                                  (size_t)inlet->count * over.eager, IBV_ACCESS_LOCAL_WRITE);
    attr.attr.max_wr = inlet->count;
    if (inlet->mr != NULL)
        inlet->beneath = over.calls.create_srq(inlet->srq->pd->beneath, &attr);
    if (inlet->beneath == NULL)
        return errno > 0 ? -errno : -EIO;
    for (uint32_t i = 0; i < inlet->count; i++)
        post(inlet, i);
    return 0;
}

static void end(struct inlet *inlet)
{
    if (inlet->beneath != NULL)
        over.calls.destroy_srq(inlet->beneath);
    if (inlet->mr != NULL)
        over.calls.dereg_mr(inlet->mr);
    mem_free(inlet->memory);
    if (inlet->outlet.cq != NULL)
        outlet_close(&inlet->outlet);
    mem_free(inlet);
}

int inlet_open(struct srq *srq)
{
    struct inlet *inlet = mem_calloc(1, sizeof *inlet);
    int err;

    if (inlet == NULL)
        return -ENOMEM;
    inlet->srq = srq;
    inlet->outlet.inlet = inlet;
    list_init(&inlet->waiting);
    for (uint32_t i = 0; i < BUFFERS; i++)
        list_init_node(&inlet->buffers[i].waits);
    /* every buffer, and what its queue pairs send: so much that more of them have space, too */
    err =
        outlet_open(&inlet->outlet, (uint32_t)min_size((size_t)over.device.max_cqe, 1u << 14));
    if (err == 0)
        err = fill(inlet);
    if (err != 0)
        end(inlet);
    else
        srq->beneath = inlet;
    return err;
}

void inlet_close(struct srq *srq)
{
    end(inlet_of(srq));
}

/* ---- messages ---- */

static void refuse(struct qp *qp, const char *why)
{
    client_say(qp->object.client,
               "queue pair %#x, a message of queue pair %#x ends the connection: %s",
               qp->number, qp->attr.dest_qp_num, why);
    client_event(qp->object.client, IBV_EVENT_QP_REQ_ERR, qp->cookie);
    qp_fail(qp);
}

/* false: it has to wait. */
static bool take(struct qp *qp, const struct ibv_wc *wc, const unsigned char *data)
{
    const struct frame frame = {.type = FRAME_REQUEST,
                                .size = wc->byte_len,
                                .total = wc->byte_len,
                                .from = qp->attr.dest_qp_num,
                                .opcode = wc->wc_flags & IBV_WC_WITH_IMM ? IBV_WR_SEND_WITH_IMM
                                                                         : IBV_WR_SEND,
                                .flags = FRAME_FIRST | FRAME_LAST,
                                .imm = wc->imm_data};
    const char *why = "";

    switch (tm_begin(qp, &frame, data)) {
    case TM_NOT_READY:
        return false;
    case TM_TOO_SHORT:
        refuse(qp, "it is longer than the buffer that it met");
        return true;
    case TM_REFUSED:
        refuse(qp, "the headers of tag matching are missing or wrong");
        return true;
    case TM_BEGUN:
        break;
    }
    if (tm_land(qp, &frame, data, &why) != 0) {
        tm_abandon(qp, IBV_WC_LOC_PROT_ERR);
        qp->has_recv = false;
        refuse(qp, why);
        return true;
    }
    tm_end(qp, &frame, data);
    return true;
}

static bool is_usable(const struct qp *qp)
{
    return qp_can_receive(qp) && !qp->object.client->is_gone;
}

static unsigned char *bytes_of(struct inlet *inlet, uint32_t index)
{
    return inlet->memory + (size_t)index * over.eager;
}

static bool waits_already(const struct inlet *inlet, const struct qp *qp)
{
    struct list *node;

    list_for_each (node, &inlet->waiting)
        if (container_of(node, struct buffer, waits)->qp == qp)
            return true;
    return false;
}

static void arrived(struct inlet *inlet, struct qp *qp, const struct ibv_wc *wc)
{
    const uint32_t index = (uint32_t)(wc->wr_id & ~WR_IS_BUFFER);
    struct buffer *buffer = &inlet->buffers[index];

    if (qp == NULL || wc->status != IBV_WC_SUCCESS || !is_usable(qp)) {
        post(inlet, index);
        return;
    }
    if (!waits_already(inlet, qp) && take(qp, wc, bytes_of(inlet, index))) {
        post(inlet, index);
        return;
    }
    buffer->qp = qp;
    buffer->wc = *wc;
    list_add_tail(&inlet->waiting, &buffer->waits);
}

void inlet_try_again(struct srq *srq)
{
    struct inlet *inlet = inlet_of(srq);
    struct list *node, *next;
    const struct qp *stuck = NULL; /* the first that cannot go on; others rarely wait with it */

    list_for_each_safe (node, next, &inlet->waiting) {
        struct buffer *buffer = container_of(node, struct buffer, waits);
        const uint32_t index = (uint32_t)(buffer - inlet->buffers);

        if (buffer->qp == stuck)
            continue;
        if (is_usable(buffer->qp) && !take(buffer->qp, &buffer->wc, bytes_of(inlet, index))) {
            if (stuck != NULL)
                return; /* of two, in no order between them: the rest may try next time */
            stuck = buffer->qp;
            continue;
        }
        list_remove(&buffer->waits);
        post(inlet, index);
    }
}

void inlet_forget(struct qp *qp)
{
    struct inlet *inlet = inlet_of(qp->srq);
    struct list *node, *next;

    list_for_each_safe (node, next, &inlet->waiting) {
        struct buffer *buffer = container_of(node, struct buffer, waits);

        if (buffer->qp != qp)
            continue;
        list_remove(&buffer->waits);
        post(inlet, (uint32_t)(buffer - inlet->buffers));
    }
}

/* ---- completions ---- */

/* Of what tm.c has sent, in its order.  Behind a read there may be a request with a fence. */
static void sent(struct qp *qp, const struct ibv_wc *wc)
{
    struct send_work work;

    if (qp->acked == qp->next || !request_read(qp, qp->acked, &work))
        return;
    qp->acked++;
    if (work.wr.opcode == IBV_WR_RDMA_READ) {
        qp->reads_out--;
        qp_wake(qp);
    }
    request_complete(qp, &work, wc->status);
}

void inlet_completed(struct inlet *inlet, struct qp *qp, const struct ibv_wc *wc)
{
    if (wc->wr_id & WR_IS_BUFFER)
        arrived(inlet, qp, wc);
    else if (qp != NULL)
        sent(qp, wc);
    if (qp != NULL && wc->status != IBV_WC_SUCCESS)
        qp_fail(qp);
    if (!list_is_empty(&inlet->waiting))
        inlet_try_again(inlet->srq);
}

void inlet_drain(struct inlet *inlet)
{
    while (outlet_poll(&inlet->outlet))
        ;
}
