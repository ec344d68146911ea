/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queues.c - `mbx queues`: the queues of the ranks of running jobs, or of jobs with core files.
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
#include "hosts.h"
#include "queues.h"
#include "snapshot.h"
#include "tools/common/tool.h"
#include "tools/observe/diagnose.h"
#include "tools/observe/job_name.h"
#include "tools/observe/observe.h"
#include "tools/observe/words.h"

static const char usage[] =
    "usage: mbx queues [OPTIONS]\n"
    "\n"
    "Examples:\n"
    "  mbx queues                           all jobs of this user on this host\n"
    "  mbx queues --job ./solver --rank 3   one rank\n"
    "  mbx queues --launch 'srun --overlap -N4 --ntasks-per-node=1'   a job of Slurm\n"
    "  mbx queues --core core.4711          a core file\n"
    "\n"
    "Shows the receives, messages and sends that wait in the ranks.  It stops no rank.  A\n"
    "rank that makes progress answers itself; mbx reads the memory of a rank that\n"
    "computes or is stopped.  The job must run over Matchbox: start it by mbx exec.\n"
    "\n"
    "  --job JOB      only this job: its id, its program, one of its processes, or the\n"
    "                 process that has started it\n"
    "  --rank RANK    only this rank\n"
    "  --all-users    for root: jobs of all users, not only of root\n"
    "  --core FILE    the ranks of this core file instead; give it again for more core\n"
    "                 files of the same job\n" HOSTS_USAGE
    "  --stats        also the statistics of each rank, as in MBX_STATS_FILE\n"
    "  --json         one JSON object, for programs; docs/reference/queues.schema.json\n"
    "                 describes it\n"
    "  --details      also the line of the program in which each rank is; with --json also\n"
    "                 what it does while it makes no progress, and ranks that do not run\n"
    "                 over Matchbox\n"
    "  --watch SECONDS  repeat after this time (0: at once) until interrupted\n"
    "  --wait MS      how long a rank may take to answer (default 1000)\n"
    "  -h, --help     this text\n"
    "\n"
    "  posted      a receive that waits for a message\n"
    "  unexpected  a message that waits for a receive\n"
    "  send        a send that waits until its message is received; deferred: the message\n"
    "              is still at its sender, because its receiver's window is full\n"
    "              (MBX_UNEXPECTED_MEMORY)\n"
    "  sending     a send whose data is being transferred\n"
    "  receiving   a receive that has matched, and whose data is being transferred\n"
    "  access      a one-sided access that is not complete\n"
    "  probe       the arguments of the last probe that found nothing\n"
    "  probed      a message that a matched probe has taken, and no receive yet\n"
    "\n"
    "An entry that is older than a second shows its age, accurate to about 0.1 s.\n"
    "\n"
    "If a process has more endpoints than the one that carries the messages of MPI, such\n"
    "an endpoint is shown if something waits in it, or with --stats.  --json has all.\n"
    "\n"
    "Exit status: 1 if there is no such rank, or a host has not answered.\n";

