/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h - optional operations of a transport: read and write the memory of a remote
 * endpoint.
 *
 *   owner    expose(buf) ─> address, key ── in a packet ──> peer
 *   peer     read(address, key) ─> 0, or -EINPROGRESS and later transport_events.read_done
 *   owner    unexpose(address, key), when no peer may access buf any more
 *
 * A transport without these operations has no table, and transport_limits.can_read is false.
 */
#ifndef TRANSPORT_MEMORY_H
#define TRANSPORT_MEMORY_H

#include <errno.h>

#include "transport/transport.h"

struct transport_memory {
    /* Lets the other side read and write [buf, buf+size) until unexpose().
     * 0; -ENOMEM; -ENOTSUP */
    int (*expose)(struct link *link, const void *buf, size_t size, uint64_t *address,
                  uint64_t *key);
    void (*unexpose)(struct link *link, uint64_t address, uint64_t key);

    /* Reads size bytes at remote (address and key from the other side's expose()) into dst.
     * 0             done
     * -EINPROGRESS  read_done(cookie) will report the end
     * -EAGAIN       no space; try again after poll()
     * other         failed; dst may be partly written.  -ENOTSUP: never try again. */
    int (*read)(struct link *link, void *dst, uint64_t address, uint64_t key, size_t size,
                void *cookie);

    /* Writes size bytes of src to remote, which the other side has exposed.  Returns the
     * results of read(); after a failure remote may be partly written. */
    int (*write)(struct link *link, uint64_t address, uint64_t key, const void *src,
                 size_t size, void *cookie);
};

/* Expose: make memory readable or writable by a peer */
static inline int transport_expose(struct link *link, const void *buf, size_t size,
                                   uint64_t *address, uint64_t *key)
{
    const struct transport_memory *memory = link->transport->ops->memory;

    return memory != NULL ? memory->expose(link, buf, size, address, key) : -ENOTSUP;
}

static inline void transport_unexpose(struct link *link, uint64_t address, uint64_t key)
{
    const struct transport_memory *memory = link->transport->ops->memory;

    if (memory != NULL)
        memory->unexpose(link, address, key);
}

static inline int transport_read(struct link *link, void *dst, uint64_t address, uint64_t key,
                                 size_t size, void *cookie)
{
    const struct transport_memory *memory = link->transport->ops->memory;

    return memory != NULL ? memory->read(link, dst, address, key, size, cookie) : -ENOTSUP;
}

static inline int transport_write(struct link *link, uint64_t address, uint64_t key,
                                  const void *src, size_t size, void *cookie)
{
    const struct transport_memory *memory = link->transport->ops->memory;

    return memory != NULL ? memory->write(link, address, key, src, size, cookie) : -ENOTSUP;
}

#endif
