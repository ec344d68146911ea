/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pairs.c - queue pairs and shared receive queues beneath: passes requests down, and
 * completions up.
 *
 *   ring of the program ── next ──> ibv_post_send(), ibv_post_recv(), while there is space
 *   completion queue of the program <── ibv_poll_cq(), with the program's own wr_id
 *
 * A queue pair whose shared queue matches tags receives from its list (inlet.c), and sends the
 * requests that tm.c has put into its ring.  These requests are counted: [acked, next) are
 * beneath, and complete in that order.  This file keeps their fences, not the adapter beneath:
 * when Soft-RoCE (Linux 6.1) repeats a request with a fence, the request also waits for the
 * reads that follow it, and so forever.
 *
 * Invariants
 *   P1  a request is posted beneath once, and in the order of the ring
 *   P2  every request that tm.c puts into the ring of a matching queue pair ends: it completes
 *       beneath, or with IBV_WC_WR_FLUSH_ERR when the queue pair is reset or destroyed
 *   P3  reads_out of a matching queue pair counts the reads in [acked, next); none of them
 *       precedes a request with a fence
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "adapter/over/over.h"
#include "base/mem.h"

#define NUMBERED 1024 /* hash buckets */

static struct list numbered[NUMBERED];
static struct list stuck;
static struct list shared_queues;

/* A destination of a queue pair's datagrams. */
struct target {
    struct list node;
    struct adapter_address to;
    struct ibv_ah *ah;
};

struct pair {
    struct ibv_qp *qp;
    struct qp *of;
    struct list numbered, stuck;
    struct list targets;
};

void pairs_reset(void)
{
    for (size_t i = 0; i < NUMBERED; i++)
        list_init(&numbered[i]);
    list_init(&stuck);
    list_init(&shared_queues);
    list_init(&runnable);
}

struct qp *pair_of_number(uint32_t number)
{
    struct list *node;

    list_for_each (node, &numbered[number % NUMBERED]) {
        struct pair *pair = container_of(node, struct pair, numbered);

        if (pair->qp->qp_num == number)
            return pair->of;
    }
    return NULL;
}

struct ibv_qp *pair_beneath(const struct qp *qp)
{
    return ((struct pair *)qp->beneath)->qp;
}

static bool is_matching(const struct qp *qp)
{
    return qp->srq != NULL && qp->srq->tm != NULL;
}

static void mark_stuck(struct pair *pair)
{
    if (!list_is_linked(&pair->stuck))
        list_add_tail(&stuck, &pair->stuck);
}

/* ---- shared receive queues ---- */

static int post_recv(struct ibv_qp *qp, struct ibv_srq *srq, struct recv_work *work)
{
    struct ibv_recv_wr wr = {
        .wr_id = work->wr.wr_id, .sg_list = work->sge, .num_sge = (int)work->wr.num_sge};
    struct ibv_recv_wr *bad;

    return srq != NULL ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
}

static void shared_pass_on(struct shared *shared)
{
    struct srq *srq = shared->of;

    while (shared->has_recv || queue_take(&srq->queue, srq->object.client, &shared->recv) > 0) {
        shared->has_recv = post_recv(NULL, shared->srq, &shared->recv) != 0;
        if (shared->has_recv)
            return; /* no space now */
    }
}

int beneath_srq(struct srq *srq, const struct ibv_srq_attr *attr)
{
    struct ibv_srq_init_attr init = {
        .attr = {.max_wr = attr->max_wr, .max_sge = attr->max_sge}};
    struct shared *shared;

    if (srq->tm != NULL)
        return inlet_open(srq);
    shared = mem_calloc(1, sizeof *shared);
    if (shared == NULL)
        return -ENOMEM;
    shared->of = srq;
    shared->srq = over.calls.create_srq(srq->pd->beneath, &init);
    if (shared->srq == NULL) {
        mem_free(shared);
        return errno > 0 ? -errno : -EIO;
    }
    list_init_node(&shared->node);
    list_add_tail(&shared_queues, &shared->node);
    srq->beneath = shared;
    return 0;
}

void beneath_srq_end(struct srq *srq)
{
    struct shared *shared = srq->beneath;

    if (srq->tm != NULL) {
        inlet_close(srq);
        return;
    }
    list_remove(&shared->node);
    over.calls.destroy_srq(shared->srq);
    mem_free(shared);
}

int beneath_srq_limit(struct srq *srq, uint32_t limit)
{
    struct shared *shared = srq->beneath;

    shared_pass_on(shared);
    return -over.calls.modify_srq(shared->srq, &(struct ibv_srq_attr){.srq_limit = limit},
                                  IBV_SRQ_LIMIT);
}

/* ---- making and ending ---- */

