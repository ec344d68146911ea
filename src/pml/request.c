/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c - Open MPI's requests, from its base's free lists.
 *
 *   list ── take ──> described ──> started ──> complete ──┐
 *    ^                                                     ├── both: back to the list
 *    └──────────────────────────── freed by MPI ───────────┘
 *
 * MPI may free a request before it is complete, after, or from within its completion; and, if all
 * is shared, at the same moment.  So each of the two ends is marked, in a field of Open MPI's, and
 * the thread that marks the second one gives the request back.  The two fields are one word for an
 * atomic operation.  A completion sets its mark last, unless there is a callback.
 *
 * A request keeps its communicator.  With MPI_THREAD_MULTIPLE a second thread may change the
 * communicator's count of references without a call of ours, so ours is changed atomically: once
 * for all requests of a communicator, which are counted here, and never for a predefined
 * communicator, which nobody can free.
 *
 * A persistent request that is not active is complete and not freed.
 *
 * Invariant
 *   I1  a request that is back, or was never used, is not persistent and has no callback, nothing
 *       to release, and no Fortran handle
 *   I2  with may_share, one reference to a communicator is ours while its `requests` is not 0
 */
#include "pml/pml.h"

#include <stddef.h>

/* One of the two ends of a request, in the word of both fields. */
enum request_end { REQUEST_ENDS_COMPLETE, REQUEST_ENDS_FREED };

typedef uint64_t __attribute__((may_alias)) request_ends_word;

union request_ends {
    int32_t ends[2]; /* by enum request_end */
    request_ends_word word;
};

static_assert(offsetof(mca_pml_base_request_t, req_free_called) ==
                      offsetof(mca_pml_base_request_t, req_pml_complete) + sizeof(int32_t) &&
                  offsetof(mca_pml_base_request_t, req_pml_complete) % sizeof(uint64_t) == 0 &&
                  sizeof((mca_pml_base_request_t *)0)->req_pml_complete == sizeof(int32_t),
              "both ends are in one word");

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

static void recv_give_back(pml_recv_t *recv)
{
    list_gets(recv);
    opal_free_list_return(&mca_pml_base_recv_requests, (opal_free_list_item_t *)recv);
}

/* A receive is kept here, unless all is shared: the list uses locks and atomic counts. */
static inline void recv_drop(pml_recv_t *recv)
{
    if (!pml.is_shared)
        recv_keep(recv);
    else
        recv_give_back(recv);
}

void pml_requests_share(void)
{
    pml_recv_t *recv;

    while ((recv = pml.spare) != NULL) {
        pml.spare = recv->own.next_spare;
        recv_give_back(recv);
    }
}

/* ---- the communicator of a request ---- */

static OUT_OF_LINE void object_release(opal_object_t *object)
{
    OBJ_RELEASE(object);
}

/* Adds to the number of requests that name a communicator; the number before. */
static inline uint32_t comm_count(struct pml_comm *own, int32_t change)
{
    uint32_t before = atomic_load_explicit(&own->requests, memory_order_relaxed);

    if (unlikely(pml.is_shared))
        return atomic_fetch_add(&own->requests, (uint32_t)change);
    atomic_store_explicit(&own->requests, before + (uint32_t)change, memory_order_relaxed);
    return before;
}

/* With may_share. */
static void comm_retain_counted(ompi_communicator_t *comm)
{
    if (!OMPI_COMM_IS_INTRINSIC(comm) && comm_count(pml_comm_of(comm), 1) == 0)
        OBJ_RETAIN(comm);
}

static void comm_release_counted(ompi_communicator_t *comm)
{
    if (!OMPI_COMM_IS_INTRINSIC(comm) && comm_count(pml_comm_of(comm), -1) == 1)
        object_release((opal_object_t *)comm);
}

static inline void comm_retain(ompi_communicator_t *comm)
{
    if (unlikely(pml.may_share))
        comm_retain_counted(comm);
    else
        ((opal_object_t *)comm)->obj_reference_count++;
}

static inline void comm_release_alone(ompi_communicator_t *comm)
{
    opal_object_t *object = (opal_object_t *)comm;
    int32_t left = object->obj_reference_count - 1;

    if (unlikely(left == 0))
        object_release(object);
    else
        object->obj_reference_count = left;
}

static inline void comm_release(ompi_communicator_t *comm)
{
    if (unlikely(pml.may_share))
        comm_release_counted(comm);
    else
        comm_release_alone(comm);
}

static void request_describe(mca_pml_base_request_t *base, const void *buf, size_t count,
                             ompi_datatype_t *type, int peer, int tag,
                             ompi_communicator_t *comm, bool is_persistent)
{
    comm_retain(comm);
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
    comm_release(base->req_comm);
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
    comm_release_alone(recv->super.req_base.req_comm);
    recv_keep(recv);
}

