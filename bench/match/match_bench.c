/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match_bench.c - compares the matching engine with others: one line per case and engine.
 *
 *   bench=match engine=list depth=64 position=random wild_percent=20 wild=13
 *       median_ns=105.1 min_ns=104.7 rounds=95122 repeats=9          (one line)
 *
 * The heads of pairs.c, cancels.c, unexpected.c, memories.c and replay.c describe the
 * questions and methods.  Results go to stdout, progress to stderr.
 */
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "bench.h"

const struct bench_ops *const bench_engines[] = {
    &bench_nothing, &bench_matchbox, &bench_list, &bench_ucx_like,
#ifdef HAVE_UCX
    &bench_ucx,
#endif
    NULL,
};

#define REPLAYS_MAX 256

struct arguments {
    struct bench_settings settings;
    const char *engines;
    long core; /* -1: the last allowed core */
    const char *replays[REPLAYS_MAX];
    unsigned replay_count;
};

static void usage(FILE *out)
{
    fprintf(out, "usage: match_bench [OPTION...]\n"
                 "\n"
                 "  --quick            few depths, little time: does it work at all?\n"
                 "  --filter WORDS     only the cases whose line has all of these words, as\n"
                 "                     'bench=match depth=64 position=random'; a word without\n"
                 "                     '=' may be a part of one\n"
                 "  --engines A,B      only these engines; there are:");
    for (unsigned i = 0; bench_engines[i] != NULL; i++)
        fprintf(out, " %s", bench_engines[i]->name);
    fprintf(out, "\n"
                 "  --depth-max N      no depth above N (default 1048576)\n"
                 "  --budget-ms N      time for one engine in one case (default 100)\n"
                 "  --repeats N        of each engine in each case, in turns (default 9)\n"
                 "  --core N           run on processor N (default: the last allowed one)\n"
                 "  --dry-run          say which cases there are, and how long they take\n"
                 "  --replay FILE      instead: replay a recorded file; may be given often\n"
                 "  --help             this text\n");
}

