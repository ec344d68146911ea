/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_test.c - all processes of a host have its id, and other namespaces have other ids.
 */
#include "base/host.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/unit.h"

#define NOT_ALLOWED 77

/* The host of a new process in namespaces of its own (CLONE_NEW*, or 0), or 0 if they
 * are not allowed here. */
static uint64_t host_in(int namespaces)
{
    int ends[2], status;
    uint64_t id = 0;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pid_t inner;

        if (unshare(namespaces) < 0)
            _exit(NOT_ALLOWED);
        inner = fork(); /* a new pid namespace begins with a child */
        if (inner == 0)
            _exit(host_id(&id) != 0 || write(ends[1], &id, sizeof id) != sizeof id);
        if (inner < 0 || waitpid(inner, &status, 0) != inner)
            _exit(1);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != NOT_ALLOWED) {
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_int_equal(read(ends[0], &id, sizeof id), sizeof id);
    }
    close(ends[0]);
    close(ends[1]);
    return id;
}

static void processes_of_one_host_agree(UNUSED void **state)
{
    uint64_t here = 0, again = 0;

    assert_int_equal(host_id(&here), 0);
    assert_int_equal(host_id(&again), 0);
    assert_true(here != 0);
    assert_true(here == again);
    assert_true(host_in(0) == here);
    assert_int_equal(sys_fds_live(), 0);
}

static void differs(int namespaces)
{
    uint64_t here, there = host_in(namespaces);

    assert_int_equal(host_id(&here), 0);
    if (there == 0)
        skip();
    assert_true(there != here);
}

static void a_pid_namespace_is_another_host(UNUSED void **state)
{
    differs(CLONE_NEWPID);
}

static void a_user_namespace_is_another_host(UNUSED void **state)
{
    differs(CLONE_NEWUSER);
}

static void a_network_namespace_is_not(UNUSED void **state)
{
    uint64_t here, there = host_in(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS | CLONE_NEWIPC);

    assert_int_equal(host_id(&here), 0);
    if (there == 0)
        skip();
    assert_true(there == here);
}

/* The host of a process that is not dumpable. */
static void closed_processes_are_hosts_of_their_own(UNUSED void **state)
{
    uint64_t here, closed = 0, again = 0;
    struct host host;

    assert_int_equal(host_id(&here), 0);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
    assert_int_equal(host_id(&closed), 0);
    assert_int_equal(host_id(&again), 0);
    assert_int_equal(host_read(&host), 0);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
    assert_true(closed != here && closed == again);
    assert_int_equal(host.closed_process, getpid());
    assert_int_equal(host_read(&host), 0);
    assert_int_equal(host.closed_process, 0);
    assert_int_equal(host_id(&again), 0);
    assert_true(again == here);
}

static void what_a_launcher_leaves_is_read_back(UNUSED void **state)
{
    static const char *const damaged[] = {"",
                                          "1:2",
                                          "0000000000000001:2:3 ",
                                          "0000000000000001:2:-3",
                                          "0000000000000001:2:03",
                                          "1:2:3",
                                          "0000000000000001:2:3:4"};
    struct host own, read;
    char text[HOST_TEXT_SIZE];

    assert_int_equal(host_read(&own), 0);
    host_text(&own, text);
    assert_true(host_parse(text, &read));
    assert_null(host_difference(&own, &read));
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++)
        if (host_parse(damaged[i], &read))
            fail_msg("\"%s\" is taken", damaged[i]);
    assert_null(host_difference(&own, &read)); /* as before */
    read.pid_namespace++;
    assert_string_equal(host_difference(&own, &read), "in another pid namespace");
    read.user_namespace++;
    assert_string_equal(host_difference(&own, &read), "in other user and pid namespaces");
    read.pid_namespace--;
    assert_string_equal(host_difference(&own, &read), "in another user namespace");
    read.boot++;
    assert_string_equal(host_difference(&own, &read), "on another machine");
}

static void keep_log(void *arg, UNUSED enum log_level level, const char *text)
{
    snprintf(arg, LOG_LINE_MAX, "%s", text);
}

/* Each of these calls is made to fail at each of its uses; after the last use nothing fails. */
static void every_failing_call_is_reported(UNUSED void **state)
{
    static const char *const names[] = {"open", "read", "fstat"};
    static const int counts[] = {3, 1, 2};
    char text[LOG_LINE_MAX];

    log_set_sink(keep_log, text);
    for (int i = 0; i < 3; i++) {
        for (int n = 1; n <= counts[i] + 1; n++) {
            uint64_t id = 5;
            int err;

            text[0] = '\0';
            assert_int_equal(sys_fail_name(names[i], n, EACCES), 0);
            err = host_id(&id);
            sys_fail_none();
            assert_int_equal(err, n <= counts[i] ? -EACCES : 0);
            assert_true((id == 5) == (err != 0));
            assert_true((strstr(text, "/proc/") != NULL) == (err != 0));
            assert_int_equal(sys_fds_live(), 0);
        }
    }
    log_set_sink(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_of_one_host_agree),
        cmocka_unit_test(a_pid_namespace_is_another_host),
        cmocka_unit_test(a_user_namespace_is_another_host),
        cmocka_unit_test(a_network_namespace_is_not),
        cmocka_unit_test(closed_processes_are_hosts_of_their_own),
        cmocka_unit_test(what_a_launcher_leaves_is_read_back),
        cmocka_unit_test(every_failing_call_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
