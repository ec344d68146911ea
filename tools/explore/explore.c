/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * explore.c - `mbx explore`: a job is run many times, and the runs are compared.
 *
 *   run 1, run 2, ...  ──>  another end than run 1's?  ── yes ──>  its replay: the same end again?
 *     ^   ├── its record: an order that was seen before?
 *     │   └── its traces: which receives could have taken another message?
 *     └────────── a receive takes this message, and all that does not depend on it is as it was
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/source_line.h"
#include "explore.h"

/* The exit status if a run ends in another way than run 1, or if run 1 fails. */
#define EXPLORE_FOUND 3

#define RUNS          20
#define HANG          "5s"

static const char usage[] =
    "usage: mbx explore [OPTIONS] [--] COMMAND [ARGUMENTS]\n"
    "\n"
    "Examples:\n"
    "  mbx explore -- mpiexec -n 4 ./program\n"
    "  mbx explore -n 100 --time 600s -- mpiexec -n 4 ./program\n"
    "  mbx explore --check 'grep -q converged $MBX_EXPLORE_STDOUT' -- mpiexec -n 4 ./program\n"
    "\n"
    "Runs COMMAND in different orders of its messages, and compares how the runs end and\n"
    "what they print.  Run 1 is free.  Each further run makes one receive or probe from any\n"
    "source take another message, as `mbx races` says is possible.  All that does not depend\n"
    "on it stays as it was.  The search ends when no other order is known.\n"
    "\n"
    "Each run that ends in another way than run 1 is replayed once, and if that ends in\n"
    "another way, twice more.  The report names the messages, and the command that repeats\n"
    "the run.  Two orders are different if a call of a rank returned another message or\n"
    "another request.  A run is `not enforced` if the message did not come.\n"
    "\n"
    "A deadlock of 5 s ends a run (MBX_HANG and MBX_HANG_THEN, unless they are set).  The\n"
    "standard input of COMMAND is empty.  Ctrl-C ends the job and prints the report.\n"
    "\n"
    "  -n, --runs=N       number of runs, one after another (default: 20)\n"
    "  -m, --mix=N        force at most N messages in a run (default: no limit)\n"
    "  -S, --shuffle=N    make random choices in the first N runs (mbx exec --shuffle): for\n"
    "                     programs with threads, or whose tests matter (default: 0)\n"
    "  -s, --seed=S       the seed of run 1; each further run that is shuffled has the next\n"
    "                     one (default: 1)\n"
    "  -t, --time=TIME    start no run after this time (600 or 600s)\n"
    "  -l, --limit=TIME   stop a run that takes longer (default: ten times run 1, and at\n"
    "                     least 60 s; no limit for run 1)\n"
    "  -c, --check=CMD    `sh -c CMD` decides: its exit status is 0 if the run is right.\n"
    "                     MBX_EXPLORE_STDOUT and MBX_EXPLORE_STDERR name the output,\n"
    "                     MBX_EXPLORE_STATUS is the exit status\n"
    "  -o, --output=HOW   compare standard output with run 1: `sorted`, as lines of ranks\n"
    "                     come in any order (the default), `same` or `none`\n"
    "  -i, --into=DIR     the records and outputs of run K are in DIR/order-K (default:\n"
    "                     explore).  DIR must be empty, or must not exist\n"
    "  -f, --force        remove the files that mbx explore has made in DIR\n"
    "  -h, --help         this text\n"
    "\n"
    "MBX_EXPLORE_RUN is the number of the run, also in its replay.  The launcher must pass\n"
    "it on, like the other variables of mbx exec.\n"
    "\n"
    "The exit status is 0 if all runs end alike, and 3 if one does not, or if run 1 fails.\n"
    "Otherwise it is 1 if the report says `not complete`: more orders are possible than are\n"
    "known.  It is also 1 if COMMAND could not be run, or if an order could not be written.\n";

