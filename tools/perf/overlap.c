/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap.c - `mbx perf overlap`: one pair of ranks for each mode, one table of all.
 *
 *   mbx perf overlap --modes A,B         lines, then the table
 *    ├─ launcher, parameters of A  ── pipe ──> lines
 *    │   └─ two ranks: mbx perf overlap --sizes ...
 *    └─ then another launcher, parameters of B
 *
 * A launcher is a process of its own: it adopts orphans and handles signals for one job.
 * If this process dies, the launcher gets a signal, and ends its job.
 *
 * Without --modes there is one job, with the parameters as they are, launched from this
 * process itself.  Called within a job (`mbx run -n 2 mbx perf overlap`), it is a rank.
 */
#include "overlap.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/mem.h"
#include "boot/boot.h"
#include "tools/run/launch.h"

#define REPEATS      51
#define MAX_REPEATS  100000
#define MAX_WINDOW   4096
#define MAX_COMPUTE  10000               /* percent */
#define MAX_BYTES    (UINT64_C(1) << 30) /* of a window */
#define MAX_MODES    16
#define LINE_SIZE    1024
#define NOT_MEASURED (-1.0)

static const char usage[] =
    "usage: mbx perf overlap [OPTIONS]\n"
    "\n"
    "Example:\n"
    "  mbx perf overlap --sizes 64K-4M --modes software,early\n"
    "\n"
    "Measures how much of a transfer happens while the receiver computes.\n"
    "overlap_percent=100 means that the shorter of transfer and computation took no extra\n"
    "time.  0 means that one ran after the other.\n"
    "\n"
    "  -s, --size SIZE       bytes of a message (K, M, G)\n"
    "      --sizes A,B,...   several sizes, one line each\n"
    "      --sizes A-B       all powers of two from A to B; 1K-16M is the default\n"
    "  -w, --window N        messages at a time, at most 4096; by default as many as hold\n"
    "                        256K, up to 64\n"
    "  -r, --repeats N       repeats of each measurement (51)\n"
    "  -c, --compute PERCENT  length of the computation in percent of the transfer, at most\n"
    "                        10000 (100)\n"
    "  -m, --modes A,B,...   one pair of ranks for each mode, and a table of all modes at\n"
    "                        the end; without it one pair, with MBX_MATCH, MBX_DEVICE and\n"
    "                        MBX_RNDV from the environment\n"
    "      --no-bind         let the system choose the cores; --bind is the default\n"
    "      --json            a JSON object per line in place of key=value, and no table\n"
    "  -h, --help            this text\n"
    "\n"
    "Modes\n"
    "  software              the rank's own calls match and copy; senders do not write\n"
    "                        into receives (MBX_RNDV=read+split)\n"
    "  early                 as software, but senders write into advertised receives\n"
    "  soft                  the software device, run by the rank's own calls\n"
    "  soft-thread           the software device on a separate thread\n"
    "  soft-process          the software device in a separate process\n"
    "  device/DEVICE, split/DEVICE\n"
    "                        a device, with MBX_MATCH=device or split (as DEVICE alone)\n"
    "  all                   the first five\n"
    "A mode that this build lacks is named (skipped=not_in_this_build) and skipped.\n"
    "\n"
    "Definition\n"
    "  Three times are measured in turn, and each is the median of the repeats:\n"
    "    comm      starts when a burst is sent to posted receives, and ends when the\n"
    "              receiver, which only waits, knows that it has received all of it\n"
    "    compute   a computation of about the same time (--compute), without any call\n"
    "    both      starts when the receives are posted.  The receiver then computes, and\n"
    "              waits for the rest of the data\n"
    "\n"
    "  The results:\n"
    "    overlap_raw_percent  100 * (1 - (both - max(comm, compute)) / min(comm, compute))\n"
    "    overlap_percent      the same, limited to the range from 0 to 100\n"
    "    both_ratio           both / max(comm, compute)\n"
    "    overlap_min_percent  the same with the fastest repeats in place of the medians.  If\n"
    "                         this differs much, another process ran on these cores\n"
    "    disturbed=yes        it ran so much that the medians contradict each other (raw "
    "below\n"
    "                         -25 or above 115)\n"
    "\n"
    "  Receiver and sender agree on the starting moment beforehand by their common clock, so "
    "no\n"
    "  time contains a handshake.\n"
    "\n"
    "Places\n"
    "  Receiver and sender each have a core of their own.  A device that the library\n"
    "  starts has the other cores.  On a machine with two cores it shares the sender's.\n"
    "  Then a sender whose receiver has advertised its receives sleeps instead of polling\n"
    "  for their end, as with MBX_SPIN=10us.  The line perf=overlap_places says where each\n"
    "  part was allowed to run, and where it ran.  Its sender_late counts rounds that the\n"
    "  sender began more than 5 us late, because another process had its core.\n";

