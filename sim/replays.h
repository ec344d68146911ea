/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replays.h - is a replay right (sim --replays)?  The rule of docs/decisions/0060, over the whole library.
 *
 *   record     the programs of a plan (program.h) run over its network, and the outcomes of their calls are kept
 *   replay     the same programs run over another network, and each outcome is made to be the recorded one
 *   free run   the same over the other network, and nothing is enforced
 *
 * In the replay each operation, each outcome, and each message that a receive or matched probe gets must be as in the
 * record, byte by byte.  The free run shows how often the other network alone changes something: if it never did, the replay
 * would prove nothing.
 *
 * The record is in memory: src/replay/replay_test.c tests the files.
 */
#ifndef SIM_REPLAYS_H
#define SIM_REPLAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program.h"

struct job_counts;
struct replay;

/* Makes the three runs.  True if all was right; otherwise `why` says what was wrong. */
bool replays_run(const struct plan *plan, bool is_verbose, struct job_counts *counts, char *why,
                 size_t size);

/* Prints the counts of all jobs until now.  False: they prove nothing. */
bool replays_tell(void);

/* ---- while a job runs ---- */

/* Before the program does this operation: is it the recorded one? */
void replay_look(struct job *job, struct item *item);

/* Does it, as recorded: a receive may be posted otherwise, or not at all. */
void replay_do(struct job *job, struct item *item);

/* Does the rank's call return?  Then with *outcome. */
bool replay_returns(struct job *job, uint32_t who, struct call *call, struct outcome *outcome);

/* Nothing moves any more: is each rank where it was in the record? */
void replay_stop(struct job *job);

/* Has each receive what it had in the record? */
void replay_compare(struct job *job);

#endif
