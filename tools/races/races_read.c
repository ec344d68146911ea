/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * races_read.c - the traces and records of a folder become a job of races_order.h.
 *
 *   send                     SEND      its place says the at that follows
 *   post                     POST      what the program asked for says the record: a replay posts an exact receive
 *   reported                 REPORT, or SENT of a synchronous send
 *   received, of a collective  REPORT
 *   peek that finds, claim   LOOK
 *   cancel                   CANCEL
 *   event of another call    how many events there were before
 *
 * Which send and which arrival are one message is known from races_pair.c, which has read the files before: it says by their
 * numbers which events of a file are about which message.  Others may have written the files: each number is looked up, and parts that do
 * not belong together are a problem of the run.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/base.h"
#include "base/hash.h"
#include "base/mem.h"
#include "races.h"
#include "races_pair.h"
#include "tools/trace/trace_names.h"

/* A message whose sender, or receiver, has no trace. */
#define LEFT_OUT (RACES_NONE - 1)

/* Each communicator is two of these: one for the tags of programs, and one for the tags of collectives. */
struct comm {
    uint64_t key; /* generation << 32 | context id */
    uint32_t is_collective;
    uint32_t number;
};

struct reading {
    struct races_run *run;
    struct hash comms;
    uint32_t receive_slots, event_slots;
    struct pairs pairs;
    /* of the file that is read */
    uint32_t rank;
    const struct trace_words *words;
    uint32_t *of_event; /* the message of the job, LEFT_OUT, or RACES_NONE */
    uint64_t events;    /* so many has of_event */
    struct hash names;
    uint32_t op_slots, count_slots;
    struct replay_reader *record; /* or NULL */
    struct replay_event event;    /* the next one of the record; times 0: there is none */
    uint64_t noted;               /* events of the record so far, as the trace says */
    uint32_t last_send, last_look,
        last_peek;    /* last_peek: position of a probe that a claim may follow */
    uint32_t *called; /* whose place the next at is; or NULL */
    size_t first_place;
    uint64_t claims; /* of messages that are not there */
    bool is_wrong;   /* the record does not fit: this is said once */
};

static uint32_t rank_number(const struct reading *r)
{
    return r->run->traces.ranks[r->rank].info.rank;
}

/* ---- communicators ---- */

static uint64_t comm_hash(const void *arg, const void *slot)
{
    const struct comm *comm = slot;

    (void)arg;
    return hash_spread(comm->key * 2 + comm->is_collective);
}

static bool comm_is(const void *arg, const void *slot, const void *key)
{
    const struct comm *comm = slot, *wanted = key;

    (void)arg;
    return comm->key == wanted->key && comm->is_collective == wanted->is_collective;
}

static const struct hash_kind by_key = {sizeof(struct comm), comm_hash, comm_is};

static bool keep_comm(struct races_run *run, uint64_t key)
{
    uint64_t *more = mem_realloc(run->comms, (run->comm_count + 1) * sizeof *more);

    if (more == NULL)
        return false;
    run->comms = more;
    run->comms[run->comm_count++] = key;
    return true;
}

/* Slots begin with a word that is not 0: the key is one more. */
static bool comm_of(struct reading *r, uint32_t context_id, uint64_t tag, uint32_t *number)
{
    struct comm comm = {.key = ((tag >> 32) << 32 | context_id) + 1,
                        .is_collective = (int32_t)(uint32_t)tag < 0};
    const struct comm *slot =
        hash_find(&r->comms, &by_key, NULL, comm_hash(NULL, &comm), &comm);

    if (slot == NULL) {
        *number = comm.number = (uint32_t)r->comms.count;
        return comm.key != 0 && keep_comm(r->run, comm.key - 1) &&
               hash_add(&r->comms, &by_key, NULL, &comm) == 0;
    }
    *number = slot->number;
    return true;
}

/* ---- messages ---- */

