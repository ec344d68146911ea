/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * try_recv.c - receives a message that has arrived, without a request.
 *
 *   waits ── mbx_match_take ──> copied out ──> credit, counts ──> freed
 *     │
 *     └── part of it is missing, it is longer than the buffer, or its sender waits: it stays,
 *         and mbx_recv() takes it (recv.c)
 *
 * It touches only the engine's queue, the message and the credit of its sender.
 */
#include "base/copy.h"
#include "base/usdt.h"
#include "core/core.h"
#include "match/take.h"
#include "p2p/p2p.h"
#include "p2p/credit.h"

/* A mbx_match_fits_fn: does the message fit into *size bytes? */
static bool try_fits(const void *size, const struct mbx_match_msg *msg)
{
    return message_is_ready(container_of((void *)(uintptr_t)msg, struct message, match),
                            *(const size_t *)size);
}

/* As try_fits(), but false for some that fit: a cheap first test. */
static ALWAYS_INLINE bool try_fits_soon(const void *size, const struct mbx_match_msg *msg)
{
    return message_is_ready_short(container_of((void *)(uintptr_t)msg, struct message, match),
                                  *(const size_t *)size);
}

/* A match_take_fn. */
static OUT_OF_LINE struct mbx_match_msg *
try_take_deep(struct mbx_match *m, struct match_key key, struct match_mask mask,
              mbx_match_fits_fn *fits, const void *size)
{
    return match_take_glance(m, key, mask, try_fits_soon, fits, size);
}

/* Receives a message with memory of its own. */
static OUT_OF_LINE void try_take_long(struct mbx_ep *ep, struct message *message, void *buf,
                                      struct mbx_status *status)
{
    struct arrival storage;
    const struct arrival *arrival = message_arrival(message, &storage);

    status->data = arrival->data;
    status->size = arrival->size;
    memcpy(buf, arrival->payload, arrival->size);
    eager_count_received(ep, arrival->size, arrival->is_fragmented);
    credit_emptied(ep, message);
    message_drop(ep, message);
}

/* Receives message, which is ready and has left its queue. */
static ALWAYS_INLINE void try_take(struct mbx_ep *ep, struct message *message, void *buf,
                                   struct mbx_status *status)
{
    const struct mbx_match_envelope *envelope = &message->match.envelope;
    uint32_t size = message->size;

    status->context_id = envelope->context_id;
    status->source = envelope->source;
    status->tag = envelope->tag;
    ep->stats.unexpected_now--;
    credit_met(ep, message);
    if (unlikely(size == MESSAGE_LONG)) {
        try_take_long(ep, message, buf, status);
        return;
    }
    status->data = message->data;
    status->size = size;
    copy_small(buf, message->payload, size);
    eager_count_received(ep, size, false);
    message_drop_short(ep, message);
}

/* Arguments that are not valid: -EINVAL, and logs the reason. */
static OUT_OF_LINE int try_refuse(const struct mbx_ep *ep, uint32_t source, uint32_t context_id)
{
    int err = recv_check_for(ep, "mbx_try_recv", source, context_id);

    return err < 0 ? err : log_argument("mbx_try_recv", "buf", 0, "NULL, and size is not 0");
}

static ALWAYS_INLINE int try_recv(struct mbx_ep *ep, uint32_t source, uint32_t context_id,
                                  uint64_t tag, uint64_t ignore, void *buf, size_t size,
                                  struct mbx_status *status)
{
    const struct mbx_match_envelope wanted = {context_id, source, tag};
    struct mbx_match_msg *found;
    struct context *context;

    if (unlikely(recv_check(ep, source, context_id) < 0 || (buf == NULL && size != 0)))
        return try_refuse(ep, source, context_id);
    context = context_get(ep, context_id);
    if (unlikely(context == NULL) || unlikely(ep_tracing(ep)->is_on))
        return 0;
    found = match_take(&context->match, &wanted, ignore, try_fits, &size, try_take_deep);
    if (found == NULL)
        return 0;
    USDT(met, context_id, source, tag, 0);
    try_take(ep, container_of(found, struct message, match), buf, status);
    return 1;
}

static OUT_OF_LINE int try_recv_locked(struct mbx_ep *ep, uint32_t source, uint32_t context_id,
                                       uint64_t tag, uint64_t ignore, void *buf, size_t size,
                                       struct mbx_status *status)
{
    int result;

    ep_lock(ep);
    result = try_recv(ep, source, context_id, tag, ignore, buf, size, status);
    ep_unlock(ep);
    return result;
}

FLATTEN int mbx_try_recv(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                         uint64_t ignore, void *buf, size_t size, struct mbx_status *status)
{
    if (unlikely(ep->wait.has_threads))
        return try_recv_locked(ep, source, context_id, tag, ignore, buf, size, status);
    return try_recv(ep, source, context_id, tag, ignore, buf, size, status);
}
