/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote_probe.c - probes of messages that wait at their senders; reach.c tells how such messages
 * are received.
 *
 *   no message here ──> what the holder shows (offer.h) ──> found, or there is none
 *                   └─> PEEK ──> PEEKED: the message that such a receive would take, until the
 *                                        holder hears anything else from us
 */
#include "sendside/hold.h"
#include "p2p/p2p.h"
#include "sendside/reach.h"
#include "p2p/record.h"
#include "sendside/take.h"

/* Other questions that an answer survives. */
#define ANSWER_SPARED 2

static void on_credit_told(struct mbx_ep *ep, struct peer *peer, uint64_t envelopes)
{
    (void)ep;
    peer->holder->told += envelopes;
    reach_forget(peer);
}

static int peek_leaves(struct mbx_ep *ep, struct peer *peer)
{
    struct holder *holder = peer->holder;
    const struct wire_peek body = {holder->question};
    const struct mbx_status status = {
        .context_id = holder->asked.context_id,
        .tag = holder->asked.tag,
        .data = holder->ignore,
    };

    if (holder->next != &ep->reach->open || holder->answer_count != 0) {
        if (peer->owes & (OWES_RTR | OWES_ANSWER))
            return -EAGAIN;
        holder->is_asked = false; /* the next probe asks again */
        return 0;
    }
    return outq_tell_message(ep, peer, WIRE_PEEK, 0, &status, &body, NULL, 0);
}

static void holder_ask(struct mbx_ep *ep, struct holder *holder,
                       const struct mbx_match_envelope *envelope, uint64_t ignore)
{
    holder->is_asked = true;
    holder->is_answered = false;
    holder->spared = 0;
    holder->asked = *envelope;
    holder->ignore = ignore;
    holder->question = ++ep->reach->questions;
    ep->stats.peeks++;
    outq_owe_now(ep, holder->peer, OWES_PEEK);
}

/* Would an open receive take the message?  Then a probe does not see it. */
static bool is_wanted(const struct reach *reach, const struct mbx_status *status)
{
    const struct mbx_match_envelope envelope = {status->context_id, status->source,
                                                status->tag};
    struct list *node;

    list_for_each (node, &reach->open) {
        const struct mbx_match_recv *recv = &request_of_queue(node)->match;

        if (mbx_match_accepts(&recv->envelope, recv->ignore, &envelope))
            return true;
    }
    return false;
}

/* Asks what was put off. */
static void holder_ask_next(struct mbx_ep *ep, struct holder *holder)
{
    const struct mbx_match_envelope envelope = holder->next_asked;

    holder->is_put_off = false;
    holder_ask(ep, holder, &envelope, holder->next_ignore);
}

static int on_peeked(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_peeked *body = &packet->body.peeked;
    struct holder *holder = peer->holder;

    if (holder == NULL)
        return -EPROTO;
    if (!holder->is_asked || body->question != holder->question)
        return 0;
    holder->is_asked = false;
    if (body->sender == 0) {
        if (holder->is_put_off)
            holder_ask_next(ep, holder);
        return 0;
    }
    if (!mbx_match_accepts(&holder->asked, holder->ignore,
                           &(struct mbx_match_envelope){packet->header.context_id, peer->number,
                                                        packet->header.tag}))
        return -EPROTO;
    holder->peeked = *body;
    holder->status = (struct mbx_status){
        .context_id = packet->header.context_id,
        .source = peer->number,
        .tag = packet->header.tag,
        .data = packet->header.data,
        .size = body->size,
    };
    holder->is_answered = !is_wanted(ep->reach, &holder->status);
    return 0;
}

static bool is_question(const struct holder *holder, const struct mbx_match_envelope *envelope,
                        uint64_t ignore)
{
    return holder->asked.context_id == envelope->context_id &&
           holder->asked.tag == envelope->tag && holder->ignore == ignore;
}

/* The held message is this process's from now on. */
static struct message *probe_take(struct mbx_ep *ep, struct holder *holder)
{
    const struct wire_rts rts = {holder->peeked.sender, holder->peeked.size,
                                 holder->peeked.address, holder->peeked.key};
    const struct arrival arrival = {
        .envelope = {holder->status.context_id, holder->status.source, holder->status.tag},
        .data = holder->status.data,
        .size = rts.size,
        .rts = &rts,
        .sender = rts.sender,
    };
    struct message *message = message_keep(ep, &arrival);

