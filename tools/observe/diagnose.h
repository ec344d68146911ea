/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diagnose.h - two looks at a job, in words: who is deadlocked and why, and who waits for whom.
 */
#ifndef TOOLS_DIAGNOSE_H
#define TOOLS_DIAGNOSE_H

#include <stdio.h>

#include "inspect/graph.h"

/* How many ranks are deadlocked; nodes has space for now->count. */
uint32_t diagnose_judge(const struct inspect_job *before, const struct inspect_job *now,
                        enum inspect_node *nodes);

/* The lines about a job, to out.  before and now are what nodes was judged from. */
void diagnose_say(FILE *out, const struct inspect_job *before, const struct inspect_job *now,
                  const enum inspect_node *nodes);

/* Is it in a call that returns only when something has happened, as far as its name says? */
bool diagnose_is_in_wait(const struct inspect_rank *rank);

/* Has nothing happened in it for a second? */
bool diagnose_is_still(const struct inspect_rank *rank);

/* So many messages this rank has not read from the memory of its peers, because it cannot. */
uint64_t diagnose_fallbacks(const struct inspect_rank *rank);

/* ---- outside.c: what a rank does that makes no progress ---- */

#define OUTSIDE_MAX INSPECT_REPORTED_TEXT

/* "computes", "is stopped", "reads /scratch/x"; NULL: it answers.  words. */
const char *outside_words(const struct inspect_rank *rank, char words[OUTSIDE_MAX]);

/* Why this rank cannot read the memory of others (cross-memory attach); if that is not
 * known, the command that says it.  words. */
const char *outside_no_attach(const struct inspect_rank *rank, char words[OUTSIDE_MAX]);

/* "solve.c:212", where in the program the rank is in its call; NULL: not known. */
const char *outside_line(const struct inspect_rank *rank, char words[OUTSIDE_MAX]);

/* Ranks of MPI jobs of this user on this host that do not run over Matchbox, a line for each job, with the reason.  How many lines. */
uint32_t outside_say_others(FILE *out);

/* ---- source_line.c ---- */

/* "solve.c:212", the line of the program that this address of a process belongs to; NULL: there is no debug information, or no
 * libdw to read it.  words. */
const char *source_line(uint32_t pid, uint64_t address, char words[OUTSIDE_MAX]);

/* As source_line(), for an address as the symbols of this file count it; words has OUTSIDE_MAX
 * bytes at least. */
const char *source_line_in(const char *path, uint64_t address, char *words);

#endif
