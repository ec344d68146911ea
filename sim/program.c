/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * program.c - see program.h.
 */
#include "program.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/random.h"
#include "job.h"
#include "replays.h"

/* A call that asks again does so after so long, and later the longer nothing has happened.  When nothing has happened for
 * ASK_ALL_NS, which is longer than any rank stalls, nothing will. */
#define ASK_NS     (2 * CLOCK_US)
#define ASK_ALL_NS (500 * CLOCK_MS)

const char *const program_calls[CALL_KINDS] = {
    [CALL_NOT] = "no call",     [CALL_WAIT] = "Wait",         [CALL_WAITALL] = "Waitall",
    [CALL_WAITANY] = "Waitany", [CALL_WAITSOME] = "Waitsome", [CALL_TEST] = "Test",
    [CALL_TESTALL] = "Testall", [CALL_TESTANY] = "Testany",   [CALL_TESTSOME] = "Testsome",
    [CALL_IPROBE] = "Iprobe",   [CALL_PROBE] = "Probe",
};

/* ---- plans ---- */

void program_draw(struct plan *plan)
{
    static const uint32_t blocking[] = {0, 3, 10, 30}, wild[] = {20, 50, 80};
    struct random r;
    uint32_t kept = 0, percent_wild;

    random_seed(&r, plan->seed ^ UINT64_C(0x7265706c61797321));
    plan->is_replayed = true;
    plan->is_buffered = random_below(&r, 3) == 0;
    if (plan->is_buffered)
        plan->percent_pieces = 0;
    plan->percent_calls = 20 + (uint32_t)random_below(&r, 71);
    plan->percent_blocking = blocking[random_below(&r, ARRAY_COUNT(blocking))];
    plan->percent_depends = (uint32_t)random_below(&r, 61);
    percent_wild = wild[random_below(&r, ARRAY_COUNT(wild))];
    plan->has_deaths = false;
    plan->percent_memory = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        struct op op = plan->ops[i];

        if (op.kind == OP_DIE || op.kind == OP_LEAVE)
            continue;
        if (op.kind >= OP_RECV && op.kind <= OP_MPROBE && random_below(&r, 100) < percent_wild)
            op.peer = PLAN_ANYBODY;
        plan->ops[kept++] = op;
    }
    plan->count = kept;
}

void program_begin(struct program *program)
{
    *program = (struct program){.last_source = PLAN_ANYBODY};
}

/* ---- results that a rank knows ---- */