/* The messages that were sent, and whose receiver is known. */
static bool read_messages(struct reading *r)
{
    struct races_run *run = r->run;
    const struct halves *sends = &r->pairs.sends;
    size_t count = r->pairs.messages;

    if (count >= LEFT_OUT)
        return false;
    run->job.messages = mem_calloc(count + 1, sizeof *run->job.messages);
    run->sends = mem_calloc(count + 1, sizeof *run->sends);
    if (run->job.messages == NULL || run->sends == NULL)
        return false;
    for (uint32_t rank = 0; rank < run->traces.rank_count; rank++)
        for (size_t i = 0; i < sends->of_rank[rank].count; i++) {
            const struct half *half = &sends->all[sends->of_rank[rank].first + i];
            struct races_message *message;

            if (half->message == JOB_NOBODY)
                continue;
            message = &run->job.messages[half->message];
            *message = (struct races_message){.from = rank,
                                              .to = half->peer,
                                              .tag = (uint32_t)half->tag,
                                              .receive = RACES_NONE};
            if (!comm_of(r, half->context_id, half->tag, &message->comm))
                return false;
            run->sends[half->message] =
                (struct races_send){.place = JOB_NOBODY, .is_empty = half->empty != 0};
        }
    run->job.message_count = (uint32_t)count;
    return true;
}

/* Which events of this file are about which messages. */
static bool find_events(struct reading *r)
{
    const struct halves *sends = &r->pairs.sends, *arrivals = &r->pairs.arrivals;
    const struct half *half;

    r->events = r->run->traces.ranks[r->rank].events;
    r->of_event = mem_alloc((r->events + 1) * sizeof *r->of_event);
    if (r->of_event == NULL)
        return false;
    memset(r->of_event, 0xff, (r->events + 1) * sizeof *r->of_event);
    for (size_t i = 0; i < sends->of_rank[r->rank].count; i++) {
        half = &sends->all[sends->of_rank[r->rank].first + i];
        r->of_event[half->event] = half->message != JOB_NOBODY ? half->message : LEFT_OUT;
    }
    for (size_t i = 0; i < arrivals->of_rank[r->rank].count; i++) {
        uint32_t message;

        half = &arrivals->all[arrivals->of_rank[r->rank].first + i];
        message = half->message != JOB_NOBODY ? half->message : LEFT_OUT;
        r->of_event[half->event] = message;
        if (half->post != 0)
            r->of_event[half->post] = message;
    }
    return true;
}

/* ---- operations ---- */

static bool add_op(struct reading *r, enum races_op_kind kind, uint32_t what)
{
    struct races_rank *rank = &r->run->job.ranks[r->rank];
    uint64_t **counts = &r->run->counts[r->rank];

    if (!array_reserve(rank->ops, r->op_slots, rank->count + 1) ||
        !array_reserve(*counts, r->count_slots, rank->count + 1))
        return false;
    (*counts)[rank->count] = r->noted;
    rank->ops[rank->count++] = (struct races_op){kind, what};
    return true;
}

/* So few operations can be between the post of a receive and the note that says which event it is. */
#define NOTED_LATER 64u

/* Where the post or probe of this receive is, which was noted just now; RACES_NONE or another one: the last operation. */
static uint32_t noted_op(const struct races_rank *rank, uint32_t receive)
{
    for (uint32_t i = rank->count; i > 0 && i + NOTED_LATER > rank->count; i--) {
        const struct races_op *op = &rank->ops[i - 1];

        if ((op->kind == RACES_POST || op->kind == RACES_LOOK) && op->what == receive)
            return i - 1;
    }
    return rank->count != 0 ? rank->count - 1 : 0;
}

/* The last operation, or the post or probe of this receive, came when the record had so many events. */
static void count_events(struct reading *r, uint32_t receive, uint64_t events)
{
    const struct races_rank *rank = &r->run->job.ranks[r->rank];

    if (events < r->noted)
        return;
    r->noted = events;
    for (uint32_t i = noted_op(rank, receive); i < rank->count; i++)
        r->run->counts[r->rank][i] = events;
}

/* The rank of a peer number; if the file does not say it, a rank that sends nothing. */
static uint32_t rank_of_peer(const struct reading *r, uint32_t number)
{
    const struct job *traces = &r->run->traces;

    if (number >= r->words->peer_slots || !r->words->peers[number].is_known ||
        r->words->peers[number].job != 0)
        return RACES_NONE - 1;
    for (uint32_t i = 0; i < traces->rank_count; i++)
        if (traces->ranks[i].is_read &&
            traces->ranks[i].info.rank == r->words->peers[number].rank)
            return i;
    return RACES_NONE - 1;
}

