/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waits.c - MPI_Wait, MPI_Test and their like, which replace Open MPI's request functions.
 *
 *   mpi_*    without may_share, and for what costs the same with it
 *   owned_*  with may_share: the caller may own the component, or be a second thread
 *
 * The short path is for requests of ours that complete while the caller polls.  Open MPI's own functions do the rest: they
 * serve requests that are not ours, are persistent or have failed, and all requests once all is shared.
 *
 * With MPI_THREAD_MULTIPLE, waits and tests by Open MPI's own functions count as calls (met()):
 * they may read requests that the owner completes without locks.
 */
#include "pml/progress.h"

/* MPI_Waitall prefetches the cache lines of the request that is this many further on. */
#define WAIT_AHEAD 8

static ompi_request_fns_t usual;   /* Open MPI's */
static struct pml_any unowned_any; /* without may_share */

/* ---- which wait is a request in? ---- */

const void *pml_request_waits(const void *user, enum mbx_queue kind)
{
    const ompi_request_t *request = kind == MBX_RECVS
                                        ? &((const pml_recv_t *)user)->super.req_base.req_ompi
                                        : &((const pml_send_t *)user)->super.req_base.req_ompi;
    const void *by = (const void *)(uintptr_t)request->req_complete;

    return by == REQUEST_PENDING || by == REQUEST_COMPLETED ? NULL : by;
}

static inline struct pml_any *any_here(void)
{
    return pml.may_share ? pml_threads_any() : &unowned_any;
}

/* Does this thread wait for any of several requests, one of which is neither ours nor a collective's?
 * It may end by itself: it is a request of a file or window, or a generalized request. */
static bool any_has_others(void)
{
    const struct pml_any *any = any_here();

    for (size_t i = 0; any != NULL && i < any->count; i++)
        if (any->requests[i]->req_state == OMPI_REQUEST_ACTIVE &&
            any->requests[i]->req_type != OMPI_REQUEST_PML &&
            any->requests[i]->req_type != OMPI_REQUEST_COLL &&
            any->requests[i]->req_type != OMPI_REQUEST_NULL)
            return true;
    return false;
}

/* Callback of the library: the number of requests that the wait for this one still needs; 0: nothing
 * waits for it, the wait may end otherwise, or the number is not known.  Open MPI's own waits
 * store their wait object in each of their requests; MPI_Waitall counts the open requests,
 * other waits 1.  The object is on the stack of the thread that waits.  The object of another thread may be gone, and is not read. */
static uint32_t wait_explain(const void *user, enum mbx_queue kind)
{
    const ompi_request_t *request = kind == MBX_RECVS
                                        ? &((const pml_recv_t *)user)->super.req_base.req_ompi
                                        : &((const pml_send_t *)user)->super.req_base.req_ompi;
    const ompi_wait_sync_t *sync = pml_request_waits(user, kind);

    if (!pml.is_shared && request == progress.awaited) /* the owner waits, and answers */
        return 1;
    if (sync == NULL || (pml.may_share && !pml_thread_is_on_stack(sync)) || any_has_others())
        return 0;
    return sync->count > 0 ? (uint32_t)sync->count : 0;
}

/* ---- waiting for one request, and for all ---- */

/* Waits while one thread calls; if a second one comes, the request may be incomplete.  The first
 * poll finds completions that have already arrived. */
static inline void wait_alone(ompi_request_t *request)
{
    mbx_progress(pml.ep);
    progress_rest();
    progress_moved();
    if (unlikely(!REQUEST_COMPLETE(request)))
        progress_wait_long(request);
}

static inline void recv_end(ompi_request_t *request, bool may_share)
{
    if (may_share)
        pml_recv_end_owned((pml_recv_t *)request);
    else
        pml_recv_end((pml_recv_t *)request);
}

static OUT_OF_LINE void wait_outside(ompi_request_t *request)
{
    bool is_shared = pml.is_shared, was_inside = pml_step_out();

    if (is_shared)
        (void)poller_watch(request);
    ompi_request_wait_completion(request);
    pml_step_in(was_inside);
}

void pml_wait(ompi_request_t *request)
{
    if (likely(!pml.is_mpi_waiting))
        wait_alone(request);
    if (unlikely(pml.is_mpi_waiting))
        wait_outside(request);
}

