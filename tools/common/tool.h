/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tool.h - functions that the commands of `mbx` share.
 *
 * A command gets the arguments from its own name on and returns the exit code: 0
 * success, 1 failure, 2 a wrong argument (and one line named it).
 */
#ifndef TOOLS_TOOL_H
#define TOOLS_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tool_exit {
    TOOL_DONE = 0,
    TOOL_FAILED = 1,
    TOOL_USAGE = 2,
    TOOL_TIMEOUT = 124,
    TOOL_CANNOT_RUN = 126,
    TOOL_NOT_FOUND = 127,
    TOOL_SIGNAL = 128 /* plus the signal's number */
};

struct option; /* <getopt.h> */

struct tool {
    const char *name;
    const char *about;            /* one line */
    const char *usage;            /* the whole help text */
    const struct option *options; /* for completion */
    const char *const
        *words; /* possible words after it, up to NULL; or NULL: files or nothing */
    int (*run)(const struct tool *tool, int argc, char **argv);
    bool
        is_inner; /* another command calls run() in a process that it has made: what is executed takes its place */
};

extern const struct tool tool_run, tool_exec, tool_info, tool_perf, tool_trace, tool_queues,
    tool_doctor, tool_top, tool_order, tool_races, tool_explore, tool_adapter_test;

/* The command line in memory, as other processes see it: [start, end). */
struct tool_title {
    char *start, *end;
};
extern struct tool_title tool_title;

/* The commit that this program was built from, or "unknown". */
extern const char tool_commit[];

/* Prints "mbx NAME: MESSAGE" to standard error. */
void tool_error(const struct tool *tool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* As tool_error(), and says how to get help; returns TOOL_USAGE. */
int tool_usage_error(const struct tool *tool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* getopt_long() that stops at the first argument that is not an option, handles --help and
 * reports wrong options.  Returns the option; -1 at the end; -2: stop and exit with *status. */
int tool_option(const struct tool *tool, int argc, char **argv, const char *letters,
                const struct option *options, int *status);

/* Ends the options of a command without arguments.  option and status come from the last
 * tool_option().  0; -1: the command is done (--help); or its exit status, after an error
 * message. */
int tool_options_end(const struct tool *tool, int argc, char **argv, int option, int status);

/* The word of the list most similar to `word`, or NULL if none is similar.  at(i) is NULL at
 * the end. */
const char *tool_nearest(const char *word, const char *(*at)(const void *list, size_t i),
                         const void *list);

/* Flushes standard output.  0; or TOOL_FAILED after an error message, if some output was
 * lost. */
int tool_flush(const char *name);

/* The decimal number text of an option, min..max; tool_size() allows K, M, G and T after it. 0,
 * or TOOL_USAGE after an error message. */
int tool_number(const struct tool *tool, const char *option, const char *text, uint64_t min,
                uint64_t max, uint64_t *number);
int tool_size(const struct tool *tool, const char *option, const char *text, uint64_t *size);

/* The time text of an option, in nanoseconds; a number alone has this unit ("s", "ms").  0, or
 * TOOL_USAGE after an error message. */
int tool_time(const struct tool *tool, const char *option, const char *text, const char *unit,
              uint64_t min_ns, uint64_t max_ns, uint64_t *ns);

/* Would execvp() find program? */
bool tool_has_program(const char *program);

/* Would execvp() find program?  0, or TOOL_NOT_FOUND or TOOL_CANNOT_RUN after an error
 * message. */
int tool_find_program(const struct tool *tool, const char *program);

/* Passes the identity of this host to child processes, so that ranks in separate containers
 * know it (base/host.h).  An existing value stays, unless `replaces`. */
void tool_leave_host(bool replaces);

/* The path of this program, or NULL if the system does not report it.  Freed with
 * mem_free(). */
char *tool_own_path(void);

#endif
