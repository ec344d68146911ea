/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_name.h - names a job for the user: by its program, and its start time.
 *
 *   observer or core file ──> program and start of each rank ──> job_words(): "solve, started 14:02:11"
 *   --job TEXT ──> job_is_called(): by its number, its program, a process of it, or an ancestor of one
 */
#ifndef TOOLS_JOB_NAME_H
#define TOOLS_JOB_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "inspect/job.h"

#define JOB_WORDS 160
#define JOB_TITLE 320

/* The program that a process runs, from its arguments, each of which ends with '\0': the last
 * part of its path.  For an interpreter the script, if there is one: "model.py", "python3
 * -c". */
void job_program_of(const char *arguments, size_t size, char program[INSPECT_PROGRAM_TEXT]);

/* Fills in rank->program and rank->started, if the system reports them. */
void job_name_rank(struct inspect_rank *rank);

/* The program of a job: "solve", "ocean+atmos" for two, "ocean+atmos+..." for more; empty:
 * unknown.  Returns words. */
const char *job_program(const struct inspect_job *job, char words[JOB_WORDS]);

/* The start time of its first rank, in seconds since 1970; 0: unknown. */
uint32_t job_started(const struct inspect_job *job);

/* Both: "solve, started 14:02:11"; with the day if it was not today; empty if nothing is
 * known.  Returns words. */
const char *job_words(const struct inspect_job *job, char words[JOB_WORDS]);

/* "job af4bb4bbc551d841 (solve, started 14:02:11)"; has_mpi: with its MPI, if that is known.
 * Returns text. */
const char *job_title(const struct inspect_job *job, bool has_mpi, char text[JOB_TITLE]);

/* For a job that was joined from several: a line for each except the first, " job 2 is ...: 4
 * ranks". */
void job_print_parts(FILE *out, const struct inspect_job *job);

/* Does text, of an option --job, mean this job?  16 digits can only be the number of a job. */
bool job_is_called(const struct inspect_job *job, const char *text);

/* The job number in text; 0 if text is none. */
uint64_t job_number(const char *text);

#endif
