/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c - completions of the library become completions of requests; and how a call waits.
 *
 * The library calls pml_recv_done() or pml_send_done() when one of its requests completes
 * (MBX_DONE), and these complete Open MPI's request.  They run inside a call of the library, and
 * must not call the library again.  So a completion is put aside until that call has returned if
 * its report needs the library, or calls Open MPI, which may call us.  If several threads share the
 * library, all completions are put aside, under the library's lock; whoever takes one out completes
 * the request.  So no thread holds a lock of ours while MPI is called, and any number of threads may
 * be here.
 *
 * With MPI_THREAD_MULTIPLE, waits and tests by Open MPI's own functions count as calls (met()):
 * these may read requests that the owner completes without locks.
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
#include "base/lock.h"
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

/* If all is shared, a wait watches its request for so many rounds before Open MPI's wait begins.  If other threads
 * poll, it pauses between two rounds: 120 to 190 us in all. */
#define WATCHES       64u
#define WATCH_RELAXES 64u

/* A poll in Open MPI's progress is then followed by a pause, if one of the last polls was another thread's.  It takes
 * as long as POLLS_RELAX polls. */
#define POLL_RELAXES 64u
#define POLLS_RELAX  16u
#define POLL_TURNS   16u

/* Refused polls before a thread waits for the lock of the endpoint: the one that polls may not be running. */
#define REFUSALS 16u

/* MPI_Waitall prefetches the cache lines of requests so many ahead. */
#define WAIT_AHEAD 8

static struct {
    ompi_request_fns_t usual; /* Open MPI's */
    unsigned keep;            /* POLLS_KEEP, POLLS_SHARED or POLLS_CROWDED */
    unsigned polls_mpi[2];    /* polls that one of Open MPI's counts as: in a wait, in a test */
    unsigned watches;         /* WATCHES, or fewer on cores that ranks share */
    unsigned watchers_most;   /* threads that may be in wait_watching() at once */
    _Atomic bool is_tested;   /* by a call that does not wait */
    _Atomic unsigned polls; /* consecutive empty ones; of all threads together, approximately */
    _Atomic unsigned yields;       /* since something has come; also approximate */
    const ompi_request_t *awaited; /* the request of wait_polling(), or NULL */
    unsigned alone;                /* polls in waits that did not call Open MPI's progress */
    struct pml_any any;            /* without may_share */
    /* with CACHE_APART: what threads write while all is shared */
    _Alignas(CACHE_APART) struct lock lock; /* guards: */
    struct pml_later *_Atomic later; /* the oldest completion that was put aside, or NULL */
    struct pml_later *last;
    _Atomic bool is_polled;    /* a thread polls for all; guards: */
    uintptr_t poller;          /* bias_self() of the last one */
    _Atomic unsigned turns;    /* its polls that are left until it has no rival */
    _Atomic unsigned watched;  /* rounds of wait_watching(), approximately */
    _Atomic unsigned watchers; /* threads in these rounds */
    _Alignas(CACHE_APART) _Atomic unsigned refusals; /* refused polls, approximately */
} progress;

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

static inline struct pml_later *later_first(void)
{
    return atomic_load_explicit(&progress.later, memory_order_relaxed);
}

static inline void later_lock(void)
{
    if (unlikely(pml.is_shared))
        lock_take(&progress.lock);
}

static inline void later_unlock(void)
{
    if (unlikely(pml.is_shared))
        lock_give(&progress.lock);
}

void pml_report_later(struct pml_later *later, const struct mbx_completion *completion)
{
    later->completion = *completion;
    later->next = NULL;
    later_lock();
    if (later_first() == NULL)
        atomic_store_explicit(&progress.later, later, memory_order_relaxed);
    else
        progress.last->next = later;
    progress.last = later;
    later_unlock();
}

static struct pml_later *later_take(void)
{
    struct pml_later *later;

