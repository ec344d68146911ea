/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observed.c - ranks that were seen, sorted into jobs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "observe.h"

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_job(const void *a, const void *b)
{
    const struct see_rank *x = a, *y = b;
    int order = compare(x->head.job, y->head.job);

    order = order != 0 ? order : compare(x->head.rank, y->head.rank);
    order = order != 0 ? order : compare(x->host, y->host);
    order = order != 0 ? order : compare(x->head.pid, y->head.pid);
    return order != 0 ? order : compare(x->head.open_ns, y->head.open_ns);
}

int observed_sort(struct see_rank *ranks, uint32_t count, struct observed *out)
{
    out->jobs = mem_calloc(count + 1, sizeof *out->jobs);
    if (out->jobs == NULL)
        return -ENOMEM;
    if (count != 0)
        qsort(ranks, count, sizeof *ranks, by_job);
    for (uint32_t i = 0; i < count; i++) {
        struct see_job *job = &out->jobs[out->count];

        if (i == 0 || ranks[i].head.job != ranks[i - 1].head.job) {
            out->jobs[out->count++] = (struct see_job){.ranks = &ranks[i], .size = SEE_NOBODY};
        } else {
            job--;
        }
        job->count++;
        if (ranks[i].head.ranks != SEE_NOBODY)
            job->size = ranks[i].head.ranks;
    }
    if (out->count == 0)
        mem_free(ranks);
    return 0;
}

static void free_rank(struct see_rank *rank)
{
    mem_free(rank->entries);
    mem_free(rank->text);
    mem_free(rank->told);
}

void observed_keep(struct observed *observed, uint64_t number)
{
    struct see_rank *all = observed->count != 0 ? observed->jobs[0].ranks : NULL;
    struct see_job kept = {.count = 0};

    for (uint32_t i = 0; i < observed->count; i++) {
        struct see_job *job = &observed->jobs[i];

        if (job->ranks[0].head.job == number) {
            kept = *job;
            continue;
        }
        for (uint32_t r = 0; r < job->count; r++)
            free_rank(&job->ranks[r]);
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
            free_rank(&observed->jobs[i].ranks[r]);
    if (observed->count != 0)
        mem_free(observed->jobs[0].ranks);
    mem_free(observed->jobs);
    for (uint32_t i = 0; i < observed->host_count; i++)
        mem_free(observed->hosts[i].others);
    mem_free(observed->hosts);
}
