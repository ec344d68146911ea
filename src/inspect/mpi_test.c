/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_test.c - decodes envelopes as MPI libraries make them.
 *
 * The tags are composed from the fields in the headers of each MPI, bit by bit.
 */
#include "base/base.h"
#include "base/unit.h"
#include "inspect/mpi.h"

#define OPEN_MPI_4              "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, repo rev: v4.1.4"
#define MPICH_4_0               "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n"
#define MPICH_4_1               "MPICH Version:\t4.1.1\n"
#define MPICH_4_2               "MPICH Version:      4.2.0\n"
#define TAGGED                  1u
#define UNTAGGED                2u
#define HAS_DATA                (UINT64_C(1) << 63)
#define SYNCHRONOUS_OF_OPEN_MPI (UINT64_C(1) << 32)

static uint64_t open_mpi_tag(uint64_t communicator, int32_t tag)
{
    return communicator << 34 | (uint32_t)tag;
}

static uint64_t mpich_tag(uint64_t protocol, uint64_t number, uint64_t kind, uint32_t tag)
{
    return protocol << 51 | (number << 4 | kind) << 31 | tag;
}

static void check_words(const char *program, uint32_t context_id, uint64_t tag, uint64_t ignore,
                        uint32_t communicator, const char *expected)
{
    char words[INSPECT_MPI_WORDS];
    struct inspect_mpi mpi;

    assert_true(inspect_mpi_decode(inspect_mpi_layout(program), context_id, tag, ignore, &mpi));
    assert_int_equal(mpi.communicator, communicator);
    assert_string_equal(inspect_mpi_words(&mpi, words), expected);
}

static void test_component_of_open_mpi(UNUSED void **state)
{
    static const char program[] = "component " OPEN_MPI_4;

    check_words(program, 0, 7, 0, 0, "tag 7");
    check_words(program, 3, 0, INT32_MAX, 3, "any tag");
    check_words(program, 3, (uint32_t)-16, 0, 3, "barrier");
    check_words(program, 3, (uint32_t)-26, 0, 3, "scatterv");
    check_words(program, 3, (uint32_t)-27, 0, 3, "nonblocking collective number 1");
    check_words("component Open MPI v5.0.7", 3, (uint32_t)-27, 0, 3, "collective tag -27");
    check_words("component Open MPI v5.0.7", 3, (uint32_t)-33, 0, 3,
                "nonblocking collective number 1");
    check_words(program, 3, (uint32_t)-43, 0, 3, "nonblocking collective number 17");
    check_words(program, 3, (uint32_t)-1, 0, 3, "tag -1");
    /* the generation of the communicator is not a part of the tag */
    check_words(program, 3, UINT64_C(5) << 32 | 7, 0, 3, "tag 7");
    check_words(program, 3, UINT64_C(0x80000005) << 32, INT32_MAX, 3, "any tag");
    check_words(program, 3, UINT64_C(0x80000005) << 32 | (uint32_t)-17, 0, 3, "bcast");
}

static void test_generations_of_a_communicator(UNUSED void **state)
{
    const struct inspect_layout *layout = inspect_mpi_layout("component " OPEN_MPI_4);
    struct inspect_mpi mpi;

    assert_true(inspect_mpi_decode(layout, 3, UINT64_C(0x80000005) << 32 | 7, 0, &mpi));
    assert_int_equal(mpi.communicator, 3);
    assert_int_equal(mpi.generation, 0x80000005);
    assert_true(inspect_mpi_decode(inspect_mpi_layout("provider " OPEN_MPI_4), TAGGED,
                                   HAS_DATA | open_mpi_tag(5, 7), 0, &mpi));
    assert_int_equal(mpi.generation, 0);
}

static void test_provider_under_open_mpi(UNUSED void **state)
{
    static const char program[] = "provider " OPEN_MPI_4;
    uint64_t any = SYNCHRONOUS_OF_OPEN_MPI | INT32_MAX;

    check_words(program, TAGGED, HAS_DATA | open_mpi_tag(0, 7), 0, 0, "tag 7");
    check_words(program, TAGGED, HAS_DATA | open_mpi_tag(5, 7) | SYNCHRONOUS_OF_OPEN_MPI, 0, 5,
                "tag 7 synchronous");
    check_words(program, TAGGED, open_mpi_tag(5, 7) | 2 * SYNCHRONOUS_OF_OPEN_MPI, 0, 5,
                "tag 7 acknowledgement");
    /* a receive takes synchronous messages as well as others */
    check_words(program, TAGGED, open_mpi_tag(5, 7), HAS_DATA | SYNCHRONOUS_OF_OPEN_MPI, 5,
                "tag 7");
    check_words(program, TAGGED, open_mpi_tag(5, 0), HAS_DATA | any, 5, "any tag");
    check_words(program, TAGGED, open_mpi_tag((1u << 29) - 1, -17), 0, (1u << 29) - 1, "bcast");
}

