/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * diagnose.c - see diagnose.h.  All statements about a rank are from the second inspection.
 */
#include "diagnose.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "job_name.h"
#include "inspect/text.h"
#include "words.h"

#define FLOOD 1000 /* unexpected messages of a rank that deserve a line */

/* ---- why ---- */

static bool is_other_part(const struct inspect_mpi *a, const struct inspect_mpi *b)
{
    return a->part != b->part &&
           (a->part == NULL || b->part == NULL || strcmp(a->part, b->part) != 0);
}

/* The reason why two tags differ.  A message of a collective is distinguished from one of the
 * program. */
static const char *why_of_tags(const struct inspect_mpi *wanted, const struct inspect_mpi *is)
{
    if (wanted->is_collective != is->is_collective)
        return is->is_collective ? "it belongs to a collective" : "it belongs to no collective";
    if (wanted->number != 0 && is->number != 0)
        return is->number < wanted->number ? "it belongs to an earlier nonblocking collective"
                                           : "it belongs to a later nonblocking collective";
    return is->is_collective ? "it belongs to another collective" : "the tag differs";
}

/* For a receive and a message of two communicators: do the tags agree?  Tags of nonblocking
 * collectives are not compared. */
static bool is_same_in_other(const struct inspect_mpi *wanted, const struct inspect_mpi *is)
{
    if (wanted->is_collective != is->is_collective || wanted->is_of_group != is->is_of_group)
        return false;
    return wanted->is_any_tag || wanted->tag == is->tag ||
           (wanted->is_nonblocking && is->is_nonblocking);
}

/* Compares the communicator and the tag of a message at rank with a receive's.  Where the MPI
 * packs both into the tag, also with the source, they are separated.  Only collectives use the
 * parts of a communicator.  *tag: how the tag differs, or NULL. */
static void compare(const struct inspect_rank *rank, const struct inspect_entry *receive,
                    const struct inspect_entry *message, bool *other_communicator,
                    const char **tag)
{
    uint64_t differ = (receive->tag ^ message->tag) &
                      ~(receive->ignore | inspect_mpi_source_bits(rank->layout));
    struct inspect_mpi wanted, is;

    *other_communicator = receive->context_id != message->context_id;
    *tag = differ != 0 ? "the tag differs" : NULL;
    if (differ == 0 ||
        !inspect_mpi_decode(rank->layout, receive->context_id, receive->tag, receive->ignore,
                            &wanted) ||
        !inspect_mpi_decode(rank->layout, message->context_id, message->tag, 0, &is))
        return;
    *other_communicator |=
        wanted.communicator != is.communicator || wanted.generation != is.generation ||
        (wanted.is_collective == is.is_collective && is_other_part(&wanted, &is));
    *tag = !*other_communicator              ? why_of_tags(&wanted, &is)
           : !is_same_in_other(&wanted, &is) ? "the tag differs"
                                             : NULL;
}

static bool is_any_tag(const struct inspect_rank *rank, const struct inspect_entry *receive)
{
    struct inspect_mpi mpi;

    return receive->ignore == UINT64_MAX ||
           (inspect_mpi_decode(rank->layout, receive->context_id, receive->tag, receive->ignore,
                               &mpi) &&
            mpi.is_any_tag);
}

static bool is_other_source(const struct inspect_rank *rank,
                            const struct inspect_entry *receive,
                            const struct inspect_entry *message, uint64_t sender)
{
    uint64_t differ = (receive->tag ^ message->tag) & ~receive->ignore;

    if (receive->peer == INSPECT_NOBODY)
        return (differ & inspect_mpi_source_bits(rank->layout)) != 0;
    return receive->whom != sender;
}

/* Returns the difference if a message differs from this receive in only one respect, or agrees
 * only in the tag that the receive names; otherwise NULL. */
