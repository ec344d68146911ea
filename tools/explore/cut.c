/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cut.c - the order that makes a receive take another message.
 *
 *   order-K   rank 0   1  2  R  4  5          order-N/cut   rank 0   1  2  R: the other message
 *             rank 1   1  2  3  4                           rank 1   1  2
 *
 * The cut (tools/races/races_order.h) says how much of each rank's order does not depend on what R has taken.  This is copied.
 * A receive that is open there may take any message.  After the end of its record each rank continues freely.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/base.h"
#include "base/mem.h"
#include "explore.h"

/* The receives of a rank that are open at the cut, by the numbers of their events; sorted. */
struct open_receives {
    uint64_t *numbers;
    size_t count;
    uint32_t slots;
};

struct explore_cut {
    const struct explore_search *s;
    const struct explore_alternative *forced;
    struct races_run *run;
    uint32_t ranks;
    uint64_t *kept; /* of each rank: so many events */
    struct open_receives *open;
    bool lacks_memory;
    /* the forced matches of earlier runs that are kept, and this one */
    struct explore_alternative *all_forced;
    uint32_t forced_count;
};

/* ---- traces ---- */

struct races_run *explore_load(struct explore_search *s, uint64_t n)
{
    char path[EXPLORE_PATH];

    if (s->loaded == n)
        return &s->run;
    explore_unload(s);
    if (races_read(&s->run, explore_path(s->options, n, "", path)) < 0) {
        tool_error(s->tool, "no memory for the traces of run %llu", (unsigned long long)n);
        mem_free(s->run.problems);
        return NULL;
    }
    s->run.folder = NULL; /* path goes */
    s->loaded = n;
    return &s->run;
}

void explore_unload(struct explore_search *s)
{
    if (s->loaded != 0) {
        races_run_free(&s->run);
        mem_free(s->run.problems);
    }
    s->loaded = 0;
}

/* ---- the cut ---- */

static uint32_t number_of(const struct explore_cut *cut, uint32_t rank)
{
    return cut->run->traces.ranks[rank].info.rank;
}

static void keep_events(struct explore_cut *cut, const struct races_cut *before)
{
    for (uint32_t i = 0; i < cut->run->job.rank_count; i++) {
        uint32_t rank = number_of(cut, i), done = before->done[i];

        if (rank >= cut->ranks)
            continue;
        cut->kept[rank] = done != 0 ? cut->run->counts[i][done - 1] : 0;
        if (rank == cut->forced->rank && cut->kept[rank] < cut->forced->event)
            cut->kept[rank] = cut->forced->event;
    }
}

static bool open_add(struct open_receives *open, uint64_t number)
{
    if (!array_reserve(open->numbers, open->slots, open->count + 1))
        return false;
    open->numbers[open->count++] = number;
    return true;
}

/* Has it a message in the cut, or was it cancelled there? */
static bool is_over(const struct explore_cut *cut, const struct races_cut *before,
                    uint32_t receive)
{
    const struct races_receive *r = &cut->run->job.receives[receive];

    return races_cut_has(before, receive) ||
           (r->message == RACES_NONE && r->cancel <= before->done[r->rank]);
}

static void find_open(struct explore_cut *cut, const struct races_cut *before)
{
    const struct races_job *job = &cut->run->job;

    for (uint32_t i = 0; i < job->receive_count; i++) {
        uint64_t number = cut->run->events[i].number;
        uint32_t rank = number_of(cut, job->receives[i].rank);

        if (number == 0 || rank >= cut->ranks || number > cut->kept[rank] ||
            !replay_is_receive(cut->run->events[i].signature.kind) || is_over(cut, before, i))
            continue;
        if (!open_add(&cut->open[rank], number))
            cut->lacks_memory = true;
    }
}

/* Which forced matches of the run are in the cut? */
static void keep_forced(struct explore_cut *cut, const struct races_cut *before)
{
    const struct explore_run *run = &cut->s->runs[cut->forced->run - 1];

    for (uint32_t f = 0; f < run->forced_count; f++) {
        const struct explore_alternative *one = &run->all_forced[f];
        bool is_open = one->event > cut->kept[one->rank];

        for (size_t i = 0; i < cut->open[one->rank].count; i++)
            is_open = is_open || cut->open[one->rank].numbers[i] == one->event;
        if (!is_open && !(one->rank == cut->forced->rank && one->event == cut->forced->event))
            cut->all_forced[cut->forced_count++] = *one;
    }
    cut->all_forced[cut->forced_count++] = *cut->forced;
    (void)before;
}

