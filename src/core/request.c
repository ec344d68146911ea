/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c - an operation from its call to its completion.
 *
 *   take ──> (states, proto.h) ───> complete ──> done queue ──> consume ──> freed
 *                                       │                          │
 *                                       └── silent or internal ────────┘
 *
 * A completed request is its own entry in the completion queue, so the queues cannot
 * overflow and cost nothing while empty.  A request is completed in exactly one
 * place, request_complete().
 */
#include <inttypes.h>

#include "base/launcher.h"
#include "base/usdt.h"
#include "core/core.h"
#include "core/module.h"
#include "core/pieces.h"
#include "transport/memory.h"

/* The completion queue of a request. */
static struct list *request_queue(struct mbx_ep *ep, const struct request *req)
{
    return &ep->requests.done[req->completion.kind];
}

/* A program that needs many requests again and again must not often pay for their pages: the
 * time until they are given back doubles with each of the first four trims. */
void request_rest(struct mbx_ep *ep)
{
    uint64_t now_ns = clock_now();
    unsigned doubled = ep->requests.trims < 4 ? ep->requests.trims : 4;
    bool trimmed;

    if (ep->requests.slack_ns == 0)
        ep->requests.slack_ns = now_ns;
    if (now_ns - ep->requests.slack_ns < REQUEST_REST_NS << doubled)
        return;
    trimmed = pool_trim(&ep->requests.pool);
    trimmed |= pool_trim(&ep->messages);
    ep->requests.trims += trimmed;
    ep->requests.slack_ns = now_ns;
}

/* Logs once: a caller that tries again would cause endless lines. */
static void report_missing(struct mbx_ep *ep, uint32_t count, const char *what, const char *why)
{
    const char *rank = launcher_rank();

    if (!ep->requests.is_reported)
        LOG_WARN("rank %s: %" PRIu32 " %s, and %s; said once", rank != NULL ? rank : "unknown",
                 count, what, why);
    ep->requests.is_reported = true;
}

OUT_OF_LINE struct request *request_missing(struct mbx_ep *ep)
{
    uint32_t open = pool_live(&ep->requests.pool);

    report_missing(ep, open, "requests are open",
                   open >= ep->settings.requests
                       ? "MBX_REQUESTS allows no more: raise it, or leave it unlimited"
                       : "there is no memory for another one (MBX_REQUESTS may bound them)");
    return NULL;
}

OUT_OF_LINE struct message *message_missing(struct mbx_ep *ep)
{
    report_missing(ep, pool_live(&ep->messages), "messages wait for their receive",
                   "there is no memory for the next one, which waits at its sender "
                   "(MBX_UNEXPECTED_MEMORY bounds them)");
    return NULL;
}

void request_drop(struct mbx_ep *ep, struct request *req)
{
    pool_give(&ep->requests.pool, req);
}

/* Ends the peer's access to the buffer of a send, or frees our copy. */
static void request_return_buffer(struct mbx_ep *ep, struct request *req)
{
    struct link *link = peer_get(ep, req->peer)->link;

    if (req->flags & REQUEST_EXPOSED)
        transport_unexpose(link, req->remote.address, req->remote.key);
    if (req->flags & REQUEST_COPIED)
        mem_free(req->buf);
    req->flags &= (uint32_t) ~(REQUEST_EXPOSED | REQUEST_COPIED);
}

static inline void request_has_entry(struct mbx_ep *ep, struct request *req)
{
    progress_has_entry(ep);
    list_add_tail(request_queue(ep, req), &req->queue);
}

/* The user's callback comes after everything else that completes the request, which nobody
 * needs any more. */
static inline void request_callback_error(struct mbx_ep *ep, struct request *req, int error)
{
    req->state = REQUEST_COMPLETE;
    req->completion.error = error;
    req->done_call(&req->completion);
    request_release(ep, req);
}

inline void request_callback(struct mbx_ep *ep, struct request *req,
                             const struct mbx_completion *completion)
{
    assert(req->state > REQUEST_LINGER && req->flags == REQUEST_DONE && completion->error == 0);
    USDT(complete, completion->request, completion->kind, 0, req->flags);
    req->state = REQUEST_COMPLETE;
    req->done_call(completion);
    request_release(ep, req);
}

