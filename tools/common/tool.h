/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tool.h - what the commands of `mbx` have in common.
 *
 * A command gets the arguments from its own name on and returns the exit code: 0
 * done, 1 it failed, 2 the arguments are wrong (and one line named the one).
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
        *words; /* what may stand behind it, up to NULL; or NULL: files or nothing */
    int (*run)(const struct tool *tool, int argc, char **argv);
};

extern const struct tool tool_run, tool_exec, tool_info, tool_perf, tool_trace, tool_queues,
    tool_doctor, tool_top, tool_order, tool_races, tool_explore, tool_adapter_test;

/* The command line in memory, where other processes read it: [start, end). */
struct tool_title {
    char *start, *end;
};
extern struct tool_title tool_title;

/* Of this program, or "unknown". */
extern const char tool_commit[];

/* Prints "mbx NAME: MESSAGE" to standard error. */
void tool_error(const struct tool *tool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, and how to get help; returns TOOL_USAGE. */
int tool_usage_error(const struct tool *tool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* getopt_long() that stops at the first argument that is no option, handles --help
 * and complains about wrong options.  Returns the option; -1 at the end; -2 stop and
 * exit with *status. */
int tool_option(const struct tool *tool, int argc, char **argv, const char *letters,
                const struct option *options, int *status);

/* Ends the options of a command that has no arguments.  option and status are what
 * tool_option() said last.
 * 0; -1 the command is done (--help); or its exit status, after saying what is wrong. */
int tool_options_end(const struct tool *tool, int argc, char **argv, int option, int status);

/* Of these words, the one that is most like word, or NULL if none is near.  at(i) is NULL at the
 * end. */
const char *tool_nearest(const char *word, const char *(*at)(const void *list, size_t i),
                         const void *list);

/* 0; TOOL_FAILED after saying so, if what was printed did not get where it should. */
int tool_flush(const char *name);

/* The decimal number text of an option, min..max; size allows K, M, G and T behind it.
 * 0, or TOOL_USAGE after naming what is wrong. */
int tool_number(const struct tool *tool, const char *option, const char *text, uint64_t min,
                uint64_t max, uint64_t *number);
int tool_size(const struct tool *tool, const char *option, const char *text, uint64_t *size);

/* The time text of an option, in nanoseconds; a number alone is of this unit ("s", "ms").
 * 0, or TOOL_USAGE after naming what is wrong. */
int tool_time(const struct tool *tool, const char *option, const char *text, const char *unit,
              uint64_t min_ns, uint64_t max_ns, uint64_t *ns);

/* Whether execvp() would find program: 0, or TOOL_NOT_FOUND or TOOL_CANNOT_RUN after
 * saying why. */
int tool_find_program(const struct tool *tool, const char *program);

/* Leaves to the processes to come where this one is, so that ranks in containers of their own know
 * it (base/host.h).  What is set stays, unless replaces. */
void tool_leave_host(bool replaces);

/* The path of this program, or NULL if the system does not tell.  Freed with
 * mem_free(). */
char *tool_own_path(void);

#endif
