/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unexpected.c - reports the unexpected messages to the program: a list, and a call for each
 * that enters or leaves the queue.
 */
#include "core/core.h"
#include "p2p/p2p.h"
#include "p2p/tracepoint.h"

#include <stdlib.h>

struct queued {
    const struct message **found;
    size_t count, capacity;
};

/* A message of the pool may also be extracted, or about to be dropped. */
static void queued_add(void *arg, void *object)
{
    struct queued *queued = arg;
    const struct message *message = object;

    if (message->match.state != MBX_MATCH_QUEUED)
        return;
    assert(queued->count < queued->capacity);
    if (queued->count == queued->capacity)
        return;
    queued->found[queued->count++] = message;
}

/* By context id, then by age. */
static int queued_compare(const void *left, const void *right)
{
    const struct message *const *one = left, *const *other = right;
    const struct mbx_match_msg *a = &(*one)->match, *b = &(*other)->match;

    if (a->envelope.context_id != b->envelope.context_id)
        return a->envelope.context_id < b->envelope.context_id ? -1 : 1;
    return (int64_t)(a->seq - b->seq) < 0 ? -1 : 1;
}

/* mbx_unexpected() for callers that hold the lock. */
static int queued_list(const struct mbx_ep *ep, struct mbx_status *messages, size_t count)
{
    struct queued queued = {.capacity = ep->stats.unexpected_now};

    if (count == 0 || queued.capacity == 0)
        return (int)queued.capacity;
    queued.found = mem_calloc(queued.capacity, sizeof(struct message *));
    if (queued.found == NULL)
        return -ENOMEM;
    pool_for_each((struct pool *)(uintptr_t)&ep->messages, queued_add, &queued);
    assert(queued.count == queued.capacity);
    qsort(queued.found, queued.count, sizeof(struct message *), queued_compare);
    for (size_t i = 0; i < queued.count && i < count; i++)
        message_describe(queued.found[i], &messages[i]);
    mem_free((void *)queued.found);
    return (int)queued.count;
}

int mbx_unexpected(const struct mbx_ep *ep, struct mbx_status *messages, int count)
{
    int result;

    if (count < 0)
        return log_argument("mbx_unexpected", "count", (uint64_t)(int64_t)count, "negative");
    if (messages == NULL && count > 0)
        return log_argument("mbx_unexpected", "messages", 0, "NULL, and count is not 0");
    ep_lock(ep);
    result = queued_list(ep, messages, (size_t)count);
    ep_unlock_unchanged(ep);
    return result;
}

int mbx_watch_unexpected(struct mbx_ep *ep,
                         void (*watch)(void *user, int has_come,
                                       const struct mbx_status *message),
                         void *user)
{
    ep_lock(ep);
    tracepoint_watch(ep, watch, user);
    ep_unlock_unchanged(ep);
    return 0;
}
