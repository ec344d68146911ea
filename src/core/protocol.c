/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * protocol.c - which protocol carries a message, by size and peer.
 *
 *   0 .. inline_max            inline     one cache line
 *     .. short_max             short      one packet
 *     .. eager_limit           bounce     several packets
 *     .. message               rndv-read  or rndv-data if the peer cannot be read
 *
 * A row is absent where its upper limit is not above the one before.  Injected
 * messages always travel eagerly.
 */
#include "core/core.h"

const char *mbx_protocol_name(enum mbx_protocol protocol)
{
    switch (protocol) {
    case MBX_INLINE:
        return "inline";
    case MBX_SHORT:
        return "short";
    case MBX_BOUNCE:
        return "bounce";
    case MBX_RNDV_READ:
        return "rndv-read";
    case MBX_RNDV_DATA:
        return "rndv-data";
    case MBX_PROTOCOLS:
        break;
    }
    return NULL;
}

static enum mbx_protocol protocol_eager(const struct mbx_ep *ep, size_t size)
{
    return size <= ep->inline_max ? MBX_INLINE
           : size <= ep->short_max ? MBX_SHORT
                                   : MBX_BOUNCE;
}

enum mbx_protocol protocol_choose(const struct mbx_ep *ep, const struct peer *peer, size_t size)
{
    if (likely(size <= ep->settings.eager_limit))
        return protocol_eager(ep, size);
    return peer->can_read ? MBX_RNDV_READ : MBX_RNDV_DATA;
}

int mbx_protocol_get(const struct mbx_ep *ep, uint32_t number, unsigned index,
                     struct mbx_protocol_row *row)
{
    bool read = ep->transport->limits.can_read && ep->settings.rndv != RNDV_DATA;
    const struct mbx_protocol_row all[] = {
        {MBX_INLINE, min_size(ep->inline_max, ep->settings.eager_limit)},
        {MBX_SHORT, min_size(ep->short_max, ep->settings.eager_limit)},
        {MBX_BOUNCE, ep->settings.eager_limit},
        {MBX_RNDV_READ, ep->limits.message},
    };
    size_t below = 0;

    if (number != MBX_ANY_SOURCE) {
        if (number >= ep->peer_count)
            return -EINVAL;
        read = peer_get(ep, number)->can_read;
    }
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (i > 0 && all[i].max_size <= below)
            continue;
        below = all[i].max_size;
        if (index-- != 0)
            continue;
        *row = all[i];
        if (row->protocol == MBX_RNDV_READ && !read)
            row->protocol = MBX_RNDV_DATA;
        return 0;
    }
    return -ENOENT;
}
