/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deaths.c - ends receives from any source after the death of a rank, where MPI does not continue
 * after failures (without ULFM).
 *
 *   library: a peer has died, and a receive from any source waits ──> is a rank of its communicator
 *   dead? ──> the receive is cancelled ──> it completes with MPI_ERR_OTHER
 *
 * The awaited rank may be the dead one, and the component cannot tell.  So the program gets the
 * error, and decides whether to receive again.  No message is lost: one that arrives meanwhile waits
 * for the next receive.  Receives that are posted after the report end only at the next death.
 *
 * Receives of Open MPI's own parts (one-sided calls) are left alone: they have a callback, which
 * takes every completion for a message.  The callback of order.c does not.
 *
 * A blocking probe from any source remembers, when it begins, how many deaths have been reported,
 * and checks only later deaths.
 *
 * The check runs where it costs nothing: after many empty polls, and when a send or a receive has
 * shown that a rank has ended.
 */
#include "pml/pml.h"

#include <pthread.h>
#include <stdlib.h>

#define ENTRIES  16
#define DEAD_MAX 64

/* Receives that were cancelled here and have not completed. */
struct ended {
    const pml_recv_t *recv;
    mbx_request handle;
};

static struct {
    pthread_mutex_t lock; /* not held while other files are called */
    struct ended *ended;
    size_t count, slots;
} deaths = {.lock = PTHREAD_MUTEX_INITIALIZER};

_Atomic bool pml_deaths_are_due;

/* The number of deaths that receives have reported. */
static _Atomic int deaths_reported;

/* ---- whom they concern ---- */

/* A dead rank of this communicator, or MPI_UNDEFINED. */
static int deaths_rank(ompi_communicator_t *comm, const uint32_t *dead, int count)
{
    const struct pml_comm *own = pml_comm_of(comm);
    uint32_t peer;

    for (int rank = 0; (uint32_t)rank < own->size; rank++) {
        if (pml_comm_peer(comm, rank, &peer) != OMPI_SUCCESS)
            continue;
        for (int i = 0; i < count; i++)
            if (dead[i] == peer)
                return rank;
    }
    return MPI_UNDEFINED;
}

/* ---- receives that a death has ended ---- */

static bool ended_is_over(const struct ended *ended)
{
    return ended->recv->own.handle != ended->handle ||
           REQUEST_COMPLETE(&ended->recv->super.req_base.req_ompi);
}

/* Removes the receives that a message matched before the cancel. */
static void ended_sweep(void)
{
    size_t kept = 0;

    for (size_t i = 0; i < deaths.count; i++)
        if (!ended_is_over(&deaths.ended[i]))
            deaths.ended[kept++] = deaths.ended[i];
    deaths.count = kept;
}

static bool ended_add_locked(const pml_recv_t *recv, mbx_request handle)
{
    if (deaths.count == deaths.slots)
        ended_sweep();
    if (deaths.count == deaths.slots) {
        size_t slots = deaths.slots == 0 ? ENTRIES : 2 * deaths.slots;
        struct ended *more = realloc(deaths.ended, slots * sizeof *more);

        if (more == NULL)
            return false; /* the receive waits on, as if nobody had died */
        deaths.ended = more;
        deaths.slots = slots;
    }
    deaths.ended[deaths.count++] = (struct ended){.recv = recv, .handle = handle};
    return true;
}

static bool ended_add(const pml_recv_t *recv, mbx_request handle)
{
    bool is_added;

    pthread_mutex_lock(&deaths.lock);
    is_added = ended_add_locked(recv, handle);
    pthread_mutex_unlock(&deaths.lock);
    return is_added;
}

/* True if it was in the list. */
static bool ended_remove(const pml_recv_t *recv, mbx_request handle)
{
    bool is_found = false;

    pthread_mutex_lock(&deaths.lock);
    for (size_t i = 0; i < deaths.count && !is_found; i++) {
        if (deaths.ended[i].recv != recv || deaths.ended[i].handle != handle)
            continue;
        deaths.ended[i] = deaths.ended[--deaths.count];
        is_found = true;
    }
    pthread_mutex_unlock(&deaths.lock);
    return is_found;
}

