/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leaks_test.c - MBX_LEAKS=warn reports at close the messages that nobody has received.
 */
#include "cluster.h"

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"

#define CONTEXT 71

static char said[4096];

static void keep_line(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    if (level == LOG_LEVEL_WARN && strstr(text, " ends with ") != NULL)
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", text);
}

static void inject(struct cluster *cl, uint64_t tag, size_t size)
{
    assert_int_equal(mbx_inject(cl->eps[0], 1, CONTEXT, tag, seeded_bytes(0, size), size, 0),
                     0);
    cluster_settle(cl);
}

/* Collects the warnings of endpoint 1 when it closes after two messages of each kind, with tags
 * from 8 on. */
static void close_with(const void *config, const char *setting, unsigned kinds, bool is_posted)
{
    const char *const more[] = {setting, NULL};
    struct cluster cl;
    mbx_request request;
    char into;

    said[0] = '\0';
    log_set_sink(keep_line, NULL);
    cluster_open(&cl, config, 2, more);
    for (unsigned kind = 0; kind < kinds; kind++) {
        inject(&cl, 8 + kind, 4);
        inject(&cl, 8 + kind, 4);
    }
    if (is_posted)
        assert_int_equal(mbx_recv(cl.eps[1], 0, CONTEXT, 7, 0, &into, 1, NULL, &request), 0);
    cluster_close_one(&cl, 1);
    cluster_close(&cl);
    log_set_sink(NULL, NULL);
}

/* A configuration with a small window keeps messages beyond it at their sender, which warns
 * about them. */
static void test_messages(void **state)
{
    if (config_window(*state) < 20)
        return;
    close_with(*state, "LEAKS=warn", 1, false);
    assert_non_null(strstr(said, "ends with 2 messages that nobody received: 2 from peer 0, "
                                 "context 71, tag 8, 4 bytes\n"));
    close_with(*state, "LEAKS=warn", 7, false);
    assert_non_null(strstr(said, "ends with 14 messages that nobody received"));
    assert_non_null(strstr(said, "tag 12, 4 bytes; and others"));
    assert_null(strstr(said, "tag 13"));
}

static void test_receives(void **state)
{
    close_with(*state, "LEAKS=warn", 0, true);
    assert_non_null(
        strstr(said, "ends with 1 receives that matched no message: 1 from peer 0, context 71, "
                     "tag 7, 1 bytes\n"));
}

static void test_silent(void **state)
{
    close_with(*state, "LEAKS=warn", 0, false);
    assert_string_equal(said, "");
    close_with(*state, "LEAKS=off", 0, true);
    assert_string_equal(said, "");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_receives),
        cmocka_unit_test(test_silent),
    };

    return test_main(argc, argv, tests, ARRAY_COUNT(tests));
}
