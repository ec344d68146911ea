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
 * times as long (docs/decisions/0032-data-in-pieces-is-lent.md).  Where that cache holds all of them, LEND_FEW are as
 * good; and they are enough for a receiver whose messages find no receives.
 *
 * A receiver says in its slot for a sender that it borrows.  Before that it maps all of the sender's
 * segment, and holds it until it has taken all that this sender has sent: a sender may close, and be
 * gone, behind a packet that names a chunk.
 *
 * What a receiver does not give back, because it has died, is free when the link to it ends.
 */
#include <errno.h>

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
               ? atomic_load_explicit(&link->remote->slots[link->slot].borrows,
                                      memory_order_acquire)
               : SLOT_BORROWS_NOTHING;
}

static bool shm_lends(struct link *l)
{
    return what_borrows(l) != SLOT_BORROWS_NOTHING;
}

uint32_t lend_turn(size_t second_cache)
{
    return second_cache != 0 && second_cache < SEGMENT_CHUNKS * SEGMENT_CHUNK_SIZE
               ? SEGMENT_CHUNKS
               : LEND_FEW;
}

static uint32_t shm_lend_turn(struct link *l)
{
    return what_borrows(l) == SLOT_BORROWS_ANY ? shm_of(l->transport)->lend_turn : LEND_FEW;
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
    const uint32_t chunks = (uint32_t)min_size(among, SEGMENT_CHUNKS);
    struct shm *shm = shm_of(l->transport);

    if (!shm_lends(l))
        return NULL;
    for (uint32_t n = 0; n < chunks; n++) {
        uint32_t i = shm->lend_next++ % chunks;

        /* pairs with the release in shm_give_back(): all of it was read */
        if (shm->lent_to[i] == NULL ||
            atomic_load_explicit(&shm->own->file->lent[i], memory_order_acquire) == 0) {
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
            return &shm->own->slots[i];
    return NULL;
}

static int shm_borrow_from(struct link *l)
{
    struct shm *shm = shm_of(l->transport);
    struct shm_link *link = link_of(l);
    struct segment_slot *slot;
    int err;

    if (link->lender != NULL)
        return 0;
    slot = shm->role == SHM_WHOLE ? slot_of_sender(shm, link) : NULL;
    if (slot == NULL)
        return -ENOTSUP;
    err = link_attach_all(link);
    if (err != 0)
        return err;
    link->lender = segment_hold(link->remote);
    link->borrows_few = false;
    /* pairs with the acquire in what_borrows() */
    atomic_store_explicit(&slot->borrows, SLOT_BORROWS_ANY, memory_order_release);
    return 0;
}

static void shm_borrow_few(struct link *l, bool few)
{
    struct shm_link *link = link_of(l);
    struct segment_slot *slot;

    if (link->lender == NULL || link->borrows_few == few)
        return;
    slot = slot_of_sender(shm_of(l->transport), link);
    if (slot == NULL)
        return;
    link->borrows_few = few;
    atomic_store_explicit(&slot->borrows, few ? SLOT_BORROWS_FEW : SLOT_BORROWS_ANY,
                          memory_order_release);
}

static bool shm_borrows(struct link *l)
{
    return link_of(l)->lender != NULL;
}

void lend_let_go(struct shm_link *link)
{
    if (link->lender != NULL)
        segment_detach(link->lender);
    link->lender = NULL;
}

static const void *shm_borrowed(struct link *l, uint64_t chunk, uint64_t size)
{
    const struct segment *lender = link_of(l)->lender;

    return lender != NULL && chunk < SEGMENT_CHUNKS && size <= SEGMENT_CHUNK_SIZE
               ? segment_chunk(lender, (uint32_t)chunk)
               : NULL;
}

static void shm_give_back(struct link *l, uint64_t chunk)
{
    /* pairs with the acquire in shm_lend() */
    atomic_store_explicit(&link_of(l)->lender->file->lent[chunk], 0, memory_order_release);
}

const struct transport_lend shm_chunks = {
    .lend = shm_lend,
    .lends = shm_lends,
    .turn = shm_lend_turn,
    .keep = shm_keep,
    .borrow_from = shm_borrow_from,
    .borrow_few = shm_borrow_few,
    .borrows = shm_borrows,
    .borrowed = shm_borrowed,
    .give_back = shm_give_back,
};
