/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.c - creates and destroys queue pairs, for both kinds of adapter.
 */
#include <errno.h>
#include <string.h>

#include "adapter/daemon/daemon.h"
#include "base/mem.h"

struct list runnable = {&runnable, &runnable};

static bool is_matching(const struct qp *qp)
{
    return qp->srq != NULL && qp->srq->tm != NULL;
}

static int check_caps(const struct adapter_request *request)
{
    const struct ibv_qp_cap *cap = &request->qp.cap;

    if (cap->max_send_wr > ADAPTER_WR_MAX || cap->max_recv_wr > ADAPTER_WR_MAX ||
        cap->max_send_sge > ADAPTER_SGE_MAX || cap->max_recv_sge > ADAPTER_SGE_MAX ||
        cap->max_inline_data > ADAPTER_INLINE_MAX)
        return -EINVAL;
    return request->qp.type == IBV_QPT_RC || request->qp.type == IBV_QPT_UD ? 0 : -EOPNOTSUPP;
}

static int map_rings(struct qp *qp, struct adapter_reply *reply)
{
    size_t send, recv = 0;
    int err;

    qp->send_size = qp->cap.max_send_wr;
    qp->send_stride = adapter_send_stride(qp->cap.max_send_sge, qp->cap.max_inline_data);
    send = adapter_ring_bytes(qp->send_size, qp->send_stride);
    if (qp->srq == NULL)
        recv =
            adapter_ring_bytes(qp->cap.max_recv_wr, adapter_recv_stride(qp->cap.max_recv_sge));
    err = memory_map(&qp->memory, "mbx-qp", send + recv);
    if (err != 0)
        return err;
    qp->send_ring = qp->memory.base;
    qp->send_entries = (unsigned char *)(qp->send_ring + 1);
    if (recv > 0)
        queue_init(&qp->recv, (unsigned char *)qp->memory.base + send, qp->cap.max_recv_wr,
                   qp->cap.max_recv_sge);
    reply->ring.bytes = qp->memory.bytes;
    reply->ring.send_offset = 0;
    reply->ring.recv_offset = send;
    reply->ring.cap = qp->cap;
    return 0;
}

/* Finds the objects that the queue pair uses, which must be this client's.  0; -EINVAL. */
static int take_parts(struct qp *qp, struct client *client,
                      const struct adapter_request *request)
{
    qp->pd = object_find(client, KIND_PD, request->qp.pd);
    qp->send_cq = object_find(client, KIND_CQ, request->qp.send_cq);
    qp->recv_cq = object_find(client, KIND_CQ, request->qp.recv_cq);
    if (request->qp.srq != 0)
        qp->srq = object_find(client, KIND_SRQ, request->qp.srq);
    if (qp->pd == NULL || qp->send_cq == NULL || qp->recv_cq == NULL ||
        (request->qp.srq != 0 && qp->srq == NULL))
        return -EINVAL;
    return is_matching(qp) && request->qp.type != IBV_QPT_RC ? -EINVAL : 0;
}

static void take_values(struct qp *qp, const struct adapter_request *request)
{
    qp->cap = request->qp.cap;
    if (qp->srq != NULL)
        qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
    qp->tm_handle = TM_NONE;
    qp->cookie = request->qp.cookie;
    qp->type = request->qp.type;
    qp->all_signaled = request->qp.all_signaled != 0;
    qp->state = IBV_QPS_RESET;
    list_init_node(&qp->run);
}

/* Changes the use counts of these objects. */
static void use_parts(struct qp *qp, int more)
{
    qp->pd->object.users += (uint32_t)more;
    qp->send_cq->object.users += (uint32_t)more;
    qp->recv_cq->object.users += (uint32_t)more;
    if (qp->srq != NULL)
        qp->srq->object.users += (uint32_t)more;
}

static int make(struct qp *qp, struct client *client, const struct adapter_request *request,
                struct adapter_reply *reply)
{
    int err = take_parts(qp, client, request);

    if (err != 0)
        return err;
    take_values(qp, request);
    err = map_rings(qp, reply);
    if (err == 0 && is_matching(qp))
        err = tm_attach(qp);
    if (err == 0)
        err = object_add(&qp->object, KIND_QP, client);
    if (err == 0 && (err = beneath_qp(qp, reply)) != 0)
        object_remove(&qp->object);
    return err;
}

int qp_create(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply, int *fd)
{
    int err = check_caps(request);
    struct qp *qp;

    if (err != 0)
        return err;
    qp = mem_calloc(1, sizeof *qp);
    if (qp == NULL)
        return -ENOMEM;
    err = make(qp, client, request, reply);
    if (err != 0) {
        if (qp->send_ring != qp->memory.base) /* tm_attach() was called */
            tm_detach(qp);
        memory_unmap(&qp->memory);
        mem_free(qp);
        return err;
    }
    use_parts(qp, 1);
    reply->handle = qp->object.handle;
    reply->ring.number = qp->number;
    *fd = qp->memory.fd;
    qp->memory.fd = -1;
    return 0;
}

void qp_destroy(struct qp *qp)
{
    beneath_qp_end(qp);
    if (is_matching(qp))
        tm_detach(qp);
    list_remove(&qp->run);
    use_parts(qp, -1);
    memory_unmap(&qp->memory);
    object_remove(&qp->object);
    mem_free(qp);
}

void qp_wake(struct qp *qp)
{
    if (!list_is_linked(&qp->run))
        list_add_tail(&runnable, &qp->run);
}

bool qp_can_receive(const struct qp *qp)
{
    return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS;
}
