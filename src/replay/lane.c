/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.c - one sequence of events, which is recorded, or replayed, or both.
 *
 *   the call's signature ── replay_lane_agrees() ─┬─ the recorded outcome, which the caller makes true
 *                                                 └─ not replayed, or diverged: the caller acts as without a record
 *   the call's outcome ──── replay_lane_record() ──> the record
 *
 * The component for Open MPI and src/native have the same rules.  struct replay_user has what they do differently.
 */
#include <matchbox/matchbox.h>

#include "base/environ.h"
#include "replay/replay.h"

/* ---- opening and closing ---- */

const char *replay_folder(const char *variable)
{
    const char *folder = environ_get(variable);

    return folder != NULL && folder[0] != '\0' ? folder : NULL;
}

int replay_lane_open(struct replay_lane *lane, const char *record_to, const char *replay_from,
                     const struct replay_job *job)
{
    int err = replay_from != NULL ? replay_judge_open(replay_from, job, &lane->judge) : 0;

    if (err == 0 && record_to != NULL)
        (void)replay_write_open(record_to, job, &lane->writer);
    return err;
}

bool replay_lane_close(struct replay_lane *lane, uint64_t held)
{
    bool is_right = !replay_lane_is_replaying(lane) ||
                    replay_judge_ends(lane->judge, held, lane->user->goes_on);

    (void)replay_write_close(lane->writer); /* a line has said what is missing */
    replay_judge_close(lane->judge);
    lane->writer = NULL;
    lane->judge = NULL;
    return is_right;
}

/* ---- recording ---- */

static inline void record_lock(const struct replay_lane *lane)
{
    if (unlikely(lane->lock != NULL))
        pthread_mutex_lock(lane->lock);
}

static inline void record_unlock(const struct replay_lane *lane)
{
    if (unlikely(lane->lock != NULL))
        pthread_mutex_unlock(lane->lock);
}

/* Adds the place where the program has called.  Only one thread makes the events of a lane, and it does not hold the lock
 * here: this may take the loader's lock, whose holder may run a constructor that makes recorded calls. */
static struct replay_signature signature_placed(struct replay_lane *lane,
                                                const struct replay_signature *signature)
{
    struct replay_signature placed = *signature;

    placed.place = replay_write_place(lane->writer);
    return placed;
}

/* A test or probe has found nothing, as the last event did. */
static bool record_again(struct replay_lane *lane, const struct replay_signature *signature)
{
    bool is_again;

    record_lock(lane);
    is_again = replay_write_again(lane->writer, signature);
    record_unlock(lane);
    return is_again;
}

void replay_lane_record(struct replay_lane *lane, const struct replay_signature *signature,
                        struct replay_outcome outcome)
{
    struct replay_signature placed;

    if (lane->writer == NULL ||
        (outcome.result == REPLAY_FALSE && record_again(lane, signature)))
        return;
    /* a detail has no place: its event has one */
    placed = replay_is_detail(signature->kind) ? *signature : signature_placed(lane, signature);
    record_lock(lane);
    replay_write_event(lane->writer, &placed, &outcome);
    record_unlock(lane);
}

uint64_t replay_lane_post(struct replay_lane *lane, const struct replay_signature *signature)
{
    struct replay_signature placed;
    uint64_t number;

    if (lane->writer == NULL)
        return 0;
    placed = signature_placed(lane, signature);
    record_lock(lane);
    number = replay_write_post(lane->writer, &placed);
    record_unlock(lane);
    return number;
}

void replay_lane_fill(struct replay_lane *lane, uint64_t number, struct replay_outcome outcome)
{
    if (lane->writer == NULL)
        return;
    record_lock(lane);
    replay_write_fill(lane->writer, number, &outcome);
    record_unlock(lane);
}

void replay_lane_cancelled(struct replay_lane *lane, uint64_t receive)
{
    if (lane->writer == NULL)
        return;
    record_lock(lane);
    replay_write_cancelled(lane->writer, receive);
    record_unlock(lane);
}

/* ---- replaying ---- */

static void diverge(struct replay_lane *lane, const struct replay_signature *now,
                    const char *comm)
{
    replay_judge_say(lane->judge, now, comm, lane->user->goes_on);
    if (!lane->user->goes_on)
        lane->user->end_job();
    lane->user->go_free(lane);
}

bool replay_lane_agrees(struct replay_lane *lane, const struct replay_signature *now,
                        const char *comm, struct replay_outcome *outcome)
{
    if (!replay_lane_is_replaying(lane))
        return false;
    switch (replay_judge(lane->judge, now, outcome)) {
    case REPLAY_AGREES:
        return true;
    case REPLAY_OVER:
        lane->user->go_free(lane);
        return false;
    case REPLAY_DIFFERS:
        diverge(lane, now, comm);
        return false;
    }
    return false;
}

void replay_lane_refuse(struct replay_lane *lane, const struct replay_signature *now,
                        const char *comm, const char *why)
{
    replay_judge_refuse(lane->judge, why);
    diverge(lane, now, comm);
}

const char *replay_lane_why_not(const struct replay_lane *lane,
                                const struct replay_outcome *outcome)
{
    return outcome->result == REPLAY_FAILED ? lane->user->failed
                                            : "the recorded outcome does not fit this call";
}

/* ---- choices of the program ---- */

int replay_lane_choice(struct replay_lane *lane, uint64_t site, uint64_t *value)
{
    struct replay_signature now = {
        .source = (int32_t)(site >> 32), .tag = (int32_t)site, .kind = REPLAY_CHOICE};
    struct replay_outcome outcome;
    bool is_replayed = replay_lane_agrees(lane, &now, NULL, &outcome);

    if (is_replayed && outcome.result != REPLAY_VALUE) {
        replay_lane_refuse(lane, &now, NULL, replay_lane_why_not(lane, &outcome));
        is_replayed = false;
    }
    if (is_replayed)
        *value = outcome.value;
    replay_lane_record(lane, &now,
                       (struct replay_outcome){.value = *value, .result = REPLAY_VALUE});
    replay_lane_event_ends(lane);
    if (is_replayed)
        return MBX_CHOICE_REPLAYED;
    return lane->writer != NULL ? MBX_CHOICE_RECORDED : MBX_CHOICE_FREE;
}
