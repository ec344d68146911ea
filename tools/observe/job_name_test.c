/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_name_test.c - the name of a job, from the arguments of its processes, and the meaning of --job.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/unit.h"
#include "job_name.h"

static void test_a_program_is_called_as_its_user_would(UNUSED void **state)
{
    static const struct {
        const char *arguments; /* separated by | */
        const char *program;
    } cases[] = {
        {"./solve|-n|4", "solve"},
        {"/usr/bin/gmx_mpi|mdrun", "gmx_mpi"},
        {"solve", "solve"},
        {"python3|model.py|--fast", "model.py"},
        {"/usr/bin/python3.11|-u|-W|ignore|/home/a/model.py", "model.py"},
        {"python3|-m|mpi4py.bench|helloworld", "mpi4py.bench"},
        {"python3|-mmpi4py|run.py", "mpi4py"},
        {"python3|-c|import mpi4py", "python3 -c"},
        {"python3|-Wignore|model.py", "model.py"},
        {"python3|--|-odd.py", "-odd.py"},
        {"python3", "python3"},
        {"python3|-W", "python3"},
        {"bash|-x|./job.sh", "job.sh"},
        {"/bin/sh|-c|./solve", "sh -c"},
        {"-bash", "bash"},
        {"Rscript|fit.R", "fit.R"},
        {"pythonic|x.py", "pythonic"},
        {"bashful|x.sh", "bashful"},
        {"dir/", "dir/"},
        {"a\x1b[2Jb", "a?[2Jb"},
        {"", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char arguments[128], program[INSPECT_PROGRAM_TEXT];
        size_t size = strlen(cases[i].arguments) + 1;

        memcpy(arguments, cases[i].arguments, size);
        for (char *c = arguments; *c != '\0'; c++)
            if (*c == '|')
                *c = '\0';
        job_program_of(arguments, size, program);
        assert_string_equal(program, cases[i].program);
    }
}

static void test_arguments_that_do_not_end_name_nothing(UNUSED void **state)
{
    char program[INSPECT_PROGRAM_TEXT] = "before";

    job_program_of("solve", 5, program);
    assert_string_equal(program, "");
    job_program_of("", 0, program);
    assert_string_equal(program, "");
}

static void make_job(struct inspect_job *job, struct inspect_rank *ranks, uint32_t count)
{
    memset(ranks, 0, count * sizeof *ranks);
    *job = (struct inspect_job){.ranks = ranks, .count = count, .size = count};
    for (uint32_t i = 0; i < count; i++) {
        ranks[i].head.job = UINT64_C(0x00000000000abc12);
        ranks[i].head.pid = 1000000 + i;
        ranks[i].how = INSPECT_CORE; /* so that /proc is not read */
    }
}

static void test_a_job_is_called_by_all_its_programs(UNUSED void **state)
{
    struct inspect_rank ranks[4];
    struct inspect_job job;
    char words[JOB_WORDS], title[JOB_TITLE];

    make_job(&job, ranks, 4);
    assert_string_equal(job_words(&job, words), "");
    assert_string_equal(job_title(&job, true, title), "job 00000000000abc12");
    snprintf(ranks[1].program, INSPECT_PROGRAM_TEXT, "ocean");
    assert_string_equal(job_words(&job, words), "ocean");
    snprintf(ranks[2].program, INSPECT_PROGRAM_TEXT, "atmos");
    snprintf(ranks[0].program, INSPECT_PROGRAM_TEXT, "ocean");
    assert_string_equal(job_program(&job, words), "ocean+atmos");
    snprintf(ranks[3].program, INSPECT_PROGRAM_TEXT, "ice");
    assert_string_equal(job_program(&job, words), "ocean+atmos+...");
    ranks[1].started = 1000;
    ranks[2].started = 999;
    assert_int_equal(job_started(&job), 999);
    snprintf(ranks[0].head.mpi, INSPECT_MPI_TEXT, "component Open MPI v4.1.4, package: x");
    job_title(&job, true, title);
    assert_non_null(
        strstr(title, "job 00000000000abc12 (ocean+atmos+..., started 1970-01-01 "));
    assert_non_null(strstr(title, ", component Open MPI v4.1.4)"));
}

static void test_an_option_means_number_program_or_process(UNUSED void **state)
{
    struct inspect_rank ranks[2];
    struct inspect_job job;

    make_job(&job, ranks, 2);
    snprintf(ranks[0].program, INSPECT_PROGRAM_TEXT, "ocean");
    snprintf(ranks[1].program, INSPECT_PROGRAM_TEXT, "atmos");
    assert_true(job_is_called(&job, "00000000000abc12"));
    assert_true(job_is_called(&job, "abc12"));
    assert_true(job_is_called(&job, "ocean"));
    assert_true(job_is_called(&job, "atmos"));
    assert_true(job_is_called(&job, "ocean+atmos"));
    assert_true(job_is_called(&job, "./ocean")); /* as it was typed when it was started */
    assert_true(job_is_called(&job, "/opt/model/atmos"));
    assert_false(job_is_called(&job, "ocean/"));
    assert_true(job_is_called(&job, "1000001"));
    assert_false(job_is_called(&job, "1000002"));
    assert_false(job_is_called(&job, "oce"));
    assert_false(job_is_called(&job, ""));
    assert_false(job_is_called(&job, "0"));
    assert_false(job_is_called(&job, "1"));
    ranks[1].how = INSPECT_ASKED; /* this process, and its ancestors */
    ranks[1].head.pid = (uint32_t)getpid();
    {
        char parent[24];

        snprintf(parent, sizeof parent, "%d", (int)getppid());
        assert_true(getppid() == 1 || job_is_called(&job, parent));
        assert_false(job_is_called(&job, "1"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_is_called_as_its_user_would),
        cmocka_unit_test(test_arguments_that_do_not_end_name_nothing),
        cmocka_unit_test(test_a_job_is_called_by_all_its_programs),
        cmocka_unit_test(test_an_option_means_number_program_or_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
