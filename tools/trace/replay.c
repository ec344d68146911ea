/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay.c - repeats the events of one trace with lists.
 *
 *   entries by {kind, number}: context ids, receives, messages
 *   context ─> recvs: r1 - r4 - r7     posted and not met, oldest first
 *           ─> msgs:  m2 - m3          arrived and not taken
 *
 * The record decides which receive meets which message; the walk only counts, and compares.  So
 * one wrong answer does not make all later ones wrong.
 *
 * Invariants
 *   I1  an entry of kind RECV is on its context's recvs
 *   I2  an entry of kind MSG is on its context's msgs, or claimed and on no list
 */
#include "replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/array.h"
#include "base/base.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/mem.h"

enum kind { KIND_CONTEXT, KIND_RECV, KIND_MSG };

static const char *const kind_names[] = {"context", "receive", "message"};

struct entry {
    struct list queue;
    enum kind kind;
    uint64_t number;
    struct entry *context; /* of a receive or message */
    uint32_t source;
    uint64_t tag, ignore;
    struct list recvs, msgs; /* of a context */
    uint64_t recv_count, msg_count;
    /* of a receive that senders may lock: a message of this source has passed it */
    bool is_asked, is_passed;
    uint32_t passed_by;
};

/* ---- entries by number ---- */

static uint64_t entry_hash(const void *arg, const void *slot)
{
    const struct entry *entry = hash_pointer(slot);

    (void)arg;
    return hash_mix(entry->number * 4 + entry->kind);
}

static bool entry_is(const void *arg, const void *slot, const void *key)
{
    const struct entry *entry = hash_pointer(slot), *wanted = key;

    (void)arg;
    return entry->kind == wanted->kind && entry->number == wanted->number;
}

static const struct hash_kind by_number = {sizeof(void *), entry_hash, entry_is};

static void *entry_slot(const struct replay *replay, enum kind kind, uint64_t number)
{
    const struct entry wanted = {.kind = kind, .number = number};

    return hash_find(&replay->entries, &by_number, NULL,
                     entry_hash(NULL, &(const void *){&wanted}), &wanted);
}

static struct entry *entry_find(const struct replay *replay, enum kind kind, uint64_t number)
{
    return hash_pointer(entry_slot(replay, kind, number));
}

/* A new entry, found by its number from here on; NULL: no memory. */
static struct entry *entry_make(struct replay *replay, enum kind kind, uint64_t number)
{
    struct entry *entry;

    if (hash_reserve(&replay->entries, &by_number, NULL) != 0)
        return NULL;
    entry = mem_calloc(1, sizeof *entry);
    if (entry == NULL)
        return NULL;
    entry->kind = kind;
    entry->number = number;
    list_init(&entry->recvs);
    list_init(&entry->msgs);
    (void)hash_add(&replay->entries, &by_number, NULL, &(void *){entry});
    return entry;
}

/* Takes it off its queue. */
static void entry_unqueue(struct entry *entry)
{
    list_remove(&entry->queue);
    if (entry->kind == KIND_RECV)
        entry->context->recv_count--;
    else
        entry->context->msg_count--;
}

static void entry_drop(struct replay *replay, struct entry *entry)
{
    if (list_is_linked(&entry->queue))
        entry_unqueue(entry);
    hash_remove(&replay->entries, &by_number, NULL,
                entry_slot(replay, entry->kind, entry->number));
    mem_free(entry);
}

void replay_init(struct replay *replay)
{
    *replay = (struct replay){0};
}

void replay_fini(struct replay *replay)
{
    size_t position = 0;
    void *entry;

    while ((entry = hash_pointer(hash_next(&replay->entries, &by_number, &position))) != NULL)
        mem_free(entry);
    hash_fini(&replay->entries);
    mem_free(replay->masks);
}

/* ---- mistakes ---- */

static int replay_fail(struct replay *replay, const struct trace_event *e, enum kind kind,
                       uint64_t number, const char *what)
{
    snprintf(replay->error, sizeof replay->error,
             "record %" PRIu64 ": %s names %s %" PRIx64 " %s", replay->records,
             trace_type_name(e->type), kind_names[kind], number, what);
    return -EBADMSG;
}

/* The list has found `right`, or nobody; the engine said `partner`. */
static void replay_compare(struct replay *replay, const struct trace_event *e,
                           const struct entry *right)
{
    uint64_t number = right != NULL ? right->number : 0;

    if (number == e->partner)
        return;
    if (replay->wrong++ == 0)
        snprintf(replay->error, sizeof replay->error,
                 "record %" PRIu64 ": %s met %" PRIx64 ", the oldest that fits is %" PRIx64
                 " (0: nobody)",
                 replay->records, trace_type_name(e->type), e->partner, number);
}

/* ---- walking ---- */

