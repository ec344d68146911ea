/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.c - MPI's probes: looking at a message, and taking it out for one receive.
 *
 * A probe of a rank that has died fails if no message from that rank is waiting.  A blocking probe
 * from any source fails, as a receive from any source does, if a rank of its communicator has died
 * since the probe began (deaths.c).  MPI_Iprobe, which does not know when it began, does not fail.
 */
#include "pml/pml.h"

#include <errno.h>

static void probe_report(ompi_communicator_t *comm, const struct mbx_status *found,
                         ompi_status_public_t *status)
{
    if (status != MPI_STATUS_IGNORE)
        pml_status_fill(status, pml_comm_rank(comm, found), found->tag, found->size);
}

/* Called when the library's probe has found nothing: MPI's or Open MPI's error, or
 * OMPI_SUCCESS. */
static int probe_in_vain(ompi_communicator_t *comm, int src, int tag, int rc)
{
    if (rc == -ENOTCONN)
        return pml_error_of_rank(comm, src, rc);
    if (rc < 0 && rc != -EHOSTDOWN)
        return pml_error_of_call(comm, src, pml_error(rc));
    return pml_failures_of(comm, src, tag);
}

/* Wraps a message of the library in one of Open MPI's. */
static int probe_wrap(ompi_communicator_t *comm, const struct mbx_status *found,
                      mbx_message handle, ompi_message_t **message)
{
    ompi_message_t *wrap = ompi_message_alloc();

    if (wrap == NULL) {
        mbx_discard(pml.ep, handle);
        return MPI_ERR_NO_MEM;
    }
    wrap->comm = comm;
    wrap->req_ptr = (void *)(uintptr_t)handle;
    wrap->peer = pml_comm_rank(comm, found);
    wrap->count = found->size;
    *message = wrap;
    return OMPI_SUCCESS;
}

/* Probes once, and calls progress if it finds nothing.  message: takes the message out; or NULL. */
static int probe_once(int src, int tag, ompi_communicator_t *comm, int *matched,
                      ompi_message_t **message, ompi_status_public_t *status,
                      void (*progress)(void))
{
    struct mbx_status found;
    struct pml_wanted w;
    mbx_message handle;
    int rc = pml_comm_wanted(comm, src, tag, &w);

    if (rc != OMPI_SUCCESS)
        return rc;
    rc = message == NULL
             ? mbx_probe(pml.ep, w.source, w.context_id, w.tag, w.ignore, &found)
             : mbx_mprobe(pml.ep, w.source, w.context_id, w.tag, w.ignore, &found, &handle);
    *matched = rc == 1;
    if (rc != 1) {
        progress();
        return probe_in_vain(comm, src, tag, rc);
    }
    probe_report(comm, &found, status);
    return message == NULL ? OMPI_SUCCESS : probe_wrap(comm, &found, handle, message);
}

int pml_improbe(int src, int tag, ompi_communicator_t *comm, int *matched,
                ompi_message_t **message, ompi_status_public_t *status)
{
    return probe_once(src, tag, comm, matched, message, status, pml_progress_test);
}

int pml_iprobe(int src, int tag, ompi_communicator_t *comm, int *matched,
               ompi_status_public_t *status)
{
    return pml_improbe(src, tag, comm, matched, NULL, status);
}

int pml_mprobe(int src, int tag, ompi_communicator_t *comm, ompi_message_t **message,
               ompi_status_public_t *status)
{
    int known = pml_deaths_known(), matched = 0, err;

    do {
        err = probe_once(src, tag, comm, &matched, message, status, pml_progress_outside);
        if (err == OMPI_SUCCESS && !matched && src == OMPI_ANY_SOURCE)
            err = pml_deaths_since(comm, known);
    } while (err == OMPI_SUCCESS && !matched);
    return err;
}

int pml_probe(int src, int tag, ompi_communicator_t *comm, ompi_status_public_t *status)
{
    return pml_mprobe(src, tag, comm, NULL, status);
}
