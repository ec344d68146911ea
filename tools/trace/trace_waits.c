/* SPDX-License-Identifier: BSD-3-Clause */
/* Late sender, late receiver: in a trace: a wait for a message that is not sent yet,
 * or for a receive that is not posted yet */
/*
 * trace_waits.c - for which messages the ranks of a job waited, and which rank was late.
 *
 *   waits at rank 0     |──────────── wait ────────────|
 *                       from         cause             to, with a message that completes
 *                       |── late ────|── on its way ───|
 *   done at rank 1                   send, or post
 *
 * The message that completes last in a wait has ended it.  Its other side has done its part (a
 * sender has sent, a receiver has posted) at `cause`; until then the wait was for that rank: it
 * is late.  If it had done its part before the wait began, the message was on its way, and nobody
 * is late.  A wait in which nothing completes was for the operation that completes next, if this
 * was begun before the wait, and if the rank begins nothing before it completes: data that are
 * copied in a round of progress end the wait before the message is complete.  Any other wait, as
 * between two calls of MPI_Test, was for the same operation as the next wait, if this was begun.
 *
 * A message of a collective is often sent by a rank that has itself waited in the same collective.
 * The part of the wait in which the sender waited is charged to the rank for which the sender
 * waited, and so on: in the end to the rank that came last.
 */
#include "trace_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/base.h"
#include "base/mem.h"

#define DEPTH_MAX 64 /* ranks that wait for each other in turn */

/* A message has completed at a rank, or its send or receive was begun there, by this event
 * of its file. */
struct completion {
    uint32_t rank, message;
    uint64_t time, event;
    bool is_send, is_begin;
};

struct explaining {
    struct job *job;
    struct completion *completions; /* and what was begun; by rank, then event */
    size_t count;
    uint32_t charge_capacity;
    size_t *first_wait; /* of each rank, and one more: the end */
    uint32_t *worst;    /* of each wait: who is charged most; or JOB_NOBODY */
};

static int compare_completions(const void *a, const void *b)
{
    const struct completion *x = a, *y = b;

    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->event != y->event)
        return x->event < y->event ? -1 : 1;
    return x->is_begin - y->is_begin;
}

static bool list_completions(struct explaining *x)
{
    const struct job *job = x->job;

    x->completions = mem_calloc(4 * job->message_count + 1, sizeof *x->completions);
    if (x->completions == NULL)
        return false;
    for (size_t i = 0; i < job->message_count; i++) {
        const struct job_message *m = &job->messages[i];
        uint64_t received = m->received != JOB_NEVER ? m->received : m->arrive;

        if (m->to != JOB_NOBODY && received != JOB_NEVER)
            x->completions[x->count++] = (struct completion){
                m->to, (uint32_t)i, received, m->received_event, false, false};
        if (m->from != JOB_NOBODY && m->sent != JOB_NEVER)
            x->completions[x->count++] =
                (struct completion){m->from, (uint32_t)i, m->sent, m->sent_event, true, false};
        if (m->to != JOB_NOBODY && m->post != JOB_NEVER)
            x->completions[x->count++] =
                (struct completion){m->to, (uint32_t)i, m->post, m->post_event, false, true};
        if (m->from != JOB_NOBODY && m->send != JOB_NEVER)
            x->completions[x->count++] =
                (struct completion){m->from, (uint32_t)i, m->send, m->send_event, true, true};
    }
    qsort(x->completions, x->count, sizeof *x->completions, compare_completions);
    return true;
}

