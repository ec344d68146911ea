/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounce.c - bounce buffers of an endpoint, from which its peers unpack the data that it has packed.
 *
 *   sim ── buffers <── link.sender of each endpoint that maps them
 *            buffer i: taken_for, the endpoint that a packet names it to; NOBODY: free
 *
 * The buffers of an endpoint outlive it, as its packets do: each endpoint that maps them holds them.
 * They are few and small, so that they run out, and are randomly refused, like space for packets.
 *
 * It is stricter than a shared segment can be: a packet that names a buffer which is not taken for
 * its receiver is an error of the library, and ends the simulation.
 *
 * A buffer that a receiver has read becomes resident there as a whole, as in a shared segment.
 */
#include "testing/sim/sim_network.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "transport/bounce.h"

#define NOBODY UINT32_MAX

struct sim_buffers {
    uint32_t holders, count, next;
    uint32_t taken_for[SIM_BUFFERS_MAX];
    unsigned char bytes[SIM_BUFFERS_MAX][SIM_BUFFER_SIZE];
};

static struct sim_buffers *buffers_create(void)
{
    struct sim_buffers *buffers = mem_calloc(1, sizeof *buffers);

    if (buffers == NULL)
        return NULL;
    buffers->holders = 1;
    buffers->count = sim_network.config.buffers;
    for (uint32_t i = 0; i < buffers->count; i++)
        buffers->taken_for[i] = NOBODY;
    return buffers;
}

static void buffers_let_go(struct sim_buffers *buffers)
{
    if (buffers != NULL && --buffers->holders == 0)
        mem_free(buffers);
}

/* ---- the sender ---- */

/* The other side's link to us, if it allows buffers; or NULL. */
static const struct sim_link *receiver_of_link(struct link *l)
{
    const struct sim_queue *q = sim_link_of(l)->out;

    return !sim_of(l->transport)->is_dead && q != NULL && q->receiver != NULL &&
                   q->answer != NULL && q->answer->sender != NULL && q->answer->allowed != 0
               ? q->answer
               : NULL;
}

static bool sim_bounce_can_take(struct link *l)
{
    return receiver_of_link(l) != NULL;
}

static void *sim_bounce_take(struct link *l, uint32_t among, uint32_t *buffer, size_t *size)
{
    struct sim_buffers *buffers = sim_of(l->transport)->buffers;
    const struct sim_link *receiver = receiver_of_link(l);
    uint32_t count;

    if (receiver == NULL || sim_network_chance(sim_network.config.percent_full))
        return NULL;
    count = (uint32_t)min_size(min_size(buffers->count, among), receiver->allowed);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = buffers->next++ % count;

        if (buffers->taken_for[i] != NOBODY)
            continue;
        buffers->taken_for[i] = sim_link_of(l)->remote;
        *buffer = i;
        *size = SIM_BUFFER_SIZE;
        return buffers->bytes[i];
    }
    return NULL;
}

static uint32_t sim_bounce_rotation(struct link *l)
{
    const struct sim_link *receiver = receiver_of_link(l);

    return receiver != NULL && !receiver->allowed_few ? SIM_BUFFERS_MAX : 1;
}

/* In half of the cases other links have taken these buffers before the caller does. */
static bool sim_bounce_has_free(struct link *l, size_t bytes)
{
    return bytes != 0 && sim_bounce_rotation(l) > 1 && sim_network_chance(50);
}

/* The receiver may have ended since: then the buffer is free already, and may be taken for
 * another one. */
static void sim_bounce_untake(struct link *l, uint32_t buffer)
{
    struct sim_buffers *buffers = sim_of(l->transport)->buffers;

    if (buffers->taken_for[buffer] == sim_link_of(l)->remote)
        buffers->taken_for[buffer] = NOBODY;
}

/* ---- the receiver ---- */

static int sim_bounce_map(struct link *l)
{
    struct sim_link *link = sim_link_of(l);
    struct sim *sender;
    int err = sim_network_find(link->remote, &sender);

    if (link->sender != NULL)
        return 0;
    if (sim_network.config.buffers == 0)
        return -ENOTSUP;
    if (err != 0 || sim_of(l->transport)->is_dead)
        return -ENOTCONN;
    if (sender->buffers == NULL)
        sender->buffers = buffers_create();
    if (sender->buffers == NULL)
        return -EAGAIN;
    sender->buffers->holders++;
    link->sender = sender->buffers;
    return 0;
}