static const char *near_miss(const struct inspect_rank *rank,
                             const struct inspect_entry *receive,
                             const struct inspect_entry *message, uint64_t sender)
{
    bool other_source = is_other_source(rank, receive, message, sender);
    bool other_communicator;
    const char *tag;

    compare(rank, receive, message, &other_communicator, &tag);
    if (tag != NULL)
        return other_communicator || other_source ? NULL : tag;
    if (other_source && other_communicator)
        return is_any_tag(rank, receive) ? NULL : "the source and the communicator differ";
    return other_communicator ? "the communicator differs"
           : other_source     ? "the source differs"
                              : NULL;
}

/* The number of unexpected messages of a rank like this one; 0 if an earlier entry is one of
 * them. */
static uint32_t count_alike(const struct inspect_rank *rank, uint32_t which)
{
    const struct inspect_entry *message = &rank->entries[which];
    uint32_t count = 0;

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *other = &rank->entries[i];

        if (other->kind != INSPECT_UNEXPECTED || other->context_id != message->context_id ||
            other->tag != message->tag || other->whom != message->whom)
            continue;
        if (i < which)
            return 0;
        count++;
    }
    return count;
}

#define MISSES_MAX 8 /* kinds of near misses */

/* Reports unexpected messages that nearly match this receive of job->ranks[at]. */
static void say_near_misses(FILE *out, const struct inspect_job *job, uint32_t at,
                            const struct inspect_entry *receive)
{
    const struct inspect_rank *rank = &job->ranks[at];
    char peer[WORDS_MAX], envelope[WORDS_MAX];
    uint32_t shown = 0;

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *message = &rank->entries[i];
        const char *why = message->kind == INSPECT_UNEXPECTED
                              ? near_miss(rank, receive, message, message->whom)
                              : NULL;
        uint32_t alike = why != NULL ? count_alike(rank, i) : 0;

        if (alike == 0)
            continue;
        if (shown++ == MISSES_MAX) {
            fprintf(out, "    and others are unexpected there (mbx queues)\n");
            break;
        }
        fprintf(out, "    %s from %s is unexpected there: %s",
                words_of_envelope(rank, message, envelope),
                words_of_peer(job, at, message, peer), why);
        if (alike > 1)
            fprintf(out, " (%" PRIu32 " such messages are shown)", alike);
        fputc('\n', out);
    }
}

/* Reports a send that has not left because its receiver accepts no more unexpected messages. */
static void say_window(FILE *out, const struct inspect_job *job, uint32_t whose,
                       const struct inspect_entry *entry)
{
    char words[WORDS_MAX];

    if (!(entry->flags & INSPECT_ENTRY_DEFERRED) || whose == INSPECT_NOBODY ||
        job->ranks[whose].state.counts[INSPECT_UNEXPECTED] == 0)
        return;
    words_of_rank(&job->ranks[whose], words);
    fprintf(out,
            "    the window is used up: rank %s holds %" PRIu32
            " messages that it has not received, and keeps no more of this sender "
            "(MBX_UNEXPECTED_MEMORY)\n",
            words, job->ranks[whose].state.counts[INSPECT_UNEXPECTED]);
}

/* Open MPI waits for the acknowledgement of a synchronous send in a receive of its own. */
static bool is_acknowledgement(const struct inspect_rank *rank,
                               const struct inspect_entry *entry)
{
    struct inspect_mpi mpi;

    return entry->kind == INSPECT_POSTED &&
           inspect_mpi_decode(rank->layout, entry->context_id, entry->tag, entry->ignore,
                              &mpi) &&
           mpi.is_acknowledgement;
}

/* "its send to 1 (tag 7 on MPI_COMM_WORLD, 4 bytes) is not received by 1" */
static void say_send(FILE *out, const struct inspect_rank *rank,
                     const struct inspect_entry *entry, const char *peer)
{
    static const char acknowledged[] = " acknowledgement";
    char envelope[WORDS_MAX], *cut;

    words_of_envelope(rank, entry, envelope);
    cut = strstr(envelope, acknowledged);
    if (cut != NULL)
        memmove(cut, cut + sizeof acknowledged - 1, strlen(cut + sizeof acknowledged - 1) + 1);
    fprintf(out, "  its send to %s (%s", peer, envelope);
    if (entry->kind == INSPECT_SEND)
        fprintf(out, ", %" PRIu64 " bytes", entry->size);
    fprintf(out, ") is not received by %s", peer);
}

