/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - the law: there is an order in which messages may have arrived at each rank, such
 * that the oracle, told of posts, cancels and these arrivals, does what the library did.
 *
 * A rank's own order of posts, matched probes, cancels and completions is known (its clock), and
 * which receive got which message.  This orders arrivals; a(m) is the arrival of message m:
 *
 *   receive r got m          a(m) before the moment at which r was seen complete
 *   matched probe p got m    a(m) before p
 *   r got m, and m2, which r accepts too, was got by a later receive, or by none
 *                            a(m) before a(m2)
 *   r got m, and m1, which r accepts too, was sent before m by the same rank
 *                            a(m1) before a(m)
 *   r accepts m, and was cancelled when m had not been got by an earlier receive
 *                            the cancel before a(m)
 *
 * If these contradict each other, no order explains what happened: a message has overtaken
 * another one, or an earlier receive was passed over.  If they do not, the arrivals are put into
 * one order, and the oracle of src/match (linear scans, which can be compared with the MPI
 * standard line by line) decides.  The check reads no state of the library, so it is the same
 * for every way that a message can take.
 *
 * Nobody knows which messages of a rank that died arrived.  Such a message does not count if
 * nobody got it, and a receive that ended because of the death does not count either.
 */
#include "check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "match/oracle.h"
#include "order.h"

/* ---- items by rank ---- */

/* The items that are to meet at one rank. */
struct place {
    struct job *job;
    uint32_t who;
    struct item **messages, **takes; /* messages to it; its receives and matched probes */
    uint32_t message_count, take_count;
};

/* All items by rank: chains of ids. */
struct map {
    uint32_t *messages, *takes; /* [ranks]: the first one */
    uint32_t *next;             /* [items] */
};

static void *wanted(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);

    if (memory == NULL) {
        fprintf(stderr, "sim: no memory\n");
        exit(1);
    }
    return memory;
}

static void map_make(struct map *map, const struct job *job)
{
    map->messages = wanted(job->plan->ranks, sizeof *map->messages);
    map->takes = wanted(job->plan->ranks, sizeof *map->takes);
    map->next = wanted(job->item_count, sizeof *map->next);
    for (uint32_t id = job->item_count - 1; id > 0; id--) {
        const struct item *item = &job->items[id];
        uint32_t *first = NULL;

        if (item->is_live && op_is_message(&item->op))
            first = &map->messages[item->op.peer];
        else if (item->is_live && (item->op.kind == OP_RECV || item->op.kind == OP_MPROBE))
            first = &map->takes[item->op.rank];
        if (first == NULL)
            continue;
        map->next[id] = *first;
        *first = id;
    }
}

static void map_free(struct map *map)
{
    free(map->messages);
    free(map->takes);
    free(map->next);
}

static uint32_t chain_length(const struct map *map, uint32_t id)
{
    uint32_t length = 0;

    for (; id != 0; id = map->next[id])
        length++;
    return length;
}

static struct item **chain_items(struct job *job, const struct map *map, uint32_t id,
                                 uint32_t *count)
{
    struct item **items = wanted(chain_length(map, id), sizeof(struct item *));

    *count = 0;
    for (; id != 0; id = map->next[id])
        items[(*count)++] = &job->items[id];
    return items;
}

static void place_make(struct place *p, struct job *job, const struct map *map, uint32_t who)
{
    *p = (struct place){.job = job, .who = who};
    p->messages = chain_items(job, map, map->messages[who], &p->message_count);
    p->takes = chain_items(job, map, map->takes[who], &p->take_count);
}

static void place_free(struct place *p)
{
    free(p->messages);
    free(p->takes);
}

/* Nobody knows whether it ever came, or it was taken back. */
static bool is_lost(const struct job *job, const struct item *message)
{
    return message->taken_by == 0 && (message->is_void || job->ranks[message->op.rank].is_dead);
}

/* ---- all is quiet ---- */

static void place_met(struct place *p)
{
    uint32_t dead = p->job->counts.deaths != 0 ? rank_dead_peers(p->job, p->who) : 0;

    for (uint32_t r = 0; r < p->take_count; r++) {
        const struct item *recv = p->takes[r];

        if (recv->op.kind != OP_RECV || recv->completions != 0 || recv->is_cancelled)
            continue;
        if (recv->op.peer == PLAN_ANYBODY && dead != 0 && recv->notified == 0)
            job_wrong(p->job, "receive %" PRIu32 " is not told that a peer has died",
                      recv->op.id);
        for (uint32_t m = 0; m < p->message_count; m++)
            if (p->messages[m]->taken_by == 0 && !is_lost(p->job, p->messages[m]) &&
                item_accepts(recv, p->messages[m]))
                job_wrong(p->job, "receive %" PRIu32 " and message %" PRIu32 " never meet",
                          recv->op.id, p->messages[m]->op.id);
    }
}

