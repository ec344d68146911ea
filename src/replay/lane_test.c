/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane_test.c - a lane records what its program does, gives it back, and ends the job or goes on freely at a divergence.
 */
#include <matchbox/matchbox.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/unit.h"
#include "replay/replay.h"
#include "replay/replay_testing.h"

static const struct replay_signature probe = {
    .comm = 1, .source = REPLAY_ANY, .tag = 7, .kind = REPLAY_IPROBE};
static const struct replay_signature recv_any = {
    .comm = 1, .source = REPLAY_ANY, .tag = 7, .kind = REPLAY_IRECV};

static jmp_buf job_ends;
static int times_free;

static void go_free(struct replay_lane *lane)
{
    lane->is_free = true;
    times_free++;
}

static void end_job(void)
{
    longjmp(job_ends, 1);
}

static struct replay_user user = {
    .go_free = go_free, .end_job = end_job, .failed = "a process had failed"};

static struct replay_lane open_lane(const char *record_to, const char *replay_from)
{
    struct replay_lane lane = {.user = &user};

    assert_int_equal(replay_lane_open(&lane, record_to, replay_from, &job), 0);
    return lane;
}

static const struct replay_outcome none = {.result = REPLAY_FALSE};

/* Two probes that find nothing, a receive, and a choice. */
static void record_small(void)
{
    struct replay_lane lane = open_lane(folder, NULL);
    uint64_t value = 42, number;

    replay_lane_record(&lane, &probe, none);
    replay_lane_record(&lane, &probe, none);
    number = replay_lane_post(&lane, &recv_any);
    assert_int_equal(replay_lane_choice(&lane, 5, &value), MBX_CHOICE_RECORDED);
    assert_int_equal(value, 42);
    replay_lane_fill(&lane, number, replay_message(3, 7, 100));
    replay_lane_cancelled(&lane, 9);
    assert_true(replay_lane_close(&lane, 0));
}

static void a_lane_gives_back_what_it_has_recorded(UNUSED void **state)
{
    struct replay_outcome out;
    struct replay_lane lane;
    uint64_t value = 1;

    record_small();
    lane = open_lane(NULL, folder);
    for (int i = 0; i < 2; i++) {
        assert_true(replay_lane_agrees(&lane, &probe, NULL, &out));
        assert_int_equal(out.result, REPLAY_FALSE);
    }
    assert_true(replay_lane_agrees(&lane, &recv_any, NULL, &out));
    assert_int_equal(replay_source(&out), 3);
    assert_true(replay_judge_is_cancelled(lane.judge, 9));
    assert_int_equal(replay_lane_choice(&lane, 5, &value), MBX_CHOICE_REPLAYED);
    assert_int_equal(value, 42);
    times_free = 0;
    replay_lane_event_ends(&lane);
    assert_int_equal(times_free, 0); /* it is complete, not cut */
    assert_true(replay_lane_close(&lane, 0));
    assert_null(lane.judge);
}

static void without_files_nothing_happens(UNUSED void **state)
{
    struct replay_lane lane = open_lane(NULL, NULL);
    struct replay_outcome out;
    uint64_t value = 1;

    replay_lane_record(&lane, &probe, none);
    assert_int_equal(replay_lane_post(&lane, &recv_any), 0);
    assert_false(replay_lane_agrees(&lane, &probe, NULL, &out));
    assert_int_equal(replay_lane_choice(&lane, 5, &value), MBX_CHOICE_FREE);
    assert_int_equal(value, 1);
    assert_true(replay_lane_close(&lane, 0));
}

/* The program makes another call than the recorded one. */
static void call_another(struct replay_lane *lane)
{
    struct replay_outcome out;

    assert_false(replay_lane_agrees(lane, &recv_any, "solver", &out));
}

static void a_divergence_ends_the_job_or_makes_the_lane_free(UNUSED void **state)
{
    struct replay_lane lane;

    record_small();
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        lane = open_lane(NULL, folder);
        user.goes_on = goes_on;
        times_free = 0;
        if (setjmp(job_ends) == 0) {
            call_another(&lane);
            assert_true(user.goes_on);
            assert_int_equal(times_free, 1);
            call_another(&lane);
            assert_true(replay_lane_close(&lane, 0)); /* it is said once */
        } else {
            assert_false(user.goes_on);
            assert_int_equal(times_free, 0);
            replay_judge_close(lane.judge);
        }
        assert_non_null(
            strstr(said, "  now:      MPI_Irecv from any source, tag 7, on solver"));
    }
    user.goes_on = false;
}

static void an_outcome_that_cannot_be_is_refused(UNUSED void **state)
{
    const struct replay_outcome failed = {.result = REPLAY_FAILED}, at = {.result = REPLAY_AT};
    struct replay_signature choice = {.tag = 5, .kind = REPLAY_CHOICE};
    struct replay_lane lane = open_lane(folder, NULL);
    uint64_t value = 1;

    assert_string_equal(replay_lane_why_not(&lane, &failed), "a process had failed");
    assert_string_equal(replay_lane_why_not(&lane, &at),
                        "the recorded outcome does not fit this call");
    replay_lane_record(&lane, &choice, at);
    assert_true(replay_lane_close(&lane, 0));
    lane = open_lane(NULL, folder);
    user.goes_on = true;
    times_free = 0;
    assert_int_equal(replay_lane_choice(&lane, 5, &value), MBX_CHOICE_FREE);
    user.goes_on = false;
    assert_int_equal(value, 1);
    assert_int_equal(times_free, 1);
    assert_non_null(strstr(said, ": the recorded outcome does not fit this call\n"));
    assert_true(replay_lane_close(&lane, 0));
}

static void a_program_that_closes_early_has_diverged(UNUSED void **state)
{
    struct replay_lane lane;

    record_small();
    lane = open_lane(NULL, folder);
    assert_false(replay_lane_close(&lane, 0));
}

static void a_folder_is_what_a_variable_names(UNUSED void **state)
{
    unsetenv("MBX_RECORD");
    assert_null(replay_folder("MBX_RECORD"));
    setenv("MBX_RECORD", "", 1);
    assert_null(replay_folder("MBX_RECORD"));
    setenv("MBX_RECORD", "orders", 1);
    assert_string_equal(replay_folder("MBX_RECORD"), "orders");
    unsetenv("MBX_RECORD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lane_gives_back_what_it_has_recorded),
        TEST(without_files_nothing_happens),
        TEST(a_divergence_ends_the_job_or_makes_the_lane_free),
        TEST(an_outcome_that_cannot_be_is_refused),
        TEST(a_program_that_closes_early_has_diverged),
        TEST(a_folder_is_what_a_variable_names),
    };

    return cmocka_run_group_tests_name("replay_lane", tests, NULL, NULL);
}