static void test_provider_under_mpich(UNUSED void **state)
{
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(0, 0, 0, 7), 0, 0, "tag 7");
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(2, 4, 0, 7), 0, 4,
                "tag 7 synchronous");
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(1, 4, 0, 7), 0, 4,
                "tag 7 acknowledgement");
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(8, 4, 0, 7), 0, 4, "tag 7 protocol 8");
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(0, 4, 1, 1), 0, 4, "barrier");
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(0, 4, 1, 286), 0, 4,
                "collective tag 286");
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(0, 4, 1, 287), 0, 4,
                "nonblocking collective tag 287");
    /* as in MPI_Intercomm_create and MPI_Comm_create_group; a program may use such large tags
     * as well */
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(0, 0, 1, 1 << 28), 0, 0,
                "group collective tag 0");
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(0, 0, 1, 1 << 28 | 300), 0, 0,
                "group collective tag 300");
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(0, 0, 0, 1 << 28), 0, 0,
                "tag 268435456");
    check_words("provider " MPICH_4_2, TAGGED, mpich_tag(0, 4, 1, 300), 0, 4,
                "collective tag 300");
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(0, 4, 0, 300), 0, 4, "tag 300");
    check_words("provider " MPICH_4_0, TAGGED, mpich_tag(0, 4, 0, 0), INT32_MAX, 4, "any tag");
    check_words("provider " MPICH_4_1, TAGGED, mpich_tag(4, 4, 0, 7), 0, 4, "tag 7 protocol 4");
    check_words("provider " MPICH_4_2, TAGGED, mpich_tag(8, 4, 0, 7), 0, 4,
                "tag 7 synchronous");
}

static uint64_t ucp_tag(uint64_t number, uint64_t kind, uint64_t rank, uint32_t tag)
{
    return (number << 4 | kind) << 48 | rank << 32 | tag;
}

static void test_libucp_under_mpich(UNUSED void **state)
{
    static const uint64_t errors = UINT64_C(3) << 29, any_tag = 0x0fffffff,
                          any_source = UINT64_C(0xffff) << 32;
    const struct inspect_layout *layout = inspect_mpi_layout("ucp " MPICH_4_2);
    struct inspect_mpi mpi;

    check_words("ucp " MPICH_4_0, TAGGED, ucp_tag(0, 0, 5, 7), 0, 0, "tag 7");
    check_words("ucp " MPICH_4_0, TAGGED, ucp_tag(4, 0, 5, 7), errors, 4, "tag 7");
    check_words("ucp " MPICH_4_0, TAGGED, ucp_tag(4, 0, 0, 0), errors | any_tag, 4, "any tag");
    check_words("ucp " MPICH_4_0, TAGGED, ucp_tag(4095, 1, 65535, 1), errors, 4095, "barrier");
    check_words("ucp " MPICH_4_0, TAGGED, ucp_tag(4, 1, 5, 287), errors, 4,
                "nonblocking collective tag 287");
    check_words("ucp " MPICH_4_0, TAGGED, ucp_tag(0, 1, 5, 1 << 28), errors, 0,
                "group collective tag 0");
    check_words("ucp " MPICH_4_2, TAGGED, ucp_tag(0, 1, 5, 1 << 28), errors, 0,
                "group collective tag 0");
    /* the errors that MPICH marks are no part of the tag */
    check_words("ucp " MPICH_4_0, TAGGED, ucp_tag(4, 0, 5, 7) | errors, 0, 4, "tag 7");
    assert_true(inspect_mpi_decode(layout, TAGGED, ucp_tag(4, 0, 5, 7), errors, &mpi));
    assert_true(mpi.has_source && !mpi.is_any_source);
    assert_int_equal(mpi.source, 5);
    assert_true(inspect_mpi_decode(layout, TAGGED, ucp_tag(4, 0, 0, 7), any_source, &mpi));
    assert_true(mpi.has_source && mpi.is_any_source);
    assert_int_equal(inspect_mpi_source_bits(layout), any_source);
    assert_true(inspect_mpi_decode(inspect_mpi_layout("provider " MPICH_4_0), TAGGED,
                                   mpich_tag(0, 0, 0, 7), 0, &mpi));
    assert_false(mpi.has_source || mpi.is_any_source);
    assert_int_equal(inspect_mpi_source_bits(inspect_mpi_layout("provider " MPICH_4_0)), 0);
    assert_int_equal(inspect_mpi_source_bits(NULL), 0);
}