static void check_places(struct job *job, void (*check)(struct place *))
{
    struct map map;
    struct place p;

    map_make(&map, job);
    for (uint32_t who = 0; who < job->plan->ranks && job->why[0] == '\0'; who++) {
        if (job->ranks[who].is_dead)
            continue;
        place_make(&p, job, &map, who);
        check(&p);
        place_free(&p);
    }
    map_free(&map);
}

/* May a probe have been told that the message waits at its sender? */
static bool is_probed(const struct job *job, const struct item *message)
{
    for (uint32_t id = 1; id < job->item_count; id++) {
        const struct item *probe = &job->items[id];

        if ((probe->op.kind == OP_PROBE || probe->op.kind == OP_MPROBE) &&
            probe->op.rank == message->op.peer && item_accepts(probe, message))
            return true;
    }
    return false;
}

/* A send that was to be taken back waits on only if a receive, or such a probe, may have its message. */
static void check_asked(struct job *job)
{
    for (uint32_t id = 1; id < job->item_count; id++) {
        const struct item *item = &job->items[id];

        if (item_has_request(item) && op_is_message(&item->op) && item->is_asked &&
            item->completions == 0 && item->taken_by == 0 && !is_probed(job, item) &&
            !job->ranks[item->op.rank].is_dead && !job->ranks[item->op.peer].is_dead)
            job_wrong(job, "%s %" PRIu32 " was to be taken back, and nobody has it",
                      op_names[item->op.kind], id);
    }
}

void check_met(struct job *job)
{
    check_asked(job);
    check_places(job, place_met);
}

/* ---- in which order ---- */

/* Messages are the first nodes, then the clock of the rank. */
static uint32_t at_clock(const struct place *p, uint32_t clock)
{
    return p->message_count + clock;
}

/* Was message got by a receive or probe before this one? */
static bool was_gone(struct place *p, const struct item *message, const struct item *take)
{
    const struct item *taker = job_item(p->job, message->taken_by);

    return message->taken_by != 0 && taker->posted < take->posted;
}

/* Adds the order that follows from `take`, which got message number m. */
static void know_taken(struct place *p, struct order *o, const struct item *take, uint32_t m)
{
    const struct item *message = p->messages[m];

    if (take->op.kind == OP_MPROBE)
        order_before(o, m, at_clock(p, take->posted));
    else if (take->done != 0)
        order_before(o, m, at_clock(p, take->done));
    for (uint32_t i = 0; i < p->message_count; i++) {
        const struct item *other = p->messages[i];

        if (i == m || is_lost(p->job, other) || !item_accepts(take, other))
            continue;
        if (!was_gone(p, other, take))
            order_before(o, m, i);
        if (other->op.rank == message->op.rank && other->posted < message->posted)
            order_before(o, i, m);
    }
}

static void know_cancelled(struct place *p, struct order *o, const struct item *take)
{
    for (uint32_t i = 0; i < p->message_count; i++)
        if (!is_lost(p->job, p->messages[i]) && item_accepts(take, p->messages[i]) &&
            !was_gone(p, p->messages[i], take))
            order_before(o, at_clock(p, take->cancelled), i);
}

static void know_all(struct place *p, struct order *o)
{
    for (uint32_t clock = 1; clock <= p->job->ranks[p->who].clock; clock++)
        order_before(o, at_clock(p, clock - 1), at_clock(p, clock));
    for (uint32_t m = 0; m < p->message_count; m++)
        if (p->messages[m]->taken_by != 0)
            know_taken(p, o, job_item(p->job, p->messages[m]->taken_by), m);
    for (uint32_t r = 0; r < p->take_count; r++)
        if (p->takes[r]->is_cancelled)
            know_cancelled(p, o, p->takes[r]);
}

static void tell_circle(struct place *p, const struct order *o, uint32_t count)
{
    char text[160] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < count && used < sizeof text - 32; i++) {
        uint32_t node = o->sorted[i];

        if (node < p->message_count)
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     " message %" PRIu32 " (got by %" PRIu32 ")",
                                     p->messages[node]->op.id, p->messages[node]->taken_by);
        else if (i == 0 || o->sorted[i - 1] < p->message_count)
            used += (size_t)snprintf(text + used, sizeof text - used, " clock %" PRIu32,
                                     node - p->message_count);
    }
    job_wrong(p->job,
              "rank %" PRIu32 ": no order explains it, each of these before the next:%s",
              p->who, text);
}