/* The short path of MPI_Wait, for our own requests that succeed and are not persistent.  False:
 * Open MPI's own function must do all of it, or the rest.  may_share is a constant, here and below:
 * without threads it costs nothing. */
static inline bool wait_ends(ompi_request_t **out, ompi_status_public_t *status, int *err,
                             bool may_share)
{
    ompi_request_t *request = *out;

    if (unlikely(request->req_type != OMPI_REQUEST_PML))
        return false;
    if (!REQUEST_COMPLETE(request)) {
        wait_alone(request);
        if (may_share && unlikely(pml.is_shared))
            return false;
    }
    if (unlikely(request->req_persistent) ||
        unlikely(request->req_status.MPI_ERROR != OMPI_SUCCESS))
        return false;
    if (status != MPI_STATUS_IGNORE)
        OMPI_COPY_STATUS(status, request->req_status, false);
    if (unlikely(((mca_pml_base_request_t *)request)->req_type != MCA_PML_REQUEST_RECV)) {
        *err = request->req_free(out);
        return true;
    }
    recv_end(request, may_share);
    *out = MPI_REQUEST_NULL;
    *err = OMPI_SUCCESS;
    return true;
}

/* MPI_Wait. */
static FLATTEN int mpi_wait(ompi_request_t **out, ompi_status_public_t *status)
{
    int err;

    return likely(wait_ends(out, status, &err, false)) ? err : usual.req_wait(out, status);
}

/* Open MPI's own MPI_Testall, MPI_Testany (4.1 and 5.0) and MPI_Waitall (5.0) lose the error of
 * a persistent request.  The request keeps it until it is started again. */
static inline int forgotten_error(const ompi_request_t *request)
{
    return unlikely(request->req_persistent) ? request->req_status.MPI_ERROR : OMPI_SUCCESS;
}

/* Prefetches the cache lines that complete a request, if it is one of ours. */
static inline void wait_prefetch(const ompi_request_t *request)
{
    __builtin_prefetch(&request->req_status, 1);
    __builtin_prefetch(&((const mca_pml_base_request_t *)request)->req_datatype, 1);
}

/* Ends a complete request in MPI_Waitall.  False: Open MPI must do it, because the request is
 * not ours, is persistent or has failed.  req_free identifies our requests; it is in a cache
 * line that is needed anyway. */
static inline bool wait_all_ends(ompi_request_t **out, ompi_status_public_t *status,
                                 bool may_share)
{
    ompi_request_t *request = *out;

    if (unlikely(request->req_persistent) ||
        unlikely(request->req_status.MPI_ERROR != OMPI_SUCCESS))
        return false;
    if (likely(request->req_free == pml_request_free_recv)) {
        if (status != NULL)
            *status = request->req_status;
        recv_end(request, may_share);
    } else if (request == &ompi_request_empty || request == MPI_REQUEST_NULL) {
        /* a send that has left at once, or MPI_REQUEST_NULL */
        if (status != NULL)
            *status = request->req_status;
    } else {
        return false;
    }
    *out = MPI_REQUEST_NULL;
    return true;
}

/* Corrects the result of Open MPI's own function for requests that are all complete. */
static int all_ended(int err, size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count && err == OMPI_SUCCESS; i++)
        if (unlikely(forgotten_error(requests[i]) != OMPI_SUCCESS))
            err = MPI_ERR_IN_STATUS;
    return err;
}

/* True if a request is complete and has failed. */
static bool wait_all_is_lost(size_t count, ompi_request_t **requests)
{
    for (size_t i = 0; i < count; i++)
        if (unlikely(requests[i]->req_status.MPI_ERROR != OMPI_SUCCESS) &&
            requests[i]->req_state != OMPI_REQUEST_INACTIVE && REQUEST_COMPLETE(requests[i]))
            return true;
    return false;
}

/* MPI_Waitall when a request has failed: it does not wait for the others. */
static int wait_all_lost(size_t count, ompi_request_t **requests,
                         ompi_status_public_t *statuses)
{
    for (size_t i = 0; i < count; i++) {
        ompi_status_public_t *status = statuses != NULL ? &statuses[i] : MPI_STATUS_IGNORE;
        int is_done, err = usual.req_test(&requests[i], &is_done, status);

        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = is_done || err != OMPI_SUCCESS ? err : MPI_ERR_PENDING;
    }
    return MPI_ERR_IN_STATUS;
}

