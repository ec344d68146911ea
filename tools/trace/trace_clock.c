/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_clock.c - aligns the clocks of the hosts of a job.
 *
 * A message never arrives before it is sent.  So if the clock of host b has to be moved by s, then
 *
 *   a message that a sends at time t and b receives at u      s >= t - u
 *   a message that b sends at time u and a receives at t      s <= t - u
 *
 * and s lies between the greatest of the lower limits and the least of the upper ones.
 *
 * A limit is close if the receiver was looking for messages when the message came: a time of at least WAIT_LEAST in
 * which it waits has begun before.  A receiver that computes meanwhile sees a message too late.  With close limits from both sides s is
 * in their middle: the fastest message takes as long in each direction.  With close limits from one side (a rank that always
 * comes last has never waited for a message) s is at that side.  Without close limits s is in the middle of all.
 *
 * If no s is between the limits, the clocks run at different rates: over a long job, some microseconds in each second are
 * milliseconds.  Then s grows evenly with the time, at the rate for which the limits lie furthest apart.
 *
 * Hosts are settled one by one: first the host of the first file, then always the one whose limits, from messages to and
 * from settled hosts, are closest.  Before this, all clocks are moved by the time of day.  For a host that exchanges no
 * messages nothing else is known; the clock of a host that only sends, or only receives, is moved from there no further than
 * its limit requires.
 */
#include "trace_reading.h"

#include "base/base.h"
#include "base/mem.h"

#define RATE_MAX   1e-3L /* no clock is so wrong */
#define RATE_STEPS 100
#define WAIT_LEAST 10000   /* ns */
#define SAME_CLOCK 1000000 /* ns: no two machines are started so close to each other */

/* The clock of a machine. */
struct clock {
    bool is_settled;
    int64_t shift;
    double rate; /* that is added for each ns since the origin */
    uint64_t slack;
    int64_t lower,
        upper; /* the limits that the settled ones give it: INT64_MIN, INT64_MAX: none */
};

struct clocks {
    const struct job *job;
    struct clock *clocks;
    uint32_t *of_rank;
    uint32_t count;
    uint64_t origin; /* the rates count from here */
};

static int64_t added(const struct clock *clock, uint64_t origin, uint64_t time)
{
    return clock->shift + (int64_t)(clock->rate * (double)(int64_t)(time - origin));
}

/* ---- all times ---- */

/* Adds what their clocks are moved by to all times. */
static void move_all(const struct clocks *c, const struct reading *r)
{
    struct job *job = r->job;

#define MOVE(time, rank)                                                                       \
    do {                                                                                       \
        if ((time) != JOB_NEVER)                                                               \
            (time) += (uint64_t)added(&c->clocks[c->of_rank[rank]], c->origin, time);          \
    } while (0)
    for (size_t i = 0; i < job->message_count; i++) {
        struct job_message *m = &job->messages[i];

        if (m->from != JOB_NOBODY) {
            MOVE(m->send, m->from);
            MOVE(m->sent, m->from);
        }
        if (m->to != JOB_NOBODY) {
            MOVE(m->arrive, m->to);
            MOVE(m->post, m->to);
            MOVE(m->received, m->to);
        }
    }
    for (size_t i = 0; i < job->wait_count; i++) {
        MOVE(job->waits[i].from, job->waits[i].rank);
        MOVE(job->waits[i].to, job->waits[i].rank);
    }
    for (size_t i = 0; i < job->come_count; i++)
        MOVE(job->comes[i].time, job->comes[i].rank);
    for (size_t i = 0; i < job->step_count; i++)
        MOVE(job->steps[i].time, job->steps[i].rank);
    for (size_t i = 0; i < r->change_count; i++)
        MOVE(r->changes[i].time, r->changes[i].rank);
    for (size_t i = 0; i < job->rank_count; i++) {
        MOVE(job->ranks[i].first, i);
        MOVE(job->ranks[i].last, i);
    }
#undef MOVE
}

