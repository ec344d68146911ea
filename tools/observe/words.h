/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * words.h - the entries of queues in the terms of a user: "from 1, tag 7, MPI_COMM_WORLD, 4 bytes".
 */
#ifndef TOOLS_WORDS_H
#define TOOLS_WORDS_H

#include "inspect/job.h"

#define WORDS_MAX 192

/* Each function returns words. */
const char *words_of_entry(const struct inspect_job *job, uint32_t at,
                           const struct inspect_entry *entry, char words[WORDS_MAX]);
/* "1", "any source", "peer 3" if its rank is unknown, "rank 1 of it" if only that in the communicator is known. */
const char *words_of_peer(const struct inspect_job *job, uint32_t at,
                          const struct inspect_entry *entry, char words[WORDS_MAX]);
/* "tag 7 on MPI_COMM_WORLD", "barrier on communicator 3". */
const char *words_of_envelope(const struct inspect_rank *rank,
                              const struct inspect_entry *entry, char words[WORDS_MAX]);
/* "MPI_COMM_WORLD", "communicator 3", "context 7". */
const char *words_of_communicator(const struct inspect_rank *rank,
                                  const struct inspect_entry *entry, char words[WORDS_MAX]);

/* "pid 4457"; on another host "pid 4457 on node2". */
const char *words_of_process(const struct inspect_rank *rank, char words[WORDS_MAX]);

/* "0", or "?" if the launcher has not reported it; in a job that was joined to another "0 of
 * job 2". */
const char *words_of_rank(const struct inspect_rank *rank, char words[WORDS_MAX]);

#endif