static uint64_t mixed(uint64_t knows, uint64_t value)
{
    knows = (knows ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return knows ^ knows >> 29;
}

static void learn(struct program *program, uint64_t value)
{
    program->knows = mixed(program->knows, value);
}

static void learn_message(struct job *job, struct program *program, uint32_t id)
{
    const struct item *message = job_item(job, id);

    learn(program, message->op.rank);
    learn(program, message->op.tag);
    learn(program, message->op.size);
    program->last_source = message->op.rank;
}

/* A call has reported that the operation is complete. */
static void learn_completion(struct job *job, struct program *program, struct item *item)
{
    item->is_reported = true;
    learn(program, item->is_cancelled);
    learn(program, (uint64_t)(int64_t)item->error);
    if (!item_is_receive(item) || item->got == 0)
        return;
    learn_message(job, program, item->got);
    learn(program, job_item(job, item->got)->key);
}

static void learn_outcome(struct job *job, struct program *program, const struct call *call,
                          const struct outcome *outcome)
{
    learn(program, call->kind);
    learn(program, outcome->mask);
    for (uint32_t i = 0; i < call->count; i++) {
        struct item *item = job_item(job, call->ids[i]);

        if ((outcome->mask >> i & 1) == 0)
            continue;
        if (call_is_probe(call->kind))
            learn_message(job, program, item->got);
        else
            learn_completion(job, program, item);
    }
}

/* ---- operations that depend on these results ---- */

static void depend_send(const struct program *program, struct random *r, struct op *op)
{
    static const uint32_t sizes[] = {0, 8, 40, 600, 5000, 20000};

    op->tag = random_below(r, 2);
    if (program->last_source != PLAN_ANYBODY && random_below(r, 2) == 0)
        op->peer = program->last_source;
    op->size = sizes[random_below(r, op->kind == OP_INJECT ? 3 : ARRAY_COUNT(sizes))];
    if (op->kind != OP_INJECT)
        op->kind = random_below(r, 4) == 0 ? OP_SSEND : OP_SEND;
}

static void depend_pattern(const struct program *program, struct random *r, struct op *op)
{
    static const uint64_t ignores[] = {0, 0, 1, MBX_IGNORE_ALL};

    op->tag = random_below(r, 2);
    op->ignore = ignores[random_below(r, ARRAY_COUNT(ignores))];
    if (random_below(r, 2) == 0)
        op->peer = random_below(r, 2) == 0 ? PLAN_ANYBODY : program->last_source;
}

static bool is_active(const struct item *item)
{
    return (item_has_request(item) || item->is_withheld) && !item->is_reported;
}

/* One of the receives that were not reported complete, or none. */
static uint32_t some_receive(struct job *job, const struct rank *rank, struct random *r)
{
    uint32_t chosen = 0, seen = 0;

    for (uint32_t i = rank->first; i < rank->next; i++) {
        const struct item *item = job_item(job, job->plan->ops[i].id);

        if (is_active(item) && item->op.kind == OP_RECV && random_below(r, ++seen) == 0)
            chosen = item->op.id;
    }
    return chosen;
}

static void depend(struct job *job, const struct rank *rank, struct op *op)
{
    const struct program *program = &rank->program;
    struct random r;
    bool depends;

    random_seed(&r, job->plan->seed * 8191 + op->id);
    depends = random_below(&r, 100) < job->plan->percent_depends;
    random_seed(&r, program->knows + op->id);
    if (op->kind == OP_CANCEL)
        op->target = some_receive(job, rank, &r);
    else if (depends && op_is_message(op))
        depend_send(program, &r, op);
    else if (depends && op->kind >= OP_RECV && op->kind <= OP_MPROBE)
        depend_pattern(program, &r, op);
    else if (depends && (op->kind == OP_MRECV || op->kind == OP_DISCARD))
        op->kind = random_below(&r, 4) != 0 ? OP_MRECV : OP_DISCARD;
}

/* ---- calls ---- */

static void begin_probe(struct job *job, struct program *program, const struct op *op)
{
    struct random r;

    random_seed(&r, program->knows + op->id + 1);
    program->call = (struct call){
        .kind = random_below(&r, 100) < job->plan->percent_blocking ? CALL_PROBE : CALL_IPROBE,
        .ids = {op->id},
        .count = 1,
        .tries = 1 + (uint32_t)random_below(&r, 6)};
}

/* Operations that are not reported complete, the latest first. */
static void choose(struct job *job, const struct rank *rank, struct call *call,
                   struct random *r)
{
    for (uint32_t i = rank->next + 1; i-- > rank->first && call->count < CALL_MAX;) {
        const struct item *item = job_item(job, job->plan->ops[i].id);

        if (is_active(item) && random_below(r, 2) == 0)
            call->ids[call->count++] = item->op.id;
    }
}

static void begin_call(struct job *job, struct rank *rank, uint32_t id)
{
    static const enum call_kind waits[] = {CALL_WAIT,    CALL_WAITALL, CALL_WAITANY,
                                           CALL_WAITANY, CALL_WAITANY, CALL_WAITSOME,
                                           CALL_WAITSOME};
    static const enum call_kind tests[] = {CALL_TEST,    CALL_TESTALL,  CALL_TESTANY,
                                           CALL_TESTANY, CALL_TESTSOME, CALL_TESTSOME};
    struct call call = {0};
    struct random r;

    random_seed(&r, rank->program.knows + id + 2);
    if (random_below(&r, 100) >= job->plan->percent_calls)
        return;
    call.kind = random_below(&r, 100) < job->plan->percent_blocking
                    ? waits[random_below(&r, ARRAY_COUNT(waits))]
                    : tests[random_below(&r, ARRAY_COUNT(tests))];
    call.tries = 1 + (uint32_t)random_below(&r, 6);
    choose(job, rank, &call, &r);
    if (call.count > 1 && (call.kind == CALL_WAIT || call.kind == CALL_TEST))
        call.count = 1;
    if (call.count > 0)
        rank->program.call = call;
}

void program_do(struct job *job, uint32_t who, struct item *item)
{
    struct rank *rank = &job->ranks[who];

    depend(job, rank, &item->op);
    item->key = (uint32_t)(mixed(rank->program.knows, item->op.id) >> 32);
    replay_look(job, item);
    if (job->why[0] != '\0')
        return;
    if (item->op.kind == OP_PROBE || item->op.kind == OP_MPROBE) {
        begin_probe(job, &rank->program, &item->op);
        return;
    }
    replay_do(job, item);
    begin_call(job, rank, item->op.id);
}

static bool is_complete(const struct job *job, const struct item *item)
{
    if (item->is_withheld)
        return item->is_cancelled;
    if (item->completions == 0)
        return false;
    return item->is_received || !op_is_message(&item->op) ||
           (job->plan->is_buffered && item->op.kind == OP_SEND);
}

uint32_t program_complete(struct job *job, const struct call *call)
{
    uint32_t mask = 0;

    for (uint32_t i = 0; i < call->count; i++)
        mask |= (uint32_t)is_complete(job, job_item(job, call->ids[i])) << i;
    return mask;
}

static void ask_later(const struct job *job, struct call *call)
{
    call->ask_ns = sim_now() + ASK_NS + (sim_now() - job->last_ns) / 8;
}

bool program_return(struct job *job, uint32_t who)
{
    struct program *program = &job->ranks[who].program;
    struct call *call = &program->call;
    struct outcome outcome;

    if (call->kind == CALL_NOT)
        return true;
    if (sim_now() < call->ask_ns || job->why[0] != '\0')
        return false;
    if (!replay_returns(job, who, call, &outcome)) {
        call->ask_ns = 0;
        if (call_is_probe(call->kind))
            ask_later(job, call);
        return false;
    }
    learn_outcome(job, program, call, &outcome);
    if (outcome.mask == 0 && --call->tries != 0) {
        call->has_waited = false;
        ask_later(job, call);
        return false;
    }
    call->kind = CALL_NOT;
    return true;
}

uint64_t program_again_ns(const struct job *job, uint32_t who)
{
    const struct call *call = &job->ranks[who].program.call;

    return call->kind != CALL_NOT && sim_now() < job->last_ns + ASK_ALL_NS ? call->ask_ns : 0;
}
