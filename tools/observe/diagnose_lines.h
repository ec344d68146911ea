/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diagnose_lines.h - the parts of the report of diagnose.c, each in a file of its own.
 *
 * before and now are the two inspections; where there is one, it is the second.  nodes are its judged states; at and
 * whose are indices of job->ranks.
 */
#ifndef TOOLS_DIAGNOSE_LINES_H
#define TOOLS_DIAGNOSE_LINES_H

#include "diagnose.h"
#include "words.h"

/* ---- diagnose.c ---- */

/* "MPI_Recv", and the line of the program if there is debug information.  Returns words. */
const char *diagnose_call_words(const struct inspect_rank *rank, char words[WORDS_MAX]);

/* ", for 41 s"; empty if it is unknown.  Returns words. */
const char *diagnose_still_words(const struct inspect_rank *rank, char words[32]);

/* ---- diagnose_entry.c ---- */

/* Reports an operation that job->ranks[at] waits for, and that cannot end. */
void diagnose_say_entry(FILE *out, const struct inspect_job *job,
                        const enum inspect_node *nodes, uint32_t at,
                        const struct inspect_entry *entry);

/* Reports a send that has not left because its receiver accepts no more unexpected messages. */
void diagnose_say_window(FILE *out, const struct inspect_job *job, uint32_t whose,
                         const struct inspect_entry *entry);

/* Open MPI waits for the acknowledgement of a synchronous send in a receive of its own. */
bool diagnose_is_acknowledgement(const struct inspect_rank *rank,
                                 const struct inspect_entry *entry);

/* Are these of two parts of a communicator? */
bool diagnose_is_other_part(const struct inspect_mpi *a, const struct inspect_mpi *b);

/* ---- diagnose_cycle.c ---- */

/* Follows the waits of each rank; a cycle is reported once, from its first rank. */
void diagnose_say_cycles(FILE *out, const struct inspect_job *job,
                         const enum inspect_node *nodes);

/* Lists the ranks that are in a collective of each communicator, a line per call. */
void diagnose_say_roll_call(FILE *out, const struct inspect_job *job);

/* ---- diagnose_others.c ---- */

/* A line for each rank that waits, and is not part of a deadlock. */
void diagnose_say_waiters(FILE *out, const struct inspect_job *before,
                          const struct inspect_job *now, const enum inspect_node *nodes);

/* Every rank is mentioned: the ones that no other line explains get a line for each reason. */
void diagnose_say_left_out(FILE *out, const struct inspect_job *before,
                           const struct inspect_job *now, const enum inspect_node *nodes,
                           enum inspect_assume assume);

/* Reports what else matters: messages that nobody receives, threads, ranks that are not seen, and more. */
void diagnose_say_others(FILE *out, const struct inspect_job *before,
                         const struct inspect_job *job, enum inspect_assume assume);

#endif
