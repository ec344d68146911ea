/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounce.h - optional operations of a transport: bounce buffers.  The sender packs a message
 * into its own memory and the peer unpacks it from there, so that there is no other copy.
 *
 *   sender                                        receiver
 *                                                 map(): once; allow(): from now on the sender may use buffers
 *   take() ─> buffer, memory
 *   packs ── buffer number in a packet ─────────>  find() ─> the same memory; unpacks
 *                                                 release()
 *   take() ─> that buffer again
 *
 * The buffers belong to the endpoint; all of its peers share them, and they are few.  A send
 * that gets none goes as packets: it does not wait for a buffer that another peer has.
 *
 * A transport without these operations has no table.
 */
#ifndef TRANSPORT_BOUNCE_H
#define TRANSPORT_BOUNCE_H

#include <errno.h>

#include "transport/transport.h"

/* Glossary: bounce buffer - memory in the segment of the sender through which data passes: the
 * sender fills it, the receiver reads it; 16 KiB */
struct transport_bounce {
    /* ---- the sender ---- */

    /* Memory of *size bytes, and the number of its buffer, which is below `among`, for a packet
     * to the other side.  NULL: there is no buffer now, or the other side allows none. */
    void *(*take)(struct link *link, uint32_t among, uint32_t *buffer, size_t *size);
    /* May take() find a buffer, now or later? */
    bool (*can_take)(struct link *link);
    /* Messages in quick succession are fastest if this many buffers are used in rotation; a
     * small number, if the other side requests that. */
    uint32_t (*rotation)(struct link *link);
    /* Is the rotation larger than the small one, and are the next buffers, for this many bytes,
     * free? bytes is not 0; SIZE_MAX: all of them.  Only the last of these buffers is
     * examined. */
    bool (*has_free)(struct link *link, size_t bytes);
    /* No packet has named this buffer, and none will. */
    void (*untake)(struct link *link, uint32_t buffer);

    /* ---- the receiver ---- */

    /* Maps the buffers of the other side; only the first call costs something.  0: allow()
     * comes next; -ENOTSUP; -EAGAIN no memory now; or an error of transport_ops.send */
    int (*map)(struct link *link);
    /* After map(): the other side may use as many buffers as there is space for.  few: its
     * messages are unexpected, so it should use few buffers in rotation until they find
     * receives. */
    void (*allow)(struct link *link, bool few);
    /* A buffer that was read is resident in this process.  From now on, at most this many bytes
     * of all peers' buffers are resident. */
    void (*limit)(struct transport *t, uint64_t bytes);
    /* An upper limit of the bytes that are resident. */
    uint64_t (*resident)(const struct transport *t);
    /* May the other side use buffers now? */
    bool (*allows)(struct link *link);
    /* May the other side use the larger rotation? */
    bool (*allows_many)(struct link *link);
    /* The first size bytes of a buffer of the other side, valid until release(); the other side
     * may write to them at any time.  NULL: there are no such bytes. */
    const void *(*find)(struct link *link, uint64_t buffer, uint64_t size);
    /* Gives back a buffer that find() has returned. */
    void (*release)(struct link *link, uint64_t buffer);
};

static inline void *transport_bounce_take_among(struct link *link, uint32_t among,
                                                uint32_t *buffer, size_t *size)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    return bounce != NULL ? bounce->take(link, among, buffer, size) : NULL;
}

/* Takes any buffer. */
static inline void *transport_bounce_take(struct link *link, uint32_t *buffer, size_t *size)
{
    return transport_bounce_take_among(link, UINT32_MAX, buffer, size);
}

/* 0: there are no buffers. */
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

static inline const void *transport_bounce_find(struct link *link, uint64_t buffer,
                                                uint64_t size)
{
    const struct transport_bounce *bounce = link->transport->ops->bounce;

    return bounce != NULL ? bounce->find(link, buffer, size) : NULL;
}

static inline void transport_bounce_release(struct link *link, uint64_t buffer)
{
    link->transport->ops->bounce->release(link, buffer);
}

#endif
