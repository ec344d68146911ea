/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote_probe.c - probes for messages that wait at their senders; receiver.c describes how
 * such messages are received.
 *
 *   no message here ──> the table of the deferring peer (sendtable.h) ──> found, or there is none
 *                   └─> PEEK ──> PEEKED: the message that such a receive would match, valid
 *                                        until we send the deferring peer another packet
 */
#include "defer/backlog.h"
#include "p2p/p2p.h"
#include "defer/receiver.h"
#include "defer/pull.h"

/* The number of probes with other arguments that an answer survives: doubled after each answer
 * that was not used, since a program that cycles through many probes comes back to each of
 * them. */
#define ANSWER_SPARED 2u
#define DOUBLED_MOST  5u

static void on_credit_sent(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes)
{
    (void)ep;
    peer->deferrer->reported += envelopes;
    receiver_forget(peer);
}

static int peek_leaves(struct mbx_ep *ep, struct peer *peer)
{
    struct deferrer *deferrer = peer->deferrer;
    const struct wire_peek body = {deferrer->question};
    const struct mbx_status status = {
        .context_id = deferrer->asked.context_id,
        .tag = deferrer->asked.tag,
        .data = deferrer->ignore,
    };

    if (deferrer->next != &ep_defer(ep)->receiver->open || deferrer->answer_count != 0) {
        if (peer->owes & (OWES_RTR | OWES_ANSWER))
            return -EAGAIN;
        deferrer->is_asked = false; /* the next probe sends a PEEK again */
        return 0;
    }
    return outq_notify_message(ep, peer, WIRE_PEEK, 0, &status, &body, NULL, 0);
}

static void deferrer_ask(struct mbx_ep *ep, struct deferrer *deferrer,
                         const struct mbx_match_envelope *envelope, uint64_t ignore)
{
    deferrer->is_asked = true;
    deferrer->is_answered = false;
    deferrer->spared = 0;
    deferrer->others = 0;
    deferrer->asked = *envelope;
    deferrer->ignore = ignore;
    deferrer->question = ++ep_defer(ep)->receiver->questions;
    ep->stats.peeks++;
    outq_owe_now(ep, deferrer->peer, OWES_PEEK);
}

/* Would an open receive match the message?  Then a probe does not see it. */
static bool remote_probe_is_wanted(const struct receiver *receiver,
                                   const struct mbx_status *status)
{
    const struct mbx_match_envelope envelope = {status->context_id, status->source,
                                                status->tag};
    struct list *node;

    list_for_each (node, &receiver->open) {
        const struct mbx_match_recv *recv = &request_of_queue(node)->match;

        if (mbx_match_accepts(&recv->envelope, recv->ignore, &envelope))
            return true;
    }
    return false;
}

/* Sends the waiting question. */
static void deferrer_ask_next(struct mbx_ep *ep, struct deferrer *deferrer)
{
    const struct mbx_match_envelope envelope = deferrer->next_asked;

    deferrer->is_put_off = false;
    deferrer_ask(ep, deferrer, &envelope, deferrer->next_ignore);
}

static int on_peeked(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_peeked *body = &packet->body.peeked;
    struct deferrer *deferrer = peer->deferrer;

    if (deferrer == NULL) /* it may answer a question from before receiver_close() */
        return ep_defer(ep)->receiver != NULL &&
                       body->question <= ep_defer(ep)->receiver->questions
                   ? 0
                   : -EPROTO;
    if (!deferrer->is_asked || body->question != deferrer->question)
        return 0;
    deferrer->is_asked = false;
    if (body->sender == 0) {
        if (deferrer->is_put_off)
            deferrer_ask_next(ep, deferrer);
        return 0;
    }
    if (!mbx_match_accepts(&deferrer->asked, deferrer->ignore,
                           &(struct mbx_match_envelope){packet->header.context_id, peer->number,
                                                        packet->header.tag}))
        return -EPROTO;
    deferrer->peeked = *body;
    deferrer->status = (struct mbx_status){
        .context_id = packet->header.context_id,
        .source = peer->number,
        .tag = packet->header.tag,
        .data = packet->header.data,
        .size = body->size,
    };
    deferrer->is_answered = !remote_probe_is_wanted(ep_defer(ep)->receiver, &deferrer->status);
    return 0;
}

static bool is_question(const struct deferrer *deferrer,
                        const struct mbx_match_envelope *envelope, uint64_t ignore)
{
    return deferrer->asked.context_id == envelope->context_id &&
           deferrer->asked.tag == envelope->tag && deferrer->ignore == ignore;
}

/* Takes the deferred message over to this process. */
static struct message *remote_probe_take(struct mbx_ep *ep, struct deferrer *deferrer)
{
    const struct wire_rts rts = {deferrer->peeked.sender, deferrer->peeked.size,
                                 deferrer->peeked.address, deferrer->peeked.key};
    const struct arrival arrival = {
        .envelope = {deferrer->status.context_id, deferrer->status.source,
                     deferrer->status.tag},
        .data = deferrer->status.data,
        .size = rts.size,
        .rts = &rts,
        .sender = rts.sender,
    };
    struct message *message = message_keep(ep, &arrival);

    if (message == NULL)
        return NULL;
    tracepoint_arrive(ep, &arrival.envelope, NULL, message);
    deferrer->is_answered = false;
    receiver_answer(ep, deferrer, (struct answer){rts.sender, 0, true});
    return message;
}

/* Takes a message in the table of the deferring peer over to this process.  0; -EAGAIN the
 * table has changed; -ENOMEM. */
