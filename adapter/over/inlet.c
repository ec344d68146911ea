/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inlet.c - receives the messages of a matching list.
 *
 * The queue pairs of a list receive from one shared queue beneath, into buffers of the list.
 * Each whole message is handed to tm.c, in the order of its queue pair, as the emulated adapter
 * hands over frames.  A matched message is copied to its receive, an unmatched one to an
 * untagged buffer; then the buffer is posted again.
 *
 *   shared queue ──> buffer ── tm_begin() ──┬── tm_land(), tm_end() ──> posted again
 *                                           └── not ready: it waits, and so do the later messages of
 *                                               its queue pair
 *
 * Unlike with an adapter that matches, a message is acknowledged before it is matched.  So if
 * there are no untagged buffers, senders get RNR only when all buffers of the list are taken.
 * A message that is refused (without the headers, or longer than its buffer) ends the
 * connection on this side; the sender notices with its next request.
 *
 * Invariants
 *   N1  a buffer is posted, or waiting with the message of one queue pair, or being handled
 *   N2  a message waits only after a message of the same queue pair that tm.c could not take
 */
#include <errno.h>
#include <string.h>

#include "adapter/over/over.h"
#include "base/mem.h"

struct buffer {
    struct list waits; /* on inlet.waiting: its message has not been taken */
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
        over.is_lost = true; /* cannot happen: there is space for all buffers */
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
    /* space for every buffer, and for the sends of its queue pairs: enough for many of them */
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

/* False: the message has to wait. */
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
    const struct qp *stuck =
        NULL; /* the first queue pair that cannot go on; more than one is rare */

    list_for_each_safe (node, next, &inlet->waiting) {
        struct buffer *buffer = container_of(node, struct buffer, waits);
        const uint32_t index = (uint32_t)(buffer - inlet->buffers);

        if (buffer->qp == stuck)
            continue;
        if (is_usable(buffer->qp) && !take(buffer->qp, &buffer->wc, bytes_of(inlet, index))) {
            if (stuck != NULL)
                return; /* a second one is stuck: the rest may try next time */
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

/* A send of tm.c has completed; they complete in order.  The end of a read may release a
 * request with a fence. */
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
