/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * procs.c - the mapping of Open MPI's processes to the library's peers.
 *
 * Each process publishes the address of its endpoint in the modex.  Another process looks it up when
 * it first sends to that process, or receives from it by rank, and keeps the peer number in
 * Open MPI's process: so processes that come later (spawn, connect) need no special treatment.
 * One thread at a time looks up (lookup.c): when several threads query the PMIx of Open MPI 5.0 at
 * once for the same process, not all of them get an answer.
 *
 * Open MPI does not report that a process of another job is gone.  So the communicators that use
 * the number of such a process are counted.  When there is none, and the library says that the
 * process has closed its endpoint, the peer is removed, and its number can be reused.
 *
 * Invariants
 *   I1  proc_endpoints[PML] of a process is 0, or its peer number + 1
 *   I2  guests[number].users communicators have a process of another job as this peer; the lock
 *       `meeting` is held when they change
 */
#include "pml/pml.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern PML_COMPONENT_TYPE mca_pml_matchbox_component;

static pthread_mutex_t meeting = PTHREAD_MUTEX_INITIALIZER;

/* By peer number, for other jobs only: processes of our own job do not end before us. */
struct guest {
    ompi_proc_t *proc; /* retained, so that Open MPI keeps it; or NULL */
    uint32_t users;    /* communicators that know the number */
};

static struct guest *guests;
static uint32_t guest_slots;
static _Atomic uint32_t guest_count; /* entries with a process */

int pml_procs_open(void)
{
    struct mbx_address address;

    mbx_address_get(pml.ep, &address);
    pml_lookup_share();
    return pml_series_publish(&mca_pml_matchbox_component.pmlm_version, &address,
                              sizeof address);
}

int pml_add_procs(ompi_proc_t **procs, size_t count)
{
    int err = mca_pml_base_pml_check_selected(PML_NAME, procs, count);

    return err == OMPI_SUCCESS ? pml_failures_add_procs(procs, count) : err;
}

/* The library keeps the peer: a message from it may be in flight. */
int pml_del_procs(ompi_proc_t **procs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        procs[i]->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML] = NULL;
    return OMPI_SUCCESS;
}

/* At its end Open MPI frees all processes, even retained ones. */
void pml_procs_close(void)
{
    free(guests);
    guests = NULL;
    guest_slots = 0;
    guest_count = 0;
}

/* ---- processes of other jobs ---- */

static int guests_grow(uint32_t peer)
{
    uint32_t slots = guest_slots == 0 ? 16 : guest_slots;
    struct guest *more;

    while (slots <= peer)
        slots *= 2;
    if (slots == guest_slots)
        return OMPI_SUCCESS;
    more = realloc(guests, slots * sizeof *more);
    if (more == NULL)
        return OMPI_ERR_OUT_OF_RESOURCE;
    memset(more + guest_slots, 0, (slots - guest_slots) * sizeof *more);
    guests = more;
    guest_slots = slots;
    return OMPI_SUCCESS;
}

static int guest_enter(ompi_proc_t *proc, uint32_t peer)
{
    int err = pml_series_job(proc) == 0 ? OMPI_SUCCESS : guests_grow(peer);

    if (err != OMPI_SUCCESS || pml_series_job(proc) == 0)
        return err;
    OBJ_RETAIN(proc);
    guests[peer] = (struct guest){.proc = proc};
    guest_count++;
    return OMPI_SUCCESS;
}

static struct guest *guest_of(uint32_t peer)
{
    return peer < guest_slots && guests[peer].proc != NULL ? &guests[peer] : NULL;
}

void pml_proc_leave(uint32_t peer)
{
    struct guest *guest;

    if (guest_count == 0)
        return;
    pthread_mutex_lock(&meeting);
    guest = guest_of(peer);
    if (guest != NULL)
        guest->users--;
    pthread_mutex_unlock(&meeting);
}

static void guests_remove(void)
{
    for (uint32_t peer = 0; peer < guest_slots; peer++) {
        struct guest *guest = guest_of(peer);

        if (guest == NULL || guest->users != 0 || mbx_peer_remove(pml.ep, peer) != 0)
            continue;
        guest->proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_PML] = NULL;
        OBJ_RELEASE(guest->proc);
        guest->proc = NULL;
        guest_count--;
    }
}

void pml_procs_remove(void)
{
    if (guest_count == 0)
        return;
    (void)mbx_progress(pml.ep); /* handles their last messages */
    pthread_mutex_lock(&meeting);
    guests_remove();
    pthread_mutex_unlock(&meeting);
}

/* ---- meeting ---- */

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
    err = guest_enter(proc, *peer);
    if (err != OMPI_SUCCESS)
        return err;
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

int pml_proc_use(ompi_proc_t *proc, uint32_t *peer)
{
    int err = OMPI_SUCCESS;

    pthread_mutex_lock(&meeting);
    if (!procs_know(proc, peer))
        err = procs_meet(proc, peer);
    if (err == OMPI_SUCCESS && guest_of(*peer) != NULL)
        guests[*peer].users++;
    pthread_mutex_unlock(&meeting);
    return err;
}
