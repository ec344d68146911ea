/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * text_test.c - lines of a page are read one at a time, with any names of communicators.
 */
#include <string.h>

#include "base/unit.h"
#include "inspect/text.h"

static void read_names(const char *text, struct inspect_line *lines, unsigned wanted)
{
    const char *at = text;
    struct inspect_line end;

    for (unsigned i = 0; i < wanted; i++)
        assert_true(inspect_text_line(&at, &lines[i]));
    assert_false(inspect_text_line(&at, &end));
}

static void test_a_name_may_be_empty(UNUSED void **state)
{
    struct inspect_line lines[4];

    read_names("context 5 2 \npeer 1 0\ncontext 6 2\ncontext 7 3 the halo\n", lines, 4);
    assert_int_equal(lines[0].kind, INSPECT_LINE_CONTEXT);
    assert_int_equal(lines[0].number, 5);
    assert_int_equal(lines[0].value, 2);
    assert_string_equal(lines[0].name, "");
    assert_int_equal(lines[1].kind, INSPECT_LINE_PEER);
    assert_int_equal(lines[1].number, 1);
    assert_int_equal(lines[1].value, 0);
    assert_int_equal(lines[2].kind, INSPECT_LINE_CONTEXT);
    assert_string_equal(lines[2].name, "");
    assert_int_equal(lines[3].number, 7);
    assert_string_equal(lines[3].name, "the halo");
}

static void test_a_number_ends_with_its_line(UNUSED void **state)
{
    struct inspect_line lines[2];

    read_names("peer 1\n7\n", lines, 2);
    assert_int_equal(lines[0].kind, INSPECT_LINE_OTHER);
    assert_int_equal(lines[1].kind, INSPECT_LINE_OTHER);
    read_names("context 3\n4 x", lines, 2);
    assert_int_equal(lines[0].kind, INSPECT_LINE_OTHER);
}

static void test_what_is_no_such_line_is_passed_over(UNUSED void **state)
{
    static const char *const wrong[] = {"context",
                                        "context 4294967296 1 x",
                                        "context -1 2 x",
                                        "peer  1 2",
                                        "peer 1 2x",
                                        "peer +1 2",
                                        "peers 1 2",
                                        "context 1 2x",
                                        "peer 99999999999999999999 1"};
    struct inspect_line line;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        read_names(wrong[i], &line, 1);
        assert_int_equal(line.kind, INSPECT_LINE_OTHER);
    }
}

static void test_a_long_name_is_cut(UNUSED void **state)
{
    char text[200] = "context 1 2 ";
    struct inspect_line line;

    memset(text + strlen(text), 'x', 150);
    read_names(text, &line, 1);
    assert_int_equal(strlen(line.name), INSPECT_NAME_TEXT - 1);
}

/* A program may call a communicator " read_fallbacks=7". */
static void test_statistics_are_in_the_first_line(UNUSED void **state)
{
    static const char text[] = "rank=0 sent_bytes_eager=10 sent_bytes_rndv=5 read_fallbacks=3\n"
                               "context 5 2  read_fallbacks=7 sent_bytes_eager=9\n";

    assert_int_equal(inspect_text_sum(text, "read_fallbacks="), 3);
    assert_int_equal(inspect_text_sum(text, "sent_bytes_"), 15);
    assert_int_equal(inspect_text_sum(text, "bytes_"), 0);
    assert_int_equal(inspect_text_sum("\ncontext 5 2  read_fallbacks=7\n", "read_fallbacks="),
                     0);
    assert_int_equal(inspect_text_sum(NULL, "read_fallbacks="), 0);
    assert_string_equal(inspect_text_names("\npeer 1 0\n"), "peer 1 0\n");
    assert_null(inspect_text_names("no line ends"));
    assert_null(inspect_text_names(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_may_be_empty),
        cmocka_unit_test(test_a_number_ends_with_its_line),
        cmocka_unit_test(test_what_is_no_such_line_is_passed_over),
        cmocka_unit_test(test_a_long_name_is_cut),
        cmocka_unit_test(test_statistics_are_in_the_first_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
