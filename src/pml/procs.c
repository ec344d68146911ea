/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * procs.c - who a process of Open MPI is in the library.
 *
 * Each process publishes the address of its endpoint in the modex.  Another one looks it up when
 * it first sends to that process, or receives from it by rank, and keeps the peer number with
 * Open MPI's process: so processes that come later (spawn, connect) need nothing of their own.
 * One thread at a time looks up (lookup.c): when several ask PMIx at once for the same process, not
 * each of them gets an answer from that of Open MPI 5.0.
 *
 * Invariant
 *   I1  proc_endpoints[PML] of a process is 0, or its peer number + 1
 */
#include "pml/pml.h"

#include <pthread.h>

extern PML_COMPONENT_TYPE mca_pml_matchbox_component;

static pthread_mutex_t meeting = PTHREAD_MUTEX_INITIALIZER;

int pml_procs_open(void)
{
    struct mbx_address address;

    mbx_address_get(pml.ep, &address);
    return pml_series_publish(&mca_pml_matchbox_component.pmlm_version, &address,
                              sizeof address);
}

int pml_add_procs(ompi_proc_t **procs, size_t count)
{
    int err = mca_pml_base_pml_check_selected(PML_NAME, procs, count);

    return err == OMPI_SUCCESS ? pml_failures_add_procs(procs, count) : err;
}

/* The library keeps the peer: a message of it may be on its way. */
int pml_del_procs(ompi_proc_t **procs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        procs[i]->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML] = NULL;
    return OMPI_SUCCESS;
}

static int procs_meet(ompi_proc_t *proc, uint32_t *peer)
{
    struct mbx_address address;
    int err = pml_lookup(proc, &address);

    if (err != OMPI_SUCCESS) {
        opal_output(0, "matchbox: process %s has published no address of a Matchbox endpoint",
                    OPAL_NAME_PRINT(proc->super.proc_name));
        return err;
    }
    err = mbx_peer_add(pml.ep, &address, peer);
    if (err < 0) {
        opal_output(0, "matchbox: process %s cannot be reached: %s",
                    OPAL_NAME_PRINT(proc->super.proc_name), mbx_strerror(err));
        return pml_error(err);
    }
    (void)mbx_name_peer(pml.ep, *peer, pml_series_job(proc), proc->super.proc_name.vpid);
    proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML] = (void *)((uintptr_t)*peer + 1);
    return OMPI_SUCCESS;
}

static bool procs_know(const ompi_proc_t *proc, uint32_t *peer)
{
    uintptr_t known = (uintptr_t)proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML];

    if (known == 0)
        return false;
    *peer = (uint32_t)(known - 1);
    return true;
}

int pml_proc_peer(ompi_proc_t *proc, uint32_t *peer)
{
    int err = OMPI_SUCCESS;

    pthread_mutex_lock(&meeting);
    if (!procs_know(proc, peer))
        err = procs_meet(proc, peer);
    pthread_mutex_unlock(&meeting);
    return err;
}
