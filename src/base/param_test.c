/* SPDX-License-Identifier: BSD-3-Clause */
/* param_test.c - every type, every kind of error, and its message. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/unit.h"

struct settings {
    uint64_t ring_size, peers, spin, patience, attach, transport, anything, slots, window,
        share;
    char directory[PARAM_STRING_MAX];
};

static const char *const transports[] = {"loop", "shm", "ofi", NULL};
static const char *const words[] = {"auto", "unlimited", NULL};

static const struct param table[] = {
    {.name = "RING_SIZE",
     .type = PARAM_SIZE,
     .default_text = "64K",
     .min = 4096,
     .max = 1u << 30,
     .offset = offsetof(struct settings, ring_size)},
    {.name = "PEERS",
     .type = PARAM_COUNT,
     .unit = "peers",
     .default_text = "8",
     .min = 1,
     .max = 65536,
     .offset = offsetof(struct settings, peers)},
    {.name = "SPIN",
     .type = PARAM_TIME,
     .default_text = "50us",
     .max = 1000000000,
     .offset = offsetof(struct settings, spin)},
    {.name = "ATTACH",
     .type = PARAM_BOOL,
     .default_text = "yes",
     .offset = offsetof(struct settings, attach)},
    {.name = "TRANSPORT",
     .type = PARAM_CHOICE,
     .default_text = "shm",
     .choices = transports,
     .offset = offsetof(struct settings, transport)},
    {.name = "ANYTHING", .type = PARAM_SIZE, .offset = offsetof(struct settings, anything)},
    {.name = "RING_SLOTS", .type = PARAM_COUNT, .offset = offsetof(struct settings, slots)},
    {.name = "DIRECTORY", .type = PARAM_STRING, .offset = offsetof(struct settings, directory)},
    {.name = "WINDOW",
     .type = PARAM_COUNT,
     .unit = "messages",
     .default_text = "auto",
     .max = 100,
     .choices = words,
     .offset = offsetof(struct settings, window)},
    {.name = "SHARE",
     .type = PARAM_SIZE,
     .default_text = "unlimited",
     .choices = words,
     .offset = offsetof(struct settings, share)},
    {.name = "RUN_*", .type = PARAM_FOREIGN},
    {.name = "SPINS", .type = PARAM_GONE, .help = "it is MBX_SPIN now"},
    {.name = "PATIENCE",
     .type = PARAM_TIME,
     .unit = "s",
     .max = UINT64_C(3600000000000),
     .offset = offsetof(struct settings, patience)},
};

static const struct param *row(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static char error[512];

/* Loads with up to one variable and one override; either may be NULL. */
static int load(struct settings *s, const char *variable, const char *override)
{
    const char *environment[] = {"PATH=/bin", variable, NULL};
    const char *overrides[] = {override, NULL};

    snprintf(error, sizeof error, "untouched");
    return param_load_from(table, ARRAY_COUNT(table), s, environment, overrides, error,
                           sizeof error);
}

static void expect_refusal(const char *variable, const char *expected)
{
    struct settings s, before;

    memset(&s, 0x5a, sizeof s);
    before = s;
    assert_int_equal(load(&s, variable, NULL), -EINVAL);
    assert_string_equal(error, expected);
    assert_memory_equal(&s, &before, sizeof s);
}

static uint64_t number(const char *variable, size_t offset)
{
    struct settings s;

    if (load(&s, variable, NULL) != 0)
        fail_msg("%s: %s", variable, error);
    assert_string_equal(error, "untouched");
    return *(uint64_t *)(void *)((char *)&s + offset);
}

#define VALUE(variable, member) number(variable, offsetof(struct settings, member))

static void test_defaults(UNUSED void **state)
{
    struct settings s;

    memset(&s, 0x5a, sizeof s);
    assert_int_equal(load(&s, NULL, NULL), 0);
    assert_int_equal(s.ring_size, 65536);
    assert_int_equal(s.peers, 8);
    assert_int_equal(s.spin, 50000);
    assert_int_equal(s.attach, 1);
    assert_int_equal(s.transport, 1);
    assert_int_equal(s.anything, 0);
    assert_string_equal(s.directory, "");
}

