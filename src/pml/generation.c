/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * generation.c - distinguishes the communicators that use the same context id one after the other.
 *
 * Open MPI reuses the context id of a freed communicator for the next one.  A message of the first may still be in
 * flight, or wait at its sender, and must not match a receive of the second.  So their tags differ in bits that MPI does
 * not use: the generation.  All members must compute the same generation, without communication, because a communicator
 * can be made while the program does something else (MPI_Comm_idup).
 *
 *   generation   = group + number
 *     group        a hash of the members, of both groups if there are two
 *     number       Open MPI 5.0 agrees on one with the context id, for the revocations of ULFM; it grows while the members
 *                  stay the same.  Open MPI 4.1 has none: each process counts the communicators with this context id and
 *                  these members.  All members count the same, because a context id is reused only when all members of
 *                  the new communicator have freed the old one
 *
 * So two communicators with equal members differ until the number wraps around, after 2^31 of them.  Two with
 * different members have the same generation with probability 2^-31.
 *
 *   0              MPI_COMM_WORLD and MPI_COMM_SELF, which never end
 *   1 to 2^31 - 1  the members of MPI_COMM_WORLD, in its order: the number alone
 *   others         all other communicators
 *
 * An adapter that matches compares the lowest bits of a generation (transport/verbs/verbs_frame.h).  The generations of
 * copies of MPI_COMM_WORLD are small, so that it can match their messages.
 *
 * The counts are kept until MPI_Finalize: 16 bytes for each context id and group.
 */
#include "pml/pml.h"

#include <pthread.h>

#include "base/hash.h"

#define OTHERS                                                                                 \
    (UINT32_C(1)                                                                               \
     << 31) /* a generation of a communicator whose members differ from MPI_COMM_WORLD */
#define NUMBERS (OTHERS - 1) /* the bits of a number */

struct counted {
    uint32_t count; /* starts at 1 */
    uint32_t context_id;
    uint64_t group;
};

static struct {
    pthread_mutex_t lock;
    struct hash table; /* of struct counted */
    uint64_t world;    /* the group of MPI_COMM_WORLD */
} generations = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the members ---- */

static uint64_t group_hash(ompi_group_t *group)
{
    uint64_t hash = (uint64_t)group->grp_proc_count;

    for (int rank = 0; rank < group->grp_proc_count; rank++) {
        opal_process_name_t name = ompi_group_get_proc_name(group, rank);

        hash = hash_spread(hash + UINT64_C(0x9e3779b97f4a7c15)) ^
               ((uint64_t)name.jobid << 32 | name.vpid);
    }
    return hash_spread(hash);
}

/* Equal on both sides of an intercommunicator. */
static uint64_t members_hash(const ompi_communicator_t *comm)
{
    uint64_t ours = group_hash(comm->c_local_group), theirs;

    if (!OMPI_COMM_IS_INTER(comm))
        return ours;
    theirs = group_hash(comm->c_remote_group);
    return ours < theirs ? hash_spread(hash_spread(ours) + theirs)
                         : hash_spread(hash_spread(theirs) + ours);
}

/* ---- counting ---- */

static uint64_t counted_hash(const void *arg, const void *slot)
{
    const struct counted *counted = slot;

    (void)arg;
    return hash_spread(counted->group + counted->context_id);
}

static bool counted_is(const void *arg, const void *slot, const void *key)
{
    const struct counted *counted = slot, *wanted = key;

    (void)arg;
    return counted->group == wanted->group && counted->context_id == wanted->context_id;
}

static const struct hash_kind by_group = {sizeof(struct counted), counted_hash, counted_is};

/* Counts one more communicator; false: no memory. */
static bool generation_count(uint64_t group, uint32_t context_id, uint32_t *number)
{
    const struct counted new = {.count = 1, .context_id = context_id, .group = group};
    struct counted *counted;
    int err = 0;

    pthread_mutex_lock(&generations.lock);
    counted = hash_find(&generations.table, &by_group, NULL, counted_hash(NULL, &new), &new);
    if (counted == NULL)
        err = hash_add(&generations.table, &by_group, NULL, &new);
    else
        counted->count = counted->count == NUMBERS ? 1 : counted->count + 1;
    *number = counted == NULL ? 1 : counted->count;
    pthread_mutex_unlock(&generations.lock);
    return err == 0;
}

/* ---- the generation ---- */

int pml_generation(const ompi_communicator_t *comm, uint32_t *generation)
{
    uint64_t group = members_hash(comm);
    uint32_t number;

    *generation = 0;
    if (comm == MPI_COMM_WORLD)
        generations.world = group;
    if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF)
        return OMPI_SUCCESS;
    if (!pml_series_number(comm, &number) &&
        !generation_count(group, pml_series_context_id(comm), &number))
        return OMPI_ERR_OUT_OF_RESOURCE;
    *generation = group == generations.world ? number & NUMBERS
                                             : OTHERS | (((uint32_t)group + number) & NUMBERS);
    return OMPI_SUCCESS;
}

void pml_generations_close(void)
{
    hash_fini(&generations.table);
}