/* ---- requests that were never started ---- */

/* Reads the next line `unstarted send|receive CONTEXT TAG IGNORE WHOM` of a page's text.
 * False: there is none. */
static bool next_unstarted(const char **at, bool *is_send, struct inspect_entry *entry)
{
    while (*at != NULL && (*at = strchr(*at, '\n')) != NULL) {
        char kind[8];

        ++*at;
        if (strncmp(*at, "unstarted ", 10) != 0)
            continue;
        *entry = (struct inspect_entry){.kind = INSPECT_NONE};
        if (sscanf(*at + 10, "%7s %" SCNu32 " %" SCNu64 " %" SCNu64 " %16" SCNx64, kind,
                   &entry->context_id, &entry->tag, &entry->ignore, &entry->whom) != 5)
            continue;
        *is_send = strcmp(kind, "send") == 0;
        entry->peer = entry->whom == 0 ? INSPECT_NOBODY : 0;
        return true;
    }
    return false;
}

/* Would the other rank's operation complete this one if it were started? */
static bool would_end(const struct inspect_job *job, uint32_t at,
                      const struct inspect_entry *entry, uint32_t whose, bool is_send,
                      const struct inspect_entry *unstarted)
{
    if (is_send)
        return entry->kind == INSPECT_POSTED &&
               unstarted->whom == job->ranks[at].head.address &&
               inspect_accepts(job, at, entry, whose, unstarted);
    return entry->kind == INSPECT_SEND && inspect_accepts(job, whose, unstarted, at, entry);
}

/* Reports that the other rank has called MPI_Send_init, or MPI_Recv_init, for this operation,
 * but not MPI_Start. */
static void say_unstarted(FILE *out, const struct inspect_job *job, uint32_t at,
                          const struct inspect_entry *entry, uint32_t whose)
{
    const char *text = whose != INSPECT_NOBODY ? job->ranks[whose].text : NULL;
    struct inspect_entry unstarted;
    char words[WORDS_MAX];
    bool is_send;

    while (next_unstarted(&text, &is_send, &unstarted))
        if (would_end(job, at, entry, whose, is_send, &unstarted)) {
            fprintf(out, "    rank %s has described this %s (%s) and never started it\n",
                    words_of_rank(&job->ranks[whose], words), is_send ? "send" : "receive",
                    is_send ? "MPI_Send_init" : "MPI_Recv_init");
            return;
        }
}

static void say_entry(FILE *out, const struct inspect_job *job, const enum inspect_node *nodes,
                      uint32_t at, const struct inspect_entry *entry)
{
    const struct inspect_rank *rank = &job->ranks[at];
    uint32_t whose = inspect_whose(job, at, entry);
    char peer[WORDS_MAX], envelope[WORDS_MAX];
    bool is_send;

    words_of_peer(job, at, entry, peer);
    is_send = entry->kind == INSPECT_SEND || is_acknowledgement(rank, entry);
    if (is_send)
        say_send(out, rank, entry, peer);
    else
        fprintf(out, "  it waits for %s from %s", words_of_envelope(rank, entry, envelope),
                peer);
    if (whose == at)
        fprintf(out, ", which is itself");
    else if (whose != INSPECT_NOBODY && nodes[whose] == INSPECT_OVER)
        fprintf(out, ", which is in %s", job->ranks[whose].state.call);
    else if (is_send && whose != INSPECT_NOBODY && inspect_is_probed(job, whose, at, entry))
        fprintf(out, ", where a matched probe has taken it");
    else if (entry->peer == INSPECT_NOBODY)
        fprintf(out, ", and nobody is left to send it");
    else if (whose != INSPECT_NOBODY)
        fprintf(out, ", which waits too");
    fputc('\n', out);
    if (is_send)
        say_window(out, job, whose, entry);
    else
        say_near_misses(out, job, at, entry);
    say_unstarted(out, job, at, entry, whose);
}

