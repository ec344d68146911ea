/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked_job.h - a job of a few processes with an endpoint each, forked by a test; some of
 * them may die.  Test code.
 *
 * What happens in a child is told by its exit code: MUST names one for each thing that has to
 * hold.  Nothing here depends on time: who waits for another one waits for a message of it, or
 * for a word in the shared memory, and gives up only what hangs.
 */
#ifndef TESTS_FORKED_JOB_H
#define TESTS_FORKED_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include <matchbox/matchbox.h>

#define FORKED_MAX    4
#define FORKED_WORDS  16
#define FORKED_PARAMS 16

/* In a child. */
#define MUST(condition, code)                                                                  \
    do                                                                                         \
        if (!(condition))                                                                      \
            _exit(code);                                                                       \
    while (0)

struct forked_shared {
    struct mbx_address addresses[FORKED_MAX];
    _Atomic int open;
    _Atomic int words[FORKED_WORDS]; /* the test's own */
    _Atomic int ended;               /* children that have ended, by a signal or not */
    _Atomic unsigned char seen[FORKED_MAX][128]; /* the test's own */
};

struct forked_job {
    struct forked_shared *shared; /* by all processes */
    int count, left;
    pid_t pids[FORKED_MAX];
    int statuses[FORKED_MAX]; /* as waitpid() */
};

typedef void forked_fn(struct forked_job *job, int rank, const void *arg);

/* Forks count children that run this and then end with 0. */
void forked_start(struct forked_job *job, int count, forked_fn *fn, const void *arg);

/* Waits for all of them; the shared memory can still be read. */
void forked_wait(struct forked_job *job);

/* Waits for those that have not been waited for.  Undoes forked_start(). */
void forked_end(struct forked_job *job);

/* Was this one killed by SIGKILL? */
bool forked_was_killed(const struct forked_job *job, int rank);

/* ---- in a child ---- */

/* Opens the endpoint of rank, waits for the others, and knows them by their ranks.  params ends
 * with NULL. */
struct mbx_ep *forked_open(struct forked_job *job, int rank, const char *const *params);

/* Makes progress until this word is at least that, or a child has ended. */
void forked_await(struct forked_job *job, struct mbx_ep *ep, int word, int value);

/* An empty message to another one, and its receipt: 0, or the error of the request. */
int forked_signal(struct mbx_ep *ep, uint32_t to, uint32_t context_id);
int forked_receive(struct mbx_ep *ep, uint32_t from, uint32_t context_id);

/* Closes; nothing may be left of the endpoint. */
void forked_close(struct mbx_ep *ep);

#endif
