/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c - Open MPI's requests, from its base's free lists.
 *
 *   list ── take ──> described ──> started ──> complete ──┐
 *    ^                                                     ├── both: back to the list
 *    └──────────────────────────── freed by MPI ───────────┘
 *
 * MPI may free a request before it is complete, after, or from within its completion; and with
 * threads at the same moment.  So each of the two ends is marked, and the thread that marks the
 * second one gives the request back.  A completion sets its mark last, unless there is a callback.
 *
 * A persistent request that is not active is complete and not freed.
 *
 * Invariant
 *   I1  a request that is back, or was never used, is not persistent and has no callback, nothing
 *       to release, and no Fortran handle
 */
#include "pml/pml.h"

static int request_free_send(ompi_request_t **request);
static int request_cancel_send(ompi_request_t *request, int flag);
static int request_cancel_recv(ompi_request_t *request, int flag);

static void request_open(mca_pml_base_request_t *base, struct pml_own *own,
                         mca_pml_base_request_type_t type)
{
    base->req_ompi.req_type = OMPI_REQUEST_PML;
    base->req_ompi.req_start = pml_start;
    base->req_ompi.req_persistent = false;
    base->req_ompi.req_complete_cb = NULL;
    base->req_ompi.req_complete_cb_data = NULL;
    base->req_type = type;
    /* debuggers take a request in this state for free */
    base->req_ompi.req_state = OMPI_REQUEST_INVALID;
    base->req_comm = NULL;
    base->req_pml_complete = true;
    base->req_free_called = true;
    OBJ_CONSTRUCT(&base->req_convertor, opal_convertor_t);
    own->copy = NULL;
    own->is_converted = false;
    own->is_unstarted = false;
    own->event = 0;
}

static void send_construct(pml_send_t *send)
{
    request_open(&send->super.req_base, &send->own, MCA_PML_REQUEST_SEND);
    send->super.req_base.req_ompi.req_free = request_free_send;
    send->super.req_base.req_ompi.req_cancel = request_cancel_send;
}

static void recv_construct(pml_recv_t *recv)
{
    request_open(&recv->super.req_base, &recv->own, MCA_PML_REQUEST_RECV);
    recv->super.req_base.req_ompi.req_free = pml_request_free_recv;
    recv->super.req_base.req_ompi.req_cancel = request_cancel_recv;
}

static OBJ_CLASS_INSTANCE(pml_send_t, mca_pml_base_send_request_t, send_construct, NULL);
static OBJ_CLASS_INSTANCE(pml_recv_t, mca_pml_base_recv_request_t, recv_construct, NULL);

static int list_open(opal_free_list_t *list, size_t size, opal_class_t *class)
{
    return opal_free_list_init(list, size, PML_LINE, class, 0, PML_LINE, 4, -1, 64, NULL, 0,
                               NULL, NULL, NULL);
}

int pml_requests_open(void)
{
    int err = list_open(&mca_pml_base_send_requests, sizeof(pml_send_t), OBJ_CLASS(pml_send_t));

    if (err == OMPI_SUCCESS)
        err = list_open(&mca_pml_base_recv_requests, sizeof(pml_recv_t), OBJ_CLASS(pml_recv_t));
    return err;
}

/* Open MPI's lists order a thread's accesses to a request before accesses of its next user.
 * ThreadSanitizer does not see it: the lists are atomic by instructions that it does not
 * follow. */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *address);
void __tsan_release(void *address);

static void list_gave(void *request)
{
    if (request != NULL)
        __tsan_acquire(request);
}

static void list_gets(void *request)
{
    __tsan_release(request);
}
#else
static inline void list_gave(void *request)
{
    (void)request;
}

static inline void list_gets(void *request)
{
    (void)request;
}
#endif

pml_send_t *pml_send_take(void)
{
    pml_send_t *send = (pml_send_t *)opal_free_list_get(&mca_pml_base_send_requests);

    list_gave(send);
    return send;
}

static OUT_OF_LINE pml_recv_t *recv_take_listed(void)
{
    pml_recv_t *recv = (pml_recv_t *)opal_free_list_get(&mca_pml_base_recv_requests);

    list_gave(recv);
    return recv;
}

