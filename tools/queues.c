/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queues.c - `mbx queues`: what waits in the ranks of jobs that run now, or waited when their core files were written.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "observe.h"
#include "tool.h"
#include "words.h"

static const char usage[] =
    "usage: mbx queues [OPTIONS]\n"
    "\n"
    "Shows the receives, messages and sends that wait in the ranks of this user's jobs on "
    "this\n"
    "host.  No rank is stopped: each one that makes progress answers itself; what does not\n"
    "answer (it computes, or is stopped) is read from outside.\n"
    "\n"
    "  --job JOB      only this job: the number behind `job`\n"
    "  --rank RANK    only this rank\n"
    "  --core FILE    instead, the ranks of this core file; given again, of several, as those "
    "of\n"
    "                 a job\n"
    "  --stats        the statistics of each rank, too, as MBX_STATS_FILE has them\n"
    "  --json         one JSON object, for programs; docs/queues.schema.json describes it\n"
    "  --watch SECONDS  again and again, every so many seconds (0: at once), until it is\n"
    "                 interrupted\n"
    "  --wait MS      how long a rank has time to answer (default 1000)\n"
    "  -h, --help     this text\n"
    "\n"
    "  posted      a receive that waits for a message\n"
    "  unexpected  a message that waits for a receive\n"
    "  send        a send that waits until its message is received; deferred: it has not "
    "left,\n"
    "              because its receiver's window is used up (MBX_UNEXPECTED_MEMORY)\n"
    "  sending     a send whose data is on its way\n"
    "  receiving   a receive that has its message, and is being filled\n"
    "  access      a one-sided access that is not complete\n"
    "  probe       what the last probe that found nothing had asked for\n"
    "  probed      a message that a matched probe has taken, and no receive yet\n"
    "\n"
    "Behind what has been there for a second stands for how long: so long at least, and mostly "
    "0.1 s\n"
    "more at most.\n"
    "\n"
    "Exit status 1 if there is no such rank.\n";

