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

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environ.h"
#include "base/hash.h"
#include "base/log.h"

/* The exit status of a job that diverged. */
#define STATUS_DIVERGED 87

struct order pml_order = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- which calls are events ---- */

OUT_OF_LINE bool order_is_of_thread(void)
{
    bool is_first;

    pthread_mutex_lock(&pml_order.lock);
    if (!pml_order.has_thread)
        pml_order.thread = pthread_self();
    pml_order.has_thread = true;
    is_first = pthread_equal(pml_order.thread, pthread_self());
    if (!is_first && pml_order.writer != NULL)
        replay_write_flag(pml_order.writer, REPLAY_THREADS);
    pthread_mutex_unlock(&pml_order.lock);
    return is_first;
}

struct replay_signature order_signature(enum replay_kind kind, int src, int tag,
                                        ompi_communicator_t *comm)
{
    struct pml_comm *own = pml_comm_of(comm);

    if (own->ordinal == 0)
        own->ordinal = ++pml_order.comms;
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
    if (unlikely(pml.has_threads))
        pthread_mutex_lock(&pml_order.lock);
}

static inline void record_unlock(void)
{
    if (unlikely(pml.has_threads))
        pthread_mutex_unlock(&pml_order.lock);
}

/* Adds the place where the program has called.  An index has none: its call has one.  Only one thread makes events, and it
 * does not hold the lock here: this may take the loader's lock, whose holder may run a constructor that calls MPI. */
static struct replay_signature signature_placed(const struct replay_signature *signature)
{
    struct replay_signature placed = *signature;

    placed.place = signature->kind == REPLAY_INDEX ? 0 : replay_write_place(pml_order.writer);
    return placed;
}

void order_record(const struct replay_signature *signature, struct replay_outcome outcome)
{
    struct replay_signature placed;

    if (pml_order.writer == NULL)
        return;
    if (outcome.result == REPLAY_FALSE) {
        bool is_again;

        record_lock();
        is_again = replay_write_again(pml_order.writer, signature);
        record_unlock();
        if (is_again)
            return;
    }
    placed = signature_placed(signature);
    record_lock();
    replay_write_event(pml_order.writer, &placed, &outcome);
    record_unlock();
}

uint64_t order_record_post(const struct replay_signature *signature)
{
    struct replay_signature placed;
    uint64_t number;

    if (pml_order.writer == NULL)
        return 0;
    placed = signature_placed(signature);
    record_lock();
    number = replay_write_post(pml_order.writer, &placed);
    record_unlock();
    return number;
}

void order_record_fill(uint64_t number, struct replay_outcome outcome)
{
    if (pml_order.writer == NULL)
        return;
    record_lock();
    replay_write_fill(pml_order.writer, number, &outcome);
    record_unlock();
}

void order_record_cancelled(uint64_t receive)
{
    if (pml_order.writer == NULL)
        return;
    record_lock();
    replay_write_cancelled(pml_order.writer, receive);
    record_unlock();
}

/* ---- replaying ---- */

static void diverge(const struct replay_signature *now, const ompi_communicator_t *comm)
{
    replay_judge_say(pml_order.judge, now, comm != NULL ? comm->c_name : NULL,
                     pml_order.goes_on);
    if (!pml_order.goes_on) {
        (void)MPI_Abort(MPI_COMM_WORLD, STATUS_DIVERGED);
        _exit(STATUS_DIVERGED); /* it returns if another thread ends the job already */
    }
    order_go_free();
}

bool order_is_replayed(const struct replay_signature *now, const ompi_communicator_t *comm,
                       struct replay_outcome *outcome)
{
    if (pml_order.judge == NULL || pml_order.is_free)
        return false;
    switch (replay_judge(pml_order.judge, now, outcome)) {
    case REPLAY_AGREES:
        return true;
    case REPLAY_OVER:
        order_go_free();
        return false;
    case REPLAY_DIFFERS:
        diverge(now, comm);
        return false;
    }
    return false;
}

void order_refuse(const struct replay_signature *now, const ompi_communicator_t *comm,
                  const char *why)
{
    replay_judge_refuse(pml_order.judge, why);
    diverge(now, comm);
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

/* 0: nothing is shuffled, as in a process that others have spawned. */
static uint64_t seed(void)
{
    struct mbx_param param;

    return environ_get("OMPI_PARENT_PORT") == NULL && find_param("MBX_SHUFFLE", &param)
               ? strtoull(param.value, NULL, 10)
               : 0;
}

/* A folder, or NULL: also for a process that others have spawned, as its job has ranks of the same numbers.
 * mbx_param_get() has no space for long ones. */
static const char *folder_of(const char *name)
{
    const char *folder = environ_get("OMPI_PARENT_PORT") == NULL ? environ_get(name) : NULL;

    return folder != NULL && folder[0] != '\0' ? folder : NULL;
}

static void job_of(struct replay_job *job)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 8] = "";
    int length;

    MPI_Get_library_version(version, &length);
    *job = (struct replay_job){.rank = (uint32_t)ompi_proc_local()->super.proc_name.vpid,
                               .size = pml_series_ranks(),
                               .threads = pml.has_threads};
    job->mpi = hash_bytes(version, sizeof version / 8 * 8);
    replay_identify(job);
}

void pml_order_open(mca_pml_base_module_t *module)
{
    bool is_shuffled = seed() != 0;

    if (folder_of("MBX_RECORD") == NULL && folder_of("MBX_REPLAY") == NULL && !is_shuffled)
        return;
    order_recv_take(module);
    order_probe_take(module);
    if (folder_of("MBX_RECORD") != NULL && folder_of("MBX_TRACE") != NULL)
        order_trace_take(module);
    if (is_shuffled)
        order_shuffle_take(module);
}

int pml_order_start(void)
{
    const char *record_to = folder_of("MBX_RECORD"), *replay_from = folder_of("MBX_REPLAY");
    struct replay_job job;

    if (record_to == NULL && replay_from == NULL && seed() == 0)
        return OMPI_SUCCESS;
    if (replay_from != NULL && seed() != 0) {
        LOG_ERROR("replay: MBX_REPLAY and MBX_SHUFFLE are both set; unset one of them");
        return OMPI_ERR_BAD_PARAM;
    }
    job_of(&job);
    pml_order.goes_on = is_to_go_on();
    if (replay_from != NULL && replay_judge_open(replay_from, &job, &pml_order.judge) < 0)
        return OMPI_ERR_NOT_FOUND;
    if (record_to != NULL)
        (void)replay_write_open(record_to, &job,
                                &pml_order.writer); /* the job goes on without */
    order_requests_take();
    if (seed() != 0)
        order_shuffle_start(seed(), job.rank);
    pml_order.is_traced = pml_order.is_traced && pml_order.writer != NULL;
    if (pml_order.is_traced)
        order_trace_start();
    order_event_ends();
    return OMPI_SUCCESS;
}

void pml_order_close(void)
{
    bool has_diverged = pml_order.judge != NULL && !pml_order.is_free &&
                        !replay_judge_ends(pml_order.judge, pml_order.held, pml_order.goes_on);

    replay_write_close(pml_order.writer);
    replay_judge_close(pml_order.judge);
    pml_order.writer = NULL;
    pml_order.judge = NULL;
    pml_order.is_free = true;
    order_recv_close();
    if (has_diverged && !pml_order.goes_on) {
        fflush(NULL); /* what the program has written */
        _exit(STATUS_DIVERGED);
    }
}
