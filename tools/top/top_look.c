/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top_look.c - samples the state of all ranks.
 *
 * A rank that answers late was computing until then if it has used a core in that time; otherwise it had no core, and the
 * answer has its state.  Without an answer, the kernel's state of the rank and its CPU time decide.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "inspect/text.h"
#include "tools/observe/diagnose.h"
#include "top.h"

/* A later answer comes from a rank that was doing something else. */
#define LATE_NS (3 * CLOCK_MS)

/* CPU time of the first thread, in ns; UINT64_MAX: the kernel does not report it. */
static uint64_t run_ns(uint32_t pid)
{
    char path[64];
    uint64_t ns = UINT64_MAX;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/schedstat", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return UINT64_MAX;
    if (fscanf(file, "%" SCNu64, &ns) != 1)
        ns = UINT64_MAX;
    fclose(file);
    return ns;
}

/* Has it used a core for half of that time? */
static bool has_run(const struct top *top, uint32_t number, const struct inspect_rank *rank,
                    uint64_t time_ns)
{
    uint64_t before = top->run_before[number], now = run_ns(rank->head.pid);

    return before == UINT64_MAX || now == UINT64_MAX || now - before >= time_ns / 2;
}

/* ---- waits of a rank ---- */

/* The operation that a rank in a blocking call waits for: one without any data yet, otherwise
 * the first; NULL: none is known. */
static const struct inspect_entry *awaited(const struct inspect_rank *rank)
{
    const struct inspect_entry *found = NULL;

    for (uint32_t i = 0; i < rank->count; i++) {
        const struct inspect_entry *entry = &rank->entries[i];

        if (!inspect_is_awaited(rank, entry))
            continue;
        if (entry->kind == INSPECT_POSTED || entry->kind == INSPECT_SEND ||
            entry->kind == INSPECT_PROBE)
            return entry;
        if (found == NULL)
            found = entry;
    }
    return found;
}

static bool moves(const struct inspect_entry *entry)
{
    return entry->kind == INSPECT_SENDING || entry->kind == INSPECT_RECEIVING ||
           entry->kind == INSPECT_ACCESS;
}

/* Counts a wait at this place; entry may be NULL. */
static void add_place(struct top_rank *to, const struct inspect_job *job, uint32_t at,
                      const struct inspect_entry *entry)
{
    const struct inspect_rank *rank = &job->ranks[at];
    uint64_t whom = entry != NULL ? entry->whom : 0;
    struct top_place *place;
    uint32_t i = 0;

    while (i < to->place_count &&
           (to->places[i].whom != whom || to->places[i].caller != rank->state.caller ||
            strcmp(to->places[i].call, rank->state.call) != 0))
        i++;
    if (i == TOP_PLACES)
        return;
    place = &to->places[i];
    if (i == to->place_count) {
        to->place_count++;
        *place = (struct top_place){.caller = rank->state.caller, .whom = whom};
        memcpy(place->call, rank->state.call, sizeof place->call);
    }
    place->looks++;
    if (entry == NULL)
        return;
    place->is_send = entry->kind == INSPECT_SEND || entry->kind == INSPECT_ACCESS;
    if (entry->kind == INSPECT_ACCESS)
        snprintf(place->envelope, sizeof place->envelope, "a one-sided access");
    else
        words_of_envelope(rank, entry, place->envelope);
    words_of_peer(job, at, entry, place->peer);
}

/* Is it in a call that waits for something that is not an operation here?  A lock of a window
 * is not a message; a call of any other name waits if nothing has happened in it for a
 * second. */
static bool waits_otherwise(const struct inspect_rank *rank)
{
    static const char *const calls[] = {"MPI_Win_lock",  "MPI_Win_unlock",   "MPI_Win_flush",
                                        "MPI_Win_start", "MPI_Win_complete", "MPI_Win_wait"};

    for (size_t i = 0; i < ARRAY_COUNT(calls); i++)
        if (strncmp(rank->state.call, calls[i], strlen(calls[i])) == 0)
            return true;
    return diagnose_is_in_wait(rank) && diagnose_is_still(rank);
}

/* The first incomplete one-sided access of the rank, or NULL. */
static const struct inspect_entry *first_access(const struct inspect_rank *rank)
{
    for (uint32_t i = 0; i < rank->count; i++)
        if (rank->entries[i].kind == INSPECT_ACCESS)
            return &rank->entries[i];
    return NULL;
}

/* The state of a rank that has answered. */
static enum top_state answered_state(struct top_rank *to, const struct inspect_job *job,
                                     uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];
    enum inspect_call call = inspect_call_of(rank->state.call);
    const struct inspect_entry *entry;

    if (call == INSPECT_CALL_POLLS || (call == INSPECT_CALL_OTHER && !waits_otherwise(rank)))
        return TOP_CALLS;
    if (call == INSPECT_CALL_OTHER) {
        add_place(to, job, at, first_access(rank));
        return TOP_WAITS;
    }
    entry = call != INSPECT_CALL_FINISHES ? awaited(rank) : NULL;
    if (entry != NULL && moves(entry))
        return TOP_MOVES;
    if (entry == NULL && call != INSPECT_CALL_FINISHES)
        return TOP_CALLS; /* about to begin, or just completed */
    add_place(to, job, at, entry);
    return TOP_WAITS;
}

