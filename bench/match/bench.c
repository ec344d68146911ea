/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.c - measures one case with all engines in turns.
 */
#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"

/* A case may take this many times its budget before it counts as too slow. */
#define PATIENCE 4

const uint32_t bench_depths[] = {1,    2,    4,     8,     16,     64,      256,
                                 1024, 4096, 16384, 65536, 262144, 1048576, 0};

/* The short form uses every fourth depth. */
bool bench_has_depth(const struct bench *b, uint32_t depth)
{
    if (depth > b->settings.depth_max)
        return false;
    return !b->settings.is_quick || depth == 1 || depth == 16 || depth == 64 || depth == 1024;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void bench_fail(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "match_bench: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    exit(1);
}

uint64_t bench_clock_ns(void)
{
    static uint64_t least;

    if (least != 0)
        return least;
    least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t start = clock_now(), end = clock_now();

        if (end - start < least)
            least = end - start;
    }
    if (least == 0)
        least = 1;
    return least;
}

uint64_t bench_elapsed(uint64_t from, uint64_t until)
{
    uint64_t clock_ns = bench_clock_ns();

    return until - from > clock_ns ? until - from - clock_ns : 0;
}

/* True if the line has all words of the filter. */
bool bench_wants(const struct bench *b, const char *bench, const char *keys)
{
    char line[BENCH_KEYS_MAX + 64], words[512], *word, *rest;

    if (b->settings.filter == NULL)
        return true;
    snprintf(line, sizeof line, " bench=%s %s ", bench, keys);
    snprintf(words, sizeof words, "%s", b->settings.filter);
    for (word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char whole[512 + 4];

        snprintf(whole, sizeof whole, " %s ", word);
        if (strstr(line, strchr(word, '=') != NULL ? whole : word) == NULL)
            return false;
    }
    return true;
}

static unsigned repeats_of(const struct bench *b, const struct bench_case *c)
{
    return c->repeats != 0 ? c->repeats : b->settings.repeats;
}

static bool can_do(const struct bench *b, const struct bench_case *c, unsigned i)
{
    const struct bench_ops *ops = bench_engines[i];

    return b->settings.wants[i] && (ops->is_measured || c->is_for_nothing) &&
           (ops->post_many != NULL || !c->needs_many);
}

/* Counts the minimum time of c: fills and one budget for each engine. */
static void count_case(struct bench *b, const struct bench_case *c)
{
    b->cases++;
    for (unsigned i = 0; bench_engines[i] != NULL; i++)
        if (can_do(b, c, i))
            b->estimate_ns += b->settings.budget_ms * CLOCK_MS * 5 / 4 +
                              ((uint64_t)c->recvs + c->msgs) * 150 +
                              (c->rounds != 0 ? repeats_of(b, c) * CLOCK_MS : 0);
    if (b->settings.is_dry)
        printf("bench=%s %s\n", c->bench, c->keys);
}

void bench_progress(struct bench *b, const char *bench, const char *keys)
{
    uint64_t seconds = (clock_now() - b->start_ns) / CLOCK_S;

    b->done++;
    fprintf(stderr, "%u/%u %u:%02u of about %u:%02u  %s %s\n", b->done, b->cases,
            (unsigned)(seconds / 60), (unsigned)(seconds % 60),
            (unsigned)(b->estimate_ns / CLOCK_S / 60),
            (unsigned)(b->estimate_ns / CLOCK_S % 60), bench, keys);
}

static void drop(struct subject *s)
{
    if (s->other != NULL)
        s->ops->destroy(s->other);
    s->ops->destroy(s->engine);
    s->engine = s->other = NULL;
}

/* Nanoseconds for `rounds` rounds, or BENCH_TOO_SLOW; the engine is then destroyed. */
static uint64_t attempt(const struct bench_case *c, struct subject *s, uint64_t rounds)
{
    uint64_t ns = c->measure(c, s, rounds);

    if (s->cursor.wrong != 0)
        bench_fail("engine %s found a wrong partner: bench=%s %s (differs by 0x%x)",
                   s->ops->name, c->bench, c->keys, s->cursor.wrong);
    if (ns == BENCH_TOO_SLOW) {
        s->tried_ns = c->limit_ns / c->per_round;
        drop(s);
    }
    return ns;
}

