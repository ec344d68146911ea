/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_read.c - the events of a file become halves of messages, steps and waits.
 *
 *   send ... leave ... sent       a half of what this rank sends: leave gives it the number that sent has
 *   arrive, post ... received     a half of what arrives: by the number of its message, or of its receive
 *
 * A file may come from anybody: events that name something missing are left out.
 */
#include "trace_reading.h"

#include <stdio.h>

#include "base/array.h"
#include "base/base.h"
#include "trace_names.h"

/* ---- events ---- */

/* Finds the file of the peer of this event: by the address; by host and process, if this has one
 * file; by its rank, if it is recorded. */
static uint32_t find_peer(const struct job *job, const struct trace_event *e)
{
    uint32_t same = JOB_NOBODY, count = 0;

    for (uint32_t i = 0; i < job->rank_count; i++) {
        const struct trace_info *info = &job->ranks[i].info;

        if (!job->ranks[i].is_read || info->host != e->tag)
            continue;
        if (info->address == e->context_id)
            return i;
        if (info->pid == e->entry) {
            same = i;
            count++;
        }
    }
    if (count == 1)
        return same;
    for (uint32_t i = 0; e->partner != 0 && e->ignore == 0 && i < job->rank_count; i++)
        if (job->ranks[i].is_read && job->ranks[i].info.rank == e->partner - 1)
            return i;
    return JOB_NOBODY;
}

static bool read_peer(struct reading *r, const struct trace_event *e)
{
    uint32_t before = r->peer_count;

    if (!array_reserve(r->peers, r->peer_count, (uint64_t)e->source + 1))
        return false;
    while (before < r->peer_count)
        r->peers[before++] = JOB_NOBODY;
    r->peers[e->source] = find_peer(r->job, e);
    return true;
}

static uint32_t rank_of_peer(const struct reading *r, uint32_t number)
{
    return number < r->peer_count ? r->peers[number] : JOB_NOBODY;
}

/* A half that begins with e. */
static struct job_message *half_begin(struct job_message **halves, size_t *count,
                                      uint32_t *capacity, const struct trace_event *e)
{
    struct job_message *half;

    if (!array_reserve(*halves, *capacity, *count + 1))
        return NULL;
    half = &(*halves)[*count];
    *half = (struct job_message){
        .from = JOB_NOBODY,
        .to = JOB_NOBODY,
        .peer = e->source,
        .context_id = e->context_id,
        .tag = e->tag,
        .size = JOB_NEVER,
        .send = JOB_NEVER,
        .sent = JOB_NEVER,
        .arrive = JOB_NEVER,
        .post = JOB_NEVER,
        .received = JOB_NEVER,
        .order = *count,
        .protocol = -1,
    };
    (*count)++;
    return half;
}

static bool read_send(struct reading *r, const struct trace_event *e)
{
    struct job_message *half = half_begin(&r->sends, &r->send_count, &r->send_capacity, e);

    if (half == NULL)
        return false;
    half->from = r->rank;
    half->to = rank_of_peer(r, e->source);
    half->size = e->amount;
    half->n = e->entry;
    half->send = r->now;
    half->send_event = r->job->ranks[r->rank].events;
    r->last_send = (uint32_t)(r->send_count - 1);
    return true;
}

/* The send that was begun last, if it is this one. */
static struct job_message *last_send(struct reading *r, uint32_t peer, uint64_t n)
{
    struct job_message *half = r->last_send != JOB_NOBODY ? &r->sends[r->last_send] : NULL;

    return half != NULL && half->peer == peer && half->n == n ? half : NULL;
}

static bool read_leave(struct reading *r, const struct trace_event *e)
{
    return last_send(r, e->source, e->entry) == NULL ||
           names_put(&r->names, NAME_SEND, e->partner, r->last_send);
}

