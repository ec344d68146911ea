/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replays.c - see replays.h.
 *
 *   recorded                                   in the replay
 *
 *   wildcard receive got (source, tag)         posted as an exact receive of (source, tag)
 *   wildcard receive got nothing               withheld
 *   receive was cancelled in time              withheld; the cancel completes it
 *   receive was cancelled too late             the cancel does nothing
 *   test or probe found nothing                finds nothing, after one round of progress
 *   test, wait for any or some, wildcard probe
 *                                              waits for the recorded outcome, and returns it alone
 *   exact receives, waits for all, sends       as the program asks
 *
 * A rank that waits at the end of the record waits there in the replay.  Receives that are still withheld then are
 * posted, as the program has asked for them, and must get nothing.
 */
#include "replays.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/random.h"
#include "job.h"

/* One job of so many has a free run; of 100 free runs so many are to differ, if there are enough jobs. */
#define FREE_EACH     4
#define FREE_PERCENT  25
#define JOBS_OF_PROOF 100

/* A call whose outcome is recorded. */
struct event {
    enum call_kind kind;
    uint32_t count;
    uint64_t knows; /* the rank, before */
    struct outcome outcome;
};

/* The calls of a rank. */
struct recorded_rank {
    struct event *events;
    uint32_t count, capacity;
    uint32_t next;       /* operation, at the end */
    enum call_kind call; /* in which it is then */
};

/* An operation and its result. */
struct recorded_item {
    struct op op; /* as the program has asked */
    uint64_t knows;
    bool was_done, is_cancelled;
    uint32_t got, key; /* of receives and probes: the message, and its content */
    int error;
};

struct record {
    struct recorded_rank *ranks;
    struct recorded_item *items;
    uint32_t rank_count, item_count;
};

/* A job and its record. */
struct replay {
    const struct record *then; /* is enforced; NULL: nothing is */
    struct record now;
    struct random chance;
};

static struct {
    uint64_t jobs, waiting, operations, done, receives, events;
    uint64_t exact, withheld, cancelled, late_cancels, found_nothing, held, waited;
    uint64_t free_runs, others, free_receives, other_receives;
} totals;

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);

    if (memory == NULL)
        abort();
    return memory;
}

/* ---- records ---- */

static void record_init(struct record *r, const struct plan *plan)
{
    r->rank_count = plan->ranks;
    r->item_count = plan->last_id + 1;
    r->ranks = zeroed(r->rank_count, sizeof *r->ranks);
    r->items = zeroed(r->item_count, sizeof *r->items);
}

static void record_fini(struct record *r)
{
    for (uint32_t who = 0; who < r->rank_count; who++)
        free(r->ranks[who].events);
    free(r->ranks);
    free(r->items);
}

static void record_event(struct recorded_rank *rank, const struct event *event)
{
    if (rank->count == rank->capacity) {
        rank->capacity = rank->capacity == 0 ? 16 : rank->capacity * 2;
        rank->events = realloc(rank->events, rank->capacity * sizeof *rank->events);
        if (rank->events == NULL)
            abort();
    }
    rank->events[rank->count++] = *event;
}

static const struct recorded_item *then_of(const struct job *job, const struct item *item)
{
    return &job->replay->then->items[item->op.id];
}

static bool is_enforced(const struct job *job)
{
    return job->replay->then != NULL;
}

static bool is_wild(const struct op *op)
{
    return op->peer == PLAN_ANYBODY || op->ignore != 0;
}

/* ---- operations ---- */

static bool is_same_op(const struct op *a, const struct op *b)
{
    return a->kind == b->kind && a->target == b->target && a->peer == b->peer &&
           a->context_id == b->context_id && a->tag == b->tag && a->ignore == b->ignore &&
           a->size == b->size;
}

void replay_look(struct job *job, struct item *item)
{
    struct recorded_item *now = &job->replay->now.items[item->op.id];

    job->last_ns = sim_now();
    now->op = item->op;
    now->knows = job->ranks[item->op.rank].program.knows;
    now->was_done = true;
    if (!is_enforced(job))
        return;
    if (!then_of(job, item)->was_done)
        job_wrong(job, "rank %" PRIu32 " comes to operation %" PRIu32 ", and did not before",
                  item->op.rank, item->op.id);
    else if (then_of(job, item)->knows != now->knows ||
             !is_same_op(&then_of(job, item)->op, &now->op))
        job_wrong(job, "operation %" PRIu32 " of rank %" PRIu32 " is another one than recorded",
                  item->op.id, item->op.rank);
}

