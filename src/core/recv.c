/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recv.c - a receive is posted, and where it meets its message.
 *
 * recv_matched() is the one place where a receive and a message meet, whichever of
 * them came first.
 */
#include "core/core.h"
#include "core/record.h"

int recv_check(const struct mbx_ep *ep, uint32_t source, uint32_t context_id)
{
    return (source < ep->peer_count || source == MBX_ANY_SOURCE) &&
                   context_id <= MBX_CONTEXT_MAX
               ? 0
               : -EINVAL;
}

void recv_matched(struct mbx_ep *ep, struct request *req, const struct arrival *arrival)
{
    req->peer = arrival->envelope.source;
    req->total = min_size(req->size, arrival->size);
    req->completion.status.source = arrival->envelope.source;
    req->completion.status.tag = arrival->envelope.tag;
    req->completion.status.data = arrival->data;
    req->completion.status.size = arrival->size;
    if (unlikely(arrival->size > req->size) && !(req->flags & REQUEST_MUTE))
        ep->stats.truncated++;
    if (arrival->is_rts)
        rndv_receive(ep, req, arrival);
    else
        eager_receive(ep, req, arrival);
}

int mbx_recv(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
             uint64_t ignore, void *buf, size_t size, const struct mbx_options *options,
             mbx_request *request)
{
    struct context *context;
    struct match_msg *found;
    struct request *req;
    int err;

    if (unlikely(recv_check(ep, source, context_id) < 0 || (buf == NULL && size != 0)) ||
        unlikely(options != NULL && (options->flags & ~(unsigned)MBX_SILENT)))
        return -EINVAL;
    context = context_get(ep, context_id);
    req = likely(context != NULL) ? request_take(ep, MBX_RECVS, options) : NULL;
    if (unlikely(req == NULL))
        return -ENOMEM;
    req->state = REQUEST_POSTED;
    req->buf = buf;
    req->size = size;
    req->match.envelope = (struct match_envelope){context_id, source, tag};
    req->match.ignore = ignore;
    req->completion.received = 0;
    req->completion.status = (struct mbx_status){context_id, source, tag, 0, 0};
    err = match_post(&context->match, &req->match, &found);
    if (unlikely(err < 0)) {
        request_drop(ep, req);
        return err;
    }
    if (request != NULL)
        *request = req->flags & REQUEST_SILENT ? 0 : req->completion.request;
    if (found == NULL) {
        record_post(ep, req, NULL);
        stats_kept(&ep->stats.posted_now, &ep->stats.posted_max, 1);
    } else {
        struct message *message = container_of(found, struct message, match);

        record_post(ep, req, message);
        ep->stats.unexpected_now--;
        recv_matched(ep, req, &message->arrival);
        message_drop(ep, message);
    }
    return 0;
}

int mbx_cancel(struct mbx_ep *ep, mbx_request request)
{
    struct request *req = request_find(ep, request);

    if (req == NULL)
        return -ESTALE;
    if (request_is_send(req))
        return -EOPNOTSUPP;
    if (req->state != REQUEST_POSTED ||
        !match_cancel(&context_find(ep, req->match.envelope.context_id)->match, &req->match))
        return -EALREADY;
    record_cancel(ep, req);
    ep->stats.posted_now--;
    ep->stats.cancelled++;
    request_complete(ep, req, -ECANCELED);
    return 0;
}