static void test_good_values(UNUSED void **state)
{
    assert_int_equal(VALUE("MBX_RING_SIZE=4096", ring_size), 4096);
    assert_int_equal(VALUE("MBX_RING_SIZE=4k", ring_size), 4096);
    assert_int_equal(VALUE("MBX_RING_SIZE=2M", ring_size), 2u << 20);
    assert_int_equal(VALUE("MBX_RING_SIZE=1GiB", ring_size), 1u << 30);
    assert_int_equal(VALUE("MBX_ANYTHING=18446744073709551615", anything), UINT64_MAX);
    assert_int_equal(VALUE("MBX_ANYTHING=0", anything), 0);
    assert_int_equal(VALUE("MBX_PEERS=65536", peers), 65536);
    assert_int_equal(VALUE("MBX_PEERS=65536 peers", peers), 65536); /* as ranges are shown */
    assert_int_equal(VALUE("MBX_SPIN=0", spin), 0);
    assert_int_equal(VALUE("MBX_SPIN=7ns", spin), 7);
    assert_int_equal(VALUE("MBX_SPIN=7us", spin), 7000);
    assert_int_equal(VALUE("MBX_SPIN=7ms", spin), 7000000);
    assert_int_equal(VALUE("MBX_SPIN=1s", spin), 1000000000);
    assert_int_equal(VALUE("MBX_ATTACH=on", attach), 1);
    assert_int_equal(VALUE("MBX_ATTACH=TRUE", attach), 1);
    assert_int_equal(VALUE("MBX_ATTACH=1", attach), 1);
    assert_int_equal(VALUE("MBX_ATTACH=no", attach), 0);
    assert_int_equal(VALUE("MBX_ATTACH=off", attach), 0);
    assert_int_equal(VALUE("MBX_ATTACH=false", attach), 0);
    assert_int_equal(VALUE("MBX_ATTACH=0", attach), 0);
    assert_int_equal(VALUE("MBX_TRANSPORT=loop", transport), 0);
    assert_int_equal(VALUE("MBX_TRANSPORT=OFI", transport), 2);
}

/* A word is stored as a number that cannot be written as digits. */
static void test_words_in_place_of_numbers(UNUSED void **state)
{
    struct settings s;

    assert_int_equal(load(&s, NULL, NULL), 0);
    assert_int_equal(s.window, UINT64_MAX);
    assert_int_equal(s.share, UINT64_MAX - 1);
    assert_int_equal(VALUE("MBX_WINDOW=auto", window), UINT64_MAX);
    assert_int_equal(VALUE("MBX_WINDOW=Unlimited", window), UINT64_MAX - 1);
    assert_int_equal(VALUE("MBX_WINDOW=0", window), 0);
    assert_int_equal(VALUE("MBX_WINDOW=100", window), 100);
    assert_int_equal(VALUE("MBX_SHARE=AUTO", share), UINT64_MAX);
    assert_int_equal(VALUE("MBX_SHARE=64K", share), 65536);
    expect_refusal("MBX_WINDOW=101",
                   "MBX_WINDOW: \"101\" is wrong, it must be 0..100 messages|auto|unlimited");
    expect_refusal("MBX_WINDOW=aut",
                   "MBX_WINDOW: \"aut\" is wrong, it must be 0..100 messages|auto|unlimited");
    assert_int_equal(load(&s, "MBX_WINDOW=18446744073709551615", NULL), -EINVAL);
    assert_int_equal(load(&s, "MBX_SHARE=none", NULL), -EINVAL);
}

static void test_strings_and_their_limit(UNUSED void **state)
{
    char variable[16 + PARAM_STRING_MAX] = "MBX_DIRECTORY=";
    size_t start = strlen(variable);
    struct settings s;

    assert_int_equal(load(&s, "MBX_DIRECTORY=/tmp/a=b", NULL), 0);
    assert_string_equal(s.directory, "/tmp/a=b");
    assert_int_equal(load(&s, "MBX_DIRECTORY=", NULL), 0);
    assert_string_equal(s.directory, "");
    memset(variable + start, 'x', PARAM_STRING_MAX - 1);
    variable[start + PARAM_STRING_MAX - 1] = '\0';
    assert_int_equal(load(&s, variable, NULL), 0);
    assert_string_equal(s.directory, variable + start);
    memset(variable + start, 'x', PARAM_STRING_MAX);
    assert_int_equal(load(&s, variable, NULL), -EINVAL);
    assert_non_null(strstr(error, "text of at most 255 bytes"));
}

