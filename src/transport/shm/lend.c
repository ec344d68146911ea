/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend.c - chunks of our segment, out of which peers unpack what we have packed there.
 *
 *   our segment, chunk i          lent_to[i]    who lends knows     lent[i]    both see
 *     free                        NULL                              0
 *     lent                        the link                          1
 *     given back                  the link                          0, by the receiver
 *
 * They are lent in turn, and may be more than the second cache of a core holds: then what is packed goes into lines
 * that have left the receiver's cache.  To fetch a line out of the cache of another core takes three
 * times as long (docs/decisions/0032).  Where that cache holds all of them, LEND_FEW are as
 * good; and they are enough for a receiver whose messages find no receives.
 *
 * A receiver says in its slot for a sender that it borrows, and how many chunks.  Before that it maps all of the sender's
 * segment, and holds it until it has taken all that this sender has sent: a sender may close, and be
 * gone, behind a packet that names a chunk.
 *
 * What is read of a chunk becomes resident in the receiver, and stays so.  All chunks of all who lend to an
 * endpoint are never more than it has room for: before one more would be, it lets go of all of them, which costs their
 * next reader a fault for each page.  So that this is seldom, the room is divided among those of whom something is
 * resident, and the slot says what each of them may name.
 *
 * What a receiver does not give back, because it has died, is free when the link to it ends.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/sys.h"
#include "transport/lend.h"
#include "transport/shm/shm.h"

#define LEND_FEW 16u

/* ---- the sender ---- */

static uint64_t what_borrows(struct link *l)
{
    struct shm_link *link = link_of(l);
    struct shm *shm = shm_of(l->transport);

    /* pairs with the release in shm_borrow_from() */
    return shm->role == SHM_WHOLE && link_has_slot(link)
               ? atomic_load_explicit(&segment_slot(link->remote, link->slot)->borrows,
                                      memory_order_acquire)
               : 0;
}

static bool shm_lends(struct link *l)
{
    return slot_chunks(what_borrows(l)) != 0;
}

bool lend_fits(size_t second_cache)
{
    return second_cache >= SEGMENT_CHUNKS * SEGMENT_CHUNK_SIZE;
}

uint32_t lend_turn(size_t second_cache)
{
    return second_cache != 0 && !lend_fits(second_cache) ? SEGMENT_CHUNKS : LEND_FEW;
}

static uint32_t shm_lend_turn(struct link *l)
{
    uint64_t borrows = what_borrows(l);

    return (uint32_t)min_size(borrows & SLOT_BORROWS_FEW ? LEND_FEW
                                                         : shm_of(l->transport)->lend_turn,
                              slot_chunks(borrows));
}

/* pairs with the release in shm_give_back(): all of it was read */
static bool chunk_is_free(struct shm *shm, uint32_t i)
{
    return shm->lent_to[i] == NULL ||
           atomic_load_explicit(&shm->own->file->lent[i], memory_order_acquire) == 0;
}

/* Chunks come back in the order in which they are lent, but for those of other receivers: where the last of them is
 * free, those before it are, or who lends them finds that out. */
static bool shm_has_turns(struct link *l, size_t bytes)
{
    const uint32_t turn = shm_lend_turn(l);
    const size_t all = turn * SEGMENT_CHUNK_SIZE;
    const size_t wanted = bytes == SIZE_MAX ? all : bytes;
    struct shm *shm = shm_of(l->transport);
    uint32_t last = shm->lend_next + (uint32_t)((wanted - 1) / SEGMENT_CHUNK_SIZE);

    return turn > LEND_FEW && wanted <= all && chunk_is_free(shm, last % turn);
}

static void *lend_chunk(struct shm *shm, struct shm_link *link, uint32_t i)
{
    shm->lent_to[i] = link;
    /* the packet that names it is published behind this */
    atomic_store_explicit(&shm->own->file->lent[i], 1, memory_order_relaxed);
    return segment_chunk(shm->own, i);
}

