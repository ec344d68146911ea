/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * completion.c - reads, releases and tests completed requests.
 *
 *   done[kind] ──> mbx_poll, mbx_peek and mbx_release, mbx_test, mbx_wait (wait.c) ──> given back
 *
 * A completed request is its own entry (request.c), so the user gets a copy of the entry, or
 * looks at it in place until it is released.
 */
#include "core/core.h"
#include "core/module.h"

/* Copies field by field: most fields were just written, and a load that is wider than the store
 * before it would wait until that store is in the cache. */
static void completion_copy(const struct mbx_completion *from, struct mbx_completion *to)
{
    to->request = from->request;
    to->user = from->user;
    to->error = from->error;
    to->kind = from->kind;
    to->received = from->received;
    to->status.context_id = from->status.context_id;
    to->status.source = from->status.source;
    to->status.tag = from->status.tag;
    to->status.data = from->status.data;
    to->status.size = from->status.size;
}

static ALWAYS_INLINE void consume_entry(struct mbx_ep *ep, struct request *req,
                                        struct mbx_completion *completion)
{
    if (completion != NULL)
        completion_copy(&req->completion, completion);
    list_remove(&req->queue);
    request_release(ep, req);
}

static OUT_OF_LINE int consume_event(struct mbx_ep *ep, struct request *req,
                                     struct mbx_completion *completion)
{
    module_event_read(ep, req);
    consume_entry(ep, req, completion);
    return 0;
}

/* The inlined request_consume().  An event ends in a tail call: a call in the middle would cost
 * every other entry a stack frame. */
static ALWAYS_INLINE int consume(struct mbx_ep *ep, struct request *req,
                                 struct mbx_completion *completion)
{
    assert(req->state == REQUEST_COMPLETE);
    if (unlikely(req->completion.kind == MBX_EVENTS))
        return consume_event(ep, req, completion);
    consume_entry(ep, req, completion);
    return 0;
}

int request_consume(struct mbx_ep *ep, struct request *req, struct mbx_completion *completion)
{
    return consume(ep, req, completion);
}

static inline int request_poll(struct mbx_ep *ep, enum mbx_queue kind,
                               struct mbx_completion *entries, int count)
{
    struct list *queue = &ep->requests.done[kind];
    int found = 0;

    while (found < count && !list_is_empty(queue))
        request_consume(ep, request_of_queue(queue->next), &entries[found++]);
    return found;
}

static inline int request_poll_both(struct mbx_ep *ep, unsigned queues,
                                    struct mbx_completion *entries, int count)
{
    int found = 0;

    if (!queues_are_valid(queues) || entries == NULL)
        return entries == NULL ? log_argument("mbx_poll", "entries", 0, "NULL")
                               : queues_refused("mbx_poll", queues);
    if (queues & MBX_SENDS)
        found = request_poll(ep, MBX_SENDS, entries, count);
    if (queues & MBX_RECVS)
        found += request_poll(ep, MBX_RECVS, entries + found, count - found);
    if (unlikely(queues & MBX_ACCESS))
        found += request_poll(ep, MBX_ACCESS, entries + found, count - found);
    if (unlikely(queues & MBX_EVENTS))
        found += request_poll(ep, MBX_EVENTS, entries + found, count - found);
    if (unlikely(queues & MBX_FAILURES))
        found += failure_poll(ep, entries + found, count - found);
    return found;
}

static inline struct request *request_first(struct mbx_ep *ep, enum mbx_queue kind)
{
    struct list *queue = &ep->requests.done[kind];

    return list_is_empty(queue) ? NULL : request_of_queue(queue->next);
}

/* The oldest request of the first queue that is not empty, or NULL. */
static inline struct request *request_peek(struct mbx_ep *ep, unsigned queues)
{
    struct request *req = NULL;

    if (queues & MBX_SENDS)
        req = request_first(ep, MBX_SENDS);
    if (req == NULL && (queues & MBX_RECVS))
        req = request_first(ep, MBX_RECVS);
    if (req == NULL && unlikely(queues & MBX_ACCESS))
        req = request_first(ep, MBX_ACCESS);
    if (req == NULL && unlikely(queues & MBX_EVENTS))
        req = request_first(ep, MBX_EVENTS);
    return req;
}

static OUT_OF_LINE struct request *request_peek_locked(struct mbx_ep *ep, unsigned queues)
{
    struct request *req;

    ep_lock(ep);
    req = request_peek(ep, queues);
    ep_unlock_unchanged(ep);
    return req;
}

const struct mbx_completion *mbx_peek(struct mbx_ep *ep, unsigned queues)
{
    struct request *req = unlikely(ep->wait.has_threads) ? request_peek_locked(ep, queues)
                                                         : request_peek(ep, queues);

    return req == NULL ? NULL : &req->completion;
}

static OUT_OF_LINE void request_release_locked(struct mbx_ep *ep, struct request *req)
{
    ep_lock(ep);
    request_consume(ep, req, NULL);
    ep_unlock(ep);
}

void mbx_release(struct mbx_ep *ep, const struct mbx_completion *completion)
{
    struct request *req =
        container_of((void *)(uintptr_t)completion, struct request, completion);

    if (unlikely(ep->wait.has_threads))
        request_release_locked(ep, req);
    else
        consume(ep, req, NULL);
}

static OUT_OF_LINE int request_poll_locked(struct mbx_ep *ep, unsigned queues,
                                           struct mbx_completion *entries, int count)
{
    int found;

    ep_lock(ep);
    found = request_poll_both(ep, queues, entries, count);
    ep_unlock(ep);
    return found;
}

int mbx_poll(struct mbx_ep *ep, unsigned queues, struct mbx_completion *entries, int count)
{
    if (unlikely(ep->wait.has_threads))
        return request_poll_locked(ep, queues, entries, count);
    return request_poll_both(ep, queues, entries, count);
}

static int request_test(struct mbx_ep *ep, mbx_request request,
                        struct mbx_completion *completion)
{
    struct request *req = request_find(ep, request);

    if (req == NULL)
        return -ESTALE;
    if (unlikely(req->flags & REQUEST_DONE))
        return request_refuse_callback("mbx_test", request);
    if (req->state != REQUEST_COMPLETE)
        progress_round(ep);
    if (req->state != REQUEST_COMPLETE)
        return failure_concerns(ep, req) ? failure_notify(req) : 0;
    request_consume(ep, req, completion);
    return 1;
}

int mbx_test(struct mbx_ep *ep, mbx_request request, struct mbx_completion *completion)
{
    int result;

    if (likely(!ep->wait.has_threads))
        return request_test(ep, request, completion);
    ep_lock(ep);
    result = request_test(ep, request, completion);
    ep_unlock(ep);
    return result;
}
