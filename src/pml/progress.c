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
#include "pml/progress.h"

#include <sched.h>

/* Empty polls before a yield, where ranks share cores. */
#define POLLS_SHARED  32u
#define POLLS_CROWDED 2u
#define POLLS_MPI     4u

/* Yields before the thread sleeps. */
#define YIELDS_AWAKE 64u
#define SLEEP_NS     1000000

struct progress progress;

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
OUT_OF_LINE int progress_report_later(void)
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

/* Polls once.  Returns the amount of progress. */
static inline int progress_poll(void)
{
    int moved;

    if (unlikely(later_first() != NULL))
        return progress_report_later();
    if (mbx_idle(pml.ep))
        return 0;
    moved = unlikely(pml.is_shared) ? poller_poll() : mbx_progress(pml.ep);
    progress_rest();
    if (unlikely(atomic_load_explicit(&pml_deaths_are_due, memory_order_relaxed)))
        pml_deaths_check();
    return moved;
}

/* ---- waiting ---- */

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
    progress_set_tested(true);
    pml_progress_outside();
    progress_set_tested(false);
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

OUT_OF_LINE void progress_wait_long(ompi_request_t *request)
{
    wait_polling(request, false);
}

OUT_OF_LINE bool progress_wait_short(ompi_request_t *request)
{
    progress_moved();
    wait_polling(request, true);
    return REQUEST_COMPLETE(request) && !pml.is_shared;
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
    poller_open();
    progress.polls_mpi[false] = progress.keep != POLLS_KEEP ? POLLS_MPI : 1;
    progress.polls_mpi[true] = 1;
    waits_open();
    if (pml.may_share)
        pml_threads_explain();
    else
        (void)mbx_explain_unstarted(pml.ep, pml_persistent_unstarted);
    return OMPI_SUCCESS;
}

/* Open MPI itself would unregister the callback too late: after the endpoint has closed. */
void pml_progress_close(int (*registered)(void))
{
    (void)opal_progress_unregister(registered);
    waits_close();
}
