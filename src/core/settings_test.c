/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings_test.c - the table of parameters: its texts, that each default is a valid value,
 * that each wrong value is refused and the right ones are named, and the derived values.
 *
 * Some tests run without the extensions that testing/ registers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit.h"
#include "core/core.h"

static char said[600];

static void keep_line(UNUSED void *arg, enum log_level level, const char *text)
{
    (void)level;
    snprintf(said, sizeof said, "%s", text);
}

static const struct transport_extension *testing_transports;
static const struct tuning_extension *testing_tuning;

/* Removes the extensions of testing/. */
static int alone(UNUSED void **state)
{
    testing_transports = transport_extension;
    testing_tuning = tuning_extension;
    transport_extension = NULL;
    tuning_extension = NULL;
    log_set_sink(keep_line, NULL);
    return 0;
}

static int no_more_alone(UNUSED void **state)
{
    transport_extension = testing_transports;
    tuning_extension = testing_tuning;
    log_set_sink(NULL, NULL);
    return 0;
}

static int load(struct settings *settings, const char *name, const char *value)
{
    char text[600];
    const char *const overrides[] = {text, NULL};

    snprintf(text, sizeof text, "%s=%s", name, value);
    said[0] = '\0';
    return settings_load(settings, overrides);
}

static const char *const usual[] = {"LOG_LEVEL",     "TRANSPORT",
                                    "OFI_PROVIDER",  "OFI_INTERFACE",
                                    "OFI_TIMEOUT",   "THREADS",
                                    "EAGER_LIMIT",   "RNDV",
                                    "MATCH_AT",      "OVERSUBSCRIBED",
                                    "SPIN",          "PEER_TIMEOUT",
                                    "DEVICE",        "UNEXPECTED_MEMORY",
                                    "CLOSE_TIMEOUT", "MATCH",
                                    "STATS_FILE",    "KEY",
                                    "TRACE",         "BOOT",
                                    "BOOT_TIMEOUT",  "INSPECT",
                                    "LEAKS",         "STRICT_SENDS",
                                    "HANG",          "HANG_THEN",
                                    "VERBS_DEVICE",  "VERBS_TIMEOUT",
                                    "VERBS_PINNED",  "FLIGHT",
                                    "FLIGHT_FOLDER", "RECORD",
                                    "REPLAY",        "REPLAY_ON_DIVERGENCE",
                                    "SHUFFLE",       "TRACE_FOR"};
static const char *const advanced[] = {
    "REQUESTS",      "PEERS_MAX",    "WINDOW",           "SHM_ATTACH",    "WINDOW_PAYLOAD",
    "SHM_RING_SIZE", "DEVICE_LIST",  "DEVICE_THRESHOLD", "LAUNCHER_HOST", "VERBS_LIBRARY",
    "VERBS_GID",     "VERBS_WINDOW", "SHM_PASS",         "SHM_DIRECTORY", "DEVICE_TAG_FORMAT",
    "DEVICE_HOLDS",  "ADAPTER_*",    "EXPLORE_*"};