/* The first event of all, and how long the job took. */
static uint64_t first_of(struct job *job)
{
    int64_t first = INT64_MAX, last = INT64_MIN;

    for (size_t i = 0; i < job->rank_count; i++) {
        const struct job_rank *rank = &job->ranks[i];

        if (rank->is_read && (int64_t)rank->first < first)
            first = (int64_t)rank->first;
        if (rank->is_read && (int64_t)rank->last > last)
            last = (int64_t)rank->last;
    }
    job->duration = first <= last ? (uint64_t)(last - first) : 0;
    return first <= last ? (uint64_t)first : 0;
}

/* ---- the time of day ---- */

/* A file may say what it likes. */
static int64_t by_day(int64_t shift)
{
    return shift > -(int64_t)JOB_TIME_MAX && shift < (int64_t)JOB_TIME_MAX ? shift : 0;
}

/* While clocks are moved, no time is below 0, nor JOB_NEVER, whatever the files say. */
#define MIDDLE (4 * (int64_t)JOB_TIME_MAX)

/* By the time of day when its recording began: what is to be added to this clock. */
static int64_t day_of(const struct trace_info *info, const struct trace_info *base)
{
    if (base->wall_ns == 0 || info->wall_ns == 0)
        return 0;
    return by_day(
        (int64_t)((info->wall_ns - info->start_ns) - (base->wall_ns - base->start_ns)));
}

/* Have these files one clock?  Containers of one machine are hosts of their own, and have. */
static bool is_one_clock(const struct trace_info *x, const struct trace_info *y)
{
    int64_t apart = (int64_t)((x->wall_ns - x->start_ns) - (y->wall_ns - y->start_ns));

    return x->host == y->host ||
           (x->wall_ns != 0 && y->wall_ns != 0 && apart > -SAME_CLOCK && apart < SAME_CLOCK);
}

/* Finds the clocks.  Each is moved by the time of day when the first of its files began. */
static bool find_clocks(struct clocks *c)
{
    const struct trace_info **first = mem_calloc(c->job->rank_count + 1, sizeof *first);

    for (size_t i = 0; first != NULL && i < c->job->rank_count; i++) {
        const struct trace_info *info = &c->job->ranks[i].info;
        uint32_t at = 0;

        if (!c->job->ranks[i].is_read)
            continue;
        while (at < c->count && !is_one_clock(first[at], info))
            at++;
        c->of_rank[i] = at;
        if (at < c->count)
            continue;
        first[c->count++] = info;
        c->clocks[at].shift = MIDDLE + day_of(info, first[0]);
    }
    mem_free(first);
    return first != NULL;
}

/* ---- messages ---- */

/* A message between a settled host and this one, as a limit. */
struct limit {
    uint64_t time; /* of the host that is not settled */
    int64_t shift;
    bool is_upper;
    bool is_close;
};

/* Was the receiver of this message waiting for messages when it came?  Waits are sorted by rank, then by time, and the waits
 * of a rank do not overlap. */