/* Digits alone have the unit of the parameter, if it has one. */
static void test_times_are_read_alike(UNUSED void **state)
{
    static const char *const minutes[] = {"MBX_PATIENCE=60", "MBX_PATIENCE=60s",
                                          "MBX_PATIENCE=60000ms", "MBX_PATIENCE=60000000us"};
    struct settings s;
    char text[32];
    uint64_t ns;

    for (size_t i = 0; i < sizeof minutes / sizeof minutes[0]; i++) {
        assert_int_equal(load(&s, minutes[i], NULL), 0);
        assert_int_equal(s.patience, UINT64_C(60000000000));
    }
    expect_refusal("MBX_PATIENCE=3601", "MBX_PATIENCE: \"3601\" is wrong, it must be 0..3600s");
    expect_refusal("MBX_PATIENCE=60 s", "MBX_PATIENCE: \"60 s\" is wrong, it must be 0..3600s");
    assert_true(param_read_time("0", NULL, &ns) && ns == 0);
    assert_true(param_read_time("300", "ms", &ns) && ns == 300000000);
    assert_false(param_read_time("300", NULL, &ns));
    assert_false(param_read_time("99999999999", "s", &ns)); /* more than 2^64 ns */
    assert_false(param_read_time("", "s", &ns));
    assert_string_equal(param_time_text(300000000, text, sizeof text), "300ms");
}

static void test_bad_values_are_explained(UNUSED void **state)
{
    expect_refusal("MBX_RING_SIZE=4T", "MBX_RING_SIZE: \"4T\" is wrong, it must be 4K..1G");
    expect_refusal("MBX_RING_SIZE=4095", "MBX_RING_SIZE: \"4095\" is wrong, it must be 4K..1G");
    expect_refusal("MBX_RING_SIZE=2G", "MBX_RING_SIZE: \"2G\" is wrong, it must be 4K..1G");
    expect_refusal("MBX_RING_SIZE= 4K", "MBX_RING_SIZE: \" 4K\" is wrong, it must be 4K..1G");
    expect_refusal("MBX_RING_SIZE=4K ", "MBX_RING_SIZE: \"4K \" is wrong, it must be 4K..1G");
    expect_refusal("MBX_RING_SIZE=-1", "MBX_RING_SIZE: \"-1\" is wrong, it must be 4K..1G");
    expect_refusal("MBX_RING_SIZE=0x1000",
                   "MBX_RING_SIZE: \"0x1000\" is wrong, it must be 4K..1G");
    expect_refusal(
        "MBX_ANYTHING=18446744073709551616",
        "MBX_ANYTHING: \"18446744073709551616\" is wrong, it must be a size such as 64K");
    expect_refusal(
        "MBX_ANYTHING=99999999999999999999999",
        "MBX_ANYTHING: \"99999999999999999999999\" is wrong, it must be a size such as 64K");
    expect_refusal("MBX_ANYTHING=16777216T",
                   "MBX_ANYTHING: \"16777216T\" is wrong, it must be a size such as 64K");
    expect_refusal(
        "MBX_ANYTHING=18014398509481984K",
        "MBX_ANYTHING: \"18014398509481984K\" is wrong, it must be a size such as 64K");
    expect_refusal("MBX_PEERS=0", "MBX_PEERS: \"0\" is wrong, it must be 1..65536 peers");
    expect_refusal("MBX_PEERS=4K", "MBX_PEERS: \"4K\" is wrong, it must be 1..65536 peers");
    expect_refusal("MBX_PEERS=4 slots",
                   "MBX_PEERS: \"4 slots\" is wrong, it must be 1..65536 peers");
    expect_refusal(
        "MBX_SPIN=5",
        "MBX_SPIN: \"5\" is wrong, it must be 0..1s, with its unit: ns, us, ms or s");
    expect_refusal("MBX_SPIN=2s", "MBX_SPIN: \"2s\" is wrong, it must be 0..1s");
    expect_refusal("MBX_ATTACH=maybe", "MBX_ATTACH: \"maybe\" is wrong, it must be yes|no");
    expect_refusal("MBX_TRANSPORT=tcp",
                   "MBX_TRANSPORT: \"tcp\" is wrong, it must be loop|shm|ofi");
}