enum { OPTION_SIZES = 256, OPTION_BIND, OPTION_NO_BIND, OPTION_JSON };

static const struct option options[] = {{"size", required_argument, NULL, 's'},
                                        {"sizes", required_argument, NULL, OPTION_SIZES},
                                        {"window", required_argument, NULL, 'w'},
                                        {"repeats", required_argument, NULL, 'r'},
                                        {"compute", required_argument, NULL, 'c'},
                                        {"modes", required_argument, NULL, 'm'},
                                        {"bind", no_argument, NULL, OPTION_BIND},
                                        {"no-bind", no_argument, NULL, OPTION_NO_BIND},
                                        {"json", no_argument, NULL, OPTION_JSON},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static const struct tool tool = {.name = "perf overlap", .usage = usage};

/* A column of the table: one mode. */
struct column {
    struct overlap_mode mode;
    bool is_here;
    double percent[PERF_SIZES_MAX]; /* NOT_MEASURED if there is none */
    bool is_disturbed[PERF_SIZES_MAX];
};

struct request {
    struct overlap o;
    struct column columns[MAX_MODES];
    unsigned count; /* 0: the parameters as they are */
};

/* ---- arguments ---- */

static int take_mode(struct request *r, const char *name)
{
    struct column *column = &r->columns[r->count];

    if (r->count == MAX_MODES)
        return tool_usage_error(&tool, "--modes takes at most %d modes", MAX_MODES);
    if (!overlap_mode_find(name, &column->mode))
        return tool_usage_error(&tool, "--modes: there is no mode '%s'", name);
    for (unsigned i = 0; i < r->count; i++)
        if (strcmp(r->columns[i].mode.name, column->mode.name) == 0)
            return tool_usage_error(&tool, "--modes names '%s' twice", name);
    column->is_here = overlap_mode_is_here(&column->mode);
    for (unsigned i = 0; i < PERF_SIZES_MAX; i++)
        column->percent[i] = NOT_MEASURED;
    r->count++;
    return 0;
}

static int take_modes(struct request *r, const char *text)
{
    char copy[512], *rest = copy, *word;
    int status = 0;

    if (strcmp(text, "all") == 0)
        text = OVERLAP_MODES;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return tool_usage_error(&tool, "--modes takes at most %d modes", MAX_MODES);
    r->count = 0;
    while (status == 0 && (word = strsep(&rest, ",")) != NULL)
        status = take_mode(r, word);
    return status;
}

static int take_option(struct request *r, int option, char *value)
{
    uint64_t number;
    int err = 0;

    switch (option) {
    case 's':
        return perf_take_size(&tool, &r->o.sizes, value);
    case OPTION_SIZES:
        return perf_take_sizes(&tool, "--sizes", PERF_BYTES, &r->o.sizes, value);
    case 'w':
        if ((err = tool_number(&tool, "--window", value, 1, MAX_WINDOW, &number)) == 0)
            r->o.window = (uint32_t)number;
        return err;
    case 'r':
        if ((err = tool_number(&tool, "--repeats", value, 1, MAX_REPEATS, &number)) == 0)
            r->o.repeats = (uint32_t)number;
        return err;
    case 'c':
        if ((err = tool_number(&tool, "--compute", value, 1, MAX_COMPUTE, &number)) == 0)
            r->o.percent = (uint32_t)number;
        return err;
    case 'm':
        return take_modes(r, value);
    case OPTION_JSON:
        r->o.json = true;
        return 0;
    default:
        r->o.bind = option == OPTION_BIND;
        return 0;
    }
}

static int check_sizes(const struct overlap *o)
{
    for (unsigned i = 0; i < o->sizes.count; i++) {
        uint32_t window = overlap_window(o, o->sizes.size[i]);

        if (o->sizes.size[i] > MAX_BYTES / window)
            return tool_usage_error(&tool,
                                    "%u messages of %zu bytes at a time are more than 1G",
                                    window, o->sizes.size[i]);
    }
    return 0;
}

static int parse(int argc, char **argv, struct request *r)
{
    char initial[] = "1K-16M";
    int option, status = 0;

    perf_take_sizes(&tool, "--sizes", PERF_BYTES, &r->o.sizes, initial);
    while ((option = tool_option(&tool, argc, argv, "+:s:w:r:c:m:h", options, &status)) >= 0)
        if ((status = take_option(r, option, optarg)) != 0)
            return status;
    if (option == -2)
        return status != 0 ? status : -1;
    if (optind < argc)
        return tool_usage_error(&tool, "there is no argument '%s'", argv[optind]);
    return check_sizes(&r->o);
}

/* ---- one job ---- */

/* "A,B,..." in bytes. */
static char *sizes_text(const struct perf_sizes *sizes)
{
    size_t capacity = sizes->count * 24 + 1, used = 0;
    char *text = mem_alloc(capacity);

    for (unsigned i = 0; text != NULL && i < sizes->count; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%zu", i > 0 ? "," : "",
                                 sizes->size[i]);
    return text;
}

/* The ranks get the parsed values, not the user's text. */
static int launch_pair(const struct overlap *o, bool json)
{
    char *path = tool_own_path(), *sizes = sizes_text(&o->sizes);
    char repeats[16], window[16], percent[16];
    const char *argv[16] = {path,        "perf",  "overlap",   "--sizes", sizes,
                            "--repeats", repeats, "--compute", percent};
    struct launch launch = {.tool = &tool, .argv = (char **)argv, .ranks = 2};
    int n = 9, status = TOOL_FAILED;

    snprintf(repeats, sizeof repeats, "%u", o->repeats);
    snprintf(percent, sizeof percent, "%u", o->percent);
    snprintf(window, sizeof window, "%u", o->window);
    if (o->window != 0) {
        argv[n++] = "--window";
        argv[n++] = window;
    }
    if (!o->bind)
        argv[n++] = "--no-bind";
    if (json)
        argv[n++] = "--json";
    if (path != NULL && sizes != NULL)
        status = launch_job(&launch);
    else
        tool_error(
            &tool,
            "cannot find this program, because /proc/self/exe cannot be read; mount /proc");
    mem_free(path);
    mem_free(sizes);
    return status;
}

/* ---- one job per mode ---- */

static _Noreturn void run_launcher(const struct request *r, const struct column *column,
                                   pid_t parent, int output)
{
    int status = TOOL_FAILED;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && dup2(output, STDOUT_FILENO) >= 0) {
        close(output);
        if (overlap_mode_enter(&column->mode) == 0)
            status = launch_pair(&r->o, false); /* run_mode() reads key=value */
    }
    _exit(status); /* the parent's unflushed output is not ours to write */
}