/* MPI_Waitall by Open MPI's own function.  It is not called if a request has failed already:
 * with threads 4.1 would never return, and both series lose the errors of persistent
 * requests. */
static int wait_all_usual(size_t count, ompi_request_t **requests,
                          ompi_status_public_t *statuses)
{
    if (unlikely(wait_all_is_lost(count, requests)))
        return wait_all_lost(count, requests, statuses);
    return all_ended(usual.req_wait_all(count, requests, statuses), count, requests);
}

/* Ends requests in order while each completes before a yield, and one thread calls.
 * Returns their number. */
static inline size_t wait_all_in_order(size_t count, ompi_request_t **requests,
                                       ompi_status_public_t *statuses, bool may_share)
{
    bool has_statuses = statuses != MPI_STATUSES_IGNORE;
    size_t i;

    for (i = 0; i < count; i++) {
        if (i + WAIT_AHEAD < count)
            wait_prefetch(requests[i + WAIT_AHEAD]);
        if (!REQUEST_COMPLETE(requests[i]) &&
            (requests[i]->req_type != OMPI_REQUEST_PML || !progress_wait_short(requests[i])))
            break; /* other requests (nonblocking collectives) need Open MPI's progress */
        if (!wait_all_ends(&requests[i], has_statuses ? &statuses[i] : NULL, may_share))
            break;
    }
    return i;
}

/* From the first request that did not end in order, Open MPI's own function continues: it treats
 * the rest as it would have in a call for all, and wait_explain() can tell which requests it
 * waits for. */
static inline int wait_all_rest(size_t ended, size_t count, ompi_request_t **requests,
                                ompi_status_public_t *statuses)
{
    return ended == count
               ? OMPI_SUCCESS
               : wait_all_usual(count - ended, requests + ended,
                                statuses != MPI_STATUSES_IGNORE ? statuses + ended : statuses);
}

/* MPI_Waitall, without may_share. */
static int mpi_wait_all(size_t count, ompi_request_t **requests, ompi_status_public_t *statuses)
{
    return wait_all_rest(wait_all_in_order(count, requests, statuses, false), count, requests,
                         statuses);
}

/* ---- testing: where ranks share cores, and several requests ---- */

static int mpi_test(ompi_request_t **request, int *done, ompi_status_public_t *status)
{
    int err;

    progress_set_tested(true);
    err = usual.req_test(request, done, status);
    progress_set_tested(false);
    return err;
}

static int mpi_test_any(size_t count, ompi_request_t **requests, int *which, int *done,
                        ompi_status_public_t *status)
{
    int err;

    progress_set_tested(true);
    err = usual.req_test_any(count, requests, which, done, status);
    progress_set_tested(false);
    return *done && err == OMPI_SUCCESS && *which != MPI_UNDEFINED
               ? forgotten_error(requests[*which])
               : err;
}

static int mpi_test_all(size_t count, ompi_request_t **requests, int *done,
                        ompi_status_public_t *statuses)
{
    int err;

    progress_set_tested(true);
    err = usual.req_test_all(count, requests, done, statuses);
    progress_set_tested(false);
    return *done ? all_ended(err, count, requests) : err;
}

static int mpi_test_some(size_t count, ompi_request_t **requests, int *done, int *which,
                         ompi_status_public_t *statuses)
{
    int err;

    progress_set_tested(true);
    err = usual.req_test_some(count, requests, done, which, statuses);
    progress_set_tested(false);
    return err;
}

/* ---- waiting for any of several requests ---- */

/* Counts as a call of this thread (see above). */
static inline void met(void)
{
    pml_enter();
    pml_leave();
}

struct any_wait {
    size_t count;
    ompi_request_t **requests;
};

/* Sets the wait of this thread.  Returns the one before: the wait in whose progress this one is made. */
static struct any_wait any_begin(struct any_wait now)
{
    struct pml_any *any = any_here();
    struct any_wait outer = {.count = 0};

    if (any == NULL)
        return outer;
    outer = (struct any_wait){atomic_load_explicit(&any->count, memory_order_relaxed),
                              any->requests};
    any->requests = now.requests;
    atomic_store_explicit(&any->count, now.count, memory_order_release);
    return outer;
}

