/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order.c - what the program's calls return is recorded (MBX_RECORD), or is what a record says (MBX_REPLAY).
 *
 *   MPI_Irecv from any source ──> order_irecv() ─┬─ recorded: an open event, which its completion fills in
 *                                                └─ replayed: an exact receive of the message that it got, or none at all
 *   MPI_Iprobe, MPI_Test, ... ──> order_test() ──┬─ recorded: what they return
 *                                                └─ replayed: "no" is returned once more; "yes" is waited for
 *
 * These functions take the places of others in the module's table and in ompi_request_functions when one of the two is set;
 * otherwise nothing of these files runs.
 *
 * A receive or test that Open MPI makes itself while a completion calls it back is no event, nor is a persistent receive that
 * has such a callback (one-sided calls): when they happen depends on time.  Exact receives are counted: one that was
 * cancelled in time is not posted in the replay, since its message could be faster there.
 *
 * Why the replay gets the same messages: docs/same-answer.md#how-it-works.
 */
#include "pml/order.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environ.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/source_line.h"

struct order pml_order = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct replay_user order_user = {
    .go_free = order_go_free,
    .end_job = order_end_job,
    .failed =
        "a process had failed at this point of the record; process failures are not replayed",
};

/* ---- which calls are events ---- */

struct replay_signature order_signature(struct order_lane *lane, enum replay_kind kind, int src,
                                        int tag, ompi_communicator_t *comm)
{
    struct pml_comm *own = pml_comm_of(comm);

    if (own->ordinal == 0)
        own->ordinal = ++lane->comms;
    return (struct replay_signature){.comm = own->ordinal,
                                     .source = src == OMPI_ANY_SOURCE ? REPLAY_ANY : src,
                                     .tag = tag == OMPI_ANY_TAG ? REPLAY_ANY : tag,
                                     .kind = (uint8_t)kind};
}

struct replay_signature order_signature_of_requests(enum replay_kind kind, size_t count)
{
    return (struct replay_signature){
        .kind = (uint8_t)kind,
        .requests = (uint8_t)(count < REPLAY_REQUESTS_MAX ? count : REPLAY_REQUESTS_MAX)};
}

struct replay_outcome order_outcome_of_status(const ompi_status_public_t *status, int err)
{
    if (err != OMPI_SUCCESS && err != MPI_ERR_TRUNCATE)
        return order_outcome(REPLAY_FAILED, 0);
    return replay_message(status->MPI_SOURCE, status->MPI_TAG, status->_ucount);
}

/* ---- replaying ---- */

void order_end_job(void)
{
    (void)MPI_Abort(MPI_COMM_WORLD, REPLAY_STATUS_DIVERGED);
    _exit(REPLAY_STATUS_DIVERGED); /* it returns if another thread ends the job already */
}

bool order_fits(const struct replay_outcome *outcome, int src, int tag,
                const ompi_communicator_t *comm)
{
    int source = replay_source(outcome), found = replay_tag(outcome);

    return source >= 0 && (uint32_t)source < pml_comm_of(comm)->size &&
           (src == OMPI_ANY_SOURCE || src == source) &&
           (tag == OMPI_ANY_TAG ? found >= 0 : found == tag);
}

/* ---- choices of the program ---- */

int order_choice(uint64_t site, uint64_t *value)
{
    struct order_lane *lane = order_lane(NULL);

    return lane != NULL ? replay_lane_choice(&lane->events, site, value) : MBX_CHOICE_FREE;
}

/* ---- opening ---- */

static bool find_param(const char *name, struct mbx_param *param)
{
    for (unsigned i = 0; mbx_param_get(i, param, sizeof *param) == 0; i++)
        if (strcmp(param->name, name) == 0)
            return true;
    return false;
}

/* Shall the program go on after a divergence? */
static bool is_to_go_on(void)
{
    struct mbx_param param;

    return find_param("MBX_REPLAY_ON_DIVERGENCE", &param) && strcmp(param.value, "go") == 0;
}

/* 0: nothing is shuffled. */
static uint64_t seed(void)
{
    struct mbx_param param;

    return find_param("MBX_SHUFFLE", &param) ? strtoull(param.value, NULL, 10) : 0;
}