/* Starts the launcher of a mode; *lines is the output of its ranks.  Returns its process id, or
 * a negative errno. */
static pid_t start_launcher(const struct request *r, const struct column *column, FILE **lines)
{
    pid_t self = getpid(), pid;
    int ends[2], err;

    if (pipe(ends) < 0)
        return -errno;
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        run_launcher(r, column, self, ends[1]);
    }
    err = errno;
    close(ends[1]);
    if (pid > 0 && (*lines = fdopen(ends[0], "r")) != NULL)
        return pid;
    close(ends[0]);
    if (pid > 0)
        waitpid(pid, NULL, 0); /* its output is closed: it ends */
    return -err;
}

/* The text of a line from the value of a key on; "" if the key is missing. */
static const char *value_of(const char *line, const char *key)
{
    const char *found = strstr(line, key);

    return found != NULL ? found + strlen(key) : "";
}

/* The ranks report their mode; it must be the requested one. */
static int take_line(const struct perf_sizes *sizes, struct column *column, const char *line)
{
    const char *mode = value_of(line, " mode=");
    size_t size = strtoull(value_of(line, " size="), NULL, 10);

    if (strncmp(line, "perf=overlap ", 13) != 0)
        return TOOL_DONE;
    if (strlen(column->mode.name) != strcspn(mode, " ") ||
        strncmp(mode, column->mode.name, strlen(column->mode.name)) != 0) {
        tool_error(&tool, "mode %s was asked for, but the ranks are in mode %.*s",
                   column->mode.name, (int)strcspn(mode, " "), mode);
        return TOOL_FAILED;
    }
    for (unsigned i = 0; i < sizes->count; i++)
        if (sizes->size[i] == size) {
            double raw = strtod(value_of(line, " overlap_raw_percent="), NULL);

            column->percent[i] = strtod(value_of(line, " overlap_percent="), NULL);
            column->is_disturbed[i] = overlap_is_disturbed(raw);
        }
    return TOOL_DONE;
}