/* An empty variable counts as not set; an override must have a value. */
static void test_empty_variables_are_not_set(UNUSED void **state)
{
    struct settings s;

    assert_int_equal(load(&s, "MBX_RING_SIZE=", NULL), 0);
    assert_int_equal(s.ring_size, 64 << 10);
    assert_int_equal(load(&s, "MBX_WINDOW=", NULL), 0);
    assert_int_equal(s.window, UINT64_MAX);
    assert_int_equal(load(&s, NULL, "RING_SIZE="), -EINVAL);
}

static void test_unknown_names_suggest_the_nearest(UNUSED void **state)
{
    struct settings s;

    expect_refusal("MBX_RNG_SIZE=4K",
                   "MBX_RNG_SIZE is not a parameter, the nearest is MBX_RING_SIZE");
    expect_refusal("MBX_RING_SIZ=4K", /* MBX_RING_SLOTS is also near */
                   "MBX_RING_SIZ is not a parameter, the nearest is MBX_RING_SIZE");
    expect_refusal("MBX_transport=shm",
                   "MBX_transport is not a parameter, the nearest is MBX_TRANSPORT");
    expect_refusal("MBX_SPINN=1us", "MBX_SPINN is not a parameter, the nearest is MBX_SPIN");
    expect_refusal("MBX_SIZE_RING=1", "MBX_SIZE_RING is not a parameter");
    expect_refusal("MBX_XYZZY=1", "MBX_XYZZY is not a parameter");
    expect_refusal("MBX_=1", "MBX_ is not a parameter");
    assert_int_equal(load(&s, NULL, "PERS=3"), -EINVAL);
    assert_string_equal(error, "MBX_PERS is not a parameter, the nearest is MBX_PEERS");
}

static void test_very_long_unknown_name(UNUSED void **state)
{
    char variable[1000] = "MBX_";

    memset(variable + 4, 'A', sizeof variable - 7);
    variable[sizeof variable - 3] = '=';
    assert_int_equal(load(&(struct settings){0}, variable, NULL), -EINVAL);
    assert_int_equal(strlen(error), sizeof error - 1); /* cut, and terminated */
}

/* Names that are gone are refused even if a neighbour is near, and are never suggested. */
static void test_names_that_are_gone(UNUSED void **state)
{
    struct settings s;

    expect_refusal("MBX_SPINS=1us",
                   "MBX_SPINS is not a parameter any more: it is MBX_SPIN now");
    expect_refusal("MBX_SPINS=", "MBX_SPINS is not a parameter any more: it is MBX_SPIN now");
    expect_refusal("MBX_SPINST=1us", "MBX_SPINST is not a parameter, the nearest is MBX_SPIN");
    assert_int_equal(load(&s, NULL, "SPINS=1us"), -EINVAL);
    assert_string_equal(error, "MBX_SPINS is not a parameter any more: it is MBX_SPIN now");
}

static void test_foreign_names_are_left_alone(UNUSED void **state)
{
    struct settings s;

    assert_int_equal(load(&s, "MBX_RUN_RANK=whatever", NULL), 0);
    assert_int_equal(load(&s, "MBX_RUN_=", NULL), 0);
    assert_int_equal(load(&s, "MBX_RUN=1", NULL), -EINVAL);
    assert_int_equal(load(&s, "NOTMBX_PEERS=nonsense", NULL), 0);
}

