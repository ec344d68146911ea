/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq.c - completion queues, their channels, and completions.
 *
 * A completion that finds its queue full overruns it, as on hardware: an async event reports
 * it, and the queue pairs that use the queue fail.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "adapter/daemon/daemon.h"
#include "base/mem.h"
#include "base/sys.h"

int channel_create(struct client *client, int fd, struct adapter_reply *reply)
{
    struct channel *channel;

    if (fd < 0)
        return -EBADF;
    channel = mem_calloc(1, sizeof *channel);
    if (channel == NULL || object_add(&channel->object, KIND_CHANNEL, client) != 0) {
        mem_free(channel);
        return -ENOMEM;
    }
    channel->fd = fd;
    reply->handle = channel->object.handle;
    return 0;
}

int cq_create(struct client *client, const struct adapter_request *request,
              struct adapter_reply *reply, int *fd)
{
    const uint32_t size = request->cq.cqe;
    struct channel *channel = NULL;
    struct cq *cq;
    int err;

    if (size == 0 || size > ADAPTER_CQE_MAX)
        return -EINVAL;
    if (request->cq.channel != 0 &&
        (channel = object_find(client, KIND_CHANNEL, request->cq.channel)) == NULL)
        return -EINVAL;
    cq = mem_calloc(1, sizeof *cq);
    if (cq == NULL)
        return -ENOMEM;
    err = memory_map(&cq->memory, "mbx-cq", adapter_ring_bytes(size, sizeof *cq->entries));
    if (err == 0)
        err = object_add(&cq->object, KIND_CQ, client);
    cq->size = size;
    if (err == 0 && (err = beneath_cq(cq)) != 0)
        object_remove(&cq->object);
    if (err != 0) {
        memory_unmap(&cq->memory);
        mem_free(cq);
        return err;
    }
    cq->channel = channel;
    if (channel != NULL)
        channel->object.users++;
    cq->cookie = request->cq.cookie;
    cq->ring = cq->memory.base;
    cq->entries = (struct adapter_cqe *)(cq->ring + 1);
    reply->handle = cq->object.handle;
    reply->ring.bytes = cq->memory.bytes;
    reply->ring.entries = size;
    *fd = cq->memory.fd;
    cq->memory.fd = -1;
    return 0;
}

static void overrun(struct cq *cq)
{
    struct qp *qp;

    cq->is_overrun = true;
    client_say(cq->object.client, "a completion queue of %u entries is overrun", cq->size);
    client_event(cq->object.client, IBV_EVENT_CQ_ERR, cq->cookie);
    for (uint32_t cursor = 0; (qp = object_next(KIND_QP, &cursor)) != NULL;)
        if (qp->send_cq == cq || qp->recv_cq == cq)
            qp_fail(qp);
}

static void tell(struct cq *cq, bool is_solicited)
{
    const struct adapter_completion_event event = {cq->cookie};
    const uint32_t armed = atomic_load_explicit(&cq->ring->armed, memory_order_relaxed);

    if (armed == ADAPTER_NOT_ARMED || (armed == ADAPTER_ARMED_SOLICITED && !is_solicited))
        return;
    atomic_store_explicit(&cq->ring->armed, ADAPTER_NOT_ARMED, memory_order_relaxed);
    /* a full pipe has unread events: the program is awake */
    if (cq->channel != NULL && write(cq->channel->fd, &event, sizeof event) < 0 &&
        errno != EAGAIN && errno != EPIPE)
        client_say(cq->object.client, "a completion event: %s", strerror(errno));
}

void cq_push(struct cq *cq, const struct adapter_cqe *cqe, bool is_solicited)
{
    const uint64_t head = atomic_load_explicit(&cq->ring->head, memory_order_acquire);
    struct adapter_cqe *entry = &cq->entries[cq->tail % cq->size];

    if (cq->is_overrun)
        return;
    if (cq->tail - head > cq->size) {
        client_broke(cq->object.client, "the index of a completion queue");
        return;
    }
    if (cq->tail - head == cq->size) {
        overrun(cq);
        return;
    }
    *entry = *cqe;
    entry->timestamp_ns = clock_now();
    cq->tail++;
    counters.completions++;
    /* seq_cst: before `armed` is read; pairs with the fence of lib_req_notify_cq() */
    atomic_store_explicit(&cq->ring->tail, cq->tail, memory_order_seq_cst);
    tell(cq, is_solicited || cqe->status != IBV_WC_SUCCESS);
}
