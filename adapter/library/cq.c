/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq.c - completion queues: polled by ibv_poll_cq() and by the functions of struct ibv_cq_ex.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "adapter/library/library.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sys.h"

#define EMPTIES_POLITE 16  /* empty polls until the thread yields, perhaps to the adapter */
#define EMPTIES_ASK    256 /* empty polls between checks of the adapter; a power of two */
#define TURN_SHORT     (100 * CLOCK_US) /* a yield this long is not repeated at once */

static struct lib_cq *lib_cq(struct ibv_cq *cq)
{
    return container_of(cq, struct lib_cq, cq);
}

static struct lib_cq *lib_cq_ex(struct ibv_cq_ex *cq)
{
    return container_of(cq, struct lib_cq, ex);
}

/* ---- polling; the caller has the lock ---- */

/* On a crowded core each yield costs a turn of all other threads, and with schedulers that take
 * a whole slice for a yield, nearly the whole core.  So a thread that has waited long in a
 * yield then polls for as long. */
static void let_others_run(void)
{
    static _Thread_local uint64_t next;
    const uint64_t now = clock_now();

    if (now < next)
        return;
    sys_yield();
    next = clock_now();
    if (next - now > TURN_SHORT)
        next += next - now;
}

/* Takes the oldest completion; 0, ENOENT, or EIO: the adapter is gone. */
static int take(struct lib_cq *cq, struct adapter_cqe *cqe)
{
    struct lib_context *context = lib_context(cq->cq.context);

    if (atomic_load_explicit(&cq->ring->tail, memory_order_acquire) == cq->head) {
        cq->empties++;
        if (cq->empties % EMPTIES_ASK == 0 && control_is_lost(context))
            return EIO;
        if (cq->empties > EMPTIES_POLITE)
            let_others_run();
        return context->is_lost ? EIO : ENOENT;
    }
    cq->empties = 0;
    *cqe = cq->entries[cq->head % cq->size];
    cq->head++;
    atomic_store_explicit(&cq->ring->head, cq->head, memory_order_release);
    if (cqe->srq != 0)
        lib_tm_polled(cq, cqe);
    if (cqe->status != IBV_WC_SUCCESS && cqe->status != IBV_WC_WR_FLUSH_ERR)
        control_complain(context);
    return 0;
}

static struct ibv_wc wc_of(const struct adapter_cqe *cqe)
{
    return (struct ibv_wc){.wr_id = cqe->wr_id,
                           .status = cqe->status,
                           .opcode = cqe->opcode,
                           .vendor_err = cqe->vendor_err,
                           .byte_len = cqe->byte_len,
                           .imm_data = cqe->imm,
                           .qp_num = cqe->qp_num,
                           .src_qp = cqe->src_qp,
                           .wc_flags = cqe->flags,
                           .slid = cqe->slid,
                           .sl = cqe->sl};
}

int lib_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    struct lib_cq *own = lib_cq(cq);
    struct adapter_cqe cqe;
    int n = 0, err = 0;

    pthread_mutex_lock(&own->lock);
    while (n < count && (err = take(own, &cqe)) == 0)
        wc[n++] = wc_of(&cqe);
    pthread_mutex_unlock(&own->lock);
    return n == 0 && err == EIO ? -EIO : n;
}

int lib_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    struct lib_cq *own = lib_cq(cq);

    /* seq_cst: the store comes before the program's next poll; pairs with cq_push() of the
     * daemon */
    atomic_store_explicit(&own->ring->armed,
                          solicited_only ? ADAPTER_ARMED_SOLICITED : ADAPTER_ARMED,
                          memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
    return 0;
}

/* Removes a queue pair's unpolled completions, as drivers do at its reset or destruction. */
void lib_clean_cq(struct ibv_cq *cq, uint32_t qp_num)
{
    struct lib_cq *own = lib_cq(cq);
    uint64_t to, from;

    pthread_mutex_lock(&own->lock);
    to = from = atomic_load_explicit(&own->ring->tail, memory_order_acquire);
    while (from-- != own->head) /* the youngest first: kept entries move towards the tail */
        if (own->entries[from % own->size].qp_num != qp_num)
            own->entries[--to % own->size] = own->entries[from % own->size];
    own->head = to;
    atomic_store_explicit(&own->ring->head, to, memory_order_release);
    pthread_mutex_unlock(&own->lock);
}

/* ---- the extended interface ---- */

static int next_poll(struct ibv_cq_ex *cq)
{
    struct lib_cq *own = lib_cq_ex(cq);
    const int err = take(own, &own->now);

    if (err == 0) {
        cq->wr_id = own->now.wr_id;
        cq->status = own->now.status;
    }
    return err;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
    struct lib_cq *own = lib_cq_ex(cq);
    int err;

    if (attr->comp_mask != 0)
        return EINVAL;
    pthread_mutex_lock(&own->lock);
    err = next_poll(cq);
    if (err != 0)
        pthread_mutex_unlock(&own->lock);
    return err;
}

