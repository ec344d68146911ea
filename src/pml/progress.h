/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.h - how calls poll and wait: the state and functions that these files share.
 *
 *   progress.c  completions; the polls, yields and sleeps of a call
 *   poller.c    while all is shared: one thread polls for all, and others watch their requests
 *   waits.c     MPI_Wait, MPI_Test and their like
 */
#ifndef PML_PROGRESS_H
#define PML_PROGRESS_H

#include "base/lock.h"
#include "pml/pml.h"

/* A wait calls Open MPI's progress once in so many polls. */
#define POLLS_ALONE 64u

/* Empty polls before a yield: some 50 us. */
#define POLLS_KEEP 2048u

/* The most of these for calls that test, where ranks share cores. */
#define POLLS_TESTED 64u

extern struct progress {
    unsigned keep;          /* POLLS_KEEP, or fewer where ranks share cores */
    unsigned polls_mpi[2];  /* polls that one of Open MPI's counts as: in a wait, in a test */
    unsigned watches;       /* poller.c: rounds of a watch */
    unsigned watchers_most; /* poller.c: threads that may be in these rounds at once */
    _Atomic bool is_tested; /* by a call that does not wait */
    _Atomic unsigned polls; /* consecutive empty ones; of all threads together, approximately */
    _Atomic unsigned yields;       /* since something has come; also approximate */
    const ompi_request_t *awaited; /* the request of wait_polling(), or NULL */
    unsigned alone;                /* polls in waits that did not call Open MPI's progress */
    /* threads write these while all is shared: so they are CACHE_APART from the rest */
    _Alignas(CACHE_APART) struct lock lock; /* guards: */
    struct pml_later *_Atomic later; /* the oldest completion that was put aside, or NULL */
    struct pml_later *last;
    /* poller.c */
    _Atomic bool is_polled;    /* a thread polls for all; guards: */
    uintptr_t poller;          /* bias_self() of the last one */
    _Atomic unsigned turns;    /* its polls that are left until it has no rival */
    _Atomic unsigned watched;  /* rounds of poller_watch(), approximately */
    _Atomic unsigned watchers; /* threads in these rounds */
    _Alignas(CACHE_APART) _Atomic unsigned refusals; /* refused polls, approximately */
} progress;

/* ---- progress.c ---- */

static inline struct pml_later *later_first(void)
{
    return atomic_load_explicit(&progress.later, memory_order_relaxed);
}

/* Reports the completions that were put aside.  Returns their number. */
int progress_report_later(void);

static inline void progress_rest(void)
{
    if (unlikely(later_first() != NULL))
        progress_report_later();
}

/* Something has come. */
static inline void progress_moved(void)
{
    atomic_store_explicit(&progress.polls, 0, memory_order_relaxed);
    atomic_store_explicit(&progress.yields, 0, memory_order_relaxed);
}

/* A call that does not wait begins, or ends.  No effect if several threads test. */
static inline void progress_set_tested(bool is_tested)
{
    /* the caller may be outside */
    if (!is_tested ||
        atomic_load_explicit(&pml.bias.state, memory_order_relaxed) != BIAS_SHARED)
        atomic_store_explicit(&progress.is_tested, is_tested, memory_order_relaxed);
}

/* Do calls that test poll longer than others before a yield? */
static inline bool progress_is_test_slow(void)
{
    return progress.keep < POLLS_TESTED;
}

/* Waits until the request is complete, or a second thread has come. */
void progress_wait_long(ompi_request_t *request);

/* Waits at most until the core is yielded.  True if the request is complete, and no second thread
 * has come. */
bool progress_wait_short(ompi_request_t *request);

/* ---- poller.c ---- */

/* After progress.keep has been set. */
void poller_open(void);

/* A poll, unless another thread polls.  Returns the amount of progress. */
int poller_poll(void);

/* Polls, or watches the request while another thread polls.  False: the request is not complete. */
bool poller_watch(const ompi_request_t *request);

/* ---- waits.c ---- */

/* Replace Open MPI's request functions, and restore them. */
void waits_open(void);
void waits_close(void);

#endif