void pml_recv_end_owned(pml_recv_t *recv)
{
    request_forget(&recv->super.req_base);
    comm_release_counted(recv->super.req_base.req_comm);
    recv_keep(recv);
}

/* Both ends may come at the same time. */
static bool request_ends_shared(mca_pml_base_request_t *base, enum request_end end)
{
    union request_ends mark = {.word = 0};

    mark.ends[end] = true;
    mark.word |= __atomic_fetch_or((request_ends_word *)(uintptr_t)&base->req_pml_complete,
                                   mark.word, __ATOMIC_SEQ_CST);
    return mark.ends[REQUEST_ENDS_COMPLETE] && mark.ends[REQUEST_ENDS_FREED];
}

/* Marks one end.  True if the other end was marked before. */
static inline bool request_ends(mca_pml_base_request_t *base, enum request_end end)
{
    if (unlikely(pml.is_shared))
        return request_ends_shared(base, end);
    if (end == REQUEST_ENDS_COMPLETE)
        base->req_pml_complete = true;
    else
        base->req_free_called = true;
    return end == REQUEST_ENDS_COMPLETE ? base->req_free_called : base->req_pml_complete;
}

/* A callback of Open MPI's own parts may free the request, or start it again: so the mark comes
 * first, and nothing is touched after a callback that returns non-zero. */
static OUT_OF_LINE void request_call_back(mca_pml_base_request_t *base, struct pml_own *own)
{
    ompi_request_complete_fn_t callback = base->req_ompi.req_complete_cb;

    bool is_freed, is_complete, was_inside;

    base->req_ompi.req_complete_cb = NULL;
    if (own->event != 0) { /* order_recv.c's callback neither frees nor starts it */
        (void)callback(&base->req_ompi);
        ompi_request_complete(&base->req_ompi, true);
        if (request_ends(base, REQUEST_ENDS_COMPLETE))
            pml_request_give_back(base);
        return;
    }
    is_freed = request_ends(base, REQUEST_ENDS_COMPLETE);
    was_inside = pml_step_out();
    pml_calling_back++;
    is_complete = callback(&base->req_ompi) == 0;
    pml_calling_back--;
    pml_step_in(was_inside);
    if (!is_complete)
        return;
    ompi_request_complete(&base->req_ompi, true);
    if (is_freed)
        pml_request_give_back(base);
}

void pml_request_complete(mca_pml_base_request_t *base, struct pml_own *own)
{
    if (unlikely(base->req_ompi.req_complete_cb != NULL)) {
        request_call_back(base, own);
        return;
    }
    ompi_request_complete(&base->req_ompi, true);
    if (request_ends(base, REQUEST_ENDS_COMPLETE))
        pml_request_give_back(base);
}

void pml_request_settle(const mca_pml_base_request_t *base)
{
    while (pml.is_shared && !__atomic_load_n(&base->req_pml_complete, __ATOMIC_ACQUIRE))
        ;
}

static int request_free(ompi_request_t **request)
{
    mca_pml_base_request_t *base = (mca_pml_base_request_t *)*request;

    if (request_ends(base, REQUEST_ENDS_FREED))
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

    if (pml.may_share || comm == MPI_COMM_WORLD)
        return;
    proc = ompi_comm_peer_lookup(comm, base->req_peer);
    base->req_peer =
        proc != NULL && pml_series_job(proc) == 0 ? (int)proc->super.proc_name.vpid : -1;
    base->req_comm = base->req_ompi.req_mpi_object.comm = MPI_COMM_WORLD;
    comm_retain(MPI_COMM_WORLD);
    comm_release(comm);
}

static int request_free_send(ompi_request_t **request)
{
    pml_send_t *send = (pml_send_t *)*request;
    int err;

    pml_enter();
    if (!pml.may_share && !send->super.req_base.req_pml_complete)
        pml_send_let_go(send);
    err = request_free(request);
    pml_leave();
    return err;
}

int pml_request_free_recv(ompi_request_t **request)
{
    int err;

    pml_enter();
    err = request_free(request);
    pml_leave();
    return err;
}

/* The completion reports whether the cancel came in time. */
static int request_cancel_send(ompi_request_t *request, int flag)
{
    pml_send_t *send = (pml_send_t *)request;

    pml_enter();
    if (flag && !REQUEST_COMPLETE(request))
        mbx_cancel(pml.ep, send->own.handle);
    pml_leave();
    return OMPI_SUCCESS;
}

static int request_cancel_recv(ompi_request_t *request, int flag)
{
    pml_recv_t *recv = (pml_recv_t *)request;

    pml_enter();
    if (flag && !REQUEST_COMPLETE(request))
        mbx_cancel(pml.ep, recv->own.handle);
    pml_leave();
    return OMPI_SUCCESS;
}
