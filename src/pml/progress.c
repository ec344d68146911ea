/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c - completions of the library become completions of requests; and how a call waits.
 *
 * Without threads the library calls pml_recv_done() or pml_send_done() when one of its requests
 * completes (MBX_DONE), and these complete Open MPI's request.  They run inside a call of the
 * library, and must not call the library again.  So a completion is put aside until that call has
 * returned if its report needs the library, or calls Open MPI, which may call us.  With threads a
 * completion is copied out under the library's lock, and the thread with the copy completes the
 * request: so no thread holds a lock of ours while MPI is called, and any number of threads may
 * be here.
 *
 * A blocking call polls the endpoint, and calls Open MPI's progress after every POLLS_ALONE
 * polls, because its other components need that.  While nothing comes, it yields the core:
 * sched_yield() after a number of empty polls, and after YIELDS_AWAKE of these the thread sleeps
 * until something arrives, or until SLEEP_NS have passed, for the other components.
 * Ranks that share cores (according to the launcher, or to MBX_OVERSUBSCRIBED) yield
 * sooner: at once if there are more than two per core, because then the awaited rank
 * seldom runs.
 *
 * A rank that tests or probes may compute between its calls, and it loses more core time to the
 * other ranks than a poll takes.  So such calls poll twice as often before each further yield, up
 * to POLLS_TESTED, until something has come.
 *
 * A poll in Open MPI's own waits, for several requests at a time, runs its whole progress,
 * and takes as long as POLLS_MPI of our polls.
 *
 * Where Open MPI knows that ranks share cores, its own loops yield after each poll that has moved
 * nothing.  So there pml_progress() reports that something has moved.
 */
#include "base/environ.h"
#include "base/launcher.h"
#include "pml/pml.h"

#include <sched.h>

#define POLLS_ALONE 64u

/* Empty polls before a yield: some 50 us. */
#define POLLS_KEEP    2048u
#define POLLS_SHARED  32u
#define POLLS_CROWDED 2u
#define POLLS_TESTED  64u
#define POLLS_MPI     4u

/* Yields before the thread sleeps. */
#define YIELDS_AWAKE 64u
#define SLEEP_NS     1000000

/* MPI_Waitall prefetches the cache lines of requests so many ahead. */
#define WAIT_AHEAD 8

#define COPIES     8

static struct {
    ompi_request_fns_t usual; /* Open MPI's */
    unsigned keep;            /* POLLS_KEEP, POLLS_SHARED or POLLS_CROWDED */
    unsigned polls_mpi[2];    /* polls that one of Open MPI's counts as: in a wait, in a test */
    bool is_tested;           /* by a call that does not wait */
    _Atomic unsigned polls; /* consecutive empty ones; of all threads together, approximately */
    _Atomic unsigned yields;       /* since something has come; also approximate */
    const ompi_request_t *awaited; /* the request of wait_polling(), or NULL */
    unsigned alone;                /* polls in waits that did not call Open MPI's progress */
    struct pml_later *later, **last;
} progress = {.last = &progress.later};

/* ---- completions ---- */

static inline void progress_take(const struct mbx_completion *completion)
{
    if (completion->kind == MBX_RECVS)
        pml_recv_completed(completion->user, completion);
    else
        pml_send_completed(completion->user, completion);
}

static inline void progress_report(void *user, enum mbx_queue kind)
{
    if (kind == MBX_RECVS) {
        pml_recv_t *recv = user;

        pml_request_complete(&recv->super.req_base, &recv->own);
    } else {
        pml_send_t *send = user;

        pml_request_complete(&send->super.req_base, &send->own);
    }
}

static OUT_OF_LINE int progress_copies(void)
{
    struct mbx_completion copies[COPIES];
    int count = mbx_poll(pml.ep, MBX_SENDS | MBX_RECVS, copies, COPIES);

    for (int i = 0; i < count; i++) {
        progress_take(&copies[i]);
        progress_report(copies[i].user, copies[i].kind);
    }
    return count;
}

void pml_report_later(struct pml_later *later, const struct mbx_completion *completion)
{
    later->completion = *completion;
    later->next = NULL;
    *progress.last = later;
    progress.last = &later->next;
}