static const struct option options[] = {{"job", required_argument, NULL, 'j'},
                                        {"rank", required_argument, NULL, 'r'},
                                        {"core", required_argument, NULL, 'c'},
                                        {"stats", no_argument, NULL, 's'},
                                        {"json", no_argument, NULL, 'J'},
                                        {"details", no_argument, NULL, 'd'},
                                        {"snapshot", no_argument, NULL, 'S'},
                                        {"all-users", no_argument, NULL, 'a'},
                                        HOSTS_OPTIONS,
                                        {"watch", required_argument, NULL, 'w'},
                                        {"wait", required_argument, NULL, 'm'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

struct wanted {
    struct observe_options observe;
    struct hosts hosts;
    bool stats, json, details, snapshot, watches;
    uint64_t watch_ns;
    const char **cores; /* has space for as many as there are arguments */
    uint32_t core_count;
};

/* ---- as text ---- */

static const char *how_text(const struct inspect_rank *rank)
{
    switch (rank->how) {
    case INSPECT_ASKED:
        return rank->state.call[0] != '\0' ? "" : "answers";
    case INSPECT_READ:
        return rank->run == 'T' || rank->run == 't' ? "is stopped; read from outside"
                                                    : "makes no progress; read from outside";
    case INSPECT_MOVING:
        return "was read from outside while it changed: not exact";
    case INSPECT_CORE:
        return "in a core file";
    case INSPECT_FAILED:
        break;
    }
    return "cannot be read";
}

/* Only an answer contains statistics. */
static bool has_statistics(const struct inspect_rank *rank)
{
    return rank->text != NULL && rank->text[0] != '\n';
}

/* Receives that libucp keeps posted are none of the program. */
static bool is_printed(const struct inspect_entry *entry)
{
    return entry->kind != INSPECT_POSTED || !(entry->flags & INSPECT_ENTRY_INTERNAL);
}

/* Is it known that anything waits in this endpoint? */
static bool has_entries(const struct inspect_rank *rank)
{
    for (uint32_t i = 0; i < rank->count; i++)
        if (is_printed(&rank->entries[i]))
            return true;
    return false;
}

static void print_rank(const struct inspect_job *job, uint32_t at, bool stats, bool details)
{
    const struct inspect_rank *rank = &job->ranks[at];
    bool is_other = observed_is_other(job, at);
    char words[WORDS_MAX], line[OUTSIDE_MAX];
    uint64_t all = 0;

    if (is_other && !has_entries(rank) && !(stats && has_statistics(rank)))
        return;
    printf("rank %s  ", words_of_rank(rank, words));
    printf("%s  ", words_of_process(rank, words));
    if (is_other)
        printf("another endpoint, without messages of MPI  ");
    if (rank->how == INSPECT_ASKED && rank->state.call[0] != '\0') {
        printf("in %s", rank->state.call);
        if (details && outside_line(rank, line) != NULL)
            printf(" at %s", line);
        if (rank->state.still_ns != 0 && rank->state.now_ns - rank->state.still_ns >= CLOCK_S)
            printf(", %.1f s without a change",
                   (double)(rank->state.now_ns - rank->state.still_ns) / (double)CLOCK_S);
    }
    puts(how_text(rank));
    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *entry = &rank->entries[i];

        if (!is_printed(entry))
            continue;
        printf("  %-10s  %s", inspect_kind_name(entry->kind),
               words_of_entry(job, at, entry, words));
        if (entry->flags & INSPECT_ENTRY_DEFERRED)
            printf(", deferred");
        if (entry->kind != INSPECT_PROBE && entry->waited_ms != INSPECT_NOT_KNOWN &&
            entry->waited_ms >= 1000)
            printf(", %.1f s", (double)entry->waited_ms / 1000);
        putchar('\n');
    }
    for (unsigned kind = 1; kind < INSPECT_KINDS; kind++)
        all += rank->state.counts[kind];
    if (all > rank->count) {
        printf("  and %" PRIu64 " more; in all:", all - rank->count);
        for (unsigned kind = 1; kind < INSPECT_KINDS; kind++)
            if (rank->state.counts[kind] != 0)
                printf(" %" PRIu32 " %s", rank->state.counts[kind], inspect_kind_name(kind));
        putchar('\n');
    }
    if (stats && has_statistics(rank))
        printf("  %.*s\n", (int)strcspn(rank->text, "\n"), rank->text);
    else if (stats)
        puts("  no statistics: it has not answered");
}

static uint32_t count_hosts(const struct inspect_job *job)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < job->count; i++) {
        bool is_first = true;

        for (uint32_t k = 0; k < i && is_first; k++)
            is_first = job->ranks[k].host != job->ranks[i].host;
        count += is_first;
    }
    return count;
}

