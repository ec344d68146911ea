/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diagnose.c - see diagnose.h.  All statements about a rank are from the second inspection.
 *
 *   diagnose.c          the verdict, the deadlocked ranks, and the order of the lines
 *   diagnose_entry.c    an operation that a rank waits for, and why nothing completes it
 *   diagnose_cycle.c    which ranks wait for each other, and which are in which collective
 *   diagnose_others.c   the ranks outside a deadlock
 */
#include "diagnose.h"

#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "diagnose_lines.h"
#include "job_name.h"
#include "inspect/polls.h"
#include "inspect/text.h"
#include "words.h"

/* ---- a rank ---- */

uint64_t diagnose_fallbacks(const struct inspect_rank *rank)
{
    return inspect_text_sum(rank->text, "read_fallbacks=");
}

bool diagnose_is_in_wait(const struct inspect_rank *rank)
{
    enum inspect_call call = inspect_call_of(rank->state.call);

    if (call != INSPECT_CALL_OTHER)
        return call != INSPECT_CALL_FINISHES && call != INSPECT_CALL_POLLS;
    return strncmp(rank->state.call, "MPI_", 4) == 0 &&
           strncmp(rank->state.call, "MPI_Test", 8) != 0 &&
           strncmp(rank->state.call, "MPI_Request_get_status", 22) != 0;
}

bool diagnose_is_still(const struct inspect_rank *rank)
{
    return rank->state.still_ns != 0 && rank->state.now_ns - rank->state.still_ns >= CLOCK_S;
}

/* "MPI_Recv", and the line of the program if there is debug information. */
const char *diagnose_call_words(const struct inspect_rank *rank, char words[WORDS_MAX])
{
    char line[OUTSIDE_MAX];

    if (outside_line(rank, line) != NULL)
        snprintf(words, WORDS_MAX, "%.40s at %.144s", rank->state.call, line);
    else
        snprintf(words, WORDS_MAX, "%s", rank->state.call);
    return words;
}

/* ", for 41 s"; empty if it is unknown. */
const char *diagnose_still_words(const struct inspect_rank *rank, char words[32])
{
    words[0] = '\0';
    if (diagnose_is_still(rank))
        snprintf(words, 32, ", for %" PRIu64 " s",
                 (rank->state.now_ns - rank->state.still_ns) / CLOCK_S);
    return words;
}

/* For an MPI_Sendrecv that waits for its send: reports its receive. */
static void say_other_half(FILE *out, const struct inspect_job *job, uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];
    char peer[WORDS_MAX], envelope[WORDS_MAX];

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *entry = &rank->entries[i];

        if (strncmp(rank->state.call, "MPI_Sendrecv", 12) == 0 &&
            entry->kind == INSPECT_POSTED && !(entry->flags & INSPECT_ENTRY_INTERNAL) &&
            !inspect_is_awaited(rank, entry))
            fprintf(out, "  its other half waits for %s from %s\n",
                    words_of_envelope(rank, entry, envelope),
                    words_of_peer(job, at, entry, peer));
    }
}

/* ---- threads that have never communicated ---- */

#define FREE_MAX 8 /* threads of a rank that are named */

static void say_free(FILE *out, const struct inspect_job *before, const struct inspect_job *now,
                     uint32_t at)
{
    const struct inspect_rank *rank = &now->ranks[at], *was = inspect_same(before, rank);
    enum inspect_thread kinds[INSPECT_TASKS];
    uint32_t count = 0;

    if (was == NULL)
        return;
    inspect_threads(was, rank, kinds);
    for (uint32_t i = 0; i < rank->task_count; i++)
        if (kinds[i] == INSPECT_THREAD_FREE && count++ < FREE_MAX)
            fprintf(out, "  its thread %" PRIu32 " has never communicated: it %s\n",
                    rank->tasks[i].id, rank->tasks[i].does);
    if (count > FREE_MAX)
        fprintf(out, "  and %" PRIu32 " more of its threads have never communicated\n",
                count - FREE_MAX);
}

/* The other threads of a rank that wait in MPI. */
static void say_other_threads(FILE *out, const struct inspect_job *job,
                              const enum inspect_node *nodes, uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];

    for (uint32_t t = 0; t < rank->task_count; t++) {
        bool is_first = true;

        for (uint32_t i = 0; i < rank->count; i++) {
            if (inspect_waiting_thread(rank, &rank->entries[i]) != rank->tasks[t].id)
                continue;
            if (is_first)
                fprintf(out, "  its thread %" PRIu32 " waits in MPI as well\n",
                        rank->tasks[t].id);
            is_first = false;
            diagnose_say_entry(out, job, nodes, at, &rank->entries[i]);
        }
    }
}

/* ", 310000 times a second"; empty if the rank does not poll, or this is not known. */
static const char *poll_rate_words(const struct inspect_job *before,
                                   const struct inspect_rank *rank, char words[48])
{
    const struct inspect_rank *was = inspect_same(before, rank);
    uint64_t rate = was != NULL && inspect_polls(rank) ? inspect_poll_rate(was, rank) : 0;

    words[0] = '\0';
    if (rate != 0)
        snprintf(words, 48, ", %" PRIu64 " times a second", rate);
    return words;
}

