/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices_absent_test.c - a library that was built without devices refuses settings that
 * request one, and is otherwise like any other.
 */
#include <errno.h>
#include <matchbox/device.h>
#include <matchbox/matchbox.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/unit.h"

static char said[600];
static int lines;

static void keep_line(UNUSED void *arg, enum log_level level, const char *text)
{
    (void)level;
    snprintf(said, sizeof said, "%s", text);
    lines++;
}

static int open_with(const char *param)
{
    const char *const params[] = {"TRANSPORT=shm", param, NULL};
    struct mbx_ep *ep;
    int err;

    lines = 0;
    err = mbx_open(&(struct mbx_config){.params = params}, &ep);
    if (err == 0)
        mbx_close(ep);
    return err;
}

static void refuses(const char *param)
{
    log_set_sink(keep_line, NULL);
    assert_int_equal(open_with(param), -EINVAL);
    log_set_sink(NULL, NULL);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(said, param));
    assert_non_null(strstr(said, "built without devices"));
}

static void what_asks_for_a_device_is_refused(UNUSED void **state)
{
    refuses("DEVICE=soft");
    refuses("DEVICE=soft-thread");
    refuses("DEVICE=soft-process");
    refuses("DEVICE=verbs");
    refuses("MATCH=device");
}

static void what_asks_for_none_is_not(UNUSED void **state)
{
    assert_int_equal(open_with("DEVICE=none"), 0);
    assert_int_equal(open_with("MATCH=software"), 0);
    assert_int_equal(open_with("DEVICE_LIST=7"), 0);
}

static void there_is_no_backend(UNUSED void **state)
{
    struct mbx_device_info info;

    assert_int_equal(mbx_device_get(0, &info, sizeof info), -ENOENT);
}

static void parameters_and_statistics_say_so(UNUSED void **state)
{
    struct mbx_param param;
    struct mbx_stat stat;
    int params = 0, stats = 0;

    for (unsigned i = 0; mbx_param_get(i, &param, sizeof param) == 0; i++)
        params += strstr(param.help, "without devices") != NULL;
    for (unsigned i = 0; mbx_stat_get(i, &stat, sizeof stat) == 0; i++)
        stats += strstr(stat.about, "without devices") != NULL;
    assert_int_equal(params, 6);
    assert_int_equal(stats, 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_asks_for_a_device_is_refused),
        cmocka_unit_test(what_asks_for_none_is_not),
        cmocka_unit_test(there_is_no_backend),
        cmocka_unit_test(parameters_and_statistics_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
