/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor.c - `mbx doctor`: which ranks wait for what cannot come, and why.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "observe.h"
#include "see/graph.h"
#include "tool.h"
#include "words.h"

static const char usage[] =
    "usage: mbx doctor [OPTIONS]\n"
    "\n"
    "Looks twice at the jobs of this user on this host, and says which ranks are deadlocked:\n"
    "each of their operations can only be ended by ranks that are deadlocked, too, or that "
    "are\n"
    "in MPI_Finalize.  No rank is stopped, and nothing has to be set before.\n"
    "\n"
    "  --job JOB     this job alone: the number that mbx queues prints\n"
    "  --between MS  time from the first look to the second (default 300)\n"
    "  --wait MS     how long a rank has time to answer (default 1000)\n"
    "  -h, --help    this text\n"
    "\n"
    "A rank that computes, polls (MPI_Test, MPI_Iprobe), is stopped or cannot be seen may "
    "still\n"
    "send: it is never called deadlocked, and neither is who waits for it.\n"
    "\n"
    "Exit status 0 if no rank is deadlocked, 3 if one is, 1 if there is no job.\n";

static const struct option options[] = {{"job", required_argument, NULL, 'j'},
                                        {"between", required_argument, NULL, 'b'},
                                        {"wait", required_argument, NULL, 'm'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

#define DEADLOCKED 3 /* exit status */

/* ---- why ---- */

/* Does entry differ in one thing alone from what this receive wants?  What it is, or NULL. */
static const char *near_miss(const struct see_entry *receive, const struct see_entry *message,
                             uint64_t sender)
{
    bool other_context = receive->context_id != message->context_id;
    bool other_tag = ((receive->tag ^ message->tag) & ~receive->ignore) != 0;
    bool other_source = receive->peer != SEE_NOBODY && receive->whom != sender;

    if (other_context + other_tag + other_source != 1)
        return NULL;
    return other_context ? "communicator" : other_tag ? "tag" : "source";
}

/* What is there in place of what this receive, of job->ranks[at], waits for. */
static void say_near_misses(const struct see_job *job, uint32_t at,
                            const struct see_entry *receive)
{
    const struct see_rank *rank = &job->ranks[at];
    char peer[WORDS_MAX], envelope[WORDS_MAX];

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct see_entry *message = &rank->entries[i];
        const char *differs =
            message->kind == SEE_UNEXPECTED ? near_miss(receive, message, message->whom) : NULL;

        if (differs != NULL)
            printf("    %s from %s is unexpected there: the %s differs\n",
                   words_of_envelope(rank, message, envelope),
                   words_of_peer(job, at, message, peer), differs);
    }
}

/* Open MPI waits for the acknowledgement of a synchronous send in a receive of its own. */
static bool is_acknowledgement(const struct see_rank *rank, const struct see_entry *entry)
{
    struct see_mpi mpi;

    return entry->kind == SEE_POSTED &&
           see_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore, &mpi) &&
           mpi.is_acknowledgement;
}

/* "its send to 1 (tag 7 on MPI_COMM_WORLD, 4 bytes) is not received by 1" */
static void say_send(const struct see_rank *rank, const struct see_entry *entry,
                     const char *peer)
{
    static const char acknowledged[] = " acknowledgement";
    char envelope[WORDS_MAX], *cut;

    words_of_envelope(rank, entry, envelope);
    cut = strstr(envelope, acknowledged);
    if (cut != NULL)
        memmove(cut, cut + sizeof acknowledged - 1, strlen(cut + sizeof acknowledged - 1) + 1);
    printf("  its send to %s (%s", peer, envelope);
    if (entry->kind == SEE_SEND)
        printf(", %" PRIu64 " bytes", entry->size);
    printf(") is not received by %s", peer);
}

