/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_job.c - the files of a job are read, and become messages, waits and depths in the order of time.
 */
#include "trace_reading.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/mem.h"

/* ---- in the order of time, from 0 ---- */

static uint64_t begin_of(const struct job_message *m)
{
    return m->send != JOB_NEVER ? m->send : m->arrive;
}

static int compare_begins(const void *a, const void *b)
{
    const struct job_message *x = a, *y = b;
    uint64_t p = begin_of(x), q = begin_of(y);

    return p != q ? (p < q ? -1 : 1) : (x->order > y->order) - (x->order < y->order);
}

static int compare_waits(const void *a, const void *b)
{
    const struct job_wait *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

static int compare_steps(const void *a, const void *b)
{
    const struct job_step *x = a, *y = b;

    return (x->time > y->time) - (x->time < y->time);
}

static bool order_all(struct job *job)
{
    uint32_t *place = mem_calloc(job->message_count + 1, sizeof *place);

    if (place == NULL)
        return false;
    qsort(job->messages, job->message_count, sizeof *job->messages, compare_begins);
    for (size_t i = 0; i < job->message_count; i++)
        place[job->messages[i].order] = (uint32_t)i;
    for (size_t i = 0; i < job->step_count; i++)
        if (job->steps[i].message != JOB_NOBODY)
            job->steps[i].message = place[job->steps[i].message];
    mem_free(place);
    if (job->wait_count != 0)
        qsort(job->waits, job->wait_count, sizeof *job->waits, compare_waits);
    if (job->step_count != 0)
        qsort(job->steps, job->step_count, sizeof *job->steps, compare_steps);
    return true;
}

/* The most of each slice; a depth lasts until it changes. */
static void slice_depths(const struct reading *r)
{
    struct job *job = r->job;
    uint64_t slice = job->duration / JOB_SLICES + 1;

    for (size_t i = 0; i < r->change_count; i++) {
        const struct depth_change *c = &r->changes[i];
        bool has_next = i + 1 < r->change_count && r->changes[i + 1].rank == c->rank;
        uint64_t end = has_next ? r->changes[i + 1].time : job->ranks[c->rank].last;
        struct job_depths *depths = &job->depths[c->rank];

        for (uint64_t at = c->time / slice; at <= end / slice && at < JOB_SLICES; at++) {
            depths->posted[at] = (uint32_t)max_size(depths->posted[at], c->posted);
            depths->unexpected[at] = (uint32_t)max_size(depths->unexpected[at], c->unexpected);
        }
    }
}

/* ---- the job ---- */

static int compare_ranks(const void *a, const void *b)
{
    const struct job_rank *x = a, *y = b;

    return trace_compare_ranks(&x->info, &y->info);
}

static void read_headers(struct job *job, char **paths, struct trace_reader *reader)
{
    for (size_t i = 0; i < job->rank_count; i++) {
        struct job_rank *rank = &job->ranks[i];

        rank->path = paths[i];
        rank->info.rank = TRACE_RANK_UNKNOWN;
        if (trace_open(reader, paths[i]) < 0) {
            snprintf(rank->error, sizeof rank->error, "%s", reader->error);
            continue;
        }
        rank->info = reader->info;
        rank->is_read = true;
        rank->is_flight = trace_is_flight(reader);
        trace_close(reader);
    }
    qsort(job->ranks, job->rank_count, sizeof *job->ranks, compare_ranks);
    for (size_t i = 0; i < job->rank_count; i++) {
        job->infos[i] = job->ranks[i].is_read ? &job->ranks[i].info : NULL;
        job->size = (uint32_t)max_size(job->size, job->ranks[i].info.size);
        trace_words_init(&job->ranks[i].words, &job->trace_ranks);
    }
}

static bool read_files(struct reading *r, struct trace_reader *reader)
{
    struct job *job = r->job;

    for (r->rank = 0; r->rank < job->rank_count; r->rank++) {
        struct job_rank *rank = &job->ranks[r->rank];
        bool is_read;

        if (!rank->is_read)
            continue;
        if (trace_open(reader, rank->path) < 0) { /* it was there when its header was read */
            snprintf(rank->error, sizeof rank->error, "%s", reader->error);
            rank->is_read = false;
            continue;
        }
        is_read = read_events(r, reader);
        trace_close(reader);
        if (!is_read)
            return false;
    }
    return true;
}

static bool read_all(struct reading *r, char **paths, struct trace_reader *reader)
{
    struct job *job = r->job;

    read_headers(job, paths, reader);
    if (!read_files(r, reader))
        return false;
    if (r->each != NULL)
        return true;
    if (!pair_halves(r))
        return false;
    if (!clocks_align(r))
        return false;
    slice_depths(r);
    for (size_t i = 0; i < job->wait_count; i++)
        job->ranks[job->waits[i].rank].waited += job->waits[i].to - job->waits[i].from;
    return order_all(job);
}

int job_read_events(struct job *job, char **paths, size_t count, job_event_fn *each, void *arg)
{
    struct trace_reader *reader = mem_alloc(sizeof *reader);
    struct reading r = {.job = job, .each = each, .arg = arg};
    bool is_read = false;

    *job = (struct job){.rank_count = count};
    job->ranks = mem_calloc(count, sizeof *job->ranks);
    job->infos = mem_calloc(count, sizeof *job->infos);
    job->depths = mem_calloc(count, sizeof *job->depths);
    job->trace_ranks = (struct trace_ranks){.files = job->infos, .count = count};
    if (reader != NULL && job->ranks != NULL && job->infos != NULL && job->depths != NULL)
        is_read = read_all(&r, paths, reader);
    else
        job->rank_count = 0;
    mem_free(r.peers);
    mem_free(r.sends);
    mem_free(r.arrivals);
    mem_free(r.changes);
    mem_free(r.posts);
    hash_fini(&r.names);
    mem_free(reader);
    if (is_read && (each != NULL || job_explain(job) == 0))
        return 0;
    job_free(job);
    return -ENOMEM;
}

int job_read(struct job *job, char **paths, size_t count)
{
    return job_read_events(job, paths, count, NULL, NULL);
}

void job_free(struct job *job)
{
    for (size_t i = 0; i < job->rank_count; i++)
        trace_words_fini(&job->ranks[i].words);
    mem_free(job->ranks);
    mem_free(job->infos);
    mem_free(job->depths);
    mem_free(job->messages);
    mem_free(job->waits);
    mem_free(job->steps);
    mem_free(job->places);
    mem_free(job->comes);
    mem_free(job->charges);
    mem_free(job->blames);
    *job = (struct job){.rank_count = 0};
}

/* ---- as text ---- */

const char *job_rank_text(const struct job *job, uint32_t rank, char text[32])
{
    const struct trace_info *info = rank < job->rank_count ? &job->ranks[rank].info : NULL;

    if (info == NULL)
        snprintf(text, 32, "somebody");
    else if (info->rank != TRACE_RANK_UNKNOWN)
        snprintf(text, 32, "rank %" PRIu32, info->rank);
    else
        snprintf(text, 32, "endpoint %" PRIu32 "-%" PRIu32, info->pid, info->endpoint);
    return text;
}

/* In the words of a file that has this message. */
static const struct trace_words *words_of(const struct job *job, const struct job_message *m)
{
    return &job->ranks[m->to != JOB_NOBODY && m->arrive != JOB_NEVER ? m->to : m->from].words;
}

static bool decode(const struct job *job, const struct job_message *m, struct inspect_mpi *mpi)
{
    return inspect_mpi_decode(words_of(job, m)->layout, m->context_id, m->tag, 0, mpi);
}

const char *job_message_text(const struct job *job, const struct job_message *m,
                             char text[TRACE_ENVELOPE_TEXT])
{
    const struct trace_words *words = words_of(job, m);
    char tag[INSPECT_MPI_WORDS], communicator[192];
    struct inspect_mpi mpi;

    if (!decode(job, m, &mpi)) {
        snprintf(text, TRACE_ENVELOPE_TEXT, "context %" PRIu32 " tag %" PRIx64, m->context_id,
                 m->tag);
        return text;
    }
    snprintf(text, TRACE_ENVELOPE_TEXT, "%s %s",
             trace_words_communicator(words, &mpi, communicator, sizeof communicator),
             inspect_mpi_words(&mpi, tag));
    return text;
}

const char *job_message_communicator(const struct job *job, const struct job_message *m,
                                     char text[JOB_COMMUNICATOR_TEXT])
{
    struct inspect_mpi mpi;

    if (decode(job, m, &mpi))
        return trace_words_communicator(words_of(job, m), &mpi, text, JOB_COMMUNICATOR_TEXT);
    snprintf(text, JOB_COMMUNICATOR_TEXT, "context %" PRIu32, m->context_id);
    return text;
}

uint32_t job_message_tag(const struct job *job, const struct job_message *m)
{
    struct inspect_mpi mpi;

    return decode(job, m, &mpi) ? (uint32_t)mpi.tag : (uint32_t)m->tag;
}

const char *job_collective(const struct job *job, const struct job_message *m)
{
    struct inspect_mpi mpi;

    if (!decode(job, m, &mpi) || !mpi.is_collective)
        return NULL;
    return mpi.operation != NULL ? mpi.operation : "collective";
}