bool pml_deaths_ended(const pml_recv_t *recv)
{
    return ended_remove(recv, recv->own.handle);
}

/* ---- looking ---- */

/* Ends this receive if a rank of its communicator is dead.  The look-up of a peer number may
 * make progress, and the receive may complete in it: its handle then differs from the entry's,
 * or is stale. */
static bool deaths_end_on(ompi_communicator_t *comm, const struct mbx_completion *entry,
                          const uint32_t *dead, int count, bool is_reported)
{
    pml_recv_t *recv = entry->user;
    int rank = deaths_rank(comm, dead, count);

    if (rank == MPI_UNDEFINED || !ended_add(recv, entry->request))
        return false;
    if (mbx_cancel(pml.ep, entry->request) != 0) {
        (void)ended_remove(recv, entry->request); /* a message has matched it */
        return false;
    }
    if (!is_reported)
        pml_error_report_any(comm, rank);
    return true;
}

/* Returns 1 or 0.  A request that MPI has freed may disappear with its last completion, and its
 * communicator with it: so the communicator is retained before any progress. */
static int deaths_end(const struct mbx_completion *entry, const uint32_t *dead, int count,
                      bool is_reported)
{
    pml_recv_t *recv = entry->user;
    const mca_pml_base_request_t *base = &recv->super.req_base;
    ompi_communicator_t *comm;
    bool is_ended;

    if (recv->own.handle != entry->request ||
        (base->req_ompi.req_complete_cb != NULL && recv->own.event == 0))
        return 0;
    comm = base->req_comm;
    OBJ_RETAIN(comm);
    is_ended = deaths_end_on(comm, entry, dead, count, is_reported);
    OBJ_RELEASE(comm);
    return is_ended;
}

OUT_OF_LINE void pml_deaths_check(void)
{
    struct mbx_completion entries[ENTRIES];
    uint32_t dead[DEAD_MAX + 1]; /* the dead peers, then the peer of the present entry */
    int reported = atomic_load(&deaths_reported), known, count, ends = 0;

    atomic_store(&pml_deaths_are_due, false);
    if (pml_series_survives())
        return;
    known = mbx_failed(pml.ep, dead, DEAD_MAX);
    if (known == 0)
        return;
    known = known < DEAD_MAX ? known : DEAD_MAX;
    reported = reported < known ? reported : known;
    while ((count = mbx_poll(pml.ep, MBX_FAILURES, entries, ENTRIES)) > 0)
        for (int i = 0; i < count; i++) {
            dead[known] = entries[i].status.source;
            /* no receive that still waits is affected by deaths reported before */
            ends += deaths_end(&entries[i], dead + reported, known + 1 - reported, ends != 0);
        }
    atomic_store(&deaths_reported, mbx_failed_ack(pml.ep));
}

/* ---- probes ---- */

int pml_deaths_known(void)
{
    return atomic_load(&deaths_reported);
}

static OUT_OF_LINE int deaths_end_probe(ompi_communicator_t *comm, int known, int count)
{
    uint32_t *dead = malloc((size_t)count * sizeof *dead);
    int rank = MPI_UNDEFINED;

    if (dead == NULL)
        return OMPI_SUCCESS; /* the probe tries again */
    if (mbx_failed(pml.ep, dead, count) >= count)
        rank = deaths_rank(comm, dead + known, count - known);
    free(dead);
    if (rank == MPI_UNDEFINED)
        return OMPI_SUCCESS;
    pml_error_report_any(comm, rank);
    pml_deaths_check();
    return MPI_ERR_OTHER;
}

int pml_deaths_since(ompi_communicator_t *comm, int known)
{
    int count = mbx_failed(pml.ep, NULL, 0);

    return likely(count <= known) || pml_series_survives()
               ? OMPI_SUCCESS
               : deaths_end_probe(comm, known, count);
}
