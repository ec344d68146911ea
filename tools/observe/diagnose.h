/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diagnose.h - two inspections of a job, in words: which ranks are deadlocked and why, and which rank waits for which.
 */
#ifndef TOOLS_DIAGNOSE_H
#define TOOLS_DIAGNOSE_H

#include <assert.h>
#include <stdio.h>

#include "base/source_line.h"
#include "inspect/graph.h"

enum diagnose_verdict {
    DIAGNOSE_NONE,
    DIAGNOSE_IF_POLLS, /* a deadlock of the whole job, if its ranks that poll do nothing else (inspect/polls.h) */
    DIAGNOSE_UNLESS,  /* a deadlock, unless a thread that has never communicated does so */
    DIAGNOSE_DEADLOCK /* for certain: of a part of the ranks at least */
};

/* nodes has space for now->count; it gets the states for the verdict.  Two looks never give DIAGNOSE_IF_POLLS. */
enum diagnose_verdict diagnose_judge(const struct inspect_job *before,
                                     const struct inspect_job *now, enum inspect_node *nodes);

/* Writes the lines about a job to out.  nodes was judged from before and now, with this verdict. */
void diagnose_say(FILE *out, const struct inspect_job *before, const struct inspect_job *now,
                  const enum inspect_node *nodes, enum diagnose_verdict verdict);

/* Is the rank in a call whose name shows that it returns only after some event? */
bool diagnose_is_in_wait(const struct inspect_rank *rank);

/* Has nothing happened in the rank for a second? */
bool diagnose_is_still(const struct inspect_rank *rank);

/* The number of messages that this rank could not read from the memory of its peers. */
uint64_t diagnose_fallbacks(const struct inspect_rank *rank);

/* ---- outside.c: the state of a rank that makes no progress ---- */

#define OUTSIDE_MAX INSPECT_REPORTED_TEXT
static_assert(OUTSIDE_MAX >= SOURCE_LINE_MAX, "a line");

/* "computes", "is stopped", "reads /scratch/x"; NULL if it answers.  Returns words. */
const char *outside_words(const struct inspect_rank *rank, char words[OUTSIDE_MAX]);

/* Describes the system call that a thread of process pid is in; text has the content of its file `syscall`.
 * Returns words. */
const char *outside_call(uint32_t pid, const char *text, char words[OUTSIDE_MAX]);

/* The reason why this rank cannot read the memory of others (cross-memory attach); if it is
 * unknown, the command that shows it.  Returns words. */
const char *outside_no_attach(const struct inspect_rank *rank, char words[OUTSIDE_MAX]);

/* Reports ranks of MPI jobs of this user on this host that do not run over Matchbox, a line per
 * job, with the reason.  Returns the number of lines. */
uint32_t outside_say_others(FILE *out);

/* ---- outside_line.c ---- */

/* "solve.c:212", the place in the program of the rank's call.  In a Python program it is "halo.py:8 in
 * exchange", and, if the call is in an extension with debug information, "field.c:88, from halo.py:8 in
 * exchange".  NULL: unknown.  Returns words. */
const char *outside_line(const struct inspect_rank *rank, char words[OUTSIDE_MAX]);

/* As outside_line(), but words is empty if there is none.  False: the files of another user's process were not
 * read in time, and a later report may have the line. */
bool outside_read_line(const struct inspect_rank *rank, char words[OUTSIDE_MAX]);

/* Begins another report of a tool that makes several: it has its own time for the files of other users. */
void outside_begin(void);

/* Reports why ranks of this host are shown without a line, although they run Python or are another
 * user's; a line per rank. */
void outside_say_no_line(FILE *out, const struct inspect_job *job);

#endif
