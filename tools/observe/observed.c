/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observed.c - sorts the observed ranks into jobs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "job_name.h"
#include "observe.h"

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_job(const void *a, const void *b)
{
    const struct inspect_rank *x = a, *y = b;
    int order = compare(x->head.job, y->head.job);

    order = order != 0 ? order : compare(x->owner, y->owner);
    order = order != 0 ? order : compare(x->head.rank, y->head.rank);
    order = order != 0 ? order : compare(x->host, y->host);
    order = order != 0 ? order : compare(x->head.pid, y->head.pid);
    return order != 0 ? order : compare(x->head.open_ns, y->head.open_ns);
}

bool observed_is_one_job(const struct inspect_rank *a, const struct inspect_rank *b)
{
    return a->head.job == b->head.job && a->owner == b->owner;
}

int observed_sort(struct inspect_rank *ranks, uint32_t count, struct observed *out)
{
    out->jobs = mem_calloc(count + 1, sizeof *out->jobs);
    if (out->jobs == NULL)
        return -ENOMEM;
    if (count != 0)
        qsort(ranks, count, sizeof *ranks, by_job);
    for (uint32_t i = 0; i < count; i++) {
        struct inspect_job *job = &out->jobs[out->count];

        if (i == 0 || !observed_is_one_job(&ranks[i - 1], &ranks[i])) {
            out->jobs[out->count++] =
                (struct inspect_job){.ranks = &ranks[i], .size = INSPECT_NOBODY};
        } else {
            job--;
        }
        job->count++;
        if (ranks[i].head.ranks != INSPECT_NOBODY)
            job->size = ranks[i].head.ranks;
    }
    for (uint32_t i = 0; i < out->count; i++)
        inspect_resolve(&out->jobs[i]);
    if (out->count == 0)
        mem_free(ranks);
    return 0;
}

void observed_free_rank(struct inspect_rank *rank)
{
    mem_free(rank->entries);
    mem_free(rank->text);
    mem_free(rank->tasks);
    mem_free(rank->reported);
}

/* ---- jobs that belong together ---- */

/* The endpoint of an address. */
struct place {
    uint64_t address;
    uint32_t job;
};

static int by_address(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return compare(x->address, y->address);
}

/* The first job in the group of this job. */
static uint32_t first_of(const uint32_t *groups, uint32_t job)
{
    while (groups[job] != job)
        job = groups[job];
    return job;
}

/* Unites two jobs if one has an operation with a rank of the other.  Returns the number of
 * unions. */
static uint32_t unite(const struct observed *observed, const struct place *places,
                      uint32_t count, uint32_t *groups)
{
    uint32_t united = 0;

    for (uint32_t j = 0; j < observed->count; j++)
        for (uint32_t r = 0; r < observed->jobs[j].count; r++)
            for (uint32_t i = 0; i < observed->jobs[j].ranks[r].count; i++) {
                const struct place wanted = {observed->jobs[j].ranks[r].entries[i].whom, 0};
                const struct place *found =
                    wanted.address != 0
                        ? bsearch(&wanted, places, count, sizeof *places, by_address)
                        : NULL;
                uint32_t a = first_of(groups, j);
                uint32_t b = found != NULL ? first_of(groups, found->job) : a;

                if (observed->jobs[a].ranks[0].owner != observed->jobs[b].ranks[0].owner)
                    continue; /* addresses are not secret */
                groups[max_size(a, b)] = (uint32_t)min_size(a, b);
                united += a != b;
            }
    return united;
}

/* Is job a older than b?  A job spawns another one after it has opened its endpoints.  Their
 * opening times can be compared on one host only, and the start time of a process is known to
 * the second. */
static bool is_earlier(const struct inspect_job *a, const struct inspect_job *b)
{
    uint64_t opened[2] = {UINT64_MAX, UINT64_MAX};
    const struct inspect_job *jobs[2] = {a, b};
    bool is_one_host = true;

    for (int i = 0; i < 2; i++)
        for (uint32_t r = 0; r < jobs[i]->count; r++) {
            const struct inspect_rank *rank = &jobs[i]->ranks[r];

            is_one_host &= rank->host == a->ranks[0].host;
            opened[i] = rank->head.open_ns < opened[i] ? rank->head.open_ns : opened[i];
        }
    return is_one_host ? opened[0] < opened[1] : job_started(a) < job_started(b);
}

/* The first job of this group that is not taken; INSPECT_NOBODY if all are taken. */
static uint32_t earliest(const struct observed *observed, const uint32_t *groups,
                         const bool *is_taken, uint32_t group)
{
    uint32_t first = INSPECT_NOBODY;

    for (uint32_t j = 0; j < observed->count; j++)
        if (!is_taken[j] && first_of(groups, j) == group &&
            (first == INSPECT_NOBODY || is_earlier(&observed->jobs[j], &observed->jobs[first])))
            first = j;
    return first;
}

/* Moves the ranks and jobs into `ranks` and `jobs`, which have space for all. */
static void put_together(struct observed *observed, const uint32_t *groups, bool *is_taken,
                         struct inspect_rank *ranks, struct inspect_job *jobs)
{
    uint32_t at = 0, count = 0, next;