/* Only this envelope is accepted now. */
static void make_exact(struct op *op, uint32_t source, uint64_t tag)
{
    op->peer = source;
    op->tag = tag;
    op->ignore = 0;
}

static void post(struct job *job, struct item *item)
{
    const struct recorded_item *then = then_of(job, item);
    const struct op *message = &job->replay->then->items[then->got].op;

    if (then->is_cancelled || (then->got == 0 && is_wild(&item->op))) {
        item->is_withheld = true;
        totals.withheld++;
        totals.cancelled += then->is_cancelled;
        return;
    }
    if (is_wild(&item->op)) {
        make_exact(&item->op, message->rank, message->tag);
        totals.exact++;
    }
    rank_do(job, item);
}

static void cancel(struct job *job, struct item *item)
{
    struct item *target = job_item(job, item->op.target);

    if (target->is_withheld) {
        target->is_cancelled = true;
        target->error = -ECANCELED;
    } else {
        totals.late_cancels += target->is_live;
    }
}

void replay_do(struct job *job, struct item *item)
{
    if (!is_enforced(job))
        rank_do(job, item);
    else if (item->op.kind == OP_RECV)
        post(job, item);
    else if (item->op.kind == OP_CANCEL)
        cancel(job, item);
    else
        rank_do(job, item);
}

/* ---- calls ---- */

/* Does the record say how such a call ended? */
static bool is_event(struct job *job, const struct call *call)
{
    if (call->kind == CALL_PROBE)
        return is_wild(&job->replay->now.items[call->ids[0]].op);
    return call->kind != CALL_WAIT && call->kind != CALL_WAITALL;
}

static uint32_t one_of(struct random *r, uint32_t mask)
{
    uint32_t bit;

    do
        bit = UINT32_C(1) << random_below(r, CALL_MAX);
    while ((mask & bit) == 0);
    return bit;
}

/* The call returns so many of these requests, which are complete; 0: it does not return. */
static uint32_t completed_by(struct job *job, const struct call *call, uint32_t complete)
{
    bool is_any = call->kind == CALL_WAITANY || call->kind == CALL_TESTANY;
    bool is_some = call->kind == CALL_WAITSOME || call->kind == CALL_TESTSOME;

    if (complete == 0 || is_some)
        return complete;
    if (is_any)
        return one_of(&job->replay->chance, complete);
    return complete == (UINT32_C(1) << call->count) - 1 ? complete : 0;
}

static void probe(struct job *job, struct item *item, struct outcome *outcome)
{
    const struct item *message;

    if (!rank_probe(job, item))
        return;
    message = job_item(job, item->got);
    *outcome = (struct outcome){1, message->op.rank, message->op.tag};
}

/* Nothing is enforced. */
static bool returns_now(struct job *job, struct call *call, struct outcome *outcome)
{
    if (call_is_probe(call->kind))
        probe(job, job_item(job, call->ids[0]), outcome);
    else
        outcome->mask = completed_by(job, call, program_complete(job, call));
    return outcome->mask != 0 || call_is_test(call->kind);
}

/* The call found nothing. */
static bool hold_back(struct job *job, const struct call *call)
{
    totals.found_nothing++;
    if (!call_is_probe(call->kind))
        totals.held += completed_by(job, call, program_complete(job, call)) != 0;
    return true;
}

/* Has this outcome come, which the call had in the record?  Nothing else is returned. */
static bool has_come(struct job *job, struct call *call, const struct outcome *then,
                     struct outcome *outcome)
{
    struct item *item = job_item(job, call->ids[0]);

    if (call_is_probe(call->kind)) {
        make_exact(&item->op, then->source, then->tag);
        probe(job, item, outcome);
    } else if ((program_complete(job, call) & then->mask) == then->mask) {
        *outcome = *then;
    }
    if (outcome->mask == 0 && !call->has_waited) {
        call->has_waited = true;
        totals.waited++;
    }
    return outcome->mask != 0;
}

/* The event that is to come; NULL: the recorded rank had no more. */
static const struct event *next_event(const struct job *job, uint32_t who)
{
    const struct recorded_rank *then = &job->replay->then->ranks[who];
    uint32_t next = job->replay->now.ranks[who].count;

    return next < then->count ? &then->events[next] : NULL;
}

static bool returns_as_recorded(struct job *job, uint32_t who, struct call *call,
                                struct outcome *outcome)
{
    const struct event *then = next_event(job, who);