static bool is_awaited(const struct job *job, const struct job_message *m)
{
    size_t low = 0, high = job->wait_count;

    while (low < high) { /* the first one that ends at its arrival or later */
        size_t middle = low + (high - low) / 2;
        const struct job_wait *w = &job->waits[middle];

        if (w->rank < m->to || (w->rank == m->to && (int64_t)(w->to - m->arrive) < 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low < job->wait_count && job->waits[low].rank == m->to &&
           (int64_t)(m->arrive - job->waits[low].from) >= WAIT_LEAST;
}

/* The limit that m sets for a host that is not settled, whose index becomes *clock.  False: it sets none. */
static bool limit_of(const struct clocks *c, const struct job_message *m, struct limit *limit,
                     uint32_t *clock)
{
    const struct clock *from, *to;

    if (m->from == JOB_NOBODY || m->to == JOB_NOBODY || m->send == JOB_NEVER ||
        m->arrive == JOB_NEVER)
        return false;
    from = &c->clocks[c->of_rank[m->from]];
    to = &c->clocks[c->of_rank[m->to]];
    if (from->is_settled == to->is_settled)
        return false;
    limit->is_upper = to->is_settled;
    if (from->is_settled) {
        *clock = c->of_rank[m->to];
        limit->time = m->arrive;
        limit->shift =
            (int64_t)(m->send + (uint64_t)added(from, c->origin, m->send) - m->arrive);
    } else {
        *clock = c->of_rank[m->from];
        limit->time = m->send;
        limit->shift =
            (int64_t)(m->arrive + (uint64_t)added(to, c->origin, m->arrive) - m->send);
    }
    if (limit->shift > 2 * (int64_t)JOB_TIME_MAX)
        limit->shift = 2 * (int64_t)JOB_TIME_MAX;
    if (limit->shift < -2 * (int64_t)JOB_TIME_MAX)
        limit->shift = -2 * (int64_t)JOB_TIME_MAX;
    return true;
}

/* The limits of each host that is not settled, if it has one rate. */
static void find_limits(struct clocks *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        c->clocks[i].lower = INT64_MIN;
        c->clocks[i].upper = INT64_MAX;
    }
    for (size_t i = 0; i < c->job->message_count; i++) {
        struct limit limit;
        uint32_t at;

        if (!limit_of(c, &c->job->messages[i], &limit, &at))
            continue;
        if (limit.is_upper && limit.shift < c->clocks[at].upper)
            c->clocks[at].upper = limit.shift;
        if (!limit.is_upper && limit.shift > c->clocks[at].lower)
            c->clocks[at].lower = limit.shift;
    }
}

static bool has_both(const struct clock *clock)
{
    return clock->lower != INT64_MIN && clock->upper != INT64_MAX;
}

static bool has_one(const struct clock *clock)
{
    return clock->lower != INT64_MIN || clock->upper != INT64_MAX;
}

/* The host to be settled next: the one with the closest limits; if there is none, one with one limit; then any, or NULL. */
static struct clock *next_clock(struct clocks *c)
{
    struct clock *best = NULL;

    for (uint32_t i = 0; i < c->count; i++) {
        struct clock *clock = &c->clocks[i];

        if (clock->is_settled)
            continue;
        if (best == NULL || (has_both(clock) && !has_both(best)) ||
            (has_one(clock) && !has_one(best)) ||
            (has_both(clock) && has_both(best) &&
             clock->upper - clock->lower < best->upper - best->lower))
            best = clock;
    }
    return best;
}

/* The limits of a host, and the close ones. */
struct bounds {
    long double lower, upper, close_lower, close_upper;
};

#define NO_LOWER (-0x1p64L)
#define NO_UPPER 0x1p64L

static struct bounds bounds_at(const struct clocks *c, const struct limit *limits, size_t count,
                               long double rate)
{
    struct bounds b = {NO_LOWER, NO_UPPER, NO_LOWER, NO_UPPER};

    for (size_t i = 0; i < count; i++) {
        long double at = (long double)limits[i].shift -
                         rate * (long double)(int64_t)(limits[i].time - c->origin);

        if (limits[i].is_upper) {
            b.upper = at < b.upper ? at : b.upper;
            b.close_upper = limits[i].is_close && at < b.close_upper ? at : b.close_upper;
        } else {
            b.lower = at > b.lower ? at : b.lower;
            b.close_lower = limits[i].is_close && at > b.close_lower ? at : b.close_lower;
        }
    }
    return b;
}

static long double gap_at(const struct clocks *c, const struct limit *limits, size_t count,
                          long double rate)
{
    struct bounds b = bounds_at(c, limits, count, rate);

    return b.upper - b.lower;
}

/* The rate at which the limits lie furthest apart: how far is a concave function of it. */
static long double best_rate(const struct clocks *c, const struct limit *limits, size_t count)
{
    long double low = -RATE_MAX, high = RATE_MAX;

    for (int step = 0; step < RATE_STEPS; step++) {
        long double third = (high - low) / 3;

        if (gap_at(c, limits, count, low + third) < gap_at(c, limits, count, high - third))
            low += third;
        else
            high -= third;
    }
    return low + (high - low) / 2;
}

static void set_shift(struct clock *clock, const struct bounds *b)
{
    bool has_lower = b->lower != NO_LOWER, has_upper = b->upper != NO_UPPER;
    bool close_lower = b->close_lower != NO_LOWER, close_upper = b->close_upper != NO_UPPER;
    long double gap = b->upper - b->lower, shift = 0;

    if (!has_lower || !has_upper) { /* no further than it must */
        if (has_lower && b->lower > 0)
            shift = b->lower;
        if (has_upper && b->upper < 0)
            shift = b->upper;
    } else if (close_lower && !close_upper) {
        shift = b->lower;
    } else if (close_upper && !close_lower) {
        shift = b->upper;
    } else if (close_lower) {
        shift = b->close_lower + (b->close_upper - b->close_lower) / 2;
        if (gap >= 0 && shift < b->lower)
            shift = b->lower;
        if (gap >= 0 && shift > b->upper)
            shift = b->upper;
    } else {
        shift = b->lower + gap / 2;
    }
    clock->shift = (int64_t)shift;
    if (has_lower && has_upper) {
        long double below = shift - b->lower, above = b->upper - shift;

        below = below < 0 ? -below : below;
        above = above < 0 ? -above : above;
        clock->slack = (uint64_t)(below > above ? below : above) + 1;
    }
}

/* False: no memory. */
static bool settle(struct clocks *c, struct clock *clock)
{
    struct limit *limits = mem_calloc(c->job->message_count + 1, sizeof *limits);
    struct bounds bounds;
    size_t count = 0;
    uint32_t at;

    if (limits == NULL)
        return false;
    for (size_t i = 0; i < c->job->message_count; i++)
        if (limit_of(c, &c->job->messages[i], &limits[count], &at) && &c->clocks[at] == clock)
            limits[count++].is_close = is_awaited(c->job, &c->job->messages[i]);
    bounds = bounds_at(c, limits, count, 0);
    if (bounds.upper < bounds.lower) {
        clock->rate = (double)best_rate(c, limits, count);
        bounds = bounds_at(c, limits, count, clock->rate);
    }
    set_shift(clock, &bounds);
    clock->is_settled = true;
    mem_free(limits);
    return true;
}

/* By messages.  False: no memory. */
static bool settle_all(struct clocks *c)
{
    struct clock *clock;

    for (uint32_t i = 0; i < c->count; i++)
        c->clocks[i].shift = 0;
    if (c->count != 0)
        c->clocks[0].is_settled = true;
    for (;;) {
        find_limits(c);
        clock = next_clock(c);
        if (clock == NULL)
            return true;
        if (!settle(c, clock))
            return false;
    }
}

bool clocks_align(const struct reading *r)
{
    struct job *job = r->job;
    struct clocks c = {.job = job};
    bool is_done = false;

    c.clocks = mem_calloc(job->rank_count + 1, sizeof *c.clocks);
    c.of_rank = mem_calloc(job->rank_count + 1, sizeof *c.of_rank);
    if (c.clocks != NULL && c.of_rank != NULL && find_clocks(&c)) {
        move_all(&c, r);
        c.origin = first_of(job);
        is_done = settle_all(&c);
    }
    if (is_done) {
        move_all(&c, r);
        for (size_t i = 0; i < job->rank_count; i++) {
            job->ranks[i].has_own_clock = c.of_rank[i] != 0;
            job->ranks[i].slack = c.clocks[c.of_rank[i]].slack;
        }
        for (uint32_t i = 0; i <= c.count; i++)
            c.clocks[i] = (struct clock){.shift = -(int64_t)first_of(job)};
        move_all(&c, r);
    }
    mem_free(c.clocks);
    mem_free(c.of_rank);
    return is_done;
}
