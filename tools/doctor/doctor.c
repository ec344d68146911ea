/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor.c - `mbx doctor`: the ranks that wait for messages that cannot come, and the reason.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tools/common/tool.h"
#include "tools/observe/diagnose.h"
#include "tools/observe/observe.h"
#include "tools/queues/hosts.h"
#include "looks.h"
#include "watchdog.h"

static const char usage[] =
    "usage: mbx doctor [OPTIONS]\n"
    "\n"
    "Examples:\n"
    "  mbx doctor                        the jobs of this user on this host\n"
    "  mbx doctor --job ./solver         one of them\n"
    "  mbx doctor --all                  the job of this host on all its hosts\n"
    "  mbx doctor --hosts node1,node2    a job on several hosts, by ssh\n"
    "\n"
    "Reports which ranks are deadlocked, in which call each of them is, and which\n"
    "messages do not match.  It stops no rank.  The job must run over Matchbox: start it\n"
    "by mbx exec.\n"
    "\n"
    "  --job JOB     only this job: its id, its program, one of its processes, or the\n"
    "                process that has started it\n"
    "  --all-users   for root: jobs of all users, not only of root\n"
    "  --between MS  time between the two snapshots of a round (default 300)\n"
    "  --rounds N    check up to N times, each time with one new snapshot, and stop at\n"
    "                the first deadlock (default 1), at one with \"unless\" only in the\n"
    "                last round.  Ignores ranks and jobs that start later.  Also reports\n"
    "                in how many rounds a rank that waits was judged\n"
    "  --polls MS    ranks that poll are judged after so long without a message (default\n"
    "                10000); not with --rounds\n"
    "  --wait MS     how long a rank may take to answer (default 700)\n"
    "  --verbose     also report why a rank of this host that runs Python, or is another\n"
    "                user's, is shown without the line of its program\n" HOSTS_USAGE
    "  -h, --help    this text\n"
    "\n"
    "A rank is deadlocked if only deadlocked ranks, or ranks in MPI_Finalize, can end its\n"
    "operations.  A rank that computes, polls (MPI_Test, MPI_Iprobe), is stopped or\n"
    "cannot be read may still send.  Such a rank is never called deadlocked, and neither\n"
    "is a rank that waits for it.\n"
    "\n"
    "If all ranks of a job wait or poll, without a message for 10 s, the report says how\n"
    "often they poll: if they do nothing else, it is a deadlock.\n"
    "\n"
    "With MPI_THREAD_MULTIPLE, if a thread of a rank has never communicated and might begin\n"
    "to, the report says \"unless\", and names this thread.\n"
    "\n"
    "With several hosts, all first snapshots end before any second snapshot begins.  If a\n"
    "host does not answer, its ranks are unknown, and ranks that wait for them are not\n"
    "called deadlocked.\n"
    "\n"
    "The exit status is 0 if no rank is deadlocked, and 3 if one is.  It is 4 if a rank is,\n"
    "unless a thread that has never communicated does so, or if ranks that poll do nothing\n"
    "else.  It is 1 if there is no job, or if no deadlock was found and a host has not\n"
    "answered.\n";

