/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.c - posts receives to a queue pair or a shared receive queue.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "adapter/library/library.h"
#include "base/mem.h"

void ring_init(struct lib_ring *ring, void *memory, uint32_t size, size_t stride)
{
    ring->ring = memory;
    ring->entries = (unsigned char *)(ring->ring + 1);
    ring->size = size;
    ring->stride = stride;
    ring->tail = 0;
}

bool ring_has_space(const struct lib_ring *ring, uint64_t tail)
{
    return ring->ring != NULL &&
           tail - atomic_load_explicit(&ring->ring->head, memory_order_acquire) < ring->size;
}

int ring_post_recv(struct lib_ring *ring, uint32_t max_sge, struct ibv_recv_wr *wr,
                   struct ibv_recv_wr **bad)
{
    int err = 0;

    for (; wr != NULL; wr = wr->next) {
        const struct adapter_recv recv = {.wr_id = wr->wr_id, .num_sge = (uint32_t)wr->num_sge};
        unsigned char *entry;

        if (wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge)
            err = EINVAL;
        else if (!ring_has_space(ring, ring->tail))
            err = ENOMEM;
        if (err != 0) {
            *bad = wr;
            break;
        }
        entry = ring->entries + ring->tail % ring->size * ring->stride;
        memcpy(entry, &recv, sizeof recv);
        if (wr->num_sge > 0)
            memcpy(entry + sizeof recv, wr->sg_list, (size_t)wr->num_sge * sizeof *wr->sg_list);
        ring->tail++;
    }
    if (ring->ring != NULL)
        atomic_store_explicit(&ring->ring->tail, ring->tail, memory_order_release);
    return err;
}

/* ---- shared receive queues ---- */

static struct lib_srq *lib_srq(struct ibv_srq *srq)
{
    return container_of(srq, struct lib_srq, srq);
}

static struct ibv_srq *create(struct ibv_context *context, struct adapter_request *request,
                              struct ibv_srq *like, struct ibv_srq_attr *attr,
                              struct ibv_cq *cq)
{
    struct lib_srq *srq = mem_calloc(1, sizeof *srq);
    struct adapter_reply reply;
    int fds[2];
    int err = ENOMEM;

    if (srq != NULL && (srq->expected = mem_calloc(request->srq.tags + 1, 1)) != NULL) {
        request->op = ADAPTER_CREATE_SRQ;
        request->srq.cookie = (uintptr_t)srq;
        request->srq.attr = *attr;
        err = control(lib_context(context), request, &reply, -1, fds);
    }
    if (err == 0) {
        srq->bytes = reply.ring.bytes;
        srq->memory = control_map(fds[0], srq->bytes);
        err = srq->memory != NULL ? 0 : ENOMEM;
        if (err != 0)
            control_destroy(context, reply.handle);
    }
    if (err != 0) {
        if (srq != NULL)
            mem_free(srq->expected);
        mem_free(srq);
        errno = err;
        return NULL;
    }
    srq->srq = *like;
    srq->srq.context = context;
    srq->srq.handle = reply.handle;
    srq->max_sge = attr->max_sge;
    ring_init(&srq->recv, srq->memory, reply.ring.entries, adapter_recv_stride(attr->max_sge));
    pthread_mutex_init(&srq->lock, NULL);
    pthread_mutex_init(&srq->srq.mutex, NULL);
    pthread_cond_init(&srq->srq.cond, NULL);
    live_add(&srq->live);
    if (cq != NULL)
        lib_tm_begin(srq, cq, request, (unsigned char *)srq->memory + reply.ring.send_offset);
    return &srq->srq;
}

API struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct adapter_request request = {.srq = {.pd = pd->handle}};
    struct ibv_srq like = {.srq_context = attr->srq_context, .pd = pd};

    return create(pd->context, &request, &like, &attr->attr, NULL);
}

/* SRQs of the basic type reach this function only if attr has fields that they do not need. */
struct ibv_srq *lib_create_srq_ex(struct ibv_context *context,
                                  struct ibv_srq_init_attr_ex *attr)
{
    const uint32_t needed = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                            IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
    struct adapter_request request = {0};
    struct ibv_srq like = {.srq_context = attr->srq_context, .pd = attr->pd};

    if (attr->comp_mask != needed || attr->srq_type != IBV_SRQT_TM ||
        lib_context(context)->tags == 0) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    if (attr->tm_cap.max_num_tags == 0) {
        errno = EINVAL;
        return NULL;
    }
    request.srq.pd = attr->pd->handle;
    request.srq.cq = attr->cq->handle;
    request.srq.tags = attr->tm_cap.max_num_tags;
    request.srq.ops = attr->tm_cap.max_ops;
    return create(context, &request, &like, &attr->attr, attr->cq);
}

API int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    const struct adapter_request request = {.op = ADAPTER_MODIFY_SRQ,
                                            .handle = srq->handle,
                                            .srq = {.mask = (uint32_t)mask, .attr = *attr}};
    struct adapter_reply reply;

    return control(lib_context(srq->context), &request, &reply, -1, NULL);
}

API int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    const struct adapter_request request = {.op = ADAPTER_QUERY_SRQ, .handle = srq->handle};
    struct adapter_reply reply;
    const int err = control(lib_context(srq->context), &request, &reply, -1, NULL);

    if (err == 0)
        *attr = reply.srq;
    return err;
}

int lib_get_srq_num(struct ibv_srq *srq, uint32_t *number)
{
    *number = srq->handle;
    return 0;
}

int lib_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct lib_srq *own = lib_srq(srq);
    int err;

    pthread_mutex_lock(&own->lock);
    err = ring_post_recv(&own->recv, own->max_sge, wr, bad);
    pthread_mutex_unlock(&own->lock);
    if (lib_context(srq->context)->is_over)
        control_ring(lib_context(srq->context)); /* it goes to the adapter beneath */
    return err;
}

API int ibv_destroy_srq(struct ibv_srq *srq)
{
    struct lib_srq *own = lib_srq(srq);
    const int err = control_destroy(srq->context, srq->handle);

    if (err != 0)
        return err;
    live_remove(&own->live);
    lib_tm_end(own);
    munmap(own->memory, own->bytes);
    pthread_mutex_destroy(&own->lock);
    mem_free(own->expected);
    mem_free(own);
    return 0;
}