static void end_poll(struct ibv_cq_ex *cq)
{
    pthread_mutex_unlock(&lib_cq_ex(cq)->lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
    return lib_cq_ex(cq)->now.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
    return lib_cq_ex(cq)->now.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
    return lib_cq_ex(cq)->now.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
    return lib_cq_ex(cq)->now.imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
    return lib_cq_ex(cq)->now.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
    return lib_cq_ex(cq)->now.src_qp;
}

static unsigned read_wc_flags(struct ibv_cq_ex *cq)
{
    return lib_cq_ex(cq)->now.flags;
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
    return lib_cq_ex(cq)->now.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
    return lib_cq_ex(cq)->now.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
    (void)cq;
    return 0;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
    return lib_cq_ex(cq)->now.timestamp_ns;
}

static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
    *info = (struct ibv_wc_tm_info){.tag = lib_cq_ex(cq)->now.tag,
                                    .priv = lib_cq_ex(cq)->now.app_ctx};
}

static void fill_ex(struct ibv_cq_ex *cq, uint64_t flags)
{
#define WITH(flag, call) ((flags & (flag)) != 0 ? (call) : NULL)
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
    cq->end_poll = end_poll;
    cq->read_opcode = read_opcode;
    cq->read_vendor_err = read_vendor_err;
    cq->read_wc_flags = read_wc_flags;
    cq->read_byte_len = WITH(IBV_WC_EX_WITH_BYTE_LEN, read_byte_len);
    cq->read_imm_data = WITH(IBV_WC_EX_WITH_IMM, read_imm_data);
    cq->read_qp_num = WITH(IBV_WC_EX_WITH_QP_NUM, read_qp_num);
    cq->read_src_qp = WITH(IBV_WC_EX_WITH_SRC_QP, read_src_qp);
    cq->read_slid = WITH(IBV_WC_EX_WITH_SLID, read_slid);
    cq->read_sl = WITH(IBV_WC_EX_WITH_SL, read_sl);
    cq->read_dlid_path_bits = WITH(IBV_WC_EX_WITH_DLID_PATH_BITS, read_dlid_path_bits);
    cq->read_completion_ts = WITH(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, read_completion_ts);
    cq->read_tm_info = WITH(IBV_WC_EX_WITH_TM_INFO, read_tm_info);
#undef WITH
}

/* ---- making and ending ---- */

static struct lib_cq *create(struct ibv_context *context, uint32_t cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    struct lib_cq *cq = mem_calloc(1, sizeof *cq);
    const struct adapter_request request = {
        .op = ADAPTER_CREATE_CQ,
        .cq = {.cookie = (uintptr_t)cq,
               .cqe = cqe,
               .channel = channel != NULL
                              ? container_of(channel, struct lib_channel, channel)->handle
                              : 0}};
    struct adapter_reply reply;
    int fds[2];
    int err = cq == NULL ? ENOMEM : vector != 0 || cqe == 0 ? EINVAL : 0;

    if (err == 0)
        err = control(lib_context(context), &request, &reply, -1, fds);
    if (err != 0) {
        mem_free(cq);
        errno = err;
        return NULL;
    }
    cq->cq.context = context;
    cq->cq.channel = channel;
    cq->cq.cq_context = cq_context;
    cq->cq.handle = reply.handle;
    cq->cq.cqe = (int)reply.ring.entries;
    cq->size = reply.ring.entries;
    cq->bytes = reply.ring.bytes;
    cq->ring = control_map(fds[0], cq->bytes);
    if (cq->ring == NULL) {
        control_destroy(context, reply.handle);
        mem_free(cq);
        errno = ENOMEM;
        return NULL;
    }
    cq->entries = (struct adapter_cqe *)(cq->ring + 1);
    pthread_mutex_init(&cq->lock, NULL);
    pthread_mutex_init(&cq->cq.mutex, NULL);
    pthread_cond_init(&cq->cq.cond, NULL);
    live_add(&cq->live);
    return cq;
}

API struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                 struct ibv_comp_channel *channel, int vector)
{
    struct lib_cq *cq =
        create(context, cqe > 0 ? (uint32_t)cqe : 0, cq_context, channel, vector);

    return cq != NULL ? &cq->cq : NULL;
}

struct ibv_cq_ex *lib_create_cq_ex(struct ibv_context *context,
                                   struct ibv_cq_init_attr_ex *attr)
{
    const uint64_t known =
        IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_TM_INFO;
    struct lib_cq *cq;

    if ((attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ||
        (attr->wc_flags & ~known) != 0 ||
        ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
         (attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0)) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    cq = create(context, attr->cqe, attr->cq_context, attr->channel, (int)attr->comp_vector);
    if (cq == NULL)
        return NULL;
    fill_ex(&cq->ex, attr->wc_flags);
    return &cq->ex;
}

API int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    (void)cq, (void)cqe;
    return EOPNOTSUPP;
}

API int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct lib_cq *own = lib_cq(cq);
    const int err = control_destroy(cq->context, cq->handle);

    if (err != 0)
        return err;
    live_remove(&own->live);
    /* as verbs.h requires: waits until the program has acknowledged all events */
    pthread_mutex_lock(&cq->mutex);
    while (cq->comp_events_completed != own->told)
        pthread_cond_wait(&cq->cond, &cq->mutex);
    pthread_mutex_unlock(&cq->mutex);
    munmap(own->ring, own->bytes);
    pthread_mutex_destroy(&own->lock);
    mem_free(own);
    return 0;
}
