/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend.c - chunks of an endpoint, out of which its peers unpack what it has packed there.
 *
 *   sim ── chunks <── link.lender of each endpoint that borrows
 *            chunk i: lent_to, the endpoint that a packet names it to; NOBODY: free
 *
 * The chunks of an endpoint outlive it, as its packets do: whoever borrows holds them.  They are
 * few and small, so that chunks run out, and are refused by chance like room for packets.
 *
 * It is stricter than a shared segment can be: a packet that names a chunk which is not lent to
 * its receiver is an error of the library, and ends the simulation.
 *
 * What a receiver has read of a chunk is resident there, a chunk at a time, as in a shared segment.
 */
#include "testing/sim/sim_network.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "transport/lend.h"

#define NOBODY UINT32_MAX

struct sim_chunks {
    uint32_t holders, count, next;
    uint32_t lent_to[SIM_CHUNKS_MAX];
    unsigned char bytes[SIM_CHUNKS_MAX][SIM_CHUNK_SIZE];
};

static struct sim_chunks *chunks_create(void)
{
    struct sim_chunks *chunks = mem_calloc(1, sizeof *chunks);

    if (chunks == NULL)
        return NULL;
    chunks->holders = 1;
    chunks->count = sim_network.config.chunks;
    for (uint32_t i = 0; i < chunks->count; i++)
        chunks->lent_to[i] = NOBODY;
    return chunks;
}

static void chunks_let_go(struct sim_chunks *chunks)
{
    if (chunks != NULL && --chunks->holders == 0)
        mem_free(chunks);
}

/* ---- the sender ---- */

/* The other side's link to us, if it borrows; or NULL. */
static const struct sim_link *borrower_of(struct link *l)
{
    const struct sim_queue *q = sim_link_of(l)->out;

    return !sim_of(l->transport)->is_dead && q != NULL && q->receiver != NULL &&
                   q->answer != NULL && q->answer->lender != NULL && q->answer->borrows != 0
               ? q->answer
               : NULL;
}

static bool sim_lends(struct link *l)
{
    return borrower_of(l) != NULL;
}

static void *sim_lend(struct link *l, uint32_t among, uint32_t *chunk, size_t *size)
{
    struct sim_chunks *chunks = sim_of(l->transport)->chunks;
    const struct sim_link *borrower = borrower_of(l);
    uint32_t count;

    if (borrower == NULL || sim_network_chance(sim_network.config.percent_full))
        return NULL;
    count = (uint32_t)min_size(min_size(chunks->count, among), borrower->borrows);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = chunks->next++ % count;

        if (chunks->lent_to[i] != NOBODY)
            continue;
        chunks->lent_to[i] = sim_link_of(l)->remote;
        *chunk = i;
        *size = SIM_CHUNK_SIZE;
        return chunks->bytes[i];
    }
    return NULL;
}

static uint32_t sim_lend_turn(struct link *l)
{
    const struct sim_link *borrower = borrower_of(l);

    return borrower != NULL && !borrower->borrows_few ? SIM_CHUNKS_MAX : 1;
}

/* As often as not it has said so of chunks that others have by then. */
static bool sim_has_turns(struct link *l, size_t bytes)
{
    return bytes != 0 && sim_lend_turn(l) > 1 && sim_network_chance(50);
}

/* Its receiver may have ended since: then it is free already, and may be lent to another one. */
static void sim_keep(struct link *l, uint32_t chunk)
{
    struct sim_chunks *chunks = sim_of(l->transport)->chunks;

    if (chunks->lent_to[chunk] == sim_link_of(l)->remote)
        chunks->lent_to[chunk] = NOBODY;
}

/* ---- the receiver ---- */

static int sim_borrow_from(struct link *l)
{
    struct sim_link *link = sim_link_of(l);
    struct sim *lender;
    int err = sim_network_find(link->remote, &lender);

    if (link->lender != NULL)
        return 0;
    if (sim_network.config.chunks == 0)
        return -ENOTSUP;
    if (err != 0 || sim_of(l->transport)->is_dead)
        return -ENOTCONN;
    if (lender->chunks == NULL)
        lender->chunks = chunks_create();
    if (lender->chunks == NULL)
        return -EAGAIN;
    lender->chunks->holders++;
    link->lender = lender->chunks;
    return 0;
}

