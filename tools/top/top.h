/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top.h - how the ranks of jobs spend their time, sampled by repeated inspections.
 *
 * All ranks are asked some 20 times a second.  A rank that makes progress answers at once, with the call that it is in, and
 * the operation that the call waits for; a rank that computes does not.  So each sample finds each rank in one of a few states, and
 * the share of samples is the share of its time.  The rank itself measures nothing: without inspection there is no cost.
 *
 *   samples ──> top_look() ──> struct top ──> top_print() ──> a pipe, or lines of a screen
 */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include <stdio.h>

#include "tools/observe/job_name.h"
#include "tools/observe/observe.h"
#include "tools/observe/words.h"

/* The state of a rank in a sample. */
enum top_state {
    TOP_WAITS, /* in a blocking call, for an operation without any data yet; in MPI_Finalize; in
                * any call in which nothing has happened for a second */
    TOP_MOVES, /* in a blocking call, and its data is in flight */
    TOP_CALLS, /* makes progress otherwise: MPI_Test, MPI_Isend */
    TOP_COMPUTES,  /* runs, and makes no progress */
    TOP_READY,     /* could run, but has no core */
    TOP_ELSEWHERE, /* sleeps, reads a file, is stopped, has ended */
    TOP_STATES
};

#define TOP_PLACES 16

/* A place where a rank was found waiting: in a call, for a rank. */
struct top_place {
    char call[INSPECT_CALL_TEXT];
    uint64_t caller;                           /* return address of the call in the program */
    uint64_t whom;                             /* as in struct inspect_entry */
    char envelope[WORDS_MAX], peer[WORDS_MAX]; /* empty: unknown */
    bool is_send;
    uint32_t looks;
};

/* The traffic that a rank has reported. */
struct top_traffic {
    uint64_t now_ns;
    uint64_t sent, received; /* messages */
    uint64_t sent_bytes, received_bytes;
};

struct top_rank {
    struct inspect_head head;
    uint32_t owner;                     /* as in struct inspect_rank */
    uint32_t looks, states[TOP_STATES]; /* samples in all, and in each state */
    struct top_place places[TOP_PLACES];
    uint32_t place_count;
    bool has_answered;
    struct top_traffic first, last;
    uint32_t posted, unexpected; /* in the last answer */
    struct inspect_state state;  /* from the last answer */
    char run;                    /* as in struct inspect_rank, from the last sample */
};

struct top_job {
    struct top_rank *ranks; /* as in struct inspect_job */
    uint32_t count, size;
    char title[JOB_TITLE];
};

struct top {
    struct top_job *jobs;
    uint32_t count;
    uint64_t asked_ns;    /* time of the sample that is being added */
    uint64_t *run_before; /* CPU time of each rank before it, in ns */
    uint32_t ranks;
};

/* Samples all ranks that the observer has found, for at most its wait_ns; before the first sample
 * `top` must be all zero.  0; -ENOMEM.  Undone by top_free(). */
int top_look(struct top *top, struct observer *observer);
void top_free(struct top *top);

/* Marks at the beginning of lines that a screen may highlight. */
#define TOP_HEADING '\1'
#define TOP_VERDICT '\2'

/* Prints the table of each job, and the rank that never waits.  by_waits: ranks that wait least
 * come first. */
void top_print(FILE *out, const struct top *top, bool by_waits);

/* ---- top_screen.c ---- */

/* Takes over the terminal, by ncurses, which is loaded for this.  NULL; or the reason why it
 * cannot. */
const char *top_screen_open(void);
void top_screen_close(void);

/* Shows the lines of text from line `first` on. */
void top_screen_show(const char *text, uint32_t first);

enum top_key {
    TOP_KEY_NONE,
    TOP_KEY_QUIT,
    TOP_KEY_WAITS,
    TOP_KEY_RANK,
    TOP_KEY_UP,
    TOP_KEY_DOWN,
    TOP_KEY_REDRAW
};

/* The next key; TOP_KEY_NONE after wait_ms milliseconds without one. */
enum top_key top_screen_key(int wait_ms);

#endif