static const struct option options[] = {{"job", required_argument, NULL, 'j'},
                                        {"rank", required_argument, NULL, 'r'},
                                        {"core", required_argument, NULL, 'c'},
                                        {"stats", no_argument, NULL, 's'},
                                        {"json", no_argument, NULL, 'J'},
                                        {"watch", required_argument, NULL, 'w'},
                                        {"wait", required_argument, NULL, 'm'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

struct wanted {
    struct observe_options observe;
    bool stats, json, watches;
    uint64_t watch_s;
    const char **cores; /* of as many as there are arguments */
    uint32_t core_count;
};

/* ---- as text ---- */

static const char *how_text(const struct see_rank *rank)
{
    switch (rank->how) {
    case SEE_ASKED:
        return rank->state.call[0] != '\0' ? "" : "answers";
    case SEE_READ:
        return rank->run == 'T' || rank->run == 't' ? "is stopped; read from outside"
                                                    : "makes no progress; read from outside";
    case SEE_MOVING:
        return "was read from outside while it changed: not exact";
    case SEE_CORE:
        return "in a core file";
    case SEE_FAILED:
        break;
    }
    return "cannot be read";
}

/* They come with an answer alone. */
static bool has_statistics(const struct see_rank *rank)
{
    return rank->text != NULL && rank->text[0] != '\n';
}

static void print_rank(const struct see_job *job, uint32_t at, bool stats)
{
    const struct see_rank *rank = &job->ranks[at];
    char words[WORDS_MAX];
    uint64_t all = 0;

    printf("rank %s  pid %" PRIu32 "  ", words_of_rank(rank, words), rank->head.pid);
    if (rank->how == SEE_ASKED && rank->state.call[0] != '\0') {
        printf("in %s", rank->state.call);
        if (rank->state.still_ns != 0 && rank->state.now_ns - rank->state.still_ns >= CLOCK_S)
            printf(", %.1f s without a change",
                   (double)(rank->state.now_ns - rank->state.still_ns) / (double)CLOCK_S);
    }
    puts(how_text(rank));
    for (uint32_t i = 0; i < rank->count; i++) {
        const struct see_entry *entry = &rank->entries[i];

        printf("  %-10s  %s", see_kind_name(entry->kind),
               words_of_entry(job, at, entry, words));
        if (entry->flags & SEE_ENTRY_DEFERRED)
            printf(", deferred");
        if (entry->kind != SEE_PROBE && entry->waited_ms != SEE_NOT_KNOWN &&
            entry->waited_ms >= 1000)
            printf(", %.1f s", (double)entry->waited_ms / 1000);
        putchar('\n');
    }
    for (unsigned kind = 1; kind < SEE_KINDS; kind++)
        all += rank->state.counts[kind];
    if (all > rank->count) {
        printf("  and %" PRIu64 " more; in all:", all - rank->count);
        for (unsigned kind = 1; kind < SEE_KINDS; kind++)
            if (rank->state.counts[kind] != 0)
                printf(" %" PRIu32 " %s", rank->state.counts[kind], see_kind_name(kind));
        putchar('\n');
    }
    if (stats && has_statistics(rank))
        printf("  %.*s\n", (int)strcspn(rank->text, "\n"), rank->text);
    else if (stats)
        puts("  no statistics: it has not answered");
}

static void print_job(const struct see_job *job, bool stats, bool cores)
{
    const char *mpi = job->ranks[0].head.mpi;
    char now[32];
    time_t seconds = time(NULL);
    struct tm tm;

    strftime(now, sizeof now, "%H:%M:%S", localtime_r(&seconds, &tm));
    printf("job %016" PRIx64 "%s%.*s%s: %" PRIu32, job->ranks[0].head.job,
           mpi[0] != '\0' ? " (" : "", (int)strcspn(mpi, ","), mpi, mpi[0] != '\0' ? ")" : "",
           job->count);
    if (job->size != SEE_NOBODY)
        printf(" of %" PRIu32 " ranks ", job->size);
    else
        printf(" endpoint%s ", job->count == 1 ? "" : "s");
    if (cores)
        puts("in core files");
    else
        printf("on this host, %s\n", now);
    for (uint32_t i = 0; i < job->count; i++)
        print_rank(job, i, stats);
}

/* ---- as JSON ---- */

static const char *how_name(enum see_how how)
{
    static const char *const names[] = {[SEE_ASKED] = "asked",
                                        [SEE_READ] = "read",
                                        [SEE_MOVING] = "moving",
                                        [SEE_CORE] = "core",
                                        [SEE_FAILED] = "failed"};

    return names[how];
}

static void json_text(const char *name, const char *text)
{
    printf("\"%s\":\"", name);
    for (; *text != '\0' && *text != '\n'; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else
            putchar(*text >= ' ' && *text <= '~' ? *text : '?');
    putchar('"');
}

/* null if it is not known. */
static void json_number(const char *name, uint32_t number)
{
    if (number == SEE_NOBODY)
        printf("\"%s\":null", name);
    else
        printf("\"%s\":%" PRIu32, name, number);
}

static void json_entry(const struct see_job *job, uint32_t at, const struct see_entry *entry)
{
    uint32_t whose = see_whose(job, at, entry);
    char words[WORDS_MAX];

    printf("{\"kind\":\"%s\",", see_kind_name(entry->kind));
    json_number("peer", entry->peer);
    putchar(',');
    json_number("rank", whose != SEE_NOBODY ? job->ranks[whose].head.rank : SEE_NOBODY);
    printf(",\"any_source\":%s,\"context\":%" PRIu32 ",\"tag\":%" PRIu64 ",\"ignore\":%" PRIu64
           ",\"size\":%" PRIu64 ",\"synchronous\":%s,\"deferred\":%s,\"id\":%" PRIu64
           ",\"count\":%" PRIu32 ",\"needs\":%u,",
           entry->peer == SEE_NOBODY ? "true" : "false", entry->context_id, entry->tag,
           entry->ignore, entry->size, entry->flags & SEE_ENTRY_SYNC ? "true" : "false",
           entry->flags & SEE_ENTRY_DEFERRED ? "true" : "false", entry->id,
           entry->kind == SEE_PROBE ? entry->count : 0, entry->needs);
    json_number("waited_ms", entry->kind == SEE_PROBE ? SEE_NOBODY : entry->waited_ms);
    putchar(',');
    json_text("words", words_of_entry(job, at, entry, words));
    putchar('}');
}

/* For how long nothing has happened; null if it is not known. */
static void json_still(const struct see_rank *rank)
{
    const struct see_state *state = &rank->state;
    if (state->still_ns != 0 && state->still_ns <= state->now_ns)
        printf("\"still_ms\":%" PRIu64, (state->now_ns - state->still_ns) / CLOCK_MS);
    else
        printf("\"still_ms\":null");
}

static void json_rank(const struct see_job *job, uint32_t at, bool stats)
{
    const struct see_rank *rank = &job->ranks[at];
    char run[2] = {rank->run, '\0'};

    putchar('{');
    json_number("rank", rank->head.rank);
    printf(",\"pid\":%" PRIu32 ",\"seen\":\"%s\",", rank->head.pid, how_name(rank->how));
    json_text("state", run);
    putchar(',');
    json_text("call", rank->state.call);
    putchar(',');
    json_still(rank);
    printf(",\"arrived\":%" PRIu64 ",\"sent\":%" PRIu64 ",\"received\":%" PRIu64
           ",\"counts\":{",
           rank->state.pulse.arrived, rank->state.pulse.sent, rank->state.pulse.received);
    for (unsigned kind = 1; kind < SEE_KINDS; kind++)
        printf("%s\"%s\":%" PRIu32, kind > 1 ? "," : "", see_kind_name(kind),
               rank->state.counts[kind]);
    printf("},\"entries\":[");
    for (uint32_t i = 0; i < rank->count; i++) {
        if (i > 0)
            putchar(',');
        json_entry(job, at, &rank->entries[i]);
    }
    putchar(']');
    if (stats && has_statistics(rank)) {
        putchar(',');
        json_text("statistics", rank->text);
    }
    putchar('}');
}

static void print_json(const struct observed *observed, bool stats)
{
    printf("{\"jobs\":[");
    for (uint32_t j = 0; j < observed->count; j++) {
        const struct see_job *job = &observed->jobs[j];

        printf("%s{\"job\":\"%016" PRIx64 "\",", j > 0 ? "," : "", job->ranks[0].head.job);
        json_text("mpi", job->ranks[0].head.mpi);
        putchar(',');
        json_number("size", job->size);
        printf(",\"ranks\":[");
        for (uint32_t i = 0; i < job->count; i++) {
            if (i > 0)
                putchar(',');
            json_rank(job, i, stats);
        }
        printf("]}");
    }
    printf("]}\n");
}

/* ---- the command ---- */

static void say_empty(const struct tool *tool, const struct wanted *wanted)
{
    if (wanted->core_count != 0)
        tool_error(tool, "no such rank is in %s",
                   wanted->core_count == 1 ? "the core file" : "the core files");
    else
        tool_error(tool,
                   "no such rank of this user runs over Matchbox on this host (or it runs "
                   "with MBX_SEE=off)");
}

static int find(const struct wanted *wanted, struct observed *observed, char why[OBSERVE_WHY])
{
    int err;

    if (wanted->core_count != 0)
        return observe_cores(&wanted->observe, wanted->cores, wanted->core_count, observed,
                             why);
    err = observe(&wanted->observe, observed);
    if (err < 0)
        snprintf(why, OBSERVE_WHY, "cannot look at the processes of this host: %s",
                 strerror(-err));
    return err;
}

static int look(const struct tool *tool, const struct wanted *wanted)
{
    char why[OBSERVE_WHY];
    struct observed observed;
    int err = find(wanted, &observed, why);
    bool is_empty = observed.count == 0;

    if (err < 0) {
        tool_error(tool, "%s", why);
        observe_free(&observed);
        return TOOL_FAILED;
    }
    if (wanted->json)
        print_json(&observed, wanted->stats);
    for (uint32_t i = 0; !wanted->json && i < observed.count; i++)
        print_job(&observed.jobs[i], wanted->stats, wanted->core_count != 0);
    if (observed.refused != 0)
        tool_error(tool, "%" PRIu32 " endpoints cannot be read; %s", observed.refused,
                   observed.why);
    if (is_empty)
        say_empty(tool, wanted);
    fflush(stdout);
    observe_free(&observed);
    return is_empty ? TOOL_FAILED : TOOL_DONE;
}

static int parse(const struct tool *tool, int argc, char **argv, struct wanted *wanted)
{
    uint64_t number;
    int c, status;

    while ((c = tool_option(tool, argc, argv, "+:h", options, &status)) >= 0) {
        int err = 0;

        if (c == 'j') {
            err = observe_parse_job(tool, optarg, &wanted->observe.job);
        } else if (c == 'r') {
            err = tool_number(tool, "--rank", optarg, 0, UINT32_MAX - 1, &number);
            wanted->observe.rank = (uint32_t)number;
        } else if (c == 'c') {
            wanted->cores[wanted->core_count++] = optarg;
        } else if (c == 'w') {
            err = tool_number(tool, "--watch", optarg, 0, 86400, &wanted->watch_s);
            wanted->watches = true;
        } else if (c == 'm') {
            err = tool_number(tool, "--wait", optarg, 1, 3600000, &number);
            wanted->observe.wait_ns = number * CLOCK_MS;
        }
        wanted->stats |= c == 's';
        wanted->json |= c == 'J';
        if (err != 0)
            return err;
    }
    status = tool_options_end(tool, argc, argv, c, status);
    if (status != 0)
        return status;
    if (wanted->core_count != 0 && wanted->watches)
        return tool_usage_error(tool, "--watch has no use with --core: a core file does not "
                                      "change");
    return 0;
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct wanted wanted = {.observe = {.rank = SEE_NOBODY, .wait_ns = CLOCK_S},
                            .cores = mem_calloc((size_t)argc, sizeof *wanted.cores)};
    int status;

    if (wanted.cores == NULL) {
        tool_error(tool, "no memory");
        return TOOL_FAILED;
    }
    status = parse(tool, argc, argv, &wanted);
    if (status < 0) {
        status = TOOL_DONE;
    } else if (status == 0) {
        while ((status = look(tool, &wanted)), wanted.watches)
            sleep((unsigned)wanted.watch_s);
    }
    mem_free(wanted.cores);
    return status;
}

const struct tool tool_queues = {
    .name = "queues",
    .about = "show what waits in the ranks of jobs that run",
    .usage = usage,
    .options = options,
    .run = run,
};
