/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp.c - queue pairs of the emulated adapter: their states, and which of them have work.
 */
#include <errno.h>
#include <string.h>

#include "adapter/daemon/daemon.h"
#include "base/mem.h"

/* No queue pair waits for an earlier moment. */
static uint64_t earliest = NEVER;

/* ---- no adapter beneath ---- */

int beneath_qp(struct qp *qp, struct adapter_reply *reply)
{
    (void)reply;
    qp->number = qp->object.handle;
    requester_reset(qp);
    responder_reset(qp);
    return 0;
}

void beneath_qp_end(struct qp *qp)
{
    if (qp->srq != NULL && qp->srq->tm != NULL && !qp->object.client->is_gone)
        qp_fail(qp); /* its taken receive is flushed */
}

/* ---- states ---- */

struct transition {
    enum ibv_qp_type type;
    enum ibv_qp_state from, to;
    uint32_t required, optional;
};

#define FOR_RECEIVING                                                                          \
    (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                           \
     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define FOR_SENDING                                                                            \
    (IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |                    \
     IBV_QP_MAX_QP_RD_ATOMIC)

/* The transitions of the InfiniBand specification; any state may also become RESET or ERR. */
static const struct transition transitions[] = {
    {IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0,
     IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, FOR_RECEIVING,
     IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, FOR_SENDING,
     IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
         IBV_QP_PATH_MIG_STATE},
    {IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0,
     IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
         IBV_QP_PATH_MIG_STATE},
    {IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    {IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    {IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

static int refuse(struct adapter_reply *reply, const char *why)
{
    strncpy(reply->text, why, sizeof reply->text - 1);
    return -EINVAL;
}

static int check_transition(const struct qp *qp, enum ibv_qp_state to, uint32_t mask,
                            struct adapter_reply *reply)
{
    mask &= ~(uint32_t)IBV_QP_STATE;
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return mask == 0 ? 0 : refuse(reply, "modify_qp: RESET and ERR take no attributes");
    for (size_t i = 0; i < ARRAY_COUNT(transitions); i++) {
        const struct transition *t = &transitions[i];

        if (t->type != qp->type || t->from != qp->state || t->to != to)
            continue;
        if (mask & ~(t->required | t->optional))
            return refuse(reply, "modify_qp: an attribute that this transition does not take");
        if (t->required & ~mask)
            return refuse(reply,
                          "modify_qp: an attribute is missing that this transition needs");
        return 0;
    }
    return refuse(reply, "modify_qp: there is no such transition (SQD is not offered)");
}

static int check_values(const struct ibv_qp_attr *attr, uint32_t mask,
                        struct adapter_reply *reply)
{
    if ((mask & IBV_QP_PORT) && attr->port_num != 1)
        return refuse(reply, "modify_qp: port_num is 1 here");
    if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index != 0)
        return refuse(reply, "modify_qp: pkey_index is 0 here");
    if ((mask & IBV_QP_PATH_MTU) &&
        (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096))
        return refuse(reply, "modify_qp: path_mtu is IBV_MTU_256 to IBV_MTU_4096");
    if (((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > ADAPTER_READS_MAX) ||
        ((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > ADAPTER_READS_MAX))
        return refuse(reply, "modify_qp: more than 16 RDMA reads at a time");
    if (((mask & IBV_QP_TIMEOUT) && attr->timeout > 31) ||
        ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31) ||
        ((mask & IBV_QP_RETRY_CNT) && attr->retry_cnt > 7) ||
        ((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > 7))
        return refuse(reply, "modify_qp: timers are 0 to 31, retries 0 to 7");
    if ((mask & IBV_QP_AV) && attr->ah_attr.port_num != 1)
        return refuse(reply, "modify_qp: ah_attr.port_num is 1 here");
    if ((mask & IBV_QP_AV) && attr->ah_attr.is_global && attr->ah_attr.grh.sgid_index != 0)
        return refuse(reply, "modify_qp: sgid_index is 0 here");
    return 0;
}

#define TAKE(flag, field)                                                                      \
    if (mask & (flag))                                                                         \
    qp->attr.field = attr->field

static void take_values(struct qp *qp, const struct ibv_qp_attr *attr, uint32_t mask)
{
    TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
    TAKE(IBV_QP_PKEY_INDEX, pkey_index);
    TAKE(IBV_QP_PORT, port_num);
    TAKE(IBV_QP_QKEY, qkey);
    TAKE(IBV_QP_AV, ah_attr);
    TAKE(IBV_QP_PATH_MTU, path_mtu);
    TAKE(IBV_QP_TIMEOUT, timeout);
    TAKE(IBV_QP_RETRY_CNT, retry_cnt);
    TAKE(IBV_QP_RNR_RETRY, rnr_retry);
    TAKE(IBV_QP_RQ_PSN, rq_psn);
    TAKE(IBV_QP_SQ_PSN, sq_psn);
    TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
    TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
    TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
    TAKE(IBV_QP_DEST_QPN, dest_qp_num);
    TAKE(IBV_QP_ALT_PATH, alt_ah_attr);
    TAKE(IBV_QP_PATH_MIG_STATE, path_mig_state);
    if (mask & IBV_QP_RQ_PSN)
        qp->expected = attr->rq_psn;
    if (mask & IBV_QP_AV) {
        struct adapter_address to = {.lid = attr->ah_attr.dlid,
                                     .is_global = attr->ah_attr.is_global != 0};

        memcpy(to.gid, attr->ah_attr.grh.dgid.raw, sizeof to.gid);
        qp->is_reachable = wire_route(&to, &qp->host);
    }
}

static void reset(struct qp *qp)
{
    requester_reset(qp);
    responder_reset(qp);
    queue_empty(&qp->recv);
    memset(&qp->attr, 0, sizeof qp->attr);
    qp->is_reachable = false;
}

int qp_modify(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply)
{
    struct qp *qp = object_find(client, KIND_QP, request->handle);
    const uint32_t mask = request->modify.mask;
    const struct ibv_qp_attr *attr = &request->modify.attr;
    enum ibv_qp_state to;
    int err;

    if (qp == NULL)
        return -EINVAL;
    to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
    if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->state)
        return refuse(reply, "modify_qp: cur_qp_state is not the state");
    err = check_transition(qp, to, mask, reply);
    if (err == 0)
        err = check_values(attr, mask, reply);
    if (err != 0)
        return err;
    take_values(qp, attr, mask);
    if (to == IBV_QPS_ERR) {
        qp_fail(qp);
        return 0;
    }
    qp->state = to;
    if (to == IBV_QPS_RESET)
        reset(qp);
    qp_wake(qp);
    return 0;
}

int qp_query(struct client *client, const struct adapter_request *request,
             struct adapter_reply *reply)
{
    const struct qp *qp = object_find(client, KIND_QP, request->handle);

    if (qp == NULL)
        return -EINVAL;
    reply->qp.attr = qp->attr;
    reply->qp.attr.qp_state = reply->qp.attr.cur_qp_state = qp->state;
    reply->qp.attr.cap = qp->cap;
    return 0;
}

void qp_fail(struct qp *qp)
{
    const bool was_connected = qp_can_receive(qp);

    if (qp->state == IBV_QPS_ERR)
        return;
    qp->state = IBV_QPS_ERR;
    if (was_connected && qp->srq != NULL)
        client_event(qp->object.client, IBV_EVENT_QP_LAST_WQE_REACHED, qp->cookie);
    qp_flush(qp);
}

/* All pending requests, and those posted from now on, end with WR_FLUSH_ERR. */
void qp_flush(struct qp *qp)
{
    struct recv_work work;
    struct adapter_cqe cqe = {
        .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV, .qp_num = qp->number};

    requester_flush(qp);
    responder_flush(qp);
    while (queue_take(&qp->recv, qp->object.client, &work) > 0) {
        cqe.wr_id = work.wr.wr_id;
        cq_push(qp->recv_cq, &cqe, true);
    }
}

/* ---- work ---- */

void qp_run(struct qp *qp)
{
    if (qp->state == IBV_QPS_ERR)
        qp_flush(qp);
    else if (qp->type == IBV_QPT_UD)
        ud_run(qp);
    else {
        responder_run(qp);
        requester_run(qp);
    }
}

void client_doorbell(struct client *client)
{
    struct list *node;

    if (!step_is_held())
        list_for_each (node, &client->matching)
            tm_commands(container_of(node, struct srq, matching));
    list_for_each (node, &client->objects) {
        struct object *object = container_of(node, struct object, node);
        struct qp *qp = container_of(object, struct qp, object);

        if (object->kind != KIND_QP)
            break; /* queue pairs come first */
        if (qp->state == IBV_QPS_ERR || requester_has_work(qp))
            qp_wake(qp);
    }
}

uint64_t qps_wait_until(void)
{
    return earliest;
}

void qp_wait_until(uint64_t moment)
{
    if (moment < earliest)
        earliest = moment;
}

void qps_look_at_clock(uint64_t now)
{
    struct qp *qp;

    if (now < earliest)
        return;
    earliest = NEVER;
    for (uint32_t cursor = 0; (qp = object_next(KIND_QP, &cursor)) != NULL;)
        requester_clock(qp, now);
}