    if (message == NULL)
        return NULL;
    record_arrive(ep, &arrival.envelope, NULL, message);
    holder->is_answered = false;
    reach_answer(ep, holder, (struct answer){rts.sender, 0});
    return message;
}

/* What the holder shows is this process's from now on.  0; -EAGAIN it has changed; -ENOMEM. */
static int holder_take(struct mbx_ep *ep, struct holder *holder, const struct take *take,
                       struct message **out)
{
    struct arrival arrival = take->arrival;
    struct message *message;

    if (arrival.size > MESSAGE_INLINE) { /* its sender had no credit for memory here */
        arrival.rts = &take->rts;
        arrival.have = 0;
    }
    message = message_keep(ep, &arrival);

    if (message == NULL)
        return -ENOMEM;
    if (!take_have(holder->peer, &holder->table, take)) {
        message_drop(ep, message);
        return -EAGAIN;
    }
    ep->stats.taken++;
    record_step(ep, TRACE_PICK, holder->peer, &take->arrival.envelope, 0,
                pool_id(&ep->messages, message), take->rts.sender);
    record_arrive(ep, &take->arrival.envelope, NULL, message);
    *out = message;
    return 0;
}

/* A probe wants to know this.  One question at a time: the others wait, so that two that take
 * turns are both asked, and an answer is there when its question comes again. */
static void holder_probe(struct mbx_ep *ep, struct holder *holder,
                         const struct mbx_match_envelope *envelope, uint64_t ignore)
{
    if (holder->is_asked || (holder->is_answered && holder->spared++ < ANSWER_SPARED)) {
        if (!holder->is_put_off && !is_question(holder, envelope, ignore)) {
            holder->is_put_off = true;
            holder->next_asked = *envelope;
            holder->next_ignore = ignore;
        }
    } else if (holder->is_put_off) {
        holder_ask_next(ep, holder);
    } else {
        holder_ask(ep, holder, envelope, ignore);
    }
}

/* Probes the messages that the holder shows in its table.  1 and *status; 0 it holds nothing of
 * the kind; -EAGAIN the table cannot tell, ask the holder by PEEK; -ENOMEM. */
static int holder_look(struct mbx_ep *ep, struct holder *holder,
                       const struct mbx_match_envelope *wanted, uint64_t ignore,
                       struct mbx_status *status, struct message **message)
{
    struct peer *peer = holder->peer;
    struct take take;
    const struct arrival *arrival = &take.arrival;
    int found =
        reach_may_take(ep) ? take_find(peer, &holder->table, wanted, ignore, &take) : -EAGAIN;

    if (found == 0)
        return 0;
    if (found != 1 || reach_wanted_by(ep, &arrival->envelope) != NULL)
        return -EAGAIN;
    if (message == NULL && !take_is_there(peer, &holder->table, &take))
        return -EAGAIN;
    if (message != NULL && (found = holder_take(ep, holder, &take, message)) < 0)
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

    if (ep->reach == NULL)
        return 0;
    list_for_each_safe (node, next, &ep->reach->holders) {
        struct holder *holder = holder_of(node);
        int found;

        if (envelope->source != MBX_ANY_SOURCE && envelope->source != holder->peer->number)
            continue;
        if (message != NULL && holder->peer->fins > FINS_MOST)
            continue; /* it does not read what we have taken */
        found = holder_look(ep, holder, envelope, ignore, status, message);
        if (found == 1 || found == -ENOMEM)
            return found;
        if (found == 0)
            continue;
        if (holder->is_answered && is_question(holder, envelope, ignore)) {
            if (message != NULL) {
                if (holder->answer_count != 0)
                    continue;
                *message = probe_take(ep, holder);
                if (*message == NULL)
                    return -ENOMEM;
            }
            *status = holder->status;
            holder->spared = 0;
            return 1;
        }
        holder_probe(ep, holder, envelope, ignore);
    }
    return 0;
}

const struct module remote_probe_module = {
    .name = "remote probe",
    .packets = (const struct packet_handler[]){{WIRE_PEEKED, on_peeked}, {0}},
    .controls = (const struct control[]){{.what = OWES_PEEK, .send = peek_leaves}, {0}},
    .probe = on_probe,
    .credit_told = on_credit_told,
};