pml_recv_t *pml_recv_take(void)
{
    pml_recv_t *recv = pml.spare;

    if (unlikely(recv == NULL))
        return recv_take_listed();
    pml.spare = recv->own.next_spare;
    return recv;
}

void pml_send_drop(pml_send_t *send)
{
    list_gets(send);
    opal_free_list_return(&mca_pml_base_send_requests, (opal_free_list_item_t *)send);
}

static inline void recv_keep(pml_recv_t *recv)
{
    recv->own.next_spare = pml.spare;
    pml.spare = recv;
}

/* Without threads the receive is kept here: the list uses locks and atomic counts. */
static inline void recv_drop(pml_recv_t *recv)
{
    if (!pml.has_threads) {
        recv_keep(recv);
        return;
    }
    list_gets(recv);
    opal_free_list_return(&mca_pml_base_recv_requests, (opal_free_list_item_t *)recv);
}

/* Increments a reference count: without threads without an atomic instruction. */
static inline void retain(opal_object_t *object)
{
    if (unlikely(pml.has_threads)) {
        OBJ_RETAIN(object);
    } else {
        object->obj_reference_count++;
    }
}

static OUT_OF_LINE void pml_request_release(opal_object_t *object)
{
    OBJ_RELEASE(object);
}

static inline void release_alone(opal_object_t *object)
{
    int32_t left = object->obj_reference_count - 1;

    if (unlikely(left == 0))
        pml_request_release(object);
    else
        object->obj_reference_count = left;
}

static void request_describe(mca_pml_base_request_t *base, const void *buf, size_t count,
                             ompi_datatype_t *type, int peer, int tag,
                             ompi_communicator_t *comm, bool is_persistent)
{
    retain((opal_object_t *)comm);
    OMPI_DATATYPE_RETAIN(type);
    if (is_persistent)
        base->req_ompi.req_persistent = true;
    base->req_ompi.req_mpi_object.comm = comm;
    base->req_comm = comm;
    base->req_datatype = type;
    base->req_addr = (void *)(uintptr_t)buf;
    base->req_count = count;
    base->req_peer = peer;
    base->req_tag = tag;
}

void pml_send_describe(pml_send_t *send, const void *buf, size_t count, ompi_datatype_t *type,
                       int dst, int tag, mca_pml_base_send_mode_t mode,
                       ompi_communicator_t *comm, bool is_persistent)
{
    send->super.req_addr = buf;
    send->super.req_send_mode = mode;
    send->super.req_bytes_packed = pml_data_size(type, count);
    request_describe(&send->super.req_base, buf, count, type, dst, tag, comm, is_persistent);
    /* osc/pt2pt reads both after a send has completed */
    send->super.req_base.req_ompi.req_status.MPI_SOURCE = dst;
    send->super.req_base.req_ompi.req_status.MPI_TAG = tag;
}

void pml_recv_describe(pml_recv_t *recv, void *buf, size_t count, ompi_datatype_t *type,
                       int src, int tag, ompi_communicator_t *comm, bool is_persistent)
{
    request_describe(&recv->super.req_base, buf, count, type, src, tag, comm, is_persistent);
}

/* Marks the request as free for debuggers, and releases its datatype. */
static inline void request_forget(mca_pml_base_request_t *base)
{
    OMPI_REQUEST_FINI(&base->req_ompi);
    OMPI_DATATYPE_RELEASE(base->req_datatype);
    base->req_free_called = true;
}

void pml_request_give_back(mca_pml_base_request_t *base)
{
    request_forget(base);
    pml_request_release((opal_object_t *)base->req_comm);
    if (unlikely(base->req_ompi.req_persistent))
        pml_persistent_end(base);
    if (base->req_type == MCA_PML_REQUEST_SEND)
        pml_send_drop((pml_send_t *)base);
    else
        recv_drop((pml_recv_t *)base);
}

void pml_recv_end(pml_recv_t *recv)
{
    request_forget(&recv->super.req_base);
    release_alone((opal_object_t *)recv->super.req_base.req_comm);
    recv_keep(recv);
}