static void *shm_lend(struct link *l, uint32_t among, uint32_t *chunk, size_t *size)
{
    const uint32_t chunks = (uint32_t)min_size(among, slot_chunks(what_borrows(l)));
    struct shm *shm = shm_of(l->transport);

    for (uint32_t n = 0; n < chunks; n++) {
        uint32_t i = shm->lend_next++ % chunks;

        if (chunk_is_free(shm, i)) {
            *chunk = i;
            *size = SEGMENT_CHUNK_SIZE;
            return lend_chunk(shm, link_of(l), i);
        }
    }
    return NULL;
}

/* The link may have ended since: then it is free already. */
static void shm_keep(struct link *l, uint32_t chunk)
{
    struct shm *shm = shm_of(l->transport);

    if (shm->lent_to[chunk] == link_of(l))
        shm->lent_to[chunk] = NULL;
}

void lend_forget(struct shm *shm, const struct shm_link *link)
{
    for (uint32_t i = 0; i < SEGMENT_CHUNKS; i++)
        if (shm->lent_to[i] == link)
            shm->lent_to[i] = NULL;
}

/* ---- the receiver ---- */

static struct segment_slot *slot_of_sender(const struct shm *shm, const struct shm_link *link)
{
    for (uint32_t i = 0; i < shm->inbound_end; i++)
        if (shm->inbound[i] != NULL && shm->inbound[i]->answer == link)
            return segment_slot(shm->own, i);
    return NULL;
}

/* Those of whom something is resident, if this one is among them. */
static uint32_t lenders_with(const struct shm *shm, const struct lender *lender)
{
    return shm->lenders_read + (lender->resident == 0);
}

/* Chunks of so many who lend that may be resident.  Each of them has a ring and more, which nobody counts: if they are
 * several, half of the room is left for that. */
static uint32_t room_of(const struct shm *shm, uint32_t lenders)
{
    return shm->resident_most / (lenders == 1 ? 1 : 2);
}

/* Chunks that this one may name, so that there is room for all who lend. */
static uint32_t share(const struct shm *shm, const struct lender *lender)
{
    uint32_t lenders = lenders_with(shm, lender);

    return (uint32_t)min_size(room_of(shm, lenders) / lenders, SEGMENT_CHUNKS);
}

static int shm_borrow_from(struct link *l)
{
    struct shm *shm = shm_of(l->transport);
    struct shm_link *link = link_of(l);
    struct lender *lender;
    int err;

    if (link->lender != NULL)
        return 0;
    if (shm->role != SHM_WHOLE || slot_of_sender(shm, link) == NULL)
        return -ENOTSUP;
    err = link_attach_all(link);
    if (err != 0)
        return err;
    lender = mem_calloc(1, sizeof *lender);
    if (lender == NULL)
        return -EAGAIN;
    lender->segment = segment_hold(link->remote);
    list_add_tail(&shm->lenders, &lender->in_lenders);
    link->lender = lender;
    return 0;
}

static void shm_borrow_few(struct link *l, bool few)
{
    struct shm *shm = shm_of(l->transport);
    struct lender *lender = link_of(l)->lender;
    struct segment_slot *slot;
    uint64_t borrows;

    if (lender == NULL)
        return;
    borrows = share(shm, lender) | (few ? SLOT_BORROWS_FEW : 0);
    if (likely(lender->borrows == borrows))
        return;
    slot = slot_of_sender(shm, link_of(l));
    if (slot == NULL)
        return;
    lender->borrows = borrows;
    /* pairs with the acquire in what_borrows() */
    atomic_store_explicit(&slot->borrows, borrows, memory_order_release);
}

static bool shm_borrows(struct link *l)
{
    const struct lender *lender = link_of(l)->lender;

    return lender != NULL && slot_chunks(lender->borrows) != 0;
}

