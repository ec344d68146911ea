/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace_job.c - files are read, and halves of messages become messages.
 *
 * Each file gives halves: what it has sent, what has arrived.  Both are sorted by {from, to, context id,
 * tag} and then by their order in the file, and joined one by one.  What one file alone has, for the
 * other one is not there or ends before, stays a half.
 *
 * Files are what others wrote: whatever they name that is not there is left out.
 */
#include "trace_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"

/* ---- arrays that grow ---- */

static bool grow(void **array, size_t count, size_t *room, size_t size)
{
    size_t more = *room == 0 ? 256 : 2 * *room;
    void *grown;

    if (count < *room)
        return true;
    grown = mem_realloc(*array, more * size);
    if (grown == NULL)
        return false;
    *array = grown;
    *room = more;
    return true;
}

/* ---- names in a file: of receives, messages, sends ---- */

enum name_kind { NAME_SEND = 1, NAME_RECV, NAME_MESSAGE };

struct name {
    uint64_t id;
    uint32_t kind; /* 0: free */
    uint32_t half;
};

struct names {
    struct name *slots;
    size_t count, room; /* room: a power of two, or 0 */
};

static struct name *names_slot(const struct names *names, enum name_kind kind, uint64_t id)
{
    uint64_t hash = (id ^ (uint64_t)kind << 60) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 20) & (names->room - 1);

    while (names->slots[at].kind != 0 &&
           (names->slots[at].kind != kind || names->slots[at].id != id))
        at = (at + 1) & (names->room - 1);
    return &names->slots[at];
}

/* JOB_NOBODY: there is none. */
static uint32_t names_find(const struct names *names, enum name_kind kind, uint64_t id)
{
    const struct name *slot = names->room != 0 ? names_slot(names, kind, id) : NULL;

    return slot != NULL && slot->kind != 0 ? slot->half : JOB_NOBODY;
}

static bool names_put(struct names *names, enum name_kind kind, uint64_t id, uint32_t half)
{
    struct name *slot;

    if (2 * names->count >= names->room) {
        struct names more = {.room = names->room == 0 ? 1024 : 2 * names->room};

        more.slots = mem_calloc(more.room, sizeof *more.slots);
        if (more.slots == NULL)
            return false;
        for (size_t i = 0; i < names->room; i++)
            if (names->slots[i].kind != 0)
                *names_slot(&more, names->slots[i].kind, names->slots[i].id) = names->slots[i];
        more.count = names->count;
        mem_free(names->slots);
        *names = more;
    }
    slot = names_slot(names, kind, id);
    names->count += slot->kind == 0;
    *slot = (struct name){.id = id, .kind = kind, .half = half};
    return true;
}

/* ---- reading ---- */

/* A posted receive: when. */
struct post {
    uint64_t time, event;
    uint32_t half; /* the message that it has met; or JOB_NOBODY */
};

struct depth_change {
    uint64_t time;
    uint32_t rank, posted, unexpected;
};

struct reading {
    struct job *job;
    /* of all files */
    struct job_message *sends, *arrivals;
    size_t send_count, send_room, arrival_count, arrival_room, wait_room, step_room;
    struct depth_change *changes;
    size_t change_count, change_room;
    uint32_t **peers; /* of each file: the rank index of each peer number */
    uint32_t *peer_counts;
    /* of the one that is read */
    uint32_t rank;
    uint64_t now;
    struct names names;
    struct post *posts;
    size_t post_count, post_room;
    uint32_t last_send, open_wait;
    uint32_t posted, unexpected;
};

/* Which file is that of the peer of this event?  By the address; by host and process, if that has one
 * file; by its rank, if it is said. */
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
    uint32_t count = r->peer_counts[r->rank];

    if (e->source >= count) {
        uint32_t more = (uint32_t)max_size(2 * (size_t)count, (size_t)e->source + 8);
        uint32_t *grown = mem_realloc(r->peers[r->rank], more * sizeof *grown);

        if (grown == NULL)
            return false;
        for (uint32_t i = count; i < more; i++)
            grown[i] = JOB_NOBODY;
        r->peers[r->rank] = grown;
        r->peer_counts[r->rank] = more;
    }
    r->peers[r->rank][e->source] = find_peer(r->job, e);
    return true;
}

