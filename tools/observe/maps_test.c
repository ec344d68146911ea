/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * maps_test.c - the ranges of this process, and the names of libraries.
 */
#include <unistd.h>

#include "base/unit.h"
#include "tools/observe/maps.h"

static void the_ranges_of_a_process_are_read(UNUSED void **state)
{
    const uint64_t code = (uint64_t)(uintptr_t)&the_ranges_of_a_process_are_read;
    const uint64_t stack = (uint64_t)(uintptr_t)&state;
    struct maps_range range;
    struct maps maps;
    int found = 0;

    assert_true(maps_open(&maps, (uint32_t)getpid()));
    while (maps_next(&maps, &range)) {
        assert_true(range.start < range.end);
        if (code >= range.start && code < range.end) {
            assert_string_equal(range.access, "r-xp");
            assert_true(maps_is_library(maps_file_name(range.path), "maps_test"));
            found++;
        }
        if (stack >= range.start && stack < range.end) {
            assert_memory_equal(range.access, "rw", 2);
            assert_int_equal(range.offset, 0);
            found++;
        }
    }
    assert_int_equal(found, 2);
    assert_int_not_equal(maps.left, 0);
    maps_close(&maps);
}

static void a_process_that_is_gone_has_none(UNUSED void **state)
{
    struct maps maps;

    assert_false(maps_open(&maps, INT32_MAX));
    maps_close(&maps);
}

static void a_library_has_its_name_and_no_longer_one(UNUSED void **state)
{
    assert_true(maps_is_library("libmpi.so.40.30.4", "libmpi"));
    assert_true(maps_is_library("libmpi_mpifh.so.40", "libmpi"));
    assert_true(maps_is_library("libmpi-1a2b3c.so.40", "libmpi"));
    assert_true(maps_is_library("libmpi.so (deleted)", "libmpi.so"));
    assert_false(maps_is_library("libmpifoo.so", "libmpi"));
    assert_false(maps_is_library("libmpi2.so", "libmpi"));
    assert_false(maps_is_library("libmpi.software", "libmpi.so"));
    assert_false(maps_is_library("mylibmpi.so", "libmpi"));
    assert_true(maps_is_library("mca_pml_ob1.so", "mca_"));
    assert_false(maps_is_library("mca.so", "mca_"));
    assert_true(maps_is_library("[vdso]", "[vdso]"));
    assert_string_equal(maps_file_name("/lib/libc.so.6"), "libc.so.6");
    assert_string_equal(maps_file_name("[vdso]"), "[vdso]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ranges_of_a_process_are_read),
        cmocka_unit_test(a_process_that_is_gone_has_none),
        cmocka_unit_test(a_library_has_its_name_and_no_longer_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