static const struct option options[] = {
    {"runs", required_argument, NULL, 'n'},  {"seed", required_argument, NULL, 's'},
    {"mix", required_argument, NULL, 'm'},   {"shuffle", required_argument, NULL, 'S'},
    {"time", required_argument, NULL, 't'},  {"limit", required_argument, NULL, 'l'},
    {"check", required_argument, NULL, 'c'}, {"output", required_argument, NULL, 'o'},
    {"into", required_argument, NULL, 'i'},  {"force", no_argument, NULL, 'f'},
    {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};

/* ---- arguments ---- */

static int read_output(const struct tool *tool, const char *text, enum explore_output *output)
{
    static const char *const names[] = {
        [EXPLORE_SORTED] = "sorted", [EXPLORE_SAME] = "same", [EXPLORE_NONE] = "none"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        if (strcmp(text, names[i]) == 0) {
            *output = (enum explore_output)i;
            return 0;
        }
    return tool_usage_error(tool, "--output is sorted, same or none, not '%s'", text);
}

/* 0; or the exit status, after saying what is wrong. */
static int read_option(const struct tool *tool, int option, struct explore_options *o)
{
    switch (option) {
    case 'n':
        return tool_number(tool, "--runs", optarg, 1, EXPLORE_RUNS_MAX, &o->runs);
    case 's':
        return tool_number(tool, "--seed", optarg, 1, UINT32_MAX - EXPLORE_RUNS_MAX, &o->seed);
    case 'm':
        return tool_number(tool, "--mix", optarg, 1, EXPLORE_RUNS_MAX, &o->mix);
    case 'S':
        return tool_number(tool, "--shuffle", optarg, 0, EXPLORE_RUNS_MAX, &o->shuffled);
    case 't':
        return tool_time(tool, "--time", optarg, "s", CLOCK_MS, 10000000 * CLOCK_S,
                         &o->time_ns);
    case 'l':
        return tool_time(tool, "--limit", optarg, "s", CLOCK_MS, 10000000 * CLOCK_S,
                         &o->limit_ns);
    case 'o':
        return read_output(tool, optarg, &o->output);
    case 'c':
        o->check = optarg;
        break;
    case 'i':
        o->folder = optarg;
        break;
    default:
        o->is_forced = true;
    }
    return 0;
}

static int read_arguments(const struct tool *tool, int argc, char **argv,
                          struct explore_options *o)
{
    int option, status = 0;

    while ((option =
                tool_option(tool, argc, argv, "+:n:s:m:S:t:l:c:o:i:fh", options, &status)) >= 0)
        if ((status = read_option(tool, option, o)) != 0)
            return status;
    if (option == -2)
        return status != 0 ? status : -1;
    if (optind == argc)
        return tool_usage_error(tool, "COMMAND is missing");
    if (o->folder[0] == '\0' || strlen(o->folder) >= PATH_MAX)
        return tool_usage_error(tool, "--into needs the name of a folder");
    o->command = argv + optind;
    return 0;
}

/* ---- runs ---- */

static bool is_interrupted(const struct explore_search *s)
{
    return s->is_interrupted || interrupt_poll(&s->held, NULL, 0, 0);
}

static void print_end(const struct explore_search *s, uint64_t n, uint32_t orders)
{
    const struct explore_run *run = &s->runs[n - 1];
    char text[96];

    printf("%s, %.1f s",
           run->is_missed ? "not enforced" : explore_result_text(&run->result, text),
           (double)run->ns / CLOCK_S);
    if (run->order == 0)
        printf("%s", run->is_missed ? "" : ", no record");
    else
        printf(", order %" PRIu32 "%s", run->order, s->orders > orders ? " (new)" : "");
    fflush(stdout);
}

static void print_replay(const struct explore_run *run)
{
    static const char *const words[] = {
        [EXPLORE_REPEATS] = "repeats in its replay",
        [EXPLORE_REPEATS_NOT] = "does not repeat in its replay",
        [EXPLORE_REPLAY_REFUSED] = "cannot be replayed",
    };

    if (run->replay == EXPLORE_REPEATS_NOT && run->repeated != 0)
        printf("repeats in %" PRIu32 " of %" PRIu32 " replays", run->repeated, run->replays);
    else
        fputs(words[run->replay], stdout);
}

static bool is_over(const struct explore_search *s)
{
    return is_interrupted(s) || clock_now() >= s->end_ns;
}

/* ---- orders that are not known yet ---- */

/* Prepares run number n: it forces what was never forced, nor has occurred.  False: there is no such order, or it cannot be
 * written. */
static bool force_next(struct explore_search *s, uint64_t n)
{
    struct explore_alternative *next;

    while (!is_over(s) && (next = explore_choose(s)) != NULL) {
        struct explore_cut *cut = explore_cut_make(s, next);
        bool is_new = cut != NULL && explore_cut_met(cut) == 0, is_written;

        next->is_done = true;
        is_written =
            is_new && explore_make_order(s->tool, s->options, n) && explore_cut_write(cut, n);
        if (is_written) {
            explore_note_tried(s, next);
            explore_cut_give(cut, &s->runs[n - 1]);
        }
        if (cut != NULL)
            explore_cut_free(cut);
        if (is_new)
            return is_written;
    }
    s->is_exhausted = !is_over(s);
    return false;
}

/* Finds what can follow from a run that has ended. */
static void learn(struct explore_search *s, uint64_t n)
{
    if (!explore_is_traced(s->options) || s->runs[n - 1].order == 0)
        return;
    if (!explore_is_forceable(s, n)) {
        s->is_unforceable = true;
        return;
    }
    explore_add_alternatives(s, n);
    if (explore_is_told(s, n))
        explore_want_fewer(s, n);
}

/* A run, its line, and its replay if there is something to find out.  False: no other one follows. */
static bool explore_one(struct explore_search *s, uint64_t n)
{
    uint32_t orders = s->orders;

    printf("run %" PRIu64 " of %" PRIu64 ": ", n, s->options->runs);
    fflush(stdout);
    if (!explore_run(s, n)) {
        puts(s->is_interrupted ? "interrupted" : "failed");
        return false;
    }
    print_end(s, n, orders);
    if (explore_is_told(s, n) && s->runs[n - 1].order != 0) {
        printf("; ");
        fflush(stdout);
        if (!explore_replay(s, n)) {
            puts("its replay was interrupted");
            return false;
        }
        print_replay(&s->runs[n - 1]);
    }
    putchar('\n');
    fflush(stdout);
    return true;
}

/* False: it could not be run. */
static bool explore_all(struct explore_search *s)
{
    const struct explore_options *o = s->options;

    if (o->time_ns != UINT64_MAX)
        s->end_ns = clock_now() + o->time_ns;
    for (uint64_t n = 1; n <= o->runs; n++) {
        if (n > 1 && is_over(s))
            break;
        if (n > 1 && !explore_is_shuffled(o, n) && !force_next(s, n))
            return s->is_exhausted || is_over(s); /* otherwise it could not be written */
        if (!explore_one(s, n))
            return s->is_interrupted;
        learn(s, n);
    }
    return true;
}

static bool has_found(const struct explore_search *s)
{
    for (uint64_t n = 1; n <= s->count; n++)
        if (explore_is_told(s, n))
            return true;
    return false;
}

/* Sets the variables that end a run that hangs. */
static void set_hang(void)
{
    setenv("MBX_HANG", HANG, 0);
    setenv("MBX_HANG_THEN", "abort", 0);
}

static int explore(struct explore_search *s)
{
    bool has_run;

    if (!explore_open_folder(s->tool, s->options))
        return TOOL_FAILED;
    signal(SIGCHLD, SIG_DFL);
    set_hang();
    interrupt_hold(&s->held);
    has_run = explore_all(s);
    explore_report(s);
    fflush(stdout);
    interrupt_release(&s->held); /* a signal that has come ends this process here */
    if (has_run && has_found(s))
        return EXPLORE_FOUND;
    return has_run && s->problem[0] == '\0' ? TOOL_DONE : TOOL_FAILED;
}

static void release(struct explore_search *s)
{
    explore_unload(s);
    races_groups_free(&s->groups);
    mem_free(s->alternatives.all);
    for (uint64_t n = 1; n <= s->options->runs; n++)
        mem_free(s->runs[n - 1].all_forced);
    mem_free(s->runs);
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct explore_options o = {
        .runs = RUNS, .seed = 1, .time_ns = UINT64_MAX, .mix = UINT32_MAX, .folder = "explore"};
    struct explore_search s = {.tool = tool, .options = &o, .end_ns = UINT64_MAX};
    int status = read_arguments(tool, argc, argv, &o);

    if (status != 0)
        return status < 0 ? TOOL_DONE : status;
    status = tool_find_program(tool, o.command[0]);
    if (status != 0)
        return TOOL_FAILED;
    s.limit_ns = o.limit_ns != 0 ? o.limit_ns : UINT64_MAX;
    s.runs = mem_calloc(o.runs, sizeof *s.runs);
    if (s.runs == NULL) {
        tool_error(tool, "no memory for %" PRIu64 " runs", o.runs);
        return TOOL_FAILED;
    }
    job_line_of = source_line_in;
    status = explore(&s);
    release(&s);
    return status;
}

const struct tool tool_explore = {
    .name = "explore",
    .about = "run a job in many orders of its messages, and compare how the runs end",
    .usage = usage,
    .options = options,
    .run = run,
};