/* Marks one end; the base's own field is set already.  True if the other end was marked
 * before.  With threads both may come at the same time. */
static inline bool request_ends(const mca_pml_base_request_t *base, struct pml_own *own,
                                int end)
{
    if (unlikely(pml.has_threads))
        return (atomic_fetch_or(&own->ends, end) | end) == (PML_COMPLETE | PML_FREED);
    return end == PML_COMPLETE ? base->req_free_called : base->req_pml_complete;
}

/* A callback of Open MPI's own parts may free the request, or start it again: so the mark comes
 * first, and nothing is touched after a callback that returns non-zero. */
static OUT_OF_LINE void request_call_back(mca_pml_base_request_t *base, struct pml_own *own)
{
    ompi_request_complete_fn_t callback = base->req_ompi.req_complete_cb;

    bool is_freed, is_complete;

    base->req_ompi.req_complete_cb = NULL;
    if (own->event != 0) { /* order_recv.c's callback neither frees nor starts it */
        (void)callback(&base->req_ompi);
        ompi_request_complete(&base->req_ompi, true);
        if (request_ends(base, own, PML_COMPLETE))
            pml_request_give_back(base);
        return;
    }
    is_freed = request_ends(base, own, PML_COMPLETE);
    ++*pml_calling_back();
    is_complete = callback(&base->req_ompi) == 0;
    --*pml_calling_back();
    if (!is_complete)
        return;
    ompi_request_complete(&base->req_ompi, true);
    if (is_freed)
        pml_request_give_back(base);
}

void pml_request_complete(mca_pml_base_request_t *base, struct pml_own *own)
{
    base->req_pml_complete = true;
    if (unlikely(base->req_ompi.req_complete_cb != NULL)) {
        request_call_back(base, own);
        return;
    }
    ompi_request_complete(&base->req_ompi, true);
    if (request_ends(base, own, PML_COMPLETE))
        pml_request_give_back(base);
}

void pml_request_settle(struct pml_own *own)
{
    while (pml.has_threads && !(atomic_load(&own->ends) & PML_COMPLETE))
        ;
}

static int request_free(ompi_request_t **request, mca_pml_base_request_t *base,
                        struct pml_own *own)
{
    base->req_free_called = true;
    if (request_ends(base, own, PML_FREED))
        pml_request_give_back(base);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

/* Not with threads: another thread may be reporting an error with the name of the rank. */
void pml_send_let_go(pml_send_t *send)
{
    mca_pml_base_request_t *base = &send->super.req_base;
    ompi_communicator_t *comm = base->req_comm;
    const ompi_proc_t *proc;

    if (pml.has_threads || comm == MPI_COMM_WORLD)
        return;
    proc = ompi_comm_peer_lookup(comm, base->req_peer);
    base->req_peer =
        proc != NULL && pml_series_job(proc) == 0 ? (int)proc->super.proc_name.vpid : -1;
    base->req_comm = base->req_ompi.req_mpi_object.comm = MPI_COMM_WORLD;
    retain((opal_object_t *)MPI_COMM_WORLD);
    pml_request_release((opal_object_t *)comm);
}

static int request_free_send(ompi_request_t **request)
{
    pml_send_t *send = (pml_send_t *)*request;

    if (!send->super.req_base.req_pml_complete)
        pml_send_let_go(send);
    return request_free(request, &send->super.req_base, &send->own);
}

int pml_request_free_recv(ompi_request_t **request)
{
    pml_recv_t *recv = (pml_recv_t *)*request;

    return request_free(request, &recv->super.req_base, &recv->own);
}

/* The completion reports whether the cancel came in time. */
static int request_cancel_send(ompi_request_t *request, int flag)
{
    pml_send_t *send = (pml_send_t *)request;

    if (flag && !REQUEST_COMPLETE(request))
        mbx_cancel(pml.ep, send->own.handle);
    return OMPI_SUCCESS;
}

static int request_cancel_recv(ompi_request_t *request, int flag)
{
    pml_recv_t *recv = (pml_recv_t *)request;

    if (flag && !REQUEST_COMPLETE(request))
        mbx_cancel(pml.ep, recv->own.handle);
    return OMPI_SUCCESS;
}
