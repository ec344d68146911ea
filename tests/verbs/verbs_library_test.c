/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_library_test.c - libibverbs is loaded when hardware is requested, and may be missing.
 *
 * This program is not linked with it, and wraps dlopen(): it counts the calls, and loads
 * another file instead.  The result is kept for the life of a process, so each case runs in a
 * child.
 */
#include <errno.h>
#include <matchbox/device.h>
#include <matchbox/matchbox.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unit.h"
#include "device/verbs/verbs.h"

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);

static const char *instead; /* of every file; NULL: the file itself */
static unsigned opened;

void *__wrap_dlopen(const char *name, int flags)
{
    opened++;
    return __real_dlopen(instead != NULL ? instead : name, flags);
}

/* Runs a case in a process of its own; the case returns 0, or the number of the check that
 * failed. */
static void in_child(int (*run)(void))
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(run());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int has_no_hardware(const char *because)
{
    struct mbx_device *device;
    char line[160];

    if (verbs_explain(line, sizeof line) || strncmp(line, because, strlen(because)) != 0) {
        fprintf(stderr, "said: %s\n", line);
        return 1;
    }
    if (verbs_open(&(struct verbs_config){0}, &device) != -EOPNOTSUPP)
        return 2;
    return opened != 1 ? 3 : 0;
}

static int look_for_a_missing_file(void)
{
    instead = "libmatchbox_no_such_library.so.1";
    return has_no_hardware("libibverbs cannot be loaded: libmatchbox_no_such_library.so.1");
}

static int look_into_another_file(void)
{
    instead = "libc.so.6";
    return has_no_hardware("libibverbs.so.1 lacks ibv_");
}

static void without_the_library_there_is_no_hardware(UNUSED void **state)
{
    in_child(look_for_a_missing_file);
    in_child(look_into_another_file);
}

/* Opens an endpoint over shared memory, and lists everything that does not need libibverbs. */
static int use_none_of_it(void)
{
    const char *params[] = {"TRANSPORT=shm", NULL};
    struct mbx_config config = {.params = params};
    struct mbx_device_info info;
    struct mbx_ep *ep;

    if (mbx_open(&config, &ep) != 0 || mbx_close(ep) != 0)
        return 1;
    if (mbx_device_get(0, &info, sizeof info) != 0)
        return 2;
    return opened != 0 ? 3 : 0;
}

static void nothing_is_loaded_that_is_not_used(UNUSED void **state)
{
    in_child(use_none_of_it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_library_there_is_no_hardware),
        cmocka_unit_test(nothing_is_loaded_that_is_not_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
