/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.c - receive queues, of one queue pair or shared.
 */
#include <errno.h>
#include <string.h>

#include "adapter/daemon/daemon.h"
#include "base/mem.h"

void queue_init(struct recv_queue *queue, void *ring, uint32_t size, uint32_t max_sge)
{
    queue->ring = ring;
    queue->entries = (unsigned char *)(queue->ring + 1);
    queue->size = size;
    queue->max_sge = max_sge;
    queue->stride = adapter_recv_stride(max_sge);
    queue->head = 0;
}

static uint64_t length_of(struct recv_queue *queue, struct client *client)
{
    const uint64_t tail = atomic_load_explicit(&queue->ring->tail, memory_order_acquire);

    if (tail - queue->head > queue->size) {
        client_broke(client, "the index of a receive queue");
        return 0;
    }
    return tail - queue->head;
}

int queue_take(struct recv_queue *queue, struct client *client, struct recv_work *work)
{
    const unsigned char *entry;

    if (queue->ring == NULL || client->is_gone || length_of(queue, client) == 0)
        return 0;
    entry = queue->entries + queue->head % queue->size * queue->stride;
    memcpy(&work->wr, entry, sizeof work->wr);
    if (work->wr.num_sge > queue->max_sge) {
        client_broke(client, "a receive with more buffers than its queue allows");
        return 0;
    }
    memcpy(work->sge, entry + sizeof work->wr, work->wr.num_sge * sizeof work->sge[0]);
    queue->head++;
    atomic_store_explicit(&queue->ring->head, queue->head, memory_order_release);
    return 1;
}

static void look_at_limit(struct srq *srq)
{
    if (srq->limit == 0 || length_of(&srq->queue, srq->object.client) >= srq->limit)
        return;
    srq->limit = 0;
    client_event(srq->object.client, IBV_EVENT_SRQ_LIMIT_REACHED, srq->cookie);
}

void queue_empty(struct recv_queue *queue)
{
    if (queue->ring == NULL)
        return;
    queue->head = atomic_load_explicit(&queue->ring->tail, memory_order_acquire);
    atomic_store_explicit(&queue->ring->head, queue->head, memory_order_release);
}

int qp_take_recv(struct qp *qp, struct recv_work *work)
{
    int taken;

    if (qp->srq == NULL)
        return queue_take(&qp->recv, qp->object.client, work);
    taken = queue_take(&qp->srq->queue, qp->object.client, work);
    look_at_limit(qp->srq);
    return taken;
}

int srq_create(struct client *client, const struct adapter_request *request,
               struct adapter_reply *reply, int *fd)
{
    const struct ibv_srq_attr *attr = &request->srq.attr;
    struct pd *pd = object_find(client, KIND_PD, request->srq.pd);
    const size_t receives =
        adapter_ring_bytes(attr->max_wr, adapter_recv_stride(attr->max_sge));
    struct cq *cq = NULL;
    struct srq *srq;
    int err;

    if (pd == NULL || attr->max_wr == 0 || attr->max_wr > ADAPTER_WR_MAX ||
        attr->max_sge == 0 || attr->max_sge > ADAPTER_SGE_MAX)
        return -EINVAL;
    if (request->srq.tags > 0 && (request->srq.tags > host.tags || request->srq.ops == 0 ||
                                  request->srq.ops > ADAPTER_WR_MAX ||
                                  (cq = object_find(client, KIND_CQ, request->srq.cq)) == NULL))
        return -EINVAL;
    srq = mem_calloc(1, sizeof *srq);
    if (srq == NULL)
        return -ENOMEM;
    err = memory_map(&srq->memory, "mbx-srq",
                     receives + (cq != NULL ? adapter_ring_bytes(request->srq.ops,
                                                                 sizeof(struct adapter_command))
                                            : 0));
    if (err == 0 && cq != NULL)
        err = tm_create(srq, cq, (unsigned char *)srq->memory.base + receives,
                        request->srq.tags, request->srq.ops);
    if (err == 0)
        err = object_add(&srq->object, KIND_SRQ, client);
    srq->pd = pd;
    queue_init(&srq->queue, srq->memory.base, attr->max_wr, attr->max_sge);
    if (err == 0 && (err = beneath_srq(srq, attr)) != 0)
        object_remove(&srq->object);
    if (err != 0) {
        tm_destroy(srq);
        memory_unmap(&srq->memory);
        mem_free(srq);
        return err;
    }
    pd->object.users++;
    srq->cookie = request->srq.cookie;
    reply->handle = srq->object.handle;
    reply->ring.bytes = srq->memory.bytes;
    reply->ring.entries = attr->max_wr;
    reply->ring.send_offset = receives;
    list_init_node(&srq->matching);
    if (cq != NULL)
        list_add_tail(&client->matching, &srq->matching);
    *fd = srq->memory.fd;
    srq->memory.fd = -1;
    return 0;
}

int srq_modify(struct client *client, const struct adapter_request *request,
               struct adapter_reply *reply)
{
    struct srq *srq = object_find(client, KIND_SRQ, request->handle);

    (void)reply;
    if (srq == NULL)
        return -EINVAL;
    if (request->srq.mask != IBV_SRQ_LIMIT)
        return -EOPNOTSUPP; /* queues cannot be resized */
    if (request->srq.attr.srq_limit > srq->queue.size)
        return -EINVAL;
    if (srq->tm == NULL) {
        const int err = beneath_srq_limit(srq, request->srq.attr.srq_limit);

        if (err != -ENOSYS)
            return err;
    }
    srq->limit = request->srq.attr.srq_limit;
    look_at_limit(srq);
    return 0;
}

int srq_query(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply)
{
    const struct srq *srq = object_find(client, KIND_SRQ, request->handle);

    if (srq == NULL)
        return -EINVAL;
    reply->srq = (struct ibv_srq_attr){
        .max_wr = srq->queue.size, .max_sge = srq->queue.max_sge, .srq_limit = srq->limit};
    return 0;
}
