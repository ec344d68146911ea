/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crew.h - a few processes with an endpoint each, of which some may die.  Test code.
 *
 * What happens in a child is told by its exit code: MUST names one for each thing that has to
 * hold.  Nothing here depends on time: who waits for another one waits for a message of it, or
 * for a word on the board, and gives up only when a machine must have stopped.
 */
#ifndef TESTS_CREW_H
#define TESTS_CREW_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include <matchbox/matchbox.h>

#define CREW_MAX    4
#define CREW_WORDS  16
#define CREW_PARAMS 16

/* Long enough for any machine. */
#define CREW_WAIT_NS ((int64_t)60 * 1000 * 1000 * 1000)

/* In a child. */
#define MUST(condition, code)                                                                  \
    do                                                                                         \
        if (!(condition))                                                                      \
            _exit(code);                                                                       \
    while (0)

struct crew_board {
    struct mbx_address addresses[CREW_MAX];
    _Atomic int open;
    _Atomic int words[CREW_WORDS]; /* the test's own */
    _Atomic int ended;             /* children that have ended, by a signal or not */
    _Atomic unsigned char seen[CREW_MAX][128]; /* the test's own */
};

struct crew {
    struct crew_board *board; /* shared by all */
    int count, left;
    pid_t pids[CREW_MAX];
    int statuses[CREW_MAX]; /* as waitpid() */
};

typedef void crew_fn(struct crew *crew, int rank, const void *arg);

/* Forks count children that run this and then end with 0. */
void crew_start(struct crew *crew, int count, crew_fn *fn, const void *arg);

/* Waits for all of them; the board can still be read. */
void crew_wait(struct crew *crew);

/* Waits for those that have not been waited for.  Undoes crew_start(). */
void crew_end(struct crew *crew);

/* Was this one killed by SIGKILL? */
bool crew_was_killed(const struct crew *crew, int rank);

/* ---- in a child ---- */

/* Opens the endpoint of rank, waits for the others, and knows them by their ranks.  params ends
 * with NULL. */
struct mbx_ep *crew_open(struct crew *crew, int rank, const char *const *params);

/* Makes progress until this word is at least that, or a child has ended. */
void crew_await(struct crew *crew, struct mbx_ep *ep, int word, int value);

/* An empty message to another one, and its receipt: 0, or the error of the request. */
int crew_signal(struct mbx_ep *ep, uint32_t to, uint32_t context_id);
int crew_hear(struct mbx_ep *ep, uint32_t from, uint32_t context_id);

/* Closes; nothing may be left of the endpoint. */
void crew_close(struct mbx_ep *ep);

#endif