static void print_job(const struct inspect_job *job, bool stats, bool details, bool cores)
{
    char now[32], title[JOB_TITLE];
    time_t seconds = time(NULL);
    struct tm tm;

    strftime(now, sizeof now, "%H:%M:%S", localtime_r(&seconds, &tm));
    printf("%s: %" PRIu32, job_title(job, true, title), observed_ranks(job));
    if (job->size != INSPECT_NOBODY)
        printf(" of %" PRIu32 " ranks ", job->size);
    else
        printf(" endpoint%s ", observed_ranks(job) == 1 ? "" : "s");
    if (cores)
        puts("in core files");
    else if (job->ranks[0].reported == NULL)
        printf("on this host, %s\n", now);
    else
        printf("on %" PRIu32 " host%s, %s\n", count_hosts(job),
               count_hosts(job) == 1 ? "" : "s", now);
    job_print_parts(stdout, job);
    for (uint32_t i = 0; i < job->count; i++)
        print_rank(job, i, stats, details);
}

/* ---- the command ---- */

static void say_empty(const struct tool *tool, const struct wanted *wanted)
{
    if (wanted->core_count != 0)
        tool_error(tool, "no such rank is in %s",
                   wanted->core_count == 1 ? "the core file" : "the core files");
    else if (wanted->hosts.count != 0)
        tool_error(tool, "no such rank runs over Matchbox on the hosts that have answered; "
                         "start jobs with mbx "
                         "exec, without MBX_INSPECT=no");
    else
        tool_error(
            tool,
            "no such rank of this user runs over Matchbox on this host; start jobs with mbx "
            "exec, without MBX_INSPECT=no%s",
            observe_hint(&wanted->observe));
}

static int find(struct wanted *wanted, struct observed *observed, char why[OBSERVE_WHY])
{
    int err;

    if (wanted->core_count != 0)
        return observe_cores(&wanted->observe, wanted->cores, wanted->core_count, observed,
                             why);
    if (wanted->hosts.count != 0) {
        err = hosts_look(&wanted->hosts, &wanted->observe, wanted->stats, wanted->details,
                         observed);
        for (uint32_t i = 0; i < wanted->hosts.count; i++)
            wanted->hosts.commands[i].is_gone =
                false; /* --watch: it may answer in the next round */
        if (err < 0)
            snprintf(why, OBSERVE_WHY, "cannot call the launcher: %s", strerror(-err));
        return err;
    }
    err = observe(&wanted->observe, observed);
    if (err < 0)
        snprintf(why, OBSERVE_WHY, "cannot look at the processes of this host: %s",
                 strerror(-err));
    return err;
}

static int print_snapshot(const struct tool *tool, const struct observed *observed,
                          const struct queues_json *json)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int err = out != NULL ? 0 : -ENOMEM;

    if (err == 0) {
        queues_json(out, observed, json);
        if (fclose(out) != 0)
            err = -ENOMEM;
    }
    if (err == 0)
        err = snapshot_write(text, size - 1); /* without its line feed */
    free(text);
    if (err != 0)
        tool_error(tool, "cannot write the snapshot: %s", strerror(-err));
    return err != 0 ? TOOL_FAILED : TOOL_DONE;
}

static int print(const struct tool *tool, const struct wanted *wanted,
                 struct observed *observed)
{
    struct queues_json json = {.stats = wanted->stats || wanted->snapshot,
                               .details = wanted->details,
                               .entries = wanted->snapshot ? INSPECT_ENTRIES : UINT32_MAX};
    int status = TOOL_DONE;

    if (wanted->snapshot)
        return print_snapshot(tool, observed, &json);
    if (wanted->json)
        queues_json(stdout, observed, &json);
    else if (observed_join(observed) != 0)
        tool_error(tool, "no memory to find which jobs belong together");
    for (uint32_t i = 0; !wanted->json && i < observed->count; i++)
        print_job(&observed->jobs[i], wanted->stats, wanted->details, wanted->core_count != 0);
    fflush(stdout);
    if (hosts_say(stderr, observed) != 0)
        status = TOOL_FAILED;
    if (observed->refused != 0)
        tool_error(tool, "%" PRIu32 " endpoints cannot be read; %s", observed->refused,
                   observed->why);
    if (observed->count == 0) {
        say_empty(tool, wanted);
        status = TOOL_FAILED;
    }
    return status;
}

/* Prints a result without jobs for programs that read JSON, if --job fits no job or
 * several. */