static const struct option options[] = {{"job", required_argument, NULL, 'j'},
                                        {"between", required_argument, NULL, 'b'},
                                        {"rounds", required_argument, NULL, 'r'},
                                        {"polls", required_argument, NULL, 'p'},
                                        {"all-users", no_argument, NULL, 'a'},
                                        {"wait", required_argument, NULL, 'm'},
                                        {"verbose", no_argument, NULL, 'v'},
                                        HOSTS_OPTIONS,
                                        {"from-watchdog", required_argument, NULL, 'W'},
                                        {"hang", required_argument, NULL, 'H'},
                                        {"abort", no_argument, NULL, 'A'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

/* exit statuses */
#define DEADLOCKED 3
#define UNLESS     4 /* or if ranks that poll do nothing else */

/* The time that a rank has to answer: two inspections of a computing rank, and the time between
 * them, must take less than 2 s. */
#define WAIT_NS (700 * CLOCK_MS)

/* Without a message for this long, ranks that poll are judged: by the user's command, and by MBX_HANG. */
#define QUIET_NS      (10 * CLOCK_S)
#define QUIET_HANG_NS (60 * CLOCK_S)

/* ---- the command ---- */

static int status_of(enum diagnose_verdict verdict)
{
    return verdict == DIAGNOSE_DEADLOCK ? DEADLOCKED
           : verdict == DIAGNOSE_NONE   ? TOOL_DONE
                                        : UNLESS;
}

static int say_all(const struct looks *looks, bool is_verbose)
{
    const struct observed *now = &looks->all[looks->count - 1];
    const struct inspect_job was = looks_ranks(&looks->all[looks->count - 2]);
    enum diagnose_verdict worst = DIAGNOSE_NONE, verdict;

    for (uint32_t i = 0; i < now->count; i++) {
        const struct inspect_job *job = &now->jobs[i];
        enum inspect_node *nodes = mem_calloc(job->count, sizeof *nodes);

        if (nodes == NULL)
            return TOOL_FAILED;
        verdict = looks_judge(looks, job, nodes);
        worst = verdict > worst ? verdict : worst;
        diagnose_say(stdout, &was, job, nodes, verdict);
        if (is_verbose)
            outside_say_no_line(stdout, job);
        mem_free(nodes);
    }
    return status_of(worst);
}

/* The target of an inspection: this host, or several. */
struct sight {
    struct observe_options *wanted;
    bool is_verbose;
    struct hosts *hosts;       /* if empty: this host */
    struct observer *observer; /* of this host, for many inspections; NULL: each inspection
                                * finds the endpoints */
};

/* is_last: its result is reported. */
static int look_everywhere(const struct sight *sight, bool is_last, struct observed *out)
{
    if (sight->hosts->count != 0)
        return hosts_look(sight->hosts, sight->wanted, true, is_last, out);
    return sight->observer != NULL ? observer_ask(sight->observer, out)
                                   : observe(sight->wanted, out);
}

static int look(const struct sight *sight, bool is_last, struct observed *out)
{
    int err = look_everywhere(sight, is_last, out);

    return err == 0 ? observed_keep_matching(out) : err;
}

static void say_no_look(const struct tool *tool, const struct sight *sight, int err)
{
    tool_error(tool, "cannot %s: %s",
               sight->hosts->count != 0 ? "call the launcher"
                                        : "look at the processes of this host",
               strerror(-err));
}

static void say_no_job(const struct tool *tool, const struct sight *sight)
{
    tool_error(
        tool,
        "no job of this user runs over Matchbox on %s; start jobs with mbx exec, without "
        "MBX_INSPECT=no%s",
        sight->hosts->count != 0 ? "the hosts that have answered" : "this host",
        sight->hosts->count != 0 ? "" : observe_hint(sight->wanted));
}

/* Reports MPI programs that do not run over Matchbox. */
static uint32_t say_strangers(const struct sight *sight, const struct observed *now)
{
    uint32_t lines = 0;

    if (sight->wanted->job != 0)
        return 0;
    if (sight->hosts->count == 0)
        return outside_say_others(stdout);
    for (uint32_t i = 0; i < now->host_count; i++) {
        const char *line = now->hosts[i].others;

        for (; line != NULL && *line != '\0'; lines++) {
            int size = (int)strcspn(line, "\n");

            printf("%s: %.*s\n", now->hosts[i].name, size, line);
            line += size;
            line += *line == '\n';
        }
    }
    return lines;
}

/* A look that may be the last one. */
static int look_and_join(void *sight, struct observed *out)
{
    int err = look(sight, true, out);

    return err == 0 ? observed_join(out) : err;
}

static int rest(void *sight, uint64_t ns)
{
    (void)sight;
    usleep((useconds_t)(ns / CLOCK_US));
    return 0;
}

/* The looks after the first one. */
static int look_again(struct sight *sight, uint64_t between_ns, struct looks *looks)
{
    const struct looks_ways ways = {.look = look_and_join, .rest = rest, .arg = sight};
    int err;

    rest(sight, between_ns);
    err = look_and_join(sight, &looks->all[looks->count++]);
    return err == 0 ? looks_go_on(looks, &ways) : err;
}

static int diagnose(const struct tool *tool, struct sight *sight, uint64_t between_ns,
                    struct looks *looks)
{
    const struct observed *now;
    int status;
    uint32_t others = 0, silent = 0;
    int err = look(sight, false, &looks->all[looks->count++]);

    if (err == 0 && (status = observed_choose(tool, sight->wanted, &looks->all[0])) != 0) {
        hosts_say(stderr, &looks->all[0]);
        return status;
    }
    status = TOOL_FAILED;
    if (err == 0)
        err = look_again(sight, between_ns, looks);
    now = &looks->all[looks->count - 1];
    if (err == 0) {
        others = say_strangers(sight, now);
        silent = hosts_say(stdout, now);
    }
    if (err < 0)
        say_no_look(tool, sight, err);
    else if (now->count == 0 && others == 0)
        say_no_job(tool, sight);
    else if (now->count != 0)
        status = say_all(looks, sight->is_verbose);
    if (status == TOOL_DONE && silent != 0)
        status = TOOL_FAILED;
    return status;
}

/* True if no rank is left in any job. */
static bool are_over(const struct observed *observed)
{
    for (uint32_t i = 0; i < observed->count; i++)
        for (uint32_t k = 0; k < observed->jobs[i].count; k++)
            if (observed->jobs[i].ranks[k].run != 0)
                return false;
    return true;
}

static enum diagnose_verdict judge_all(const struct observed *before,
                                       const struct observed *now)
{
    const struct inspect_job was = looks_ranks(before);
    enum diagnose_verdict worst = DIAGNOSE_NONE, verdict;

    for (uint32_t i = 0; i < now->count; i++) {
        const struct inspect_job *job = &now->jobs[i];
        enum inspect_node *nodes = mem_calloc(job->count, sizeof *nodes);

        verdict = nodes != NULL ? diagnose_judge(&was, job, nodes) : DIAGNOSE_NONE;
        worst = verdict > worst ? verdict : worst;
        mem_free(nodes);
    }
    return worst;
}

/* Is a rank like this left out of the judgement?  One that moves, computes or polls is judged: it is
 * known to go on. */
static bool is_left_out(enum inspect_apart apart)
{
    static const bool left_out[INSPECT_APARTS] = {
        [INSPECT_APART_TWICE] = true, [INSPECT_APART_THREADS] = true,
        [INSPECT_APART_TASKS] = true, [INSPECT_APART_SEVERAL] = true,
        [INSPECT_APART_BEGUN] = true, [INSPECT_APART_ACTIVE] = true,
        [INSPECT_APART_MORE] = true,  [INSPECT_APART_NOTHING] = true};

    return left_out[apart];
}

/* Has a rank answered that has an operation or an unexpected message, and is not left out?  If not,
 * nothing was judged. */
static bool is_something_judged(const struct observed *before, const struct observed *now)
{
    const struct inspect_job was = looks_ranks(before);

    for (uint32_t i = 0; i < now->count; i++)
        for (uint32_t k = 0; k < now->jobs[i].count; k++) {
            const struct inspect_rank *rank = &now->jobs[i].ranks[k];

            if (rank->how == INSPECT_ASKED && rank->count != 0 &&
                !is_left_out(inspect_apart(&was, &now->jobs[i], rank, INSPECT_UNLESS)))
                return true;
        }
    return false;
}

static void say_rounds(uint64_t done, uint64_t seen, uint64_t unless, bool is_dead)
{
    printf("%" PRIu64 " rounds: %s\n", done,
           is_dead ? "a rank is deadlocked" : "no rank was deadlocked");
    if (unless != 0)
        printf("in %" PRIu64 " of them a rank was deadlocked, unless a thread that has never "
               "communicated does so\n",
               unless);
    if (seen == 0)
        printf("but no rank was judged that has reported anything that waits (mbx doctor "
               "without --rounds, mbx queues)\n");
    else if (seen < done)
        printf("in %" PRIu64 " of them a rank was judged that has reported something that "
               "waits; the others judged nothing\n",
               seen);
}

/* Many rounds in one process: the endpoints of this host are found once, and queried
 * repeatedly.  looks->all[0] and [1] are the last two. */
static int diagnose_again(const struct tool *tool, struct sight *sight, uint64_t between_ns,
                          uint64_t rounds, struct looks *looks)
{
    struct observed *before = &looks->all[0], *now = &looks->all[1];
    uint64_t done = 0, seen = 0, unless = 0;
    enum diagnose_verdict verdict = DIAGNOSE_NONE;
    int status = TOOL_DONE;
    int err = sight->hosts->count == 0 ? observer_open(sight->wanted, &sight->observer) : 0;

    looks->count = 2;
    if (err == 0)
        err = look(sight, true, now);
    if (err == 0)
        status = observed_choose(tool, sight->wanted, now);
    if (status != TOOL_DONE) {
        hosts_say(stderr, now);
        return status;
    }
    while (err == 0 && status == TOOL_DONE && done < rounds && !are_over(now)) {
        observe_free(before);
        *before = *now;
        *now = (struct observed){.count = 0};
        rest(sight, between_ns);
        err = look_and_join(sight, now);
        done += err == 0;
        seen += err == 0 && is_something_judged(before, now);
        verdict = err == 0 ? judge_all(before, now) : DIAGNOSE_NONE;
        unless += verdict == DIAGNOSE_UNLESS;
        if (verdict == DIAGNOSE_DEADLOCK || (verdict == DIAGNOSE_UNLESS && done == rounds))
            status = say_all(looks, sight->is_verbose);
    }
    if (err == 0 && hosts_say(stdout, now) != 0 && status == TOOL_DONE)
        status = TOOL_FAILED;
    if (err < 0) {
        say_no_look(tool, sight, err);
        status = TOOL_FAILED;
    } else if (done == 0) {
        say_no_job(tool, sight);
        status = TOOL_FAILED;
    } else {
        say_rounds(done, seen, unless, status == DEADLOCKED);
    }
    return status;
}

static int parse(const struct tool *tool, int argc, char **argv, struct observe_options *wanted,
                 uint64_t *between_ns, uint64_t *rounds, uint64_t *quiet_ns, bool *is_verbose,
                 struct watchdog *watchdog, struct hosts *hosts)
{
    uint64_t number;
    int c, status;

    while ((c = tool_option(tool, argc, argv, "+:h", options, &status)) >= 0) {
        int err = 0;

        if (c == 'j') {
            observe_take_job(wanted, optarg);
        } else if (c == 'a') {
            wanted->all_users = true;
        } else if (c == 'A') {
            watchdog->aborts = true;
        } else if (c == 'v') {
            *is_verbose = true;
        } else if (c == 'W') {
            err = tool_number(tool, "--from-watchdog", optarg, 1, INT32_MAX, &number);
            watchdog->pid = (pid_t)number;
        } else if (c == 'H') {
            err = tool_time(tool, "--hang", optarg, "ms", CLOCK_MS, 1000000 * CLOCK_S,
                            &watchdog->hang_ns);
        } else if (c == 'r') {
            err = tool_number(tool, "--rounds", optarg, 1, UINT32_MAX, rounds);
        } else if (c == 'p') {
            err = tool_time(tool, "--polls", optarg, "ms", 0, 1000000 * CLOCK_S, quiet_ns);
        } else if ((err = hosts_option(hosts, tool, c, optarg)) < 0) {
            err = tool_time(tool, c == 'b' ? "--between" : "--wait", optarg, "ms", CLOCK_MS,
                            3600 * CLOCK_S, c == 'b' ? between_ns : &wanted->wait_ns);
        }
        if (err != 0)
            return err;
    }
    status = tool_options_end(tool, argc, argv, c, status);
    if (status == 0 && *quiet_ns != UINT64_MAX && *rounds > 1)
        return tool_usage_error(tool, "--polls has no use with --rounds");
    if (status == 0 && watchdog->pid != 0 && hosts_are_wanted(hosts))
        return tool_usage_error(tool,
                                "--all, --launch and --hosts have no use with --from-watchdog");
    if (status == 0 && wanted->all_users && (watchdog->pid != 0 || hosts_are_wanted(hosts)))
        return tool_usage_error(
            tool, "--all-users has no use with --all, --launch, --hosts or --from-watchdog");
    return status != 0 ? status : hosts_prepare(hosts, tool, wanted);
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct observe_options wanted = {.rank = INSPECT_NOBODY, .wait_ns = WAIT_NS, .tasks = true};
    uint64_t between_ns = 300 * CLOCK_MS, rounds = 1;
    struct watchdog watchdog = {.pid = 0, .hang_ns = 60 * CLOCK_S};
    struct looks looks = {.quiet_ns = UINT64_MAX};
    struct hosts hosts;
    struct sight sight = {.wanted = &wanted, .hosts = &hosts};
    int status;

    if (hosts_init(&hosts, argc) != 0) {
        tool_error(tool, "no memory");
        return TOOL_FAILED;
    }
    status = parse(tool, argc, argv, &wanted, &between_ns, &rounds, &looks.quiet_ns,
                   &sight.is_verbose, &watchdog, &hosts);
    if (looks.quiet_ns == UINT64_MAX)
        looks.quiet_ns = watchdog.pid != 0 ? QUIET_HANG_NS : QUIET_NS;
    if (status < 0)
        status = TOOL_DONE;
    else if (status == 0 && watchdog.pid != 0)
        status = watchdog_run(&watchdog, &wanted, between_ns, looks.quiet_ns);
    else if (status == 0 &&
             (hosts.count != 0 || (status = observe_choose(tool, &wanted)) == TOOL_DONE))
        status = rounds > 1 ? diagnose_again(tool, &sight, between_ns, rounds, &looks)
                            : diagnose(tool, &sight, between_ns, &looks);
    looks_free(&looks);
    observer_close(sight.observer);
    hosts_fini(&hosts);
    return status;
}

const struct tool tool_doctor = {
    .name = "doctor",
    .about = "report deadlocked ranks, and why",
    .usage = usage,
    .options = options,
    .run = run,
};
