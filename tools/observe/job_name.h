/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_name.h - what a user calls a job: its program, and when it was started.
 *
 *   observer or core file ──> program and start of each rank ──> job_words(): "solve, started 14:02:11"
 *   --job TEXT ──> job_is_called(): by its number, its program, a process of it, or one that has started these
 */
#ifndef TOOLS_JOB_NAME_H
#define TOOLS_JOB_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "inspect/job.h"

#define JOB_WORDS 160
#define JOB_TITLE 320

/* The program that a process runs, by its arguments, each of which ends with '\0': the last part of its path.  Of an interpreter
 * the script, as far as there is one: "model.py", "python3 -c". */
void job_program_of(const char *arguments, size_t size, char program[INSPECT_PROGRAM_TEXT]);

/* Fills in rank->program and rank->started, as far as the system says them. */
void job_name_rank(struct inspect_rank *rank);

/* The program of a job: "solve", "ocean+atmos" of two, "ocean+atmos+..." of more; empty: not known.  words. */
const char *job_program(const struct inspect_job *job, char words[JOB_WORDS]);

/* When its first rank was started, in seconds since 1970; 0: not known. */
uint32_t job_started(const struct inspect_job *job);

/* Both: "solve, started 14:02:11"; with the day if that was not today; empty: nothing is known.  words. */
const char *job_words(const struct inspect_job *job, char words[JOB_WORDS]);

/* "job af4bb4bbc551d841 (solve, started 14:02:11)"; has_mpi: and its MPI, as far as it is known.  text. */
const char *job_title(const struct inspect_job *job, bool has_mpi, char text[JOB_TITLE]);

/* Of a job that was joined from several: a line for each but the first, "  job 2 is ...: 4 ranks". */
void job_print_parts(FILE *out, const struct inspect_job *job);

/* Does text, of an option --job, mean this job?  Of a number of 16 digits it is nothing else. */
bool job_is_called(const struct inspect_job *job, const char *text);

/* The number of a job that text is; 0: it is none. */
uint64_t job_number(const char *text);

#endif
