/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * second_path.c - messages of a transport whose packets do not go through the device (bypass.h).
 */
#include "device/host/bypass.h"
#include "device/host/inside.h"

#include "base/mem.h"

/* A message of this path that may have to wait for the device. */
struct bypass {
    struct shadow_message shadow;
    struct message *message;
};

/* A message has come by this path while the device holds receives. */
static int offload_arrive(struct mbx_ep *ep, const struct arrival *arrival)
{
    struct peer *peer = peer_get(ep, arrival->envelope.source);
    struct bypass *beside;

    if (context_get(ep, arrival->envelope.context_id) == NULL)
        return -EAGAIN;
    if (!credit_admits(peer) || !credit_has_space(peer, credit_of(arrival))) {
        progress_dropped(ep, "it is beyond the window of its sender");
        return 0;
    }
    if (peer->deferrer != NULL)
        module_message_came(ep, peer);
    beside = mem_alloc(sizeof *beside);
    if (beside == NULL)
        return -EAGAIN;
    beside->message = message_keep(ep, arrival);
    if (beside->message == NULL) {
        mem_free(beside);
        return -EAGAIN;
    }
    if (arrival->is_fragmented)
        eager_assemble(ep, arrival, beside->message);
    credit_keep(peer, credit_of(arrival));
    beside->shadow.envelope = arrival->envelope;
    bypass_arrive(&ep->offload->shadow, &beside->shadow);
    return 0;
}

/* Is this a WITHDRAW, while messages of its sender are parked?  It may be for one of these.
 * The answer for which they wait comes from the device, not by this path. */
static bool offload_is_early(const struct mbx_ep *ep, uint32_t peer, const void *bytes,
                             size_t size)
{
    struct wire_header header;

    if (size < sizeof header || !bypass_has_of(&ep->offload->shadow, peer))
        return false;
    memcpy(&header, bytes, sizeof header);
    return header.type == WIRE_WITHDRAW;
}

int offload_bypass(void *arg, uint32_t peer, const void *bytes, size_t size)
{
    struct mbx_ep *ep = arg;
    struct wire_packet packet;
    struct arrival arrival;
    int result;

    if (ep->offload == NULL || bypass_is_clear(&ep->offload->shadow))
        return deliver_packet(ep, peer, bytes, size);
    if (offload_is_early(ep, peer, bytes, size))
        return -EAGAIN;
    result = deliver_open(ep, peer, bytes, size, &packet, &arrival);
    return result == 1 ? offload_arrive(ep, &arrival) : result;
}

struct shadow_recv *offload_on_find(void *arg, struct shadow_message *message)
{
    struct mbx_ep *ep = arg;
    struct context *context = context_find(ep, message->envelope.context_id);
    struct mbx_match_recv *recv = mbx_match_find(&context->match, &message->envelope);
    struct request *req;

    if (recv == NULL)
        return NULL;
    req = container_of(recv, struct request, match);
    ep->stats.posted_now--;
    module_recv_left(ep, req, RECV_DEVICE, NULL);
    return &req->shadow;
}

void offload_on_met(void *arg, struct shadow_message *shadow, struct shadow_recv *recv)
{
    struct mbx_ep *ep = arg;
    struct bypass *beside = container_of(shadow, struct bypass, shadow);
    struct request *req = container_of(recv, struct request, shadow);

    ep->stats.expected++;
    tracepoint_arrive(ep, &shadow->envelope, req, NULL);
    credit_met(ep, beside->message);
    recv_given(ep, req, beside->message);
    mem_free(beside);
}

int offload_on_keep(void *arg, struct shadow_message *shadow)
{
    struct mbx_ep *ep = arg;
    struct bypass *beside = container_of(shadow, struct bypass, shadow);
    struct context *context = context_find(ep, shadow->envelope.context_id);
    struct message *message = beside->message;
    int err = deliver_wait(ep, context, message);

    if (err < 0)
        return err;
    mem_free(beside);
    if (unlikely(context_is_over(context, message->match.envelope.tag)))
        drop_over(ep, context, message);
    return 0;
}

/* The endpoint closes.  The messages themselves are freed with all others. */
void offload_drop_parked(struct offload *offload)
{
    struct list *node;

    while ((node = list_pop_head(&offload->shadow.parked)) != NULL)
        mem_free(container_of(node, struct bypass, shadow.node));
}