static void say_rank(FILE *out, const struct inspect_job *before, const struct inspect_job *job,
                     const enum inspect_node *nodes, uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];
    char words[WORDS_MAX], process[WORDS_MAX], call[WORDS_MAX], still[32], rate[48];
    uint32_t awaited = 0, stuck = 0;

    for (uint32_t i = 0; i < rank->count; i++) {
        bool is_awaited = inspect_is_awaited(rank, &rank->entries[i]);

        awaited += is_awaited;
        stuck += is_awaited && !inspect_can_end(job, nodes, at, &rank->entries[i]);
    }
    fprintf(out, "rank %s (%s) %s %s%s%s\n", words_of_rank(rank, words),
            words_of_process(rank, process), inspect_polls(rank) ? "polls by" : "is in",
            diagnose_call_words(rank, call), poll_rate_words(before, rank, rate),
            diagnose_still_words(rank, still));
    if (stuck < awaited)
        fprintf(out,
                "  of the %" PRIu32 " operations that it waits for, %" PRIu32
                " cannot end, and it needs all\n",
                awaited, stuck);
    for (uint32_t i = 0; i < rank->count; i++)
        if (inspect_is_awaited(rank, &rank->entries[i]) &&
            !inspect_can_end(job, nodes, at, &rank->entries[i]))
            diagnose_say_entry(out, job, nodes, at, &rank->entries[i]);
    say_other_half(out, job, at);
    say_other_threads(out, job, nodes, at);
    say_free(out, before, job, at);
}

/* ---- a job ---- */

static uint32_t count_deadlocked(const struct inspect_job *job, const enum inspect_node *nodes)
{
    uint32_t dead = 0;

    for (uint32_t i = 0; i < job->count; i++)
        dead += nodes[i] == INSPECT_DEADLOCKED;
    return dead;
}

enum diagnose_verdict diagnose_judge(const struct inspect_job *before,
                                     const struct inspect_job *now, enum inspect_node *nodes)
{
    inspect_judge(before, now, INSPECT_CERTAIN, nodes);
    if (count_deadlocked(now, nodes) != 0)
        return DIAGNOSE_DEADLOCK;
    inspect_judge(before, now, INSPECT_UNLESS, nodes);
    return count_deadlocked(now, nodes) != 0 ? DIAGNOSE_UNLESS : DIAGNOSE_NONE;
}

/* The shortest time for which nothing has happened in a rank of the job, in seconds. */
static uint64_t quiet_seconds(const struct inspect_job *job)
{
    uint64_t least_ns = UINT64_MAX;

    for (uint32_t i = 0; i < job->count; i++) {
        const struct inspect_state *state = &job->ranks[i].state;

        if (state->now_ns - state->still_ns < least_ns)
            least_ns = state->now_ns - state->still_ns;
    }
    return least_ns / CLOCK_S;
}

/* Has a rank a thread that has never communicated, and may? */
static bool has_free_thread(const struct inspect_job *before, const struct inspect_job *now)
{
    for (uint32_t i = 0; i < now->count; i++)
        if (inspect_apart(before, now, &now->ranks[i], INSPECT_CERTAIN) == INSPECT_APART_FREE)
            return true;
    return false;
}

/* "no message for 41 s: 3 ranks wait, and 1 polls; if it does nothing else, this is a deadlock" */
static void say_if_polls(FILE *out, const struct inspect_job *before,
                         const struct inspect_job *now)
{
    uint32_t polls = 0;

    for (uint32_t i = 0; i < now->count; i++)
        polls += inspect_polls(&now->ranks[i]);
    fprintf(out, "no message for %" PRIu64 " s: ", quiet_seconds(now));
    if (polls < now->count)
        fprintf(out, "%" PRIu32 " of %" PRIu32 " ranks poll, and the others wait; ", polls,
                now->count);
    else
        fputs("all ranks poll; ", out);
    fprintf(out, "if ranks that poll do nothing else%s, this is a deadlock\n",
            has_free_thread(before, now) ? ", and no thread that has never communicated does so"
                                         : "");
}

static enum inspect_assume assume_of(enum diagnose_verdict verdict)
{
    return verdict == DIAGNOSE_DEADLOCK   ? INSPECT_CERTAIN
           : verdict == DIAGNOSE_IF_POLLS ? INSPECT_IF_POLLS
                                          : INSPECT_UNLESS;
}

void diagnose_say(FILE *out, const struct inspect_job *before, const struct inspect_job *now,
                  const enum inspect_node *nodes, enum diagnose_verdict verdict)
{
    char title[JOB_TITLE];
    enum inspect_assume assume = assume_of(verdict);

    fprintf(out, "%s: ", job_title(now, false, title));
    if (verdict == DIAGNOSE_NONE)
        fprintf(out, "no rank is deadlocked\n");
    else if (verdict == DIAGNOSE_IF_POLLS)
        say_if_polls(out, before, now);
    else
        fprintf(out, "deadlock of %" PRIu32 " of %" PRIu32 " ranks%s\n",
                count_deadlocked(now, nodes), now->count,
                verdict == DIAGNOSE_UNLESS
                    ? ", unless a thread that has never communicated does so"
                    : "");
    job_print_parts(out, now);
    for (uint32_t i = 0; i < now->count; i++)
        if (nodes[i] == INSPECT_DEADLOCKED)
            say_rank(out, before, now, nodes, i);
    if (verdict != DIAGNOSE_NONE) {
        diagnose_say_cycles(out, now, nodes);
        diagnose_say_roll_call(out, now);
    }
    if (inspect_under_way(before, now) != 0)
        fprintf(
            out,
            "%" PRIu64
            " messages are on their way between its hosts, or were sent to processes that it "
            "has started, and nothing else happens: is the network slow, or interrupted?\n",
            inspect_under_way(before, now));
    diagnose_say_waiters(out, before, now, nodes);
    diagnose_say_left_out(out, before, now, nodes, assume);
    diagnose_say_others(out, before, now, assume);
}