/* A receive or probe that asks for this; its number, or RACES_NONE: no memory. */
static uint32_t add_receive(struct reading *r, const struct trace_event *e, uint64_t ignore,
                            uint32_t message)
{
    struct races_run *run = r->run;
    uint32_t number = run->job.receive_count;
    struct races_receive *receive;

    if (!array_reserve(run->job.receives, r->receive_slots, number + 1) ||
        !array_reserve(run->events, r->event_slots, number + 1))
        return RACES_NONE;
    receive = &run->job.receives[number];
    *receive = (struct races_receive){.rank = r->rank,
                                      .source = e->source == TRACE_ANY_SOURCE ? RACES_ANY
                                                : message != RACES_NONE
                                                    ? run->job.messages[message].from
                                                    : rank_of_peer(r, e->source),
                                      .tag = (uint32_t)e->tag,
                                      .is_any_tag = (uint32_t)ignore != 0,
                                      .message = message};
    if (!comm_of(r, e->context_id, e->tag, &receive->comm))
        return RACES_NONE;
    run->events[number] = (struct races_event){.source = -1, .place = JOB_NOBODY};
    run->job.receive_count++;
    return number;
}

/* A message that no other receive has. */
static bool is_free(const struct reading *r, uint32_t message)
{
    return r->run->job.messages[message].receive == RACES_NONE;
}

static bool read_send(struct reading *r, uint64_t event)
{
    uint32_t message = r->of_event[event] != LEFT_OUT ? r->of_event[event] : RACES_NONE;

    r->last_send = message;
    r->called = NULL;
    if (message == RACES_NONE || r->run->job.messages[message].from != r->rank)
        return true;
    if ((int32_t)r->run->job.messages[message].tag >= 0)
        r->called = &r->run->sends[message].place;
    return add_op(r, RACES_SEND, message);
}

static bool read_post(struct reading *r, const struct trace_event *e, uint64_t event)
{
    uint32_t message = r->of_event[event], number;

    if (message == LEFT_OUT)
        return true;
    if (message != RACES_NONE &&
        (r->run->job.messages[message].to != r->rank || !is_free(r, message)))
        return true;
    number = add_receive(r, e, e->ignore, message);
    if (number == RACES_NONE || !names_put(&r->names, NAME_RECEIVE, e->entry, number))
        return false;
    if (message != RACES_NONE)
        r->run->job.messages[message].receive = number;
    if (e->source == TRACE_ANY_SOURCE && (int32_t)(uint32_t)e->tag >= 0)
        r->run->unchecked++; /* until it is an event */
    return add_op(r, RACES_POST, number);
}

/* A probe has found a message; a matched one claims it next. */
static bool read_peek(struct reading *r, const struct trace_event *e)
{
    uint32_t message = names_find(&r->names, NAME_MESSAGE, e->partner), number;

    r->last_look = r->last_peek = RACES_NONE;
    if (message >= LEFT_OUT || r->run->job.messages[message].to != r->rank)
        return true;
    number = add_receive(r, e, e->ignore, message);
    if (number == RACES_NONE)
        return false;
    r->run->job.receives[number].is_probe = true;
    r->last_look = r->last_peek = number;
    return add_op(r, RACES_LOOK, number);
}

static bool read_claim(struct reading *r, const struct trace_event *e)
{
    uint32_t message = names_find(&r->names, NAME_MESSAGE, e->entry), number = r->last_peek;

    r->last_peek = RACES_NONE;
    if (message == LEFT_OUT)
        return true;
    if (message == RACES_NONE) {
        if (r->claims++ != 0)
            return true;
        return races_problem(r->run,
                             "rank %" PRIu32
                             ": a matched probe took a message that still waited "
                             "at its sender: what followed from it is not known",
                             rank_number(r));
    }
    if (r->run->job.messages[message].to != r->rank || !is_free(r, message))
        return true;
    if (number == RACES_NONE || r->run->job.receives[number].message != message) {
        number = add_receive(r, e, 0, message);
        if (number == RACES_NONE || !add_op(r, RACES_LOOK, number))
            return false;
    }
    r->run->job.receives[number].is_probe = false;
    r->run->job.messages[message].receive = number;
    return true;
}

static bool read_received(struct reading *r, const struct trace_event *e)
{
    uint32_t number = names_find(&r->names, NAME_RECEIVE, e->entry);

    if ((int32_t)(uint32_t)e->tag >= 0 || number == RACES_NONE)
        return true;
    return add_op(r, RACES_REPORT, number);
}

/* Synchronous sends are the only sends that are reported. */
static bool read_reported(struct reading *r, const struct trace_event *e)
{
    uint32_t number = names_find(&r->names, NAME_RECEIVE, e->entry);

    if (number != RACES_NONE)
        return add_op(r, RACES_REPORT, number);
    number = names_find(&r->names, NAME_SEND, e->entry);
    return number == RACES_NONE || add_op(r, RACES_SENT, number);
}

