/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drop.c - drops messages that no receive can match any more.
 *
 * A program that reuses a context id distinguishes the uses by bits of the tag, and sets which
 * bits are current:
 *
 *   mbx_context_open ──> OPENED ── mbx_context_close ──> CLOSED ── mbx_context_open ──> ...
 *      dropped: other bits            these bits
 *
 * Unexpected messages that are over are dropped in the call; a later one is dropped when it
 * arrives and matches no receive.  A message that is not over waits: it may belong to the next
 * use of the context id.
 *
 * For its sender a dropped message has been received, as after mbx_discard().  It does not
 * count as a probe, since the program did not call one.
 *
 * A waiting message is also dropped when its sender cancels it (withdraw.c): its FIN says so.
 */
#include "core/core.h"
#include "p2p/p2p.h"

/* flags: for the request that receives it.  False: no memory for that request. */
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
                   0); /* after a failure, the next open or close of its context drops it */
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
    struct message *message; /* the waiting message; or NULL */
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
        return -EPROTO; /* it has not arrived completely */
    context = context_find(ep, wanted.message->match.envelope.context_id);
    if (context == NULL)
        context = context_unknown(ep); /* the message waits there */
    return drop_one(ep, context, wanted.message, REQUEST_WITHDRAWN) ? 0 : -EAGAIN;
}

const struct module drop_module = {
    .name = "drop",
    .packets = (const struct packet_handler[]){{WIRE_WITHDRAW, on_withdraw}, {0}},
};