static void read_sent(struct reading *r, const struct trace_event *e)
{
    uint32_t number = e->entry != 0 ? names_find(&r->names, NAME_SEND, e->entry) : JOB_NOBODY;
    struct job_message *half = e->entry == 0          ? last_send(r, e->source, e->partner)
                               : number != JOB_NOBODY ? &r->sends[number]
                                                      : NULL;

    if (half == NULL)
        return;
    half->sent = r->now;
    half->sent_event = r->job->ranks[r->rank].events;
    half->protocol = (int8_t)min_size((size_t)((e->amount & 0xff) - 1), INT8_MAX);
    half->error = (int)min_size(e->amount >> 8, INT32_MAX);
}

/* Receive number id has met this half. */
static void meet(struct reading *r, uint64_t id, uint32_t half, uint64_t time)
{
    uint32_t post = names_find(&r->names, NAME_RECEIVE, id);

    if (post != JOB_NOBODY) {
        r->posts[post].half = half;
        r->arrivals[half].post = r->posts[post].time;
        r->arrivals[half].post_event = r->posts[post].event;
    } else {
        r->arrivals[half].post = time;
        r->arrivals[half].post_event = r->job->ranks[r->rank].events;
    }
}

static bool add_post(struct reading *r, uint64_t id, uint32_t half)
{
    if (!array_reserve(r->posts, r->post_capacity, r->post_count + 1))
        return false;
    r->posts[r->post_count] = (struct post){
        .time = r->now, .event = r->job->ranks[r->rank].events, .half = JOB_NOBODY};
    if (!names_put(&r->names, NAME_RECEIVE, id, (uint32_t)r->post_count++))
        return false;
    if (half != JOB_NOBODY)
        meet(r, id, half, r->now);
    return true;
}

static bool read_post(struct reading *r, const struct trace_event *e)
{
    uint32_t half =
        e->partner != 0 ? names_find(&r->names, NAME_MESSAGE, e->partner) : JOB_NOBODY;

    if (e->partner == 0)
        r->posted++;
    else
        r->unexpected -= r->unexpected != 0;
    return add_post(r, e->entry, half);
}

static bool read_arrive(struct reading *r, const struct trace_event *e)
{
    struct job_message *half =
        half_begin(&r->arrivals, &r->arrival_count, &r->arrival_capacity, e);
    uint32_t number = (uint32_t)(r->arrival_count - 1);

    if (half == NULL)
        return false;
    half->to = r->rank;
    half->from = rank_of_peer(r, e->source);
    half->arrive = r->now;
    half->arrive_event = half->received_event = r->job->ranks[r->rank].events;
    half->is_unexpected = e->partner == 0;
    if (e->partner != 0) {
        r->posted -= r->posted != 0;
        meet(r, e->partner, number, r->now);
        return true;
    }
    r->unexpected++;
    return names_put(&r->names, NAME_MESSAGE, e->entry, number);
}

static bool read_take(struct reading *r, const struct trace_event *e)
{
    uint32_t half = names_find(&r->names, NAME_MESSAGE, e->entry);

    if (half == JOB_NOBODY)
        return true;
    if (e->type == TRACE_TAKE)
        return add_post(r, e->partner, half);
    r->arrivals[half].post = r->arrivals[half].received = r->now;
    return true;
}

static void read_received(struct reading *r, const struct trace_event *e)
{
    uint32_t post = names_find(&r->names, NAME_RECEIVE, e->entry);
    struct job_message *half;

    if (post == JOB_NOBODY || r->posts[post].half == JOB_NOBODY)
        return;
    half = &r->arrivals[r->posts[post].half];
    half->received = r->now;
    half->received_event = r->job->ranks[r->rank].events;
    half->size = e->amount;
    half->error = (int)min_size(e->partner, INT32_MAX);
}