static int deferrer_pull(struct mbx_ep *ep, struct deferrer *deferrer, const struct pull *pull,
                         struct message **out)
{
    struct arrival arrival = pull->arrival;
    struct message *message;

    if (arrival.size > MESSAGE_INLINE) { /* its sender had no credit for memory here */
        arrival.rts = &pull->rts;
        arrival.have = 0;
    }
    message = message_keep(ep, &arrival);

    if (message == NULL)
        return -ENOMEM;
    if (!pull_commit(deferrer->peer, &deferrer->table, pull)) {
        message_drop(ep, message);
        return -EAGAIN;
    }
    ep->stats.pulled++;
    tracepoint_step(ep, TRACE_PULL, deferrer->peer, &pull->arrival.envelope, 0,
                    pool_id(&ep->messages, message), pull->rts.sender);
    tracepoint_arrive(ep, &pull->arrival.envelope, NULL, message);
    *out = message;
    return 0;
}

/* A probe with other arguments has come: is the answer still kept, in case that its question is
 * repeated? */
static bool answer_is_spared(struct deferrer *deferrer)
{
    if (!deferrer->is_answered)
        return false;
    if (deferrer->spared++ < ANSWER_SPARED << deferrer->doubled)
        return true;
    if (deferrer->doubled < DOUBLED_MOST)
        deferrer->doubled++;
    return false;
}

/* Chooses one of the other questions that come meanwhile at random, each with the same chance:
 * if a program cycles through them, and answers always come at the same place between its
 * probes, the first or the last of them would be the same few each time. */
static void deferrer_put_off(struct mbx_ep *ep, struct deferrer *deferrer,
                             const struct mbx_match_envelope *envelope, uint64_t ignore)
{
    if (is_question(deferrer, envelope, ignore) ||
        random_below(&ep_defer(ep)->receiver->chance, ++deferrer->others) != 0)
        return;
    deferrer->is_put_off = true;
    deferrer->next_asked = *envelope;
    deferrer->next_ignore = ignore;
}

/* A probe has this question.  One question is sent at a time; its answer is used when the
 * question is repeated. */
static void deferrer_probe(struct mbx_ep *ep, struct deferrer *deferrer,
                           const struct mbx_match_envelope *envelope, uint64_t ignore)
{
    if (deferrer->is_asked || answer_is_spared(deferrer))
        deferrer_put_off(ep, deferrer, envelope, ignore);
    else if (deferrer->is_put_off)
        deferrer_ask_next(ep, deferrer);
    else
        deferrer_ask(ep, deferrer, envelope, ignore);
}

/* Probes the messages in the table of the deferring peer.  1 and *status; 0 it defers no such
 * message; -EAGAIN the table does not show it, send a PEEK; -ENOMEM. */
static int deferrer_peek_table(struct mbx_ep *ep, struct deferrer *deferrer,
                               const struct mbx_match_envelope *wanted, uint64_t ignore,
                               struct mbx_status *status, struct message **message)
{
    struct peer *peer = deferrer->peer;
    struct pull pull;
    const struct arrival *arrival = &pull.arrival;
    int found = receiver_may_pull(ep) ? pull_find(peer, &deferrer->table, wanted, ignore, &pull)
                                      : -EAGAIN;

    if (found == 0)
        return 0;
    if (found != 1 || receiver_wanted_by(ep, &arrival->envelope) != NULL)
        return -EAGAIN;
    if (message == NULL && !pull_is_there(peer, &deferrer->table, &pull))
        return -EAGAIN;
    if (message != NULL && (found = deferrer_pull(ep, deferrer, &pull, message)) < 0)
        return found;
    *status = (struct mbx_status){
        .context_id = arrival->envelope.context_id,
        .source = peer->number,
        .tag = arrival->envelope.tag,
        .data = arrival->data,
        .size = arrival->size,
    };
    return 1;
}

static int on_probe(struct mbx_ep *ep, const struct mbx_match_envelope *envelope,
                    uint64_t ignore, struct mbx_status *status, struct message **message)
{
    struct list *node, *next;

    if (ep_defer(ep)->receiver == NULL)
        return 0;
    list_for_each_safe (node, next, &ep_defer(ep)->receiver->deferrers) {
        struct deferrer *deferrer = deferrer_of(node);
        int found;

        if (envelope->source != MBX_ANY_SOURCE && envelope->source != deferrer->peer->number)
            continue;
        if (message != NULL && deferrer->peer->outq.fins > FINS_MOST)
            continue; /* the peer does not read our FINs */
        found = deferrer_peek_table(ep, deferrer, envelope, ignore, status, message);
        if (found == 1 || found == -ENOMEM)
            return found;
        if (found == 0)
            continue;
        if (deferrer->is_answered && is_question(deferrer, envelope, ignore)) {
            if (message != NULL) {
                if (deferrer->answer_count != 0)
                    continue;
                *message = remote_probe_take(ep, deferrer);
                if (*message == NULL)
                    return -ENOMEM;
            }
            *status = deferrer->status;
            deferrer->spared = 0;
            return 1;
        }
        deferrer_probe(ep, deferrer, envelope, ignore);
    }
    return 0;
}

const struct module remote_probe_module = {
    .name = "remote probe",
    .packets = (const struct packet_handler[]){{WIRE_PEEKED, on_peeked}, {0}},
    .controls = (const struct control[]){{.what = OWES_PEEK, .send = peek_leaves}, {0}},
    .probe = on_probe,
    .credit_sent = on_credit_sent,
};