static int refuse(struct adapter_reply *reply, const char *why)
{
    strncpy(reply->text, why, sizeof reply->text - 1);
    return -EINVAL;
}

int beneath_qp(struct qp *qp, struct adapter_reply *reply)
{
    struct ibv_qp_init_attr init = {
        .cap = qp->cap, .qp_type = qp->type, .sq_sig_all = qp->all_signaled};
    struct pair *pair;

    if (is_matching(qp) && qp->srq->pd != qp->pd)
        return refuse(reply, "create_qp: a queue pair with a queue that matches tags is in its "
                             "protection domain");
    pair = mem_calloc(1, sizeof *pair);
    if (pair == NULL)
        return -ENOMEM;
    if (is_matching(qp)) {
        init.send_cq = init.recv_cq = inlet_cq(qp->srq);
        init.srq = inlet_srq(qp->srq);
        init.sq_sig_all = 1;
        init.cap.max_send_wr = (uint32_t)min_size(qp->send_size, (size_t)over.device.max_qp_wr);
    } else {
        init.send_cq = ((struct outlet *)qp->send_cq->beneath)->cq;
        init.recv_cq = ((struct outlet *)qp->recv_cq->beneath)->cq;
        init.srq = qp->srq != NULL ? ((struct shared *)qp->srq->beneath)->srq : NULL;
    }
    pair->qp = over.calls.create_qp(qp->pd->beneath, &init);
    if (pair->qp == NULL) {
        mem_free(pair);
        return errno > 0 ? -errno : -EIO;
    }
    pair->of = qp;
    list_init(&pair->targets);
    list_init_node(&pair->stuck);
    list_init_node(&pair->numbered);
    list_add_tail(&numbered[pair->qp->qp_num % NUMBERED], &pair->numbered);
    qp->beneath = pair;
    qp->number = pair->qp->qp_num;
    return 0;
}

/* Flushes requests of tm.c that will not complete beneath any more. */
static void flush_requests(struct qp *qp)
{
    struct send_work work;

    while (request_tail(qp) != qp->acked && request_read(qp, qp->acked, &work)) {
        qp->acked++;
        if (qp->next < qp->acked)
            qp->next = qp->acked;
        request_complete(qp, &work, IBV_WC_WR_FLUSH_ERR);
    }
    qp->reads_out = 0;
}

void beneath_qp_end(struct qp *qp)
{
    struct pair *pair = qp->beneath;
    struct list *node, *next;

    if (is_matching(qp)) {
        qp_fail(qp);
        inlet_drain(inlet_of(qp->srq));
    }
    list_remove(&pair->numbered);
    list_remove(&pair->stuck);
    over.calls.destroy_qp(pair->qp);
    list_for_each_safe (node, next, &pair->targets) {
        struct target *target = container_of(node, struct target, node);

        over.calls.destroy_ah(target->ah);
        mem_free(target);
    }
    mem_free(pair);
    if (is_matching(qp)) {
        inlet_forget(qp);
        flush_requests(qp);
    }
}

/* ---- states ---- */

static void reset(struct qp *qp)
{
    if (is_matching(qp)) {
        inlet_forget(qp);
        flush_requests(qp);
    }
    qp->acked = qp->next = request_tail(qp);
    atomic_store_explicit(&qp->send_ring->head, qp->acked, memory_order_release);
    qp->has_recv = false;
    queue_empty(&qp->recv);
    memset(&qp->attr, 0, sizeof qp->attr);
}

int qp_modify(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply)
{
    struct qp *qp = object_find(client, KIND_QP, request->handle);
    const uint32_t mask = request->modify.mask;
    struct ibv_qp_attr attr = request->modify.attr;
    struct pair *pair;
    int err;

    (void)reply;
    if (qp == NULL)
        return -EINVAL;
    pair = qp->beneath;
    if (is_matching(qp) && (mask & IBV_QP_STATE) && attr.qp_state == IBV_QPS_RESET)
        qp_fail(qp), inlet_drain(inlet_of(qp->srq));
    err = over.calls.modify_qp(pair->qp, &attr, (int)mask);
    if (err != 0)
        return err > 0 ? -err : -EINVAL;
    if (mask & IBV_QP_PATH_MTU)
        qp->attr.path_mtu = attr.path_mtu;
    if (mask & IBV_QP_DEST_QPN)
        qp->attr.dest_qp_num = attr.dest_qp_num;
    if (mask & IBV_QP_STATE)
        qp->state = attr.qp_state;
    if ((mask & IBV_QP_STATE) && qp->state == IBV_QPS_RESET)
        reset(qp);
    qp_wake(qp);
    return 0;
}

