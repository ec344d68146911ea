/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snapshot.h - the communicators of a stopped process, and the waiting entries of each.
 *
 * A communicator here is a communicator of the MPI, if the MPI is known (inspect/mpi.h), and
 * otherwise a context id of an endpoint.  The list has the communicators that the program has
 * named, or that have waiting entries.
 */
#ifndef MSGQ_SNAPSHOT_H
#define MSGQ_SNAPSHOT_H

#include "inspect/mpi.h"
#include "inspect/walk.h"

struct msgq_endpoint {
    uint64_t ep;
    uint32_t rank, ranks;  /* INSPECT_NOBODY: not known */
    uint64_t job, address; /* as in the head of its page; 0: not known */
    const struct inspect_layout *layout;
    struct inspect_entry *entries; /* by kind, context id and age */
    uint32_t count;
};

struct msgq_communicator {
    uint32_t endpoint; /* index */
    uint32_t number;   /* of the MPI's communicator, or the context id */
    bool is_mpi, is_world;
    uint32_t size; /* 0: not known */
    char name[64];
};

struct msgq_snapshot {
    struct inspect_map map;
    struct msgq_endpoint *endpoints;
    struct msgq_communicator *communicators;
    uint32_t endpoint_count, communicator_count, communicator_slots;
};

/* Takes a snapshot of the process whose layout is at root.  0, undone by snapshot_free();
 * -ENOMEM; a negative errno of the source; -EBADMSG: another version, or invalid data. */
int snapshot_take(struct msgq_snapshot *snapshot, const struct inspect_source *source,
                  uint64_t root);
void snapshot_free(struct msgq_snapshot *snapshot);

/* Does the entry of that endpoint belong to the communicator?  If so and the MPI is known, *mpi
 * describes it. */
bool snapshot_belongs(const struct msgq_snapshot *snapshot,
                      const struct msgq_communicator *communicator,
                      const struct inspect_entry *entry, struct inspect_mpi *mpi);

#endif