static int compare_numbers(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void take_cut(void *arg, const struct races_cut *before)
{
    struct explore_cut *cut = arg;

    keep_events(cut, before);
    find_open(cut, before);
    for (uint32_t i = 0; i < cut->ranks; i++)
        if (cut->open[i].count > 1)
            qsort(cut->open[i].numbers, cut->open[i].count, sizeof(uint64_t), compare_numbers);
    keep_forced(cut, before);
}

struct explore_cut *explore_cut_make(struct explore_search *s,
                                     const struct explore_alternative *forced)
{
    struct races_run *run = explore_load(s, forced->run);
    struct explore_cut *cut = run != NULL ? mem_calloc(1, sizeof *cut) : NULL;
    int err = -ENOMEM;

    if (cut == NULL)
        return NULL;
    *cut = (struct explore_cut){.s = s, .forced = forced, .run = run, .ranks = s->ranks};
    cut->kept = mem_calloc(s->ranks, sizeof *cut->kept);
    cut->open = mem_calloc(s->ranks, sizeof *cut->open);
    cut->all_forced =
        mem_calloc(s->runs[forced->run - 1].forced_count + 1u, sizeof *cut->all_forced);
    if (cut->kept != NULL && cut->open != NULL && cut->all_forced != NULL)
        err = races_find_cut(&run->job, forced->receive, forced->message, take_cut, cut);
    if (err == 0 && !cut->lacks_memory)
        return cut;
    if (err == -ENOMEM || cut->lacks_memory)
        explore_lacks_memory(s);
    explore_cut_free(cut);
    return NULL;
}

void explore_cut_free(struct explore_cut *cut)
{
    for (uint32_t i = 0; cut->open != NULL && i < cut->ranks; i++)
        mem_free(cut->open[i].numbers);
    mem_free(cut->open);
    mem_free(cut->kept);
    mem_free(cut->all_forced);
    mem_free(cut);
}

void explore_cut_give(struct explore_cut *cut, struct explore_run *to)
{
    to->is_forced = true;
    to->forced = *cut->forced;
    to->all_forced = cut->all_forced;
    to->forced_count = cut->forced_count;
    cut->all_forced = NULL;
}

/* ---- events of the cut ---- */

/* The record of a rank, up to the cut. */
struct kept_reader {
    const struct explore_cut *cut;
    uint32_t rank;
    struct replay_reader *reader;
    bool is_in;              /* the last event was */
    char error[ORDER_ERROR]; /* why it cannot be read */
};

static bool kept_open(struct kept_reader *k, const struct explore_cut *cut, uint32_t rank)
{
    char path[EXPLORE_PATH];

    *k = (struct kept_reader){.cut = cut, .rank = rank};
    return replay_read_open(explore_path(cut->s->options, cut->forced->run, "", path), rank,
                            &k->reader, k->error, sizeof k->error) == 0;
}

static bool is_open(const struct explore_cut *cut, uint32_t rank, uint64_t number)
{
    return cut->open[rank].count != 0 &&
           bsearch(&number, cut->open[rank].numbers, cut->open[rank].count, sizeof number,
                   compare_numbers) != NULL;
}

static bool is_forced(const struct explore_cut *cut, uint32_t rank, uint64_t number)
{
    return rank == cut->forced->rank && number == cut->forced->event;
}

/* The next event, as it is to be.  A detail belongs to the event before it. */
static bool kept_next(struct kept_reader *k, struct replay_event *event)
{
    const struct explore_cut *cut = k->cut;
    uint64_t kept = cut->kept[k->rank];

    if (!replay_read_next(k->reader, event))
        return false;
    if (replay_is_detail(event->signature.kind))
        return k->is_in;
    k->is_in = event->number <= kept;
    if (!k->is_in)
        return false;
    if (event->times > kept - event->number + 1)
        event->times = kept - event->number + 1;
    event->signature.place = 0; /* the places stay with the run */
    if (is_forced(cut, k->rank, event->number)) {
        event->outcome = replay_message(cut->forced->source, cut->forced->tag, 0);
        event->outcome.size_class = REPLAY_SIZE_UNKNOWN;
    } else if (replay_is_receive(event->signature.kind) &&
               is_open(cut, k->rank, event->number)) {
        event->outcome = (struct replay_outcome){.result = REPLAY_OPEN};
    }
    return true;
}

/* ---- was it tried? ---- */

static bool is_met(const struct replay_event *wanted, const struct replay_event *event)
{
    return replay_is_alike(&wanted->signature, &event->signature) &&
           ((wanted->outcome.result == REPLAY_OPEN &&
             replay_is_receive(wanted->signature.kind)) ||
            (wanted->outcome.result == event->outcome.result &&
             wanted->outcome.value == event->outcome.value));
}

/* Tests and probes that found nothing do not count. */
static bool next_found(struct replay_reader *reader, struct replay_event *event)
{
    while (replay_read_next(reader, event))
        if (event->outcome.result != REPLAY_FALSE)
            return true;
    return false;
}

static bool rank_begins_so(const struct explore_cut *cut, uint64_t n, uint32_t rank)
{
    char path[EXPLORE_PATH], error[ORDER_ERROR];
    struct replay_event wanted, event;
    struct replay_reader *reader;
    struct kept_reader kept;
    bool is_so = true;

    if (replay_read_open(explore_path(cut->s->options, n, "", path), rank, &reader, error,
                         sizeof error) < 0)
        return false;
    if (kept_open(&kept, cut, rank)) {
        while (is_so && kept_next(&kept, &wanted))
            if (wanted.outcome.result != REPLAY_FALSE)
                is_so = next_found(reader, &event) && is_met(&wanted, &event);
        replay_read_close(kept.reader);
    } else {
        is_so = false;
    }
    replay_read_close(reader);
    return is_so;
}

uint64_t explore_cut_met(const struct explore_cut *cut)
{
    for (uint64_t n = 1; n <= cut->s->count; n++) {
        bool is_so = cut->s->runs[n - 1].order != 0;

        for (uint32_t rank = 0; is_so && rank < cut->ranks; rank++)
            is_so = rank_begins_so(cut, n, rank);
        if (is_so)
            return n;
    }
    return 0;
}

/* ---- the record ---- */

static void put_event(struct replay_writer *w, const struct replay_event *event)
{
    uint64_t number;

    if (replay_is_receive(event->signature.kind)) {
        number = replay_write_post(w, &event->signature);
        if (event->outcome.result != REPLAY_OPEN)
            replay_write_fill(w, number, &event->outcome);
        return;
    }
    for (uint64_t i = 0; i < event->times; i++)
        replay_write_event(w, &event->signature, &event->outcome);
}

/* 0; a negative errno. */
static int write_kept(struct kept_reader *kept, const char *folder)
{
    struct replay_job job = *replay_read_job(kept->reader);
    struct replay_writer *w;
    struct replay_event event;
    uint64_t receive;
    int err;

    job.is_part = true;
    err = replay_write_open(folder, &job, &w);
    if (err < 0)
        return err;
    replay_write_flag(w, REPLAY_BEGINNING);
    while (kept_next(kept, &event))
        put_event(w, &event);
    for (size_t i = 0; (receive = replay_read_cancelled(kept->reader, i)) != 0; i++)
        replay_write_cancelled(w, receive);
    return replay_write_close(w);
}

/* False after saying why not. */
static bool write_rank(const struct explore_cut *cut, const char *folder, uint32_t rank)
{
    struct kept_reader kept;
    int err;

    if (!kept_open(&kept, cut, rank)) {
        tool_error(cut->s->tool, "%s", kept.error);
        return false;
    }
    err = write_kept(&kept, folder);
    replay_read_close(kept.reader);
    if (err < 0)
        tool_error(cut->s->tool, "cannot write the record of rank %u to %s: %s", rank, folder,
                   strerror(-err));
    return err == 0;
}

bool explore_cut_write(const struct explore_cut *cut, uint64_t n)
{
    char folder[EXPLORE_PATH];

    explore_path(cut->s->options, n, EXPLORE_CUT, folder);
    if (mkdir(folder, 0700) < 0 && errno != EEXIST) {
        tool_error(cut->s->tool, "cannot make %s: %s", folder, strerror(errno));
        return false;
    }
    for (uint32_t rank = 0; rank < cut->ranks; rank++)
        if (!write_rank(cut, folder, rank))
            return false;
    return true;
}

/* ---- after the run ---- */

bool explore_was_forced(const struct explore_search *s, uint64_t n)
{
    const struct explore_alternative *forced = &s->runs[n - 1].forced;
    char path[EXPLORE_PATH], error[ORDER_ERROR];
    struct replay_reader *reader;
    struct replay_event event;
    bool is_so = false;

    if (replay_read_open(explore_path(s->options, n, "", path), forced->rank, &reader, error,
                         sizeof error) < 0)
        return false;
    while (replay_read_next(reader, &event) && event.number <= forced->event)
        if (event.number == forced->event && !replay_is_detail(event.signature.kind))
            is_so = event.outcome.result == REPLAY_MESSAGE &&
                    replay_source(&event.outcome) == forced->source &&
                    replay_tag(&event.outcome) == forced->tag;
    replay_read_close(reader);
    return is_so;
}