/* "MPI_Recv", and the line of the program if there is debug information. */
static const char *call_words(const struct inspect_rank *rank, char words[WORDS_MAX])
{
    char line[OUTSIDE_MAX];

    if (outside_line(rank, line) != NULL)
        snprintf(words, WORDS_MAX, "%.40s at %.144s", rank->state.call, line);
    else
        snprintf(words, WORDS_MAX, "%s", rank->state.call);
    return words;
}

/* ", for 41 s"; empty if it is unknown. */
static const char *still_words(const struct inspect_rank *rank, char words[32])
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

/* A thread of this kind among those of now->ranks[at] from index `from` on; NULL: there is none. */
static const struct inspect_task *next_thread(const struct inspect_job *before,
                                              const struct inspect_job *now, uint32_t at,
                                              enum inspect_thread kind, uint32_t from)
{
    const struct inspect_rank *rank = &now->ranks[at], *was = inspect_same(before, rank);

    for (uint32_t i = from; was != NULL && i < rank->task_count; i++)
        if (inspect_thread_of(was, rank, &rank->tasks[i]) == kind)
            return &rank->tasks[i];
    return NULL;
}

/* Is somebody deadlocked only if threads that have never communicated do not begin to? */
static bool is_unless(const struct inspect_job *before, const struct inspect_job *now,
                      const enum inspect_node *nodes)
{
    for (uint32_t i = 0; i < now->count; i++)
        if (nodes[i] == INSPECT_DEADLOCKED &&
            next_thread(before, now, i, INSPECT_THREAD_FREE, 0) != NULL)
            return true;
    return false;
}

#define FREE_MAX 8 /* threads of a rank that are named */

static void say_free(FILE *out, const struct inspect_job *before, const struct inspect_job *now,
                     uint32_t at)
{
    const struct inspect_rank *rank = &now->ranks[at];
    const struct inspect_task *task;
    uint32_t count = 0;

    for (uint32_t from = 0;
         (task = next_thread(before, now, at, INSPECT_THREAD_FREE, from)) != NULL;
         from = (uint32_t)(task - rank->tasks) + 1)
        if (count++ < FREE_MAX)
            fprintf(out, "  its thread %" PRIu32 " has never communicated: it %s\n", task->id,
                    task->does);
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
            if (!inspect_is_of_thread(rank, &rank->entries[i], &rank->tasks[t]))
                continue;
            if (is_first)
                fprintf(out, "  its thread %" PRIu32 " waits in MPI as well\n",
                        rank->tasks[t].id);
            is_first = false;
            say_entry(out, job, nodes, at, &rank->entries[i]);
        }
    }
}

static void say_rank(FILE *out, const struct inspect_job *before, const struct inspect_job *job,
                     const enum inspect_node *nodes, uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];
    char words[WORDS_MAX], process[WORDS_MAX], call[WORDS_MAX], still[32];
    uint32_t awaited = 0, stuck = 0;

    for (uint32_t i = 0; i < rank->count; i++) {
        bool is_awaited = inspect_is_awaited(rank, &rank->entries[i]);

        awaited += is_awaited;
        stuck += is_awaited && !inspect_can_end(job, nodes, at, &rank->entries[i]);
    }
    fprintf(out, "rank %s (%s) is in %s%s\n", words_of_rank(rank, words),
            words_of_process(rank, process), call_words(rank, call), still_words(rank, still));
    if (stuck < awaited)
        fprintf(out,
                "  of the %" PRIu32 " operations that it waits for, %" PRIu32
                " cannot end, and it needs all\n",
                awaited, stuck);
    for (uint32_t i = 0; i < rank->count; i++)
        if (inspect_is_awaited(rank, &rank->entries[i]) &&
            !inspect_can_end(job, nodes, at, &rank->entries[i]))
            say_entry(out, job, nodes, at, &rank->entries[i]);
    say_other_half(out, job, at);
    say_other_threads(out, job, nodes, at);
    say_free(out, before, job, at);
}

/* ---- cycles ---- */

