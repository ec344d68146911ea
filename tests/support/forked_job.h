/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked_job.h - a job of a few processes with an endpoint each, forked by a test; some of them
 * may die.  Test code.
 *
 * The exit code of a child says what failed in it: MUST has a code for each condition that must
 * hold.  Nothing here depends on time: a process that waits for another one waits for a message
 * from it, or for a word in the shared memory, and gives up only if that hangs.
 */
#ifndef TESTS_FORKED_JOB_H
#define TESTS_FORKED_JOB_H

#include <matchbox/matchbox.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/unit.h"

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
    struct forked_shared *shared; /* shared by all processes */
    int count, left;
    pid_t pids[FORKED_MAX];
    int statuses[FORKED_MAX]; /* as from waitpid() */
};

typedef void forked_fn(struct forked_job *job, int rank, const void *arg);

/* Forks count children that run this and then end with 0. */
void forked_start(struct forked_job *job, int count, forked_fn *fn, const void *arg);

/* Waits for all of them; the shared memory can still be read. */
void forked_wait(struct forked_job *job);

/* Waits for the remaining children.  Undoes forked_start(). */
void forked_end(struct forked_job *job);

/* Was this child killed by SIGKILL? */
bool forked_was_killed(const struct forked_job *job, int rank);

/* ---- in a child ---- */

/* Opens the endpoint of rank, waits for the others, and adds them as peers, numbered by rank.
 * params ends with NULL. */
struct mbx_ep *forked_open(struct forked_job *job, int rank, const char *const *params);

/* Makes progress until this word has at least this value, or a child has ended. */
void forked_await(struct forked_job *job, struct mbx_ep *ep, int word, int value);

/* Send an empty message to another rank, and receive it: return 0, or the error of the
 * request. */
int forked_signal(struct mbx_ep *ep, uint32_t to, uint32_t context_id);
int forked_receive(struct mbx_ep *ep, uint32_t from, uint32_t context_id);

/* Closes the endpoint, which may have nothing left over. */
void forked_close(struct mbx_ep *ep);

#endif