    for (uint32_t group = 0; group < observed->count; group++) {
        uint32_t parts = 0;

        if (first_of(groups, group) != group)
            continue;
        jobs[count] = (struct inspect_job){.ranks = &ranks[at]};
        while ((next = earliest(observed, groups, is_taken, group)) != INSPECT_NOBODY) {
            const struct inspect_job *job = &observed->jobs[next];

            is_taken[next] = true;
            memcpy(&ranks[at], job->ranks, job->count * sizeof *ranks);
            for (uint32_t r = 0; r < job->count; r++)
                ranks[at++].part = parts;
            jobs[count].count += job->count;
            jobs[count].size = parts++ == 0 ? job->size : INSPECT_NOBODY;
        }
        count++;
    }
    mem_free(observed->jobs[0].ranks);
    mem_free(observed->jobs);
    observed->jobs = jobs;
    observed->count = count;
}

int observed_join(struct observed *observed)
{
    uint32_t count = 0, used = 0;
    struct place *places;
    struct inspect_rank *ranks;
    struct inspect_job *jobs;
    uint32_t *groups;
    bool *is_taken, is_enough;

    for (uint32_t j = 0; j < observed->count; j++)
        count += observed->jobs[j].count;
    if (observed->count < 2)
        return 0;
    places = mem_calloc(count, sizeof *places);
    ranks = mem_calloc(count, sizeof *ranks);
    jobs = mem_calloc(observed->count, sizeof *jobs);
    groups = mem_calloc(observed->count, sizeof *groups);
    is_taken = mem_calloc(observed->count, sizeof *is_taken);
    is_enough =
        places != NULL && ranks != NULL && jobs != NULL && groups != NULL && is_taken != NULL;
    for (uint32_t j = 0; is_enough && j < observed->count; j++) {
        groups[j] = j;
        for (uint32_t r = 0; r < observed->jobs[j].count; r++)
            places[used++] = (struct place){observed->jobs[j].ranks[r].head.address, j};
    }
    if (is_enough)
        qsort(places, count, sizeof *places, by_address);
    if (is_enough && unite(observed, places, count, groups) != 0) {
        put_together(observed, groups, is_taken, ranks, jobs);
    } else {
        mem_free(ranks);
        mem_free(jobs);
    }
    mem_free(places);
    mem_free(groups);
    mem_free(is_taken);
    return is_enough ? 0 : -ENOMEM;
}

/* ---- the endpoint of a rank ---- */

/* Moves the other endpoints of a job to `to`.  Returns their number. */
static uint32_t keep_matching(struct inspect_job *job, struct inspect_rank *to, bool *is_left)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < job->count; i++)
        is_left[i] = observed_is_other(job, i);
    for (uint32_t i = 0; i < job->count; i++)
        if (is_left[i])
            observed_free_rank(&job->ranks[i]);
        else
            to[kept++] = job->ranks[i];
    return kept;
}

int observed_keep_matching(struct observed *observed)
{
    struct inspect_rank *to = observed->count != 0 ? observed->jobs[0].ranks : NULL;
    uint32_t most = 0;
    bool *is_left;

    for (uint32_t j = 0; j < observed->count; j++)
        most = observed->jobs[j].count > most ? observed->jobs[j].count : most;
    is_left = mem_calloc(most + 1, sizeof *is_left);
    if (is_left == NULL)
        return -ENOMEM;
    for (uint32_t j = 0; j < observed->count; j++) {
        struct inspect_job *job = &observed->jobs[j];

        job->count = keep_matching(job, to, is_left);
        job->ranks = to;
        inspect_resolve(job); /* a source may have been the endpoint that is left out */
        to += job->count;
    }
    mem_free(is_left);
    return 0;
}

void observed_keep(struct observed *observed, uint64_t number)
{
    struct inspect_rank *all = observed->count != 0 ? observed->jobs[0].ranks : NULL;
    struct inspect_job kept = {.count = 0};

    for (uint32_t i = 0; i < observed->count; i++) {
        struct inspect_job *job = &observed->jobs[i];

        if (job->ranks[0].head.job == number) {
            kept = *job;
            continue;
        }
        for (uint32_t r = 0; r < job->count; r++)
            observed_free_rank(&job->ranks[r]);
    }
    if (kept.count == 0) {
        mem_free(all);
        observed->count = 0;
        return;
    }
    memmove(all, kept.ranks, kept.count * sizeof *all);
    kept.ranks = all;
    observed->jobs[0] = kept;
    observed->count = 1;
}

void observe_free(struct observed *observed)
{
    for (uint32_t i = 0; i < observed->count; i++)
        for (uint32_t r = 0; r < observed->jobs[i].count; r++)
            observed_free_rank(&observed->jobs[i].ranks[r]);
    if (observed->count != 0)
        mem_free(observed->jobs[0].ranks);
    mem_free(observed->jobs);
    for (uint32_t i = 0; i < observed->host_count; i++)
        mem_free(observed->hosts[i].others);
    mem_free(observed->hosts);
}