/* ---- the oracle ---- */

static struct mbx_match_envelope envelope_of(const struct op *op, uint32_t source)
{
    return (struct mbx_match_envelope){
        op->context_id, source == PLAN_ANYBODY ? MBX_MATCH_ANY_SOURCE : source, op->tag};
}

static void feed_arrival(struct place *p, struct oracle *oracle, const struct item *message)
{
    const struct item *taker = job_item(p->job, message->taken_by);
    int got, want = -1;

    if (is_lost(p->job, message))
        return;
    got =
        oracle_arrive(oracle, envelope_of(&message->op, message->op.rank), (int)message->op.id);
    if (got >= 0)
        want = taker->op.kind == OP_RECV ? (int)taker->op.id : -1;
    if (got != want)
        job_wrong(p->job,
                  "message %" PRIu32 " was got by %" PRIu32 ", and the oracle gives it to %d",
                  message->op.id, message->taken_by, got);
}

/* Is it a receive of which nobody knows how it ended? */
static bool is_void(const struct item *take)
{
    return take->op.kind == OP_RECV && take->got == 0 && !take->is_cancelled;
}

static void feed_post(struct place *p, struct oracle *oracle, const struct item *take)
{
    const struct mbx_match_envelope envelope = envelope_of(&take->op, take->op.peer);
    int got = -1;

    if (is_void(take))
        return;
    if (take->op.kind == OP_RECV) {
        got = oracle_post(oracle, envelope, take->op.ignore, (int)take->op.id);
        if (got >= 0 && (uint32_t)got != take->got)
            job_wrong(p->job,
                      "receive %" PRIu32 " got message %" PRIu32 ", and the oracle gives it %d",
                      take->op.id, take->got, got);
        return;
    }
    got = oracle_peek(oracle, envelope, take->op.ignore);
    if ((uint32_t)got != take->got)
        job_wrong(p->job, "mprobe %" PRIu32 " got message %" PRIu32 ", and the oracle shows %d",
                  take->op.id, take->got, got);
    else
        oracle_extract(oracle, got);
}

/* The item that the rank posted or cancelled at each tick of its clock, or NULL. */
static const struct item **clock_items(const struct place *p)
{
    const struct item **items =
        wanted(p->job->ranks[p->who].clock + 1, sizeof(const struct item *));

    for (uint32_t r = 0; r < p->take_count; r++) {
        items[p->takes[r]->posted] = p->takes[r];
        if (p->takes[r]->is_cancelled)
            items[p->takes[r]->cancelled] = p->takes[r];
    }
    return items;
}

static void feed_oracle(struct place *p, const struct order *o)
{
    static struct oracle oracle;
    const struct item **items = clock_items(p);

    oracle_init(&oracle);
    for (uint32_t i = 0; i < o->nodes && p->job->why[0] == '\0'; i++) {
        uint32_t node = o->sorted[i], clock = node - p->message_count;

        if (node < p->message_count)
            feed_arrival(p, &oracle, p->messages[node]);
        else if (items[clock] != NULL && items[clock]->posted == clock)
            feed_post(p, &oracle, items[clock]);
        else if (items[clock] != NULL && !oracle_cancel(&oracle, (int)items[clock]->op.id))
            job_wrong(p->job, "receive %" PRIu32 " was cancelled, and the oracle had ended it",
                      items[clock]->op.id);
    }
    if (p->job->why[0] == '\0' && oracle.msgs.count + oracle.recvs.count != 0)
        job_wrong(p->job, "rank %" PRIu32 ": something is left with the oracle", p->who);
    free(items);
}

static void place_order(struct place *p)
{
    struct order order;
    uint32_t count;

    order_init(&order, p->message_count + p->job->ranks[p->who].clock + 1);
    know_all(p, &order);
    if (!order_sort(&order, &count))
        tell_circle(p, &order, count);
    else if (p->message_count < ORACLE_MAX && p->take_count < ORACLE_MAX)
        feed_oracle(p, &order);
    order_fini(&order);
}

/* ---- at the end ---- */

