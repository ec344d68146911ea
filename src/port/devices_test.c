/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices_test.c - what mbx_device_get() lists.  This program is linked without libibverbs, so
 * there is no hardware for it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <matchbox/device.h>

static void every_backend_says_one_line(void **state)
{
    struct mbx_device_info info;
    unsigned count = 0;

    (void)state;
    for (; mbx_device_get(count, &info) == 0; count++) {
        assert_true(info.name[0] != '\0' && info.about[0] != '\0' && info.detail[0] != '\0');
        assert_null(strchr(info.detail, '\n'));
    }
    assert_true(count > 0);
    assert_int_equal(mbx_device_get(count, &info), -ENOENT);
    assert_int_equal(mbx_device_get(UINT32_MAX, &info), -ENOENT);
}

static void without_libibverbs_there_is_no_hardware(void **state)
{
    struct mbx_device_info info;
    unsigned index = 0;

    (void)state;
    do
        assert_int_equal(mbx_device_get(index++, &info), 0);
    while (strcmp(info.name, "verbs") != 0);
    assert_false(info.is_available);
    assert_true(strcmp(info.detail, "not built in") == 0 ||
                strcmp(info.detail, "this program is linked without libibverbs") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_backend_says_one_line),
        cmocka_unit_test(without_libibverbs_there_is_no_hardware),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