static int mpi_wait_any(size_t count, ompi_request_t **requests, int *which,
                        ompi_status_public_t *status)
{
    struct any_wait outer;
    int err;

    met();
    outer = any_begin((struct any_wait){count, requests});
    err = usual.req_wait_any(count, requests, which, status);
    (void)any_begin(outer);
    return err;
}

static int mpi_wait_some(size_t count, ompi_request_t **requests, int *done, int *which,
                         ompi_status_public_t *statuses)
{
    struct any_wait outer;
    int err;

    met();
    outer = any_begin((struct any_wait){count, requests});
    err = usual.req_wait_some(count, requests, done, which, statuses);
    (void)any_begin(outer);
    return err;
}

/* ---- with may_share ---- */

static FLATTEN int owned_wait(ompi_request_t **out, ompi_status_public_t *status)
{
    bool has_ended, is_shared;
    int err;

    bias_enter(&pml.bias);
    has_ended = likely(!pml.is_mpi_waiting) && wait_ends(out, status, &err, true);
    is_shared = pml.is_shared;
    bias_leave(&pml.bias);
    if (likely(has_ended))
        return err;
    if (is_shared)
        (void)poller_watch(*out);
    return usual.req_wait(out, status);
}

static int owned_wait_all(size_t count, ompi_request_t **requests,
                          ompi_status_public_t *statuses)
{
    bool is_shared;
    size_t ended;

    bias_enter(&pml.bias);
    ended = pml.is_mpi_waiting ? 0 : wait_all_in_order(count, requests, statuses, true);
    is_shared = pml.is_shared;
    bias_leave(&pml.bias);
    if (is_shared)
        for (size_t i = 0; i < count && poller_watch(requests[i]); i++)
            ;
    return wait_all_rest(ended, count, requests, statuses);
}

static int owned_test(ompi_request_t **request, int *done, ompi_status_public_t *status)
{
    met();
    return progress_is_test_slow() ? mpi_test(request, done, status)
                                   : usual.req_test(request, done, status);
}

static int owned_test_any(size_t count, ompi_request_t **requests, int *which, int *done,
                          ompi_status_public_t *status)
{
    met();
    return mpi_test_any(count, requests, which, done, status);
}

static int owned_test_all(size_t count, ompi_request_t **requests, int *done,
                          ompi_status_public_t *statuses)
{
    met();
    return mpi_test_all(count, requests, done, statuses);
}

static int owned_test_some(size_t count, ompi_request_t **requests, int *done, int *which,
                           ompi_status_public_t *statuses)
{
    met();
    return progress_is_test_slow()
               ? mpi_test_some(count, requests, done, which, statuses)
               : usual.req_test_some(count, requests, done, which, statuses);
}

static void take_owned(void)
{
    ompi_request_functions = (ompi_request_fns_t){
        .req_test = owned_test,
        .req_test_any = owned_test_any,
        .req_test_all = owned_test_all,
        .req_test_some = owned_test_some,
        .req_wait = owned_wait,
        .req_wait_any = mpi_wait_any,
        .req_wait_all = owned_wait_all,
        .req_wait_some = mpi_wait_some,
    };
}

void waits_open(void)
{
    usual = ompi_request_functions;
    ompi_request_functions.req_wait_all = wait_all_usual;
    ompi_request_functions.req_wait_any = mpi_wait_any;
    ompi_request_functions.req_wait_some = mpi_wait_some;
    ompi_request_functions.req_test_any = mpi_test_any;
    ompi_request_functions.req_test_all = mpi_test_all;
    if (!pml.is_mpi_waiting) {
        ompi_request_functions.req_wait = mpi_wait;
        ompi_request_functions.req_wait_all = mpi_wait_all;
    }
    if (!pml.may_share && progress_is_test_slow()) {
        ompi_request_functions.req_test = mpi_test;
        ompi_request_functions.req_test_some = mpi_test_some;
    }
    if (pml.may_share)
        take_owned();
    (void)mbx_explain_waits(pml.ep, wait_explain);
}

void waits_close(void)
{
    if (usual.req_wait != NULL)
        ompi_request_functions = usual;
    usual = (ompi_request_fns_t){0};
}