/* The first entry of the list after w, of any rank. */
static size_t behind(const struct explaining *x, const struct job_wait *w)
{
    size_t low = 0, high = x->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct completion *c = &x->completions[middle];

        if (c->rank < w->rank || (c->rank == w->rank && c->event < w->end_event))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The last completion in w, or NULL. */
static const struct completion *ender_of(const struct explaining *x, const struct job_wait *w)
{
    for (size_t i = behind(x, w); i-- > 0;) {
        const struct completion *c = &x->completions[i];

        if (c->rank != w->rank || c->time < w->from)
            return NULL;
        if (!c->is_begin)
            return c;
    }
    return NULL;
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

/* The next completion after w, if the rank begins nothing before it, and if its operation was
 * begun before w; or NULL. */
static const struct completion *next_behind(const struct explaining *x,
                                            const struct job_wait *w)
{
    size_t i = behind(x, w);
    const struct completion *c = i < x->count ? &x->completions[i] : NULL;

    return c != NULL && !c->is_begin && is_begun(x->job, c, w) ? c : NULL;
}

/* From the last wait to the first. */
static void explain_all(struct explaining *x)
{
    const struct completion *next = NULL;

    for (size_t i = x->job->wait_count; i-- > 0;) {
        const struct job_wait *w = &x->job->waits[i];
        const struct completion *ender = ender_of(x, w);

        if (ender == NULL)
            ender = next_behind(x, w);
        if (ender == NULL && next != NULL && is_begun(x->job, next, w))
            ender = next;
        explain_one(x, i, ender);
        next = ender;
    }
}

/* ---- charges ---- */

static bool charge(struct explaining *x, uint32_t wait, uint32_t guilty, uint64_t ns,
                   uint64_t until)
{
    struct job *job = x->job;

    if (ns == 0)
        return true;
    if (!array_reserve(job->charges, x->charge_capacity, job->charge_count + 1))
        return false;
    job->charges[job->charge_count++] = (struct job_charge){wait, guilty, ns, until};
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

/* The first wait of this rank that ends after this time. */
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
        return charge(x, charged, w->guilty, own, to);
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
    return charge(x, charged, w->guilty, own, to);
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

/* Where the guilty rank came back to MPI last, after `from` and until `to`; JOB_NOBODY: the
 * traces do not tell. */
static uint32_t came_at(const struct job *job, uint32_t guilty, uint64_t from, uint64_t to)
{
    size_t low = 0, high = job->come_count;

    while (low < high) { /* the first one after `to` */
        size_t middle = low + (high - low) / 2;
        const struct job_come *c = &job->comes[middle];

        if (c->rank < guilty || (c->rank == guilty && c->time <= to))
            low = middle + 1;
        else
            high = middle;
    }
    return low != 0 && job->comes[low - 1].rank == guilty && job->comes[low - 1].time > from
               ? job->comes[low - 1].place
               : JOB_NOBODY;
}

static void blame_places(const struct job *job, struct job_blame *blame,
                         const struct job_charge *c)
{
    const struct job_wait *w = &job->waits[c->wait];
    uint32_t came = came_at(job, c->guilty, w->from, c->until);

    if (w->place != JOB_NOBODY && c->ns > blame->place_ns) {
        blame->place = w->place;
        blame->place_ns = c->ns;
    }
    if (came != JOB_NOBODY && c->ns > blame->came_ns) {
        blame->came = came;
        blame->came_ns = c->ns;
    }
}

static bool blame_all(struct job *job)
{
    uint32_t capacity = 0;
    size_t begin = 0;
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
            if (!array_reserve(job->blames, capacity, job->blame_count + 1))
                return false;
            job->blames[job->blame_count++] = (struct job_blame){.rank = w->rank,
                                                                 .guilty = c->guilty,
                                                                 .kind = w->kind,
                                                                 .message = w->message,
                                                                 .place = JOB_NOBODY,
                                                                 .came = JOB_NOBODY};
        }
        blame_places(job, &job->blames[at], c);
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

const char *(*job_line_of)(const char *path, uint64_t at, char *words);

/* Was the file written after that rank's trace was begun?  Then its lines may be others now. */
static bool is_newer(const char *path, const struct trace_info *info)
{
    struct stat status;

    return stat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
           (info->wall_ns != 0 && (uint64_t)status.st_mtime > info->wall_ns / 1000000000);
}

const char *job_place_text(const struct job *job, uint32_t place, char text[JOB_PLACE_TEXT])
{
    char call[64], line[JOB_PLACE_TEXT], *behind;
    const char *said, *found = NULL;
    uint64_t address;

    if (place >= job->place_count)
        return NULL;
    said = job->places[place].text;
    if (sscanf(said, "%63s", call) != 1)
        return NULL;
    address = strtoull(said + strlen(call), &behind, 16);
    if (job_line_of != NULL && behind[0] == ' ' && behind[1] == '/' &&
        !is_newer(behind + 1, &job->ranks[job->places[place].rank].info))
        found = job_line_of(behind + 1, address, line);
    snprintf(text, JOB_PLACE_TEXT, "%s%s%.128s", call, found != NULL ? " at " : "",
             found != NULL ? found : "");
    return text;
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
    char waiter[32], guilty[64], envelope[TRACE_ENVELOPE_TEXT], place[JOB_PLACE_TEXT];
    int used;

    if (blame->guilty == JOB_NOBODY)
        snprintf(guilty, sizeof guilty, "its peer %" PRIu32 ", whose trace is not there",
                 m->peer);
    else
        job_rank_text(job, blame->guilty, guilty);
    used = snprintf(
        text, JOB_BLAME_TEXT, "%s waited %.3f of %.3f s for %s (%" PRIu64 " %s): %s, %s",
        job_rank_text(job, blame->rank, waiter), (double)blame->ns / 1e9,
        (double)time_of(&job->ranks[blame->rank]) / 1e9, guilty, blame->times,
        blame->times == 1 ? "time" : "times", job_wait_text(blame->kind),
        blame->has_others ? "several envelopes" : job_message_text(job, m, envelope));
    if (job_place_text(job, blame->place, place) != NULL)
        used += snprintf(text + used, JOB_BLAME_TEXT - (size_t)used, ", in %s", place);
    if (job_place_text(job, blame->came, place) != NULL)
        snprintf(text + used, JOB_BLAME_TEXT - (size_t)used, "; %s came by %s", guilty, place);
    return text;
}

static void print_clocks(const struct job *job)
{
    bool is_begun = false;
    char name[32];

    for (size_t i = 0; i < job->rank_count; i++) {
        const struct job_rank *rank = &job->ranks[i];

        if (!rank->is_read || !rank->has_own_clock)
            continue;
        printf(is_begun ? "" : "\nclocks\n");
        is_begun = true;
        printf("%s is on another host: ", job_rank_text(job, (uint32_t)i, name));
        if (rank->slack != 0)
            printf("its times may be wrong by %.3f us\n", (double)rank->slack / 1e3);
        else
            printf("how wrong its times may be is not known, because no messages went both "
                   "ways\n");
    }
}

void job_print_waits(const struct job *job)
{
    char text[JOB_BLAME_TEXT], name[32];
    bool is_begun = false;

    print_clocks(job);
    for (size_t i = 0; i < job->rank_count; i++) {
        const struct job_rank *rank = &job->ranks[i];

        if (rank->waited == 0)
            continue;
        printf(is_begun ? "" : "\nwaits\n");
        is_begun = true;
        printf("%s waited %.3f of %.3f s\n", job_rank_text(job, (uint32_t)i, name),
               (double)rank->waited / 1e9, (double)time_of(rank) / 1e9);
    }
    if (!is_begun)
        printf("\nno rank waited\n");
    for (size_t i = 0; i < job->blame_count; i++)
        if (job_is_worth(job, &job->blames[i]))
            printf("%s\n", job_blame_text(job, &job->blames[i], text));
}
