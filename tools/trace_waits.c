/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_waits.c - what the waits of a job were for, and who is to blame.
 *
 *   waits at rank 0     |──────────── wait ────────────|
 *                       from         cause             to, with a message that completes
 *                       |── late ────|── on its way ───|
 *   done at rank 1                   send, or post
 *
 * The message that completes last in a wait has ended it.  Its other side has done its part (a sender
 * has sent, a receiver has posted) at `cause`; until then the wait was for that rank: it is late.
 * If it was there before the wait began, the message was on its way, and nobody is.  A wait in which nothing
 * completes, as between two calls of MPI_Test, was for what the next one was for, if that was begun already.
 *
 * A message of a collective is often sent by a rank that has waited itself, in the same collective.  The
 * part of the wait in which that one has waited is charged to whom that one has waited for, and so on: to the
 * rank that came last.
 */
#include "trace_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"

#define DEPTH_MAX 64 /* ranks that wait for each other in turn */

/* A message has completed at a rank, by this event of its file. */
struct completion {
    uint32_t rank, message;
    uint64_t time, event;
    bool is_send;
};

struct explaining {
    struct job *job;
    struct completion *completions; /* by rank, then event */
    size_t count, charge_room;
    size_t *first_wait; /* of each rank, and behind the last one */
    uint32_t *worst;    /* of each wait: who is charged most; or JOB_NOBODY */
};

static int compare_completions(const void *a, const void *b)
{
    const struct completion *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->event > y->event) - (x->event < y->event);
}

static bool list_completions(struct explaining *x)
{
    const struct job *job = x->job;

    x->completions = mem_calloc(2 * job->message_count + 1, sizeof *x->completions);
    if (x->completions == NULL)
        return false;
    for (size_t i = 0; i < job->message_count; i++) {
        const struct job_message *m = &job->messages[i];
        uint64_t received = m->received != JOB_NEVER ? m->received : m->arrive;

        if (m->to != JOB_NOBODY && received != JOB_NEVER)
            x->completions[x->count++] =
                (struct completion){m->to, (uint32_t)i, received, m->received_event, false};
        if (m->from != JOB_NOBODY && m->sent != JOB_NEVER)
            x->completions[x->count++] =
                (struct completion){m->from, (uint32_t)i, m->sent, m->sent_event, true};
    }
    qsort(x->completions, x->count, sizeof *x->completions, compare_completions);
    return true;
}

/* What completed last in w; NULL: nothing. */
static const struct completion *ender_of(const struct explaining *x, const struct job_wait *w)
{
    size_t low = 0, high = x->count;

    while (low < high) { /* the first one behind w */
        size_t middle = low + (high - low) / 2;
        const struct completion *c = &x->completions[middle];

        if (c->rank < w->rank || (c->rank == w->rank && c->event < w->end_event))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || x->completions[low - 1].rank != w->rank ||
        x->completions[low - 1].time < w->from)
        return NULL;
    return &x->completions[low - 1];
}

/* ender: what has ended it; NULL: nothing. */
static void explain_one(struct explaining *x, size_t number, const struct completion *ender)
{
    struct job *job = x->job;
    struct job_wait *w = &job->waits[number];
    const struct job_message *m;
    uint64_t cause;

    x->worst[number] = JOB_NOBODY;
    if (ender == NULL)
        return;
    m = &job->messages[ender->message];
    w->message = ender->message;
    w->guilty = ender->is_send ? m->to : m->from;
    cause = ender->is_send ? m->post : m->send;
    if (cause == JOB_NEVER && !ender->is_send)
        cause = m->arrive; /* its sender's trace is not there */
    if (cause == JOB_NEVER)
        return;
    if (cause <= w->from) {
        w->kind = WAIT_TRANSFER;
        return;
    }
    w->late = min_size(cause, w->to) - w->from;
    w->kind = job_collective(job, m) != NULL ? WAIT_COLLECTIVE
              : ender->is_send               ? WAIT_LATE_RECEIVER
                                             : WAIT_LATE_SENDER;
}

/* Was it begun before w? */
static bool is_begun(const struct job *job, const struct completion *c,
                     const struct job_wait *w)
{
    const struct job_message *m = &job->messages[c->message];
    uint64_t begin = c->is_send ? m->send : m->post;

    return c->rank == w->rank && begin != JOB_NEVER && begin <= w->from;
}