static bool has(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void users_see_these(UNUSED void **state)
{
    struct mbx_param param;
    unsigned count = 0;

    for (; mbx_param_get(count, &param, sizeof param) == 0; count++) {
        const char *name = param.name + strlen(PARAM_PREFIX);

        if (param.level == PARAM_USUAL ? !has(usual, ARRAY_COUNT(usual), name)
                                       : !has(advanced, ARRAY_COUNT(advanced), name))
            fail_msg("%s has level %u", param.name, param.level);
        assert_int_equal(param.is_set, 0);
        assert_string_equal(param.value, param.initial);
    }
    assert_int_equal(count, ARRAY_COUNT(usual) + ARRAY_COUNT(advanced));
}

/* No text is cut, and help and range fit into one line. */
static void texts_are_whole(UNUSED void **state)
{
    struct mbx_param param;

    for (unsigned i = 0; mbx_param_get(i, &param, sizeof param) == 0; i++) {
        assert_in_range(strlen(param.help), 10, sizeof param.help - 2);
        assert_in_range(strlen(param.range), 3, sizeof param.range - 2);
        assert_null(strpbrk(param.help, "\n|"));
        assert_true(param.help[strlen(param.help) - 1] != '.');
    }
}

static bool is_foreign(const struct mbx_param *param)
{
    return strcmp(param->name, "MBX_BOOT") == 0 ||
           strcmp(param->name, "MBX_LAUNCHER_HOST") == 0 ||
           strcmp(param->name, "MBX_ADAPTER_*") == 0 ||
           strcmp(param->name, "MBX_EXPLORE_*") == 0 ||
           strcmp(param->name, "MBX_RECORD") == 0 || strcmp(param->name, "MBX_REPLAY") == 0;
}

static void defaults_are_values(UNUSED void **state)
{
    struct mbx_param param;
    struct settings settings;

    for (unsigned i = 0; mbx_param_get(i, &param, sizeof param) == 0; i++)
        if (load(&settings, param.name, param.initial) != 0)
            fail_msg("%s=%s: %s", param.name, param.initial, said);
}

static void expect_refused(const struct mbx_param *param, const char *value)
{
    struct settings settings;
    char right[700];

    snprintf(right, sizeof right, "%s: \"%s\" is wrong, it must be %s", param->name, value,
             param->range);
    assert_int_equal(load(&settings, param->name, value), -EINVAL);
    assert_string_equal(said, right);
}

static void wrong_values_are_refused(UNUSED void **state)
{
    struct mbx_param param;
    char much[PARAM_STRING_MAX + 1];
    unsigned count = 0;

    memset(much, 'x', sizeof much - 1);
    much[sizeof much - 1] = '\0';
    for (unsigned i = 0; mbx_param_get(i, &param, sizeof param) == 0; i++) {
        if (is_foreign(&param))
            continue;
        count++;
        expect_refused(&param, much);
        if (strncmp(param.range, "text", 4) == 0)
            continue;
        expect_refused(&param, "");
        expect_refused(&param, "-1");
        expect_refused(&param, "nonsense");
        expect_refused(&param, "18446744073709551616");
    }
    assert_int_equal(count, ARRAY_COUNT(usual) + ARRAY_COUNT(advanced) - 6);
}

/* The values just outside a range, whose texts end with the unit. */
static void limits_are_limits(UNUSED void **state)
{
    static const char *const beyond[][2] = {
        {"EAGER_LIMIT", "2G"},
        {"OFI_TIMEOUT", "3601s"},
        {"REQUESTS", "0"},
        {"REQUESTS", "1073741825"},
        {"UNEXPECTED_MEMORY", "262145G"},
        {"WINDOW", "65535"},
        {"WINDOW_PAYLOAD", "4194177"},
        {"SPIN", "10001ms"},
        {"CLOSE_TIMEOUT", "3601s"},
        {"PEER_TIMEOUT", "19ms"},
        {"PEER_TIMEOUT", "3601s"},
        {"PEERS_MAX", "0"},
        {"PEERS_MAX", "65537"},
        {"DEVICE_LIST", "0"},
        {"DEVICE_LIST", "65537"},
        {"BOOT_TIMEOUT", "1000001s"},
        {"SHM_RING_SIZE", "4095"},
    };
    struct settings settings;
    char name[64];

    for (size_t i = 0; i < ARRAY_COUNT(beyond); i++) {
        snprintf(name, sizeof name, PARAM_PREFIX "%s: \"%s\"", beyond[i][0], beyond[i][1]);
        assert_int_equal(load(&settings, beyond[i][0], beyond[i][1]), -EINVAL);
        if (strncmp(said, name, strlen(name)) != 0)
            fail_msg("%s: %s", name, said);
    }
}

/* A former name gives one line, with the replacement. */
static void old_names_are_explained(UNUSED void **state)
{
    static const char *const old[][2] = {
        {"ANY_SOURCE", "MBX_MATCH_AT"},
        {"EARLY_DATA", "1K"},
        {"RTS_PAYLOAD", "1K"},
        {"READ_CHUNK", "1M"},
        {"INJECT_LIMIT", "8K"},
        {"SHM_PEERS", "MBX_PEERS_MAX"},
        {"SHM_FRONTS", "MBX_SHM_DIRECTORY"},
        {"EARLY_RECV", "MBX_RNDV"},
        {"EARLY_SIZE", "MBX_EAGER_LIMIT"},
        {"SHARE", "MBX_RNDV"},
        {"SHARE_SIZE", "MBX_RNDV"},
        {"HOLD_TAKE", "always"},
        {"DEVICE_SPIN", "MBX_SPIN"},
        {"DEVICE_ANSWER", "10s"},
        {"DEVICE_PROGRAM", "installed"},
        {"DEVICE_BUFFERS", "128"},
    };
    struct settings settings;
    char begin[100];

    for (size_t i = 0; i < ARRAY_COUNT(old); i++) {
        snprintf(begin, sizeof begin,
                 PARAM_PREFIX "%s is not a parameter any more: ", old[i][0]);
        assert_int_equal(load(&settings, old[i][0], "1"), -EINVAL);
        if (strncmp(said, begin, strlen(begin)) != 0 ||
            strstr(said + strlen(begin), old[i][1]) == NULL || strchr(said, '\n') != NULL)
            fail_msg("%s: %s", old[i][0], said);
    }
}

static void those_of_tests_are_unknown(UNUSED void **state)
{
    static const char *const names[] = {
        "LOOP_DEPTH", "FAULT_PERCENT", "FAULT_SEED", "FAULT_DIE",       "FAULT_HOST",
        "ADVERT",     "ADVERT_SIZE",   "SPLIT_COPY", "SPLIT_COPY_SIZE", "SENDTABLE"};
    struct settings settings;
    char begin[100];

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        snprintf(begin, sizeof begin, PARAM_PREFIX "%s is not a parameter", names[i]);
        assert_int_equal(load(&settings, names[i], "1"), -EINVAL);
        assert_memory_equal(said, begin, strlen(begin));
    }
    assert_int_equal(load(&settings, "TRANSPORT", "loop"), -EINVAL);
}

