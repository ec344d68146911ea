/* SPDX-License-Identifier: BSD-3-Clause */
/* log_test.c - levels, sinks, and the line that reaches standard error. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unit.h"

struct seen {
    int count;
    enum log_level level;
    char text[LOG_LINE_MAX];
};

static void remember(void *arg, enum log_level level, const char *text)
{
    struct seen *seen = arg;

    errno = EBADF; /* as a failing write would set it */
    seen->count++;
    seen->level = level;
    snprintf(seen->text, sizeof seen->text, "%s", text);
}

static int reset(UNUSED void **state)
{
    log_set_sink(NULL, NULL);
    log_level_set(LOG_LEVEL_WARN);
    return 0;
}

static int evaluated;

static int evaluate(void)
{
    return ++evaluated;
}

static void test_each_level_lets_through_what_is_above_it(UNUSED void **state)
{
    for (int level = 0; level < LOG_LEVEL_COUNT; level++) {
        struct seen seen = {0};

        log_set_sink(remember, &seen);
        log_level_set((enum log_level)level);
        LOG_ERROR("e");
        LOG_WARN("w");
        LOG_INFO("i");
        LOG_DEBUG("d");
        LOG_TRACE("t %d", evaluate());
        assert_int_equal(seen.count, level + 1);
        assert_int_equal(seen.level, level);
    }
    assert_int_equal(evaluated, 1); /* at trace only */
}

static void test_sink_gets_the_bare_text(UNUSED void **state)
{
    struct seen seen = {0};

    log_set_sink(remember, &seen);
    LOG_WARN("size %d of %s", 7, "peer");
    assert_string_equal(seen.text, "size 7 of peer");
    assert_int_equal(seen.level, LOG_LEVEL_WARN);
}

static void test_errno_survives(UNUSED void **state)
{
    struct seen seen = {0};

    log_set_sink(remember, &seen);
    errno = EXDEV;
    LOG_ERROR("text");
    assert_int_equal(errno, EXDEV);
}

/* Captures the output of LOG_WARN("%s", text) on standard error. */
static size_t captured(const char *text, char *line, size_t size)
{
    int saved = dup(STDERR_FILENO);
    int fds[2];
    ssize_t got;

    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    dup2(fds[1], STDERR_FILENO);
    LOG_WARN("%s", text);
    dup2(saved, STDERR_FILENO);
    got = read(fds[0], line, size - 1);
    close(saved);
    close(fds[0]);
    close(fds[1]);
    assert_true(got >= 0);
    line[got] = '\0';
    return (size_t)got;
}

static void test_line_has_process_level_and_newline(UNUSED void **state)
{
    char line[2 * LOG_LINE_MAX], expected[100];

    captured("text value", line, sizeof line);
    snprintf(expected, sizeof expected, "matchbox[%ld]: warning: text value\n", (long)getpid());
    assert_string_equal(line, expected);
}

static void test_foreign_text_cannot_add_lines(UNUSED void **state)
{
    char line[2 * LOG_LINE_MAX];

    captured("a\nmatchbox[1]: error: b\033[2J\x7f", line, sizeof line);
    assert_non_null(strstr(line, "a?matchbox[1]: error: b?[2J?\n"));
}

static void test_long_line_is_cut_and_ends(UNUSED void **state)
{
    char text[3 * LOG_LINE_MAX], line[4 * LOG_LINE_MAX];
    size_t length;

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    length = captured(text, line, sizeof line);
    assert_int_equal(length, LOG_LINE_MAX);
    assert_int_equal(line[length - 1], '\n');
    assert_int_equal(line[length - 2], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_each_level_lets_through_what_is_above_it, reset),
        cmocka_unit_test_teardown(test_sink_gets_the_bare_text, reset),
        cmocka_unit_test_teardown(test_errno_survives, reset),
        cmocka_unit_test_teardown(test_line_has_process_level_and_newline, reset),
        cmocka_unit_test_teardown(test_foreign_text_cannot_add_lines, reset),
        cmocka_unit_test_teardown(test_long_line_is_cut_and_ends, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
