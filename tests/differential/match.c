/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.c - Matchbox's matching engine by itself, through match.h.
 *
 * A call is done when it returns: there is nothing to settle.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "engine.h"

struct direct {
    struct engine engine;
    struct mbx_match match;
    struct mbx_match_recv recvs[HISTORY_MAX];
    struct mbx_match_msg msgs[HISTORY_MAX];
};

static int create(const char *argument, struct engine **e)
{
    struct direct *d;

    if (argument != NULL)
        return -EINVAL;
    d = calloc(1, sizeof *d);
    if (d == NULL)
        return -ENOMEM;
    d->engine.can = ENGINE_CAN_ALL;
    snprintf(d->engine.version, sizeof d->engine.version, "match.h of this tree");
    *e = &d->engine;
    return 0;
}

static void destroy(struct engine *e)
{
    free(container_of(e, struct direct, engine));
}

static int begin(struct engine *e)
{
    mbx_match_init(&container_of(e, struct direct, engine)->match, NULL);
    return 0;
}

/* Entries that are still queued become idle, like all others. */
static void end(struct engine *e)
{
    mbx_match_fini(&container_of(e, struct direct, engine)->match);
}

static int post(struct direct *d, const struct op *op)
{
    struct mbx_match_recv *recv = &d->recvs[op->id];
    struct mbx_match_msg *met;

    recv->envelope = op->envelope;
    recv->ignore = op->ignore;
    if (mbx_match_post(&d->match, recv, &met) != 0)
        return ANSWER_BROKEN;
    return met != NULL ? (int)(met - d->msgs) : ANSWER_NOBODY;
}

static int arrive(struct direct *d, const struct op *op)
{
    struct mbx_match_msg *msg = &d->msgs[op->id];
    struct mbx_match_recv *met;

    msg->envelope = op->envelope;
    if (mbx_match_arrive(&d->match, msg, &met) != 0)
        return ANSWER_BROKEN;
    return met != NULL ? (int)(met - d->recvs) : ANSWER_NOBODY;
}

static int probe(struct direct *d, const struct op *op)
{
    struct mbx_match_msg *msg = mbx_match_peek(&d->match, &op->envelope, op->ignore);

    if (msg == NULL)
        return ANSWER_NOBODY;
    if (op->kind == OP_PROBE && !mbx_match_extract(&d->match, msg))
        return ANSWER_BROKEN;
    return (int)(msg - d->msgs);
}

static int answer(struct engine *e, const struct op *op)
{
    struct direct *d = container_of(e, struct direct, engine);

    if (op->kind == OP_POST)
        return post(d, op);
    if (op->kind == OP_ARRIVE)
        return arrive(d, op);
    if (op->kind == OP_CANCEL)
        return mbx_match_cancel(&d->match, &d->recvs[op->target]);
    return probe(d, op);
}

const struct engine_kind engine_match = {
    .name = "match",
    .about = "Matchbox's engine through match.h",
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .end = end,
    .answer = answer,
};