static int usage_error(const char *format, const char *what)
{
    fprintf(stderr, "match_bench: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "\n");
    usage(stderr);
    return 2;
}

/* A number from least to most, or -1. */
static long number_in(const char *text, long least, long most)
{
    char *end;
    long value = strtol(text, &end, 10);

    return *text != '\0' && *end == '\0' && value >= least && value <= most ? value : -1;
}

static int choose_engines(struct arguments *a)
{
    char names[256], *name, *rest;

    snprintf(names, sizeof names, "%s", a->engines);
    memset(a->settings.wants, 0, sizeof a->settings.wants);
    for (name = strtok_r(names, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
        unsigned i = 0;

        while (bench_engines[i] != NULL && strcmp(bench_engines[i]->name, name) != 0)
            i++;
        if (bench_engines[i] == NULL)
            return usage_error("--engines: there is no engine '%s'", name);
        a->settings.wants[i] = true;
    }
    return 0;
}

enum option_key {
    OPTION_QUICK = 1,
    OPTION_FILTER,
    OPTION_ENGINES,
    OPTION_DEPTH_MAX,
    OPTION_BUDGET,
    OPTION_REPEATS,
    OPTION_CORE,
    OPTION_DRY_RUN,
    OPTION_REPLAY,
    OPTION_HELP
};

static const struct option options[] = {
    {"quick", no_argument, NULL, OPTION_QUICK},
    {"filter", required_argument, NULL, OPTION_FILTER},
    {"engines", required_argument, NULL, OPTION_ENGINES},
    {"depth-max", required_argument, NULL, OPTION_DEPTH_MAX},
    {"budget-ms", required_argument, NULL, OPTION_BUDGET},
    {"repeats", required_argument, NULL, OPTION_REPEATS},
    {"core", required_argument, NULL, OPTION_CORE},
    {"dry-run", no_argument, NULL, OPTION_DRY_RUN},
    {"replay", required_argument, NULL, OPTION_REPLAY},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static void be_quick(struct bench_settings *settings)
{
    settings->is_quick = true;
    settings->budget_ms = 2;
    settings->repeats = 3;
}

/* 0; 2: usage error, which has been reported; -1: help was requested. */
static int parse_one(struct arguments *a, int key)
{
    long value = 1;

    switch (key) {
    case OPTION_QUICK:
        be_quick(&a->settings);
        break;
    case OPTION_FILTER:
        a->settings.filter = optarg;
        break;
    case OPTION_ENGINES:
        a->engines = optarg;
        break;
    case OPTION_DEPTH_MAX:
        value = number_in(optarg, 1, 1l << BENCH_ID_BITS);
        a->settings.depth_max = (uint32_t)value;
        break;
    case OPTION_BUDGET:
        value = number_in(optarg, 1, 100000);
        a->settings.budget_ms = (unsigned)value;
        break;
    case OPTION_REPEATS:
        value = number_in(optarg, 1, BENCH_REPEATS_MAX);
        a->settings.repeats = (unsigned)value;
        break;
    case OPTION_CORE:
        value = a->core = number_in(optarg, 0, CPU_SETSIZE - 1);
        break;
    case OPTION_DRY_RUN:
        a->settings.is_dry = true;
        break;
    case OPTION_REPLAY:
        if (a->replay_count == REPLAYS_MAX)
            return usage_error("--replay: too many files at '%s'", optarg);
        a->replays[a->replay_count++] = optarg;
        break;
    case OPTION_HELP:
        return -1;
    default:
        usage(stderr);
        return 2;
    }
    return value < 0 ? usage_error("'%s' is no number, or too small, or too large", optarg) : 0;
}

static int parse(struct arguments *a, int argc, char **argv)
{
    int key, status;

    while ((key = getopt_long(argc, argv, "", options, NULL)) != -1)
        if ((status = parse_one(a, key)) != 0)
            return status;
    if (optind < argc)
        return usage_error("there is no argument '%s'", argv[optind]);
    return a->engines != NULL ? choose_engines(a) : 0;
}

/* Binds the whole run to one core; if that fails, the numbers are less reliable. */
static void pin(long core)
{
    cpu_set_t allowed, one;

    CPU_ZERO(&one);
    if (core < 0 && sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        for (core = CPU_SETSIZE - 1; core > 0 && !CPU_ISSET(core, &allowed); core--)
            continue;
    if (core >= 0)
        CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        fprintf(stderr, "match_bench: cannot run on core %ld alone\n", core);
}

static void run_all(struct bench *b)
{
    bench_agreement(b);
    bench_pairs(b);
    bench_cancels(b);
    bench_unexpected(b);
    bench_memories(b);
}

static int measure_all(struct bench *b)
{
    b->is_counting = true;
    run_all(b);
    fprintf(stderr, "match_bench: %u cases, about %u:%02u minutes\n", b->cases,
            (unsigned)(b->estimate_ns / CLOCK_S / 60),
            (unsigned)(b->estimate_ns / CLOCK_S % 60));
    if (b->cases == 0)
        return usage_error("--filter: no case has '%s'", b->settings.filter);
    if (b->settings.is_dry)
        return 0;
    b->is_counting = false;
    b->start_ns = clock_now();
    run_all(b);
    return 0;
}

int main(int argc, char **argv)
{
    struct arguments a = {
        .settings = {.budget_ms = 100, .repeats = 9, .depth_max = 1u << BENCH_ID_BITS},
        .core = -1};
    struct bench b = {0};
    int status;

    memset(a.settings.wants, true, sizeof a.settings.wants);
    status = parse(&a, argc, argv);
    if (status == -1)
        usage(stdout);
    if (status != 0)
        return status == -1 ? 0 : status;
    b.settings = a.settings;
    pin(a.core);
    for (unsigned i = 0; i < a.replay_count; i++)
        if (!bench_replay(&b, a.replays[i]))
            status = 1;
    return a.replay_count > 0 ? status : measure_all(&b);
}
