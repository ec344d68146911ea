/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top_print.c - the tables of `mbx top`.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tools/observe/diagnose.h"
#include "top.h"

/* A rank never waits if at most 5 % of its samples are waits.  This is significant only if the
 * other ranks wait for 20 %. */
#define NEVER_PERCENT  5
#define OTHERS_PERCENT 20
#define LOOKS_MIN      10
#define NAMED_MAX      8

static uint32_t percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (uint32_t)((part * 200 + whole) / (whole * 2));
}

/* Samples in which the rank had a core, or did not need one.  In the others its state is
 * unknown. */
static uint32_t looks_of(const struct top_rank *rank)
{
    return rank->looks - rank->states[TOP_READY];
}

static uint32_t waits_percent(const struct top_rank *rank)
{
    return percent(rank->states[TOP_WAITS], looks_of(rank));
}

/* "3"; for a rank without a number from the launcher, its process. */
static const char *name_of(const struct top_rank *rank, char words[WORDS_MAX])
{
    if (rank->head.rank == INSPECT_NOBODY)
        snprintf(words, WORDS_MAX, "pid %" PRIu32, rank->head.pid);
    else
        snprintf(words, WORDS_MAX, "%" PRIu32, rank->head.rank);
    return words;
}

/* ---- where it waits ---- */

/* The line of a place; cached if it is known that there is one or none, because the look-up takes some
 * milliseconds. */
static const char *line_of(const struct top_rank *rank, uint64_t caller)
{
    static struct {
        uint32_t pid; /* 0: not known */
        uint64_t caller;
        char words[OUTSIDE_MAX];
    } known[64];
    static uint32_t next;
    const struct inspect_rank place = {
        .head = rank->head, .owner = rank->owner, .state = {.caller = caller}};

    for (uint32_t i = 0; i < ARRAY_COUNT(known); i++)
        if (known[i].pid == rank->head.pid && known[i].caller == caller)
            return known[i].words;
    next = (next + 1) % ARRAY_COUNT(known);
    known[next].pid = outside_read_line(&place, known[next].words) ? rank->head.pid : 0;
    known[next].caller = caller;
    return known[next].words;
}

static void print_place(FILE *out, const struct top_rank *rank)
{
    const struct top_place *most = NULL;
    const char *line;

    for (uint32_t i = 0; i < rank->place_count; i++)
        if (most == NULL || rank->places[i].looks > most->looks)
            most = &rank->places[i];
    if (most == NULL)
        return;
    line = line_of(rank, most->caller);
    fprintf(out, "  %s%s%s", most->call, line[0] != '\0' ? " at " : "", line);
    if (most->peer[0] != '\0')
        fprintf(out, " %s %s, %s", most->is_send ? "to" : "from", most->peer, most->envelope);
    fprintf(out, ": %" PRIu32 " %%", percent(most->looks, rank->looks));
}

/* ---- a job ---- */

/* The increase per second, from first to last. */
static double rate(const struct top_rank *rank, uint64_t first, uint64_t last)
{
    uint64_t time_ns = rank->last.now_ns - rank->first.now_ns;

    return rank->last.now_ns <= rank->first.now_ns || last < first
               ? 0
               : (double)(last - first) * (double)CLOCK_S / (double)time_ns;
}

static void print_rank(FILE *out, const struct top_rank *rank)
{
    char words[WORDS_MAX];

    fprintf(out, "%10s", name_of(rank, words));
    for (int i = 0; i < TOP_STATES; i++)
        fprintf(out, " %4" PRIu32 " %%", percent(rank->states[i], rank->looks));
    if (rank->has_answered)
        fprintf(out, " %9.0f %9.0f %9.1f %9.1f %7" PRIu32 " %10" PRIu32,
                rate(rank, rank->first.sent, rank->last.sent),
                rate(rank, rank->first.received, rank->last.received),
                rate(rank, rank->first.sent_bytes, rank->last.sent_bytes) / 1e6,
                rate(rank, rank->first.received_bytes, rank->last.received_bytes) / 1e6,
                rank->posted, rank->unexpected);
    else
        fprintf(out, " %9s %9s %9s %9s %7s %10s", "-", "-", "-", "-", "-", "-");
    print_place(out, rank);
    fputc('\n', out);
}

static int by_waits_order(const void *a, const void *b)
{
    const struct top_rank *x = *(const struct top_rank *const *)a;
    const struct top_rank *y = *(const struct top_rank *const *)b;
    uint64_t left = (uint64_t)x->states[TOP_WAITS] * y->looks,
             right = (uint64_t)y->states[TOP_WAITS] * x->looks;

    return left != right ? (left > right) - (left < right)
                         : (x->head.rank > y->head.rank) - (x->head.rank < y->head.rank);
}

