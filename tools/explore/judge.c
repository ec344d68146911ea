/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * judge.c - how a run ended, in words, and which order it had.
 */
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "explore.h"
#include "inspect/hang.h"

/* A launcher exits with this and the signal that has ended a rank. */
#define SIGNAL_STATUS 128
#define SIGNAL_MOST   64

/* The message of a rank that ends the job (src/lib/hang.c).  The others fail then, and the launcher may see one of them first. */
#define DEADLOCKED "this rank ends the job: it is deadlocked, and MBX_HANG_THEN=abort"

/* mpiexec, if a rank has called MPI_Abort().  It exits with the status that this call was given, which may be 0.  The line is lost
 * at times: a run also shows it by its record, and a replay has none. */
#define ABORTED "MPI_ABORT was invoked on rank"

/* Stands for a rank without a record. */
#define NO_RECORD UINT64_C(0x6e6f207265636f72)

struct explore_result explore_result_of(const struct explore_ended *ended, const char *err)
{
    struct explore_result result = {.kind = EXPLORE_STATUS_IS, .number = ended->number};

    if (ended->how == EXPLORE_TOO_LONG)
        result = (struct explore_result){.kind = EXPLORE_LONG};
    else if ((ended->how == EXPLORE_EXITED && ended->number == INSPECT_HANG_STATUS) ||
             (ended->number != 0 && explore_has_text(err, DEADLOCKED)))
        result = (struct explore_result){.kind = EXPLORE_DEADLOCK};
    else if (ended->how == EXPLORE_KILLED)
        result.kind = EXPLORE_SIGNALLED;
    else if (ended->number == 0 && explore_has_text(err, ABORTED))
        result.kind = EXPLORE_ABORTED;
    return result;
}

bool explore_is_same(const struct explore_result *a, const struct explore_result *b)
{
    return a->kind == b->kind && a->number == b->number &&
           a->is_other_output == b->is_other_output;
}

static bool fails(const struct explore_result *result)
{
    return result->kind != EXPLORE_CHECK_PASSES &&
           !(result->kind == EXPLORE_STATUS_IS && result->number == 0);
}

bool explore_is_told(const struct explore_search *s, uint64_t n)
{
    const struct explore_result *first = &s->runs[0].result;

    if (s->runs[n - 1].is_missed)
        return false;
    return n == 1 ? fails(first) : !explore_is_same(&s->runs[n - 1].result, first);
}

/* ---- words ---- */

static const char *signal_words(int status, char words[48])
{
    int number = status - SIGNAL_STATUS;

    words[0] = '\0';
    if (number > 0 && number <= SIGNAL_MOST)
        snprintf(words, 48, " (%s)", strsignal(number));
    return words;
}

const char *explore_result_text(const struct explore_result *result, char text[96])
{
    char words[48];

    switch (result->kind) {
    case EXPLORE_STATUS_IS:
        if (result->is_other_output)
            snprintf(text, 96, "other output");
        else
            snprintf(text, 96, "exit status %d%s", result->number,
                     signal_words(result->number, words));
        break;
    case EXPLORE_SIGNALLED:
        snprintf(text, 96, "signal %d (%s)", result->number, strsignal(result->number));
        break;
    case EXPLORE_DEADLOCK:
        snprintf(text, 96, "deadlock");
        break;
    case EXPLORE_ABORTED:
        snprintf(text, 96, "exit status 0 before MPI_Finalize");
        break;
    case EXPLORE_LONG:
        snprintf(text, 96, "too long, stopped");
        break;
    case EXPLORE_CHECK_FAILS:
        snprintf(text, 96, "fails the check");
        break;
    case EXPLORE_CHECK_PASSES:
        snprintf(text, 96, "passes the check");
        break;
    }
    return text;
}

const char *explore_count_text(const struct explore_result *result, uint64_t count,
                               char text[96])
{
    const char *s = count == 1 ? "s" : "", *es = count == 1 ? "es" : "";
    unsigned long long n = count;
    char words[48];

    switch (result->kind) {
    case EXPLORE_STATUS_IS:
        if (result->is_other_output)
            snprintf(text, 96, "%llu print%s other output", n, s);
        else
            snprintf(text, 96, "%llu exit%s with status %d%s", n, s, result->number,
                     signal_words(result->number, words));
        break;
    case EXPLORE_SIGNALLED:
        snprintf(text, 96, "%llu end%s by signal %d (%s)", n, s, result->number,
                 strsignal(result->number));
        break;
    case EXPLORE_DEADLOCK:
        snprintf(text, 96, "%llu deadlock%s", n, s);
        break;
    case EXPLORE_ABORTED:
        snprintf(text, 96, "%llu end%s before MPI_Finalize", n, s);
        break;
    case EXPLORE_LONG:
        snprintf(text, 96, "%llu take%s too long", n, s);
        break;
    case EXPLORE_CHECK_FAILS:
        snprintf(text, 96, "%llu fail%s the check", n, s);
        break;
    case EXPLORE_CHECK_PASSES:
        snprintf(text, 96, "%llu pass%s the check", n, es);
        break;
    }
    return text;
}

/* ---- orders ---- */

/* False: no rank has a record. */
static bool hash_ranks(const char *folder, uint32_t ranks, uint64_t *hash)
{
    bool is_recorded = false;

    *hash = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint64_t words[2] = {*hash, NO_RECORD};

        if (order_hash(folder, rank, &words[1]))
            is_recorded = true;
        *hash = hash_bytes(words, sizeof words);
    }
    return is_recorded;
}

bool explore_find_order(struct explore_search *s, uint64_t n)
{
    struct explore_run *run = &s->runs[n - 1];
    char folder[EXPLORE_PATH], error[ORDER_ERROR];

    explore_path(s->options, n, "", folder);
    if (s->ranks == 0 && order_ranks(folder, 0, &s->ranks, error) < 0)
        return false;
    if (!hash_ranks(folder, s->ranks, &run->hash))
        return false;
    for (uint64_t i = 0; i + 1 < n; i++)
        if (s->runs[i].order != 0 && s->runs[i].hash == run->hash) {
            run->order = s->runs[i].order;
            return false;
        }
    run->order = ++s->orders;
    return true;
}

/* ---- records ---- */

/* Does the record of a rank have one of these flags, or lack the wanted one?  A rank without a record has none. */
static bool has_flags(const struct explore_search *s, uint64_t n, uint32_t rank, unsigned bad,
                      unsigned wanted)
{
    char path[EXPLORE_PATH], error[ORDER_ERROR];
    struct replay_reader *reader;
    unsigned flags;

    if (replay_read_open(explore_path(s->options, n, "", path), rank, &reader, error,
                         sizeof error) < 0)
        return false;
    flags = replay_read_flags(reader);
    replay_read_close(reader);
    return (flags & bad) != 0 || (flags & wanted) != wanted;
}

bool explore_is_complete(const struct explore_search *s, uint64_t n)
{
    for (uint32_t rank = 0; rank < s->ranks; rank++)
        if (has_flags(s, n, rank, 0, REPLAY_COMPLETE) && !has_flags(s, n, rank, REPLAY_CUT, 0))
            return false;
    return true;
}

bool explore_is_forceable(const struct explore_search *s, uint64_t n)
{
    for (uint32_t rank = 0; rank < s->ranks; rank++)
        if (has_flags(s, n, rank, REPLAY_THREADS | REPLAY_UNSEEN, 0))
            return false;
    return true;
}
