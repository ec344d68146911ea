/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diagnose_others.c - the ranks outside a deadlock: each is mentioned, and why it is not part of one.
 *
 *   waits       for whom, and what that one does
 *   left out    a line per reason, with the ranks that share it
 *   others      what else matters to the user: messages that nobody receives, threads, ranks that are not seen, too
 *               few cores, several versions
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "diagnose_lines.h"
#include "words.h"

#define FLOOD 1000 /* unexpected messages of a rank that deserve a line */

/* ---- ranks that wait ---- */

/* Does this rank wait, and has it done so for a while? */
static bool waits(const struct inspect_job *before, const struct inspect_job *now, uint32_t at)
{
    const struct inspect_rank *rank = &now->ranks[at], *was = inspect_same(before, rank);

    return was != NULL && rank->how == INSPECT_ASKED && was->how == INSPECT_ASKED &&
           inspect_is_still(was, rank) && diagnose_is_in_wait(rank) && diagnose_is_still(rank);
}

/* Reports why the other side of this operation has not completed it: ", which computes". */
static void say_other_side(FILE *out, const struct inspect_job *job,
                           const enum inspect_node *nodes, uint32_t whose)
{
    char words[OUTSIDE_MAX];

    if (whose == INSPECT_NOBODY)
        fprintf(out, ", which is not seen");
    else if (outside_words(&job->ranks[whose], words) != NULL)
        fprintf(out, ", which %s", words);
    else if (nodes[whose] == INSPECT_DEADLOCKED)
        fprintf(out, ", which is deadlocked");
    else if (job->ranks[whose].state.call[0] != '\0')
        fprintf(out, ", which is in %s", job->ranks[whose].state.call);
    else
        fprintf(out, ", which goes on");
}

/* "rank 0 (pid 4457) waits in MPI_Recv at solve.c:212, for 41 s: " */
static void say_wait(FILE *out, const struct inspect_rank *rank)
{
    char words[WORDS_MAX], process[WORDS_MAX], call[WORDS_MAX], still[32];

    fprintf(out, "rank %s (%s) waits in %s%s: ", words_of_rank(rank, words),
            words_of_process(rank, process), diagnose_call_words(rank, call),
            diagnose_still_words(rank, still));
}

static void say_waiter(FILE *out, const struct inspect_job *job, const enum inspect_node *nodes,
                       uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];
    bool is_known = inspect_call_of(rank->state.call) != INSPECT_CALL_OTHER;
    const struct inspect_entry *entry = NULL;
    char peer[WORDS_MAX], envelope[WORDS_MAX];

    for (uint32_t i = 0; is_known && i < rank->count && entry == NULL; i++)
        entry = inspect_is_awaited(rank, &rank->entries[i]) ? &rank->entries[i] : NULL;
    say_wait(out, rank);
    if (entry == NULL) {
        fputs("no message that is visible here is known to belong to this call; neither this "
              "rank "
              "nor a rank that waits for it is judged\n",
              out);
        return;
    }
    fprintf(out, "%s %s %s", words_of_envelope(rank, entry, envelope),
            entry->kind == INSPECT_SEND || entry->kind == INSPECT_SENDING ||
                    diagnose_is_acknowledgement(rank, entry)
                ? "to"
                : "from",
            words_of_peer(job, at, entry, peer));
    if (entry->peer != INSPECT_NOBODY)
        say_other_side(out, job, nodes, inspect_whose(job, at, entry));
    fputc('\n', out);
    diagnose_say_window(out, job, inspect_whose(job, at, entry), entry);
}

/* A line for each rank that waits, and is not part of a deadlock. */
void diagnose_say_waiters(FILE *out, const struct inspect_job *before,
                          const struct inspect_job *now, const enum inspect_node *nodes)
{
    for (uint32_t i = 0; i < now->count; i++)
        if (nodes[i] == INSPECT_ALIVE && waits(before, now, i))
            say_waiter(out, now, nodes, i);
}

/* ---- ranks that are left out ---- */