static void print_ranks(FILE *out, const struct top_job *job, bool by_waits)
{
    const struct top_rank **order = mem_calloc(job->count, sizeof *order);

    for (uint32_t i = 0; order != NULL && i < job->count; i++)
        order[i] = &job->ranks[i];
    if (order != NULL && by_waits)
        qsort(order, job->count, sizeof *order, by_waits_order);
    for (uint32_t i = 0; i < job->count; i++)
        print_rank(out, order != NULL ? order[i] : &job->ranks[i]);
    mem_free(order);
}

/* The most frequent state of a rank. */
static void print_does(FILE *out, const struct top_rank *rank)
{
    static const char *const does[TOP_STATES] = {
        [TOP_WAITS] = "waits",
        [TOP_MOVES] = "moves data",
        [TOP_CALLS] = "is in calls that do not block",
        [TOP_COMPUTES] = "computes",
        [TOP_READY] = "has no core to run on",
        [TOP_ELSEWHERE] = "is stopped, or waits for something that is no message,",
    };
    unsigned most = 0;

    for (unsigned i = 1; i < TOP_STATES; i++)
        if (rank->states[i] > rank->states[most])
            most = i;
    fprintf(out, "it %s %" PRIu32 " %% of its time", does[most],
            percent(rank->states[most], rank->looks));
}

/* Reports stopped ranks even if all others wait: a stopped rank ends no wait. */
static void print_stopped(FILE *out, const struct top_job *job)
{
    char words[WORDS_MAX], does[OUTSIDE_MAX];

    for (uint32_t i = 0; i < job->count; i++) {
        const struct top_rank *rank = &job->ranks[i];
        const struct inspect_rank seen = {
            .head = rank->head, .run = rank->run, .how = INSPECT_ASKED};

        if (outside_words(&seen, does) != NULL)
            fprintf(out, "%crank %s %s\n", TOP_VERDICT, name_of(rank, words), does);
    }
}

/* The most important line: the ranks that never wait are the ones that the others wait for. */
static void print_verdict(FILE *out, const struct top_job *job)
{
    uint64_t looks = 0, waits = 0;
    uint32_t never = 0, named = 0;
    const struct top_rank *one = NULL;
    char words[WORDS_MAX];

    for (uint32_t i = 0; i < job->count; i++) {
        const struct top_rank *rank = &job->ranks[i];

        if (waits_percent(rank) <= NEVER_PERCENT) {
            never++;
            one = rank;
        } else {
            looks += looks_of(rank);
            waits += rank->states[TOP_WAITS];
        }
    }
    fputc(TOP_VERDICT, out);
    if (job->count != 0 && job->ranks[0].looks < LOOKS_MIN) {
        fputs("too few samples to say which rank never waits\n", out);
        return;
    }
    if (never == job->count) {
        fputs("no rank waits\n", out);
        return;
    }
    if (never == 0 || percent(waits, looks) < OTHERS_PERCENT) {
        fprintf(out, "%s\n",
                never == 0 ? "every rank waits for some of its time"
                           : "the ranks wait for little of their time");
        return;
    }
    fprintf(out, "rank%s ", never == 1 ? "" : "s");
    for (uint32_t i = 0; i < job->count && named <= NAMED_MAX; i++) {
        if (waits_percent(&job->ranks[i]) > NEVER_PERCENT)
            continue;
        fprintf(out, "%s%s", named > 0 ? ", " : "",
                named == NAMED_MAX ? "..." : name_of(&job->ranks[i], words));
        named++;
    }
    fprintf(out, " never wait%s: ", never == 1 ? "s" : "");
    if (never == 1) {
        print_does(out, one);
        fputs("; ", out);
    }
    fprintf(out, "the other%s %" PRIu32 " %%\n", job->count - never == 1 ? " waits" : "s wait",
            percent(waits, looks));
}

static void print_job(FILE *out, const struct top_job *job, bool by_waits)
{
    fprintf(out, "%s: %" PRIu32, job->title, job->count);
    if (job->size != INSPECT_NOBODY)
        fprintf(out, " of %" PRIu32 " ranks", job->size);
    else
        fprintf(out, " endpoint%s", job->count == 1 ? "" : "s");
    fprintf(out, " on this host, %" PRIu32 " looks\n", job->ranks[0].looks);
    fprintf(out, "%c%10s %6s %6s %6s %6s %6s %6s %9s %9s %9s %9s %7s %10s  %s\n", TOP_HEADING,
            "rank", "waits", "data", "calls", "comp.", "ready", "other", "sent/s", "recv./s",
            "MB/s out", "MB/s in", "posted", "unexpected", "waits most in");
    print_ranks(out, job, by_waits);
    print_stopped(out, job);
    print_verdict(out, job);
}

void top_print(FILE *out, const struct top *top, bool by_waits)
{
    for (uint32_t i = 0; i < top->count; i++)
        print_job(out, &top->jobs[i], by_waits);
}
