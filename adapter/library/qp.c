/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp.c - queue pairs, and posting to them.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "adapter/library/library.h"
#include "base/mem.h"

static struct lib_qp *lib_qp(struct ibv_qp *qp)
{
    return container_of(qp, struct lib_qp, qp);
}

/* ---- making and ending ---- */

static int map_rings(struct lib_qp *qp, const struct adapter_reply *reply, int fd)
{
    unsigned char *memory;

    qp->bytes = reply->ring.bytes;
    qp->memory = memory = control_map(fd, qp->bytes);
    if (memory == NULL)
        return ENOMEM;
    qp->cap = reply->ring.cap;
    ring_init(&qp->send, memory + reply->ring.send_offset, qp->cap.max_send_wr,
              adapter_send_stride(qp->cap.max_send_sge, qp->cap.max_inline_data));
    if (reply->ring.recv_offset < qp->bytes)
        ring_init(&qp->recv, memory + reply->ring.recv_offset, qp->cap.max_recv_wr,
                  adapter_recv_stride(qp->cap.max_recv_sge));
    return 0;
}

API struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct lib_qp *qp = mem_calloc(1, sizeof *qp);
    struct adapter_request request = {.op = ADAPTER_CREATE_QP};
    struct adapter_reply reply;
    int fds[2];
    int err = qp == NULL ? ENOMEM : attr->send_cq == NULL || attr->recv_cq == NULL ? EINVAL : 0;

    if (err == 0) {
        request.qp.cookie = (uintptr_t)qp;
        request.qp.pd = pd->handle;
        request.qp.send_cq = attr->send_cq->handle;
        request.qp.recv_cq = attr->recv_cq->handle;
        request.qp.srq = attr->srq != NULL ? attr->srq->handle : 0;
        request.qp.cap = attr->cap;
        request.qp.type = attr->qp_type;
        request.qp.all_signaled = attr->sq_sig_all != 0;
        err = control(lib_context(pd->context), &request, &reply, -1, fds);
    }
    if (err == 0 && (err = map_rings(qp, &reply, fds[0])) != 0)
        control_destroy(pd->context, reply.handle);
    if (err != 0) {
        mem_free(qp);
        errno = err;
        return NULL;
    }
    attr->cap = qp->cap;
    qp->init = *attr;
    qp->all_signaled = attr->sq_sig_all != 0;
    qp->qp.context = pd->context;
    qp->qp.qp_context = attr->qp_context;
    qp->qp.pd = pd;
    qp->qp.send_cq = attr->send_cq;
    qp->qp.recv_cq = attr->recv_cq;
    qp->qp.srq = attr->srq;
    qp->qp.handle = reply.handle;
    qp->qp.qp_num = reply.ring.number;
    qp->qp.state = IBV_QPS_RESET;
    qp->qp.qp_type = attr->qp_type;
    pthread_mutex_init(&qp->send_lock, NULL);
    pthread_mutex_init(&qp->recv_lock, NULL);
    pthread_mutex_init(&qp->qp.mutex, NULL);
    pthread_cond_init(&qp->qp.cond, NULL);
    live_add(&qp->live);
    return &qp->qp;
}

#define SEND_OPS                                                                               \
    (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |    \
     IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                                 \
     IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

struct ibv_qp *lib_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    const uint32_t known =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    struct ibv_qp *qp;

    (void)context;
    if ((attr->comp_mask & ~known) != 0 || !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) ||
        ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags != 0) ||
        ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
         (attr->send_ops_flags & ~(uint64_t)SEND_OPS) != 0)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    /* attr begins like struct ibv_qp_init_attr, as ibv_create_qp_ex() also assumes */
    qp = ibv_create_qp(attr->pd, (struct ibv_qp_init_attr *)attr);
    if (qp != NULL && (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
        qp_ex_fill(lib_qp(qp));
    return qp;
}

API struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return lib_qp(qp)->has_ex ? &lib_qp(qp)->ex : NULL;
}

static void clean(struct ibv_qp *qp)
{
    lib_clean_cq(qp->send_cq, qp->qp_num);
    if (qp->recv_cq != qp->send_cq)
        lib_clean_cq(qp->recv_cq, qp->qp_num);
}

static void forget(struct lib_ring *ring)
{
    if (ring->ring != NULL)
        ring->tail = atomic_load_explicit(&ring->ring->tail, memory_order_relaxed);
}

API int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    const struct adapter_request request = {.op = ADAPTER_MODIFY_QP,
                                            .handle = qp->handle,
                                            .modify = {.mask = (uint32_t)mask, .attr = *attr}};
    struct adapter_reply reply;
    const int err = control(lib_context(qp->context), &request, &reply, -1, NULL);

    if (err == 0 && (mask & IBV_QP_STATE)) {
        qp->state = attr->qp_state;
        if (qp->state == IBV_QPS_RESET) {
            clean(qp);
            forget(&lib_qp(qp)->send);
            forget(&lib_qp(qp)->recv);
        }
    }
    return err;
}

