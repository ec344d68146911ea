/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wrong.c - engines that are wrong on purpose: does the driver find them?
 *
 *   any-source  a receive from any source loses to a younger directed one, as in a
 *               matcher that searches its queues for each source first
 *   cancel      cancels the youngest receive instead of the one that was meant
 *   dies        the process crashes when a directed receive is cancelled
 *   stalls      does not answer after STALL_DEPTH messages that nobody has received
 *
 * In everything else they follow the oracle.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "engine.h"

#define STALL_DEPTH 8

enum fault { ANY_SOURCE, CANCEL, DIES, STALLS, FAULTS };

static const char *const fault_names[FAULTS] = {
    [ANY_SOURCE] = "any-source", [CANCEL] = "cancel", [DIES] = "dies", [STALLS] = "stalls"};

struct wrong {
    struct engine engine;
    enum fault fault;
    struct oracle oracle;
};

static int create(const char *argument, struct engine **e)
{
    struct wrong *w;

    for (int fault = 0; fault < FAULTS; fault++) {
        if (argument != NULL && strcmp(argument, fault_names[fault]) != 0)
            continue;
        w = calloc(1, sizeof *w);
        if (w == NULL)
            return -ENOMEM;
        w->fault = (enum fault)fault;
        w->engine.can = ENGINE_CAN_ALL;
        snprintf(w->engine.version, sizeof w->engine.version, "%s", fault_names[fault]);
        *e = &w->engine;
        return 0;
    }
    return -EINVAL;
}

static void destroy(struct engine *e)
{
    free(container_of(e, struct wrong, engine));
}

static int begin(struct engine *e)
{
    oracle_init(&container_of(e, struct wrong, engine)->oracle);
    return 0;
}

static void end(struct engine *e)
{
    (void)e;
}

/* Returns the oracle without the receives from any source. */
static struct oracle only_directed(const struct oracle *all)
{
    struct oracle directed = {.msgs = {.count = 0}};

    for (int i = 0; i < all->recvs.count; i++)
        if (all->recvs.entries[i].envelope.source != MBX_MATCH_ANY_SOURCE)
            directed.recvs.entries[directed.recvs.count++] = all->recvs.entries[i];
    return directed;
}

static int arrive_at_directed_first(struct oracle *o, const struct op *op)
{
    struct oracle directed = only_directed(o);
    int id = oracle_find(&directed, op->envelope);

    if (id == ANSWER_NOBODY)
        return history_oracle_answer(o, op);
    oracle_cancel(o, id);
    return id;
}

static int cancel_youngest(struct oracle *o, const struct op *op)
{
    int youngest = o->recvs.count == 0 ? op->target : o->recvs.entries[o->recvs.count - 1].id;
    bool is_there = false;

    for (int i = 0; i < o->recvs.count; i++)
        is_there = is_there || o->recvs.entries[i].id == op->target;
    return is_there && oracle_cancel(o, youngest);
}

static bool is_directed(const struct oracle *o, int id)
{
    for (int i = 0; i < o->recvs.count; i++)
        if (o->recvs.entries[i].id == id)
            return o->recvs.entries[i].envelope.source != MBX_MATCH_ANY_SOURCE;
    return false;
}

static int answer(struct engine *e, const struct op *op)
{
    struct wrong *w = container_of(e, struct wrong, engine);
    struct oracle *o = &w->oracle;

    if (w->fault == ANY_SOURCE && op->kind == OP_ARRIVE)
        return arrive_at_directed_first(o, op);
    if (w->fault == CANCEL && op->kind == OP_CANCEL)
        return cancel_youngest(o, op);
    if (w->fault == DIES && op->kind == OP_CANCEL && is_directed(o, op->target))
        raise(SIGSEGV);
    if (w->fault == STALLS && o->msgs.count >= STALL_DEPTH)
        return ANSWER_STALLED;
    return history_oracle_answer(o, op);
}

const struct engine_kind engine_wrong = {
    .name = "wrong",
    .about = "wrong on purpose: wrong:any-source, :cancel, :dies, :stalls",
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .end = end,
    .answer = answer,
};