/* From the last wait to the first. */
static void explain_all(struct explaining *x)
{
    const struct completion *next = NULL;

    for (size_t i = x->job->wait_count; i-- > 0;) {
        const struct job_wait *w = &x->job->waits[i];
        const struct completion *ender = ender_of(x, w);

        if (ender == NULL && next != NULL && is_begun(x->job, next, w))
            ender = next;
        explain_one(x, i, ender);
        next = ender;
    }
}

/* ---- charges ---- */

static bool charge(struct explaining *x, uint32_t wait, uint32_t guilty, uint64_t ns)
{
    struct job *job = x->job;

    if (ns == 0)
        return true;
    if (job->charge_count == x->charge_room) {
        size_t room = 2 * x->charge_room + 256;
        struct job_charge *more = mem_realloc(job->charges, room * sizeof *more);

        if (more == NULL)
            return false;
        job->charges = more;
        x->charge_room = room;
    }
    job->charges[job->charge_count++] = (struct job_charge){wait, guilty, ns};
    return true;
}

/* Are both of the same collective of the same communicator? */
static bool is_same_collective(const struct job *job, const struct job_wait *a,
                               const struct job_wait *b)
{
    const struct job_message *x = &job->messages[a->message], *y;

    if (b->message == JOB_NOBODY)
        return false;
    y = &job->messages[b->message];
    return x->context_id == y->context_id && x->tag == y->tag;
}

