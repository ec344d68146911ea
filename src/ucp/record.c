/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record.c - records of requests, their pool and their completion.
 *
 *   FREE ──> OPEN ──> ENDED ──> COMPLETE ──> FREE
 *              │        the callback runs      the client gives it up, before or after
 *              └──> FREE: refused, or complete when the call returns
 *
 * The library calls back within its own calls, and a callback must not make another one.  So an
 * operation that ends is only put into the worker's list, and its callback runs when the library's call
 * has returned: in ucp_worker_progress(), which takes the list in its order.  A call that handles the
 * end of its own operation says so in worker->held, and that record does not enter the list.
 *
 * A record is COMPLETE while its callback runs, so that the client sees the result there, and so do other
 * threads.  A thread that gives it up then only marks it: is_reported.
 *
 * Invariants (ucpx_worker_is_valid)
 *   I1  a record of a slab is FREE if and only if it is in the list of free ones
 *   I2  a record is in the list of completions if and only if it is ENDED, except for worker->held
 *   I3  a record that is FREE refers to no datatype and to no copy
 *   I4  a slab is not given back before the worker is destroyed
 */
#include "ucp/door.h"

#include <string.h>

#include "base/mem.h"

#define PER_SLAB 64

struct slab {
    struct list link;
    _Alignas(16) unsigned char records[];
};

/* ---- the pool ---- */

void ucpx_pool_init(struct ucpx_pool *pool, struct ucp_context *context)
{
    list_init(&pool->free);
    list_init(&pool->slabs);
    pool->size = round_up(UCPX_RECORD_SIZE + context->request_size, 16);
    pool->allocated = pool->live = 0;
    pool->context = context;
}

static struct ucpx_record *slab_record(const struct ucpx_pool *pool, struct slab *slab,
                                       size_t i)
{
    return (struct ucpx_record *)(slab->records + i * pool->size);
}

static bool pool_grow(struct ucpx_pool *pool)
{
    struct slab *slab = mem_calloc(1, sizeof *slab + PER_SLAB * pool->size);

    if (slab == NULL)
        return false;
    list_add_tail(&pool->slabs, &slab->link);
    for (size_t i = 0; i < PER_SLAB; i++) {
        struct ucpx_record *record = slab_record(pool, slab, i);

        list_add_tail(&pool->free, &record->link);
        if (pool->context->request_init != NULL)
            pool->context->request_init(ucpx_request_of(record));
    }
    return true;
}

void ucpx_pool_fini(struct ucpx_pool *pool)
{
    struct list *node;

    while ((node = list_pop_head(&pool->slabs)) != NULL) {
        struct slab *slab = container_of(node, struct slab, link);

        for (size_t i = 0; i < PER_SLAB; i++) {
            struct ucpx_record *record = slab_record(pool, slab, i);

            if (pool->context->request_cleanup != NULL)
                pool->context->request_cleanup(ucpx_request_of(record));
        }
        mem_free(slab);
    }
}

/* Is it a record of the pool?  Asked of the client's memory alone, which ucp_request_alloc() may have provided. */
static bool pool_has(const struct ucpx_pool *pool, const struct ucpx_record *record)
{
    const struct list *node;

    if (pool->allocated == 0)
        return false;
    list_for_each (node, &pool->slabs) {
        const struct slab *slab = container_of(node, struct slab, link);
        uintptr_t from = (uintptr_t)slab->records, at = (uintptr_t)record;

        if (at >= from && at < from + PER_SLAB * pool->size)
            return true;
    }
    return false;
}

/* ---- taking and giving back ---- */

/* All but the link, of memory that may hold anything. */
static void record_fill(struct ucpx_record *record, struct ucp_worker *worker,
                        enum ucpx_kind kind)
{
    memset(record, 0, sizeof *record);
    record->kind = (uint8_t)kind;
    record->status = UCS_INPROGRESS;
    record->failure = UCS_OK;
    record->worker = worker;
    ucpx_state_set(record, UCPX_OPEN);
}

struct ucpx_record *ucpx_record_take(struct ucp_worker *worker, enum ucpx_kind kind)
{
    struct ucpx_pool *pool = &worker->pool;
    struct list *node = list_pop_head(&pool->free);
    struct ucpx_record *record;

    if (unlikely(node == NULL) && pool_grow(pool))
        node = list_pop_head(&pool->free);
    if (unlikely(node == NULL))
        return NULL;
    record = container_of(node, struct ucpx_record, link);
    record_fill(record, worker, kind);
    pool->live++;
    return record;
}

static void record_drop_copy(struct ucpx_record *record)
{
    mem_free(record->copy);
    record->copy = NULL;
}