static void say_entry(const struct see_job *job, const enum see_node *nodes, uint32_t at,
                      const struct see_entry *entry)
{
    const struct see_rank *rank = &job->ranks[at];
    uint32_t whose = see_whose(job, at, entry);
    char peer[WORDS_MAX], envelope[WORDS_MAX];
    bool is_send;

    words_of_peer(job, at, entry, peer);
    is_send = entry->kind == SEE_SEND || is_acknowledgement(rank, entry);
    if (is_send)
        say_send(rank, entry, peer);
    else
        printf("  it waits for %s from %s", words_of_envelope(rank, entry, envelope), peer);
    if (whose == at)
        printf(", which is itself");
    else if (whose != SEE_NOBODY && nodes[whose] == SEE_OVER)
        printf(", which is in %s", job->ranks[whose].state.call);
    else if (entry->peer == SEE_NOBODY)
        printf(", and nobody is left to send it");
    else if (whose != SEE_NOBODY)
        printf(", which waits, too");
    putchar('\n');
    if (!is_send)
        say_near_misses(job, at, entry);
}

static void say_rank(const struct see_job *job, const enum see_node *nodes, uint32_t at)
{
    const struct see_rank *rank = &job->ranks[at];
    char words[WORDS_MAX];

    printf("rank %s (pid %" PRIu32 ") is in %s\n", words_of_rank(rank, words), rank->head.pid,
           rank->state.call);
    for (uint32_t i = 0; i < rank->count; i++)
        if (see_is_awaited(rank, &rank->entries[i]))
            say_entry(job, nodes, at, &rank->entries[i]);
}

/* ---- cycles ---- */

/* A deadlocked rank that this one waits for, or SEE_NOBODY. */
static uint32_t next_of(const struct see_job *job, const enum see_node *nodes, uint32_t at)
{
    const struct see_rank *rank = &job->ranks[at];

    for (uint32_t i = 0; i < rank->count; i++) {
        uint32_t whose = see_whose(job, at, &rank->entries[i]);

        if (see_is_awaited(rank, &rank->entries[i]) && whose != SEE_NOBODY &&
            nodes[whose] == SEE_DEADLOCKED)
            return whose;
    }
    return SEE_NOBODY;
}

static void say_cycle(const struct see_job *job, const enum see_node *nodes, uint32_t from)
{
    char words[WORDS_MAX];
    uint32_t at = from;

    printf("cycle: %s", words_of_rank(&job->ranks[at], words));
    do {
        at = next_of(job, nodes, at);
        printf(" -> %s", words_of_rank(&job->ranks[at], words));
    } while (at != from);
    putchar('\n');
}

/* Follows whom each waits for; a cycle is said once, from its first rank. */
static void say_cycles(const struct see_job *job, const enum see_node *nodes, uint32_t *seen)
{
    memset(seen, 0, job->count * sizeof *seen);
    for (uint32_t start = 0; start < job->count; start++) {
        uint32_t at = start;

        while (at != SEE_NOBODY && nodes[at] == SEE_DEADLOCKED && seen[at] == 0) {
            seen[at] = start + 1;
            at = next_of(job, nodes, at);
        }
        if (at != SEE_NOBODY && nodes[at] == SEE_DEADLOCKED && seen[at] == start + 1)
            say_cycle(job, nodes, at);
    }
}

/* ---- a job ---- */

static const char *what_of(const struct see_rank *rank)
{
    if (rank->run == 'T' || rank->run == 't')
        return "is stopped";
    if (rank->how == SEE_ASKED)
        return NULL;
    return rank->how == SEE_FAILED ? "cannot be read"
                                   : "computes, or waits for something that is no message";
}

/* Ranks that are no part of a deadlock, and why nothing can be said of who waits for them. */
static void say_others(const struct see_job *job)
{
    char words[WORDS_MAX];

    for (uint32_t i = 0; i < job->count; i++)
        if (what_of(&job->ranks[i]) != NULL)
            printf("rank %s (pid %" PRIu32 ") %s\n", words_of_rank(&job->ranks[i], words),
                   job->ranks[i].head.pid, what_of(&job->ranks[i]));
    if (job->size != SEE_NOBODY && job->count < job->size)
        printf("%" PRIu32 " of its %" PRIu32
               " ranks are not seen: they are on other hosts, have ended, or do not run over "
               "Matchbox\n",
               job->size - job->count, job->size);
}

