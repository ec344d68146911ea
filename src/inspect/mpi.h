/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi.h - what an MPI library has put into an envelope: communicator, tag, mode, collective.
 *
 * The library's envelope is {context id, source, tag of 64 bits}.  An MPI that runs over it packs
 * its own words into these: through the component the context id is the communicator, through the
 * provider the communicator and bits of the MPI's protocol are in the tag.  How depends on the MPI
 * and its version; mpi.c has a row for each that is known.
 *
 *   const struct inspect_layout *layout = inspect_mpi_layout("provider Open MPI v4.1.4, package: ...");
 *   struct inspect_mpi mpi;
 *   char words[INSPECT_MPI_WORDS];
 *
 *   if (inspect_mpi_decode(layout, context_id, tag, ignore, &mpi))
 *       printf("communicator %" PRIu32 " %s", mpi.communicator, inspect_mpi_words(&mpi, words));
 *   else
 *       the numbers as they are
 *
 * The text is `WAY VERSION`: WAY is `component` (src/pml) or `provider` (src/provider), VERSION what
 * MPI_Get_library_version() gives.  An MPI, or a version, that is not known has no layout: its envelopes stay numbers.
 *
 * Nothing here allocates, reads a file or keeps anything; all calls are for any thread.
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
    uint32_t communicator; /* the MPI's number of it */
    uint32_t
        generation;  /* of communicators with one number: which one; 0 through the provider */
    int32_t tag;     /* nothing if is_any_tag */
    bool is_any_tag; /* of a receive or probe: MPI_ANY_TAG */
    bool is_synchronous; /* of a message: its sender waits for an acknowledgement */
    bool is_acknowledgement;
    bool is_collective;
    bool is_nonblocking; /* of a collective: each communicator numbers these by their tags */
    uint32_t number;     /* of a nonblocking one: the communicator's first is 1; 0: not known */
    bool is_of_group;    /* of a collective: of ranks that make a communicator */
    const char *operation; /* of a collective, "barrier"; or NULL */
    const char *part;  /* of the communicator, "node": MPICH makes some of its own; or NULL */
    unsigned protocol; /* further bits of the MPI's protocol, which this row does not name */
};

/* The envelope of a message (ignore 0), a receive or a probe in MPI's words.  False: there is no
 * layout, or this is none of its envelopes. */
bool inspect_mpi_decode(const struct inspect_layout *layout, uint32_t context_id, uint64_t tag,
                        uint64_t ignore, struct inspect_mpi *out);

/* "MPI_COMM_WORLD", "MPI_COMM_SELF"; NULL for all other communicators, whose names are given to them
 * while the program runs. */
const char *inspect_mpi_predefined(const struct inspect_layout *layout, uint32_t communicator);

#define INSPECT_MPI_WORDS 160

/* "tag 7", "any tag", "barrier", "tag 7 synchronous"; the communicator is not in it.  words. */
const char *inspect_mpi_words(const struct inspect_mpi *mpi, char words[INSPECT_MPI_WORDS]);

#endif
