/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * probe.c - probes the unexpected queue, and extracts a message for a later receive.
 *
 * An extracted message stays in the pool of messages; its handle is its id there.  Its state in
 * the matching engine distinguishes it from a queued one.
 */
#include "p2p/p2p.h"
#include "p2p/credit.h"
#include "core/core.h"
#include "p2p/tracepoint.h"

/* A repeated probe has no request: after this many that find nothing, the hang detection is
 * called. */
#define WATCH_PEEKS 1024

/* The message that such a receive would match, after a poll of the transport if there is
 * none. */
static struct message *probe_find(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                                  uint64_t ignore)
{
    for (int round = 0; round < 2; round++) {
        struct context *context = context_get(ep, envelope->context_id);
        struct mbx_match_msg *found =
            context != NULL ? mbx_match_peek(&context->match, envelope, ignore) : NULL;
        struct message *message =
            found != NULL ? container_of(found, struct message, match) : NULL;

        tracepoint_peek(ep, envelope, ignore, message);
        if (message != NULL)
            return message;
        if (round == 0)
            progress_round(ep);
    }
    ep_peeks(ep)->envelope = *envelope;
    ep_peeks(ep)->ignore = ignore;
    if (unlikely(++ep_peeks(ep)->count % WATCH_PEEKS == 0) && ep->observed.watch != NULL)
        ep->observed.watch(ep);
    return NULL;
}

/* Takes the message out of the queue, for the owner of its handle. */
static void probe_extract(struct mbx_ep *ep, struct message *message)
{
    const struct mbx_match_envelope *envelope = &message->match.envelope;

    mbx_match_extract(&context_find(ep, envelope->context_id)->match, &message->match);
    ep->stats.unexpected_now--;
    tracepoint_extract(ep, message);
    credit_met(ep, message);
}

/* Makes the handle of an extracted message.  Its age, which has no meaning outside of a queue,
 * becomes this handle, so that an observer (inspect/walk.c) can distinguish it from a message
 * that is just being kept or dropped. */
static mbx_message probe_name(const struct mbx_ep *ep, struct message *message)
{
    return message->match.seq = pool_id(&ep->messages, message);
}

/* As probe_any(), for the messages that wait at their senders. */
static OUT_OF_LINE int probe_deferred(struct mbx_ep *ep,
                                      const struct mbx_match_envelope *envelope,
                                      uint64_t ignore, struct mbx_status *status,
                                      mbx_message *handle)
{
    struct message *message;
    int found = module_probe(ep, envelope, ignore, status, handle != NULL ? &message : NULL);

    if (found == 0)
        return liveness_probed(ep, envelope->source);
    if (found == 1 && handle != NULL) {
        tracepoint_extract_deferred(ep, message);
        *handle = probe_name(ep, message);
    }
    return found;
}

/* Probes; takes the message out of the queue if handle is not NULL. */
static int probe_any(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                     uint64_t ignore, struct mbx_status *status, mbx_message *handle)
{
    struct message *message;

    if (recv_check(ep, envelope->source, envelope->context_id) < 0)
        return recv_check_for(ep, handle != NULL ? "mbx_mprobe" : "mbx_probe", envelope->source,
                              envelope->context_id);
    message = probe_find(ep, envelope, ignore);
    if (message == NULL)
        return probe_deferred(ep, envelope, ignore, status, handle);
    message_describe(message, status);
    if (handle != NULL) {
        probe_extract(ep, message);
        *handle = probe_name(ep, message);
    }
    return 1;
}

int mbx_probe(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
              uint64_t ignore, struct mbx_status *status)
{
    struct mbx_match_envelope envelope = {context_id, source, tag};
    int result;

    ep_lock(ep);
    result = probe_any(ep, &envelope, ignore, status, NULL);
    ep_unlock(ep);
    return result;
}

int mbx_mprobe(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
               uint64_t ignore, struct mbx_status *status, mbx_message *handle)
{
    struct mbx_match_envelope envelope = {context_id, source, tag};
    int result;

    ep_lock(ep);
    result = probe_any(ep, &envelope, ignore, status, handle);
    ep_unlock(ep);
    return result;
}

/* Gives the extracted message with this handle to a receive. */
static int probe_take(struct mbx_ep *ep, mbx_message handle, void *buf, size_t size,
                      struct pieces *pieces, const struct mbx_options *options, unsigned flags,
                      mbx_request *request)
{
    struct message *message = pool_find(&ep->messages, handle);
    struct arrival storage;
    struct request *req;

    if (message == NULL || message->match.state != MBX_MATCH_IDLE)
        return -ESTALE;
    req = recv_take(ep, buf, size, options_of(options));
    if (req == NULL)
        return -ENOMEM;
    req->flags |= flags;
    if (pieces != NULL)
        recv_in_pieces(req, pieces);
    if (request != NULL)
        *request = request_handle(req);
    tracepoint_take(ep, message, req);
    credit_emptied(ep, message);
    recv_matched(ep, req, message_arrival(message, &storage));
    message_drop(ep, message);
    return 0;
}

/* A receive into pieces, or one that is not valid. */
static int probe_take_pieces(struct mbx_ep *ep, mbx_message handle, const void *buf,
                             size_t size, const struct mbx_options *options,
                             mbx_request *request)
{
    struct pieces *pieces;
    int err = recv_pieces(ep, "mbx_mrecv", buf, size, options, &pieces);

    if (err < 0)
        return err;
    err = probe_take(ep, handle, NULL, 0, pieces, options, 0, request);
    if (err < 0)
        pieces_drop(ep, pieces);
    return err;
}

int mbx_mrecv(struct mbx_ep *ep, mbx_message message, void *buf, size_t size,
              const struct mbx_options *options, mbx_request *request)
{
    int err;

    options = options_of(options);
    ep_lock(ep);
    if ((buf == NULL && size != 0) || !options_are_valid(options))
        err = probe_take_pieces(ep, message, buf, size, options, request);
    else
        err = probe_take(ep, message, buf, size, NULL, options, 0, request);
    ep_unlock(ep);
    return err;
}

int mbx_discard(struct mbx_ep *ep, mbx_message message)
{
    int err;

    ep_lock(ep);
    err = probe_take(ep, message, NULL, 0, NULL, NULL, REQUEST_INTERNAL, NULL);
    ep_unlock(ep);
    return err;
}