static bool read_cancel(struct reading *r, const struct trace_event *e)
{
    uint32_t number = names_find(&r->names, NAME_RECEIVE, e->entry);

    return number == RACES_NONE || r->run->job.receives[number].message != RACES_NONE ||
           add_op(r, RACES_CANCEL, number);
}

/* ---- events of the record ---- */

static void next_of_record(struct reading *r)
{
    do
        if (r->record == NULL || !replay_read_next(r->record, &r->event)) {
            r->event.times = 0;
            return;
        }
    while (r->event.signature.kind == REPLAY_INDEX);
}

/* The record has another event of this number, or none: what the program asked for is not known. */
static bool is_of_another(struct reading *r, uint64_t number)
{
    if (r->is_wrong || r->record == NULL)
        return true;
    r->is_wrong = true;
    return races_problem(r->run,
                         "rank %" PRIu32 ": event %" PRIu64
                         " of its trace is not in its record, which was cut short or damaged",
                         rank_number(r), number);
}

static bool fits(const struct replay_event *event, const struct races_receive *receive,
                 const struct races_message *message)
{
    const struct replay_signature *s = &event->signature;
    bool is_posted = replay_is_receive(s->kind);
    bool is_probe = s->kind >= REPLAY_IPROBE && s->kind <= REPLAY_MPROBE;

    if ((!is_posted && !is_probe) || (s->tag != REPLAY_ANY && s->tag != (int32_t)receive->tag))
        return false;
    return event->outcome.result != REPLAY_MESSAGE ||
           (message != NULL && replay_tag(&event->outcome) == (int32_t)message->tag);
}

/* Is the event of this number, the next one of the record, a probe that has found a message?  Otherwise it only says how many
 * events there were. */
static bool is_found_probe(const struct reading *r, uint64_t number)
{
    return r->event.times == 0 || number < r->event.number ||
           (r->event.outcome.result == REPLAY_MESSAGE &&
            r->event.signature.kind >= REPLAY_IPROBE &&
            r->event.signature.kind <= REPLAY_MPROBE);
}

static bool read_event(struct reading *r, const struct trace_event *e)
{
    struct races_job *job = &r->run->job;
    uint32_t number =
        e->partner != 0 ? names_find(&r->names, NAME_RECEIVE, e->partner) : r->last_look;
    const struct races_message *message;
    struct races_receive *receive;

    r->called = NULL;
    while (r->event.times != 0 && r->event.number + r->event.times <= e->entry)
        next_of_record(r);
    if (e->partner == 0 && !is_found_probe(r, e->entry)) {
        count_events(r, RACES_NONE, e->entry);
        return true;
    }
    if (number == RACES_NONE)
        return true;
    count_events(r, number, e->entry);
    receive = &job->receives[number];
    message = receive->message != RACES_NONE ? &job->messages[receive->message] : NULL;
    r->called = &r->run->events[number].place;
    if (r->event.times == 0 || e->entry < r->event.number || !fits(&r->event, receive, message))
        return is_of_another(r, e->entry);
    if (receive->source == RACES_ANY && !receive->is_checked && !receive->is_probe &&
        e->partner != 0 && (int32_t)receive->tag >= 0 && r->run->unchecked > 0)
        r->run->unchecked--;
    if (r->event.signature.source == REPLAY_ANY)
        receive->source = RACES_ANY;
    if (r->event.signature.tag == REPLAY_ANY)
        receive->is_any_tag = true;
    receive->is_checked = r->event.signature.source == REPLAY_ANY && (int32_t)receive->tag >= 0;
    r->run->events[number].number = e->entry;
    r->run->events[number].signature = r->event.signature;
    if (r->event.outcome.result == REPLAY_MESSAGE)
        r->run->events[number].source = replay_source(&r->event.outcome);
    return true;
}

/* ---- a file ---- */

/* The index of a place of this file; or JOB_NOBODY. */
static uint32_t find_place(const struct reading *r, uint64_t number)
{
    const struct job *traces = &r->run->traces;

    for (size_t i = r->first_place;
         i < traces->place_count && traces->places[i].rank == r->rank; i++)
        if (traces->places[i].number == number)
            return (uint32_t)i;
    return JOB_NOBODY;
}

static void read_at(struct reading *r, const struct trace_event *e)
{
    if (e->partner == TRACE_AT_CALL && r->called != NULL)
        *r->called = find_place(r, e->entry);
    if (e->partner == TRACE_AT_CALL)
        r->called = NULL;
}

