/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule_test.c - random schedules of split matching against the oracle.
 *
 * Executes the schedules of the seeds FIRST .. FIRST+COUNT-1; see schedule.h.  One that
 * fails is shrunk and printed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "testing/device/schedule.h"

#define PROGRESS_NS (UINT64_C(10) * 1000 * 1000 * 1000)

struct options {
    uint64_t count, first;
    bool shows_progress;
};

static const char usage[] =
    "usage: schedule_test [--progress] [COUNT [FIRST]]\n"
    "\n"
    "Does the random schedules of split matching of the seeds FIRST (1) to FIRST+COUNT-1\n"
    "(200000) and compares them with the oracle.  --progress says how far it is, every 10 s.\n"
    "The exit code is 0, 1 if one fails, 2 for wrong arguments.\n";

static bool parse_number(const char *text, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *text >= '0' && *text <= '9' && *end == '\0';
}

/* False after an error message. */
static bool parse(struct options *options, int argc, char **argv)
{
    uint64_t *numbers[] = {&options->count, &options->first};
    unsigned n = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--progress") == 0) {
            options->shows_progress = true;
        } else if (n == ARRAY_COUNT(numbers) || !parse_number(argv[i], numbers[n++])) {
            fprintf(stderr, "schedule_test: '%s' is not a number of schedules or a seed\n%s",
                    argv[i], usage);
            return false;
        }
    }
    return true;
}

static void ignore_log(void *arg, enum log_level level, const char *text)
{
    (void)arg;
    (void)level;
    (void)text;
}

static void print_sums(const struct schedule_sums *sums, uint64_t first)
{
    printf("schedules=%llu first_seed=%llu steps=%llu received=%llu by_device=%llu "
           "by_software=%llu bypass=%llu parked=%llu taken=%llu cancelled=%llu "
           "cancels_won=%llu cancels_lost=%llu "
           "claims_won=%llu claims_lost=%llu overlapped=%llu clashed=%llu waited=%llu "
           "recalled=%llu "
           "refused=%llu "
           "incomplete=%llu syncs=%llu lost=%llu "
           "ended_by_loss=%llu owed=%llu held=%llu held_matched=%llu unheld=%llu\n",
           (unsigned long long)sums->schedules, (unsigned long long)first,
           (unsigned long long)sums->steps, (unsigned long long)sums->received,
           (unsigned long long)sums->by_device, (unsigned long long)sums->by_software,
           (unsigned long long)sums->bypass, (unsigned long long)sums->parked,
           (unsigned long long)sums->taken, (unsigned long long)sums->cancelled,
           (unsigned long long)sums->cancels_won, (unsigned long long)sums->cancels_lost,
           (unsigned long long)sums->claims_won, (unsigned long long)sums->claims_lost,
           (unsigned long long)sums->overlapped, (unsigned long long)sums->clashed,
           (unsigned long long)sums->waited, (unsigned long long)sums->recalled,
           (unsigned long long)sums->refused, (unsigned long long)sums->incomplete,
           (unsigned long long)sums->syncs, (unsigned long long)sums->lost,
           (unsigned long long)sums->ended_by_loss, (unsigned long long)sums->owed,
           (unsigned long long)sums->held, (unsigned long long)sums->held_matched,
           (unsigned long long)sums->unheld);
}

/* Schedules that reach nothing test nothing: with enough of them every event must have
 * happened. */
static bool all_has_happened(const struct schedule_sums *sums)
{
    const uint64_t *counts = (const uint64_t *)sums;

    for (size_t i = 0; i < sizeof *sums / sizeof *counts; i++)
        if (counts[i] == 0)
            return false;
    return true;
}

static void say_progress(const struct options *options, uint64_t done, uint64_t *next_ns)
{
    uint64_t now = clock_now();

    if (!options->shows_progress || now < *next_ns)
        return;
    if (*next_ns != 0)
        fprintf(stderr, "schedule_test: %llu of %llu\n", (unsigned long long)done,
                (unsigned long long)options->count);
    *next_ns = now + PROGRESS_NS;
}

int main(int argc, char **argv)
{
    static struct schedule_run run;
    struct options options = {.count = 200000, .first = 1};
    struct schedule_sums sums = {0};
    struct schedule s;
    uint64_t next_ns = 0;

    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    if (!parse(&options, argc, argv))
        return 2;
    log_set_sink(ignore_log, NULL); /* the log of a wrong shadow would repeat the report */
    for (uint64_t i = 0; i < options.count; i++) {
        schedule_make(&s, options.first + i);
        if (schedule_replay(&run, &s, &sums) >= 0) {
            schedule_report(&s, &run, options.first + i);
            return 1;
        }
        if (i % 1024 == 0)
            say_progress(&options, i, &next_ns);
    }
    print_sums(&sums, options.first);
    if (options.count >= 10000 && !all_has_happened(&sums)) {
        fprintf(stderr, "schedule_test: something that can happen never did: see the zeros\n");
        return 1;
    }
    return 0;
}