/* The first wait of that rank that ends behind this time. */
static size_t wait_behind(const struct explaining *x, uint32_t rank, uint64_t time)
{
    size_t low = x->first_wait[rank], high = x->first_wait[rank + 1];

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (x->job->waits[middle].to <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* [from, to) of wait `charged` was for what wait number `number` was for: its guilty rank, or, in a collective, those
 * whom that one has waited for. */
static bool charge_part(struct explaining *x, uint32_t charged, size_t number, uint64_t from,
                        uint64_t to, int depth)
{
    const struct job *job = x->job;
    const struct job_wait *w = &job->waits[number];
    uint64_t own = to - from;

    if (w->kind != WAIT_COLLECTIVE || w->guilty == JOB_NOBODY || depth == DEPTH_MAX)
        return charge(x, charged, w->guilty, own);
    for (size_t i = wait_behind(x, w->guilty, from);
         i < x->first_wait[w->guilty + 1] && job->waits[i].from < to; i++) {
        const struct job_wait *v = &job->waits[i];
        uint64_t begin = max_size(from, v->from), end = min_size(to, v->to);
        uint64_t late = min_size(end, v->from + v->late);

        if (!is_same_collective(job, w, v))
            continue;
        own -= end - begin;
        if (late > begin && !charge_part(x, charged, i, begin, late, depth + 1))
            return false;
    }
    return charge(x, charged, w->guilty, own);
}

static bool charge_all(struct explaining *x)
{
    struct job *job = x->job;

    for (size_t i = 0; i < job->wait_count; i++) {
        const struct job_wait *w = &job->waits[i];
        size_t first = job->charge_count;
        uint64_t most = 0;

        if (w->late != 0 && !charge_part(x, (uint32_t)i, i, w->from, w->from + w->late, 0))
            return false;
        for (size_t c = first; c < job->charge_count; c++) {
            if (job->charges[c].ns > most) {
                most = job->charges[c].ns;
                x->worst[i] = job->charges[c].guilty;
            }
        }
    }
    return true;
}

/* ---- blames ---- */

static int compare_blames(const void *a, const void *b)
{
    const struct job_blame *x = a, *y = b;

    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->guilty > y->guilty) - (x->guilty < y->guilty);
}

static bool fits(const struct job *job, const struct job_blame *blame, const struct job_wait *w,
                 uint32_t guilty)
{
    const struct job_message *x = &job->messages[blame->message],
                             *y = &job->messages[w->message];

    return blame->rank == w->rank && blame->guilty == guilty && blame->kind == w->kind &&
           (w->kind != WAIT_COLLECTIVE ||
            (x->context_id == y->context_id && x->tag == y->tag)) &&
           (guilty != JOB_NOBODY || x->peer == y->peer);
}

static bool blame_all(struct job *job)
{
    size_t room = 0, begin = 0;
    uint32_t last_wait = JOB_NOBODY, rank = JOB_NOBODY;

    for (size_t i = 0; i < job->charge_count; i++) { /* by rank, as waits are */
        const struct job_charge *c = &job->charges[i];
        const struct job_wait *w = &job->waits[c->wait];
        const struct job_message *m = &job->messages[w->message];
        size_t at;

        if (w->rank != rank)
            begin = job->blame_count;
        rank = w->rank;
        for (at = begin; at < job->blame_count && !fits(job, &job->blames[at], w, c->guilty);)
            at++;
        if (at == job->blame_count) {
            if (job->blame_count == room) {
                struct job_blame *more;

                room = 2 * room + 64;
                more = mem_realloc(job->blames, room * sizeof *more);
                if (more == NULL)
                    return false;
                job->blames = more;
            }
            job->blames[job->blame_count++] = (struct job_blame){
                .rank = w->rank, .guilty = c->guilty, .kind = w->kind, .message = w->message};
        }
        job->blames[at].ns += c->ns;
        job->blames[at].times += c->wait != last_wait;
        job->blames[at].has_others |=
            job->messages[job->blames[at].message].context_id != m->context_id ||
            job->messages[job->blames[at].message].tag != m->tag;
        last_wait = c->wait;
    }
    if (job->blame_count != 0)
        qsort(job->blames, job->blame_count, sizeof *job->blames, compare_blames);
    return true;
}

int job_explain(struct job *job)
{
    struct explaining x = {.job = job};
    bool is_done = false;

    x.first_wait = mem_calloc(job->rank_count + 1, sizeof *x.first_wait);
    x.worst = mem_calloc(job->wait_count + 1, sizeof *x.worst);
    if (x.first_wait != NULL && x.worst != NULL && list_completions(&x)) {
        for (size_t i = 0; i < job->wait_count; i++)
            x.first_wait[job->waits[i].rank + 1] = i + 1;
        explain_all(&x);
        for (size_t i = 0; i < job->rank_count; i++)
            x.first_wait[i + 1] = max_size(x.first_wait[i + 1], x.first_wait[i]);
        is_done = charge_all(&x) && blame_all(job);
        for (size_t i = 0; is_done && i < job->wait_count; i++)
            if (job->waits[i].late != 0)
                job->waits[i].guilty = x.worst[i];
    }
    mem_free(x.completions);
    mem_free(x.first_wait);
    mem_free(x.worst);
    return is_done ? 0 : -ENOMEM;
}

/* ---- as text ---- */

const char *job_wait_text(enum job_wait_kind kind)
{
    static const char *const names[WAIT_KINDS] = {
        [WAIT_LATE_SENDER] = "late sender", [WAIT_LATE_RECEIVER] = "late receiver",
        [WAIT_COLLECTIVE] = "came last",    [WAIT_TRANSFER] = "message on its way",
        [WAIT_UNKNOWN] = "not known",
    };

    return names[kind];
}

static uint64_t time_of(const struct job_rank *rank)
{
    return rank->last - rank->first;
}

bool job_is_worth(const struct job *job, const struct job_blame *blame)
{
    return blame->ns >= time_of(&job->ranks[blame->rank]) / 100 * JOB_WORTH;
}

const char *job_blame_text(const struct job *job, const struct job_blame *blame,
                           char text[JOB_BLAME_TEXT])
{
    const struct job_message *m = &job->messages[blame->message];
    char waiter[32], guilty[64], envelope[TRACE_ENVELOPE_TEXT];

    if (blame->guilty == JOB_NOBODY)
        snprintf(guilty, sizeof guilty, "its peer %" PRIu32 ", whose trace is not there",
                 m->peer);
    else
        job_rank_text(job, blame->guilty, guilty);
    snprintf(text, JOB_BLAME_TEXT, "%s waited %.3f of %.3f s for %s (%" PRIu64 " %s): %s, %s",
             job_rank_text(job, blame->rank, waiter), (double)blame->ns / 1e9,
             (double)time_of(&job->ranks[blame->rank]) / 1e9, guilty, blame->times,
             blame->times == 1 ? "time" : "times", job_wait_text(blame->kind),
             blame->has_others ? "several envelopes" : job_message_text(job, m, envelope));
    return text;
}

void job_print_waits(const struct job *job)
{
    char text[JOB_BLAME_TEXT], name[32];
    bool is_begun = false;

    for (size_t i = 0; i < job->rank_count; i++) {
        const struct job_rank *rank = &job->ranks[i];

        if (rank->waited == 0)
            continue;
        printf(is_begun ? "" : "\nwaits\n");
        is_begun = true;
        printf("%s waited %.3f of %.3f s\n", job_rank_text(job, (uint32_t)i, name),
               (double)rank->waited / 1e9, (double)time_of(rank) / 1e9);
    }
    for (size_t i = 0; i < job->blame_count; i++)
        if (job_is_worth(job, &job->blames[i]))
            printf("%s\n", job_blame_text(job, &job->blames[i], text));
}