static bool read_one(struct reading *r, const struct trace_event *e, uint64_t event)
{
    switch ((unsigned)e->type) {
    case TRACE_SEND:
        return read_send(r, event);
    case TRACE_LEAVE:
        return r->last_send == RACES_NONE ||
               names_put(&r->names, NAME_SEND, e->partner, r->last_send);
    case TRACE_POST:
        return read_post(r, e, event);
    case TRACE_ARRIVE:
        return e->entry == 0 || r->of_event[event] == RACES_NONE ||
               names_put(&r->names, NAME_MESSAGE, e->entry, r->of_event[event]);
    case TRACE_PEEK:
        return e->partner == 0 || read_peek(r, e);
    case TRACE_CLAIM:
        return read_claim(r, e);
    case TRACE_RECEIVED:
        return read_received(r, e);
    case TRACE_CANCEL:
        return read_cancel(r, e);
    case TRACE_EVENT:
        return read_event(r, e);
    case TRACE_REPORTED:
        return read_reported(r, e);
    case TRACE_AT:
        read_at(r, e);
        return true;
    default:
        return true;
    }
}

static bool read_trace(struct reading *r, struct trace_reader *reader)
{
    struct trace_event e;
    bool is_done = true;

    /* what it says now may be more than before: it may still be written */
    for (uint64_t event = 1; is_done && event <= r->events && trace_next(reader, &e) == 1;
         event++)
        is_done = read_one(r, &e, event);
    return is_done;
}

/* The record of the rank whose trace is read. */
static bool open_record(struct reading *r)
{
    char error[PATH_MAX + 128];
    struct races_run *run = r->run;

    r->event.times = 0;
    r->record = NULL;
    if (replay_read_open(run->folder, rank_number(r), &r->record, error, sizeof error) < 0) {
        r->record = NULL;
        return races_problem(run, "%s", error);
    }
    if (replay_read_job(r->record)->pid != run->traces.ranks[r->rank].info.pid) {
        replay_read_close(r->record);
        r->record = NULL;
        return races_problem(run, "rank %" PRIu32 ": its trace and its record are of two runs",
                             rank_number(r));
    }
    next_of_record(r);
    return true;
}

/* Says what is wrong with the record that was read. */
static bool close_record(struct reading *r)
{
    bool is_said = true;

    if (r->record == NULL)
        return true;
    if (replay_read_damage(r->record)[0] != '\0')
        is_said = races_problem(r->run, "%s", replay_read_damage(r->record));
    else if (replay_read_flags(r->record) & REPLAY_THREADS)
        is_said = races_problem(r->run,
                                "rank %" PRIu32 ": several threads receive: their events are "
                                "not in the record",
                                rank_number(r));
    replay_read_close(r->record);
    return is_said;
}

static bool read_file(struct reading *r, struct trace_reader *reader)
{
    struct job_rank *file = &r->run->traces.ranks[r->rank];
    bool is_read;

    r->words = &file->words;
    r->op_slots = r->count_slots = 0;
    r->is_wrong = false;
    r->claims = 0;
    for (r->first_place = 0; r->first_place < r->run->traces.place_count &&
                             r->run->traces.places[r->first_place].rank != r->rank;)
        r->first_place++;
    r->last_send = r->last_look = r->last_peek = RACES_NONE;
    r->called = NULL;
    r->noted = 0;
    if (!find_events(r))
        return false;
    if (trace_open(reader, file->path) < 0) {
        is_read = races_problem(r->run, "%s", reader->error);
    } else {
        is_read = open_record(r) && read_trace(r, reader);
        is_read = close_record(r) && is_read;
        trace_close(reader);
    }
    mem_free(r->of_event);
    hash_fini(&r->names);
    return is_read;
}

/* ---- a folder ---- */