static uint32_t rank_of_peer(const struct reading *r, uint32_t number)
{
    return number < r->peer_counts[r->rank] ? r->peers[r->rank][number] : JOB_NOBODY;
}

/* A half that begins with e. */
static struct job_message *half_begin(struct job_message **halves, size_t *count, size_t *room,
                                      const struct trace_event *e)
{
    struct job_message *half;

    if (!grow((void **)halves, *count, room, sizeof **halves))
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
    struct job_message *half = half_begin(&r->sends, &r->send_count, &r->send_room, e);

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
    uint32_t post = names_find(&r->names, NAME_RECV, id);

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
    if (!grow((void **)&r->posts, r->post_count, &r->post_room, sizeof *r->posts))
        return false;
    r->posts[r->post_count] = (struct post){
        .time = r->now, .event = r->job->ranks[r->rank].events, .half = JOB_NOBODY};
    if (!names_put(&r->names, NAME_RECV, id, (uint32_t)r->post_count++))
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
    struct job_message *half = half_begin(&r->arrivals, &r->arrival_count, &r->arrival_room, e);
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
    uint32_t post = names_find(&r->names, NAME_RECV, e->entry);
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
    uint64_t length = min_size(e->amount, r->now);

    if (e->type == TRACE_WAIT) {
        if (!grow((void **)&job->waits, job->wait_count, &r->wait_room, sizeof *job->waits))
            return false;
        r->open_wait = (uint32_t)job->wait_count;
        job->waits[job->wait_count++] = (struct job_wait){.rank = r->rank,
                                                          .from = r->now - length,
                                                          .to = r->now,
                                                          .is_open = true,
                                                          .kind = WAIT_UNKNOWN,
                                                          .guilty = JOB_NOBODY,
                                                          .message = JOB_NOBODY};
        return true;
    }
    if (r->open_wait == JOB_NOBODY)
        return true;
    job->waits[r->open_wait].is_open = false;
    job->waits[r->open_wait].end_event = job->ranks[r->rank].events;
    job->waits[r->open_wait].to =
        max_size(job->waits[r->open_wait].from, r->now - min_size(e->partner, r->now));
    r->open_wait = JOB_NOBODY;
    return true;
}

/* Steps are of a send of ours, or of a receive that meets its message later. */
static bool read_step(struct reading *r, const struct trace_event *e)
{
    struct job *job = r->job;
    bool is_send = e->type == TRACE_RTS || e->type == TRACE_DATA || e->type == TRACE_MATCH ||
                   e->type == TRACE_LOCK || e->type == TRACE_GRANT || e->type == TRACE_LOST ||
                   e->type == TRACE_PULLED || e->type == TRACE_WRITE;
    uint32_t number = names_find(&r->names, is_send ? NAME_SEND : NAME_RECV, e->entry);

    if (!grow((void **)&job->steps, job->step_count, &r->step_room, sizeof *job->steps))
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
    if (!grow((void **)&r->changes, r->change_count, &r->change_room, sizeof *r->changes))
        return false;
    r->changes[r->change_count++] = (struct depth_change){
        .time = r->now, .rank = r->rank, .posted = r->posted, .unexpected = r->unexpected};
    return true;
}