#define LEFT_OUT_MAX 8 /* ranks that are named for each reason */

#define WHY_MAX      (WORDS_MAX + 128)

/* The first thread of this kind of a rank that has one. */
static const struct inspect_task *first_thread(const struct inspect_rank *was,
                                               const struct inspect_rank *rank,
                                               enum inspect_thread kind)
{
    enum inspect_thread kinds[INSPECT_TASKS];
    uint32_t i = 0;

    inspect_threads(was, rank, kinds);
    while (i + 1 < rank->task_count && kinds[i] != kind)
        i++;
    return &rank->tasks[i];
}

/* Why its threads do not let a rank be judged.  False: they do. */
static bool why_threads(const struct inspect_job *before, const struct inspect_job *now,
                        uint32_t at, enum inspect_assume assume, char words[WHY_MAX])
{
    const struct inspect_rank *rank = &now->ranks[at], *was = inspect_same(before, rank);
    const struct inspect_task *task;

    switch (inspect_apart(before, now, rank, assume)) {
    case INSPECT_APART_THREADS:
        snprintf(words, WHY_MAX,
                 "its threads may all call MPI, and which of them do is not known");
        return true;
    case INSPECT_APART_TASKS:
        snprintf(words, WHY_MAX,
                 "it may have several threads, and the threads of its process are not visible");
        return true;
    case INSPECT_APART_SEVERAL:
        snprintf(words, WHY_MAX,
                 "the thread that answers is not always the same, or not known");
        return true;
    case INSPECT_APART_BEGUN:
        task = inspect_new_task(was, rank);
        snprintf(words, WHY_MAX, "its thread %" PRIu32 " has just %s",
                 task != NULL ? task->id : inspect_new_task(rank, was)->id,
                 task != NULL ? "begun" : "ended");
        return true;
    case INSPECT_APART_ACTIVE:
        task = first_thread(was, rank, INSPECT_THREAD_ACTIVE);
        snprintf(words, WHY_MAX, "its thread %" PRIu32 ", which has communicated before, %s",
                 task->id, task->does);
        return true;
    case INSPECT_APART_FREE:
        task = first_thread(was, rank, INSPECT_THREAD_FREE);
        snprintf(words, WHY_MAX, "its thread %" PRIu32 ", which has never communicated, %s",
                 task->id, task->does);
        return true;
    case INSPECT_APART_NOT:
    case INSPECT_APART_NEW:
    case INSPECT_APART_SILENT:
    case INSPECT_APART_MOVED:
    case INSPECT_APART_TWICE:
    case INSPECT_APART_MORE:
    case INSPECT_APART_CALL:
    case INSPECT_APART_POLLS:
    case INSPECT_APART_NOTHING:
    case INSPECT_APARTS:
        break;
    }
    return false;
}

/* Does another line explain why this rank is not part of a deadlock? */
static bool is_said(const struct inspect_job *before, const struct inspect_job *now,
                    const enum inspect_node *nodes, uint32_t at, enum inspect_assume assume)
{
    char does[OUTSIDE_MAX], words[WHY_MAX];

    return nodes[at] == INSPECT_DEADLOCKED || outside_words(&now->ranks[at], does) != NULL ||
           why_threads(before, now, at, assume, words) ||
           (nodes[at] == INSPECT_ALIVE && waits(before, now, at));
}