static bool is_trace(const char *name)
{
    size_t length = strlen(name);

    return strncmp(name, "matchbox-", 9) == 0 && length > 6 &&
           strcmp(name + length - 6, ".trace") == 0;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_paths(char **paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mem_free(paths[i]);
    mem_free(paths);
}

/* The traces of a folder.  False: no memory. */
static bool find_traces(struct races_run *run, char ***paths, size_t *count)
{
    const char *folder = run->folder;
    DIR *entries = opendir(folder);
    struct dirent *entry;
    bool is_done = true;

    *paths = NULL;
    *count = 0;
    if (entries == NULL)
        return races_problem(run, "%s: %s", folder, strerror(errno));
    for (errno = 0; (entry = readdir(entries)) != NULL; errno = 0) {
        size_t size = strlen(folder) + strlen(entry->d_name) + 2;
        char **more, *path;

        if (!is_trace(entry->d_name))
            continue;
        more = mem_realloc(*paths, (*count + 1) * sizeof *more);
        if (more != NULL)
            *paths = more;
        path = mem_alloc(size);
        is_done = more != NULL && path != NULL;
        if (!is_done) {
            mem_free(path);
            break;
        }
        snprintf(path, size, "%s/%s", folder, entry->d_name);
        (*paths)[(*count)++] = path;
    }
    if (is_done && errno != 0)
        is_done = races_problem(run, "%s: %s", folder, strerror(errno));
    closedir(entries);
    if (*count > 1)
        qsort(*paths, *count, sizeof **paths, compare_paths);
    return is_done;
}

/* Files that are not whole, and ranks that have none. */
static bool find_missing(struct races_run *run)
{
    const struct job *traces = &run->traces;
    uint32_t rank = 0, size = traces->size;
    bool is_said = true;

    for (size_t i = 0; i < traces->rank_count; i++) {
        const struct job_rank *file = &traces->ranks[i];

        if (file->error[0] != '\0')
            is_said = is_said && races_problem(run, "%s", file->error);
        if (!file->is_read || file->info.rank == TRACE_RANK_UNKNOWN)
            continue;
        for (; is_said && rank < file->info.rank && run->problem_count < RACES_PROBLEMS_MAX;
             rank++)
            is_said =
                races_problem(run, "%s: there is no trace of rank %" PRIu32, run->folder, rank);
        if (rank <= file->info.rank)
            rank = file->info.rank + 1;
    }
    for (; is_said && rank < size && run->problem_count < RACES_PROBLEMS_MAX; rank++)
        is_said =
            races_problem(run, "%s: there is no trace of rank %" PRIu32, run->folder, rank);
    return is_said;
}

static bool read_all(struct reading *r)
{
    struct races_run *run = r->run;
    struct trace_reader *reader = mem_alloc(sizeof *reader);
    bool is_done = reader != NULL && find_missing(run) && read_messages(r);

    run->job.rank_count = (uint32_t)run->traces.rank_count;
    run->job.ranks = mem_calloc(run->traces.rank_count + 1, sizeof *run->job.ranks);
    run->counts = mem_calloc(run->traces.rank_count + 1, sizeof *run->counts);
    is_done = is_done && run->job.ranks != NULL && run->counts != NULL;
    for (r->rank = 0; is_done && r->rank < run->job.rank_count; r->rank++)
        if (run->traces.ranks[r->rank].is_read && !run->traces.ranks[r->rank].is_flight)
            is_done = read_file(r, reader);
    mem_free(reader);
    return is_done;
}

int races_read(struct races_run *run, const char *folder)
{
    struct reading r = {.run = run};
    char **paths;
    size_t count;
    bool is_done;

    *run = (struct races_run){.folder = folder};
    is_done = find_traces(run, &paths, &count);
    if (is_done && count == 0 && run->problem_count == 0)
        is_done = races_problem(
            run, "%s: there are no traces: mbx exec --races=DIR writes them", folder);
    else if (is_done && count != 0)
        is_done = pairs_read(&r.pairs, &run->traces, paths, count) == 0 && read_all(&r);
    pairs_free(&r.pairs);
    hash_fini(&r.comms);
    /* the job's ranks point to these paths, which are needed no more */
    free_paths(paths, count);
    if (is_done)
        return 0;
    races_run_free(run);
    return -ENOMEM;
}

void races_run_free(struct races_run *run)
{
    for (uint32_t i = 0; run->job.ranks != NULL && i < run->job.rank_count; i++)
        mem_free(run->job.ranks[i].ops);
    for (uint32_t i = 0; run->counts != NULL && i < run->job.rank_count; i++)
        mem_free(run->counts[i]);
    mem_free(run->counts);
    mem_free(run->job.ranks);
    mem_free(run->job.messages);
    mem_free(run->job.receives);
    mem_free(run->events);
    mem_free(run->sends);
    mem_free(run->comms);
    if (run->traces.ranks != NULL)
        job_free(&run->traces);
    run->traces = (struct job){.rank_count = 0};
    run->job = (struct races_job){.rank_count = 0};
    run->counts = NULL;
    run->events = NULL;
    run->sends = NULL;
    run->comms = NULL;
}
