/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices_test.c - the list of mbx_device_get().
 */
#include <errno.h>
#include <matchbox/device.h>
#include <string.h>

#include "base/unit.h"

static void every_backend_says_one_line(UNUSED void **state)
{
    struct mbx_device_info info;
    unsigned count = 0;

    for (; mbx_device_get(count, &info, sizeof info) == 0; count++) {
        assert_true(info.name[0] != '\0' && info.about[0] != '\0' && info.detail[0] != '\0');
        assert_null(strchr(info.detail, '\n'));
    }
    assert_true(count > 0);
    assert_int_equal(mbx_device_get(count, &info, sizeof info), -ENOENT);
    assert_int_equal(mbx_device_get(UINT32_MAX, &info, sizeof info), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_backend_says_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
