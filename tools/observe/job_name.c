/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * job_name.c - see job_name.h.
 */
#include "job_name.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/text.h"
#include "observe.h"
#include "tools/common/process.h"

#define ARGUMENTS_MAX 4096
#define PROGRAMS_MAX  2 /* programs named for a job */

/* ---- a program ---- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* The next argument, or NULL. */
static const char *next_argument(const char *argument, const char *end)
{
    const char *next = argument + strlen(argument) + 1;

    return next < end ? next : NULL;
}

/* Options of an interpreter: those with their value in the next argument, those with a program
 * there, and those with a module there. */
struct interpreter {
    const char *name; /* of the interpreter, possibly followed by a version */
    const char *with_value, *with_program, *with_module;
};

static const struct interpreter interpreters[] = {
    {"python", "WX", "c", "m"}, {"pypy", "WX", "c", "m"}, {"bash", "oO", "c", ""},
    {"sh", "o", "c", ""},       {"dash", "o", "c", ""},   {"zsh", "o", "c", ""},
    {"ksh", "o", "c", ""},      {"perl", "", "eE", ""},   {"ruby", "", "e", ""},
    {"Rscript", "", "e", ""},   {"julia", "", "eE", ""},  {"lua", "l", "e", ""},
};

static const struct interpreter *interpreter_of(const char *program)
{
    for (size_t i = 0; i < ARRAY_COUNT(interpreters); i++) {
        size_t length = strlen(interpreters[i].name);

        if (strncmp(program, interpreters[i].name, length) == 0 &&
            strspn(program + length, "0123456789.") == strlen(program + length))
            return &interpreters[i];
    }
    return NULL;
}

static bool is_one_of(const char *letters, char letter)
{
    return letter != '\0' && strchr(letters, letter) != NULL;
}

/* Finds the program of an interpreter: *script, or the option whose next argument is the
 * program text; neither if it reads a program from its input. */
static void find_script(const struct interpreter *interpreter, const char *argument,
                        const char *end, const char **script, const char **option)
{
    while ((argument = next_argument(argument, end)) != NULL && argument[0] == '-') {
        char letter = argument[1];

        if (strcmp(argument, "--") == 0) {
            *script = next_argument(argument, end);
            return;
        }
        if (is_one_of(interpreter->with_program, letter)) {
            *option = argument;
            return;
        }
        if (is_one_of(interpreter->with_module, letter)) {
            *script = argument[2] != '\0' ? argument + 2 : next_argument(argument, end);
            return;
        }
        if (is_one_of(interpreter->with_value, letter) && argument[2] == '\0' &&
            (argument = next_argument(argument, end)) == NULL)
            return;
    }
    *script = argument;
}

void job_program_of(const char *arguments, size_t size, char program[INSPECT_PROGRAM_TEXT])
{
    const char *end = arguments + size, *script = NULL, *option = NULL;
    const struct interpreter *interpreter;
    const char *name;

    program[0] = '\0';
    if (size == 0 || arguments[0] == '\0' || end[-1] != '\0')
        return;
    name = last_part(arguments);
    name += *name == '-'; /* login shells have a "-" in front */
    interpreter = interpreter_of(name);
    if (interpreter != NULL)
        find_script(interpreter, arguments, end, &script, &option);
    if (script != NULL && *script != '\0')
        snprintf(program, INSPECT_PROGRAM_TEXT, "%s", last_part(script));
    else
        snprintf(program, INSPECT_PROGRAM_TEXT, "%s%s%.2s", name, option != NULL ? " " : "",
                 option != NULL ? option : "");
    text_make_printable(program, '?', false);
}

/* ---- a process ---- */

/* Reads at most size - 1 bytes of a file of a process.  Returns their number. */
static size_t read_file(uint32_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    ssize_t got = 0, more;
    int fd;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/%s", pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while ((more = read(fd, text + got, size - 1 - (size_t)got)) > 0)
        got += more;
    close(fd);
    text[got] = '\0';
    return (size_t)got;
}

void job_name_rank(struct inspect_rank *rank)
{
    char text[ARGUMENTS_MAX];
    size_t size = read_file(rank->head.pid, "cmdline", text, sizeof text);
    uint64_t age_ns = process_age((pid_t)rank->head.pid), now_ns = clock_wall();

    if (size != 0) /* a longer text was truncated */
        job_program_of(text, text[size - 1] == '\0' ? size : size + 1, rank->program);
    rank->started =
        age_ns != 0 && now_ns > age_ns ? (uint32_t)((now_ns - age_ns) / CLOCK_S) : 0;
}

/* ---- a job ---- */

