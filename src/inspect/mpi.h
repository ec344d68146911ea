/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi.h - decodes the envelopes of an MPI library: communicator, tag, mode, collective.
 *
 * The envelope of Matchbox is {context id, source, tag of 64 bits}.  An MPI library packs its
 * own fields into these: through the component the context id is the communicator; through the
 * provider the communicator and bits of the MPI's protocol are in the tag; through libucp the
 * communicator and the sender's rank.  The layout depends on the MPI and its version; mpi.c has a
 * row for each known one.
 *
 *   const struct inspect_layout *layout = inspect_mpi_layout("provider Open MPI v4.1.4, package: ...");
 *   struct inspect_mpi mpi;
 *   char words[INSPECT_MPI_WORDS];
 *
 *   if (inspect_mpi_decode(layout, context_id, tag, ignore, &mpi))
 *       printf("communicator %" PRIu32 " %s", mpi.communicator, inspect_mpi_words(&mpi, words));
 *
 * The text is `WAY VERSION`: WAY is `component` (src/pml), `provider` (src/provider) or `ucp`
 * (src/ucp), VERSION is the result of MPI_Get_library_version().  An MPI, or a version, that is not known has no
 * layout: its envelopes stay numbers.
 *
 * Nothing here allocates memory, reads a file or keeps state; any thread may make all calls.
 */
#ifndef INSPECT_MPI_H
#define INSPECT_MPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inspect_layout;

/* The row for `WAY VERSION`; NULL: not known, or text is NULL. */
const struct inspect_layout *inspect_mpi_layout(const char *text);

struct inspect_mpi {
    uint32_t communicator; /* the MPI's number */
    uint32_t
        source; /* the sender's rank in the communicator, if has_source and not is_any_source
                      */
    bool has_source, is_any_source; /* through libucp */
    uint32_t generation;            /* distinguishes communicators with the same number; 0 where
                        the communicator is in the tag */
    int32_t tag;                    /* not set if is_any_tag */
    bool is_any_tag;                /* of a receive or probe: MPI_ANY_TAG */
    bool is_synchronous;            /* of a message: its sender waits for an acknowledgement */
    bool is_acknowledgement;
    bool is_collective;
    bool is_nonblocking;   /* of a collective: these are numbered in each communicator by their
                            tags */
    uint32_t number;       /* of a nonblocking one: the first in a communicator is 1; 0: not
                            known */
    bool is_of_group;      /* of a collective: of ranks that make a communicator */
    const char *operation; /* of a collective, "barrier"; or NULL */
    bool is_of_node;       /* part: the ranks of one node, in the order of their ranks */
    const char *part;  /* of the communicator, "node": MPICH makes some internally; or NULL */
    unsigned protocol; /* other bits of the MPI's protocol, without a name in this row */
};

/* Decodes the envelope of a message (ignore 0), a receive or a probe.  False: there is no
 * layout, or the MPI does not make such an envelope. */
bool inspect_mpi_decode(const struct inspect_layout *layout, uint32_t context_id, uint64_t tag,
                        uint64_t ignore, struct inspect_mpi *out);

/* The bits of a tag that are the sender's rank; 0: none are. */
uint64_t inspect_mpi_source_bits(const struct inspect_layout *layout);

/* text: `WAY VERSION`.  Does the library for libucp keep the receives on this context id posted, so
 * that they are none of the program? */
bool inspect_mpi_is_kept_posted(const char *text, uint32_t context_id);

/* "MPI_COMM_WORLD", "MPI_COMM_SELF"; NULL for all other communicators, which get their names
 * while the program runs. */
const char *inspect_mpi_predefined(const struct inspect_layout *layout, uint32_t communicator);

#define INSPECT_MPI_WORDS 160

/* "tag 7", "any tag", "barrier", "tag 7 synchronous"; without the communicator.  Returns
 * words. */
const char *inspect_mpi_words(const struct inspect_mpi *mpi, char words[INSPECT_MPI_WORDS]);

#endif