static void the_environment_is_named(UNUSED void **state)
{
    struct mbx_param param;

    setenv("MBX_SPIN", "1ms", 1); /* the default, but set */
    setenv("MBX_RNDV", "data", 1);
    for (unsigned i = 0; mbx_param_get(i, &param, sizeof param) == 0; i++)
        assert_int_equal(param.is_set, strcmp(param.name, "MBX_SPIN") == 0 ||
                                           strcmp(param.name, "MBX_RNDV") == 0);
    unsetenv("MBX_SPIN");
    unsetenv("MBX_RNDV");
}

static void rndv_says_which_protocols(UNUSED void **state)
{
    static const struct {
        const char *value;
        enum tuning_when advert, split_copy;
    } rows[] = {
        {"auto", TUNING_AUTO, TUNING_AUTO},      {"read", TUNING_OFF, TUNING_OFF},
        {"read+write", TUNING_AUTO, TUNING_OFF}, {"read+split", TUNING_OFF, TUNING_AUTO},
        {"write", TUNING_ALWAYS, TUNING_OFF},    {"split", TUNING_OFF, TUNING_ALWAYS},
        {"data", TUNING_OFF, TUNING_OFF},
    };
    struct settings settings;

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_int_equal(load(&settings, "RNDV", rows[i].value), 0);
        assert_int_equal(settings.tuning.advert, rows[i].advert);
        assert_int_equal(settings.tuning.split_copy, rows[i].split_copy);
    }
}