static int exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : TOOL_SIGNAL + WTERMSIG(status);
}

static int run_mode(const struct request *r, struct column *column)
{
    char line[LINE_SIZE];
    FILE *lines;
    pid_t pid;
    int status, taken = TOOL_DONE;

    if (!column->is_here) {
        perf_say(r->o.json, "perf=overlap mode=%s skipped=not_in_this_build",
                 column->mode.name);
        return TOOL_DONE;
    }
    pid = start_launcher(r, column, &lines);
    if (pid < 0) {
        tool_error(&tool, "mode %s cannot be started: %s", column->mode.name, strerror(-pid));
        return TOOL_FAILED;
    }
    while (fgets(line, sizeof line, lines) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        perf_say(r->o.json, "%s", line);
        if (taken == TOOL_DONE)
            taken = take_line(&r->o.sizes, column, line);
    }
    fclose(lines);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return taken != TOOL_DONE ? taken : exit_code(status);
}

/* ---- the table ---- */

static void print_head(const struct request *r)
{
    printf("\noverlap in percent\n%12s", "size");
    for (unsigned i = 0; i < r->count; i++)
        if (r->columns[i].is_here)
            printf(" %*s ", (int)max_size(12, strlen(r->columns[i].mode.name)),
                   r->columns[i].mode.name);
    printf("\n");
}

static void print_row(const struct request *r, unsigned row)
{
    printf("%12zu", r->o.sizes.size[row]);
    for (unsigned i = 0; i < r->count; i++) {
        const struct column *column = &r->columns[i];
        int width = (int)max_size(12, strlen(column->mode.name));

        if (column->is_here && column->percent[row] != NOT_MEASURED)
            printf(" %*.1f%c", width, column->percent[row],
                   column->is_disturbed[row] ? '*' : ' ');
        else if (column->is_here)
            printf(" %*s ", width, "failed");
    }
    printf("\n");
}

static bool is_any_disturbed(const struct request *r)
{
    for (unsigned i = 0; i < r->count; i++)
        for (unsigned row = 0; row < r->o.sizes.count; row++)
            if (r->columns[i].is_disturbed[row])
                return true;
    return false;
}

static void print_missing(const struct request *r)
{
    for (unsigned i = 0; i < r->count; i++)
        if (!r->columns[i].is_here)
            printf("%s: not in this build\n", r->columns[i].mode.name);
}

static int run_modes(struct request *r)
{
    unsigned measured = 0;
    int status = TOOL_DONE;

    for (unsigned i = 0; i < r->count; i++) {
        int mode_status = run_mode(r, &r->columns[i]);

        measured += r->columns[i].is_here;
        status = status == TOOL_DONE ? mode_status : status;
    }
    if (measured > 0 && !r->o.json) {
        print_head(r);
        for (unsigned row = 0; row < r->o.sizes.count; row++)
            print_row(r, row);
        if (is_any_disturbed(r))
            printf("* disturbed: something else ran on these cores, and the three times "
                   "contradict each other\n");
    }
    if (!r->o.json)
        print_missing(r);
    if (measured == 0) {
        tool_error(&tool, "this build has none of these modes");
        status = TOOL_FAILED;
    }
    return status;
}

int overlap_run(int argc, char **argv)
{
    struct request r = {.o = {.tool = &tool, .repeats = REPEATS, .percent = 100, .bind = true}};
    int status = parse(argc, argv, &r);

    if (status != 0)
        return status == -1 ? TOOL_DONE : status;
    if (!boot_has_launcher())
        return r.count > 0 ? run_modes(&r) : launch_pair(&r.o, r.o.json);
    if (r.count > 0)
        return tool_usage_error(&tool, "--modes starts jobs and cannot be used within one");
    return overlap_rank(&r.o);
}
