/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drop.c - messages that no receive can want any more.
 *
 * A program that uses a context id again tells the uses apart by bits of the tag, and says which bits are current:
 *
 *   mbx_context_open ──> OPENED ── mbx_context_close ──> CLOSED ── mbx_context_open ──> ...
 *      goes: what has other bits      what has these bits
 *
 * What waits and is over goes in the call; what comes later goes when it has met no receive and would wait.  A message
 * that is not over waits: it may be of whoever opens the context id next.
 *
 * For its sender such a message has been received, as by mbx_discard().  It is no probe, for nobody asked.
 *
 * A message that waits also goes when its sender takes it back (withdraw.c): its FIN says so.
 */
#include "core/core.h"
#include "p2p/p2p.h"

/* flags: of the request that receives it.  False: there is no memory for that request. */
static bool drop_one(struct mbx_ep *ep, struct context *context, struct message *message,
                     uint32_t flags)
{
    struct request *req = recv_take(ep, NULL, 0, &(const struct mbx_options){.flags = 0});

    if (req == NULL)
        return false;
    req->flags |= REQUEST_INTERNAL | flags;
    mbx_match_extract(&context->match, &message->match);
    ep->stats.unexpected_now--;
    ep->stats.dropped++;
    tracepoint_drop(ep, message);
    credit_met(ep, message);
    recv_given(ep, req, message);
    return true;
}

OUT_OF_LINE void drop_over(struct mbx_ep *ep, struct context *context, struct message *message)
{
    (void)drop_one(ep, context, message,
                   0); /* if not, the next open or close of its context does */
}

static void drop_all_over(struct mbx_ep *ep, struct context *context)
{
    for (struct mbx_match_msg *next = mbx_match_next_msg(&context->match, NULL), *msg;
         (msg = next) != NULL;) {
        next = mbx_match_next_msg(&context->match, msg);
        if (context_is_over(context, msg->envelope.tag))
            (void)drop_one(ep, context, container_of(msg, struct message, match), 0);
    }
}

static int check_context(const char *call, uint32_t context_id)
{
    return context_id <= MBX_CONTEXT_MAX
               ? 0
               : log_argument(call, "context_id", context_id, "the library's own");
}

int mbx_context_open(struct mbx_ep *ep, uint32_t context_id, uint64_t tag, uint64_t ignore)
{
    struct context *context;
    int err = check_context("mbx_context_open", context_id);

    if (err < 0)
        return err;
    ep_lock(ep);
    context = context_get(ep, context_id);
    if (context != NULL) {
        context_open(context, tag, ignore);
        drop_all_over(ep, context);
    }
    ep_unlock(ep);
    return context != NULL ? 0 : -ENOMEM;
}

int mbx_context_close(struct mbx_ep *ep, uint32_t context_id)
{
    struct context *context;
    bool is_open;

    ep_lock(ep);
    context = context_find(ep, context_id);
    is_open = context != NULL && context->use == CONTEXT_OPENED;
    if (is_open) {
        context_close(context);
        drop_all_over(ep, context);
    }
    ep_unlock(ep);
    return is_open ? 0
                   : log_argument("mbx_context_close", "context_id", context_id, "not open");
}

int mbx_drop(struct mbx_ep *ep, uint32_t context_id, uint64_t tag, uint64_t ignore)
{
    const struct mbx_match_envelope envelope = {context_id, MBX_ANY_SOURCE, tag};
    struct mbx_match_msg *found;
    struct context *context;
    int count = check_context("mbx_drop", context_id);

    if (count < 0)
        return count;
    ep_lock(ep);
    context = context_get(ep, context_id);
    if (context == NULL)
        count = -ENOMEM;
    while (context != NULL &&
           (found = mbx_match_peek(&context->match, &envelope, ignore)) != NULL) {
        if (!drop_one(ep, context, container_of(found, struct message, match), 0)) {
            count = -ENOMEM;
            break;
        }
        count++;
    }
    ep_unlock(ep);
    return count;
}

/* ---- taken back by the sender ---- */

struct wanted_back {
    uint32_t source;
    uint64_t sender;
    struct message *message; /* that waits; or NULL */
};

static void compare_wanted(void *arg, void *object)
{
    struct wanted_back *wanted = arg;
    struct message *message = object;
    struct arrival storage;

    if (message->match.state == MBX_MATCH_QUEUED &&
        message->match.envelope.source == wanted->source &&
        message_arrival(message, &storage)->sender == wanted->sender)
        wanted->message = message;
}

static int on_withdraw(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    struct wanted_back wanted = {.source = peer->number,
                                 .sender = packet->body.withdraw.sender};
    struct context *context;

    pool_for_each(&ep->messages, compare_wanted, &wanted);
    if (wanted.message == NULL)
        return 0;
    if (peer_assembly(peer)->size != 0 && !peer_assembly(peer)->has_request &&
        peer_assembly(peer)->message == wanted.message)
        return -EPROTO; /* it is not here whole */
    context = context_find(ep, wanted.message->match.envelope.context_id);
    if (context == NULL)
        context = context_unknown(ep); /* where it waits */
    return drop_one(ep, context, wanted.message, REQUEST_WITHDRAWN) ? 0 : -EAGAIN;
}

const struct module drop_module = {
    .name = "drop",
    .packets = (const struct packet_handler[]){{WIRE_WITHDRAW, on_withdraw}, {0}},
};