const char *job_program(const struct inspect_job *job, char words[JOB_WORDS])
{
    const char *known[PROGRAMS_MAX];
    size_t count = 0, used = 0;

    words[0] = '\0';
    for (uint32_t i = 0; i < job->count; i++) {
        const char *program = job->ranks[i].program;
        bool is_known = program[0] == '\0';

        for (size_t k = 0; k < count && !is_known; k++)
            is_known = strcmp(known[k], program) == 0;
        if (is_known)
            continue;
        if (count == PROGRAMS_MAX) {
            snprintf(words + used, JOB_WORDS - used, "+...");
            return words;
        }
        known[count++] = program;
        used += (size_t)snprintf(words + used, JOB_WORDS - used, "%s%s", used > 0 ? "+" : "",
                                 program);
    }
    return words;
}

uint32_t job_started(const struct inspect_job *job)
{
    uint32_t first = 0;

    for (uint32_t i = 0; i < job->count; i++)
        if (job->ranks[i].started != 0 && (first == 0 || job->ranks[i].started < first))
            first = job->ranks[i].started;
    return first;
}

static void time_words(uint32_t seconds, char words[32])
{
    time_t then = (time_t)seconds, now = (time_t)(clock_wall() / CLOCK_S);
    struct tm then_tm, now_tm;
    bool is_today = localtime_r(&then, &then_tm) != NULL &&
                    localtime_r(&now, &now_tm) != NULL && then_tm.tm_yday == now_tm.tm_yday &&
                    then_tm.tm_year == now_tm.tm_year;

    strftime(words, 32, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &then_tm);
}

const char *job_words(const struct inspect_job *job, char words[JOB_WORDS])
{
    uint32_t started = job_started(job);
    char when[32];
    size_t used;

    used = strlen(job_program(job, words));
    if (started == 0)
        return words;
    time_words(started, when);
    snprintf(words + used, JOB_WORDS - used, "%sstarted %s", used > 0 ? ", " : "", when);
    return words;
}

/* The first endpoint that is no further one of its rank. */
static const struct inspect_head *first_head(const struct inspect_job *job)
{
    uint32_t at = 0;

    while (observed_is_other(job, at))
        at++;
    return &job->ranks[at].head;
}

const char *job_title(const struct inspect_job *job, bool has_mpi, char text[JOB_TITLE])
{
    const struct inspect_head *head = first_head(job);
    int length = has_mpi ? (int)strcspn(head->mpi, ",") : 0;
    char words[JOB_WORDS];
    bool is_called = job_words(job, words)[0] != '\0';

    snprintf(text, JOB_TITLE, "job %016" PRIx64 "%s%s%s%.*s%s", head->job,
             is_called || length > 0 ? " (" : "", words, is_called && length > 0 ? ", " : "",
             length, head->mpi, is_called || length > 0 ? ")" : "");
    return text;
}

void job_print_parts(FILE *out, const struct inspect_job *job)
{
    char title[JOB_TITLE];
    uint32_t end;

    for (uint32_t begin = 0; begin < job->count; begin = end) {
        struct inspect_job part = {.ranks = &job->ranks[begin]};

        for (end = begin; end < job->count && job->ranks[end].part == part.ranks->part; end++)
            part.count++;
        if (part.ranks->part != 0)
            fprintf(out, "  job %" PRIu32 " of these is %s: %" PRIu32 " rank%s\n",
                    part.ranks->part + 1, job_title(&part, false, title), observed_ranks(&part),
                    observed_ranks(&part) == 1 ? "" : "s");
    }
}

/* ---- the argument of --job ---- */

uint64_t job_number(const char *text)
{
    size_t length = strlen(text);

    if (length == 0 || length > 16 || strspn(text, "0123456789abcdefABCDEF") != length)
        return 0;
    return strtoull(text, NULL, 16);
}

/* Is it this process, or did this process start it, or one of its ancestors?  Process 1 has
 * started all. */
static bool is_of_process(const struct inspect_rank *rank, uint32_t pid)
{
    pid_t at = (pid_t)rank->head.pid;
    bool is_here = rank->reported == NULL && rank->how != INSPECT_CORE;

    if (rank->head.pid == pid)
        return true;
    for (int i = 0; is_here && i < 64 && at > 1; i++) {
        at = process_parent(at);
        if (at > 1 && (uint32_t)at == pid)
            return true;
    }
    return false;
}

bool job_is_called(const struct inspect_job *job, const char *text)
{
    bool is_pid = strspn(text, "0123456789") == strlen(text) && strlen(text) < 10;
    uint32_t pid = is_pid ? (uint32_t)strtoul(text, NULL, 10) : 0;
    const char *program = last_part(text); /* of a path, by which it may have been started */
    char words[JOB_WORDS];

    if (job_number(text) != 0 && job_number(text) == job->ranks[0].head.job)
        return true;
    if (strcmp(job_program(job, words), program) == 0)
        return true;
    for (uint32_t i = 0; i < job->count; i++)
        if ((pid != 0 && is_of_process(&job->ranks[i], pid)) ||
            strcmp(job->ranks[i].program, program) == 0)
            return true;
    return false;
}