static bool read_wait(struct reading *r, const struct trace_event *e)
{
    struct job *job = r->job;

    if (e->type == TRACE_WAIT) {
        uint64_t length = min_size(e->amount, r->now);

        if (!array_reserve(job->waits, r->wait_capacity, job->wait_count + 1))
            return false;
        r->open_wait = (uint32_t)job->wait_count;
        job->waits[job->wait_count++] =
            (struct job_wait){.rank = r->rank,
                              .from = max_size(r->now - length, r->waited),
                              .to = r->now,
                              .is_open = true,
                              .kind = WAIT_UNKNOWN,
                              .guilty = JOB_NOBODY,
                              .message = JOB_NOBODY,
                              .place = JOB_NOBODY};
        r->waited = r->now;
        return true;
    }
    if (r->open_wait == JOB_NOBODY)
        return true;
    job->waits[r->open_wait].is_open = false;
    job->waits[r->open_wait].end_event = job->ranks[r->rank].events;
    job->waits[r->open_wait].to =
        max_size(job->waits[r->open_wait].from, r->now - min_size(e->partner, r->now));
    r->waited = job->waits[r->open_wait].to;
    r->open_wait = JOB_NOBODY;
    return true;
}

static bool read_place(struct reading *r, const struct trace_event *e)
{
    struct job *job = r->job;
    struct job_place *place = job->place_count != 0 ? &job->places[job->place_count - 1] : NULL;

    if (e->tag >> 32 == 0) {
        if (job->place_count - r->first_place >= TRACE_PLACES_MAX)
            return true; /* no recorder names so many */
        if (!array_reserve(job->places, r->place_capacity, job->place_count + 1))
            return false;
        place = &job->places[job->place_count++];
        *place = (struct job_place){.rank = r->rank, .number = e->context_id};
    }
    if (place != NULL && place->rank == r->rank && place->number == e->context_id)
        trace_text_add(place->text, sizeof place->text, e);
    return true;
}

/* The index of a place that this file has named; or JOB_NOBODY. */
static uint32_t find_place(const struct reading *r, uint64_t number)
{
    for (size_t i = r->job->place_count; i-- > 0 && r->job->places[i].rank == r->rank;)
        if (r->job->places[i].number == number)
            return (uint32_t)i;
    return JOB_NOBODY;
}

static bool read_at(struct reading *r, const struct trace_event *e)
{
    struct job *job = r->job;
    uint32_t place = find_place(r, e->entry);

    if (place == JOB_NOBODY)
        return true;
    if (e->partner == TRACE_AT_CALL)
        return true; /* for mbx races */
    if (e->partner == TRACE_AT_WAIT) {
        if (r->open_wait != JOB_NOBODY)
            job->waits[r->open_wait].place = place;
        return true;
    }
    if (!array_reserve(job->comes, r->come_capacity, job->come_count + 1))
        return false;
    job->comes[job->come_count++] =
        (struct job_come){.rank = r->rank, .place = place, .time = r->acted};
    return true;
}

/* Steps are of a send of ours, or of a receive that meets its message later. */
static bool read_step(struct reading *r, const struct trace_event *e)
{
    struct job *job = r->job;
    bool is_send = e->type == TRACE_RTS || e->type == TRACE_DATA || e->type == TRACE_MATCH ||
                   e->type == TRACE_LOCK || e->type == TRACE_GRANT || e->type == TRACE_LOST ||
                   e->type == TRACE_PULLED || e->type == TRACE_WRITE;
    uint32_t number = names_find(&r->names, is_send ? NAME_SEND : NAME_RECEIVE, e->entry);

    if (!array_reserve(job->steps, r->step_capacity, job->step_count + 1))
        return false;
    job->steps[job->step_count++] = (struct job_step){
        .rank = r->rank,
        .message = JOB_NOBODY,
        .type = e->type,
        .time = r->now,
        .event = r->job->ranks[r->rank].events,
        .amount = trace_is_travel(e->type) ? e->amount : 0,
        /* the half, once all messages are known: posts are resolved when the file ends */
        .key = (uint64_t)is_send << 63 | number,
    };
    return true;
}

static bool read_depths(struct reading *r)
{
    if (!array_reserve(r->changes, r->change_capacity, r->change_count + 1))
        return false;
    r->changes[r->change_count++] = (struct depth_change){
        .time = r->now, .rank = r->rank, .posted = r->posted, .unexpected = r->unexpected};
    return true;
}

/* Somebody else reads it; where ranks and places are is known here. */
static bool pass_on(struct reading *r, const struct trace_event *e)
{
    if (e->type == TRACE_PEER)
        return read_peer(r, e);
    if (e->type == TRACE_PLACE)
        return read_place(r, e);
    return r->each(r->arg, r->rank, r->job->ranks[r->rank].events, rank_of_peer(r, e->source),
                   e);
}