void pml_later_done(const struct mbx_completion *completion)
{
    struct pml_own *own = completion->kind == MBX_RECVS
                              ? &((pml_recv_t *)completion->user)->own
                              : &((pml_send_t *)completion->user)->own;

    pml_report_later(&own->later, completion);
}

/* Reports completions in order of arrival; MPI may add others during a report, or call this
 * again. */
static OUT_OF_LINE int progress_report_later(void)
{
    int count = 0;

    for (struct pml_later *later; (later = progress.later) != NULL; count++) {
        void *user = later->completion.user;
        enum mbx_queue kind = later->completion.kind;

        progress.later = later->next;
        if (progress.later == NULL)
            progress.last = &progress.later;
        progress_take(&later->completion);
        progress_report(user, kind);
    }
    return count;
}

/* Reports the completions that were put aside. */
static inline void progress_rest(void)
{
    if (unlikely(progress.later != NULL))
        progress_report_later();
}

/* Polls once.  Returns the amount of progress. */
static inline int progress_poll(void)
{
    int moved;

    if (unlikely(progress.later != NULL))
        return progress_report_later();
    if (mbx_idle(pml.ep))
        return 0;
    moved = mbx_progress(pml.ep);
    if (unlikely(pml.has_threads))
        moved += progress_copies();
    else
        progress_rest();
    if (unlikely(atomic_load_explicit(&pml_deaths_are_due, memory_order_relaxed)))
        pml_deaths_check();
    return moved;
}

/* ---- waiting ---- */

static inline void progress_moved(void)
{
    atomic_store_explicit(&progress.polls, 0, memory_order_relaxed);
    atomic_store_explicit(&progress.yields, 0, memory_order_relaxed);
}

static inline unsigned progress_yields(void)
{
    return atomic_load_explicit(&progress.yields, memory_order_relaxed);
}

/* The number of empty polls before a yield. */
static inline unsigned polls_left(void)
{
    unsigned polls = progress.keep;

    if (!progress.is_tested || polls >= POLLS_TESTED)
        return polls;
    for (unsigned i = 0, yields = progress_yields(); i < yields && polls < POLLS_TESTED; i++)
        polls *= 2;
    return polls;
}

/* Counts an empty poll that took as long as `polls` of ours.  True: the core was yielded. */
static inline bool progress_in_vain(unsigned polls)
{
    polls += atomic_load_explicit(&progress.polls, memory_order_relaxed);
    atomic_store_explicit(&progress.polls, polls, memory_order_relaxed);
    if (likely(polls < polls_left()))
        return false;
    atomic_store_explicit(&progress.polls, 0, memory_order_relaxed);
    atomic_store_explicit(&progress.yields, progress_yields() + 1, memory_order_relaxed);
    if (unlikely(pml.has_threads))
        pml_threads_enter();
    sched_yield();
    pml_deaths_check();
    return true;
}

int pml_progress(void)
{
    int moved = progress_poll();

    if (moved == 0)
        (void)progress_in_vain(progress.polls_mpi[progress.is_tested]);
    else
        progress_moved();
    if (unlikely(pml.is_mpi_waiting))
        pml_failures_progress();
    return moved == 0 && progress.keep != POLLS_KEEP ? 1 : moved;
}

/* Without threads only. */
static inline void progress_is_tested(bool is_tested)
{
    if (!pml.has_threads)
        progress.is_tested = is_tested;
}

void pml_progress_rest(void)
{
    if (pml.has_threads)
        while (progress_copies() > 0)
            ;
    else
        progress_rest();
}

void pml_progress_test(void)
{
    progress_is_tested(true);
    opal_progress();
    progress_is_tested(false);
}

/* Waits until the request is complete or, with is_short, until the core was yielded. */
static inline void wait_polling(ompi_request_t *request, bool is_short)
{
    const ompi_request_t *outer =
        progress.awaited; /* of an outer wait, whose progress has called this */

    progress.awaited = request;
    while (!REQUEST_COMPLETE(request)) {
        if (progress_poll() != 0)
            progress_moved();
        else if (progress_in_vain(1)) {
            if (is_short)
                break;
            if (progress_yields() > YIELDS_AWAKE)
                mbx_sleep(pml.ep, SLEEP_NS, NULL);
        }
        if (++progress.alone % POLLS_ALONE == 0)
            opal_progress();
    }
    progress.awaited = outer;
}

