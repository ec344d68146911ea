/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errors.c - conversion of the library's errors to MPI's.
 *
 *   -EMSGSIZE                MPI_ERR_TRUNCATE
 *   -ENOTCONN -EHOSTUNREACH  the rank has ended: MPI_ERR_OTHER, and one line that names it; where
 *                            MPI continues after failures (ULFM), MPI_ERR_PROC_FAILED
 *   -ENOMEM                  MPI_ERR_NO_MEM; the library has reported what it lacks memory for
 *   any other                MPI_ERR_OTHER, and one line
 */
#include "pml/pml.h"

#include <errno.h>

int pml_error(int error)
{
    switch (error) {
    case -ENOMEM:
        return OMPI_ERR_OUT_OF_RESOURCE;
    case -ENOTCONN:
    case -EHOSTUNREACH:
        return OMPI_ERR_UNREACH;
    default:
        return OMPI_ERROR;
    }
}

int pml_error_of_call(ompi_communicator_t *comm, int rank, int error)
{
    if (error == OMPI_ERR_OUT_OF_RESOURCE)
        return MPI_ERR_NO_MEM; /* Open MPI would turn it into MPI_ERR_INTERN */
    if (error != OMPI_ERR_UNREACH || rank < 0)
        return error;
    pml_deaths_check();
    error = pml_failures_found(ompi_comm_peer_lookup(comm, rank), error);
    pml_failures_progress();
    return error;
}

static bool error_is_end(int error)
{
    return error == -ENOTCONN || error == -EHOSTUNREACH;
}

/* "rank 3 of MPI_COMM_WORLD (process [[1,1],3] on host) has ended: ..." */
static void error_report(const ompi_communicator_t *comm, int rank, const ompi_proc_t *proc,
                         int error)
{
    const char *host = proc != NULL ? pml_series_host(proc) : NULL;

    opal_output(0, "matchbox: rank %d of %s (process %s on %s)%s: %s", rank,
                comm->c_name[0] != '\0' ? comm->c_name : "a communicator",
                proc != NULL ? OPAL_NAME_PRINT(proc->super.proc_name) : "unknown",
                host != NULL ? host : "this host", error_is_end(error) ? " has ended" : "",
                mbx_strerror(error));
}

void pml_error_report_any(ompi_communicator_t *comm, int rank)
{
    const ompi_proc_t *proc = ompi_comm_peer_lookup(comm, rank);
    const char *host = pml_series_host(proc);

    opal_output(0,
                "matchbox: rank %d of %s (process %s on %s) has ended: receives and blocking "
                "probes from any source there end with MPI_ERR_OTHER",
                rank, comm->c_name[0] != '\0' ? comm->c_name : "a communicator",
                OPAL_NAME_PRINT(proc->super.proc_name), host != NULL ? host : "this host");
}

int pml_error_of_rank(ompi_communicator_t *comm, int rank, int error)
{
    switch (error) {
    case 0:
        return OMPI_SUCCESS;
    case -EMSGSIZE:
        return MPI_ERR_TRUNCATE;
    case -ENOMEM:
        return MPI_ERR_NO_MEM;
    default:
        if (error_is_end(
                error)) /* the program gets the error, so receives from any source end too */
            atomic_store(&pml_deaths_are_due, true);
        error_report(comm, rank, rank >= 0 ? ompi_comm_peer_lookup(comm, rank) : NULL, error);
        return error_is_end(error) && rank >= 0
                   ? pml_failures_found(ompi_comm_peer_lookup(comm, rank), MPI_ERR_OTHER)
                   : MPI_ERR_OTHER;
    }
}
