/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * judge_test.c - a program that agrees with its record gets the recorded outcomes; at the first call that differs it is
 * said what was recorded, and what is called now.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unit.h"
#include "replay/replay.h"
#include "replay/replay_testing.h"

static const struct replay_signature recv_any = {
    .comm = 1, .source = REPLAY_ANY, .tag = 7, .kind = REPLAY_IRECV};
static const struct replay_signature wait_two = {.kind = REPLAY_WAITANY, .requests = 2};

/* A receive that got rank 3's message, one that got none, and a Waitany of two: 1. */
static void write_small(bool is_complete)
{
    struct replay_outcome got = replay_message(3, 7, 100),
                          at = {.value = 1, .result = REPLAY_AT};
    struct replay_writer *w = open_writer();
    char command[256];

    replay_write_fill(w, replay_write_post(w, &recv_any), &got);
    replay_write_post(w, &recv_any);
    replay_write_event(w, &wait_two, &at);
    replay_write_cancelled(w, 5);
    if (is_complete) {
        replay_write_close(w);
        return;
    }
    /* as a kill leaves it */
    snprintf(command, sizeof command, "cd %s && cp rank-2.mbxrec kept && mv kept rank-2.mbxrec",
             folder);
    assert_int_equal(system(command), 0);
    replay_write_close(w);
}

static struct replay_judge *open_judge(void)
{
    struct replay_judge *j = NULL;

    assert_int_equal(replay_judge_open(folder, &job, &j), 0);
    return j;
}

static struct replay_judge *judge_small(bool is_complete)
{
    write_small(is_complete);
    return open_judge();
}

static void a_program_that_agrees_gets_the_outcomes(UNUSED void **state)
{
    struct replay_outcome out;
    struct replay_judge *j;

    j = judge_small(true);
    assert_int_equal(replay_judge(j, &recv_any, &out), REPLAY_AGREES);
    assert_int_equal(out.result, REPLAY_MESSAGE);
    assert_int_equal(replay_source(&out), 3);
    assert_int_equal(replay_tag(&out), 7);
    assert_int_equal(replay_judge(j, &recv_any, &out), REPLAY_AGREES);
    assert_int_equal(out.result, REPLAY_OPEN);
    assert_true(replay_judge_is_cancelled(j, 5));
    assert_false(replay_judge_is_cancelled(j, 4));
    assert_int_equal(replay_judge(j, &wait_two, &out), REPLAY_AGREES);
    assert_int_equal(out.value, 1);
    assert_false(replay_judge_is_over(j));
    log_level_set(LOG_LEVEL_INFO);
    assert_true(replay_judge_ends(j, 4, false));
    log_level_set(LOG_LEVEL_WARN);
    assert_non_null(strstr(said, "replay: rank 2: 3 events, all as recorded; 4 held back"));
    replay_judge_close(j);
}

/* mbx explore makes it: nothing is said at its end, where the rank continues. */
static void after_a_beginning_a_rank_continues(UNUSED void **state)
{
    struct replay_writer *w = open_writer();
    struct replay_outcome got = replay_message(3, 7, 100), out;
    struct replay_reader *reader;
    struct replay_judge *j;

    replay_write_flag(w, REPLAY_BEGINNING);
    replay_write_post(w, &recv_any);
    replay_write_fill(w, replay_write_post(w, &recv_any), &got);
    replay_write_cancelled(w, 5);
    replay_write_cancelled(w, 9);
    replay_write_close(w);
    reader = open_reader();
    assert_int_equal(replay_read_flags(reader), REPLAY_BEGINNING);
    assert_int_equal(replay_read_cancelled(reader, 0), 5);
    assert_int_equal(replay_read_cancelled(reader, 1), 9);
    assert_int_equal(replay_read_cancelled(reader, 2), 0);
    replay_read_close(reader);
    j = open_judge();
    assert_true(replay_judge_is_beginning(j));
    assert_int_equal(replay_judge(j, &recv_any, &out), REPLAY_AGREES);
    assert_int_equal(out.result, REPLAY_OPEN);
    assert_false(replay_judge_is_over(j));
    assert_int_equal(replay_judge(j, &recv_any, &out), REPLAY_AGREES);
    assert_int_equal(replay_source(&out), 3);
    assert_true(replay_judge_is_over(j));
    assert_int_equal(replay_judge(j, &wait_two, &out), REPLAY_OVER);
    assert_string_equal(said, "");
    replay_judge_close(j);
    remove_records();
    j = judge_small(false);
    assert_false(replay_judge_is_beginning(j));
    replay_judge_close(j);
}

