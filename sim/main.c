/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - sim: jobs in virtual time, each from one seed.
 *
 *   sim SEED=N                     that job, told packet by packet
 *   sim --seeds FILE               the jobs of a list
 *   sim --campaign 30m             new jobs for so long
 *   sim --count 100 --first 7      jobs 7 to 106
 *   sim --replays --count 100      each job is recorded, and replayed over another network
 *
 * With --lines each job prints a line.  The counts are printed at the end.  A job that fails is
 * shrunk and printed.  The output for a job depends on its seed alone.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/random.h"
#include "idle.h"
#include "job.h"
#include "replays.h"
#include "shrink.h"

#define SHRINK_JOBS 3000

struct options {
    const char *seeds; /* a file, or NULL */
    uint64_t first, count;
    uint64_t seconds; /* of a campaign, or 0 */
    uint32_t ranks, per_rank, idle;
    bool is_verbose, has_lines, is_quiet, fails_memory, has_doctor, has_replays;
};

struct totals {
    uint64_t jobs;
    struct job_counts counts;
};

static uint64_t current_seed; /* for a crash */

static void help(void)
{
    printf(
        "usage: sim [SEED=N | --seeds FILE | --campaign TIME | --count N [--first N]]\n"
        "           [--ranks N] [--per-rank N] [--memory] [--doctor | --replays]\n"
        "           [--lines] [--quiet]\n"
        "       sim --idle RANKS\n"
        "\n"
        "Runs jobs of many ranks in this process, in virtual time; each follows from its\n"
        "seed.  Every rank is an endpoint that does random operations; what comes of them is\n"
        "checked against the rules of MPI.  A job that fails is shrunk and printed.\n"
        "\n"
        "  SEED=N           this job, operation by operation and packet by packet\n"
        "  --seeds FILE     the jobs of a list: a line is a seed, or a seed, ranks, and\n"
        "                   operations of a rank, and the word memory for --memory\n"
        "  --campaign TIME  jobs with new seeds for so long: 90s, 30m, 2h\n"
        "  --count N        so many jobs, from seed 1, or --first, on (default: 100)\n"
        "  --ranks N        ranks of each job, up to %u (default: the seed says)\n"
        "  --per-rank N     operations of a rank, about (default: the seed says)\n"
        "  --memory         in some jobs an allocation fails sometimes\n"
        "  --doctor         ranks that block; is mbx doctor's graph right about who is "
        "deadlocked?\n"
        "  --replays        each job is recorded and replayed over another network: does each\n"
        "                   receive get the same message?\n"
        "  --lines          a line for each job\n"
        "  --quiet          with SEED=N: not packet by packet\n"
        "  --idle RANKS     what idle endpoints and peers cost, in bytes\n",
        PLAN_RANKS_MAX);
}

static void usage_error(const char *format, const char *what)
    __attribute__((format(printf, 1, 0)));

