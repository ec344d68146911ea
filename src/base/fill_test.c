/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fill_test.c - earlier and later versions of a structure, in the caller and in the library.
 */
#include "base/fill.h"
#include "base/unit.h"

struct first {
    uint32_t a;
    char text[8];
};

struct second {
    uint32_t a;
    char text[8];
    uint64_t b;
};

struct third {
    struct second second;
    uint64_t c[3];
    unsigned char behind;
};

static const struct second known = {.a = 7, .text = "seven", .b = 77};

static void the_same_version_gets_all(UNUSED void **state)
{
    struct second out;

    memset(&out, 0xaa, sizeof out);
    assert_int_equal(FILL(&out, sizeof out, known, text), 0);
    assert_memory_equal(&out, &known, sizeof out);
}

static void an_earlier_version_gets_what_it_has_space_for(UNUSED void **state)
{
    struct second out;
    struct first *first = (struct first *)&out;

    memset(&out, 0xaa, sizeof out);
    assert_int_equal(FILL(first, sizeof *first, known, text), 0);
    assert_int_equal(first->a, 7);
    assert_string_equal(first->text, "seven");
    assert_int_equal(out.b, UINT64_C(0xaaaaaaaaaaaaaaaa));
}

static void a_later_version_finds_zero(UNUSED void **state)
{
    struct third out;

    memset(&out, 0xaa, sizeof out);
    assert_int_equal(FILL(&out, offsetof(struct third, behind), known, text), 0);
    assert_memory_equal(&out.second, &known, sizeof known);
    for (int i = 0; i < 3; i++)
        assert_int_equal(out.c[i], 0);
    assert_int_equal(out.behind, 0xaa);
}

static void less_than_the_first_version_is_refused(UNUSED void **state)
{
    struct second out;
    const size_t first = sizeof(struct first);

    memset(&out, 0xaa, sizeof out);
    assert_int_equal(FILL(&out, 0, known, text), -EINVAL);
    assert_int_equal(FILL(&out, first - 1, known, text), -EINVAL);
    assert_int_equal(out.a, 0xaaaaaaaa);
    assert_int_equal(FILL(&out, first, known, text), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_version_gets_all),
        cmocka_unit_test(an_earlier_version_gets_what_it_has_space_for),
        cmocka_unit_test(a_later_version_finds_zero),
        cmocka_unit_test(less_than_the_first_version_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
