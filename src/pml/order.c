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

/* The exit status of a job that diverged. */
#define STATUS_DIVERGED 87

struct order pml_order = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

/* ---- recording ---- */

static inline void record_lock(void)
{
    if (unlikely(pml.may_share))
        pthread_mutex_lock(&pml_order.lock);
}

static inline void record_unlock(void)
{
    if (unlikely(pml.may_share))
        pthread_mutex_unlock(&pml_order.lock);
}

/* Adds the place where the program has called.  An index has none: its call has one.  Only one thread makes the events of a
 * lane, and it does not hold the lock here: this may take the loader's lock, whose holder may run a constructor that calls
 * MPI. */
static struct replay_signature signature_placed(struct order_lane *lane,
                                                const struct replay_signature *signature)
{
    struct replay_signature placed = *signature;

    placed.place = signature->kind == REPLAY_INDEX ? 0 : replay_write_place(lane->writer);
    return placed;
}

void order_record(struct order_lane *lane, const struct replay_signature *signature,
                  struct replay_outcome outcome)
{
    struct replay_signature placed;

    if (lane->writer == NULL)
        return;
    if (outcome.result == REPLAY_FALSE) {
        bool is_again;

        record_lock();
        is_again = replay_write_again(lane->writer, signature);
        record_unlock();
        if (is_again)
            return;
    }
    placed = signature_placed(lane, signature);
    record_lock();
    replay_write_event(lane->writer, &placed, &outcome);
    record_unlock();
}

uint64_t order_record_post(struct order_lane *lane, const struct replay_signature *signature)
{
    struct replay_signature placed;
    uint64_t number;

    if (lane->writer == NULL)
        return 0;
    placed = signature_placed(lane, signature);
    record_lock();
    number = replay_write_post(lane->writer, &placed);
    record_unlock();
    return number;
}

void order_record_fill(struct order_lane *lane, uint64_t number, struct replay_outcome outcome)
{
    if (lane->writer == NULL)
        return;
    record_lock();
    replay_write_fill(lane->writer, number, &outcome);
    record_unlock();
}

void order_record_cancelled(struct order_lane *lane, uint64_t receive)
{
    if (lane->writer == NULL)
        return;
    record_lock();
    replay_write_cancelled(lane->writer, receive);
    record_unlock();
}

/* ---- replaying ---- */

void order_end_job(void)
{
    (void)MPI_Abort(MPI_COMM_WORLD, STATUS_DIVERGED);
    _exit(STATUS_DIVERGED); /* it returns if another thread ends the job already */
}

static void diverge(struct order_lane *lane, const struct replay_signature *now,
                    const ompi_communicator_t *comm)
{
    replay_judge_say(lane->judge, now, comm != NULL ? comm->c_name : NULL, pml_order.goes_on);
    if (!pml_order.goes_on)
        order_end_job();
    order_go_free(lane);
}

bool order_is_replayed(struct order_lane *lane, const struct replay_signature *now,
                       const ompi_communicator_t *comm, struct replay_outcome *outcome)
{
    if (lane->judge == NULL || lane->is_free)
        return false;
    switch (replay_judge(lane->judge, now, outcome)) {
    case REPLAY_AGREES:
        return true;
    case REPLAY_OVER:
        order_go_free(lane);
        return false;
    case REPLAY_DIFFERS:
        diverge(lane, now, comm);
        return false;
    }
    return false;
}

void order_refuse(struct order_lane *lane, const struct replay_signature *now,
                  const ompi_communicator_t *comm, const char *why)
{
    replay_judge_refuse(lane->judge, why);
    diverge(lane, now, comm);
}

bool order_fits(const struct replay_outcome *outcome, int src, int tag,
                const ompi_communicator_t *comm)
{
    int source = replay_source(outcome), found = replay_tag(outcome);

    return source >= 0 && (uint32_t)source < pml_comm_of(comm)->size &&
           (src == OMPI_ANY_SOURCE || src == source) &&
           (tag == OMPI_ANY_TAG ? found >= 0 : found == tag);
}

const char *order_why_not(const struct replay_outcome *outcome)
{
    return outcome->result == REPLAY_FAILED
               ? "a process had failed at this point of the record; process failures are not "
                 "replayed"
               : "the recorded outcome does not fit this call";
}

/* ---- choices of the program ---- */

int order_choice(uint64_t site, uint64_t *value)
{
    struct replay_signature now = {
        .source = (int32_t)(site >> 32), .tag = (int32_t)site, .kind = REPLAY_CHOICE};
    struct order_lane *lane = order_lane(NULL);
    struct replay_outcome outcome;
    bool is_replayed;

    if (lane == NULL)
        return MBX_CHOICE_FREE;
    is_replayed = order_is_replayed(lane, &now, NULL, &outcome);
    if (is_replayed && outcome.result != REPLAY_VALUE) {
        order_refuse(lane, &now, NULL, order_why_not(&outcome));
        is_replayed = false;
    }
    if (is_replayed)
        *value = outcome.value;
    order_record(lane, &now, order_outcome(REPLAY_VALUE, *value));
    order_event_ends(lane);
    if (is_replayed)
        return MBX_CHOICE_REPLAYED;
    return lane->writer != NULL ? MBX_CHOICE_RECORDED : MBX_CHOICE_FREE;
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

/* A folder, or NULL.  mbx_param_get() has no space for long ones. */
static const char *folder_set(const char *name)
{
    const char *folder = environ_get(name);

    return folder != NULL && folder[0] != '\0' ? folder : NULL;
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

/* As folder_set(); a job that was spawned, whose ranks have the same numbers, has a folder in it. */
static const char *folder_of(const char *name, char path[PATH_MAX])
{
    const char *folder = folder_set(name);

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
    return folder_set("MBX_RECORD") != NULL || folder_set("MBX_REPLAY") != NULL || seed() != 0;
}

void pml_order_open(mca_pml_base_module_t *module)
{
    bool is_shuffled = seed() != 0;

    if (!pml_order_is_wanted())
        return;
    order_recv_take(module);
    order_probe_take(module);
    /* mbx races knows one job */
    if (folder_set("MBX_RECORD") != NULL && folder_set("MBX_TRACE") != NULL && !is_spawned())
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
    pml_order.goes_on = is_to_go_on();
    replay_line_of = source_line_in;
    if (order_lanes_open(record_to, replay_from, &job) != OMPI_SUCCESS)
        return OMPI_ERR_NOT_FOUND;
    order_requests_take();
    if (seed() != 0)
        order_shuffle_start(seed(), job.rank);
    pml_order.is_traced = pml_order.is_traced && pml_order.main.writer != NULL;
    if (pml_order.is_traced)
        order_trace_start();
    if (pml_order.main.writer != NULL && pml_order.main.judge == NULL && !pml_order.is_traced &&
        !pml.may_share)
        pml_order.tail = replay_write_tail(pml_order.main.writer);
    order_event_ends(&pml_order.main);
    return OMPI_SUCCESS;
}

void pml_order_close(void)
{
    bool has_diverged;

    order_preload_leave();
    pml_order.tail = NULL;
    has_diverged = !order_lanes_close();
    if (has_diverged && !pml_order.goes_on) {
        fflush(NULL); /* what the program has written */
        _exit(STATUS_DIVERGED);
    }
}