static void usage_error(const char *format, const char *what)
{
    fprintf(stderr, "sim: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "; sim --help says more\n");
    exit(2);
}

/* ---- one job ---- */

static bool run_plan(const struct plan *plan, bool is_verbose, struct job_counts *counts,
                     char *why, size_t size)
{
    return plan->is_replayed ? replays_run(plan, is_verbose, counts, why, size)
                             : job_run(plan, NULL, is_verbose, counts, why, size);
}

static bool is_failing(const struct plan *plan)
{
    struct job_counts counts;
    char why[256];

    return !run_plan(plan, false, &counts, why, sizeof why);
}

static void print_moved(const struct plan *plan)
{
    struct plan moved;

    plan_copy(&moved, plan);
    plan_move(&moved);
    printf("the other network:\n");
    plan_print_network(&moved);
    plan_free(&moved);
}

static void report(const struct options *o, struct plan *plan, const char *first_why)
{
    struct job_counts counts;
    char why[256];

    printf("FAIL seed %" PRIu64 ", %" PRIu32 " ranks, %" PRIu32 " operations: %s\n", plan->seed,
           plan->ranks, plan->count, first_why);
    fflush(stdout);
    plan_shrink(plan, is_failing, SHRINK_JOBS);
    run_plan(plan, o->is_verbose, &counts, why, sizeof why);
    printf("shrunk to %" PRIu32 " operations, which fail so: %s\n", plan->count, why);
    plan_print(plan);
    if (plan->is_replayed)
        print_moved(plan);
    fflush(stdout);
}

static void print_counts(const struct job_counts *c)
{
    printf("%" PRIu64 " operations, %" PRIu64 " packets, %" PRIu64 " received (%" PRIu64
           " cut short, %" PRIu64 " by rendezvous, %" PRIu64 " claimed, %" PRIu64
           " pulled, %" PRIu64 " by advert, %" PRIu64 " held by a device), %" PRIu64
           " cancelled, %" PRIu64 " deaths, %" PRIu64 " failed, %" PRIu64
           " us, digest %016" PRIx64 "\n",
           c->operations, c->packets, c->received, c->truncated, c->rendezvous, c->claims_met,
           c->pulled, c->advert, c->held, c->cancelled, c->deaths, c->failed,
           c->virtual_ns / 1000, c->digest);
}

static void print_waits(const struct wait_counts *w)
{
    static const char *const names[WAIT_KINDS] = {
        [WAIT_NOT] = "",    [WAIT_ONE] = "one",   [WAIT_ALL] = "all",
        [WAIT_ANY] = "any", [WAIT_SOME] = "some", [WAIT_PROBE] = "probe"};

    printf("doctor: %" PRIu64 " diagnoses of jobs that go on, none wrong\n", w->diagnoses);
    for (int kind = WAIT_ONE; kind < WAIT_KINDS; kind++)
        printf("  waits for %-5s: %" PRIu64 " come to an end, %" PRIu64
               " never; of these %" PRIu64 " named, %" PRIu64 " before the job was over\n",
               names[kind], w->over[kind], w->stuck[kind], w->named[kind], w->early[kind]);
    printf("  %" PRIu64 " of a job that does not tell what it waits for are not named\n",
           w->silent);
}

/* False: it has failed, and was reported. */
static bool run_seed(const struct options *o, uint64_t seed, uint32_t ranks, uint32_t per_rank,
                     struct totals *totals)
{
    struct job_counts counts;
    struct plan plan;
    char why[256];
    bool ok;

    current_seed = seed;
    plan_make(&plan, seed, ranks, per_rank);
    if (!o->fails_memory)
        plan.percent_memory = 0;
    if (o->has_doctor)
        waits_draw(&plan);
    if (o->has_replays)
        program_draw(&plan);
    if (o->is_verbose)
        plan_print(&plan);
    ok = run_plan(&plan, o->is_verbose, &counts, why, sizeof why);
    totals->jobs++;
    job_counts_add(&totals->counts, &counts);
    if (o->has_lines) {
        printf("seed %" PRIu64 " ranks %" PRIu32 ": ", seed, plan.ranks);
        print_counts(&counts);
    }
    if (!ok)
        report(o, &plan, why);
    plan_free(&plan);
    return ok;
}

/* ---- many ---- */

static bool run_count(const struct options *o, struct totals *totals)
{
    for (uint64_t i = 0; i < o->count; i++)
        if (!run_seed(o, o->first + i, o->ranks, o->per_rank, totals))
            return false;
    return true;
}

static bool run_list(const struct options *o, struct totals *totals)
{
    FILE *file = fopen(o->seeds, "r");
    char line[256];
    bool ok = true;

    if (file == NULL) {
        fprintf(stderr, "sim: %s: %s\n", o->seeds, strerror(errno));
        exit(1);
    }
    while (fgets(line, sizeof line, file) != NULL) {
        struct options options = *o;
        uint64_t seed;
        uint32_t ranks = 0, per_rank = 0;
        char word[8] = "memory";
        int fields;

        if (line[0] == '#' || line[0] == '\n')
            continue;
        fields = sscanf(line, "%" SCNu64 " %" SCNu32 " %" SCNu32 " %7s", &seed, &ranks,
                        &per_rank, word);
        options.fails_memory |= fields == 4;
        if (fields < 1 || ranks == 1 || ranks > PLAN_RANKS_MAX || strcmp(word, "memory") != 0) {
            fprintf(stderr, "sim: %s: no seed: %s", o->seeds, line);
            exit(2);
        }
        ok = run_seed(&options, seed, ranks, per_rank, totals) && ok;
    }
    fclose(file);
    return ok;
}

static uint64_t seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

/* Continues after a failure: the next one may be of another kind. */
static bool run_campaign(const struct options *o, struct totals *totals)
{
    uint64_t begin = seconds_now(), told = begin, seed = 0, failed = 0, now;

    if (random_secret(&seed, sizeof seed) != 0)
        return false;
    seed >>= 24; /* short enough to be typed */
    for (; (now = seconds_now()) - begin < o->seconds && failed < 20; seed++) {
        failed += !run_seed(o, seed, o->ranks, o->per_rank, totals);
        if (now - told < 60)
            continue;
        told = now;
        printf("%" PRIu64 " s: %" PRIu64 " jobs, %" PRIu64 " failed\n", now - begin,
               totals->jobs, failed);
        fflush(stdout);
    }
    return failed == 0;
}

/* ---- arguments ---- */

static uint64_t number(const char *what, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = text != NULL ? strtoull(text, &end, 10) : 0;
    if (text == NULL || text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 ||
        value < least || value > most) {
        fprintf(stderr, "sim: %s takes a number from %" PRIu64 " to %" PRIu64 ", got '%s'\n",
                what, least, most, text != NULL ? text : "nothing");
        exit(2);
    }
    return value;
}

static uint64_t duration(const char *text)
{
    static const char units[] = "smh";
    static const uint64_t seconds[] = {1, 60, 3600};
    char digits[16];
    size_t length = text != NULL ? strlen(text) : 0;
    const char *unit = length > 1 ? strchr(units, text[length - 1]) : NULL;

    if (unit == NULL || length > sizeof digits)
        usage_error("--campaign takes a time as 90s, 30m or 2h, got '%s'",
                    text != NULL ? text : "nothing");
    snprintf(digits, sizeof digits, "%.*s", (int)length - 1, text);
    return number("--campaign", digits, 1, 1000000) * seconds[unit - units];
}

static void parse(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = argv[i + 1];
        bool takes = true;

        if (strcmp(name, "--campaign") == 0)
            o->seconds = duration(value);
        else if (strcmp(name, "--seeds") == 0 && value != NULL)
            o->seeds = value;
        else if (strcmp(name, "--count") == 0)
            o->count = number(name, value, 1, UINT64_MAX);
        else if (strcmp(name, "--first") == 0)
            o->first = number(name, value, 0, UINT64_MAX);
        else if (strcmp(name, "--ranks") == 0)
            o->ranks = (uint32_t)number(name, value, 2, PLAN_RANKS_MAX);
        else if (strcmp(name, "--per-rank") == 0)
            o->per_rank = (uint32_t)number(name, value, 1, 10000);
        else if (strcmp(name, "--idle") == 0)
            o->idle = (uint32_t)number(name, value, 2, PLAN_RANKS_MAX);
        else
            takes = false;
        i += takes;
        if (takes)
            continue;
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
            help();
            exit(0);
        }
        if (strncmp(name, "SEED=", 5) == 0) {
            o->first = number("SEED", name + 5, 0, UINT64_MAX);
            o->count = 1;
            o->is_verbose = true;
        } else if (strcmp(name, "--lines") == 0) {
            o->has_lines = true;
        } else if (strcmp(name, "--memory") == 0) {
            o->fails_memory = true;
        } else if (strcmp(name, "--doctor") == 0) {
            o->has_doctor = true;
        } else if (strcmp(name, "--replays") == 0) {
            o->has_replays = true;
        } else if (strcmp(name, "--quiet") == 0) {
            o->is_quiet = true;
        } else {
            usage_error("unknown argument '%s'", name);
        }
    }
    if (o->has_doctor && o->has_replays)
        usage_error("--doctor and %s are not for one job", "--replays");
    o->is_verbose &= !o->is_quiet;
}

