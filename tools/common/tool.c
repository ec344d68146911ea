/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tool.c - see tool.h.
 */
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/environ.h"
#include "base/host.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "base/param.h"

struct tool_title tool_title;

static void print_error(const struct tool *tool, const char *format, va_list args)
{
    char text[1024];

    vsnprintf(text, sizeof text, format, args);
    fprintf(stderr, "mbx %s: %s\n", tool->name, text);
}

void tool_error(const struct tool *tool, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_error(tool, format, args);
    va_end(args);
}

int tool_usage_error(const struct tool *tool, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print_error(tool, format, args);
    va_end(args);
    fprintf(stderr, "mbx %s --help explains the arguments\n", tool->name);
    return TOOL_USAGE;
}

/* The option in this argument that getopt_long() has just refused.  Some long options have
 * internal letters for getopt_long(), which users cannot write. */
static const char *refused_option(const char *argument)
{
    static char letter[3] = "-?";

    if (strncmp(argument, "--", 2) == 0)
        return argument;
    letter[1] = (char)optopt;
    return letter;
}

static const char *option_at(const void *list, size_t i)
{
    return ((const struct option *)list)[i].name;
}

/* The reason why an option of the form --name or --name=value is refused.  length: of
 * --name. */
static const char *refusal(const char *argument, size_t length, const struct option *options)
{
    unsigned count = 0;

    if (strncmp(argument, "--", 2) != 0)
        return "unknown option";
    for (; options->name != NULL; options++) {
        if (strncmp(options->name, argument + 2, length - 2) != 0)
            continue;
        count++;
        if (strlen(options->name) == length - 2)
            return "option takes no value";
    }
    return count == 0   ? "unknown option"
           : count == 1 ? "option takes no value"
                        : "ambiguous option";
}

/* Refuses an option, and suggests a similar one: "--frob" where there is --from. */
static int refuse_option(const struct tool *tool, const char *argument,
                         const struct option *options)
{
    size_t length = strcspn(argument, "=");
    char word[NEAREST_LENGTH_MAX + 1];
    const char *nearest = NULL;

    if (strncmp(argument, "--", 2) == 0 && length > 2 && length - 2 < sizeof word) {
        snprintf(word, sizeof word, "%.*s", (int)length - 2, argument + 2);
        nearest = tool_nearest(word, option_at, options);
    }
    if (nearest != NULL && strcmp(nearest, word) != 0)
        return tool_usage_error(tool, "unknown option: %s; did you mean --%s?", argument,
                                nearest);
    return tool_usage_error(tool, "%s: %s", refusal(argument, length, options), argument);
}

int tool_option(const struct tool *tool, int argc, char **argv, const char *letters,
                const struct option *options, int *status)
{
    const char *argument = optind < argc ? argv[optind] : ""; /* with the next option */
    int c;

    opterr = 0;
    c = getopt_long(argc, argv, letters, options, NULL);
    if (c == 'h') {
        fputs(tool->usage, stdout);
        *status = TOOL_DONE;
        return -2;
    }
    if (c == '?') {
        *status = refuse_option(tool, refused_option(argument), options);
        return -2;
    }
    if (c == ':') {
        *status = tool_usage_error(tool, "option needs a value: %s", refused_option(argument));
        return -2;
    }
    return c;
}

int tool_options_end(const struct tool *tool, int argc, char **argv, int option, int status)
{
    if (option == -2)
        return status == TOOL_DONE ? -1 : status;
    if (optind < argc)
        return tool_usage_error(tool, "unknown argument '%s'", argv[optind]);
    return 0;
}

const char *tool_nearest(const char *word, const char *(*at)(const void *list, size_t i),
                         const void *list)
{
    size_t length = strlen(word), least = nearest_limit(length);
    const char *nearest = NULL, *known;

    if (length > NEAREST_LENGTH_MAX)
        return NULL;
    for (size_t i = 0; (known = at(list, i)) != NULL; i++) {
        size_t known_length = strlen(known), distance;

        if (known_length > NEAREST_LENGTH_MAX)
            continue;
        /* a beginning counts as one wrong letter */
        distance = strncmp(word, known, min_size(length, known_length)) == 0
                       ? 1
                       : edit_distance(word, length, known, known_length);
        if (distance < least && distance < max_size(length, known_length)) {
            least = distance;
            nearest = known;
        }
    }
    return nearest;
}

