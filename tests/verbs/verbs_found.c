/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_found.c - which adapter a device uses, and the message if there is none.
 */
#include "verbs_groups.h"

#include <errno.h>
#include <stdlib.h>

#include "adapter/abi.h"
#include "base/base.h"
#include "verbs_bench.h"

static void explain(const char *devices, bool is_there, const char *expected)
{
    char line[160];

    setenv(ADAPTER_ENV_DEVICES, devices, 1);
    assert_int_equal(verbs_explain(line, sizeof line), is_there);
    assert_string_equal(line, expected);
    unsetenv(ADAPTER_ENV_DEVICES);
}

static void one_line_says_what_there_is(UNUSED void **state)
{
    explain("1", true, "available (mbx0: max_num_tags 127)");
    explain("0", false, "libibverbs finds no device");
    explain("2", true, "available (mbx0: max_num_tags 127, mbx1: max_num_tags 127)");
}

static void a_device_can_be_named(UNUSED void **state)
{
    struct mbx_device *device = NULL;

    setenv(ADAPTER_ENV_DEVICES, "2", 1);
    assert_int_equal(verbs_open(&(struct verbs_config){.name = "mbx1"}, &device), 0);
    assert_string_equal(ibv_get_device_name(verbs_of(device)->context->device), "mbx1");
    device->ops->close(device);
    assert_int_equal(verbs_open(&(struct verbs_config){.name = "mbx2"}, &device), -ENODEV);
    unsetenv(ADAPTER_ENV_DEVICES);
}

static void an_adapter_that_does_not_match_is_refused(UNUSED void **state)
{
    struct mbx_device *device = NULL;
    char line[160];

    assert_int_equal(verbs_open(&(struct verbs_config){0}, &device), -EOPNOTSUPP);
    assert_false(verbs_explain(line, sizeof line));
    assert_string_equal(line, "no device matches tags in hardware (mbx0: max_num_tags 0)");
}

static const struct CMUnitTest found[] = {
    cmocka_unit_test(one_line_says_what_there_is),
    cmocka_unit_test(a_device_can_be_named),
};
const struct verbs_group verbs_found = {"verbs found", found, ARRAY_COUNT(found)};

static const struct CMUnitTest without_tags[] = {
    cmocka_unit_test(an_adapter_that_does_not_match_is_refused),
};
const struct verbs_group verbs_without_tags = {"verbs without tags", without_tags,
                                               ARRAY_COUNT(without_tags)};
