/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.c - the component's data for a communicator.
 *
 * The context id of the communicator is used as the library's.  Open MPI agrees on it with all
 * members, of both groups if there are two; so in a communicator that is smaller than the job, a
 * receive from any source matches only messages of members.  Messages may arrive before this
 * process has made the communicator: they wait under that context id.
 *
 * When a communicator ends, messages that nobody has received are dropped, also later ones: the
 * context id is reused.  They cannot match in MPI's next communicator in any case, as it has
 * another generation (generation.c).
 *
 * The library also gets the name of the communicator, and the name of each peer (procs.c).
 *
 * Invariant
 *   I1  peers[rank] is the peer number of that rank of the (remote) group, or PML_NO_PEER
 */
#include "pml/pml.h"

#include <stdlib.h>
#include <string.h>

/* Reports the name for traces and statistics.  Open MPI does not report a change of the name;
 * so this is called when the communicator is made, when it is first used in another way, and
 * when it is freed. */
static OUT_OF_LINE void comm_name(const ompi_communicator_t *comm)
{
    const struct pml_comm *own = pml_comm_of(comm);

    (void)mbx_name_context(pml.ep, own->context_id, comm->c_name, own->size);
}

/* Communicators so far. */
static _Atomic uint64_t made;

/* Names a process of the other job, if there is one: mbx doctor must know that processes of other jobs may send here,
 * also while no message has passed. */
static void meet_others(ompi_communicator_t *comm)
{
    bool may_be = OMPI_COMM_IS_INTER(comm) && comm->c_remote_group->grp_proc_count > 0;
    ompi_proc_t *proc = may_be ? ompi_comm_peer_lookup(comm, 0) : NULL;
    uint32_t peer;

    if (proc != NULL && pml_series_job(proc) != 0)
        (void)pml_comm_peer(comm, 0, &peer);
}

int pml_add_comm(ompi_communicator_t *comm)
{
    size_t size = (size_t)comm->c_remote_group->grp_proc_count;
    struct pml_comm *own;
    uint32_t generation;
    int err = pml_generation(comm, &generation);

    if (err != OMPI_SUCCESS)
        return err;
    own = malloc(sizeof *own + size * sizeof own->peers[0]);
    if (own == NULL)
        return MPI_ERR_NO_MEM;
    own->context_id = pml_series_context_id(comm);
    own->generation = (uint64_t)generation << PML_GENERATION_SHIFT;
    err = mbx_context_open(pml.ep, own->context_id, own->generation, PML_TAG_BITS);
    if (err < 0) {
        free(own);
        return pml_error(err);
    }
    own->rank = (uint32_t)comm->c_my_rank;
    own->size = (uint32_t)size;
    own->revoked = PML_NOT_REVOKED;
    own->ordinal = 0;
    own->number = atomic_fetch_add(&made, 1) + 1;
    own->lane = NULL;
    own->requests = 0;
    memset((void *)own->peers, 0xff, size * sizeof own->peers[0]);
    comm->c_pml_comm = (struct mca_pml_comm_t *)own;
    comm_name(comm);
    meet_others(comm);
    pml_procs_remove();
    return OMPI_SUCCESS;
}

/* MPI has ended, but a request that the program has left open may complete until the endpoint is closed.  No rank of
 * its communicator is known any more. */
static struct pml_comm ended;

int pml_del_comm(ompi_communicator_t *comm)
{
    struct pml_comm *own = pml_comm_of(comm);

    if (own == NULL || own == &ended)
        return OMPI_SUCCESS;
    if (pml.ep != NULL) {
        comm_name(comm);
        if (OMPI_COMM_IS_INTRINSIC(comm)) /* MPI_Finalize */
            pml_progress_rest();
        if (!OMPI_COMM_IS_INTRINSIC(
                comm)) /* a predefined one ends with the endpoint, which reports leftovers */
            (void)mbx_context_close(pml.ep, own->context_id);
    }
    pml_failures_forget(own);
    for (uint32_t rank = 0; rank < own->size; rank++)
        if (pml_comm_known(own, rank) != PML_NO_PEER)
            pml_proc_leave(pml_comm_known(own, rank));
    comm->c_pml_comm = OMPI_COMM_IS_INTRINSIC(comm) ? (struct mca_pml_comm_t *)&ended : NULL;
    free(own);
    return OMPI_SUCCESS;
}

OUT_OF_LINE int pml_comm_find_peer(ompi_communicator_t *comm, int rank, uint32_t *peer)
{
    ompi_proc_t *proc = ompi_comm_peer_lookup(comm, rank);
    int err = proc == NULL ? OMPI_ERR_NOT_FOUND : pml_proc_use(proc, peer);

    comm_name(comm);
    if (err != OMPI_SUCCESS)
        return err;
    /* another thread may have looked the peer up at the same time */
    if (atomic_exchange_explicit(&pml_comm_of(comm)->peers[rank], *peer,
                                 memory_order_relaxed) != PML_NO_PEER)
        pml_proc_leave(*peer);
    return OMPI_SUCCESS;
}

/* Checks the rank that the sender claims against its peer number. */
int pml_comm_rank(ompi_communicator_t *comm, const struct mbx_status *status)
{
    uint32_t peer;

    if (unlikely(status->data >= pml_comm_of(comm)->size) ||
        unlikely(pml_comm_peer(comm, (int)status->data, &peer) != OMPI_SUCCESS) ||
        unlikely(peer != status->source))
        return MPI_UNDEFINED;
    return (int)status->data;
}