static OUT_OF_LINE void wait_long(ompi_request_t *request)
{
    wait_polling(request, false);
}

/* Waits at most until the core is yielded.  True if the request is complete. */
static OUT_OF_LINE bool wait_short(ompi_request_t *request)
{
    progress_moved();
    wait_polling(request, true);
    return REQUEST_COMPLETE(request);
}

const void *pml_request_waits(const void *user, enum mbx_queue kind)
{
    const ompi_request_t *request = kind == MBX_RECVS
                                        ? &((const pml_recv_t *)user)->super.req_base.req_ompi
                                        : &((const pml_send_t *)user)->super.req_base.req_ompi;
    const void *by = (const void *)(uintptr_t)request->req_complete;

    return by == REQUEST_PENDING || by == REQUEST_COMPLETED ? NULL : by;
}

/* Callback of the library: the number of requests that the wait for this one still needs; 0: no
 * wait, or it is not known.  Open MPI's own waits store their wait object in each of their
 * requests; MPI_Waitall counts the open requests, other waits 1.  The object is on the stack of the
 * thread that waits.  The object of another thread may be gone, and is not read. */
static uint32_t progress_waits(const void *user, enum mbx_queue kind)
{
    const ompi_request_t *request = kind == MBX_RECVS
                                        ? &((const pml_recv_t *)user)->super.req_base.req_ompi
                                        : &((const pml_send_t *)user)->super.req_base.req_ompi;
    const ompi_wait_sync_t *sync = pml_request_waits(user, kind);

    if (request == progress.awaited)
        return 1;
    if (sync == NULL || (pml.has_threads && !pml_thread_is_on_stack(sync)))
        return 0;
    return sync->count > 0 ? (uint32_t)sync->count : 0;
}

/* Waits without threads.  The first poll finds completions that have already arrived. */
static inline void wait_alone(ompi_request_t *request)
{
    mbx_progress(pml.ep);
    progress_rest();
    progress_moved();
    if (unlikely(!REQUEST_COMPLETE(request)))
        wait_long(request);
}

void pml_wait(ompi_request_t *request)
{
    if (unlikely(pml.is_mpi_waiting))
        ompi_request_wait_completion(request);
    else
        wait_alone(request);
}

