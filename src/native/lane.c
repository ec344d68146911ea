/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.c - the events of an endpoint.
 *
 *   first endpoint that was connected ──> DIR/rank-R.mbxrec
 *   number N, from 2 on ────────────────> DIR/ep-N/rank-R.mbxrec
 *
 * Invariants
 *   I1  lanes are never freed; one whose ep is NULL is closed
 *   I2  a lane is used by its thread alone, except for ep and the flag of a second thread
 *   I3  a child of fork() has no lane: the files are its parent's
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environ.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/source_line.h"
#include "base/thread.h"
#include "native/native.h"

/* Each lane has a ring and a file. */
#define LANES_MAX 256

static struct {
    struct lane *_Atomic all[LANES_MAX];
    atomic_size_t count;
    struct mbx_ep *early[LANES_MAX]; /* have posted receives, and have no lane */
    size_t early_count;
    bool is_child;
    pthread_mutex_t lock; /* guards opening, and the thread and flags of each lane */
} lanes = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- divergences ---- */

static void go_free(struct replay_lane *events)
{
    events->is_free = true;
    op_post_withheld(container_of(events, struct lane, events));
}

static void end_rank(void)
{
    fflush(NULL); /* what the program has written */
    _Exit(REPLAY_STATUS_DIVERGED);
}

static struct replay_user native_user = {
    .go_free = go_free,
    .end_job = end_rank,
    .failed =
        "what happened here is not replayed: a process had failed, a send was cancelled, or "
        "data of a one-sided access arrived",
};

/* ---- opening ---- */

static bool is_to_go_on(void)
{
    const char *set = environ_get("MBX_REPLAY_ON_DIVERGENCE");

    return set != NULL && strcmp(set, "go") == 0;
}

static void set_log_level(void)
{
    const char *set = environ_get("MBX_LOG_LEVEL");

    for (int i = 0; set != NULL && i < LOG_LEVEL_COUNT; i++)
        if (strcmp(set, log_level_names[i]) == 0)
            log_level_set((enum log_level)i);
}

/* The path of the folder of this endpoint within `folder`.  False: it is too long. */
static bool folder_of(const char *folder, size_t number, char path[PATH_MAX])
{
    int length = number == 1
                     ? snprintf(path, PATH_MAX, "%s", folder)
                     : snprintf(path, PATH_MAX, "%s/" REPLAY_ENDPOINT "%zu", folder, number);

    return length >= 0 && length < PATH_MAX;
}

/* A rank that was killed before it connected this endpoint has no file for it. */
static bool was_killed_before(const char *folder, uint32_t rank)
{
    const struct lane *first = atomic_load(&lanes.all[0]);
    char file[PATH_MAX];
    int length = snprintf(file, sizeof file, "%s/rank-%u.mbxrec", folder, rank);

    return first != NULL && first->events.judge != NULL &&
           replay_judge_is_cut(first->events.judge) && length < (int)sizeof file &&
           access(file, F_OK) != 0 && errno == ENOENT;
}

/* Replays the record in `folder`, or none: NULL. */
static const char *replay_of(const char *folder, size_t number, uint32_t rank)
{
    if (number == 1 || !was_killed_before(folder, rank))
        return folder;
    LOG_WARN(
        "replay: rank %u: the recorded rank was killed before it connected endpoint %zu, which "
        "continues freely",
        rank, number);
    return NULL;
}

static void files_open(struct lane *lane, size_t number, struct replay_job *job)
{
    const char *record_to = replay_folder("MBX_RECORD");
    const char *replay_from = replay_folder("MBX_REPLAY");
    char record_path[PATH_MAX], replay_path[PATH_MAX];
    bool has_record = record_to != NULL && folder_of(record_to, number, record_path);
    bool has_replay = replay_from != NULL && folder_of(replay_from, number, replay_path);

    job->is_part = number > 1;
    lane->events.user = &native_user;
    if (has_replay != (replay_from != NULL) ||
        replay_lane_open(&lane->events, has_record ? record_path : NULL,
                         has_replay ? replay_of(replay_path, number, job->rank) : NULL,
                         job) < 0)
        _Exit(1); /* a line says why */
}

static void on_fork(void)
{
    lanes.is_child = true;
    atomic_store(&lanes.count, 0);
}

void lane_note_early(struct mbx_ep *ep)
{
    bool is_noted = false;

    if (replay_folder("MBX_RECORD") == NULL || ep == NULL)
        return;
    pthread_mutex_lock(&lanes.lock);
    for (size_t i = 0; i < lanes.early_count; i++)
        is_noted = is_noted || lanes.early[i] == ep;
    for (size_t i = 0; i < lanes.count; i++) /* another thread of a lane */
        is_noted = is_noted || lanes.all[i]->ep == ep;
    if (!is_noted && lanes.early_count < LANES_MAX)
        lanes.early[lanes.early_count++] = ep;
    pthread_mutex_unlock(&lanes.lock);
}