static void test_overrides_win_with_and_without_prefix(UNUSED void **state)
{
    struct settings s;

    assert_int_equal(load(&s, "MBX_PEERS=3", "PEERS=4"), 0);
    assert_int_equal(s.peers, 4);
    assert_int_equal(load(&s, "MBX_PEERS=3", "MBX_PEERS=5"), 0);
    assert_int_equal(s.peers, 5);
    assert_int_equal(load(&s, "MBX_PEERS=3", NULL), 0);
    assert_int_equal(s.peers, 3);
    assert_int_equal(load(&s, NULL, "PEERS"), -EINVAL);
    assert_string_equal(error, "MBX_PEERS: a value is missing, write PEERS=VALUE");
    assert_int_equal(load(&s, "MBX_PEERS=bad", "PEERS=4"),
                     -EINVAL); /* bad values are refused even if overridden */
}

static void test_process_environment_is_read(UNUSED void **state)
{
    const char *overrides[] = {"SPIN=1ms", NULL};
    struct settings s;

    setenv("MBX_PEERS", "77", 1);
    assert_int_equal(param_load(table, ARRAY_COUNT(table), &s, overrides, error, sizeof error),
                     0);
    unsetenv("MBX_PEERS");
    assert_int_equal(s.peers, 77);
    assert_int_equal(s.spin, 1000000);
}

static void test_what_is_formatted_reads_back(UNUSED void **state)
{
    static const char *const texts[] = {
        "RING_SIZE=4K",   "RING_SIZE=4097", "RING_SIZE=1G",    "ANYTHING=0",
        "ANYTHING=1025M", "PEERS=1024",     "SPIN=0",          "SPIN=50us",
        "SPIN=1s",        "SPIN=1001ns",    "ATTACH=no",       "ATTACH=yes",
        "DIRECTORY=/x",   "TRANSPORT=ofi",  "DIRECTORY=",      "ANYTHING=16777215G",
        "WINDOW=auto",    "WINDOW=7",       "SHARE=unlimited", "SHARE=4K"};
    char text[PARAM_STRING_MAX], name[32];
    struct settings s;

    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        size_t length = strcspn(texts[i], "=");
        const struct param *p;

        snprintf(name, sizeof name, "%.*s", (int)length, texts[i]);
        p = row(name);
        assert_non_null(p);
        assert_int_equal(load(&s, NULL, texts[i]), 0);
        assert_string_equal(param_format(p, &s, text, sizeof text), texts[i] + length + 1);
    }
}

static void test_range_texts(UNUSED void **state)
{
    static const struct {
        const char *name, *text;
    } expected[] = {
        {"RING_SIZE", "4K..1G"},
        {"PEERS", "1..65536 peers"},
        {"SPIN", "0..1s"},
        {"ATTACH", "yes|no"},
        {"TRANSPORT", "loop|shm|ofi"},
        {"ANYTHING", "a size such as 64K"},
        {"WINDOW", "0..100 messages|auto|unlimited"},
        {"DIRECTORY", "text of at most 255 bytes"},
    };
    char text[64];

    for (size_t i = 0; i < ARRAY_COUNT(expected); i++) {
        assert_string_equal(param_range_text(row(expected[i].name), text, sizeof text),
                            expected[i].text);
    }
    assert_string_equal(param_range_text(&table[4], text, 6), "loop|"); /* cut */
}

static void test_no_memory(UNUSED void **state)
{
    struct settings s;

    mem_fail_at(1);
    assert_int_equal(load(&s, NULL, NULL), -ENOMEM);
    mem_fail_at(0);
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_good_values),
        cmocka_unit_test(test_words_in_place_of_numbers),
        cmocka_unit_test(test_strings_and_their_limit),
        cmocka_unit_test(test_times_are_read_alike),
        cmocka_unit_test(test_bad_values_are_explained),
        cmocka_unit_test(test_empty_variables_are_not_set),
        cmocka_unit_test(test_unknown_names_suggest_the_nearest),
        cmocka_unit_test(test_very_long_unknown_name),
        cmocka_unit_test(test_names_that_are_gone),
        cmocka_unit_test(test_foreign_names_are_left_alone),
        cmocka_unit_test(test_overrides_win_with_and_without_prefix),
        cmocka_unit_test(test_process_environment_is_read),
        cmocka_unit_test(test_what_is_formatted_reads_back),
        cmocka_unit_test(test_range_texts),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
