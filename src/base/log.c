/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.c - a line is composed on the stack and leaves in one write.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/text.h"

/* The words in a line; "warning" reads better than the name of the level. */
static const char *const level_words[] = {
    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARN] = "warning", [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug", [LOG_LEVEL_TRACE] = "trace",
};
static_assert(ARRAY_COUNT(level_words) == LOG_LEVEL_COUNT, "a level is missing");

const char *const log_level_names[LOG_LEVEL_COUNT + 1] = {"error", "warn",  "info",
                                                          "debug", "trace", NULL};

_Atomic int log_level_now = LOG_LEVEL_WARN;

static log_sink_fn *log_sink;
static void *log_sink_arg;

void log_level_set(enum log_level level)
{
    assert(level < LOG_LEVEL_COUNT);
    atomic_store_explicit(&log_level_now, (int)level, memory_order_relaxed);
}

void log_set_sink(log_sink_fn *sink, void *arg)
{
    log_sink = sink;
    log_sink_arg = arg;
}

/* line has space for one more byte than its text. */
static void write_line(char *line, size_t length)
{
    ssize_t written;

    line[length++] = '\n';
    do {
        written = write(STDERR_FILENO, line, length);
    } while (written < 0 && errno == EINTR);
    /* another failure cannot be reported */
}

int log_argument(const char *call, const char *name, uint64_t value, const char *why)
{
    LOG_DEBUG("%s: %s %llu : %s", call, name, (unsigned long long)value, why);
    return -EINVAL;
}

void log_write(enum log_level level, const char *format, ...)
{
    char line[LOG_LINE_MAX + 1]; /* LOG_LINE_MAX with the newline, then the zero */
    size_t prefix;
    int saved_errno = errno;
    va_list args;

    prefix = (size_t)snprintf(line, sizeof line, "matchbox[%ld]: %s: ", (long)getpid(),
                              level_words[level]);
    va_start(args, format);
    if (vsnprintf(line + prefix, LOG_LINE_MAX - prefix, format, args) < 0)
        line[prefix] = '\0';
    va_end(args);
    /* text from outside must not start lines of its own or contain commands to the terminal */
    text_make_printable(line + prefix, '?', false);
    if (log_sink != NULL)
        log_sink(log_sink_arg, level, line + prefix);
    else
        write_line(line, strlen(line));
    errno = saved_errno;
}
