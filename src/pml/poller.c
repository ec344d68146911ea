/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poller.c - while all is shared, one thread polls for all, and the others watch their requests.
 *
 *   a thread polls ── no other one does ──> it is the poller, for this poll
 *                  ── another one does ───> it is refused; one of REFUSALS such polls waits for the endpoint's lock
 *
 * Whenever another thread takes the lock of the endpoint, the cache lines that it guards move to another core.  So a thread
 * that waits does not queue for the lock: it watches the word that completes its request, and enters Open MPI's own wait
 * later.  There all threads except one sleep, and each is woken for its completion.  A thread that polls in a loop leaves
 * the lock to its rivals most of the time.
 *
 * The state is in struct progress (progress.h).
 */
#include "base/launcher.h"
#include "pml/progress.h"

/* If all is shared, a wait watches its request for so many rounds before Open MPI's wait begins.  If other threads
 * poll, it pauses between two rounds: 120 to 190 us in all. */
#define WATCHES       64u
#define WATCH_RELAXES 64u

/* If all is shared and one of the last POLL_TURNS polls was another thread's, a pause follows each poll in Open MPI's
 * progress.  The pause takes as long as POLLS_RELAX polls. */
#define POLL_RELAXES 64u
#define POLLS_RELAX  16u
#define POLL_TURNS   16u

/* Refused polls before a thread waits for the lock of the endpoint: the thread that polls may not be running. */
#define REFUSALS 16u

/* Notes which thread has polled.  Called with is_polled set. */
static void poller_note(void)
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
static bool poller_refuse(void)
{
    unsigned refusals = atomic_load_explicit(&progress.refusals, memory_order_relaxed) + 1;

    atomic_store_explicit(&progress.refusals, refusals, memory_order_relaxed);
    return refusals % REFUSALS == 0;
}

static inline bool poller_is_busy(void)
{
    return atomic_load_explicit(&progress.is_polled, memory_order_relaxed);
}

/* While all is shared, one thread polls for all.  Others seldom wait for the lock of the endpoint. */
static int poll_for_all(void)
{
    int moved;

    if (poller_is_busy() ||
        atomic_exchange_explicit(&progress.is_polled, true, memory_order_acquire))
        return poller_refuse() ? mbx_progress(pml.ep) : 0;
    moved = mbx_progress(pml.ep);
    poller_note();
    atomic_store_explicit(&progress.is_polled, false, memory_order_release);
    return moved;
}

static inline bool poller_has_rival(void)
{
    return atomic_load_explicit(&progress.turns, memory_order_relaxed) != 0;
}

/* A poll of Open MPI's progress.  A thread that polls in a loop leaves the lock to other threads most of the time. */
OUT_OF_LINE int poller_poll(void)
{
    int moved = poll_for_all();

    if (moved != 0 || !poller_has_rival())
        return moved;
    for (unsigned i = 0; i < POLL_RELAXES; i++)
        cpu_relax();
    atomic_store_explicit(&progress.polls,
                          atomic_load_explicit(&progress.polls, memory_order_relaxed) +
                              POLLS_RELAX,
                          memory_order_relaxed);
    return 0;
}

static int poll_and_report(void)
{
    int moved = later_first() != NULL ? progress_report_later() : poll_for_all();

    progress_rest();
    return moved;
}

/* A round of poller_watch().  Some rounds call Open MPI's progress, for its other components. */
static void watch_once(const ompi_request_t *request)
{
    unsigned rounds = atomic_load_explicit(&progress.watched, memory_order_relaxed) + 1;

    atomic_store_explicit(&progress.watched, rounds, memory_order_relaxed);
    if (rounds % POLLS_ALONE == 0)
        pml_progress_outside();
    else if (poll_and_report() != 0)
        progress_moved();
    else if (poller_has_rival() || poller_is_busy())
        for (unsigned i = 0; i < WATCH_RELAXES && !REQUEST_COMPLETE(request); i++)
            cpu_relax();
}

/* If all is shared: polls, or watches the request while another thread polls.  In Open MPI's own wait all
 * threads except one sleep, and each is woken for its completion.  False: the request is not complete. */
OUT_OF_LINE bool poller_watch(const ompi_request_t *request)
{
    if (REQUEST_COMPLETE(request) || request->req_type != OMPI_REQUEST_PML)
        return REQUEST_COMPLETE(request);
    watch_once(request);
    if (REQUEST_COMPLETE(request))
        return true;
    if (atomic_fetch_add(&progress.watchers, 1) < progress.watchers_most)
        for (unsigned i = 0; i < progress.watches && !REQUEST_COMPLETE(request); i++)
            watch_once(request);
    atomic_fetch_sub(&progress.watchers, 1);
    return REQUEST_COMPLETE(request);
}

void poller_open(void)
{
    progress.watchers_most = launcher_cores_per_rank();
    progress.watches = progress.watchers_most > 1 ? WATCHES * progress.keep / POLLS_KEEP : 0;
}
