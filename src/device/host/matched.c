/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matched.c - turns events of the device into changes of requests.  The head of offload.c has a
 * drawing.
 */
#include "device/host/inside.h"

#include "base/log.h"

static struct request *request_of(struct shadow_recv *recv)
{
    return container_of(recv, struct request, shadow);
}

static enum mbx_protocol offload_protocol(const struct mbx_ep *ep,
                                          const struct mbx_device_event *event)
{
    if (event->flags & MBX_DEVICE_BY_RNDV)
        return MBX_RNDV_READ;
    if (!(event->flags & MBX_DEVICE_WHOLE))
        return MBX_BOUNCE;
    return event->size <= ep->limits.inline_max ? MBX_INLINE : MBX_SHORT;
}

static void offload_count(struct mbx_ep *ep, const struct request *req)
{
    ep->stats.received[req->protocol]++;
    ep->stats.received_bytes[req->protocol] += req->completion.status.size;
}

static void offload_done(struct mbx_ep *ep, struct request *req, int error)
{
    offload_count(ep, req);
    req->completion.received = error == 0 ? req->total : req->done;
    request_complete(ep, req, error != 0 ? error : req->completion.error);
}

/* Records where a rendezvous is to be continued. */
static void offload_find(struct request *req, const struct mbx_device_event *event)
{
    req->remote.request = event->sender;
    req->remote.address = event->address;
    req->remote.key = event->key;
}

/* The device has matched req with this message. */
static void offload_receive(struct mbx_ep *ep, struct request *req,
                            const struct mbx_match_envelope *envelope,
                            const struct mbx_device_event *event)
{
    recv_describe(ep, req, envelope, event->data, event->size);
    req->protocol = (uint8_t)offload_protocol(ep, event);
    req->done = min_size(event->done, req->total);
    offload_find(req, event);
    proto_move(ep, req, OFFLOAD_MATCHED);
    if (event->flags & MBX_DEVICE_WHOLE)
        offload_done(ep, req, 0);
}

/* The payload credit that the sender has spent.  For an eager message whose size is not known
 * yet, the rest is given back when the size is reported. */
static uint64_t offload_credit(const struct mbx_ep *ep, const struct mbx_device_event *event)
{
    size_t most = ep->net.transport->limits.packet_max;

    return event->flags & MBX_DEVICE_BY_RNDV ? credit_rts_payload(min_size(event->bytes, most))
                                             : credit_eager(event->size);
}

static void on_matched(void *arg, struct shadow_recv *recv,
                       const struct mbx_device_event *event)
{
    struct mbx_ep *ep = arg;
    struct request *req = request_of(recv);
    const struct mbx_match_envelope envelope = {event->envelope.context_id,
                                                event->envelope.source, event->envelope.tag};
    struct peer *peer = peer_get(ep, envelope.source);

    recv_unpost(ep, req, RECV_DEVICE);
    if (peer->deferrer != NULL)
        module_message_came(ep, peer);
    if (credit_admits(peer)) /* otherwise the peer has no credit to get back */
        credit_freed(ep, peer, offload_credit(ep, event));
    ep->stats.expected++;
    tracepoint_arrive(ep, &envelope, req, NULL);
    tracer_hand(ep, req);
    offload_receive(ep, req, &envelope, event);
}

/* The device had the first fragments of this message.  The receive ends with the last fragment:
 * until then the sender does not expect an answer. */
static void offload_await(struct mbx_ep *ep, struct request *req)
{
    offload_count(ep, req);
    req->total = req->done;
    req->completion.error = -EIO;
    eager_await_end(ep, req);
}

/* The device knew only the envelope when it matched; this event has the rest.  False: the rest
 * will never be known. */
static bool offload_learn(struct mbx_ep *ep, struct request *req,
                          const struct mbx_device_event *event)
{
    if (event->type == MBX_DEVICE_LOST)
        return false;
    recv_sized(ep, req, event->size);
    if (req->protocol == MBX_RNDV_READ)
        req->completion.status.data = event->data;
    else
        credit_freed_payload(ep, peer_get(ep, req->peer), credit_eager(event->size));
    offload_find(req, event);
    return true;
}

static void on_moved(void *arg, struct shadow_recv *recv, const struct mbx_device_event *event)
{
    struct mbx_ep *ep = arg;
    struct request *req = request_of(recv);

    if (!recv->is_sized && !offload_learn(ep, req, event)) {
        offload_done(ep, req, -EIO);
    } else if (event->type == MBX_DEVICE_DATA_VALID || event->error == -EPROTO) {
        if (event->error != 0)
            req->done = min_size(event->done, req->total);
        offload_done(ep, req, event->error);
    } else if (req->protocol == MBX_RNDV_READ) {
        const bool is_incomplete = event->type == MBX_DEVICE_INCOMPLETE;
        /* an adapter leaves it without trying a read; other devices have tried */
        const bool asks = is_incomplete && !ep->offload->driver->is_inlet;

        ep->stats.read_fallbacks += asks && req->remote.address != 0;
        if (is_incomplete)
            req->done = min_size(event->done, req->total);
        rndv_resume(ep, req, asks);
    } else {
        offload_await(ep, req);
    }
}

/* The device has matched recv with message, which it held; or the device is lost. */
static void on_paired(void *arg, struct shadow_recv *recv, void *message)
{
    struct mbx_ep *ep = arg;
    struct request *req = request_of(recv);

    proto_move(ep, req, REQUEST_POSTED);
    recv_given(ep, req, message);
}

static void on_revoked(void *arg, struct shadow_recv *recv)
{
    recv_cancelled(arg, request_of(recv));
}

/* The number may come from another process. */
static bool on_knows(void *arg, uint32_t peer)
{
    return peer_is_used(arg, peer);
}

/* ---- the device is gone ---- */

static void on_lost(void *arg)
{
    struct mbx_ep *ep = arg;

    ep->offload->driver->stop(ep->offload->device);
    LOG_WARN(
        "the matching device has ended: software matches from now on; a receive whose message "
        "the device had taken in part ends with -EIO");
}

static void on_owed(void *arg, uint32_t peer, uint64_t sender)
{
    struct mbx_ep *ep = arg;
    struct request *req = recv_take(ep, NULL, 0, &(struct mbx_options){.flags = 0});

    if (req == NULL) {
        LOG_ERROR(
            "no memory to acknowledge a message of peer %u, whose send will not complete: "
            "raise MBX_REQUESTS or the memory limit",
            peer);
        return;
    }
    req->flags |= REQUEST_INTERNAL;
    req->peer = peer;
    outq_owe_fin(ep, req, sender);
    request_complete(ep, req, 0);
}

/* ---- events of the shadow ---- */

#define COMMON                                                                                 \
    .moved = on_moved, .revoked = on_revoked, .find = offload_on_find, .met = offload_on_met,  \
    .keep = offload_on_keep, .paired = on_paired, .knows = on_knows, .lost = on_lost,          \
    .owed = on_owed

const struct shadow_events offload_shadow_events = {
    .matched = on_matched,
    .packet = deliver_packet,
    COMMON,
};

static void on_matched_by_inlet(void *arg, struct shadow_recv *recv,
                                const struct mbx_device_event *event)
{
    struct mbx_ep *ep = arg;

    ep->offload->driver->matched(ep, event->peer);
    on_matched(arg, recv, event);
}

static int on_packet_of_inlet(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct mbx_ep *ep = arg;

    return ep->offload->driver->packet(ep, peer, packet, size);
}

const struct shadow_events offload_inlet_events = {
    .matched = on_matched_by_inlet,
    .packet = on_packet_of_inlet,
    COMMON,
};