/* As in a shared segment, the room is divided among those of whom something is resident. */
static void sim_borrow_few(struct link *l, bool few)
{
    struct sim_link *link = sim_link_of(l);
    struct sim *sim = sim_of(l->transport);
    struct link_member *member;
    size_t position = 0;
    uint32_t lenders = link->resident == 0;

    while ((member = link_table_next(&sim->links, &position)) != NULL)
        lenders += container_of(member, struct sim_link, member)->resident != 0;
    link->borrows =
        (uint32_t)min_size(sim->borrow_room / SIM_CHUNK_SIZE / lenders, SIM_CHUNKS_MAX);
    link->borrows_few = few;
}

static uint64_t sim_resident(const struct transport *t)
{
    const struct sim *sim = sim_of(t);
    struct link_member *member;
    size_t position = 0;
    uint64_t bytes = 0;

    while ((member = link_table_next(&sim->links, &position)) != NULL)
        bytes += SIM_CHUNK_SIZE * (uint64_t)__builtin_popcount(
                                      container_of(member, struct sim_link, member)->resident);
    return bytes;
}

/* There is more than so much of all who lend: then it is none. */
static void keep_resident(struct sim *sim, uint64_t most)
{
    struct link_member *member;
    size_t position = 0;

    if (sim_resident(&sim->base) <= most)
        return;
    while ((member = link_table_next(&sim->links, &position)) != NULL)
        container_of(member, struct sim_link, member)->resident = 0;
}

static void sim_borrow_room(struct transport *t, uint64_t bytes)
{
    sim_of(t)->borrow_room = bytes;
    keep_resident(sim_of(t), bytes);
}

static bool sim_borrows(struct link *l)
{
    return sim_link_of(l)->lender != NULL && sim_link_of(l)->borrows != 0;
}

static bool sim_borrows_many(struct link *l)
{
    return sim_borrows(l) && !sim_link_of(l)->borrows_few;
}

static const void *sim_borrowed(struct link *l, uint64_t chunk, uint64_t size)
{
    const struct sim_chunks *lender = sim_link_of(l)->lender;
    struct sim *sim = sim_of(l->transport);

    assert(lender != NULL && chunk < lender->count && size <= SIM_CHUNK_SIZE);
    assert(lender->lent_to[chunk] == sim->index);
    if ((sim_link_of(l)->resident & 1u << chunk) == 0)
        keep_resident(sim, sim->borrow_room - min_size(sim->borrow_room, SIM_CHUNK_SIZE));
    sim_link_of(l)->resident |= 1u << chunk;
    return lender->bytes[chunk];
}

/* Whoever packs into it from now on is not in the way of who reads it still. */
static void sim_give_back(struct link *l, uint64_t chunk)
{
    struct sim_chunks *lender = sim_link_of(l)->lender;

    assert(lender->lent_to[chunk] == sim_of(l->transport)->index);
    lender->lent_to[chunk] = NOBODY;
    memset(lender->bytes[chunk], 0xdb, SIM_CHUNK_SIZE);
    keep_resident(sim_of(l->transport), sim_of(l->transport)->borrow_room);
}

/* ---- the end ---- */

void lend_end_link(struct sim *sim, struct sim_link *link)
{
    struct sim_chunks *lender = link->lender;

    link->lender = NULL;
    if (lender == NULL)
        return;
    for (uint32_t i = 0; i < lender->count; i++)
        if (lender->lent_to[i] == sim->index)
            lender->lent_to[i] = NOBODY;
    chunks_let_go(lender);
}

void lend_leave(struct sim *sim)
{
    chunks_let_go(sim->chunks);
}

const struct transport_lend sim_chunks = {
    .lend = sim_lend,
    .lends = sim_lends,
    .turn = sim_lend_turn,
    .has_turns = sim_has_turns,
    .keep = sim_keep,
    .borrow_from = sim_borrow_from,
    .borrow_few = sim_borrow_few,
    .borrow_room = sim_borrow_room,
    .resident = sim_resident,
    .borrows = sim_borrows,
    .borrows_many = sim_borrows_many,
    .borrowed = sim_borrowed,
    .give_back = sim_give_back,
};