static void print_none(const struct wanted *wanted, struct observed *observed)
{
    const struct queues_json json = {.details = wanted->details};

    observed_keep(observed, 0);
    if (wanted->json)
        queues_json(stdout, observed, &json);
    fflush(stdout);
    hosts_say(stderr, observed);
}

static int look(const struct tool *tool, struct wanted *wanted)
{
    char why[OBSERVE_WHY];
    struct observed observed = {.count = 0};
    bool is_here = wanted->core_count == 0 && wanted->hosts.count == 0;
    int err, status = is_here ? observe_choose(tool, &wanted->observe) : 0;

    err = status == 0 ? find(wanted, &observed, why) : 0;
    if (err < 0)
        tool_error(tool, "%s", why);
    else if (status == 0)
        status = observed_choose(tool, &wanted->observe, &observed);
    if (err < 0)
        status = TOOL_FAILED;
    else if (status == 0)
        status = print(tool, wanted, &observed);
    else
        print_none(wanted, &observed);
    observe_free(&observed);
    return status;
}

static int parse(const struct tool *tool, int argc, char **argv, struct wanted *wanted)
{
    uint64_t number;
    int c, status;

    while ((c = tool_option(tool, argc, argv, "+:h", options, &status)) >= 0) {
        int err = 0;

        if (c == 'j') {
            observe_take_job(&wanted->observe, optarg);
        } else if (c == 'r') {
            err = tool_number(tool, "--rank", optarg, 0, UINT32_MAX - 1, &number);
            wanted->observe.rank = (uint32_t)number;
        } else if (c == 'c') {
            wanted->cores[wanted->core_count++] = optarg;
        } else if (c == 'w') {
            err =
                tool_time(tool, "--watch", optarg, "s", 0, 86400 * CLOCK_S, &wanted->watch_ns);
            wanted->watches = true;
        } else if (c == 'm') {
            err = tool_time(tool, "--wait", optarg, "ms", CLOCK_MS, 3600 * CLOCK_S,
                            &wanted->observe.wait_ns);
        }
        wanted->stats |= c == 's';
        wanted->json |= c == 'J';
        wanted->details |= c == 'd';
        wanted->snapshot |= c == 'S';
        wanted->observe.tasks |= c == 'S';
        wanted->observe.all_users |= c == 'a';
        if (err == 0)
            err = hosts_option(&wanted->hosts, tool, c, optarg);
        if (err > 0)
            return err;
    }
    status = tool_options_end(tool, argc, argv, c, status);
    if (status != 0)
        return status;
    if (wanted->core_count != 0 && wanted->watches)
        return tool_usage_error(tool, "--watch has no use with --core: a core file does not "
                                      "change");
    if (hosts_are_wanted(&wanted->hosts) &&
        (wanted->core_count != 0 || wanted->snapshot || wanted->observe.all_users))
        return tool_usage_error(tool, "--all, --launch and --hosts have no use with --core, "
                                      "--snapshot or --all-users");
    return hosts_prepare(&wanted->hosts, tool, &wanted->observe);
}

static void rest(uint64_t ns)
{
    const struct timespec time = {.tv_sec = (time_t)(ns / CLOCK_S),
                                  .tv_nsec = (long)(ns % CLOCK_S)};

    nanosleep(&time, NULL);
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct wanted wanted = {.observe = {.rank = INSPECT_NOBODY, .wait_ns = CLOCK_S},
                            .cores = mem_calloc((size_t)argc, sizeof *wanted.cores)};
    int status;

    if (wanted.cores == NULL || hosts_init(&wanted.hosts, argc) != 0) {
        mem_free(wanted.cores);
        tool_error(tool, "no memory");
        return TOOL_FAILED;
    }
    status = parse(tool, argc, argv, &wanted);
    if (status < 0) {
        status = TOOL_DONE;
    } else if (status == 0) {
        while ((status = look(tool, &wanted)), wanted.watches)
            rest(wanted.watch_ns);
    }
    hosts_fini(&wanted.hosts);
    mem_free(wanted.cores);
    return status;
}

const struct tool tool_queues = {
    .name = "queues",
    .about = "show the receives, messages and sends that wait in the ranks",
    .usage = usage,
    .options = options,
    .run = run,
};