    if (later_first() == NULL)
        return NULL;
    later_lock();
    later = later_first();
    if (later != NULL)
        atomic_store_explicit(&progress.later, later->next, memory_order_relaxed);
    later_unlock();
    return later;
}

void pml_later_done(const struct mbx_completion *completion)
{
    struct pml_own *own = completion->kind == MBX_RECVS
                              ? &((pml_recv_t *)completion->user)->own
                              : &((pml_send_t *)completion->user)->own;

    pml_report_later(&own->later, completion);
}

/* Reports completions in order of arrival; MPI may add others during a report, call this again,
 * or let a second thread in. */
static OUT_OF_LINE int progress_report_later(void)
{
    int count = 0;

    for (struct pml_later *later; (later = later_take()) != NULL; count++) {
        void *user = later->completion.user;
        enum mbx_queue kind = later->completion.kind;

        progress_take(&later->completion);
        progress_report(user, kind);
    }
    return count;
}

/* Reports the completions that were put aside. */
static inline void progress_rest(void)
{
    if (unlikely(later_first() != NULL))
        progress_report_later();
}

/* Called with is_polled set. */
static void progress_note_poller(void)
{
    unsigned turns = atomic_load_explicit(&progress.turns, memory_order_relaxed);

    if (progress.poller != bias_self())
        turns = POLL_TURNS;
    else if (turns != 0)
        turns--;
    progress.poller = bias_self();
    atomic_store_explicit(&progress.turns, turns, memory_order_relaxed);
}

/* Counts a refused poll.  True: the thread may wait for the lock now. */
static bool progress_refuse(void)
{
    unsigned refusals = atomic_load_explicit(&progress.refusals, memory_order_relaxed) + 1;

    atomic_store_explicit(&progress.refusals, refusals, memory_order_relaxed);
    return refusals % REFUSALS == 0;
}

static inline bool progress_is_polled(void)
{
    return atomic_load_explicit(&progress.is_polled, memory_order_relaxed);
}

/* While all is shared one thread polls, for all.  Others seldom wait for the lock of the endpoint. */
static int progress_poll_for_all(void)
{
    int moved;

    if (progress_is_polled() ||
        atomic_exchange_explicit(&progress.is_polled, true, memory_order_acquire))
        return progress_refuse() ? mbx_progress(pml.ep) : 0;
    moved = mbx_progress(pml.ep);
    progress_note_poller();
    atomic_store_explicit(&progress.is_polled, false, memory_order_release);
    return moved;
}

static inline bool progress_has_rival(void)
{
    return atomic_load_explicit(&progress.turns, memory_order_relaxed) != 0;
}

/* A poll of Open MPI's progress.  A thread that polls in a loop leaves the lock to other threads most of the time. */
static OUT_OF_LINE int progress_poll_shared(void)
{
    int moved = progress_poll_for_all();

    if (moved != 0 || !progress_has_rival())
        return moved;
    for (unsigned i = 0; i < POLL_RELAXES; i++)
        cpu_relax();
    atomic_store_explicit(&progress.polls,
                          atomic_load_explicit(&progress.polls, memory_order_relaxed) +
                              POLLS_RELAX,
                          memory_order_relaxed);
    return 0;
}