static void walks_add(struct replay_walks *walks, uint64_t steps)
{
    static const uint64_t limits[REPLAY_RANGES - 1] = {1, 2, 16, 256, 4096};
    size_t range = 0;

    while (range < ARRAY_COUNT(limits) && steps >= limits[range])
        range++;
    walks->ranges[range]++;
    walks->count++;
    walks->steps += steps;
    if (steps > walks->max)
        walks->max = steps;
}

static bool accepts(uint32_t source, uint64_t tag, uint64_t ignore, uint32_t from,
                    uint64_t sent)
{
    return (source == TRACE_ANY_SOURCE || source == from) && ((tag ^ sent) & ~ignore) == 0;
}

/* The oldest message that such a receive accepts, or NULL. */
static struct entry *walk_msgs(struct replay *replay, struct entry *context,
                               const struct trace_event *e, enum replay_search search)
{
    struct entry *found = NULL;
    struct list *node;
    uint64_t steps = 0;

    list_for_each (node, &context->msgs) {
        struct entry *msg = container_of(node, struct entry, queue);

        steps++;
        if (accepts(e->source, e->tag, e->ignore, msg->source, msg->tag)) {
            found = msg;
            break;
        }
    }
    walks_add(&replay->walks[search], steps);
    return found;
}

/* A sender that an RTR has told of a receive may have locked it, which its own trace alone says; a
 * message that is not the locker's passes such a receive. */
static bool passes(struct entry *recv, const struct trace_event *e)
{
    if (!recv->is_asked || recv->number == e->partner)
        return false;
    recv->is_passed = true;
    recv->passed_by = e->source;
    return true;
}

/* The oldest receive that accepts such a message, or NULL. */
static struct entry *walk_recvs(struct replay *replay, struct entry *context,
                                const struct trace_event *e)
{
    struct entry *found = NULL;
    struct list *node;
    uint64_t steps = 0;

    list_for_each (node, &context->recvs) {
        struct entry *recv = container_of(node, struct entry, queue);

        steps++;
        if (accepts(recv->source, recv->tag, recv->ignore, e->source, e->tag) &&
            !passes(recv, e)) {
            found = recv;
            break;
        }
    }
    walks_add(&replay->walks[REPLAY_ARRIVALS], steps);
    return found;
}

/* ---- one function per event ---- */

/* Nobody was met: joins a queue. */
static int replay_wait(struct replay *replay, struct entry *context,
                       const struct trace_event *e, enum kind kind)
{
    struct entry *entry;

    if (entry_find(replay, kind, e->entry) != NULL)
        return replay_fail(replay, e, kind, e->entry, "a second time");
    entry = entry_make(replay, kind, e->entry);
    if (entry == NULL)
        return -ENOMEM;
    entry->context = context;
    entry->source = e->source;
    entry->tag = e->tag;
    entry->ignore = e->ignore;
    replay->waited[e->type]++;
    if (kind == KIND_RECV) {
        list_add_tail(&context->recvs, &entry->queue);
        replay->posted_max = max_size(replay->posted_max, ++context->recv_count);
    } else {
        list_add_tail(&context->msgs, &entry->queue);
        replay->unexpected_max = max_size(replay->unexpected_max, ++context->msg_count);
    }
    return 0;
}

/* The one that waits in this context under this number, or NULL: and then error says so. */
static struct entry *replay_waiting(struct replay *replay, const struct entry *context,
                                    const struct trace_event *e, enum kind kind,
                                    uint64_t number)
{
    struct entry *entry = entry_find(replay, kind, number);

    if (entry != NULL && entry->context == context && list_is_linked(&entry->queue))
        return entry;
    replay_fail(replay, e, kind, number, "which does not wait");
    return NULL;
}

static int replay_leave(struct replay *replay, const struct entry *context,
                        const struct trace_event *e, enum kind kind, uint64_t number)
{
    struct entry *entry = replay_waiting(replay, context, e, kind, number);

    if (entry == NULL)
        return -EBADMSG;
    entry_drop(replay, entry);
    return 0;
}

/* Counts how a receive compares. */
static int replay_mask_add(struct replay *replay, const struct trace_event *e)
{
    bool any_source = e->source == TRACE_ANY_SOURCE && /* nor does the tag name one */
                      (e->ignore & replay->source_bits) == replay->source_bits;

    replay->any_source += any_source;
    for (size_t i = 0; i < replay->mask_count; i++) {
        if (replay->masks[i].ignore == e->ignore && replay->masks[i].any_source == any_source) {
            replay->masks[i].posts++;
            return 0;
        }
    }
    if (!array_reserve(replay->masks, replay->mask_capacity, replay->mask_count + 1))
        return -ENOMEM;
    replay->masks[replay->mask_count++] =
        (struct replay_mask){.ignore = e->ignore, .posts = 1, .any_source = any_source};
    return 0;
}