/* The reason why it is not deadlocked: "something happened between the two inspections". */
static void why_left_out(const struct inspect_job *before, const struct inspect_job *now,
                         uint32_t at, enum inspect_assume assume, char words[WORDS_MAX])
{
    static const char *const reasons[INSPECT_APARTS] = {
        [INSPECT_APART_NEW] = "not seen at the first inspection: just started",
        [INSPECT_APART_SILENT] = "no answer to the first inspection",
        [INSPECT_APART_MOVED] = "something happened between the two inspections",
        [INSPECT_APART_TWICE] = "several endpoints in one process",
        [INSPECT_APART_MORE] = "more operations than an observer gets to see",
    };
    const struct inspect_rank *rank = &now->ranks[at];
    enum inspect_apart apart = inspect_apart(before, now, rank, assume);

    if (reasons[apart] != NULL)
        snprintf(words, WORDS_MAX, "%s", reasons[apart]);
    else if (rank->state.call[0] == '\0')
        snprintf(words, WORDS_MAX, "in no call of MPI");
    else
        snprintf(words, WORDS_MAX, "in %s%s", rank->state.call,
                 apart == INSPECT_APART_CALL    ? ", which is not known to wait for messages"
                 : apart == INSPECT_APART_POLLS ? ", which polls: the rank may do other things"
                 : apart == INSPECT_APART_NOTHING
                     ? ", and no message that is seen is known to be of this call"
                 : inspect_call_of(rank->state.call) == INSPECT_CALL_FINISHES
                     ? ""
                     : ", and what is waited for can still come");
}

/* Reports the reason of rank `first` with all ranks that share it, and clears it in these. */
static void say_reason(FILE *out, const struct inspect_job *job, char (*why)[WORDS_MAX],
                       uint32_t first)
{
    char reason[WORDS_MAX], words[WORDS_MAX];
    uint32_t count = 0, shown = 0;

    memcpy(reason, why[first], sizeof reason);
    for (uint32_t i = first; i < job->count; i++)
        count += strcmp(why[i], reason) == 0;
    fprintf(out, "not deadlocked: rank%s", count == 1 ? "" : "s");
    for (uint32_t i = first; i < job->count; i++) {
        if (strcmp(why[i], reason) != 0)
            continue;
        why[i][0] = '\0';
        if (shown < LEFT_OUT_MAX)
            fprintf(out, "%s %s", shown > 0 ? "," : "", words_of_rank(&job->ranks[i], words));
        else if (shown == LEFT_OUT_MAX)
            fprintf(out, " and %" PRIu32 " more", count - shown);
        shown++;
    }
    fprintf(out, " (%s)\n", reason);
}

/* Every rank is mentioned: a line for each reason. */
void diagnose_say_left_out(FILE *out, const struct inspect_job *before,
                           const struct inspect_job *now, const enum inspect_node *nodes,
                           enum inspect_assume assume)
{
    char(*why)[WORDS_MAX] = mem_calloc(now->count, sizeof *why);

    for (uint32_t i = 0; why != NULL && i < now->count; i++)
        if (!is_said(before, now, nodes, i, assume))
            why_left_out(before, now, i, assume, why[i]);
    for (uint32_t i = 0; why != NULL && i < now->count; i++)
        if (why[i][0] != '\0')
            say_reason(out, now, why, i);
    mem_free(why);
}

/* ---- what else matters ---- */

static bool is_seen(const struct inspect_job *job, uint32_t rank)
{
    for (uint32_t i = 0; i < job->count; i++)
        if (job->ranks[i].head.rank == rank)
            return true;
    return false;
}

#define MISSING_MAX 8

static void say_missing(FILE *out, const struct inspect_job *job)
{
    uint32_t shown = 0;

    if (job->size == INSPECT_NOBODY || job->count >= job->size)
        return;
    fprintf(out, "%" PRIu32 " of its %" PRIu32 " ranks are not seen (", job->size - job->count,
            job->size);
    for (uint32_t rank = 0; rank < job->size && shown <= MISSING_MAX; rank++) {
        if (is_seen(job, rank))
            continue;
        if (shown++ == MISSING_MAX)
            fputs(", ...", out);
        else
            fprintf(out, "%s%" PRIu32, shown > 1 ? ", " : "", rank);
    }
    fprintf(out,
            "): they are on %s, have ended, or do not run over Matchbox; a rank that waits for "
            "them "
            "is not judged\n",
            job->ranks[0].reported != NULL ? "hosts that were not asked or have not answered"
                                           : "other hosts (--all, --hosts)");
}