static bool say_job(const struct see_job *before, const struct see_job *now,
                    enum see_node *nodes, uint32_t *seen)
{
    uint32_t dead = 0;

    see_judge(before, now, nodes);
    for (uint32_t i = 0; i < now->count; i++)
        dead += nodes[i] == SEE_DEADLOCKED;
    printf("job %016" PRIx64 ": ", now->ranks[0].head.job);
    if (dead == 0)
        printf("no rank is deadlocked\n");
    else
        printf("deadlock of %" PRIu32 " of %" PRIu32 " ranks\n", dead, now->count);
    for (uint32_t i = 0; i < now->count; i++)
        if (nodes[i] == SEE_DEADLOCKED)
            say_rank(now, nodes, i);
    if (dead != 0)
        say_cycles(now, nodes, seen);
    say_others(now);
    return dead != 0;
}

/* ---- the command ---- */

static const struct see_job *same_job(const struct observed *observed,
                                      const struct see_job *job)
{
    for (uint32_t i = 0; i < observed->count; i++)
        if (observed->jobs[i].ranks[0].head.job == job->ranks[0].head.job)
            return &observed->jobs[i];
    return NULL;
}

static int say_all(const struct observed *before, const struct observed *now)
{
    static const struct see_job none;
    int status = TOOL_DONE;

    for (uint32_t i = 0; i < now->count; i++) {
        const struct see_job *job = &now->jobs[i], *was = same_job(before, job);
        enum see_node *nodes = mem_calloc(job->count, sizeof *nodes);
        uint32_t *seen = mem_calloc(job->count, sizeof *seen);

        if (nodes == NULL || seen == NULL)
            status = TOOL_FAILED;
        else if (say_job(was != NULL ? was : &none, job, nodes, seen))
            status = DEADLOCKED;
        mem_free(nodes);
        mem_free(seen);
    }
    return status;
}

static int diagnose(const struct tool *tool, const struct observe_options *wanted,
                    uint64_t between_ns)
{
    struct observed before, now = {.count = 0};
    int status = TOOL_FAILED;
    int err = observe(wanted, &before);

    if (err == 0) {
        usleep((useconds_t)(between_ns / CLOCK_US));
        err = observe(wanted, &now);
    }
    if (err < 0)
        tool_error(tool, "cannot look at the processes of this host: %s", strerror(-err));
    else if (now.count == 0)
        tool_error(tool, "no job of this user runs over Matchbox on this host (or it runs with "
                         "MBX_SEE=off)");
    else
        status = say_all(&before, &now);
    observe_free(&before);
    observe_free(&now);
    return status;
}

static int parse(const struct tool *tool, int argc, char **argv, struct observe_options *wanted,
                 uint64_t *between_ns)
{
    uint64_t number;
    int c, status;

    while ((c = tool_option(tool, argc, argv, "+:h", options, &status)) >= 0) {
        int err = 0;

        if (c == 'j') {
            err = observe_parse_job(tool, optarg, &wanted->job);
        } else {
            err = tool_number(tool, c == 'b' ? "--between" : "--wait", optarg, 1, 3600000,
                              &number);
            *(c == 'b' ? between_ns : &wanted->wait_ns) = number * CLOCK_MS;
        }
        if (err != 0)
            return err;
    }
    if (c == -2)
        return status == TOOL_DONE ? -1 : status;
    if (optind < argc)
        return tool_usage_error(tool, "unknown argument '%s'", argv[optind]);
    return 0;
}

static int run(const struct tool *tool, int argc, char **argv)
{
    struct observe_options wanted = {.rank = SEE_NOBODY, .wait_ns = CLOCK_S};
    uint64_t between_ns = 300 * CLOCK_MS;
    int status = parse(tool, argc, argv, &wanted, &between_ns);

    if (status != 0)
        return status < 0 ? TOOL_DONE : status;
    return diagnose(tool, &wanted, between_ns);
}

const struct tool tool_doctor = {
    .name = "doctor",
    .about = "say which ranks are deadlocked, and why",
    .usage = usage,
    .options = options,
    .run = run,
};
