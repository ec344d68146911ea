/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meetings.c - which receive has met which message, as an answer.
 */
#include <string.h>

#include "engine.h"

/* The id is in the data and in the length; both must agree. */
static int message_id(const void *data, size_t size)
{
    int said;

    if (engine_message_id(size) == ANSWER_BROKEN)
        return ANSWER_BROKEN;
    memcpy(&said, data, sizeof said);
    return said == engine_message_id(size) ? said : ANSWER_BROKEN;
}

void meetings_add(struct meetings *m, int recv, const void *data, size_t size)
{
    if (m->count++ != 0)
        return;
    m->recv = recv;
    m->msg = message_id(data, size);
}

int meetings_answer(const struct meetings *m, const struct op *op)
{
    if (m->count == 0)
        return ANSWER_NOBODY;
    if (m->count > 1 || m->msg == ANSWER_BROKEN)
        return ANSWER_BROKEN;
    if (op->kind == OP_POST && m->recv == op->id)
        return m->msg;
    if (op->kind == OP_ARRIVE && m->msg == op->id)
        return m->recv;
    return ANSWER_BROKEN;
}
