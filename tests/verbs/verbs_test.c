/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_test.c - the verbs device over the software adapter: the conformance suite, with lists
 * of several lengths and with each way in which adapters may differ, and tests of behaviour
 * that only such hardware has (verbs_groups.h).
 *
 * The daemon of the adapter ends with its last application, so each group of tests keeps a
 * context of its own open, and the next group gets another daemon with other quirks.
 */
#include "verbs_groups.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "adapter/library/library.h"
#include "base/base.h"
#include "base/patience.h"
#include "base/temporary.h"
#include "device/verbs/verbs_state.h"
#include "testing/device/verbs_target.h"
#include "transport/verbs/verbs_library.h"

/* ---- the adapter ----------------------------------------------------------------------- */

static char log_name[TEMPORARY_SIZE];

static int daemon_of(struct ibv_context *context)
{
    const int fd = (int)syscall(SYS_pidfd_open, lib_context(context)->pid, 0);

    assert_true(fd >= 0);
    return fd;
}

static void await_end(int pidfd)
{
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};

    assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
    close(pidfd);
}

/* Opens the context of a group of tests: one daemon. */
static struct ibv_context *open_adapter(const char *quirks)
{
    struct ibv_context *context;
    struct ibv_device **list;

    setenv(ADAPTER_ENV_QUIRKS, quirks, 1);
    assert_int_equal(verbs_library_load(), 0);
    list = ibv_get_device_list(NULL);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

static void close_adapter(struct ibv_context *context)
{
    const int pidfd = daemon_of(context);

    assert_int_equal(ibv_close_device(context), 0);
    await_end(pidfd);
}

/* The daemon dies, like an adapter that is pulled out. */
static void kill_daemon(struct ibv_context *context)
{
    const int pidfd = daemon_of(context);

    assert_int_equal(syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0), 0);
    await_end(pidfd);
}

static void lose(void *instance)
{
    const struct verbs_target *t = instance;

    kill_daemon(verbs_of(t->device)->context);
}

static void the_daemons_have_not_complained(UNUSED void **state)
{
    struct stat status;

    assert_int_equal(stat(log_name, &status), 0);
    temporary_show(log_name);
    assert_int_equal(status.st_size, 0);
}

/* ---- all -------------------------------------------------------------------------------- */

static int conformance(const char *quirks, uint32_t list, bool is_brief, bool can_be_lost)
{
    struct conformance_target target = verbs_target;
    struct ibv_context *context = can_be_lost ? NULL : open_adapter(quirks);
    char name[100];
    int failed;

    snprintf(name, sizeof name, "device conformance: verbs, list %u, quirks '%s'", list,
             quirks);
    setenv(ADAPTER_ENV_QUIRKS, quirks, 1);
    target.name = name;
    target.list = list;
    target.is_brief = is_brief;
    target.lose = can_be_lost ? lose : NULL;
    failed = conformance_run(&target);
    if (context != NULL)
        close_adapter(context);
    return failed;
}

static int run(const struct verbs_group *group, const char *quirks)
{
    struct ibv_context *context = open_adapter(quirks);
    int failed = _cmocka_run_group_tests(group->name, group->tests, group->count, NULL, NULL);

    close_adapter(context);
    return failed;
}

static void prepare(const char *adapter)
{
    int fd;

    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        printf("in the network namespace of everybody: %s\n", strerror(errno));
    fd = mkstemp(temporary_name(log_name, "daemons"));
    assert_true(fd >= 0);
    close(fd);
    setenv(ADAPTER_ENV_LOG, log_name, 1);
    unsetenv(ADAPTER_ENV_INTERFACE);
    verbs_use(adapter);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest last[] = {cmocka_unit_test(the_daemons_have_not_complained)};
    static const uint32_t lists[] = {1, 2, 16, 127};
    static const char *const quirks[] = {"recv,sync", "apart,fin-recv", "eager-only", "dawdle",
                                         "recv,fin-recv,sync,apart,dawdle"};
    int failed = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: verbs_test libmbx-adapter.so\n");
        return 2;
    }
    prepare(argv[1]);
    failed += run(&verbs_bits, "");
    failed += run(&verbs_messages, "");
    failed += run(&verbs_receives, "");
    failed += run(&verbs_found, "");
    failed += run(&verbs_broken, "");
    failed += run(&verbs_without_rendezvous, "eager-only");
    setenv(ADAPTER_ENV_TAGS, "0", 1);
    failed += run(&verbs_without_tags, "");
    unsetenv(ADAPTER_ENV_TAGS);
    for (size_t i = 0; i < ARRAY_COUNT(lists); i++)
        failed += conformance("", lists[i], i > 0, false);
    for (size_t i = 0; i < ARRAY_COUNT(quirks); i++)
        failed += conformance(quirks[i], 16, true, false);
    failed += conformance("", 16, true, true);
    failed += _cmocka_run_group_tests("verbs daemons", last, 1, NULL, NULL);
    unlink(log_name);
    return failed;
}
