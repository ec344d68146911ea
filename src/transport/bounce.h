/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounce.h - what a transport may do besides packets: lend a peer memory of the sender, into which a
 * message is packed and out of which the peer unpacks it, so that it is copied nowhere else.
 *
 *   sender                                        receiver
 *                                                 borrow_from(): once; and borrow_few(): from now on it may lend
 *   lend() ─> buffer, memory
 *   packs ── buffer number in a packet ─────────>  borrowed() ─> the same memory; unpacks
 *                                                 give_back()
 *   lend() ─> that buffer again
 *
 * The buffers are the endpoint's, for all of its peers together, and few.  Who gets none sends
 * packets: nobody waits for a buffer that somebody else has.
 *
 * A transport without these operations has no table.
 */
#ifndef TRANSPORT_BOUNCE_H
#define TRANSPORT_BOUNCE_H

#include <errno.h>

#include "transport/transport.h"

struct transport_bounce {
    /* ---- the sender ---- */

    /* Memory of *size bytes, and the number of its buffer, which is below among, for a packet to the
     * other side.  NULL: there is none now, or the other side borrows nothing. */
    void *(*take)(struct link *link, uint32_t among, uint32_t *buffer, size_t *size);
    /* May lend() find a buffer, now or later? */
    bool (*can_take)(struct link *link);
    /* Among so many buffers what follows each other quickly is lent fastest, unless the other side wants few. */
    uint32_t (*rotation)(struct link *link);
    /* Are these more than few, and so many bytes of the next ones free?  bytes is not 0; SIZE_MAX: are all of them, as
     * far as this is told by the last one? */
    bool (*has_free)(struct link *link, size_t bytes);
    /* No packet has named it, or will. */
    void (*untake)(struct link *link, uint32_t buffer);

    /* ---- the receiver ---- */

    /* What the other side lends can be read here.  Costs something the first time alone.
     * 0, and borrow_few() says that it may; -ENOTSUP; -EAGAIN no memory now; or as transport_ops.send */
    int (*map)(struct link *link);
    /* Behind borrow_from(): the other side may lend, as many buffers as there is room for.  few: what comes from
     * there finds no receive.  While it finds none, few buffers are named in turn. */
    void (*allow)(struct link *link, bool few);
    /* What is read of buffers becomes resident here.  So many bytes of all who lend may be, from now on; nothing that is
     * read later exceeds that. */
    void (*limit)(struct transport *t, uint64_t bytes);
    /* So many are, at most. */
    uint64_t (*resident)(const struct transport *t);
    /* May the other side lend now? */
    bool (*allows)(struct link *link);
    /* So that it lends in turn among more than few buffers? */
    bool (*allows_many)(struct link *link);
    /* The first size bytes of a buffer of the other side's, valid until give_back(); who lends may
     * write there all the time.  NULL: there are none. */
    const void *(*find)(struct link *link, uint64_t buffer, uint64_t size);
    /* A buffer that borrowed() has found. */
    void (*release)(struct link *link, uint64_t buffer);
};

static inline void *transport_bounce_take_among(struct link *link, uint32_t among, uint32_t *buffer,
                                         size_t *size)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    return bounce != NULL ? bounce->take(link, among, buffer, size) : NULL;
}

/* Any buffer. */
static inline void *transport_bounce_take(struct link *link, uint32_t *buffer, size_t *size)
{
    return transport_bounce_take_among(link, UINT32_MAX, buffer, size);
}

/* 0: there is none. */
static inline uint32_t transport_bounce_rotation(struct link *link)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    return bounce != NULL ? bounce->rotation(link) : 0;
}

static inline bool transport_bounce_has_free(struct link *link, size_t bytes)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    return bounce != NULL && bounce->has_free(link, bytes);
}

static inline bool transport_bounce_can_take(struct link *link)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    return bounce != NULL && bounce->can_take(link);
}

static inline void transport_bounce_untake(struct link *link, uint32_t buffer)
{
    link->transport->ops->bounce->untake(link, buffer);
}

static inline int transport_bounce_map(struct link *link)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    return bounce != NULL ? bounce->map(link) : -ENOTSUP;
}

static inline void transport_bounce_allow(struct link *link, bool few)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    if (bounce != NULL)
        bounce->allow(link, few);
}

static inline void transport_bounce_limit(struct transport *t, uint64_t bytes)
{
    if (t->ops->bounce != NULL)
        t->ops->bounce->limit(t, bytes);
}

static inline uint64_t transport_bounce_resident(const struct transport *t)
{
    return t->ops->bounce != NULL ? t->ops->bounce->resident(t) : 0;
}

static inline bool transport_bounce_allows(struct link *link)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    return bounce != NULL && bounce->allows(link);
}

static inline bool transport_bounce_allows_many(struct link *link)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    return bounce != NULL && bounce->allows_many(link);
}

static inline const void *transport_bounce_find(struct link *link, uint64_t buffer, uint64_t size)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    return bounce != NULL ? bounce->find(link, buffer, size) : NULL;
}

static inline void transport_bounce_release(struct link *link, uint64_t buffer)
{
    link->transport->ops->bounce->release(link, buffer);
}

#endif
