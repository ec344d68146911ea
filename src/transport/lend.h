/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend.h - what a transport may do besides packets: lend a peer memory of the sender, into which a
 * message is packed and out of which the peer unpacks it, so that it is copied nowhere else.
 *
 *   sender                                        receiver
 *                                                 borrow_from(): once; and borrow_few(): from now on it may lend
 *   lend() ─> chunk, memory
 *   packs ── chunk number in a packet ─────────>  borrowed() ─> the same memory; unpacks
 *                                                 give_back()
 *   lend() ─> that chunk again
 *
 * The chunks are the endpoint's, for all of its peers together, and few.  Who gets none sends
 * packets: nobody waits for a chunk that somebody else has.
 *
 * A transport without these operations has no table.
 */
#ifndef TRANSPORT_LEND_H
#define TRANSPORT_LEND_H

#include <errno.h>

#include "transport/transport.h"

struct transport_lend {
    /* ---- the sender ---- */

    /* Memory of *size bytes, and the number of its chunk, which is below among, for a packet to the
     * other side.  NULL: there is none now, or the other side borrows nothing. */
    void *(*lend)(struct link *link, uint32_t among, uint32_t *chunk, size_t *size);
    /* May lend() find a chunk, now or later? */
    bool (*lends)(struct link *link);
    /* Among so many chunks what follows each other quickly is lent fastest, unless the other side wants few. */
    uint32_t (*turn)(struct link *link);
    /* Are these more than few, and so many bytes of the next ones free?  bytes is not 0; SIZE_MAX: are all of them, as
     * far as this is told by the last one? */
    bool (*has_turns)(struct link *link, size_t bytes);
    /* No packet has named it, or will. */
    void (*keep)(struct link *link, uint32_t chunk);

    /* ---- the receiver ---- */

    /* What the other side lends can be read here.  Costs something the first time alone.
     * 0, and borrow_few() says that it may; -ENOTSUP; -EAGAIN no memory now; or as transport_ops.send */
    int (*borrow_from)(struct link *link);
    /* Behind borrow_from(): the other side may lend, as many chunks as there is room for.  few: what comes from
     * there finds no receive.  While it finds none, few chunks are named in turn. */
    void (*borrow_few)(struct link *link, bool few);
    /* What is read of chunks becomes resident here.  So many bytes of all who lend may be, from now on; nothing that is
     * read later exceeds that. */
    void (*borrow_room)(struct transport *t, uint64_t bytes);
    /* So many are, at most. */
    uint64_t (*resident)(const struct transport *t);
    /* May the other side lend now? */
    bool (*borrows)(struct link *link);
    /* So that it lends in turn among more than few chunks? */
    bool (*borrows_many)(struct link *link);
    /* The first size bytes of a chunk of the other side's, valid until give_back(); who lends may
     * write there all the time.  NULL: there are none. */
    const void *(*borrowed)(struct link *link, uint64_t chunk, uint64_t size);
    /* A chunk that borrowed() has found. */
    void (*give_back)(struct link *link, uint64_t chunk);
};

static inline void *transport_lend_among(struct link *link, uint32_t among, uint32_t *chunk,
                                         size_t *size)
{
    const struct transport_lend *lend = link->transport->ops->lend;

    return lend != NULL ? lend->lend(link, among, chunk, size) : NULL;
}

/* Any chunk. */
static inline void *transport_lend(struct link *link, uint32_t *chunk, size_t *size)
{
    return transport_lend_among(link, UINT32_MAX, chunk, size);
}

/* 0: there is none. */
static inline uint32_t transport_lend_turn(struct link *link)
{
    const struct transport_lend *lend = link->transport->ops->lend;

    return lend != NULL ? lend->turn(link) : 0;
}

static inline bool transport_has_turns(struct link *link, size_t bytes)
{
    const struct transport_lend *lend = link->transport->ops->lend;

    return lend != NULL && lend->has_turns(link, bytes);
}

static inline bool transport_lends(struct link *link)
{
    const struct transport_lend *lend = link->transport->ops->lend;

    return lend != NULL && lend->lends(link);
}

static inline void transport_keep(struct link *link, uint32_t chunk)
{
    link->transport->ops->lend->keep(link, chunk);
}

static inline int transport_borrow_from(struct link *link)
{
    const struct transport_lend *lend = link->transport->ops->lend;

    return lend != NULL ? lend->borrow_from(link) : -ENOTSUP;
}

static inline void transport_borrow_few(struct link *link, bool few)
{
    const struct transport_lend *lend = link->transport->ops->lend;

    if (lend != NULL)
        lend->borrow_few(link, few);
}

static inline void transport_borrow_room(struct transport *t, uint64_t bytes)
{
    if (t->ops->lend != NULL)
        t->ops->lend->borrow_room(t, bytes);
}

static inline uint64_t transport_resident(const struct transport *t)
{
    return t->ops->lend != NULL ? t->ops->lend->resident(t) : 0;
}

static inline bool transport_borrows(struct link *link)
{
    const struct transport_lend *lend = link->transport->ops->lend;

    return lend != NULL && lend->borrows(link);
}

static inline bool transport_borrows_many(struct link *link)
{
    const struct transport_lend *lend = link->transport->ops->lend;

    return lend != NULL && lend->borrows_many(link);
}

static inline const void *transport_borrowed(struct link *link, uint64_t chunk, uint64_t size)
{
    const struct transport_lend *lend = link->transport->ops->lend;

    return lend != NULL ? lend->borrowed(link, chunk, size) : NULL;
}

static inline void transport_give_back(struct link *link, uint64_t chunk)
{
    link->transport->ops->lend->give_back(link, chunk);
}

#endif
