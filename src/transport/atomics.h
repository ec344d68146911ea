/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomics.h - optional operations of a transport: an endpoint has words of 64 bits, which its
 * peers compare and swap, or load.
 *
 *   words of an endpoint    | cswap_words | table_words |
 *                             ^ cswap()     ^ load(), and cswap() where it is instant
 *
 * All words are 0 at first.  They have no order relative to packets.
 *
 * Whether swaps of a word by a peer and by its owner are atomic to each other depends on the
 * agent: operations of a network adapter are atomic only to operations of the same adapter.  So
 * the owner swaps its words only through cswap_local().
 *
 * A transport without words has no table, and both counts in transport_limits are 0.  A
 * transport that lacks some of the operations has NULL for these.
 */
#ifndef TRANSPORT_ATOMICS_H
#define TRANSPORT_ATOMICS_H

#include <errno.h>

#include "transport/transport.h"

struct transport_atomics {
    /* Compares word `index` of the other endpoint with expected and, if they are equal, sets it
     * to desired, in one atomic step; *found is the previous value.
     * 0
     * -EINPROGRESS  cswap_done(cookie) will report the end; never returned if cookie is 0
     * -EAGAIN       not now
     * -EINVAL       no such word
     * -ENOTSUP      the other endpoint has no words that can be reached like this, or cookie
     *               is 0 and must not be
     * -ENOTCONN */
    int (*cswap)(struct link *link, uint64_t index, uint64_t expected, uint64_t desired,
                 uint64_t *found, uint64_t cookie);

    /* Compares and swaps a word of our own through the agent that swaps it for peers (processor
     * or adapter), so that both are atomic to each other.  The swap is done on return; over a
     * network that takes a round trip to ourselves.
     * 0; -EINVAL no such word; -ENOTSUP */
    int (*cswap_local)(struct transport *t, uint64_t index, uint64_t expected, uint64_t desired,
                       uint64_t *found);

    /* Loads a word of our own with the processor: cheap enough to be called repeatedly.  Where
     * an adapter swaps words, the value may be old, but is never torn.
     * NULL: cswap_local() is as cheap.  0; -EINVAL no such word; -ENOTSUP */
    int (*load_local)(struct transport *t, uint64_t index, uint64_t *found);

    /* Loads `count` words of the other endpoint from `index` on, each word whole.  A load of a
     * word acquires what its owner stored before it.
     * 0; -EAGAIN not now; -EINVAL no such words; -ENOTSUP; -ENOTCONN, -EHOSTUNREACH */
    int (*load)(struct link *link, uint64_t index, uint64_t *words, size_t count);

    /* Stores words of our own, in this order.  0; -EINVAL no such words; -ENOTSUP */
    int (*store)(struct transport *t, uint64_t index, const uint64_t *words, size_t count);
};

static inline int transport_cswap(struct link *link, uint64_t index, uint64_t expected,
                                  uint64_t desired, uint64_t *found, uint64_t cookie)
{
    const struct transport_atomics *atomics = link->transport->ops->atomics;

    return atomics != NULL && atomics->cswap != NULL
               ? atomics->cswap(link, index, expected, desired, found, cookie)
               : -ENOTSUP;
}

static inline int transport_cswap_local(struct transport *t, uint64_t index, uint64_t expected,
                                        uint64_t desired, uint64_t *found)
{
    const struct transport_atomics *atomics = t->ops->atomics;

    return atomics != NULL ? atomics->cswap_local(t, index, expected, desired, found)
                           : -ENOTSUP;
}

static inline int transport_load_local(struct transport *t, uint64_t index, uint64_t *found)
{
    const struct transport_atomics *atomics = t->ops->atomics;

    return atomics != NULL && atomics->load_local != NULL
               ? atomics->load_local(t, index, found)
               : transport_cswap_local(t, index, 0, 0, found);
}

static inline int transport_load(struct link *link, uint64_t index, uint64_t *words,
                                 size_t count)
{
    const struct transport_atomics *atomics = link->transport->ops->atomics;

    return atomics != NULL && atomics->load != NULL ? atomics->load(link, index, words, count)
                                                    : -ENOTSUP;
}

static inline int transport_store(struct transport *t, uint64_t index, const uint64_t *words,
                                  size_t count)
{
    const struct transport_atomics *atomics = t->ops->atomics;

    return atomics != NULL && atomics->store != NULL ? atomics->store(t, index, words, count)
                                                     : -ENOTSUP;
}

#endif