/* request_complete() for a request that failed, is silent or internal, is awaited, is traced,
 * or has a resource to release. */
static OUT_OF_LINE void request_complete_rest(struct mbx_ep *ep, struct request *req, int error)
{
    const struct proto *proto = proto_of(ep, req);

    if (request_is_in_pieces(req))
        error = pieces_end(ep, req, error);
    if (req->flags & REQUEST_TRACED)
        ep->recording.completed(ep, req, error);
    req->state = REQUEST_COMPLETE;
    req->completion.error = error;
    if (req->flags & (REQUEST_EXPOSED | REQUEST_COPIED))
        request_return_buffer(ep, req);
    if (req->flags & REQUEST_ADVERTISED)
        proto->ended(ep, req);
    if (req->flags & REQUEST_AWAITED)
        wait_wake(ep);
    assert(ep->requests.injected != 0 || !(req->flags & REQUEST_INTERNAL) ||
           !request_is_send(req));
    ep->requests.injected -= (req->flags & REQUEST_INTERNAL) && request_is_send(req);
    if (error != 0 && error != -ECANCELED && request_is_send(req)) {
        ep->stats.send_errors++;
        report_end_of(ep, peer_get(ep, req->completion.status.source), error);
        if (req->flags & REQUEST_INTERNAL)
            report_lost(ep, peer_get(ep, req->completion.status.source), error);
    }
    if ((req->flags & REQUEST_INTERNAL) ||
        ((req->flags & REQUEST_NO_SUCCESS_ENTRY) && error == 0))
        request_release(ep, req);
    else if (req->flags & REQUEST_DONE)
        request_callback_error(ep, req, error);
    else
        request_has_entry(ep, req);
}

void request_complete(struct mbx_ep *ep, struct request *req, int error)
{
    assert(req->state > REQUEST_LINGER);
    USDT(complete, req->completion.request, req->completion.kind, error, req->flags);
    if (likely((req->flags | (unsigned)error) == 0)) {
        req->state = REQUEST_COMPLETE;
        req->completion.error = 0;
        request_has_entry(ep, req);
    } else if (likely(req->flags == REQUEST_DONE) && likely(error == 0)) {
        request_callback_error(ep, req, 0);
    } else {
        request_complete_rest(ep, req, error);
    }
}

OUT_OF_LINE int request_check_done(const char *call, const struct mbx_options *options)
{
    if ((options->flags & MBX_DONE) && options->done == NULL)
        return log_argument(call, "options->done", 0, "NULL, with MBX_DONE");
    return 0;
}

int request_refuse_callback(const char *call, mbx_request request)
{
    return log_argument(call, "request", request, "of MBX_DONE: options.done is called for it");
}

void request_left(struct mbx_ep *ep, struct request *req)
{
    list_remove(&req->out);
    if (req->state == REQUEST_LINGER)
        pool_give(&ep->requests.pool, req);
}

struct request *request_find(const struct mbx_ep *ep, mbx_request handle)
{
    struct request *req = pool_find(&ep->requests.pool, handle);

    return req != NULL && req->state != REQUEST_LINGER ? req : NULL;
}

void request_lost(struct mbx_ep *ep, struct request *req, int error)
{
    req->completion.received = req->done;
    request_complete(ep, req, error);
}

struct request *request_named(struct mbx_ep *ep, uint64_t handle, uint32_t peer, unsigned state)
{
    struct request *req = pool_find(&ep->requests.pool, handle);

    return req != NULL && req->state == state && req->peer == peer ? req : NULL;
}

static const struct proto request_proto = {
    .id = PROTO_REQUEST,
    .name = "request",
    .states = {{.name = "complete",
                .kinds = MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS,
                .out = PROTO_EITHER,
                .queue = PROTO_ALWAYS},
               {.name = "linger",
                .kinds = MBX_SENDS | MBX_RECVS | MBX_ACCESS | MBX_EVENTS,
                .out = PROTO_ALWAYS}},
};

const struct module request_module = {.name = "request", .proto = &request_proto};
