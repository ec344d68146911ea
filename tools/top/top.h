/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top.h - what the ranks of jobs do with their time, from many looks at them.
 *
 * All ranks are asked some 20 times a second.  A rank that makes progress answers at once, and says which call it is in, and
 * what that call waits for; one that computes does not.  So each look finds each rank in one of a few states, and the share
 * of looks is the share of its time.  Nothing is measured in the rank itself: nobody pays for it who is not looked at.
 *
 *   looks ──> top_add() ──> struct top ──> top_print() ──> a pipe, or lines of a screen
 */
#ifndef TOOLS_TOP_H
#define TOOLS_TOP_H

#include <stdio.h>

#include "tools/observe/job_name.h"
#include "tools/observe/observe.h"
#include "tools/observe/words.h"

/* What a look finds a rank doing. */
enum top_state {
    TOP_WAITS, /* in a call that blocks, for an operation that no data of has come yet; in MPI_Finalize; in any call in which nothing has happened for a second */
    TOP_MOVES, /* in a call that blocks, and the data it waits for is on its way */
    TOP_CALLS, /* makes progress in another way: MPI_Test, MPI_Isend */
    TOP_COMPUTES,  /* runs, and makes no progress */
    TOP_READY,     /* could run, and has no core */
    TOP_ELSEWHERE, /* sleeps, reads a file, is stopped, has ended */
    TOP_STATES
};

#define TOP_PLACES 16

/* Where a rank was found waiting: in a call, for a rank. */
struct top_place {
    char call[INSPECT_CALL_TEXT];
    uint64_t caller;                           /* address behind the call in the program */
    uint64_t whom;                             /* as in struct inspect_entry */
    char envelope[WORDS_MAX], peer[WORDS_MAX]; /* empty: not known */
    bool is_send;
    uint32_t looks;
};

/* What a rank has said of its traffic. */
struct top_traffic {
    uint64_t now_ns;
    uint64_t sent, received; /* messages */
    uint64_t sent_bytes, received_bytes;
};

struct top_rank {
    struct inspect_head head;
    uint32_t looks, states[TOP_STATES]; /* in which states, so often */
    struct top_place places[TOP_PLACES];
    uint32_t place_count;
    bool has_answered;
    struct top_traffic first, last;
    uint32_t posted, unexpected; /* in the last answer */
    struct inspect_state state;  /* that answer */
    char run;                    /* as in struct inspect_rank, in the last look */
};

struct top_job {
    struct top_rank *ranks; /* as in struct inspect_job */
    uint32_t count, size;
    char title[JOB_TITLE];
};

struct top {
    struct top_job *jobs;
    uint32_t count;
    uint64_t asked_ns;    /* the look that is being added */
    uint64_t *run_before; /* how long each rank had run before it, in ns */
    uint32_t ranks;
};

/* Looks once at all that the observer has found, for wait_ns at most, and adds what it sees; of the first look `top` is all zero.
 * 0; -ENOMEM.  Undone by top_free(). */
int top_look(struct top *top, struct observer *observer);
void top_free(struct top *top);

/* Lines begin with one of these where a screen may show them in another way. */
#define TOP_HEADING '\1'
#define TOP_VERDICT '\2'

/* The table of each job, and which rank never waits.  by_waits: the ranks that wait least come first. */
void top_print(FILE *out, const struct top *top, bool by_waits);

/* ---- top_screen.c ---- */

/* Takes over the terminal, by ncurses, which is loaded for that.  NULL; or why it cannot. */
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

/* The next key; TOP_KEY_NONE after so many milliseconds without one. */
enum top_key top_screen_key(int wait_ms);

#endif