static bool read_event(struct reading *r, const struct trace_event *e)
{
    switch ((unsigned)e->type) {
    case TRACE_PEER:
        return read_peer(r, e);
    case TRACE_SEND:
        return read_send(r, e);
    case TRACE_LEAVE:
        return read_leave(r, e);
    case TRACE_SENT:
        read_sent(r, e);
        return true;
    case TRACE_POST:
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
    case TRACE_ANNOUNCE:
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

static bool read_events(struct reading *r, struct trace_reader *reader)
{
    struct job_rank *rank = &r->job->ranks[r->rank];
    size_t first_step = r->job->step_count;
    struct trace_event event;
    int result;

    r->now = reader->info.start_ns;
    rank->first = rank->last = r->now;
    r->last_send = r->open_wait = JOB_NOBODY;
    r->posted = r->unexpected = 0;
    r->post_count = 0;
    r->names.count = 0;
    if (r->names.room != 0)
        memset(r->names.slots, 0, r->names.room * sizeof *r->names.slots);
    while ((result = trace_next(reader, &event)) == 1) {
        r->now += event.delta_ns;
        if (rank->events == 0)
            rank->first = r->now;
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

/* ---- clocks ---- */

static void shift_time(uint64_t *time, int64_t shift)
{
    if (*time != JOB_NEVER)
        *time += (uint64_t)shift;
}

/* Adds what the ranks' clocks are shifted by to all times. */
static void shift_all(struct reading *r)
{
    struct job *job = r->job;

    for (size_t i = 0; i < r->send_count; i++) {
        shift_time(&r->sends[i].send, job->ranks[r->sends[i].from].shift);
        shift_time(&r->sends[i].sent, job->ranks[r->sends[i].from].shift);
    }
    for (size_t i = 0; i < r->arrival_count; i++) {
        int64_t shift = job->ranks[r->arrivals[i].to].shift;

        shift_time(&r->arrivals[i].arrive, shift);
        shift_time(&r->arrivals[i].post, shift);
        shift_time(&r->arrivals[i].received, shift);
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

/* ---- halves become messages ---- */

static int compare_halves(const void *a, const void *b)
{
    const struct job_message *x = a, *y = b;

    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->context_id != y->context_id)
        return x->context_id < y->context_id ? -1 : 1;
    if (x->tag != y->tag)
        return x->tag < y->tag ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int compare_envelopes(const struct job_message *x, const struct job_message *y)
{
    struct job_message same = *y;

    same.order = x->order;
    return compare_halves(x, &same);
}

static bool join(struct reading *r)
{
    struct job *job = r->job;
    uint32_t *of_send = mem_calloc(r->send_count + 1, sizeof *of_send);
    uint32_t *of_arrival = mem_calloc(r->arrival_count + 1, sizeof *of_arrival);
    size_t s = 0, a = 0;

    job->messages = mem_calloc(r->send_count + r->arrival_count + 1, sizeof *job->messages);
    if (of_send == NULL || of_arrival == NULL || job->messages == NULL) {
        mem_free(of_send);
        mem_free(of_arrival);
        return false;
    }
    if (r->send_count != 0)
        qsort(r->sends, r->send_count, sizeof *r->sends, compare_halves);
    if (r->arrival_count != 0)
        qsort(r->arrivals, r->arrival_count, sizeof *r->arrivals, compare_halves);
    while (s < r->send_count || a < r->arrival_count) {
        int order = s == r->send_count      ? 1
                    : a == r->arrival_count ? -1
                                            : compare_envelopes(&r->sends[s], &r->arrivals[a]);
        struct job_message *m = &job->messages[job->message_count];

        if (order == 0 && (r->sends[s].to == JOB_NOBODY || r->sends[s].from == JOB_NOBODY))
            order = -1;
        *m = order <= 0 ? r->sends[s] : r->arrivals[a];
        if (order == 0) {
            m->arrive = r->arrivals[a].arrive;
            m->post = r->arrivals[a].post;
            m->arrive_event = r->arrivals[a].arrive_event;
            m->post_event = r->arrivals[a].post_event;
            m->received = r->arrivals[a].received;
            m->received_event = r->arrivals[a].received_event;
            m->is_unexpected = r->arrivals[a].is_unexpected;
            if (m->error == 0)
                m->error = r->arrivals[a].error;
        }
        if (order <= 0)
            of_send[r->sends[s++].order] = (uint32_t)job->message_count;
        if (order >= 0)
            of_arrival[r->arrivals[a++].order] = (uint32_t)job->message_count;
        m->order = job->message_count++;
    }
    for (size_t i = 0; i < job->step_count; i++) {
        struct job_step *step = &job->steps[i];
        uint32_t half = (uint32_t)step->key;

        if (half != JOB_NOBODY)
            step->message = step->key >> 63 ? of_send[half] : of_arrival[half];
    }
    mem_free(of_send);
    mem_free(of_arrival);
    return true;
}

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

static void begin_at_zero(struct reading *r)
{
    struct job *job = r->job;
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

/* ---- all of it ---- */

/* By rank; those of which nobody said one, by process and endpoint. */
static int compare_ranks(const void *a, const void *b)
{
    const struct job_rank *x = a, *y = b;

    if (x->info.rank != y->info.rank)
        return x->info.rank < y->info.rank ? -1 : 1;
    if (x->info.pid != y->info.pid)
        return x->info.pid < y->info.pid ? -1 : 1;
    return (x->info.endpoint > y->info.endpoint) - (x->info.endpoint < y->info.endpoint);
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
        rank->is_read = trace_open(reader, rank->path) == 0;
        if (!rank->is_read)
            continue;
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
    align_by_day(job);
    shift_all(r);
    if (!join(r))
        return false;
    if (align_by_messages(job)) {
        shift_all(
            r); /* of the halves; the messages are made anew, with the steps' names as they are */
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
    }
    begin_at_zero(r);
    shift_all(r);
    for (size_t i = 0; i < job->message_count; i++) {
        struct job_message *m = &job->messages[i];
        int64_t shift = job->ranks[0].shift;

        shift_time(&m->send, shift);
        shift_time(&m->sent, shift);
        shift_time(&m->arrive, shift);
        shift_time(&m->post, shift);
        shift_time(&m->received, shift);
    }
    slice_depths(r);
    for (size_t i = 0; i < job->wait_count; i++)
        job->ranks[job->waits[i].rank].waited += job->waits[i].to - job->waits[i].from;
    return order_all(job);
}

int job_read(struct job *job, char **paths, size_t count)
{
    struct trace_reader *reader = mem_alloc(sizeof *reader);
    struct reading r = {.job = job};
    bool is_read = false;

    *job = (struct job){.rank_count = count};
    job->ranks = mem_calloc(count, sizeof *job->ranks);
    job->infos = mem_calloc(count, sizeof *job->infos);
    job->depths = mem_calloc(count, sizeof *job->depths);
    job->trace_ranks = (struct trace_ranks){.files = job->infos, .count = count};
    r.peers = mem_calloc(count, sizeof *r.peers);
    r.peer_counts = mem_calloc(count, sizeof *r.peer_counts);
    if (reader != NULL && job->ranks != NULL && job->infos != NULL && job->depths != NULL &&
        r.peers != NULL && r.peer_counts != NULL)
        is_read = read_all(&r, paths, reader);
    else
        job->rank_count = 0;
    for (size_t i = 0; r.peers != NULL && i < count; i++)
        mem_free(r.peers[i]);
    mem_free(r.peers);
    mem_free(r.peer_counts);
    mem_free(r.sends);
    mem_free(r.arrivals);
    mem_free(r.changes);
    mem_free(r.posts);
    mem_free(r.names.slots);
    mem_free(reader);
    if (is_read && job_explain(job) == 0)
        return 0;
    job_free(job);
    return -ENOMEM;
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

static bool decode(const struct job *job, const struct job_message *m, struct see_mpi *mpi)
{
    return see_mpi_decode(words_of(job, m)->layout, m->context_id, m->tag, 0, mpi);
}

const char *job_message_text(const struct job *job, const struct job_message *m,
                             char text[TRACE_ENVELOPE_TEXT])
{
    const struct trace_words *words = words_of(job, m);
    char tag[SEE_MPI_WORDS], communicator[192];
    struct see_mpi mpi;

    if (!decode(job, m, &mpi)) {
        snprintf(text, TRACE_ENVELOPE_TEXT, "context %" PRIu32 " tag %" PRIx64, m->context_id,
                 m->tag);
        return text;
    }
    snprintf(text, TRACE_ENVELOPE_TEXT, "%s %s",
             trace_words_communicator(words, &mpi, communicator, sizeof communicator),
             see_mpi_words(&mpi, tag));
    return text;
}

const char *job_collective(const struct job *job, const struct job_message *m)
{
    struct see_mpi mpi;

    if (!decode(job, m, &mpi) || !mpi.is_collective)
        return NULL;
    return mpi.operation != NULL ? mpi.operation : "collective";
}
