/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failures.c - for MPI that continues after failures of ranks (ULFM, Open MPI 5.0).
 *
 *   library: a peer has ended ──> found ──> MPI marks the process as failed, and tells the others
 *   launcher: a process has ended ────────^      │
 *                                                v
 *   MPI_Comm_revoke of any rank ──> pml_revoke_comm: waiting messages of the communicator are
 *                                   dropped
 *
 * MPI's own loops wait here: they check for each request whether it can still complete, and cancel
 * it with the error if it cannot.  A send completes when its receiver returns the message, or drops
 * it because it has also learned of the revocation, or when the library finds that the receiver has
 * ended.
 *
 * Agreements and notices of failures do not travel as messages: Open MPI gives them to its own
 * transports.
 *
 * Messages may still arrive for a communicator that has been revoked, so progress drops them every
 * LOOKS_BETWEEN calls.
 *
 * Invariant
 *   I1  a communicator is in the list of revoked ones if and only if its `revoked` is not
 *       PML_NOT_REVOKED
 */
#include "pml/pml.h"

#include <limits.h>
#include <pthread.h>

#include <ompi/errhandler/errhandler.h>

#define FOUND_MAX 64

/* Calls of progress between two searches for messages of revoked communicators. */
#define LOOKS_BETWEEN 64u

static struct {
    pthread_mutex_t lock; /* guards everything except looks */
    ompi_proc_t *found[FOUND_MAX];
    _Atomic unsigned count;
    struct pml_comm *_Atomic revoked;
    unsigned looks;
} failures = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- messages of revoked communicators ---- */

/* Drops the tags from first to last, as 32-bit numbers: in as few aligned blocks of a power of
 * two as possible. */
static void drop_range(const struct pml_comm *own, uint32_t first, uint32_t last)
{
    uint64_t at = first, size;

    for (; at <= last; at += size) {
        size = at == 0 ? UINT64_C(1) << 32 : at & -at;
        while (at + size - 1 > last)
            size /= 2;
        (void)mbx_drop(pml.ep, own->context_id, own->generation | at, size - 1);
    }
}

/* Drops all messages, except messages of MPI's recovery. */
static void drop_revoked(const struct pml_comm *own)
{
    bool is_all = own->revoked == PML_REVOKED;

    drop_range(own, (uint32_t)(is_all ? INT_MIN : MCA_COLL_BASE_TAG_END),
               (uint32_t)(MCA_COLL_BASE_TAG_FT_END - 1));
    drop_range(own, (uint32_t)(MCA_COLL_BASE_TAG_FT_BASE + 1),
               (uint32_t)(is_all ? -1 : MCA_COLL_BASE_TAG_BASE));
    if (is_all)
        drop_range(own, 0, INT_MAX);
}

static void revoke_own(struct pml_comm *own, bool is_collective_only)
{
    pthread_mutex_lock(&failures.lock);
    if (own->revoked == PML_NOT_REVOKED) {
        own->next_revoked = failures.revoked;
        failures.revoked = own;
    }
    if (own->revoked != PML_REVOKED)
        own->revoked = is_collective_only ? PML_COLLECTIVES_REVOKED : PML_REVOKED;
    drop_revoked(own);
    pthread_mutex_unlock(&failures.lock);
}

int pml_revoke_comm(ompi_communicator_t *comm, bool is_collective_only)
{
    if (OMPI_COMM_IS_INTER(comm))
        (void)pml_revoke_comm(comm->c_local_comm, is_collective_only);
    comm->coll_revoked = true;
    if (!is_collective_only)
        comm->comm_revoked = true;
    pml_enter();
    if (pml_comm_of(comm) != NULL)
        revoke_own(pml_comm_of(comm), is_collective_only);
    pml_leave();
    return OMPI_SUCCESS;
}

void pml_failures_forget(struct pml_comm *own)
{
    struct pml_comm *before;

    if (own->revoked == PML_NOT_REVOKED)
        return;
    pthread_mutex_lock(&failures.lock);
    before = failures.revoked;
    if (before == own) {
        failures.revoked = own->next_revoked;
    } else {
        while (before->next_revoked != own)
            before = before->next_revoked;
        before->next_revoked = own->next_revoked;
    }
    pthread_mutex_unlock(&failures.lock);
}

/* ---- failed processes ---- */

int pml_failures_found(ompi_proc_t *proc, int other)
{
    if (!pml_series_survives() || proc == NULL)
        return other;
    pthread_mutex_lock(&failures.lock);
    if (failures.count < FOUND_MAX) /* MPI learns of the others from its launcher */
        failures.found[failures.count++] = proc;
    pthread_mutex_unlock(&failures.lock);
    return MPI_ERR_PROC_FAILED;
}

static ompi_proc_t *found_take(void)
{
    ompi_proc_t *proc = NULL;

    pthread_mutex_lock(&failures.lock);
    if (failures.count > 0)
        proc = failures.found[--failures.count];
    pthread_mutex_unlock(&failures.lock);
    return proc;
}

static OUT_OF_LINE void found_report(void)
{
    ompi_proc_t *proc;

    while ((proc = found_take()) != NULL)
        (void)ompi_errhandler_proc_failed(proc);
}

static OUT_OF_LINE void revoked_look(void)
{
    pthread_mutex_lock(&failures.lock);
    for (const struct pml_comm *own = failures.revoked; own != NULL; own = own->next_revoked)
        drop_revoked(own);
    pthread_mutex_unlock(&failures.lock);
}

void pml_failures_progress(void)
{
    if (unlikely(failures.count > 0))
        found_report();
    if (unlikely(failures.revoked != NULL) && ++failures.looks % LOOKS_BETWEEN == 0)
        revoked_look();
}

/* ---- requests ---- */

void pml_failures_end(ompi_request_t *request)
{
    request->req_status.MPI_ERROR = MPI_ERR_PROC_FAILED;
    (void)ompi_request_cancel(request);
    while (!REQUEST_COMPLETE(request))
        pml_progress_outside();
}

int pml_failures_of(ompi_communicator_t *comm, int src, int tag)
{
    if (!pml_series_survives() || ompi_request_tag_is_ft(tag))
        return OMPI_SUCCESS;
    if (ompi_comm_is_revoked(comm))
        return MPI_ERR_REVOKED;
    if (ompi_comm_coll_revoked(comm) && ompi_request_tag_is_collective(tag))
        return MPI_ERR_PROC_FAILED;
    if (src == OMPI_ANY_SOURCE)
        return ompi_comm_is_any_source_enabled(comm) ? OMPI_SUCCESS : MPI_ERR_PROC_FAILED;
    return ompi_comm_is_proc_active(comm, src, OMPI_COMM_IS_INTER(comm)) ? OMPI_SUCCESS
                                                                         : MPI_ERR_PROC_FAILED;
}

/* ---- agreements ---- */

int pml_failures_add_procs(ompi_proc_t **procs, size_t count)
{
    opal_bitmap_t reachable;
    int err;

    if (!pml_series_survives() || count == 0)
        return OMPI_SUCCESS;
    OBJ_CONSTRUCT(&reachable, opal_bitmap_t);
    err = opal_bitmap_init(&reachable, (int)count);
    if (err == OMPI_SUCCESS)
        err = mca_bml.bml_add_procs(count, procs, &reachable);
    OBJ_DESTRUCT(&reachable);
    return err;
}