/* An operation for which this rank waits for a deadlocked one, *whose; or NULL. */
static const struct inspect_entry *next_wait(const struct inspect_job *job,
                                             const enum inspect_node *nodes, uint32_t at,
                                             uint32_t *whose)
{
    const struct inspect_rank *rank = &job->ranks[at];

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *entry = &rank->entries[i];

        *whose = inspect_whose(job, at, entry);
        if (inspect_is_awaited(rank, entry) && *whose != INSPECT_NOBODY &&
            nodes[*whose] == INSPECT_DEADLOCKED && !inspect_can_end(job, nodes, at, entry))
            return entry;
    }
    *whose = INSPECT_NOBODY;
    return NULL;
}

static uint32_t next_of(const struct inspect_job *job, const enum inspect_node *nodes,
                        uint32_t at)
{
    uint32_t whose;

    next_wait(job, nodes, at, &whose);
    return whose;
}

/* The likely cause of a cycle of ranks in one collective.  Ranks that call the same collectives
 * in the same order, with the same root, count and type, never wait in a cycle: the message
 * that a rank waits for is sent before its sender waits for that rank.  Messages do not contain
 * these arguments, so it is unknown which of them differs. */
static const char *why_of_collective(const struct inspect_mpi *mpi)
{
    static const char *const rooted[] = {"bcast",   "gather",   "gatherv",
                                         "scatter", "scatterv", "reduce"};

    if (mpi->is_nonblocking)
        return "likely they have begun different ones, or with different roots, "
               "counts or types";
    for (size_t i = 0; i < ARRAY_COUNT(rooted); i++)
        if (mpi->operation != NULL && strcmp(mpi->operation, rooted[i]) == 0)
            return "likely the roots differ, or the counts or types";
    return "likely the counts or types differ";
}

/* Do both messages belong to one collective?  Each nonblocking collective has its own tag. */
static bool is_same_collective(const struct inspect_mpi *a, const struct inspect_mpi *b)
{
    return a->communicator == b->communicator && !is_other_part(a, b) && a->tag == b->tag &&
           a->is_of_group == b->is_of_group;
}

/* Does every rank of the cycle wait for a message of the same collective?  *one: the envelope
 * that the first one waits for. */
static bool is_within_collective(const struct inspect_job *job, const enum inspect_node *nodes,
                                 uint32_t from, struct inspect_mpi *one,
                                 const struct inspect_entry **first)
{
    uint32_t at = from, whose;

    *first = NULL;
    do {
        const struct inspect_entry *entry = next_wait(job, nodes, at, &whose);
        struct inspect_mpi mpi;

        if (!inspect_mpi_decode(job->ranks[at].layout, entry->context_id, entry->tag,
                                entry->ignore, &mpi) ||
            !mpi.is_collective || entry->kind != INSPECT_POSTED)
            return false;
        if (*first == NULL) {
            *first = entry;
            *one = mpi;
        }
        if (!is_same_collective(one, &mpi))
            return false;
        at = whose;
    } while (at != from);
    return true;
}

/* "all of them wait within one bcast on MPI_COMM_WORLD: likely the roots differ, or the counts
 * or types" */
static void say_collective(FILE *out, const struct inspect_job *job,
                           const enum inspect_node *nodes, uint32_t from)
{
    const struct inspect_entry *entry;
    char words[WORDS_MAX];
    struct inspect_mpi mpi = {.tag = 0};

    if (next_of(job, nodes, from) != from &&
        is_within_collective(job, nodes, from, &mpi, &entry))
        fprintf(out, "  all of them wait within one %s: %s\n",
                words_of_envelope(&job->ranks[from], entry, words), why_of_collective(&mpi));
}

static void say_cycle(FILE *out, const struct inspect_job *job, const enum inspect_node *nodes,
                      uint32_t from)
{
    char words[WORDS_MAX];
    uint32_t at = from;

    fprintf(out, "cycle: %s", words_of_rank(&job->ranks[at], words));
    do {
        at = next_of(job, nodes, at);
        fprintf(out, " -> %s", words_of_rank(&job->ranks[at], words));
    } while (at != from);
    fputc('\n', out);
}