void ucpx_record_put(struct ucpx_record *record)
{
    struct ucpx_pool *pool = &record->worker->pool;

    assert(record->generic == NULL);
    record_drop_copy(record);
    ucpx_state_set(record, UCPX_FREE);
    if (record->is_lent && !pool_has(pool, record))
        return;
    assert(!list_is_linked(&record->link));
    list_add_head(&pool->free, &record->link);
    pool->live--;
}

struct ucpx_record *ucpx_record_begin(struct ucp_worker *worker, enum ucpx_kind kind,
                                      const struct ucpx_how *how)
{
    struct ucpx_record *record;

    if (unlikely(worker->is_armed))
        ucpx_worker_wake(worker);
    if (how->request == NULL) {
        record = ucpx_record_take(worker, kind);
        if (record == NULL)
            return NULL;
    } else {
        record = ucpx_record_of(how->request);
        record_fill(record, worker, kind);
        record->is_lent = true;
    }
    record->calls = (uint8_t)how->calls;
    record->callback = how->callback;
    record->user_data = how->user_data;
    return record;
}

/* ---- the end of an operation ---- */

void ucpx_record_end(struct ucpx_record *record, ucs_status_t status)
{
    assert(ucpx_state_of(record) == UCPX_OPEN);
    record_drop_copy(record);
    record->status = record->is_cancelled ? UCS_ERR_CANCELED : status;
    ucpx_state_set(record, UCPX_ENDED);
    if (record->worker->held != record)
        list_add_tail(&record->worker->ready, &record->link);
}

/* The client keeps its own memory, and can ask it for the result. */
static void record_leave(struct ucpx_record *record, ucs_status_t status)
{
    record_drop_copy(record);
    record->status = status;
    ucpx_state_set(record, UCPX_COMPLETE);
    if (!record->is_lent)
        ucpx_record_put(record);
}

ucs_status_ptr_t ucpx_record_at_once(struct ucpx_record *record, const struct ucpx_how *how,
                                     ucs_status_t status)
{
    void *request = ucpx_request_of(record);

    record->status = status;
    if (!(how->mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL)) {
        record_leave(record, status);
        return UCS_STATUS_PTR(status);
    }
    ucpx_state_set(record, UCPX_ENDED);
    ucpx_record_complete(record);
    return request;
}

ucs_status_ptr_t ucpx_record_refuse(struct ucpx_record *record, ucs_status_t status)
{
    record_leave(record, status);
    return UCS_STATUS_PTR(status);
}

/* The arguments of a callback, in memory that no other thread writes: the callback runs without the lock. */
struct report {
    enum ucpx_calls calls;
    union ucpx_callback callback;
    void *request, *user_data;
    ucs_status_t status;
    ucp_tag_recv_info_t info;
};

static void report(struct report *r)
{
    switch (r->calls) {
    case UCPX_CALLS_NONE:
        break;
    case UCPX_CALLS_SEND:
        r->callback.send(r->request, r->status, r->user_data);
        break;
    case UCPX_CALLS_SEND_NB:
        r->callback.send_nb(r->request, r->status);
        break;
    case UCPX_CALLS_RECV:
        r->callback.recv(r->request, r->status, &r->info, r->user_data);
        break;
    case UCPX_CALLS_RECV_NB:
        r->callback.recv_nb(r->request, r->status, &r->info);
        break;
    case UCPX_CALLS_DATA:
        r->callback.data(r->request, r->status, r->info.length, r->user_data);
        break;
    }
}

/* A client, in the callback or in another thread, may give the record up meanwhile: it is put back afterwards.  A client may
 * use its own memory for something else from the moment in which the record is complete, so that is not looked at again. */
void ucpx_record_complete(struct ucpx_record *record)
{
    struct ucp_worker *worker = record->worker;
    bool is_ours = !record->is_lent || pool_has(&worker->pool, record);
    struct report r = {.calls = (enum ucpx_calls)record->calls,
                       .callback = record->callback,
                       .request = ucpx_request_of(record),
                       .user_data = record->user_data,
                       .status = record->status,
                       .info = record->info};

    assert(ucpx_state_of(record) == UCPX_ENDED);
    record->is_reported = is_ours && r.calls != UCPX_CALLS_NONE;
    ucpx_state_set(record, UCPX_COMPLETE);
    if (r.calls != UCPX_CALLS_NONE) {
        ucpx_unlock(worker);
        report(&r);
        ucpx_lock(worker);
    }
    if (!is_ours)
        return;
    record->is_reported = false;
    if (record->is_released)
        ucpx_record_put(record);
}

unsigned ucpx_records_report(struct ucp_worker *worker)
{
    struct list *node;
    unsigned count = 0;

    list_splice_tail(&worker->due, &worker->ready);
    while ((node = list_pop_head(&worker->due)) != NULL) {
        ucpx_record_complete(container_of(node, struct ucpx_record, link));
        count++;
    }
    return count;
}
