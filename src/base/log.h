/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log.h - one line to standard error for what the user should know.
 *
 *   matchbox[4711]: warning: cross-memory attach is forbidden, large messages are copied, pid 4712
 *
 * Lowercase; a space precedes each value so that a double click selects it; the first function
 * that knows the cause reports it, once, with the remedy.  A line is one write(2), so lines of
 * several processes do not mix; it is cut at LOG_LINE_MAX bytes; control characters in it (text
 * from outside) and invalid UTF-8 become '?'.  errno survives every call here.
 *
 *   error   an operation of the user fails, or the library cannot go on
 *   warning it goes on, but not as the user would expect
 *   info    once per process: what was chosen
 *   debug   once per connection, or a rare event
 *   trace   each message
 *
 * The default level is warning.  A line below the level costs one relaxed load, and
 * its arguments are not evaluated.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LOG_LINE_MAX 1024

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_TRACE,
    LOG_LEVEL_COUNT
};

/* "error", "warn", "info", "debug", "trace", NULL: the choices of a parameter. */
extern const char *const log_level_names[LOG_LEVEL_COUNT + 1];

/* Receives each line without prefix and newline, instead of standard error. */
typedef void log_sink_fn(void *arg, enum log_level level, const char *text);

/* Lines above this level are dropped.  The whole process shares the setting. */
void log_level_set(enum log_level level);

/* sink NULL restores standard error.  Call it while no other thread logs. */
void log_set_sink(log_sink_fn *sink, void *arg);

/* Writes a line, whatever the level is; use the macros below. */
void log_write(enum log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reports an argument of a public call that is not allowed, in a line at debug level.  Returns
 * -EINVAL, for the call to return.
 *
 *   mbx_send: peer 9 : no such peer */
int log_argument(const char *call, const char *name, uint64_t value, const char *why);

extern _Atomic int log_level_now; /* read by log_is_on(), set by log_level_set() */

static inline bool log_is_on(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

#define LOG_AT(level, ...) (log_is_on(level) ? log_write(level, __VA_ARGS__) : (void)0)

#define LOG_ERROR(...)     LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)
#define LOG_WARN(...)      LOG_AT(LOG_LEVEL_WARN, __VA_ARGS__)
#define LOG_INFO(...)      LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_DEBUG(...)     LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define LOG_TRACE(...)     LOG_AT(LOG_LEVEL_TRACE, __VA_ARGS__)

#endif