/* Reports a rank with many unexpected messages: their number, and the oldest. */
static void say_flood(FILE *out, const struct inspect_job *job, uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];
    const struct inspect_entry *first = NULL;
    char words[WORDS_MAX], process[WORDS_MAX], envelope[WORDS_MAX], peer[WORDS_MAX];

    for (uint32_t i = 0; first == NULL && i < rank->count; i++)
        if (rank->entries[i].kind == INSPECT_UNEXPECTED)
            first = &rank->entries[i];
    if (first == NULL || rank->state.counts[INSPECT_UNEXPECTED] < FLOOD)
        return;
    fprintf(out,
            "rank %s (%s) holds %" PRIu32
            " messages that it has not received; the oldest is %s from %s, %" PRIu64 " bytes\n",
            words_of_rank(rank, words), words_of_process(rank, process),
            rank->state.counts[INSPECT_UNEXPECTED], words_of_envelope(rank, first, envelope),
            words_of_peer(job, at, first, peer), first->size);
}

/* Reports that long messages travel in packets, because the memory of their senders cannot be
 * read. */
static void say_packets(FILE *out, const struct inspect_rank *rank)
{
    char words[WORDS_MAX], process[WORDS_MAX], why[OUTSIDE_MAX];

    if (diagnose_fallbacks(rank) != 0)
        fprintf(out,
                "rank %s (%s) cannot read the memory of its peers (cross-memory "
                "attach), so long messages to it are copied twice: %s\n",
                words_of_rank(rank, words), words_of_process(rank, process),
                outside_no_attach(rank, why));
}

/* Reports more running ranks than cores, once for each host of the job. */
static void say_cores(FILE *out, const struct inspect_job *job)
{
    for (uint32_t i = 0; i < job->count; i++) {
        const struct inspect_reported *reported = job->ranks[i].reported;
        long cores = reported != NULL ? (long)reported->cores : sysconf(_SC_NPROCESSORS_ONLN);
        uint32_t running = 0;
        bool is_first = true;

        for (uint32_t k = 0; k < i && is_first; k++)
            is_first = job->ranks[k].host != job->ranks[i].host;
        for (uint32_t k = i; k < job->count && is_first; k++)
            running += job->ranks[k].host == job->ranks[i].host && job->ranks[k].run == 'R';
        if (cores > 0 && running > (uint32_t)cores)
            fprintf(out, "%" PRIu32 " ranks run on %ld cores%s%s\n", running, cores,
                    reported != NULL ? " of " : "", reported != NULL ? reported->host : "");
    }
}

/* Reports mixed versions: an incompatibility between two of them would look like a deadlock of
 * the program. */
static void say_versions(FILE *out, const struct inspect_job *job)
{
    char words[WORDS_MAX], other[WORDS_MAX];

    for (uint32_t i = 1; i < job->count; i++)
        if (strcmp(job->ranks[i].head.library, job->ranks[0].head.library) != 0) {
            fprintf(out,
                    "its ranks run over different versions of Matchbox: rank %s over %s, rank "
                    "%s over %s\n",
                    words_of_rank(&job->ranks[0], words), job->ranks[0].head.library,
                    words_of_rank(&job->ranks[i], other), job->ranks[i].head.library);
            return;
        }
}

void diagnose_say_others(FILE *out, const struct inspect_job *before,
                         const struct inspect_job *job, enum inspect_assume assume)
{
    char words[WORDS_MAX], process[WORDS_MAX], does[OUTSIDE_MAX], why[WHY_MAX];

    for (uint32_t i = 0; i < job->count; i++) {
        const struct inspect_rank *rank = &job->ranks[i];

        say_flood(out, job, i);
        say_packets(out, rank);
        if (outside_words(rank, does) != NULL)
            fprintf(out, "rank %s (%s) %s\n", words_of_rank(rank, words),
                    words_of_process(rank, process), does);
        else if (why_threads(before, job, i, assume, why))
            fprintf(out, "rank %s (%s) is not judged, nor is a rank that waits for it: %s\n",
                    words_of_rank(rank, words), words_of_process(rank, process), why);
    }
    say_cores(out, job);
    say_versions(out, job);
    say_missing(out, job);
}