/* As in a shared segment, the limit is divided among the senders that have resident buffers. */
static void sim_bounce_allow(struct link *l, bool few)
{
    struct sim_link *link = sim_link_of(l);
    struct sim *sim = sim_of(l->transport);
    struct link_member *member;
    size_t position = 0;
    uint32_t senders = link->resident == 0;

    while ((member = link_table_next(&sim->links, &position)) != NULL)
        senders += container_of(member, struct sim_link, member)->resident != 0;
    link->allowed =
        (uint32_t)min_size(sim->bounce_limit / SIM_BUFFER_SIZE / senders, SIM_BUFFERS_MAX);
    link->allowed_few = few;
}

static uint64_t sim_bounce_resident(const struct transport *t)
{
    const struct sim *sim = sim_of(t);
    struct link_member *member;
    size_t position = 0;
    uint64_t bytes = 0;

    while ((member = link_table_next(&sim->links, &position)) != NULL)
        bytes += SIM_BUFFER_SIZE * (uint64_t)__builtin_popcount(
                                       container_of(member, struct sim_link, member)->resident);
    return bytes;
}

/* If more than `most` bytes of all senders are resident, releases them all. */
static void keep_resident(struct sim *sim, uint64_t most)
{
    struct link_member *member;
    size_t position = 0;

    if (sim_bounce_resident(&sim->base) <= most)
        return;
    while ((member = link_table_next(&sim->links, &position)) != NULL)
        container_of(member, struct sim_link, member)->resident = 0;
}

static void sim_bounce_limit(struct transport *t, uint64_t bytes)
{
    sim_of(t)->bounce_limit = bytes;
    keep_resident(sim_of(t), bytes);
}

static bool sim_bounce_allows(struct link *l)
{
    return sim_link_of(l)->sender != NULL && sim_link_of(l)->allowed != 0;
}

static bool sim_bounce_allows_many(struct link *l)
{
    return sim_bounce_allows(l) && !sim_link_of(l)->allowed_few;
}

static const void *sim_bounce_find(struct link *l, uint64_t buffer, uint64_t size)
{
    const struct sim_buffers *sender = sim_link_of(l)->sender;
    struct sim *sim = sim_of(l->transport);

    assert(sender != NULL && buffer < sender->count && size <= SIM_BUFFER_SIZE);
    assert(sender->taken_for[buffer] == sim->index);
    if ((sim_link_of(l)->resident & 1u << buffer) == 0)
        keep_resident(sim, sim->bounce_limit - min_size(sim->bounce_limit, SIM_BUFFER_SIZE));
    sim_link_of(l)->resident |= 1u << buffer;
    return sender->bytes[buffer];
}

/* A reader that still reads the buffer finds this pattern. */
static void sim_bounce_release(struct link *l, uint64_t buffer)
{
    struct sim_buffers *sender = sim_link_of(l)->sender;

    assert(sender->taken_for[buffer] == sim_of(l->transport)->index);
    sender->taken_for[buffer] = NOBODY;
    memset(sender->bytes[buffer], 0xdb, SIM_BUFFER_SIZE);
    keep_resident(sim_of(l->transport), sim_of(l->transport)->bounce_limit);
}

/* ---- the end ---- */

void bounce_end_link(struct sim *sim, struct sim_link *link)
{
    struct sim_buffers *sender = link->sender;

    link->sender = NULL;
    if (sender == NULL)
        return;
    for (uint32_t i = 0; i < sender->count; i++)
        if (sender->taken_for[i] == sim->index)
            sender->taken_for[i] = NOBODY;
    buffers_let_go(sender);
}

void bounce_leave(struct sim *sim)
{
    buffers_let_go(sim->buffers);
}

const struct transport_bounce sim_bounce = {
    .take = sim_bounce_take,
    .can_take = sim_bounce_can_take,
    .rotation = sim_bounce_rotation,
    .has_free = sim_bounce_has_free,
    .untake = sim_bounce_untake,
    .map = sim_bounce_map,
    .allow = sim_bounce_allow,
    .limit = sim_bounce_limit,
    .resident = sim_bounce_resident,
    .allows = sim_bounce_allows,
    .allows_many = sim_bounce_allows_many,
    .find = sim_bounce_find,
    .release = sim_bounce_release,
};