static bool take_early(const struct mbx_ep *ep)
{
    for (size_t i = 0; i < lanes.early_count; i++)
        if (lanes.early[i] == ep) {
            lanes.early[i] = lanes.early[--lanes.early_count];
            return true;
        }
    return false;
}

void lane_forget_early(const struct mbx_ep *ep)
{
    pthread_mutex_lock(&lanes.lock);
    (void)take_early(ep);
    pthread_mutex_unlock(&lanes.lock);
}

static void lane_start(struct mbx_job *job, struct mbx_ep *ep)
{
    size_t number = atomic_load(&lanes.count) + 1;
    struct lane *lane = number <= LANES_MAX ? mem_calloc(1, sizeof *lane) : NULL;
    struct replay_job is = {.rank = native_next()->mbx_job_rank(job),
                            .size = native_next()->mbx_job_size(job),
                            .mpi = REPLAY_NATIVE,
                            .is_native = true};

    if (lane != NULL && number == 1 && pthread_atfork(NULL, NULL, on_fork) != 0) {
        mem_free(lane);
        lane = NULL;
    }
    if (lane == NULL) {
        LOG_ERROR("rank %u: endpoint %zu is not recorded and not replayed: %s", is.rank, number,
                  number > LANES_MAX ? "there are too many" : "no memory");
        return;
    }
    replay_identify(&is);
    lane->rank = is.rank;
    lane->size = is.size;
    list_init(&lane->withheld);
    files_open(lane, number, &is);
    lane->ep = ep;
    if (take_early(ep))
        lane_spoil(lane, "a receive was posted before mbx_job_connect");
    atomic_store(&lanes.all[number - 1], lane);
    atomic_store(&lanes.count, number);
    lane_event_ends(lane);
}

void lane_open(struct mbx_job *job, struct mbx_ep *ep)
{
    if (replay_folder("MBX_RECORD") == NULL && replay_folder("MBX_REPLAY") == NULL)
        return;
    set_log_level();
    if (lanes.is_child) {
        LOG_WARN("process %ld is a child of fork(): it is not recorded and not replayed",
                 (long)getpid());
        return;
    }
    replay_line_of = source_line_in;
    native_user.goes_on = is_to_go_on();
    pthread_mutex_lock(&lanes.lock);
    lane_start(job, ep);
    pthread_mutex_unlock(&lanes.lock);
}

/* ---- which calls are events ---- */

/* Does this thread make the events of this lane?  The first thread that calls does. */
static bool is_its_thread(struct lane *lane)
{
    bool is_its;

    pthread_mutex_lock(&lanes.lock);
    if (!lane->has_thread)
        lane->thread = pthread_self();
    lane->has_thread = true;
    is_its = pthread_equal(lane->thread, pthread_self());
    if (!is_its && lane->events.writer != NULL)
        replay_write_flag(lane->events.writer, REPLAY_THREADS);
    pthread_mutex_unlock(&lanes.lock);
    return is_its;
}

struct lane *lane_of(struct mbx_ep *ep)
{
    size_t count = atomic_load(&lanes.count);

    for (size_t i = 0; ep != NULL && i < count; i++) {
        struct lane *lane = atomic_load(&lanes.all[i]);

        if (atomic_load(&lane->ep) == ep)
            return is_its_thread(lane) ? lane : NULL;
    }
    return NULL;
}

struct lane *lane_first(void)
{
    struct lane *lane = atomic_load(&lanes.count) > 0 ? atomic_load(&lanes.all[0]) : NULL;

    return lane != NULL && atomic_load(&lane->ep) != NULL && is_its_thread(lane) ? lane : NULL;
}

/* Does this thread make the events of this lane, which is replayed? */
static bool is_replayed_here(struct lane *lane)
{
    bool is_its;

    pthread_mutex_lock(&lanes.lock);
    is_its = lane->has_thread && pthread_equal(lane->thread, pthread_self());
    pthread_mutex_unlock(&lanes.lock);
    return is_its && lane->events.judge != NULL;
}

bool lane_move_others(const struct lane *lane)
{
    size_t count = atomic_load(&lanes.count);
    bool has_some = false;

    for (size_t i = 0; i < count && (lane == NULL || count > 1); i++) {
        struct lane *other = atomic_load(&lanes.all[i]);

        if (other == lane || !is_replayed_here(other))
            continue;
        (void)native_next()->mbx_progress(other->ep);
        has_some = true;
    }
    return has_some;
}

int lane_wait(struct lane *lane, mbx_request request, struct mbx_completion *entry)
{
    const struct native_next *next = native_next();
    int err, checks = 0;

    if (!lane_move_others(lane))
        return next->mbx_wait(lane->ep, request, -1, entry);
    while ((err = next->mbx_wait(lane->ep, request, 0, entry)) == -ETIMEDOUT) {
        (void)lane_move_others(lane);
        if (++checks % LANE_CHECKS_BEFORE_YIELD == 0)
            sched_yield();
    }
    return err;
}

