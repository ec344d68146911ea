/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * preload.c - libmatchbox-preload.so: calls that a record needs and that the component cannot see otherwise.
 *
 *   program ── MPI_Request_get_status() ──> here ── recorded or replayed ──> order_requests.c ──> Open MPI's
 *                                              └── otherwise ──────────────────────────────────> Open MPI's
 *   program ── mbx_choice() ──────────────> here ── recorded or replayed ──> order.c
 *
 * `mbx exec --record` and the like set LD_PRELOAD, so the program finds these functions before the ones with the same names in
 * libmpi and libmatchbox.  No table of Open MPI has MPI_Request_get_status().  Its Fortran form calls PMPI_Request_get_status().
 * Every process of the command loads this library, so it needs nothing but the C library.
 */
#include "pml/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <matchbox/matchbox.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN struct pml_preload mbx_preload;

/* Without the component. */
static int get_status_of_mpi(MPI_Request request, int *flag, MPI_Status *status)
{
    void *found = dlsym(RTLD_NEXT, "PMPI_Request_get_status");
    pml_get_status_fn *usual;

    if (found == NULL)
        return MPI_ERR_INTERN; /* there is no MPI, or only in a library that others cannot see */
    memcpy(&usual, &found, sizeof usual);
    return usual(request, flag, status);
}

SHOWN int PMPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    pml_get_status_fn *seen = atomic_load(&mbx_preload.get_status);

    return seen != NULL ? seen(request, flag, status)
                        : get_status_of_mpi(request, flag, status);
}

SHOWN int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
    __attribute__((alias("PMPI_Request_get_status")));

SHOWN int mbx_choice(uint64_t site, uint64_t *value)
{
    pml_choice_fn *seen = atomic_load(&mbx_preload.choice);

    if (value == NULL)
        return -EINVAL;
    return seen != NULL ? seen(site, value) : 0;
}