int tool_flush(const char *name)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return TOOL_DONE;
    fprintf(stderr, "mbx%s%s: the output cannot be written: %s\n", name[0] != '\0' ? " " : "",
            name, strerror(errno));
    return TOOL_FAILED;
}

/* Reads decimal digits; *end is the text after them.  False if there are none, or too many. */
static bool parse_digits(const char *text, uint64_t *number, const char **end)
{
    uint64_t sum = 0;
    const char *p = text;

    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum))
            return false;
    *number = sum;
    *end = p;
    return p != text;
}

int tool_number(const struct tool *tool, const char *option, const char *text, uint64_t min,
                uint64_t max, uint64_t *number)
{
    uint64_t value;
    const char *end;

    if (!parse_digits(text, &value, &end) || *end != '\0' || value < min || value > max)
        return tool_usage_error(tool, "%s takes a number from %llu to %llu, not '%s'", option,
                                (unsigned long long)min, (unsigned long long)max, text);
    *number = value;
    return 0;
}

int tool_time(const struct tool *tool, const char *option, const char *text, const char *unit,
              uint64_t min_ns, uint64_t max_ns, uint64_t *ns)
{
    char min[32], max[32];
    uint64_t time_ns;

    if (!param_read_time(text, unit, &time_ns) || time_ns < min_ns || time_ns > max_ns)
        return tool_usage_error(
            tool,
            "%s takes a time from %s to %s with ns, us, ms or s, or a number of %s, not '%s'",
            option, param_time_text(min_ns, min, sizeof min),
            param_time_text(max_ns, max, sizeof max), unit, text);
    *ns = time_ns;
    return 0;
}

int tool_size(const struct tool *tool, const char *option, const char *text, uint64_t *size)
{
    uint64_t value;
    const char *end;
    unsigned shift = 0;

    if (!parse_digits(text, &value, &end))
        goto refuse;
    if (*end != '\0') {
        static const char units[] = "KkMmGgTt";
        const char *unit = strchr(units, *end);

        if (unit == NULL || end[1] != '\0')
            goto refuse;
        shift = 10 * (1 + (unsigned)(unit - units) / 2);
    }
    if (value > (UINT64_C(1) << 40) >> shift)
        goto refuse;
    *size = value << shift;
    return 0;

refuse:
    return tool_usage_error(tool, "%s takes a size such as 64K (K, M, G or T), not '%s'",
                            option, text);
}

/* 0, or the errno why path cannot be executed. */
static int executable_error(const char *path)
{
    struct stat status;

    if (stat(path, &status) < 0)
        return errno;
    if (S_ISDIR(status.st_mode))
        return EISDIR;
    return access(path, X_OK) < 0 ? errno : 0;
}

/* The best result over all directories in PATH: 0 or errno. */
static int search_path(const char *program)
{
    const char *path = environ_get("PATH");
    int best = ENOENT;

    for (const char *p = path != NULL ? path : "/bin:/usr/bin";; p++) {
        size_t length = strcspn(p, ":");
        char candidate[PATH_MAX];
        int n = snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length,
                         length > 0 ? p : ".", program);
        int error = n < (int)sizeof candidate ? executable_error(candidate) : ENAMETOOLONG;

        if (error == 0)
            return 0;
        if (error == EACCES)
            best = EACCES;
        p += length;
        if (*p == '\0')
            return best;
    }
}

static int program_error(const char *program)
{
    return strchr(program, '/') != NULL ? executable_error(program) : search_path(program);
}

bool tool_has_program(const char *program)
{
    return program_error(program) == 0;
}

int tool_find_program(const struct tool *tool, const char *program)
{
    int error = program_error(program);

    if (error == 0)
        return 0;
    tool_error(tool, "cannot run '%s': %s", program, strerror(error));
    return error == ENOENT || error == ENOTDIR ? TOOL_NOT_FOUND : TOOL_CANNOT_RUN;
}

void tool_leave_host(bool replaces)
{
    char text[HOST_TEXT_SIZE];
    struct host host;

    if (host_read(&host) != 0)
        return; /* the log has the reason */
    host_text(&host, text);
    (void)setenv(HOST_LAUNCHER, text, replaces);
}

char *tool_own_path(void)
{
    char *path = mem_alloc(PATH_MAX);
    ssize_t length;

    if (path == NULL)
        return NULL;
    length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length < 0) {
        mem_free(path);
        return NULL;
    }
    path[length] = '\0';
    return path;
}
