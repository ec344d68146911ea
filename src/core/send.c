/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - a message starts here.
 *
 * The protocol is chosen by size and peer:
 *
 *   0 .. inline_max            inline     one cache line
 *     .. short_max             short      one packet
 *     .. eager_limit           bounce     several packets
 *     .. message               rndv-read  or rndv-data if the peer cannot be read
 *
 * A row is absent where its upper limit is not above the one before.  Injected
 * messages always travel eagerly.
 *
 * Then the first packet leaves at once if nothing waits to
 * leave for this peer and the transport has room.  Otherwise the request queues on
 * the peer's out, in the order of the calls, and progress.c sends it.
 */
#include "core/core.h"

/* ---- protocol choice ---- */

static enum mbx_protocol protocol_eager(const struct mbx_ep *ep, size_t size)
{
    return size <= ep->inline_max ? MBX_INLINE : size <= ep->short_max ? MBX_SHORT : MBX_BOUNCE;
}

static enum mbx_protocol protocol_choose(const struct mbx_ep *ep, const struct peer *peer,
                                         size_t size)
{
    if (likely(size <= ep->settings.eager_limit))
        return protocol_eager(ep, size);
    return peer->can_read ? MBX_RNDV_READ : MBX_RNDV_DATA;
}

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

/* ---- sending ---- */

static bool send_is_valid(const struct mbx_ep *ep, uint32_t peer, uint32_t context_id,
                          const void *buf, size_t size)
{
    return peer < ep->peer_count && context_id <= MBX_CONTEXT_MAX &&
           (buf != NULL || size == 0) && size <= ep->limits.message;
}

/* The first packet of req leaves now or when it is its turn.  0, or the peer is known
 * to be gone. */
static int send_first(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    int err = list_is_empty(&peer->out) ? progress_step(ep, req) : -EAGAIN;

    if (err != -EAGAIN)
        return err;
    peer_queue(ep, peer, req);
    return 0;
}

/* Writes down a message that is going to leave for peer, or has left. */
static void send_fill(struct mbx_ep *ep, struct request *req, const struct peer *peer,
                      uint32_t context_id, uint64_t tag, const void *buf, size_t size,
                      const struct mbx_options *options)
{
    request_init(ep, req, MBX_SENDS, options);
    req->peer = peer->number;
    req->buf = (char *)(uintptr_t)buf;
    req->size = req->total = size;
    req->state = REQUEST_EAGER;
    req->completion.received = size;
    req->completion.status = (struct mbx_status){
        .context_id = context_id,
        .source = peer->number,
        .tag = tag,
        .data = options != NULL ? options->data : 0,
        .size = size,
    };
}

static int send_start(struct mbx_ep *ep, uint32_t number, uint32_t context_id, uint64_t tag,
                      const void *buf, size_t size, const struct mbx_options *options,
                      unsigned flags, mbx_request *request)
{
    struct request *req;
    struct peer *peer;
    int err = -EAGAIN;

    if (unlikely(!send_is_valid(ep, number, context_id, buf, size)) ||
        unlikely(options != NULL && (options->flags & ~(unsigned)MBX_SILENT)))
        return -EINVAL;
    peer = peer_get(ep, number);
    req = pool_take(&ep->requests);
    if (unlikely(req == NULL))
        return -ENOMEM;
    /* a short message is on its way while its request is being written */
    if (likely(flags == 0 && size <= ep->at_once_max) && likely(list_is_empty(&peer->out)))
        err = eager_packet(ep, peer, context_id, tag, options != NULL ? options->data : 0, 0,
                           buf, size);
    send_fill(ep, req, peer, context_id, tag, buf, size, options);
    if (request != NULL)
        *request = req->flags & REQUEST_SILENT ? 0 : req->completion.request;
    if (unlikely(err == -EAGAIN)) {
        req->flags |= (uint16_t)flags;
        req->protocol = (uint8_t)protocol_choose(ep, peer, size);
        if (req->protocol > MBX_BOUNCE)
            req->state = REQUEST_RTS;
        err = send_first(ep, peer, req);
        if (likely(err == 0))
            return 0;
    }
    request_complete(ep, req, err);
    return 0;
}

int mbx_send(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
             const void *buf, size_t size, const struct mbx_options *options,
             mbx_request *request)
{
    return send_start(ep, peer, context_id, tag, buf, size, options, 0, request);
}

int mbx_ssend(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
              const void *buf, size_t size, const struct mbx_options *options,
              mbx_request *request)
{
    return send_start(ep, peer, context_id, tag, buf, size, options, REQUEST_SYNC, request);
}

/* The message could not leave in one packet now: a copy will. */
static int inject_copy(struct mbx_ep *ep, struct peer *peer, uint32_t context_id, uint64_t tag,
                       const void *buf, size_t size, uint64_t data)
{
    struct mbx_options options = {.data = data};
    char *copy = mem_alloc(size);
    struct request *req;
    int err;

    if (copy == NULL)
        return -ENOMEM;
    req = pool_take(&ep->requests);
    if (req == NULL) {
        err = -ENOMEM;
        goto free_copy;
    }
    if (size != 0)
        memcpy(copy, buf, size);
    send_fill(ep, req, peer, context_id, tag, copy, size, &options);
    req->flags |= REQUEST_MUTE | REQUEST_COPIED;
    req->protocol = size <= ep->inline_max ? MBX_INLINE : MBX_BOUNCE;
    err = send_first(ep, peer, req);
    if (err < 0)
        goto drop_request;
    return 0;

drop_request:
    request_drop(ep, req);
free_copy:
    mem_free(copy);
    return err;
}

int mbx_inject(struct mbx_ep *ep, uint32_t number, uint32_t context_id, uint64_t tag,
               const void *buf, size_t size, uint64_t data)
{
    struct peer *peer;
    int err = -EAGAIN;

    if (unlikely(!send_is_valid(ep, number, context_id, buf, size)))
        return -EINVAL;
    if (unlikely(size > ep->limits.inject))
        return -EMSGSIZE;
    peer = peer_get(ep, number);
    if (likely(size <= ep->short_max) && likely(list_is_empty(&peer->out)))
        err = eager_packet(ep, peer, context_id, tag, data, 0, buf, size);
    return unlikely(err == -EAGAIN) ? inject_copy(ep, peer, context_id, tag, buf, size, data)
                                    : err;
}