    if (then == NULL)
        return false;
    if (then->kind != call->kind || then->count != call->count ||
        then->knows != job->ranks[who].program.knows) {
        job_wrong(job,
                  "rank %" PRIu32 " is in %s, and its event %" PRIu32 " of %" PRIu32 " was %s",
                  who, program_calls[call->kind], job->replay->now.ranks[who].count + 1,
                  job->replay->then->ranks[who].count, program_calls[then->kind]);
        return false;
    }
    if (then->outcome.mask == 0)
        return hold_back(job, call);
    return has_come(job, call, &then->outcome, outcome);
}

/* The recorded rank is in this call at the end of the record.  Where sends need less space than they did, it could end. */
static bool is_last_call(const struct job *job, uint32_t who, const struct call *call)
{
    const struct recorded_rank *then = &job->replay->then->ranks[who];

    return job->plan->is_buffered && then->call == call->kind &&
           then->next == job->ranks[who].next;
}

bool replay_returns(struct job *job, uint32_t who, struct call *call, struct outcome *outcome)
{
    struct event event = {call->kind, call->count, job->ranks[who].program.knows, {0}};
    bool returns;

    *outcome = (struct outcome){0};
    if (is_enforced(job) && is_last_call(job, who, call))
        return false;
    if (call_is_test(call->kind))
        rank_progress(job, who);
    returns = is_enforced(job) && is_event(job, call)
                  ? returns_as_recorded(job, who, call, outcome)
                  : returns_now(job, call, outcome);
    if (!returns || job->why[0] != '\0')
        return false;
    if (job->is_verbose)
        printf("%10.3f us  rank %" PRIu32 ": %s of %" PRIu32 ", ...: %" PRIx32 "\n",
               (double)(sim_now() - job->begin_ns) / 1000, who, program_calls[call->kind],
               call->ids[0], outcome->mask);
    event.outcome = *outcome;
    if (is_event(job, call))
        record_event(&job->replay->now.ranks[who], &event);
    return true;
}

/* ---- the end ---- */

void replay_stop(struct job *job)
{
    for (uint32_t who = 0; who < job->plan->ranks && job->why[0] == '\0'; who++) {
        struct rank *rank = &job->ranks[who];
        struct recorded_rank *now = &job->replay->now.ranks[who];
        const struct recorded_rank *then =
            is_enforced(job) ? &job->replay->then->ranks[who] : now;

        now->next = rank->next;
        now->call = rank->program.call.kind;
        if (now->next != then->next || now->call != then->call || now->count != then->count)
            job_wrong(job,
                      "rank %" PRIu32 " stops in %s after event %" PRIu32
                      ", and stopped in %s after event %" PRIu32,
                      who, program_calls[now->call], now->count, program_calls[then->call],
                      then->count);
        rank->program.call.kind = CALL_NOT;
        rank->next = rank->end;
    }
    job->is_over = true;
}

static void compare(struct job *job, const struct item *item)
{
    const struct recorded_item *then = then_of(job, item);
    const struct recorded_item *now = &job->replay->now.items[item->op.id];

    if (now->got != then->got)
        job_wrong(job, "%s %" PRIu32 " got message %" PRIu32 ", and gets %" PRIu32,
                  op_names[item->op.kind], item->op.id, then->got, now->got);
    else if (now->key != then->key || now->error != then->error ||
             now->is_cancelled != then->is_cancelled)
        job_wrong(job, "%s %" PRIu32 " ends otherwise than recorded: %d, %d",
                  op_names[item->op.kind], item->op.id, now->error, then->error);
}

void replay_compare(struct job *job)
{
    for (uint32_t id = 1; id <= job->plan->last_id && job->why[0] == '\0'; id++) {
        const struct item *item = job_item(job, id);
        struct recorded_item *now = &job->replay->now.items[id];

        now->got = item->got;
        now->key = item->got != 0 ? job_item(job, item->got)->key : 0;
        now->error = item->error;
        now->is_cancelled = item->is_cancelled;
        if (is_enforced(job))
            compare(job, item);
    }
}

/* ---- three runs ---- */

