/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_clock.c - the clocks of the hosts of a job are laid side by side.
 */
#include "trace_reading.h"

#include "base/base.h"

static void shift_time(uint64_t *time, int64_t shift)
{
    if (*time != JOB_NEVER)
        *time += (uint64_t)shift;
}

/* Adds what the clocks are shifted by to all times. */
static void shift_all(const struct reading *r)
{
    const struct job *job = r->job;

    for (size_t i = 0; i < job->message_count; i++) {
        struct job_message *m = &job->messages[i];

        if (m->from != JOB_NOBODY) {
            shift_time(&m->send, job->ranks[m->from].shift);
            shift_time(&m->sent, job->ranks[m->from].shift);
        }
        if (m->to != JOB_NOBODY) {
            shift_time(&m->arrive, job->ranks[m->to].shift);
            shift_time(&m->post, job->ranks[m->to].shift);
            shift_time(&m->received, job->ranks[m->to].shift);
        }
    }
    for (size_t i = 0; i < job->wait_count; i++) {
        shift_time(&job->waits[i].from, job->ranks[job->waits[i].rank].shift);
        shift_time(&job->waits[i].to, job->ranks[job->waits[i].rank].shift);
    }
    for (size_t i = 0; i < job->step_count; i++)
        shift_time(&job->steps[i].time, job->ranks[job->steps[i].rank].shift);
    for (size_t i = 0; i < r->change_count; i++)
        shift_time(&r->changes[i].time, job->ranks[r->changes[i].rank].shift);
    for (size_t i = 0; i < job->rank_count; i++) {
        shift_time(&job->ranks[i].first, job->ranks[i].shift);
        shift_time(&job->ranks[i].last, job->ranks[i].shift);
    }
}

/* By the time of day, of each host against that of the first file. */
static void align_by_day(struct job *job)
{
    const struct trace_info *base = NULL;

    for (size_t i = 0; i < job->rank_count; i++) {
        struct job_rank *rank = &job->ranks[i];
        const struct trace_info *same = NULL;

        if (!rank->is_read)
            continue;
        if (base == NULL)
            base = &rank->info;
        for (size_t j = 0; j < i && same == NULL; j++)
            if (job->ranks[j].is_read && job->ranks[j].info.host == rank->info.host)
                same = &job->ranks[j].info;
        if (rank->info.host == base->host || base->wall_ns == 0)
            continue;
        same = same != NULL ? same : &rank->info;
        if (same->wall_ns != 0)
            rank->shift = (int64_t)(same->wall_ns - same->start_ns) -
                          (int64_t)(base->wall_ns - base->start_ns);
    }
}

/* The fastest message from host a to host b; INT64_MAX: there was none. */
static int64_t fastest(const struct job *job, uint64_t a, uint64_t b)
{
    int64_t least = INT64_MAX;

    for (size_t i = 0; i < job->message_count; i++) {
        const struct job_message *m = &job->messages[i];
        int64_t took;

        if (m->from == JOB_NOBODY || m->to == JOB_NOBODY || m->send == JOB_NEVER ||
            m->arrive == JOB_NEVER || job->ranks[m->from].info.host != a ||
            job->ranks[m->to].info.host != b)
            continue;
        took = (int64_t)(m->arrive - m->send);
        if (took < least)
            least = took;
    }
    return least;
}

/* By messages, each host against that of the first file.  True: some clock has moved. */
static bool align_by_messages(struct job *job)
{
    uint64_t base = 0;
    bool has_base = false, has_moved = false;

    for (size_t i = 0; i < job->rank_count; i++)
        job->ranks[i].shift = 0;
    for (size_t i = 0; i < job->rank_count; i++) {
        uint64_t host = job->ranks[i].info.host;
        int64_t there, back;

        if (!job->ranks[i].is_read)
            continue;
        if (!has_base) {
            base = host;
            has_base = true;
        }
        if (host == base || job->ranks[i].shift != 0 || job->ranks[i].slack != 0)
            continue;
        there = fastest(job, base, host);
        back = fastest(job, host, base);
        if (there == INT64_MAX || back == INT64_MAX)
            continue;
        for (size_t j = i; j < job->rank_count; j++) {
            if (job->ranks[j].info.host != host)
                continue;
            job->ranks[j].shift = (back - there) / 2;
            job->ranks[j].slack = (uint64_t)(there + back) / 2;
        }
        has_moved = true;
    }
    return has_moved;
}

/* The job begins at 0. */
static void begin_at_zero(struct job *job)
{
    uint64_t first = UINT64_MAX, last = 0;

    for (size_t i = 0; i < job->rank_count; i++) {
        if (job->ranks[i].is_read) {
            first = min_size(first, job->ranks[i].first);
            last = max_size(last, job->ranks[i].last);
        }
    }
    for (size_t i = 0; i < job->rank_count; i++)
        job->ranks[i].shift = first != UINT64_MAX ? -(int64_t)first : 0;
    job->duration = first != UINT64_MAX ? last - first : 0;
}

void clocks_align(const struct reading *r)
{
    align_by_day(r->job);
    shift_all(r);
    if (align_by_messages(r->job))
        shift_all(r);
    begin_at_zero(r->job);
    shift_all(r);
}
