/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_pair.c - see races_pair.h.
 *
 *   file of rank 0   send      the k-th message of one envelope that 0 sends to 1 is the k-th of it that arrives at 1
 *                      \       from 0: so the sends of 0 are sorted by {receiver, envelope, event}, the arrivals at 1
 *   file of rank 1      arrive  by {sender, envelope, event}, and both are gone through side by side
 */
#include "races_pair.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/base.h"
#include "base/mem.h"
#include "tools/trace/trace_names.h"

/* ---- events: a receive names the one that posted it, and a message its arrival ---- */

static struct half *add_half(struct halves *halves, const struct pairs *p, uint32_t peer,
                             const struct trace_event *e, uint32_t event)
{
    struct half_range *range = &halves->of_rank[p->rank];

    if (!array_reserve(halves->all, halves->slots, halves->count + 1))
        return NULL;
    if (range->count++ == 0)
        range->first = halves->count;
    halves->all[halves->count] = (struct half){.tag = e->tag,
                                               .peer = peer,
                                               .context_id = e->context_id,
                                               .event = event,
                                               .message = JOB_NOBODY};
    return &halves->all[halves->count++];
}

static bool read_send(struct pairs *p, uint32_t peer, const struct trace_event *e,
                      uint32_t event)
{
    struct half *half = add_half(&p->sends, p, peer, e, event);

    if (half == NULL)
        return false;
    half->empty = e->amount == 0;
    return true;
}

static bool read_arrive(struct pairs *p, uint32_t peer, const struct trace_event *e,
                        uint32_t event)
{
    struct half *half = add_half(&p->arrivals, p, peer, e, event);
    uint32_t posted;

    if (half == NULL)
        return false;
    if (e->partner == 0)
        return names_put(&p->names, NAME_MESSAGE, e->entry, (uint32_t)(p->arrivals.count - 1));
    posted = names_find(&p->names, NAME_RECEIVE, e->partner);
    half->post = posted != NAME_NONE ? posted : event;
    return true;
}

/* A receive that is posted, or gets a message that a probe has found: perhaps it takes a message that waited. */
static bool read_post(struct pairs *p, uint64_t receive, uint64_t message, uint32_t event)
{
    uint32_t taken = message != 0 ? names_find(&p->names, NAME_MESSAGE, message) : NAME_NONE;

    if (taken != NAME_NONE)
        p->arrivals.all[taken].post = event;
    return names_put(&p->names, NAME_RECEIVE, receive, event);
}

static bool read_event(void *arg, uint32_t rank, uint64_t number, uint32_t peer,
                       const struct trace_event *e)
{
    struct pairs *p = arg;
    uint32_t event = (uint32_t)number;

    if (number >= JOB_NOBODY)
        return false;
    if (rank != p->rank)
        hash_fini(&p->names);
    p->rank = rank;
    switch ((unsigned)e->type) {
    case TRACE_SEND:
        return read_send(p, peer, e, event);
    case TRACE_ARRIVE:
        return read_arrive(p, peer, e, event);
    case TRACE_POST:
        return read_post(p, e->entry, e->partner, event);
    case TRACE_TAKE:
        return names_find(&p->names, NAME_MESSAGE, e->entry) == NAME_NONE ||
               read_post(p, e->partner, e->entry, event);
    default:
        return true;
    }
}

/* ---- pairs ---- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Which envelope comes first: x, of a half of rank `from`, or y, of a half of rank `to`? */
static int compare_envelopes(const struct half *x, const struct half *y)
{
    int order = compare_numbers(x->context_id, y->context_id);

    return order != 0 ? order : compare_numbers(x->tag, y->tag);
}

static int compare_halves(const void *a, const void *b)
{
    const struct half *x = a, *y = b;
    int order = compare_numbers(x->peer, y->peer);

    if (order == 0)
        order = compare_envelopes(x, y);
    return order != 0 ? order : compare_numbers(x->event, y->event);
}

static void sort_halves(struct halves *halves, size_t ranks)
{
    for (size_t i = 0; i < ranks; i++)
        if (halves->of_rank[i].count != 0)
            qsort(halves->all + halves->of_rank[i].first, halves->of_rank[i].count,
                  sizeof *halves->all, compare_halves);
}

static uint32_t number_sends(struct pairs *p)
{
    uint32_t messages = 0;

    for (size_t i = 0; i < p->sends.count; i++)
        if (p->sends.all[i].peer != JOB_NOBODY)
            p->sends.all[i].message = messages++;
    return messages;
}

/* The first half of a rank whose other side is this rank, or a later one. */
static struct half *first_with(const struct halves *halves, uint32_t rank, uint32_t peer)
{
    const struct half_range *range = &halves->of_rank[rank];
    size_t low = range->first, high = low + range->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (halves->all[middle].peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return halves->all + low;
}

static void pair_ranks(struct pairs *p, uint32_t from, uint32_t to)
{
    struct half *send = first_with(&p->sends, from, to),
                *sends = first_with(&p->sends, from, to + 1),
                *arrival = first_with(&p->arrivals, to, from),
                *arrivals = first_with(&p->arrivals, to, from + 1);

    while (send < sends && arrival < arrivals) {
        int order = compare_envelopes(send, arrival);

        if (order == 0)
            arrival->message = send->message;
        if (order <= 0)
            send++;
        if (order >= 0)
            arrival++;
    }
}

static void pair_all(struct pairs *p, const struct job *traces)
{
    uint32_t ranks = (uint32_t)traces->rank_count;

    sort_halves(&p->sends, ranks);
    sort_halves(&p->arrivals, ranks);
    p->messages = number_sends(p);
    if (p->sends.count == 0 || p->arrivals.count == 0)
        return;
    for (uint32_t from = 0; from < ranks; from++)
        for (uint32_t to = 0; to < ranks;
             to++) /* the last events alone do not say which message is the k-th */
            if (!traces->ranks[from].is_flight && !traces->ranks[to].is_flight)
                pair_ranks(p, from, to);
}

int pairs_read(struct pairs *pairs, struct job *traces, char **paths, size_t count)
{
    int err = -ENOMEM;

    *pairs = (struct pairs){.rank = JOB_NOBODY};
    *traces = (struct job){.rank_count = 0};
    pairs->sends.of_rank = mem_calloc(count + 1, sizeof *pairs->sends.of_rank);
    pairs->arrivals.of_rank = mem_calloc(count + 1, sizeof *pairs->arrivals.of_rank);
    if (pairs->sends.of_rank != NULL && pairs->arrivals.of_rank != NULL)
        err = job_read_events(traces, paths, count, read_event, pairs);
    hash_fini(&pairs->names);
    if (err == 0)
        pair_all(pairs, traces);
    return err;
}

void pairs_free(struct pairs *pairs)
{
    mem_free(pairs->sends.all);
    mem_free(pairs->sends.of_rank);
    mem_free(pairs->arrivals.all);
    mem_free(pairs->arrivals.of_rank);
    hash_fini(&pairs->names);
    *pairs = (struct pairs){.messages = 0};
}