int qp_query(struct client *client, const struct adapter_request *request,
             struct adapter_reply *reply)
{
    const struct qp *qp = object_find(client, KIND_QP, request->handle);
    const int all = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
                    IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_TIMEOUT |
                    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_CAP | IBV_QP_DEST_QPN;
    struct ibv_qp_init_attr init;
    int err;

    if (qp == NULL)
        return -EINVAL;
    err = over.calls.query_qp(pair_beneath(qp), &reply->qp.attr, all, &init);
    reply->qp.attr.cap = qp->cap;
    return err > 0 ? -err : err;
}

/* The adapter beneath flushes its requests. */
void qp_fail(struct qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET)
        return;
    qp->state = IBV_QPS_ERR;
    if (!over.is_lost)
        over.calls.modify_qp(pair_beneath(qp), &attr, IBV_QP_STATE);
    qp_wake(qp);
}

/* ---- requests ---- */

static struct ibv_ah *target_of(struct qp *qp, const struct adapter_address *to)
{
    struct pair *pair = qp->beneath;
    struct ibv_ah_attr attr = {.dlid = to->lid,
                               .sl = to->sl,
                               .is_global = to->is_global,
                               .port_num = to->port,
                               .grh = {.flow_label = to->flow_label,
                                       .sgid_index = to->sgid_index,
                                       .hop_limit = to->hop_limit,
                                       .traffic_class = to->traffic_class}};
    struct target *target;
    struct list *node;

    list_for_each (node, &pair->targets) {
        target = container_of(node, struct target, node);
        if (memcmp(&target->to, to, sizeof *to) == 0)
            return target->ah;
    }
    target = mem_calloc(1, sizeof *target);
    if (target == NULL)
        return NULL;
    memcpy(attr.grh.dgid.raw, to->gid, sizeof attr.grh.dgid.raw);
    target->to = *to;
    target->ah = over.calls.create_ah(qp->pd->beneath, &attr);
    if (target->ah == NULL) {
        mem_free(target);
        return NULL;
    }
    list_init_node(&target->node);
    list_add_tail(&pair->targets, &target->node);
    return target->ah;
}

static void set_remote(struct qp *qp, const struct adapter_send *send, struct ibv_send_wr *wr)
{
    if (qp->type == IBV_QPT_UD) {
        wr->wr.ud.ah = target_of(qp, &send->to);
        wr->wr.ud.remote_qpn = send->remote_qpn;
        wr->wr.ud.remote_qkey = send->remote_qkey;
    } else if (send->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
               send->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr->wr.atomic.remote_addr = send->remote_addr;
        wr->wr.atomic.compare_add = send->compare_add;
        wr->wr.atomic.swap = send->swap;
        wr->wr.atomic.rkey = send->rkey;
    } else {
        wr->wr.rdma.remote_addr = send->remote_addr;
        wr->wr.rdma.rkey = send->rkey;
    }
}

static int post_send(struct qp *qp, struct send_work *work)
{
    struct ibv_send_wr wr = {.wr_id = work->wr.wr_id,
                             .opcode = work->wr.opcode,
                             .send_flags = work->wr.flags,
                             .imm_data = work->wr.imm};
    struct ibv_send_wr *bad;
    struct ibv_sge inlined = {.addr = (uintptr_t)work->data, .length = work->wr.inline_size};

    if (work->wr.opcode > IBV_WR_ATOMIC_FETCH_AND_ADD)
        return EINVAL;
    set_remote(qp, &work->wr, &wr);
    if (qp->type == IBV_QPT_UD && wr.wr.ud.ah == NULL)
        return EINVAL;
    wr.sg_list = work->wr.flags & IBV_SEND_INLINE ? &inlined : work->sge;
    wr.num_sge =
        work->wr.flags & IBV_SEND_INLINE ? work->wr.inline_size > 0 : (int)work->wr.num_sge;
    if (is_matching(qp)) {
        wr.wr_id &= ~WR_IS_BUFFER;
        wr.send_flags &= ~(unsigned)IBV_SEND_FENCE;
    }
    return ibv_post_send(pair_beneath(qp), &wr, &bad);
}

static void count(const struct send_work *work)
{
    counters.rdma_reads += work->wr.opcode == IBV_WR_RDMA_READ;
    counters.sends += work->wr.opcode == IBV_WR_SEND || work->wr.opcode == IBV_WR_SEND_WITH_IMM;
}

/* Does the request wait for earlier reads?  Their completions wake the queue pair. */
static bool is_fenced(const struct qp *qp, const struct send_work *work)
{
    return is_matching(qp) && (work->wr.flags & IBV_SEND_FENCE) && qp->reads_out > 0;
}