static void check_item(struct job *job, const struct item *item)
{
    const struct item *taker = job_item(job, item->taken_by);

    if (!item->is_live || job->ranks[item->op.rank].is_dead)
        return;
    if (item_has_request(item) && item->completions == 0)
        job_wrong(job, "%s %" PRIu32 " never completes", op_names[item->op.kind], item->op.id);
    if (!op_is_message(&item->op) || job->ranks[item->op.peer].is_dead)
        return;
    if (item->taken_by == 0 && !item->is_void)
        job_wrong(job, "message %" PRIu32 " is lost", item->op.id);
    else if (item->op.kind == OP_SSEND && item->done_ns < taker->posted_ns)
        job_wrong(job, "synchronous send %" PRIu32 " completes before receive %" PRIu32,
                  item->op.id, taker->op.id);
}

static bool has_limit(uint64_t limit)
{
    return limit < CREDIT_UNLIMITED;
}

/* A rank never kept more for others than it promised.  A message that a matched probe takes at
 * the sender belongs to the caller of the probe. */
static void check_memory(struct job *job, uint32_t who, const struct stats *s)
{
    struct mbx_limits limits;
    uint64_t most;

    mbx_limits_get(job->ranks[who].ep, &limits, sizeof limits);
    if (!has_limit(limits.window) || !has_limit(limits.window_payload) ||
        !has_limit(limits.extra))
        return;
    most = s->peers * (limits.window * CREDIT_ENVELOPE + limits.window_payload) + limits.extra +
           (uint64_t)job->ranks[who].claims * CREDIT_ENVELOPE;
    if (s->unexpected_bytes_max > most)
        job_wrong(job, "rank %" PRIu32 " held %" PRIu64 " bytes for others, at most %" PRIu64,
                  who, s->unexpected_bytes_max, most);
}

static void check_endpoint(struct job *job, uint32_t who)
{
    struct stats s;

    stats_read(job->ranks[who].ep, &s);
    if (s.requests_now != 0 || s.posted_now != 0 || s.unexpected_now != 0 ||
        s.unexpected_bytes_now != 0 || s.deferred_now != 0)
        job_wrong(job,
                  "rank %" PRIu32 " has something left: %" PRIu64 " requests, %" PRIu64
                  " posted, %" PRIu64 " unexpected of %" PRIu64 " bytes, %" PRIu64 " held",
                  who, s.requests_now, s.posted_now, s.unexpected_now, s.unexpected_bytes_now,
                  s.deferred_now);
    if (s.dropped_packets != 0 && job->counts.deaths == 0) /* of the dead they do not count */
        job_wrong(job, "rank %" PRIu32 " dropped %" PRIu64 " packets", who, s.dropped_packets);
    check_memory(job, who, &s);
}

/* Each add brought another number, and all are in the sum. */
static void check_adds(struct job *job)
{
    uint32_t cells = job->plan->ranks * PLAN_CELLS;
    uint64_t *done = wanted(cells, sizeof *done), *failed = wanted(cells, sizeof *failed),
             *sum = wanted(cells, sizeof *sum);

    for (uint32_t id = 1; id < job->item_count; id++) {
        const struct item *item = &job->items[id];
        uint32_t cell = item->op.peer * PLAN_CELLS + (uint32_t)(item->op.tag % PLAN_CELLS);

        if (!item->is_live || item->op.kind != OP_ADD)
            continue;
        if (item->completions != 0 && item->error == 0) {
            done[cell]++;
            sum[cell] += item->result;
        } else {
            failed[cell]++;
        }
    }
    for (uint32_t cell = 0; cell < cells; cell++) {
        const struct rank *rank = &job->ranks[cell / PLAN_CELLS];
        uint64_t value = rank->cells[cell % PLAN_CELLS];

        if (rank->is_dead)
            continue;
        if (value < done[cell] || value > done[cell] + failed[cell])
            job_wrong(job,
                      "cell %" PRIu32 " of rank %" PRIu32 " is %" PRIu64 " after %" PRIu64
                      " adds",
                      cell % PLAN_CELLS, cell / PLAN_CELLS, value, done[cell]);
        else if (failed[cell] == 0 && value != 0 && sum[cell] != value * (value - 1) / 2)
            job_wrong(job, "two adds to cell %" PRIu32 " of rank %" PRIu32 " bring the same",
                      cell % PLAN_CELLS, cell / PLAN_CELLS);
    }
    free(done);
    free(failed);
    free(sum);
}

void check_end(struct job *job)
{
    for (uint32_t id = 1; id < job->item_count; id++)
        check_item(job, &job->items[id]);
    for (uint32_t who = 0; who < job->plan->ranks && job->why[0] == '\0'; who++)
        if (!job->ranks[who].is_dead)
            check_endpoint(job, who);
    check_adds(job);
    check_places(job, place_order);
}
