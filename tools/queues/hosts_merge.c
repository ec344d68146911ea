/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts_merge.c - merges the snapshots of several hosts into one job.
 *
 * Ranks find each other by the names of their addresses, which are the same on all hosts.  If two endpoints of a job have the same
 * address, or the same rank, on two hosts or in two processes, then
 *
 *   both are one endpoint         two hosts see it (containers that share processes): one of them is omitted
 *   they are not                  a snapshot is wrong: both count as not observed, and the reason is reported
 *
 * If ranks disagree about the size of the job, its size is unknown.
 */
#include "hosts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/base.h"
#include "base/mem.h"

/* ---- hosts ---- */

/* Makes space for one more; NULL: no memory. */
static struct observed_host *add_host(struct hosts_merge *merge)
{
    if (!array_reserve(merge->hosts, merge->host_capacity, merge->host_count + 1))
        return NULL;
    merge->hosts[merge->host_count] = (struct observed_host){.id = 0};
    return &merge->hosts[merge->host_count++];
}

int hosts_merge_none(struct hosts_merge *merge, const char *name, const char *why)
{
    struct observed_host *host = add_host(merge);

    if (host == NULL)
        return -ENOMEM;
    snprintf(host->name, sizeof host->name, "%s", name);
    snprintf(host->why, sizeof host->why, "%s", why);
    return 0;
}

/* The host of this id; NULL if it has not answered. */
static const struct observed_host *host_of(const struct hosts_merge *merge, uint64_t id)
{
    for (uint32_t i = 0; i < merge->host_count; i++)
        if (merge->hosts[i].has_answered && merge->hosts[i].id == id)
            return &merge->hosts[i];
    return NULL;
}

bool hosts_merge_has(const struct hosts_merge *merge, const struct observed_host *host)
{
    const struct observed_host *there = host_of(merge, host->id);

    return there != NULL && strcmp(there->name, host->name) == 0;
}

/* ---- ranks ---- */

/* Does a host show the same ranks as the host with the same id?  Containers with different
 * names may share processes.  The ranks of a host are adjacent, and sorted as in `from`. */
static bool shows_the_same(const struct hosts_merge *merge, const struct observed *from)
{
    const struct inspect_rank *more = from->count != 0 ? from->jobs[0].ranks : NULL;
    uint32_t first = 0, count = 0;

    for (uint32_t i = 0; i < from->count; i++)
        count += from->jobs[i].count;
    while (first < merge->count && merge->ranks[first].host != from->hosts[0].id)
        first++;
    if (first + count > merge->count ||
        (first + count < merge->count && merge->ranks[first + count].host == from->hosts[0].id))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct inspect_head *a = &merge->ranks[first + i].head, *b = &more[i].head;

        if (merge->ranks[first + i].host != from->hosts[0].id || a->job != b->job ||
            a->address != b->address || a->pid != b->pid || a->ep != b->ep ||
            a->open_ns != b->open_ns)
            return false;
    }
    return true;
}