static void another_call_is_a_divergence(UNUSED void **state)
{
    static const struct replay_signature probe = {
        .comm = 1, .source = 2, .tag = 9, .kind = REPLAY_IPROBE};
    struct replay_outcome out;
    struct replay_judge *j;

    j = judge_small(true);
    assert_int_equal(replay_judge(j, &recv_any, &out), REPLAY_AGREES);
    for (int field = 0; field < 5; field++) {
        struct replay_signature other = recv_any;

        other.comm += field == 0;
        other.source = field == 1 ? 3 : other.source;
        other.tag += field == 2;
        other.kind = field == 3 ? REPLAY_RECV : other.kind;
        other.requests += field == 4;
        assert_int_equal(replay_judge(j, &other, &out), REPLAY_DIFFERS);
    }
    assert_int_equal(replay_judge(j, &probe, &out), REPLAY_DIFFERS);
    replay_judge_say(j, &probe, "MPI_COMM_WORLD", true);
    assert_non_null(strstr(said, "replay: rank 2 (pid 77) diverged from "));
    assert_non_null(strstr(said, " at its event 2 of 3\n"));
    assert_non_null(strstr(
        said, "  recorded: MPI_Irecv from any source, tag 7, on communicator 1: no message\n"));
    assert_non_null(
        strstr(said, "  now:      MPI_Iprobe from rank 2, tag 9, on MPI_COMM_WORLD"));
    assert_non_null(strstr(said, "  last event that agreed: MPI_Irecv from any source, tag 7, "
                                 "on communicator 1: rank 3, tag 7\n"));
    assert_non_null(strstr(said, "  rank 2 continues freely\n"));
    replay_judge_close(j);
}

static const char *line_of_test(const char *path, uint64_t at, char *words)
{
    if (strcmp(path, "/home/ann/solve") != 0)
        return NULL;
    snprintf(words, 32, "solve.c:%d", (int)at);
    return words;
}

/* The line if it is known, and otherwise the address. */
static void a_divergence_names_lines(UNUSED void **state)
{
    static const char places[] = "58 /home/ann/solve\n99 /home/ann/stripped\n";
    const struct replay_outcome none = {.result = REPLAY_FALSE};
    struct replay_signature probe = recv_any;
    struct replay_writer *w = open_writer();
    struct replay_outcome out;
    struct replay_judge *j;

    probe.kind = REPLAY_IPROBE;
    probe.place = 1;
    replay_write_event(w, &probe, &none);
    probe.tag = 8;
    probe.place = 2;
    replay_write_event(w, &probe, &none);
    replay_write_close(w);
    put_places(places, sizeof places - 1);
    replay_line_of = line_of_test;
    j = open_judge();
    probe.tag = 7;
    assert_int_equal(replay_judge(j, &probe, &out), REPLAY_AGREES);
    assert_int_equal(replay_judge(j, &probe, &out), REPLAY_DIFFERS);
    replay_judge_say(j, &probe, NULL, false);
    assert_non_null(strstr(said,
                           "  recorded: MPI_Iprobe from any source, tag 8, on communicator "
                           "1 at /home/ann/stripped+0x99: false\n"));
    assert_non_null(strstr(said,
                           "  last event that agreed: MPI_Iprobe from any source, tag 7, on "
                           "communicator 1 at solve.c:88: false\n"));
    replay_judge_close(j);
    replay_line_of = NULL;
}