static bool run_one(const struct plan *plan, struct replay *replay, const char *name,
                    bool is_verbose, struct job_counts *counts, char *why, size_t size)
{
    struct job_counts more;
    char text[256];
    bool ok;

    record_init(&replay->now, plan);
    random_seed(&replay->chance, plan->network.seed + 1);
    if (is_verbose)
        printf("%s:\n", name);
    ok = job_run(plan, replay, is_verbose, &more, text, sizeof text);
    job_counts_add(counts, &more);
    if (!ok)
        snprintf(why, size, "%s: %s", name, text);
    return ok;
}

/* How many receives and matched probes got another message in the free run than in the record. */
static uint32_t differences(const struct record *a, const struct record *b)
{
    uint32_t count = 0;

    for (uint32_t id = 1; id < a->item_count; id++)
        count += a->items[id].got != b->items[id].got;
    return count;
}

static uint32_t receives_of(const struct record *r)
{
    uint32_t count = 0;

    for (uint32_t id = 1; id < r->item_count; id++)
        count += r->items[id].got != 0;
    return count;
}

static void add_free_run(const struct record *then, const struct record *free_run)
{
    uint32_t others = differences(then, free_run);

    totals.free_runs++;
    totals.others += others != 0;
    totals.free_receives += receives_of(then);
    totals.other_receives += others;
}

static void add_record(const struct plan *plan, const struct record *then)
{
    bool waits = false;

    totals.jobs++;
    totals.operations += plan->count;
    totals.receives += receives_of(then);
    for (uint32_t who = 0; who < then->rank_count; who++) {
        totals.events += then->ranks[who].count;
        waits |= then->ranks[who].call != CALL_NOT;
    }
    for (uint32_t id = 1; id < then->item_count; id++)
        totals.done += then->items[id].was_done;
    totals.waiting += waits;
}

bool replays_run(const struct plan *plan, bool is_verbose, struct job_counts *counts, char *why,
                 size_t size)
{
    struct replay record = {0}, replay = {.then = &record.now}, free_run = {0};
    struct plan moved;
    bool has_free_run = plan->seed % FREE_EACH == 0, ok;

    *counts = (struct job_counts){0};
    why[0] = '\0';
    plan_copy(&moved, plan);
    plan_move(&moved);
    ok = run_one(plan, &record, "record", is_verbose, counts, why, size) &&
         run_one(&moved, &replay, "replay", is_verbose, counts, why, size);
    if (ok)
        add_record(plan, &record.now);
    if (ok && has_free_run)
        ok = run_one(&moved, &free_run, "free run", is_verbose, counts, why, size);
    if (ok && has_free_run)
        add_free_run(&record.now, &free_run.now);
    plan_free(&moved);
    record_fini(&record.now);
    record_fini(&replay.now);
    record_fini(&free_run.now);
    return ok;
}

static uint64_t percent(uint64_t part, uint64_t whole)
{
    return whole != 0 ? part * 100 / whole : 0;
}

/* Was there something to enforce, and did it make a difference? */
static bool is_proof(void)
{
    if (totals.exact == 0 || totals.cancelled == 0 || totals.late_cancels == 0 ||
        totals.held == 0 || totals.waited == 0)
        printf("nothing is proved: one of these counts is 0\n");
    else if (percent(totals.others, totals.free_runs) < FREE_PERCENT)
        printf("nothing is proved: less than %d %% of the free runs differ\n", FREE_PERCENT);
    else
        return true;
    return false;
}

bool replays_tell(void)
{
    printf("replays: %" PRIu64 " jobs, %" PRIu64 " receives, each as recorded; %" PRIu64
           " events\n"
           "  receives posted as exact: %" PRIu64 "; withheld: %" PRIu64 ", %" PRIu64
           " of them cancelled; cancels that came too late: %" PRIu64 "\n"
           "  nothing found again: %" PRIu64 ", %" PRIu64
           " of them although something was complete; outcomes waited for: %" PRIu64 "\n"
           "  operations done: %" PRIu64 " %%; jobs in which a rank waits at the end: %" PRIu64
           " %%\n"
           "  free runs over the other network: %" PRIu64 ", of which %" PRIu64
           " %% differ; of %" PRIu64 " receives %" PRIu64 " %%\n",
           totals.jobs, totals.receives, totals.events, totals.exact, totals.withheld,
           totals.cancelled, totals.late_cancels, totals.found_nothing, totals.held,
           totals.waited, percent(totals.done, totals.operations),
           percent(totals.waiting, totals.jobs), totals.free_runs,
           percent(totals.others, totals.free_runs), totals.free_receives,
           percent(totals.other_receives, totals.free_receives));
    return totals.jobs < JOBS_OF_PROOF || is_proof();
}