static void test_receives_that_are_kept_posted(UNUSED void **state)
{
    assert_true(inspect_mpi_is_kept_posted("ucp " MPICH_4_0, 2));
    assert_true(inspect_mpi_is_kept_posted("ucp " OPEN_MPI_4, 2));
    assert_false(inspect_mpi_is_kept_posted("ucp " MPICH_4_0, 1));
    assert_false(inspect_mpi_is_kept_posted("ucp " MPICH_4_0, 3));
    assert_false(inspect_mpi_is_kept_posted("provider " MPICH_4_0, 2));
    assert_false(inspect_mpi_is_kept_posted("", 2));
}

static void test_mpich_names_the_part_of_a_communicator(UNUSED void **state)
{
    const struct inspect_layout *layout = inspect_mpi_layout("provider " MPICH_4_0);
    struct inspect_mpi mpi;

    assert_true(inspect_mpi_decode(layout, TAGGED, mpich_tag(0, 4, 3, 2), 0, &mpi));
    assert_string_equal(mpi.part, "of a node");
    assert_true(mpi.is_of_node);
    assert_true(mpi.is_collective);
    assert_true(inspect_mpi_decode(layout, TAGGED, mpich_tag(0, 4, 4, 2), 0, &mpi));
    assert_string_equal(mpi.part, "of one rank per node");
    assert_false(mpi.is_of_node);
    assert_false(mpi.is_collective);
    assert_true(inspect_mpi_decode(layout, TAGGED, mpich_tag(0, 4, 8, 2), 0, &mpi));
    assert_string_equal(mpi.part, "local group");
    assert_false(mpi.is_of_node);
    assert_true(inspect_mpi_decode(layout, TAGGED, mpich_tag(0, 4, 0, 2), 0, &mpi));
    assert_null(mpi.part);
}

static void test_what_is_not_known_stays_numbers(UNUSED void **state)
{
    static const char *const unknown[] = {
        "",
        "component",
        "component ",
        "component Open MPI v",
        "component Open MPI v3.1.3",
        "component Open MPI v6.0.0",
        ("component " MPICH_4_0),
        "provider Open MPI v6.0.0",
        "provider Intel(R) MPI Library 2021.9 for Linux* OS",
        "provider MPICH Version:\t3.4.1",
        "provider MPICH Version:\t5.0.0",
        "ucp MPICH Version:\t5.0.0",
        ("ucp " OPEN_MPI_4),
        "provider MPICH Version:\tfour",
        "provider MPICH Version:\t4.4294967299",
        "providerOpen MPI v4.1.4",
        "somebody Open MPI v4.1.4",
    };
    struct inspect_mpi mpi;

    assert_null(inspect_mpi_layout(NULL));
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        if (inspect_mpi_layout(unknown[i]) != NULL)
            fail_msg("'%s' is known", unknown[i]);
    assert_false(inspect_mpi_decode(NULL, TAGGED, 7, 0, &mpi));
    assert_false(
        inspect_mpi_decode(inspect_mpi_layout("provider " OPEN_MPI_4), UNTAGGED, 7, 0, &mpi));
}

static void test_predefined_communicators_have_names(UNUSED void **state)
{
    const struct inspect_layout *layout = inspect_mpi_layout("component " OPEN_MPI_4);

    assert_string_equal(inspect_mpi_predefined(layout, 0), "MPI_COMM_WORLD");
    assert_string_equal(inspect_mpi_predefined(layout, 1), "MPI_COMM_SELF");
    assert_null(inspect_mpi_predefined(layout, 2));
    assert_null(inspect_mpi_predefined(NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_component_of_open_mpi),
        cmocka_unit_test(test_generations_of_a_communicator),
        cmocka_unit_test(test_provider_under_open_mpi),
        cmocka_unit_test(test_provider_under_mpich),
        cmocka_unit_test(test_libucp_under_mpich),
        cmocka_unit_test(test_receives_that_are_kept_posted),
        cmocka_unit_test(test_mpich_names_the_part_of_a_communicator),
        cmocka_unit_test(test_what_is_not_known_stays_numbers),
        cmocka_unit_test(test_predefined_communicators_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