API int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                     struct ibv_qp_init_attr *init)
{
    const struct adapter_request request = {.op = ADAPTER_QUERY_QP, .handle = qp->handle};
    struct adapter_reply reply;
    const int err = control(lib_context(qp->context), &request, &reply, -1, NULL);

    (void)mask;
    if (err != 0)
        return err;
    *attr = reply.qp.attr;
    *init = lib_qp(qp)->init;
    qp->state = attr->qp_state;
    return 0;
}

API int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)qp, (void)op, (void)flags;
    return 0;
}

API int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

API int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    return ece->vendor_id == 0 ? 0 : EOPNOTSUPP;
}

API int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return EOPNOTSUPP;
}

API int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return EOPNOTSUPP;
}

API int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct lib_qp *own = lib_qp(qp);
    const int err = control_destroy(qp->context, qp->handle);

    if (err != 0)
        return err;
    live_remove(&own->live);
    clean(qp);
    munmap(own->memory, own->bytes);
    pthread_mutex_destroy(&own->send_lock);
    pthread_mutex_destroy(&own->recv_lock);
    mem_free(own);
    return 0;
}

/* ---- posting ---- */

static bool is_atomic(const struct ibv_send_wr *wr)
{
    return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static void set_target(const struct ibv_qp *qp, const struct ibv_send_wr *wr,
                       struct adapter_send *send)
{
    if (qp->qp_type == IBV_QPT_UD) {
        send->remote_qpn = wr->wr.ud.remote_qpn;
        send->remote_qkey = wr->wr.ud.remote_qkey;
        if (wr->wr.ud.ah != NULL)
            send->to = container_of(wr->wr.ud.ah, struct lib_ah, ah)->to;
    } else if (is_atomic(wr)) {
        send->remote_addr = wr->wr.atomic.remote_addr;
        send->compare_add = wr->wr.atomic.compare_add;
        send->swap = wr->wr.atomic.swap;
        send->rkey = wr->wr.atomic.rkey;
    } else {
        send->remote_addr = wr->wr.rdma.remote_addr;
        send->rkey = wr->wr.rdma.rkey;
    }
}

static int copy_inline(unsigned char *to, uint32_t max, const struct ibv_send_wr *wr,
                       uint32_t *size)
{
    *size = 0;
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];

        if (sge->length > max - *size)
            return ENOMEM; /* as drivers report it */
        if (sge->length > 0)
            memcpy(to + *size, (const void *)(uintptr_t)sge->addr, sge->length);
        *size += sge->length;
    }
    return 0;
}

static int post(struct lib_qp *qp, const struct ibv_send_wr *wr)
{
    unsigned char *entry = qp->send.entries + qp->send.tail % qp->send.size * qp->send.stride;
    struct adapter_send send = {.wr_id = wr->wr_id,
                                .opcode = wr->opcode,
                                .flags = wr->send_flags,
                                .imm = wr->imm_data,
                                .num_sge = (uint32_t)wr->num_sge};

    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > ADAPTER_SGE_MAX)
        return EINVAL;
    set_target(&qp->qp, wr, &send);
    if (wr->send_flags & IBV_SEND_INLINE) {
        const int err =
            copy_inline(entry + sizeof send, qp->cap.max_inline_data, wr, &send.inline_size);

        if (err != 0)
            return err;
        send.num_sge = 0;
    } else if (send.num_sge > qp->cap.max_send_sge) {
        return EINVAL;
    } else if (send.num_sge > 0) {
        memcpy(entry + sizeof send, wr->sg_list, send.num_sge * sizeof *wr->sg_list);
    }
    memcpy(entry, &send, sizeof send);
    qp->send.tail++;
    return 0;
}

int lib_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct lib_qp *own = lib_qp(qp);
    struct lib_context *context = lib_context(qp->context);
    int err = 0;

    /* hardware may accept the request, and never send it */
    if (qp->state < IBV_QPS_RTS || context->is_lost || lib_is_matching(qp->srq)) {
        *bad = wr;
        return context->is_lost ? EIO : EINVAL;
    }
    pthread_mutex_lock(&own->send_lock);
    for (; wr != NULL && err == 0; wr = wr->next) {
        err = ring_has_space(&own->send, own->send.tail) ? post(own, wr) : ENOMEM;
        if (err != 0) {
            *bad = wr;
            break;
        }
    }
    atomic_store_explicit(&own->send.ring->tail, own->send.tail, memory_order_release);
    pthread_mutex_unlock(&own->send_lock);
    control_ring(context);
    return err;
}

int lib_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct lib_qp *own = lib_qp(qp);
    struct lib_context *context = lib_context(qp->context);
    int err;

    if (qp->state == IBV_QPS_RESET || qp->srq != NULL || context->is_lost) {
        *bad = wr;
        return context->is_lost ? EIO : EINVAL;
    }
    pthread_mutex_lock(&own->recv_lock);
    err = ring_post_recv(&own->recv, own->cap.max_recv_sge, wr, bad);
    pthread_mutex_unlock(&own->recv_lock);
    control_ring(context); /* in ERR the receive is flushed */
    return err;
}