/* Follows the waits of each rank; a cycle is reported once, from its first rank. */
static void say_cycles(FILE *out, const struct inspect_job *job, const enum inspect_node *nodes)
{
    uint32_t *seen = mem_calloc(job->count, sizeof *seen);

    for (uint32_t start = 0; seen != NULL && start < job->count; start++) {
        uint32_t at = start;

        while (at != INSPECT_NOBODY && nodes[at] == INSPECT_DEADLOCKED && seen[at] == 0) {
            seen[at] = start + 1;
            at = next_of(job, nodes, at);
        }
        if (at != INSPECT_NOBODY && nodes[at] == INSPECT_DEADLOCKED && seen[at] == start + 1) {
            say_cycle(out, job, nodes, at);
            say_collective(out, job, nodes, at);
        }
    }
    mem_free(seen);
}

/* ---- roll call ---- */

/* The communicator of the collective that a rank is in, if its operations show it; otherwise
 * NULL. */
static const char *collective_of(const struct inspect_rank *rank, char words[WORDS_MAX])
{
    if (inspect_call_of(rank->state.call) != INSPECT_CALL_COLLECTIVE)
        return NULL;
    for (uint32_t i = 0; i < rank->count; i++)
        if (inspect_is_awaited(rank, &rank->entries[i]))
            return words_of_communicator(rank, &rank->entries[i], words);
    return NULL;
}

/* Lists the ranks that are in a collective of each communicator, a line per call: "roll call on
 * MPI_COMM_WORLD: 0, 2, 3 in MPI_Allreduce". */
static void say_roll_call(FILE *out, const struct inspect_job *job)
{
    char on[WORDS_MAX], other[WORDS_MAX], words[WORDS_MAX];

    for (uint32_t i = 0; i < job->count; i++) {
        const char *name = collective_of(&job->ranks[i], on);
        bool is_first = name != NULL;

        for (uint32_t k = 0; is_first && k < i; k++)
            if (strcmp(job->ranks[k].state.call, job->ranks[i].state.call) == 0 &&
                collective_of(&job->ranks[k], other) != NULL && strcmp(on, other) == 0)
                is_first = false;
        if (!is_first)
            continue;
        fprintf(out, "roll call on %s:", on);
        for (uint32_t k = i, shown = 0; k < job->count; k++)
            if (strcmp(job->ranks[k].state.call, job->ranks[i].state.call) == 0 &&
                collective_of(&job->ranks[k], other) != NULL && strcmp(on, other) == 0)
                fprintf(out, "%s %s", shown++ > 0 ? "," : "",
                        words_of_rank(&job->ranks[k], words));
        fprintf(out, " in %s\n", job->ranks[i].state.call);
    }
}

/* ---- ranks outside a deadlock ---- */

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
                                           : "other hosts (--launch)");
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

uint64_t diagnose_fallbacks(const struct inspect_rank *rank)
{
    return inspect_text_sum(rank->text, "read_fallbacks=");
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

bool diagnose_is_in_wait(const struct inspect_rank *rank)
{
    static const char *const polls[] = {"MPI_Test", "MPI_Iprobe", "MPI_Improbe",
                                        "MPI_Request_get_status", "MPI_Win_test"};
    enum inspect_call call = inspect_call_of(rank->state.call);

    if (call != INSPECT_CALL_OTHER)
        return call != INSPECT_CALL_FINISHES;
    for (size_t i = 0; i < ARRAY_COUNT(polls); i++)
        if (strncmp(rank->state.call, polls[i], strlen(polls[i])) == 0)
            return false;
    return strncmp(rank->state.call, "MPI_", 4) == 0;
}

bool diagnose_is_still(const struct inspect_rank *rank)
{
    return rank->state.still_ns != 0 && rank->state.now_ns - rank->state.still_ns >= CLOCK_S;
}

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
            words_of_process(rank, process), call_words(rank, call), still_words(rank, still));
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
        fputs("it cannot be told what for, because no message that is seen here is known to be "
              "of this call; neither it nor a rank that waits for it is judged\n",
              out);
        return;
    }
    fprintf(out, "%s %s %s", words_of_envelope(rank, entry, envelope),
            entry->kind == INSPECT_SEND || entry->kind == INSPECT_SENDING ||
                    is_acknowledgement(rank, entry)
                ? "to"
                : "from",
            words_of_peer(job, at, entry, peer));
    if (entry->peer != INSPECT_NOBODY)
        say_other_side(out, job, nodes, inspect_whose(job, at, entry));
    fputc('\n', out);
    say_window(out, job, inspect_whose(job, at, entry), entry);
}