/* Nothing of what this one lends is resident any more: the pages are the sender's, and stay as they are. */
static void empty(struct shm *shm, struct lender *lender)
{
    if (lender->resident == 0)
        return;
    mem_discard(segment_chunk(lender->segment, 0), SEGMENT_CHUNKS * SEGMENT_CHUNK_SIZE);
    shm->lenders_read--;
    shm->resident -= lender->resident;
    lender->resident = 0;
    memset(lender->is_resident, 0, sizeof lender->is_resident);
}

static OUT_OF_LINE void empty_all(struct shm *shm)
{
    struct list *member;

    list_for_each (member, &shm->lenders)
        empty(shm, container_of(member, struct lender, in_lenders));
}

static void shm_borrow_room(struct transport *t, uint64_t bytes)
{
    struct shm *shm = shm_of(t);

    shm->resident_most = (uint32_t)min_size(bytes / SEGMENT_CHUNK_SIZE, UINT32_MAX);
    if (shm->resident > shm->resident_most)
        empty_all(shm);
}

static uint64_t shm_resident(const struct transport *t)
{
    return shm_of(t)->resident * (uint64_t)SEGMENT_CHUNK_SIZE;
}

static bool shm_borrows_many(struct link *l)
{
    const struct lender *lender = link_of(l)->lender;

    return lender != NULL && !(lender->borrows & SLOT_BORROWS_FEW) &&
           slot_chunks(lender->borrows) > LEND_FEW &&
           shm_of(l->transport)->lend_turn > LEND_FEW;
}

void lend_let_go(struct shm_link *link)
{
    struct lender *lender = link->lender;

    if (lender == NULL)
        return;
    empty(shm_of(link->link.transport), lender); /* the link may go on to hold the segment */
    segment_detach(lender->segment);
    list_remove(&lender->in_lenders);
    mem_free(lender);
    link->lender = NULL;
}

/* Chunk i of this lender is about to be read, for the first time since it was emptied. */
static OUT_OF_LINE void become_resident(struct shm *shm, struct lender *lender, uint32_t i)
{
    if (shm->resident >= room_of(shm, lenders_with(shm, lender)))
        empty_all(shm);
    shm->lenders_read += lender->resident == 0;
    shm->resident++;
    lender->resident++;
    lender->is_resident[i] = true;
    mem_touch(segment_chunk(lender->segment, i), SEGMENT_CHUNK_SIZE);
}

static const void *shm_borrowed(struct link *l, uint64_t chunk, uint64_t size)
{
    struct lender *lender = link_of(l)->lender;

    if (lender == NULL || chunk >= SEGMENT_CHUNKS || size > SEGMENT_CHUNK_SIZE)
        return NULL;
    if (unlikely(!lender->is_resident[chunk]))
        become_resident(shm_of(l->transport), lender, (uint32_t)chunk);
    return segment_chunk(lender->segment, (uint32_t)chunk);
}

static void shm_give_back(struct link *l, uint64_t chunk)
{
    struct shm *shm = shm_of(l->transport);

    /* pairs with the acquire in shm_lend() */
    atomic_store_explicit(&link_of(l)->lender->segment->file->lent[chunk], 0,
                          memory_order_release);
    if (unlikely(shm->resident > shm->resident_most)) /* there is not room for a single one */
        empty_all(shm);
}

void lend_init(struct shm *shm, size_t second_cache)
{
    list_init(&shm->lenders);
    shm->resident_most = UINT32_MAX;
    shm->lend_turn = lend_turn(second_cache);
}

const struct transport_lend shm_chunks = {
    .lend = shm_lend,
    .lends = shm_lends,
    .turn = shm_lend_turn,
    .has_turns = shm_has_turns,
    .keep = shm_keep,
    .borrow_from = shm_borrow_from,
    .borrow_few = shm_borrow_few,
    .borrow_room = shm_borrow_room,
    .resident = shm_resident,
    .borrows = shm_borrows,
    .borrows_many = shm_borrows_many,
    .borrowed = shm_borrowed,
    .give_back = shm_give_back,
};