static int replay_post(struct replay *replay, struct entry *context,
                       const struct trace_event *e)
{
    int err = replay_mask_add(replay, e);

    if (err < 0)
        return err;
    replay_compare(replay, e, walk_msgs(replay, context, e, REPLAY_POSTS));
    return e->partner == 0 ? replay_wait(replay, context, e, KIND_RECV)
                           : replay_leave(replay, context, e, KIND_MSG, e->partner);
}

/* An RTR tells a sender of a receive. */
static int replay_ask(struct replay *replay, const struct trace_event *e)
{
    struct entry *recv = entry_find(replay, KIND_RECV, e->entry);

    if (recv != NULL)
        recv->is_asked = true;
    return 0;
}

/* While a sender has a receive locked, messages of other sources pass it, and only this sender's
 * message meets it.  So no message may meet a receive if an older one of its source has passed it. */
static void replay_passed(struct replay *replay, const struct trace_event *e)
{
    const struct entry *recv =
        e->partner != 0 ? entry_find(replay, KIND_RECV, e->partner) : NULL;

    if (recv == NULL || !recv->is_passed || recv->passed_by != e->source)
        return;
    if (replay->wrong++ == 0)
        snprintf(replay->error, sizeof replay->error,
                 "record %" PRIu64 ": %s met %" PRIx64
                 ", which an older message of its source has passed",
                 replay->records, trace_type_name(e->type), e->partner);
}

static int replay_arrive(struct replay *replay, struct entry *context,
                         const struct trace_event *e)
{
    replay_compare(replay, e, walk_recvs(replay, context, e));
    replay_passed(replay, e);
    return e->partner == 0 ? replay_wait(replay, context, e, KIND_MSG)
                           : replay_leave(replay, context, e, KIND_RECV, e->partner);
}

static int replay_peek(struct replay *replay, struct entry *context,
                       const struct trace_event *e)
{
    replay_compare(replay, e, walk_msgs(replay, context, e, REPLAY_PROBES));
    replay->found += e->partner != 0;
    return e->partner == 0 || replay_waiting(replay, context, e, KIND_MSG, e->partner) != NULL
               ? 0
               : -EBADMSG;
}

static int replay_claim(struct replay *replay, const struct entry *context,
                        const struct trace_event *e)
{
    struct entry *msg = replay_waiting(replay, context, e, KIND_MSG, e->entry);

    if (msg == NULL)
        return -EBADMSG;
    entry_unqueue(msg);
    return 0;
}

/* A claimed message has gone to its receive, or to nobody. */
static int replay_end(struct replay *replay, const struct trace_event *e)
{
    struct entry *msg = entry_find(replay, KIND_MSG, e->entry);

    if (msg == NULL || list_is_linked(&msg->queue))
        return replay_fail(replay, e, KIND_MSG, e->entry, "which is not claimed");
    entry_drop(replay, msg);
    return 0;
}

static void replay_close(struct replay *replay)
{
    const struct entry *entry;
    size_t position = 0;

    while ((entry = hash_pointer(hash_next(&replay->entries, &by_number, &position))) != NULL) {
        replay->left_recvs += entry->kind == KIND_RECV;
        replay->left_msgs += entry->kind == KIND_MSG;
    }
}

/* The context of e, made when it occurs first; NULL: no memory. */
static struct entry *replay_context(struct replay *replay, const struct trace_event *e)
{
    struct entry *context = entry_find(replay, KIND_CONTEXT, e->context_id);

    if (context != NULL)
        return context;
    context = entry_make(replay, KIND_CONTEXT, e->context_id);
    replay->contexts += context != NULL;
    return context;
}

static int replay_one(struct replay *replay, struct entry *context, const struct trace_event *e)
{
    switch ((unsigned)e->type) {
    case TRACE_POST:
        return replay_post(replay, context, e);
    case TRACE_ARRIVE:
        return replay_arrive(replay, context, e);
    case TRACE_CANCEL:
        return replay_leave(replay, context, e, KIND_RECV, e->entry);
    case TRACE_PEEK:
        return replay_peek(replay, context, e);
    case TRACE_CLAIM:
        return replay_claim(replay, context, e);
    case TRACE_TAKE:
    case TRACE_DISCARD:
        return replay_end(replay, e);
    case TRACE_DROP:
        return replay_leave(replay, context, e, KIND_MSG, e->entry);
    case TRACE_RTR:
        return replay_ask(replay, e);
    case TRACE_CLOSE:
        replay_close(replay);
        return 0;
    default: /* names, steps on the way to an arrival, how messages travel, waits */
        return 0;
    }
}

int replay_event(struct replay *replay, const struct trace_event *e)
{
    struct entry *context = NULL;
    int err;

    if (e->type != TRACE_CLOSE && !trace_is_name(e->type) && !trace_is_travel(e->type)) {
        context = replay_context(replay, e);
        if (context == NULL)
            return -ENOMEM;
    }
    err = replay_one(replay, context, e);
    if (err < 0)
        return err;
    replay->events[e->type]++;
    replay->ns += e->delta_ns;
    replay->records++;
    return 0;
}