/* A line for each rank that waits, and is not part of a deadlock. */
static void say_waiters(FILE *out, const struct inspect_job *before,
                        const struct inspect_job *now, const enum inspect_node *nodes)
{
    for (uint32_t i = 0; i < now->count; i++)
        if (nodes[i] == INSPECT_ALIVE && waits(before, now, i))
            say_waiter(out, now, nodes, i);
}

/* ---- ranks that are left out ---- */

#define LEFT_OUT_MAX 8 /* ranks that are named for each reason */

#define WHY_MAX      (WORDS_MAX + 128)

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
                 "it may have several threads, and those of its process were not seen");
        return true;
    case INSPECT_APART_SEVERAL:
        snprintf(words, WHY_MAX, "several of its threads are in MPI");
        return true;
    case INSPECT_APART_BEGUN:
        task = inspect_new_task(was, rank);
        snprintf(words, WHY_MAX, "its thread %" PRIu32 " has just %s",
                 task != NULL ? task->id : inspect_new_task(rank, was)->id,
                 task != NULL ? "begun" : "ended");
        return true;
    case INSPECT_APART_ACTIVE:
        task = next_thread(before, now, at, INSPECT_THREAD_ACTIVE, 0);
        snprintf(words, WHY_MAX, "its thread %" PRIu32 ", which has communicated before, %s",
                 task->id, task->does);
        return true;
    case INSPECT_APART_FREE:
        task = next_thread(before, now, at, INSPECT_THREAD_FREE, 0);
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
                 apart == INSPECT_APART_CALL ? ", which is not known to wait for messages"
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
static void say_left_out(FILE *out, const struct inspect_job *before,
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

static void say_others(FILE *out, const struct inspect_job *before,
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
    inspect_judge(before, now, nodes);
    if (count_deadlocked(now, nodes) != 0)
        return DIAGNOSE_DEADLOCK;
    inspect_judge_unless(before, now, nodes);
    return count_deadlocked(now, nodes) != 0 ? DIAGNOSE_UNLESS : DIAGNOSE_NONE;
}

void diagnose_say(FILE *out, const struct inspect_job *before, const struct inspect_job *now,
                  const enum inspect_node *nodes)
{
    char title[JOB_TITLE];
    uint32_t dead = count_deadlocked(now, nodes);
    bool unless = is_unless(before, now, nodes);
    enum inspect_assume assume = dead == 0 || unless ? INSPECT_UNLESS : INSPECT_CERTAIN;

    fprintf(out, "%s: ", job_title(now, false, title));
    if (dead == 0)
        fprintf(out, "no rank is deadlocked\n");
    else
        fprintf(out, "deadlock of %" PRIu32 " of %" PRIu32 " ranks%s\n", dead, now->count,
                unless ? ", unless a thread that has never communicated does so" : "");
    job_print_parts(out, now);
    for (uint32_t i = 0; i < now->count; i++)
        if (nodes[i] == INSPECT_DEADLOCKED)
            say_rank(out, before, now, nodes, i);
    if (dead != 0) {
        say_cycles(out, now, nodes);
        say_roll_call(out, now);
    }
    if (inspect_under_way(before, now) != 0)
        fprintf(
            out,
            "%" PRIu64
            " messages are on their way between its hosts, or were sent to processes that it "
            "has started, and nothing else happens: is the network slow, or interrupted?\n",
            inspect_under_way(before, now));
    say_waiters(out, before, now, nodes);
    say_left_out(out, before, now, nodes, assume);
    say_others(out, before, now, assume);
}