/* Have processes of MPI spawned this one? */
static bool is_spawned(void)
{
    return environ_get("OMPI_PARENT_PORT") != NULL;
}

/* The launcher's number of the job that was spawned: 2 for the first one.  Open MPI 4.1 has it in the lower half of a number,
 * and 5.0 at the end of a name ("prterun-host-123@2"). */
static unsigned long spawned_number(void)
{
    const char *name = environ_get("PMIX_NAMESPACE");
    const char *at = name != NULL ? strrchr(name, '@') : NULL;

    return at != NULL ? strtoul(at + 1, NULL, 10)
                      : (name != NULL ? strtoul(name, NULL, 10) & 0xffff : 0);
}

/* As replay_folder(), since mbx_param_get() has no space for long ones; a job that was spawned, whose ranks have the same numbers, has a folder in it. */
static const char *folder_of(const char *name, char path[PATH_MAX])
{
    const char *folder = replay_folder(name);

    if (folder == NULL || !is_spawned())
        return folder;
    /* a path that is too long is refused when a file is opened there */
    (void)snprintf(path, PATH_MAX, "%s/" REPLAY_SPAWNED "%lu", folder, spawned_number());
    return path;
}

static void job_of(struct replay_job *job)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 8] = "";
    int length;

    MPI_Get_library_version(version, &length);
    *job = (struct replay_job){.rank = (uint32_t)ompi_proc_local()->super.proc_name.vpid,
                               .size = pml_series_ranks(),
                               .threads = pml.may_share};
    job->mpi = hash_bytes(version, sizeof version / 8 * 8);
    replay_identify(job);
}

bool pml_order_is_wanted(void)
{
    return replay_folder("MBX_RECORD") != NULL || replay_folder("MBX_REPLAY") != NULL ||
           seed() != 0;
}

void pml_order_open(mca_pml_base_module_t *module)
{
    bool is_shuffled = seed() != 0;

    if (!pml_order_is_wanted())
        return;
    order_recv_take(module);
    order_probe_take(module);
    /* mbx races knows one job */
    if (replay_folder("MBX_RECORD") != NULL && replay_folder("MBX_TRACE") != NULL &&
        !is_spawned())
        order_trace_take(module);
    if (is_shuffled)
        order_shuffle_take(module);
}

int pml_order_start(void)
{
    char record_path[PATH_MAX], replay_path[PATH_MAX];
    const char *record_to = folder_of("MBX_RECORD", record_path);
    const char *replay_from = folder_of("MBX_REPLAY", replay_path);
    struct replay_job job;

    if (record_to == NULL && replay_from == NULL && seed() == 0)
        return OMPI_SUCCESS;
    if (replay_from != NULL && seed() != 0) {
        LOG_ERROR("replay: MBX_REPLAY and MBX_SHUFFLE are both set; unset one of them");
        return OMPI_ERR_BAD_PARAM;
    }
    job_of(&job);
    job.sees_get_status = order_preload_take();
    order_user.goes_on = is_to_go_on();
    replay_line_of = source_line_in;
    if (order_lanes_open(record_to, replay_from, &job) != OMPI_SUCCESS)
        return OMPI_ERR_NOT_FOUND;
    order_requests_take();
    if (seed() != 0)
        order_shuffle_start(seed(), job.rank);
    pml_order.is_traced = pml_order.is_traced && pml_order.main.events.writer != NULL;
    if (pml_order.is_traced)
        order_trace_start();
    if (pml_order.main.events.writer != NULL && pml_order.main.events.judge == NULL &&
        !pml_order.is_traced && !pml.may_share)
        pml_order.tail = replay_write_tail(pml_order.main.events.writer);
    order_event_ends(&pml_order.main);
    return OMPI_SUCCESS;
}

void pml_order_close(void)
{
    bool has_diverged;

    order_preload_leave();
    pml_order.tail = NULL;
    has_diverged = !order_lanes_close();
    if (has_diverged && !order_user.goes_on) {
        fflush(NULL); /* what the program has written */
        _exit(REPLAY_STATUS_DIVERGED);
    }
}