/* The seed is all that is needed to see it again. */
static void on_crash(int number)
{
    char text[64];
    int size = snprintf(text, sizeof text, "sim: signal %d at SEED=%" PRIu64 "\n", number,
                        current_seed);

    if (write(2, text, (size_t)size) < 0)
        _exit(2);
    raise(number); /* by its default now: SA_RESETHAND */
}

static void tell_of_crashes(void)
{
    static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    static char stack[1 << 16]; /* theirs may be at its end */
    const struct sigaction action = {.sa_handler = on_crash,
                                     .sa_flags = SA_RESETHAND | SA_ONSTACK | SA_NODEFER};

    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++)
        sigaction(numbers[i], &action, NULL);
}

int main(int argc, char **argv)
{
    struct options o = {.first = 1, .count = 100};
    struct totals totals = {0};
    bool ok;

    parse(&o, argc, argv);
    clearenv(); /* settings of the environment are not the seed's */
    tell_of_crashes();
    if (o.idle != 0)
        return idle_measure(o.idle) == 0 ? 0 : 1;
    ok = o.seconds != 0    ? run_campaign(&o, &totals)
         : o.seeds != NULL ? run_list(&o, &totals)
                           : run_count(&o, &totals);
    printf("%" PRIu64 " jobs: ", totals.jobs);
    print_counts(&totals.counts);
    if (o.has_doctor)
        print_waits(job_waits());
    if (o.has_replays)
        ok = replays_tell() && ok;
    return ok ? 0 : 1;
}