static void an_outcome_that_cannot_be_is_a_divergence(UNUSED void **state)
{
    struct replay_outcome out;
    struct replay_judge *j;

    j = judge_small(true);
    assert_int_equal(replay_judge(j, &recv_any, &out), REPLAY_AGREES);
    replay_judge_refuse(
        j,
        "a process had failed at this point of the record; process failures are not replayed");
    replay_judge_say(j, &recv_any, NULL, false);
    assert_non_null(strstr(said, " at its event 1 of 3\n"));
    assert_non_null(strstr(
        said,
        "recorded: MPI_Irecv from any source, tag 7, on communicator 1: rank 3, tag 7\n"));
    assert_non_null(strstr(said, ": a process had failed at this point of the record; process "
                                 "failures are not replayed\n"));
    assert_null(strstr(said, "continues freely"));
    replay_judge_close(j);
}

static void a_program_that_ends_early_is_a_divergence(UNUSED void **state)
{
    struct replay_outcome out;
    struct replay_judge *j;

    j = judge_small(true);
    assert_int_equal(replay_judge(j, &recv_any, &out), REPLAY_AGREES);
    assert_false(replay_judge_ends(j, 0, false));
    assert_non_null(strstr(said, "  now:      MPI_Finalize"));
    replay_judge_close(j);
}

static void more_calls_than_recorded_are_a_divergence_if_it_is_complete(UNUSED void **state)
{
    for (int is_complete = 0; is_complete < 2; is_complete++) {
        struct replay_outcome out;
        struct replay_judge *j;

        j = judge_small(is_complete);
        assert_int_equal(replay_judge(j, &recv_any, &out), REPLAY_AGREES);
        assert_int_equal(replay_judge(j, &recv_any, &out), REPLAY_AGREES);
        assert_int_equal(replay_judge(j, &wait_two, &out), REPLAY_AGREES);
        assert_int_equal(replay_judge_is_over(j), !is_complete);
        assert_int_equal(replay_judge(j, &wait_two, &out),
                         is_complete ? REPLAY_DIFFERS : REPLAY_OVER);
        replay_judge_close(j);
        remove_records();
    }
}

static void expect_refused(const struct replay_job *now, const char *text)
{
    struct replay_judge *j;

    said[0] = '\0';
    assert_true(replay_judge_open(folder, now, &j) < 0);
    assert_non_null(strstr(said, text));
}

static void records_of_other_jobs_are_refused(UNUSED void **state)
{
    struct replay_job other = job;
    struct replay_writer *w;
    struct replay_judge *j;

    write_small(true);
    other.size = 8;
    expect_refused(&other, "has records of 4 ranks, but this job has 8");
    other = job;
    other.mpi++;
    expect_refused(&other, "was recorded with another version of MPI");
    remove_records();
    other = job;
    other.rank = 0;
    other.build[3] = 1;
    assert_int_equal(replay_write_open(folder, &other, &w), 0);
    replay_write_flag(w, REPLAY_THREADS);
    assert_non_null(strstr(
        said, "record: two threads of rank 0 make calls that are recorded, "
              "on one communicator, or on one endpoint, or its communicators have used up "
              "the files or the memory for them: this record cannot be replayed"));
    replay_write_close(w);
    expect_refused(
        &other,
        "replay: rank 0: two threads made the recorded calls: their order cannot be replayed");
    unlink(path_of("rank-0.mbxrec"));
    assert_int_equal(replay_write_open(folder, &other, &w), 0);
    replay_write_close(w);
    other.build[3] = 2;
    other.arguments++;
    assert_int_equal(replay_judge_open(folder, &other, &j), 0);
    assert_non_null(
        strstr(said, "replay: this is not the recorded program (its build id differs)"));
    assert_non_null(strstr(said, "the arguments of the program differ"));
    replay_judge_close(j);
    unlink(path_of("rank-0.mbxrec"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_program_that_agrees_gets_the_outcomes),
        TEST(after_a_beginning_a_rank_continues),
        TEST(another_call_is_a_divergence),
        TEST(a_divergence_names_lines),
        TEST(an_outcome_that_cannot_be_is_a_divergence),
        TEST(a_program_that_ends_early_is_a_divergence),
        TEST(more_calls_than_recorded_are_a_divergence_if_it_is_complete),
        TEST(records_of_other_jobs_are_refused),
    };

    return cmocka_run_group_tests_name("replay_judge", tests, NULL, NULL);
}