/* MPI_Wait.  The short path is for our own requests that succeed and are not persistent. */
static FLATTEN int progress_wait(ompi_request_t **out, ompi_status_public_t *status)
{
    ompi_request_t *request = *out;

    if (unlikely(request->req_type != OMPI_REQUEST_PML))
        return progress.usual.req_wait(out, status);
    if (!REQUEST_COMPLETE(request))
        wait_alone(request);
    if (unlikely(request->req_persistent) ||
        unlikely(request->req_status.MPI_ERROR != OMPI_SUCCESS))
        return progress.usual.req_wait(out, status);
    if (status != MPI_STATUS_IGNORE)
        OMPI_COPY_STATUS(status, request->req_status, false);
    if (unlikely(((mca_pml_base_request_t *)request)->req_type != MCA_PML_REQUEST_RECV))
        return request->req_free(out);
    pml_recv_end((pml_recv_t *)request);
    *out = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
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
static inline bool wait_all_ends(ompi_request_t **out, ompi_status_public_t *status)
{
    ompi_request_t *request = *out;

    if (unlikely(request->req_persistent) ||
        unlikely(request->req_status.MPI_ERROR != OMPI_SUCCESS))
        return false;
    if (likely(request->req_free == pml_request_free_recv)) {
        if (status != NULL)
            *status = request->req_status;
        pml_recv_end((pml_recv_t *)request);
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
        int is_done, err = progress.usual.req_test(&requests[i], &is_done, status);

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
    return all_ended(progress.usual.req_wait_all(count, requests, statuses), count, requests);
}

/* MPI_Waitall, without threads.  Ends the requests here, in order, while each completes before
 * a yield.  From the first other request on, Open MPI's own function continues: it treats the
 * rest as it would have in a call for all, and progress_waits() can tell which requests it
 * waits for. */
static int progress_wait_all(size_t count, ompi_request_t **requests,
                             ompi_status_public_t *statuses)
{
    bool has_statuses = statuses != MPI_STATUSES_IGNORE;
    size_t i;

    for (i = 0; i < count; i++) {
        if (i + WAIT_AHEAD < count)
            wait_prefetch(requests[i + WAIT_AHEAD]);
        if (!REQUEST_COMPLETE(requests[i]) &&
            (requests[i]->req_type != OMPI_REQUEST_PML || !wait_short(requests[i])))
            break; /* other requests (nonblocking collectives) need Open MPI's progress */
        if (!wait_all_ends(&requests[i], has_statuses ? &statuses[i] : NULL))
            break;
    }
    return i == count ? OMPI_SUCCESS
                      : wait_all_usual(count - i, requests + i,
                                       has_statuses ? statuses + i : statuses);
}

/* ---- testing: where ranks share cores, and several requests ---- */

static int progress_test(ompi_request_t **request, int *done, ompi_status_public_t *status)
{
    int err;

    progress.is_tested = true;
    err = progress.usual.req_test(request, done, status);
    progress.is_tested = false;
    return err;
}

static int progress_test_any(size_t count, ompi_request_t **requests, int *which, int *done,
                             ompi_status_public_t *status)
{
    int err;

    progress_is_tested(true);
    err = progress.usual.req_test_any(count, requests, which, done, status);
    progress_is_tested(false);
    return *done && err == OMPI_SUCCESS && *which != MPI_UNDEFINED
               ? forgotten_error(requests[*which])
               : err;
}

static int progress_test_all(size_t count, ompi_request_t **requests, int *done,
                             ompi_status_public_t *statuses)
{
    int err;

    progress_is_tested(true);
    err = progress.usual.req_test_all(count, requests, done, statuses);
    progress_is_tested(false);
    return *done ? all_ended(err, count, requests) : err;
}

static int progress_test_some(size_t count, ompi_request_t **requests, int *done, int *which,
                              ompi_status_public_t *statuses)
{
    int err;

    progress.is_tested = true;
    err = progress.usual.req_test_some(count, requests, done, which, statuses);
    progress.is_tested = false;
    return err;
}

/* ---- ranks that share cores ---- */

bool pml_is_oversubscribed(void)
{
    return launcher_is_oversubscribed(environ_get("MBX_OVERSUBSCRIBED"));
}

static unsigned polls_keep(void)
{
    if (!pml_is_oversubscribed())
        return POLLS_KEEP;
    return launcher_ranks_per_core() > 2 ? POLLS_CROWDED : POLLS_SHARED;
}

int pml_progress_open(void)
{
    progress.keep = polls_keep();
    progress.polls_mpi[false] = progress.keep != POLLS_KEEP ? POLLS_MPI : 1;
    progress.polls_mpi[true] = 1;
    progress.usual = ompi_request_functions;
    ompi_request_functions.req_wait_all = wait_all_usual;
    ompi_request_functions.req_test_any = progress_test_any;
    ompi_request_functions.req_test_all = progress_test_all;
    if (!pml.is_mpi_waiting) {
        ompi_request_functions.req_wait = progress_wait;
        ompi_request_functions.req_wait_all = progress_wait_all;
    }
    if (!pml.has_threads && progress.keep < POLLS_TESTED) {
        ompi_request_functions.req_test = progress_test;
        ompi_request_functions.req_test_some = progress_test_some;
    }
    (void)mbx_explain_waits(pml.ep, progress_waits);
    if (pml.has_threads)
        pml_threads_take_requests();
    else
        (void)mbx_explain_unstarted(pml.ep, pml_persistent_unstarted);
    return OMPI_SUCCESS;
}

/* Open MPI itself would unregister the callback too late: after the endpoint has closed. */
void pml_progress_close(void)
{
    (void)opal_progress_unregister(pml_progress);
    if (progress.usual.req_wait != NULL)
        ompi_request_functions = progress.usual;
    progress.usual = (ompi_request_fns_t){0};
}