/* ---- messages of a rank ---- */

static void add_traffic(struct top_rank *to, const struct inspect_rank *rank)
{
    to->last =
        (struct top_traffic){.now_ns = rank->state.now_ns,
                             .sent = rank->state.pulse.sent,
                             .received = rank->state.pulse.received,
                             .sent_bytes = inspect_text_sum(rank->text, "sent_bytes_"),
                             .received_bytes = inspect_text_sum(rank->text, "received_bytes_")};
    if (!to->has_answered)
        to->first = to->last;
    to->has_answered = true;
    to->posted = rank->state.counts[INSPECT_POSTED];
    to->unexpected = rank->state.counts[INSPECT_UNEXPECTED];
    memcpy(&to->state, &rank->state, sizeof to->state);
}

/* ---- a look ---- */

/* The state of a rank that has not answered within time_ns. */
static enum top_state silent_state(const struct top *top, uint32_t number, struct top_rank *to,
                                   const struct inspect_rank *rank, uint64_t time_ns)
{
    enum inspect_call call = inspect_call_of(to->state.call);

    if (rank->run == 'R')
        return has_run(top, number, rank, time_ns) ? TOP_COMPUTES : TOP_READY;
    /* a wait of the library sleeps, and wakes up only at intervals */
    if (rank->run == 'S' && to->has_answered && call == INSPECT_CALL_LIBRARY)
        return TOP_WAITS;
    return TOP_ELSEWHERE;
}

static void add_rank(const struct top *top, uint32_t number, struct top_rank *to,
                     const struct inspect_job *job, uint32_t at)
{
    const struct inspect_rank *rank = &job->ranks[at];
    uint64_t took_ns = rank->state.now_ns - top->asked_ns;
    enum top_state state;

    to->head = rank->head;
    to->run = rank->run;
    if (rank->how != INSPECT_ASKED) {
        state = silent_state(top, number, to, rank, clock_now() - top->asked_ns);
    } else {
        bool is_late = rank->state.now_ns > top->asked_ns && took_ns > LATE_NS;

        add_traffic(to, rank);
        state = is_late && has_run(top, number, rank, took_ns) ? TOP_COMPUTES
                                                               : answered_state(to, job, at);
    }
    to->looks++;
    to->states[state]++;
}

/* Initialises top from the first sample. */
static int begin(struct top *top, const struct observed *seen)
{
    uint32_t ranks = 0;

    top->jobs = mem_calloc(seen->count + 1, sizeof *top->jobs);
    if (top->jobs == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < seen->count; i++) {
        top->jobs[i] = (struct top_job){
            .count = seen->jobs[i].count,
            .size = seen->jobs[i].size,
            .ranks = mem_calloc(seen->jobs[i].count, sizeof *top->jobs[i].ranks)};
        if (top->jobs[i].ranks == NULL)
            return -ENOMEM;
        job_title(&seen->jobs[i], true, top->jobs[i].title);
        top->count++;
        for (uint32_t r = 0; r < seen->jobs[i].count; r++)
            top->jobs[i].ranks[r] = (struct top_rank){.head = seen->jobs[i].ranks[r].head,
                                                      .owner = seen->jobs[i].ranks[r].owner};
        ranks += seen->jobs[i].count;
    }
    top->run_before = mem_calloc(ranks + 1, sizeof *top->run_before);
    top->ranks = ranks;
    return top->run_before != NULL ? 0 : -ENOMEM;
}

static void note_run(struct top *top)
{
    uint32_t number = 0;

    for (uint32_t i = 0; i < top->count; i++)
        for (uint32_t r = 0; r < top->jobs[i].count; r++)
            top->run_before[number++] = run_ns(top->jobs[i].ranks[r].head.pid);
}

int top_look(struct top *top, struct observer *observer)
{
    bool is_first = top->jobs == NULL;
    struct observed seen;
    uint32_t number = 0;
    int err;

    if (!is_first)
        note_run(top);
    top->asked_ns = clock_now();
    err = observer_ask(observer, &seen);
    if (err == 0 && is_first)
        err = begin(top, &seen);
    for (uint32_t i = 0; err == 0 && !is_first && i < top->count; i++)
        for (uint32_t r = 0; r < top->jobs[i].count; r++)
            add_rank(top, number++, &top->jobs[i].ranks[r], &seen.jobs[i], r);
    observe_free(&seen);
    return err;
}

void top_free(struct top *top)
{
    for (uint32_t i = 0; i < top->count; i++)
        mem_free(top->jobs[i].ranks);
    mem_free(top->jobs);
    mem_free(top->run_before);
    *top = (struct top){.count = 0};
}