static void pass_receives_on(struct qp *qp)
{
    struct pair *pair = qp->beneath;

    if (qp->recv.ring == NULL || qp->state == IBV_QPS_RESET)
        return;
    while (qp->has_recv || queue_take(&qp->recv, qp->object.client, &qp->recv_work) > 0) {
        qp->has_recv = post_recv(pair->qp, NULL, &qp->recv_work) != 0;
        if (qp->has_recv) {
            mark_stuck(pair);
            return;
        }
    }
}

/* Receives that a program posted before a request must pass down before it: look_at_doorbells()
 * sees to that.  A request that the adapter beneath refuses completes with
 * IBV_WC_LOC_QP_OP_ERR. */
static void pass_requests_on(struct qp *qp)
{
    const uint64_t tail = request_tail(qp);
    struct send_work work;

    if (tail != qp->next)
        look_at_doorbells();
    while (tail != qp->next && request_read(qp, qp->next, &work) && !is_fenced(qp, &work)) {
        const int err = post_send(qp, &work);

        if (err == ENOMEM) {
            mark_stuck(qp->beneath);
            return;
        }
        qp->next++;
        if (is_matching(qp)) {
            qp->reads_out += err == 0 && work.wr.opcode == IBV_WR_RDMA_READ;
        } else {
            qp->acked = qp->next;
            atomic_store_explicit(&qp->send_ring->head, qp->acked, memory_order_release);
        }
        count(&work);
        if (err == 0)
            continue;
        client_say(qp->object.client,
                   "queue pair %#x: the adapter beneath refuses a request: %s", qp->number,
                   strerror(err));
        qp_fail(qp);
        if (is_matching(qp))
            qp->next--; /* flushed when the queue pair ends */
        else
            request_complete(qp, &work, IBV_WC_LOC_QP_OP_ERR);
        return;
    }
}

void qp_run(struct qp *qp)
{
    if (qp->state == IBV_QPS_RESET || qp->object.client->is_gone)
        return;
    pass_receives_on(qp);
    if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_ERR)
        pass_requests_on(qp);
}

void client_doorbell(struct client *client)
{
    struct list *node;

    list_for_each (node, &client->matching) {
        struct srq *srq = container_of(node, struct srq, matching);

        tm_commands(srq);
        inlet_try_again(srq);
    }
    list_for_each (node, &shared_queues) {
        struct shared *shared = container_of(node, struct shared, node);

        if (shared->of->object.client == client)
            shared_pass_on(shared);
    }
    list_for_each (node, &client->objects) {
        struct object *object = container_of(node, struct object, node);

        if (object->kind != KIND_QP)
            break; /* queue pairs come first */
        pass_receives_on(container_of(object, struct qp, object));
        qp_wake(container_of(object, struct qp, object));
    }
}

void pairs_have_space(void)
{
    struct list *node;

    while ((node = list_pop_head(&stuck)) != NULL)
        qp_wake(container_of(node, struct pair, stuck)->of);
    list_for_each (node, &shared_queues)
        shared_pass_on(container_of(node, struct shared, node));
}

/* ---- completions ---- */

/* A GRH flag of verbs.h makes sense only for datagrams; Soft-RoCE sets it for every receive. */
static uint32_t flags_of(const struct qp *qp, const struct ibv_wc *wc)
{
    return qp->type == IBV_QPT_UD ? wc->wc_flags : wc->wc_flags & ~(unsigned)IBV_WC_GRH;
}

void pair_completed(struct cq *cq, struct qp *qp, const struct ibv_wc *wc)
{
    const struct adapter_cqe cqe = {.wr_id = wc->wr_id,
                                    .status = wc->status,
                                    .opcode = wc->opcode,
                                    .vendor_err = wc->vendor_err,
                                    .byte_len = wc->byte_len,
                                    .imm = wc->imm_data,
                                    .qp_num = wc->qp_num,
                                    .src_qp = wc->src_qp,
                                    .flags = flags_of(qp, wc),
                                    .slid = wc->slid,
                                    .sl = wc->sl};

    if (wc->status != IBV_WC_SUCCESS) {
        qp->state = IBV_QPS_ERR; /* the adapter beneath has done the same */
        qp_wake(qp);
    }
    /* this side does not know whether the sender requested an event */
    cq_push(cq, &cqe, true);
}

/* ---- functions that only the emulated adapter needs ---- */

uint64_t qps_wait_until(void)
{
    return NEVER;
}

void qps_look_at_clock(uint64_t now)
{
    (void)now;
}

bool step_is_held(void)
{
    return false;
}

void step_client_ends(const struct client *client)
{
    (void)client;
}

int step_perform(const struct client *client, const struct adapter_request *request,
                 struct adapter_reply *reply)
{
    (void)client, (void)request, (void)reply;
    return -EOPNOTSUPP;
}