static bool read_event(struct reading *r, const struct trace_event *e)
{
    if (r->each != NULL)
        return pass_on(r, e);
    switch ((unsigned)e->type) {
    case TRACE_PEER:
        return read_peer(r, e);
    case TRACE_PLACE:
        return read_place(r, e);
    case TRACE_AT:
        return read_at(r, e);
    case TRACE_SEND:
        r->acted = r->now;
        return read_send(r, e);
    case TRACE_LEAVE:
        return read_leave(r, e);
    case TRACE_SENT:
        read_sent(r, e);
        return true;
    case TRACE_POST:
        r->acted = r->now;
        return read_post(r, e) && read_depths(r);
    case TRACE_ARRIVE:
        return read_arrive(r, e) && read_depths(r);
    case TRACE_CANCEL:
        r->posted -= r->posted != 0;
        return read_depths(r);
    case TRACE_CLAIM:
        r->unexpected -= r->unexpected != 0;
        return read_depths(r);
    case TRACE_TAKE:
    case TRACE_DISCARD:
        return read_take(r, e);
    case TRACE_DROP:
        r->unexpected -= r->unexpected != 0;
        return read_take(r, e) && read_depths(r);
    case TRACE_RECEIVED:
        read_received(r, e);
        return true;
    case TRACE_WAIT:
    case TRACE_WAITED:
        return read_wait(r, e);
    case TRACE_RTS:
    case TRACE_DATA:
    case TRACE_CTS:
    case TRACE_READ:
    case TRACE_SHARE:
    case TRACE_FIN:
    case TRACE_HAND:
    case TRACE_RTR:
    case TRACE_MATCH:
    case TRACE_LOCK:
    case TRACE_GRANT:
    case TRACE_LOST:
    case TRACE_PULL:
    case TRACE_PULLED:
    case TRACE_ADVERTISE:
    case TRACE_WRITE:
        return read_step(r, e);
    default:
        return true;
    }
}

/* The steps of a file know their halves: [first, end). */
static void resolve_steps(struct reading *r, size_t first)
{
    for (size_t i = first; i < r->job->step_count; i++) {
        struct job_step *step = &r->job->steps[i];
        uint32_t number = (uint32_t)step->key;

        if (number != JOB_NOBODY && !(step->key >> 63))
            step->key = r->posts[number].half;
    }
}

/* Resets the values that belong to one file. */
static void forget_file(struct reading *r)
{
    r->last_send = r->open_wait = JOB_NOBODY;
    r->posted = r->unexpected = 0;
    r->post_count = 0;
    r->first_place = r->job->place_count;
    for (uint32_t i = 0; i < r->peer_count; i++)
        r->peers[i] = JOB_NOBODY;
    hash_fini(&r->names);
}

bool read_events(struct reading *r, struct trace_reader *reader)
{
    struct job_rank *rank = &r->job->ranks[r->rank];
    size_t first_step = r->job->step_count;
    struct trace_event event;
    int result;

    r->now = min_size(reader->info.start_ns, JOB_TIME_MAX);
    rank->first = rank->last = r->waited = r->acted = r->now;
    forget_file(r);
    while ((result = trace_next(reader, &event)) == 1) {
        r->now += min_size(event.delta_ns, JOB_TIME_MAX - r->now);
        if (rank->events == 0)
            rank->first = r->waited = r->now;
        rank->events++;
        rank->last = r->now;
        if (trace_words_event(&rank->words, &event) < 0 || !read_event(r, &event))
            return false;
    }
    if (result < 0)
        snprintf(rank->error, sizeof rank->error, "%s", reader->error);
    if (r->open_wait != JOB_NOBODY) {
        r->job->waits[r->open_wait].to = rank->last;
        r->job->waits[r->open_wait].end_event = rank->events + 1;
    }
    resolve_steps(r, first_step);
    r->job->events += rank->events;
    return true;
}