/* A sender without a place waits for another one to end, which may never happen. */
static void the_ranks_of_a_machine_have_places(UNUSED void **state)
{
    static const struct {
        const char *ranks, *all; /* on the machine, and in the job */
        uint64_t peers;
    } rows[] = {{"2", "2", 1024},       {"512", "600", 1024},       {"513", "513", 1026},
                {"4000", "4000", 8000}, {"50000", "100000", 65536}, {"x", "4000", 1024},
                {"4000", "x", 8000},    {"4000000000", "700", 1400}};
    struct settings settings;

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        setenv("OMPI_COMM_WORLD_LOCAL_SIZE", rows[i].ranks, 1);
        setenv("OMPI_COMM_WORLD_SIZE", rows[i].all, 1);
        assert_int_equal(load(&settings, "PEERS_MAX", "auto"), 0);
        assert_int_equal(settings.peers_max, rows[i].peers);
        assert_int_equal(load(&settings, "PEERS_MAX", "7"), 0);
        assert_int_equal(settings.peers_max, 7);
    }
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    assert_int_equal(load(&settings, "PEERS_MAX", "auto"), 0);
    assert_int_equal(settings.peers_max, 1024);
}

static void what_follows(UNUSED void **state)
{
    struct settings settings;

    assert_int_equal(load(&settings, "EAGER_LIMIT", "auto"), 0);
    assert_int_equal(settings.tuning.advert_size, 32 << 10);
    assert_int_equal(settings.tuning.split_copy_size, 48 << 10);
    assert_int_equal(settings.tuning.buffers_size, 512 << 10);
    assert_int_equal(settings.tuning.sendtable, 1);
    assert_int_equal(settings.tuning.calm_least, 256);
    assert_int_equal(settings.tuning.device_spin_ns, 20 * CLOCK_US);
    assert_int_equal(settings.tuning.device_answer_ns, 10 * CLOCK_S);
    assert_string_equal(settings.tuning.device_program, "");
    assert_int_equal(load(&settings, "EAGER_LIMIT", "100"), 0);
    assert_int_equal(settings.tuning.advert_size, 32 << 10);
    assert_int_equal(load(&settings, "EAGER_LIMIT", "100K"), 0);
    assert_int_equal(settings.tuning.advert_size, 200 << 10);
    assert_int_equal(settings.tuning.buffers_size, 100 << 10);
    assert_int_equal(load(&settings, "SPIN", "3us"), 0);
    assert_int_equal(settings.tuning.device_spin_ns, 3 * CLOCK_US);
}

static void senders_that_match_have_no_window(UNUSED void **state)
{
    static const char *const overrides[] = {"MATCH_AT=sender", "WINDOW=unlimited", "RNDV=write",
                                            NULL};
    struct settings settings;

    assert_int_equal(settings_load(&settings, overrides), 0);
    assert_int_equal(settings.window, 0);
    assert_int_equal(settings.window_payload, 0);
    assert_int_equal(settings.tuning.advert, TUNING_OFF);
    assert_int_equal(settings.tuning.sendtable, 0);
}

/* A test program that sets nothing has the same settings as the library alone. */
static void tests_begin_with_the_same(UNUSED void **state)
{
    struct settings with, without;

    memset(&with, 0, sizeof with);
    memset(&without, 0, sizeof without);
    assert_int_equal(settings_load(&without, NULL), 0);
    transport_extension = testing_transports;
    tuning_extension = testing_tuning;
    assert_int_equal(settings_load(&with, NULL), 0);
    assert_memory_equal(&with.tuning, &without.tuning, sizeof with.tuning);
    assert_int_equal(load(&with, "ADVERT_SIZE", "1"), 0);
    assert_int_equal(with.tuning.advert_size, 1);
    assert_int_equal(load(&with, "SPLIT_COPY", "always"), 0);
    assert_int_equal(with.tuning.split_copy, TUNING_ALWAYS);
    assert_int_equal(with.tuning.advert, TUNING_AUTO);
    transport_extension = NULL;
    tuning_extension = NULL;
}

#define ALONE(test) cmocka_unit_test_setup_teardown(test, alone, no_more_alone)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALONE(users_see_these),
        ALONE(texts_are_whole),
        ALONE(defaults_are_values),
        ALONE(wrong_values_are_refused),
        ALONE(limits_are_limits),
        ALONE(old_names_are_explained),
        ALONE(those_of_tests_are_unknown),
        ALONE(the_environment_is_named),
        ALONE(rndv_says_which_protocols),
        ALONE(the_ranks_of_a_machine_have_places),
        ALONE(what_follows),
        ALONE(senders_that_match_have_no_window),
        ALONE(tests_begin_with_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