/* ---- fences ---- */

struct fence {
    struct mbx_job *job;
    int err;
    atomic_bool is_over;
};

static void *run_fence(void *arg)
{
    struct fence *fence = arg;

    fence->err = native_next()->mbx_job_fence(fence->job);
    atomic_store(&fence->is_over, true);
    return NULL;
}

/* All ranks connect their endpoints in the same order, so that all of them make this fence, or none. */
int lane_fence_to_connect(struct mbx_job *job)
{
    bool is_wanted = replay_folder("MBX_REPLAY") != NULL && atomic_load(&lanes.count) > 0;

    return is_wanted ? lane_fence(job) : 0;
}

int lane_fence(struct mbx_job *job)
{
    struct fence fence = {.job = job};
    pthread_t thread;
    int checks = 0;

    if (!lane_move_others(NULL) || thread_start(&thread, run_fence, &fence) != 0)
        return native_next()->mbx_job_fence(job);
    while (!atomic_load(&fence.is_over)) {
        (void)lane_move_others(NULL);
        if (++checks % LANE_CHECKS_BEFORE_YIELD == 0)
            sched_yield();
    }
    pthread_join(thread, NULL);
    return fence.err;
}

/* ---- recording ---- */

void lane_spoil(struct lane *lane, const char *why)
{
    if (lane->events.writer == NULL || lane->is_useless)
        return;
    lane->is_useless = true;
    LOG_WARN("record: rank %u: %s: " REPLAY_REFUSAL, lane->rank, why);
    replay_write_flag(lane->events.writer, REPLAY_UNSEEN);
}

struct replay_outcome lane_outcome_of_result(int result)
{
    if (result < 0)
        return lane_outcome(REPLAY_ERROR, (uint64_t)-result);
    return result == 0 ? lane_outcome(REPLAY_FALSE, 0)
                       : lane_outcome(REPLAY_VALUE, (uint64_t)result);
}

bool lane_result_of_outcome(const struct replay_outcome *outcome, int *result)
{
    bool is_error =
        outcome->result == REPLAY_ERROR && outcome->value > 0 && outcome->value <= INT_MAX;

    if (outcome->result != REPLAY_FALSE && !is_error)
        return false;
    *result = is_error ? -(int)outcome->value : 0;
    return true;
}

void lane_record_post_upper(struct lane *lane, const struct replay_signature *half)
{
    if (lane->events.writer != NULL)
        (void)replay_write_post_detail(lane->events.writer, half);
}

/* ---- calls whose result is a number ---- */

static struct replay_signature signature_of_call(enum replay_call call)
{
    return (struct replay_signature){.kind = REPLAY_MBX_CALL, .tag = (int32_t)call};
}

/* The greatest number that a call returns. */
static const uint64_t most_of_call[REPLAY_CALLS] = {
    [REPLAY_PROGRESS] = INT_MAX, [REPLAY_READY] = 1,        [REPLAY_IDLE] = 1,
    [REPLAY_TRY_SEND] = 1,       [REPLAY_SEND_AT_ONCE] = 1, [REPLAY_CLOSE] = 1};

static bool result_of_call(enum replay_call call, const struct replay_outcome *outcome,
                           int *result)
{
    if (outcome->result != REPLAY_VALUE)
        return lane_result_of_outcome(outcome, result);
    if (outcome->value == 0 || outcome->value > most_of_call[call])
        return false;
    *result = (int)outcome->value;
    return true;
}

bool lane_call_is_replayed(struct lane *lane, enum replay_call call, int *result)
{
    struct replay_signature now = signature_of_call(call);
    struct replay_outcome outcome;

    if (!lane_replays(lane, &now, &outcome))
        return false;
    if (result_of_call(call, &outcome, result))
        return true;
    lane_refuse(lane, &now, lane_why_not(lane, &outcome));
    return false;
}

void lane_call_ends(struct lane *lane, enum replay_call call, int result)
{
    struct replay_signature now = signature_of_call(call);

    lane_record(lane, &now, lane_outcome_of_result(result));
    lane_event_ends(lane);
}

/* ---- closing ---- */

void lane_exit(int status)
{
    size_t count = status == 0 ? atomic_load(&lanes.count) : 0;
    bool is_right = true;

    for (size_t i = 0; i < count; i++) {
        struct lane *lane = atomic_load(&lanes.all[i]);

        if (atomic_load(&lane->ep) != NULL && lane_is_replaying(lane))
            is_right = replay_judge_ends(lane->events.judge, REPLAY_NOT_COUNTED,
                                         native_user.goes_on) &&
                       is_right;
    }
    if (!is_right && !native_user.goes_on)
        end_rank();
}

void lane_close(struct lane *lane)
{
    bool is_right = replay_lane_close(&lane->events, REPLAY_NOT_COUNTED);

    op_forget_all(lane);
    mem_free(lane->numbers);
    atomic_store(&lane->ep, NULL);
    if (!is_right && !native_user.goes_on)
        end_rank();
}
