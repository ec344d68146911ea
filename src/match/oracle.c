/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oracle.c - see oracle.h.
 */
#include "match/oracle.h"

#include <assert.h>
#include <string.h>

static bool fits(const struct mbx_match_envelope *recv, uint64_t ignore,
                 const struct mbx_match_envelope *msg)
{
    if (recv->context_id != msg->context_id)
        return false;
    if (recv->source != MBX_MATCH_ANY_SOURCE && recv->source != msg->source)
        return false;
    return (recv->tag | ignore) == (msg->tag | ignore);
}

static void append(struct oracle_queue *queue, struct oracle_entry entry)
{
    assert(queue->count < ORACLE_MAX);
    queue->entries[queue->count++] = entry;
}

/* Takes entry i out; the rest keep their order. */
static int oracle_take(struct oracle_queue *queue, int i)
{
    int id = queue->entries[i].id;

    queue->count--;
    memmove(&queue->entries[i], &queue->entries[i + 1],
            sizeof queue->entries[0] * (size_t)(queue->count - i));
    return id;
}

static bool take_id(struct oracle_queue *queue, int id)
{
    for (int i = 0; i < queue->count; i++)
        if (queue->entries[i].id == id)
            return oracle_take(queue, i) == id;
    return false;
}

static int first_msg(const struct oracle *o, struct mbx_match_envelope envelope,
                     uint64_t ignore)
{
    for (int i = 0; i < o->msgs.count; i++)
        if (fits(&envelope, ignore, &o->msgs.entries[i].envelope))
            return i;
    return -1;
}

void oracle_init(struct oracle *o)
{
    o->recvs.count = o->msgs.count = 0;
}

int oracle_post(struct oracle *o, struct mbx_match_envelope envelope, uint64_t ignore, int id)
{
    int i = first_msg(o, envelope, ignore);

    if (i >= 0)
        return oracle_take(&o->msgs, i);
    append(&o->recvs, (struct oracle_entry){envelope, ignore, id});
    return -1;
}

int oracle_find(struct oracle *o, struct mbx_match_envelope envelope)
{
    for (int i = 0; i < o->recvs.count; i++)
        if (fits(&o->recvs.entries[i].envelope, o->recvs.entries[i].ignore, &envelope))
            return oracle_take(&o->recvs, i);
    return -1;
}

int oracle_arrive(struct oracle *o, struct mbx_match_envelope envelope, int id)
{
    int recv = oracle_find(o, envelope);

    if (recv < 0)
        append(&o->msgs, (struct oracle_entry){envelope, 0, id});
    return recv;
}

int oracle_peek(const struct oracle *o, struct mbx_match_envelope envelope, uint64_t ignore)
{
    int i = first_msg(o, envelope, ignore);

    return i < 0 ? -1 : o->msgs.entries[i].id;
}

bool oracle_cancel(struct oracle *o, int id)
{
    return take_id(&o->recvs, id);
}

bool oracle_extract(struct oracle *o, int id)
{
    return take_id(&o->msgs, id);
}
