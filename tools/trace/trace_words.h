/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_words.h - the words of the program that was traced: the meaning of its envelopes, and
 * the communicators and ranks that its trace names.
 */
#ifndef TOOLS_TRACE_WORDS_H
#define TOOLS_TRACE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "inspect/mpi.h"
#include "trace/trace.h"

#define TRACE_NAME_MAX 128

/* Which rank each process is: of all traces that are read together. */
struct trace_ranks {
    const struct trace_info *const *files;
    size_t count;
};

struct trace_communicator {
    uint32_t number, size; /* size: its ranks; 0: not known */
    char name[TRACE_NAME_MAX];
    uint64_t receives, receives_waited, messages, messages_waited;
};

struct trace_peer {
    bool is_known;
    uint32_t job, rank;
};

struct trace_words {
    const struct trace_ranks *ranks;
    char program[TRACE_NAME_MAX];
    char naming[TRACE_NAME_MAX];         /* the name that is being read */
    const struct inspect_layout *layout; /* or NULL: the envelopes stay numbers */
    struct trace_communicator
        *communicators; /* several of one number, one after another; the last one is found */
    uint32_t communicator_count, communicator_slots;
    struct hash by_number;    /* index + 1 */
    struct trace_peer *peers; /* by number */
    uint32_t peer_slots;
};

/* Compares for qsort(): by rank, and files without a rank by process and endpoint. */
int trace_compare_ranks(const struct trace_info *x, const struct trace_info *y);

void trace_words_init(struct trace_words *words, const struct trace_ranks *ranks);
void trace_words_fini(struct trace_words *words);

/* Adds an event to the words, and to the counts of its communicator.  0 or -ENOMEM. */
int trace_words_event(struct trace_words *words, const struct trace_event *event);

#define TRACE_ENVELOPE_TEXT 384

/* "MPI_COMM_WORLD from rank 2 tag 7", or "context 1 source 2 tag 7 ignore ff". */
const char *trace_words_envelope(const struct trace_words *words,
                                 const struct trace_event *event,
                                 char text[TRACE_ENVELOPE_TEXT]);

/* "MPI_COMM_WORLD", "communicator 4"; text. */
const char *trace_words_communicator(const struct trace_words *words,
                                     const struct inspect_mpi *mpi, char *text, size_t size);

/* "MPI_ANY_TAG", or the ignored bits of a mask in hexadecimal. */
const char *trace_words_ignore(const struct trace_words *words, uint64_t ignore, char text[24]);

#endif