/* Polls once.  Returns the amount of progress. */
static inline int progress_poll(void)
{
    int moved;

    if (unlikely(later_first() != NULL))
        return progress_report_later();
    if (mbx_idle(pml.ep))
        return 0;
    moved = unlikely(pml.is_shared) ? progress_poll_shared() : mbx_progress(pml.ep);
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

static OUT_OF_LINE void progress_yield(void)
{
    bool was_inside = pml_step_out();

    sched_yield();
    pml_step_in(was_inside);
    pml_deaths_check();
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
    if (unlikely(pml.may_share))
        pml_threads_meet(); /* it may be in MPI_Init */
    progress_yield();
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

/* Not if several threads test. */
static inline void progress_is_tested(bool is_tested)
{
    /* the caller may be outside */
    if (!is_tested ||
        atomic_load_explicit(&pml.bias.state, memory_order_relaxed) != BIAS_SHARED)
        atomic_store_explicit(&progress.is_tested, is_tested, memory_order_relaxed);
}

void pml_progress_rest(void)
{
    progress_rest();
}

void pml_progress_outside(void)
{
    bool was_inside = pml_step_out();

    (void)opal_progress();
    pml_step_in(was_inside);
}

void pml_progress_test(void)
{
    progress_is_tested(true);
    pml_progress_outside();
    progress_is_tested(false);
}

static void sleep_outside(void *was_inside)
{
    *(bool *)was_inside = pml_step_out();
}

static void sleep_is_over(void *was_inside)
{
    pml_step_in(*(bool *)was_inside);
}

/* A second thread that comes meanwhile switches the endpoint to its lock. */
static void progress_sleep(void)
{
    bool was_inside = false;
    const struct mbx_sleep_hooks hooks = {
        .sleeps = sleep_outside, .slept = sleep_is_over, .arg = &was_inside};

    (void)mbx_sleep(pml.ep, SLEEP_NS, pml.may_share ? &hooks : NULL);
}

/* Waits until the request is complete; or, with is_short, until the core was yielded; or until a
 * second thread has come. */
static inline void wait_polling(ompi_request_t *request, bool is_short)
{
    const ompi_request_t *outer =
        progress.awaited; /* of an outer wait, whose progress has called this */

    progress.awaited = request;
    while (!REQUEST_COMPLETE(request) && !pml_let_in()) {
        if (progress_poll() != 0)
            progress_moved();
        else if (progress_in_vain(1)) {
            if (is_short)
                break;
            if (progress_yields() > YIELDS_AWAKE)
                progress_sleep();
        }
        if (++progress.alone % POLLS_ALONE == 0)
            pml_progress_outside();
    }
    progress.awaited = outer;
}

static OUT_OF_LINE void wait_long(ompi_request_t *request)
{
    wait_polling(request, false);
}

/* Waits at most until the core is yielded.  True if the request is complete, and no second thread
 * has come. */
static OUT_OF_LINE bool wait_short(ompi_request_t *request)
{
    progress_moved();
    wait_polling(request, true);
    return REQUEST_COMPLETE(request) && !pml.is_shared;
}

static int progress_poll_and_report(void)
{
    int moved = later_first() != NULL ? progress_report_later() : progress_poll_for_all();

    progress_rest();
    return moved;
}

/* A round of wait_watching().  Open MPI's progress is for its other components. */
static void wait_watch(const ompi_request_t *request)
{
    unsigned rounds = atomic_load_explicit(&progress.watched, memory_order_relaxed) + 1;

    atomic_store_explicit(&progress.watched, rounds, memory_order_relaxed);
    if (rounds % POLLS_ALONE == 0)
        pml_progress_outside();
    else if (progress_poll_and_report() != 0)
        progress_moved();
    else if (progress_has_rival() || progress_is_polled())
        for (unsigned i = 0; i < WATCH_RELAXES && !REQUEST_COMPLETE(request); i++)
            cpu_relax();
}

/* If all is shared: polls, or watches the request while another thread polls.  In Open MPI's own wait all
 * threads but one sleep, and each is woken for its completion.  False: the request is not complete. */
static OUT_OF_LINE bool wait_watching(const ompi_request_t *request)
{
    if (REQUEST_COMPLETE(request) || request->req_type != OMPI_REQUEST_PML)
        return REQUEST_COMPLETE(request);
    wait_watch(request);
    if (REQUEST_COMPLETE(request))
        return true;
    if (atomic_fetch_add(&progress.watchers, 1) < progress.watchers_most)
        for (unsigned i = 0; i < progress.watches && !REQUEST_COMPLETE(request); i++)
            wait_watch(request);
    atomic_fetch_sub(&progress.watchers, 1);
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

static inline struct pml_any *any_here(void)
{
    return pml.may_share ? pml_threads_any() : &progress.any;
}

/* Does this thread wait for any of several requests, one of which is neither ours nor a collective's?
 * It may end by itself: of a file, a window, or a generalized request. */
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

/* Callback of the library: the number of requests that the wait for this one still needs; 0: no
 * wait, it may end otherwise, or it is not known.  Open MPI's own waits store their wait object in each of their
 * requests; MPI_Waitall counts the open requests, other waits 1.  The object is on the stack of the
 * thread that waits.  The object of another thread may be gone, and is not read. */
static uint32_t progress_waits(const void *user, enum mbx_queue kind)
{
    const ompi_request_t *request = kind == MBX_RECVS
                                        ? &((const pml_recv_t *)user)->super.req_base.req_ompi
                                        : &((const pml_send_t *)user)->super.req_base.req_ompi;
    const ompi_wait_sync_t *sync = pml_request_waits(user, kind);

    if (!pml.is_shared && request == progress.awaited) /* of the owner, which answers */
        return 1;
    if (sync == NULL || (pml.may_share && !pml_thread_is_on_stack(sync)) || any_has_others())
        return 0;
    return sync->count > 0 ? (uint32_t)sync->count : 0;
}

/* Waits while one thread calls; if a second one comes, the request may be incomplete.  The first
 * poll finds completions that have already arrived. */
static inline void wait_alone(ompi_request_t *request)
{
    mbx_progress(pml.ep);
    progress_rest();
    progress_moved();
    if (unlikely(!REQUEST_COMPLETE(request)))
        wait_long(request);
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
        (void)wait_watching(request);
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
 * Open MPI's own function must do it, or the rest of it.  may_share is a constant, as below: so
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
static FLATTEN int progress_wait(ompi_request_t **out, ompi_status_public_t *status)
{
    int err;

    return likely(wait_ends(out, status, &err, false)) ? err
                                                       : progress.usual.req_wait(out, status);
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

/* Ends requests in order while each completes before a yield, and one thread calls.  Their
 * number. */
static inline size_t wait_all_in_order(size_t count, ompi_request_t **requests,
                                       ompi_status_public_t *statuses, bool may_share)
{
    bool has_statuses = statuses != MPI_STATUSES_IGNORE;
    size_t i;

    for (i = 0; i < count; i++) {
        if (i + WAIT_AHEAD < count)
            wait_prefetch(requests[i + WAIT_AHEAD]);
        if (!REQUEST_COMPLETE(requests[i]) &&
            (requests[i]->req_type != OMPI_REQUEST_PML || !wait_short(requests[i])))
            break; /* other requests (nonblocking collectives) need Open MPI's progress */
        if (!wait_all_ends(&requests[i], has_statuses ? &statuses[i] : NULL, may_share))
            break;
    }
    return i;
}

/* From the first request that did not end in order, Open MPI's own function continues: it treats
 * the rest as it would have in a call for all, and progress_waits() can tell which requests it
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
static int progress_wait_all(size_t count, ompi_request_t **requests,
                             ompi_status_public_t *statuses)
{
    return wait_all_rest(wait_all_in_order(count, requests, statuses, false), count, requests,
                         statuses);
}

/* ---- testing: where ranks share cores, and several requests ---- */

static int progress_test(ompi_request_t **request, int *done, ompi_status_public_t *status)
{
    int err;

    progress_is_tested(true);
    err = progress.usual.req_test(request, done, status);
    progress_is_tested(false);
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

    progress_is_tested(true);
    err = progress.usual.req_test_some(count, requests, done, which, statuses);
    progress_is_tested(false);
    return err;
}

/* ---- waiting for any of several requests ---- */

/* This thread has called. */
static inline void met(void)
{
    pml_enter();
    pml_leave();
}

struct any_wait {
    size_t count;
    ompi_request_t **requests;
};

/* Returns the wait in whose progress this one is made. */
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

static int progress_wait_any(size_t count, ompi_request_t **requests, int *which,
                             ompi_status_public_t *status)
{
    struct any_wait outer;
    int err;

    met();
    outer = any_begin((struct any_wait){count, requests});
    err = progress.usual.req_wait_any(count, requests, which, status);
    (void)any_begin(outer);
    return err;
}

static int progress_wait_some(size_t count, ompi_request_t **requests, int *done, int *which,
                              ompi_status_public_t *statuses)
{
    struct any_wait outer;
    int err;

    met();
    outer = any_begin((struct any_wait){count, requests});
    err = progress.usual.req_wait_some(count, requests, done, which, statuses);
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
        (void)wait_watching(*out);
    return progress.usual.req_wait(out, status);
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
        for (size_t i = 0; i < count && wait_watching(requests[i]); i++)
            ;
    return wait_all_rest(ended, count, requests, statuses);
}

static bool is_test_slow(void)
{
    return progress.keep < POLLS_TESTED;
}

static int owned_test(ompi_request_t **request, int *done, ompi_status_public_t *status)
{
    met();
    return is_test_slow() ? progress_test(request, done, status)
                          : progress.usual.req_test(request, done, status);
}

static int owned_test_any(size_t count, ompi_request_t **requests, int *which, int *done,
                          ompi_status_public_t *status)
{
    met();
    return progress_test_any(count, requests, which, done, status);
}

static int owned_test_all(size_t count, ompi_request_t **requests, int *done,
                          ompi_status_public_t *statuses)
{
    met();
    return progress_test_all(count, requests, done, statuses);
}

static int owned_test_some(size_t count, ompi_request_t **requests, int *done, int *which,
                           ompi_status_public_t *statuses)
{
    met();
    return is_test_slow()
               ? progress_test_some(count, requests, done, which, statuses)
               : progress.usual.req_test_some(count, requests, done, which, statuses);
}

static void take_owned(void)
{
    ompi_request_functions = (ompi_request_fns_t){
        .req_test = owned_test,
        .req_test_any = owned_test_any,
        .req_test_all = owned_test_all,
        .req_test_some = owned_test_some,
        .req_wait = owned_wait,
        .req_wait_any = progress_wait_any,
        .req_wait_all = owned_wait_all,
        .req_wait_some = progress_wait_some,
    };
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
    progress.watchers_most = launcher_cores_per_rank();
    progress.watches = progress.watchers_most > 1 ? WATCHES * progress.keep / POLLS_KEEP : 0;
    progress.polls_mpi[false] = progress.keep != POLLS_KEEP ? POLLS_MPI : 1;
    progress.polls_mpi[true] = 1;
    progress.usual = ompi_request_functions;
    ompi_request_functions.req_wait_all = wait_all_usual;
    ompi_request_functions.req_wait_any = progress_wait_any;
    ompi_request_functions.req_wait_some = progress_wait_some;
    ompi_request_functions.req_test_any = progress_test_any;
    ompi_request_functions.req_test_all = progress_test_all;
    if (!pml.is_mpi_waiting) {
        ompi_request_functions.req_wait = progress_wait;
        ompi_request_functions.req_wait_all = progress_wait_all;
    }
    if (!pml.may_share && is_test_slow()) {
        ompi_request_functions.req_test = progress_test;
        ompi_request_functions.req_test_some = progress_test_some;
    }
    (void)mbx_explain_waits(pml.ep, progress_waits);
    if (pml.may_share) {
        take_owned();
        pml_threads_explain();
    } else {
        (void)mbx_explain_unstarted(pml.ep, pml_persistent_unstarted);
    }
    return OMPI_SUCCESS;
}

/* Open MPI itself would unregister the callback too late: after the endpoint has closed. */
void pml_progress_close(int (*registered)(void))
{
    (void)opal_progress_unregister(registered);
    if (progress.usual.req_wait != NULL)
        ompi_request_functions = progress.usual;
    progress.usual = (ompi_request_fns_t){0};
}