int hosts_merge_add(struct hosts_merge *merge, struct observed *from)
{
    const struct observed_host *there = host_of(merge, from->hosts[0].id);
    uint32_t more = 0;
    struct observed_host *host;
    char why[OBSERVE_REFUSED];

    if (there != NULL &&
        (hosts_merge_has(merge, &from->hosts[0]) || shows_the_same(merge, from)))
        return 0;
    if (there != NULL) {
        snprintf(why, sizeof why, "it has the id of %s, which has answered", there->name);
        return hosts_merge_none(merge, from->hosts[0].name, why);
    }
    for (uint32_t i = 0; i < from->count; i++)
        more += from->jobs[i].count;
    if (!array_reserve(merge->ranks, merge->capacity, merge->count + more) ||
        (host = add_host(merge)) == NULL)
        return -ENOMEM;
    if (more != 0) {
        memcpy(&merge->ranks[merge->count], from->jobs[0].ranks, more * sizeof *merge->ranks);
        mem_free(from->jobs[0].ranks);
    }
    merge->count += more;
    from->count = 0;
    *host = from->hosts[0];
    from->hosts[0].others = NULL;
    return 0;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_address(const void *a, const void *b)
{
    const struct inspect_rank *x = a, *y = b;
    int order = compare(x->head.job, y->head.job);

    order = order != 0 ? order : compare(x->head.address, y->head.address);
    order = order != 0 ? order : compare(x->host, y->host);
    return order != 0 ? order : compare(x->head.pid, y->head.pid);
}

static int by_rank(const void *a, const void *b)
{
    const struct inspect_rank *x = a, *y = b;
    int order = compare(x->head.job, y->head.job);

    order = order != 0 ? order : compare(x->head.rank, y->head.rank);
    return order != 0 ? order : compare(x->host, y->host);
}

/* Invalidates the report of a rank. */
static void refuse(struct inspect_rank *rank, const struct inspect_rank *other,
                   const char *what)
{
    if (rank->how != INSPECT_FAILED || rank->count != 0)
        snprintf(rank->reported->does, sizeof rank->reported->does,
                 "is not judged: another process, %" PRIu32 " on %.40s, has its %s",
                 other->head.pid, other->reported->host, what);
    rank->how = INSPECT_FAILED;
    rank->count = 0;
}

static bool is_one_endpoint(const struct inspect_rank *a, const struct inspect_rank *b)
{
    return a->host != b->host && a->head.ep == b->head.ep &&
           a->head.open_ns == b->head.open_ns && a->head.rank == b->head.rank;
}

/* Keeps one copy of an endpoint that two hosts see; two endpoints with the same address are not
 * judged. */
static void look_at_addresses(struct hosts_merge *merge)
{
    uint32_t kept = 0;

    if (merge->count != 0)
        qsort(merge->ranks, merge->count, sizeof *merge->ranks, by_address);
    for (uint32_t i = 0; i < merge->count; i++) {
        struct inspect_rank *rank = &merge->ranks[i], *last;

        last = kept > 0 ? &merge->ranks[kept - 1] : NULL;
        if (last != NULL && last->head.job == rank->head.job && rank->head.address != 0 &&
            last->head.address == rank->head.address) {
            if (is_one_endpoint(last, rank)) {
                observed_free_rank(rank);
                continue;
            }
            refuse(last, rank, "address");
            refuse(rank, last, "address");
        }
        merge->ranks[kept++] = *rank;
    }
    merge->count = kept;
}

/* Is this the same rank as `first`? */
static bool is_rank_of(const struct inspect_rank *first, const struct inspect_rank *rank)
{
    return first->head.job == rank->head.job && first->head.rank == rank->head.rank &&
           rank->head.rank != INSPECT_NOBODY;
}

/* A rank is on one host: two hosts with the same rank are not judged. */
static void look_at_ranks(struct hosts_merge *merge)
{
    uint32_t end;

    if (merge->count != 0)
        qsort(merge->ranks, merge->count, sizeof *merge->ranks, by_rank);
    for (uint32_t start = 0; start < merge->count; start = end) {
        struct inspect_rank *first = &merge->ranks[start], *last;

        end = start + 1;
        while (end < merge->count && is_rank_of(first, &merge->ranks[end]))
            end++;
        last = &merge->ranks[end - 1];
        for (struct inspect_rank *rank = first; first->host != last->host && rank <= last;
             rank++)
            refuse(rank, rank->host == first->host ? last : first, "rank");
    }
}

/* A job counts as completely observed only if each rank is there, exactly once: incomplete jobs
 * are judged differently. */
static void look_at_size(struct inspect_job *job)
{
    for (uint32_t i = 0; i < job->count; i++)
        if ((job->ranks[i].head.ranks != INSPECT_NOBODY &&
             job->ranks[i].head.ranks != job->size) ||
            (job->count == job->size && job->ranks[i].head.rank != i)) {
            job->size = INSPECT_NOBODY;
            return;
        }
}

/* Hosts answer in any order. */
static int by_name(const void *a, const void *b)
{
    const struct observed_host *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order != 0 ? order : compare(x->id, y->id);
}

int hosts_merge_end(struct hosts_merge *merge, struct observed *out)
{
    int err;

    *out = (struct observed){.count = 0};
    look_at_addresses(merge);
    look_at_ranks(merge);
    err = array_reserve(merge->ranks, merge->capacity, 1)
              ? observed_sort(merge->ranks, merge->count, out)
              : -ENOMEM;
    if (err == 0) {
        for (uint32_t i = 0; i < out->count; i++)
            look_at_size(&out->jobs[i]);
        if (merge->host_count != 0)
            qsort(merge->hosts, merge->host_count, sizeof *merge->hosts, by_name);
        out->hosts = merge->hosts;
        out->host_count = merge->host_count;
    } else {
        for (uint32_t i = 0; i < merge->count; i++)
            observed_free_rank(&merge->ranks[i]);
        mem_free(merge->ranks);
        for (uint32_t i = 0; i < merge->host_count; i++)
            mem_free(merge->hosts[i].others);
        mem_free(merge->hosts);
    }
    *merge = (struct hosts_merge){.count = 0};
    return err;
}