/* Time of the shortest repeat: the better of two, because one may have been disturbed. */
static uint64_t least_ns(const struct bench_case *c, struct subject *s)
{
    uint64_t ns = attempt(c, s, 1), again;

    if (s->engine == NULL || ns * c->least <= c->limit_ns)
        return ns;
    again = attempt(c, s, 1);
    return again < ns ? again : ns;
}

/* Sets s->rounds, or drops an engine that is too slow. */
static void find_rounds(const struct bench *b, const struct bench_case *c, struct subject *s)
{
    uint64_t slice = b->settings.budget_ms * CLOCK_MS / repeats_of(b, c);
    uint64_t rounds = 1, ns = least_ns(c, s);

    if (s->engine != NULL && ns * c->least > c->limit_ns) {
        s->tried_ns = ns / c->per_round;
        drop(s);
    }
    while (s->engine != NULL && c->rounds == 0 && ns < slice / 4) {
        rounds *= 2;
        ns = attempt(c, s, rounds);
    }
    s->rounds = (uint64_t)((double)rounds * (double)slice / (double)(ns + 1));
    if (s->rounds < c->least)
        s->rounds = c->least;
    if (c->rounds != 0)
        s->rounds = c->rounds;
}

static void start(const struct bench *b, const struct bench_case *c, struct subject *s)
{
    s->engine = s->ops->create(c->recvs, c->msgs);
    if (s->engine == NULL || !c->fill(c, s))
        bench_fail("engine %s has no memory for bench=%s %s", s->ops->name, c->bench, c->keys);
    find_rounds(b, c, s);
}

static void repeat(const struct bench_case *c, struct subject *s, unsigned n)
{
    uint64_t ns;

    if (c->rounds == 0 && s->rounds > 1) /* another engine has filled the caches */
        attempt(c, s, s->rounds / 8 + 1);
    if (s->engine == NULL)
        return;
    ns = attempt(c, s, s->rounds);
    s->ns[n] = (double)ns / (double)(s->rounds * c->per_round);
}

static void report(const struct bench_case *c, struct subject *s, unsigned repeats)
{
    printf("bench=%s engine=%s %s ", c->bench, s->ops->name, c->keys);
    if (s->engine == NULL) {
        printf("skipped=too_slow tried_ns=%llu\n", (unsigned long long)s->tried_ns);
        return;
    }
    qsort(s->ns, repeats, sizeof s->ns[0], compare);
    printf("median_ns=%.1f min_ns=%.1f rounds=%llu repeats=%u\n", s->ns[repeats / 2], s->ns[0],
           (unsigned long long)s->rounds, repeats);
    drop(s);
}

static void measure_case(struct bench *b, const struct bench_case *c)
{
    struct subject *subjects = calloc(BENCH_ENGINES_MAX, sizeof *subjects);
    unsigned repeats = repeats_of(b, c), count = 0;

    if (subjects == NULL)
        bench_fail("no memory");
    for (unsigned i = 0; bench_engines[i] != NULL; i++) {
        if (can_do(b, c, i)) {
            subjects[count].ops = bench_engines[i];
            start(b, c, &subjects[count++]);
        }
    }
    for (unsigned n = 0; n < repeats; n++)
        for (unsigned i = 0; i < count; i++)
            if (subjects[i].engine != NULL)
                repeat(c, &subjects[i], n);
    for (unsigned i = 0; i < count; i++)
        report(c, &subjects[i], repeats);
    fflush(stdout);
    free(subjects);
}

void bench_run(struct bench *b, struct bench_case *c)
{
    uint64_t limit_ns = b->settings.budget_ms * CLOCK_MS * PATIENCE / repeats_of(b, c);

    if (!bench_wants(b, c->bench, c->keys))
        return;
    if (b->is_counting) {
        count_case(b, c);
        return;
    }
    if (c->limit_ns < limit_ns)
        c->limit_ns = limit_ns;
    bench_progress(b, c->bench, c->keys);
    measure_case(b, c);
}
