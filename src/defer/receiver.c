/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receiver.c - the receiver's half of matching at the sender.
 *
 * A peer that defers messages (DEFER) gets an RTR for each open receive that could match one of
 * them, in posting order, and for each one that is posted later and waits.  It answers with a
 * CLAIM when one matches a deferred message:
 *
 *   the receive is open      it is matched, as if the message had arrived: RETIRE with WON, or FIN
 *                            if the payload came with the claim; the other peers get a RETIRE
 *   it is not                RETIRE without WON: the claim is lost
 *
 * Every claim is answered.  The RETIREs to the other peers are not needed, they only keep their
 * lists short; without space for one now it is omitted.
 *
 * Once a peer has deferred a send, all open receives are on a list of their own in posting
 * order, until enough of them have left it while no peer deferred sends.  The receives that a
 * deferring peer knows are described by a place on that list: it knows the open receives before
 * `next`, and no others.
 *
 *   open     r1  r2  r3  r4  r5             request.queue, numbered in open.number
 *                        ^next of a deferring peer with little space
 *                                 ^next of one that knows them all
 *
 * A DEFER costs its sender a packet, so it must not cost us a walk along the list: after a
 * DEFER, next is the first receive, and moves past at most CHECKS_MOST receives at a time that
 * do not concern the peer.
 *
 * If a deferring peer shows its sends in a table (sendtable.h), most receives need no RTR: a
 * receive that is posted, or is about to be advertised, pulls the first message there that it
 * accepts, if it is itself the first receive that accepts it.  Otherwise an RTR is sent.  A
 * probe also reads the table.
 *
 * A matched probe takes a deferred message by a RETIRE without a claim, after the deferring
 * peer has reported (PEEKED) that such a receive would match this message.  The deferring peer
 * then sends nothing until it gets a packet from us, and we forget the answer with the next
 * CREDIT or RTR to it, so the answer is valid while we remember it.
 *
 * Invariants
 *   I1  while receiver.is_open, a request is on open if and only if it is POSTED and in its
 *       engine; otherwise open is empty
 *   I2  deferrer.live counts the RTRs that the peer may still have; these are never more than
 *       capacity
 *   I3  no more than BACKLOG_CLAIMS + 1 answers wait for a deferring peer: a correct peer has
 *       no more claims than that (backlog.c I6), and one more is refused
 *   I4  a deferring peer is on receiver.deferrers if and only if peer.defer.defers
 *   I5  a deferring peer that has answered a probe has no other question to answer, and no open
 *       receive would match the message that it named
 *   I6  while there are deferring peers, a device has no receives, or is giving them back
 *   I7  while there are deferring peers, receiver.is_open
 */
#include "defer/receiver.h"

#include "core/core.h"
#include "p2p/p2p.h"
#include "defer/backlog.h"
#include "defer/by_sender.h"

/* Receives that do not concern a deferring peer, and are passed at a time. */
#define CHECKS_MOST 128

/* ---- made and ended ---- */

static void open_add(struct mbx_ep *ep, struct receiver *receiver, struct request *req)
{
    if (unlikely(ep->settings.match_at == MATCH_AT_SENDER))
        by_sender_open(ep, req);
    assert(recv_is_open(req));
    req->open.number = ++receiver->numbered;
    list_add_tail(&receiver->open, &req->queue);
}

static struct receiver *receiver_make(struct mbx_ep *ep)
{
    struct receiver *receiver = mem_calloc(1, sizeof *receiver);

    if (receiver == NULL)
        return NULL;
    list_init(&receiver->open);
    list_init(&receiver->deferrers);
    random_seed(&receiver->chance, 0);
    ep_defer(ep)->receiver = receiver;
    return receiver;
}

/* From now on the open receives are on the list. */
static void receiver_open(struct mbx_ep *ep, struct receiver *receiver)
{
    const struct context *context;
    size_t position = 0;

    while ((context = context_next(ep, &position)) != NULL)
        for (struct mbx_match_recv *recv = NULL;
             (recv = mbx_match_next_recv(&context->match, recv)) != NULL;)
            open_add(ep, receiver, container_of(recv, struct request, match));
    receiver->is_open = true;
    module_watch_all(ep, true);
}

/* Is there nothing more to send to a peer that has deferred? */
static bool deferrer_is_over(const struct deferrer *deferrer)
{
    return !peer_defer(deferrer->peer)->defers && deferrer->answer_count == 0 &&
           (deferrer->peer->owes & (OWES_RTR | OWES_PEEK | OWES_ANSWER)) == 0;
}

/* No peer has deferred a send for a while: ends the list, and frees the state of peers that
 * have deferred, so that receives and messages have their usual cost again.  The numbers
 * continue. */
static void receiver_close(struct mbx_ep *ep, struct receiver *receiver)
{
    while (!list_is_empty(&receiver->open))
        list_remove(receiver->open.next);
    receiver->is_open = false;
    module_watch_all(ep, false);
    for (uint32_t i = 0; i < ep->peers.count; i++) {
        struct peer *peer = ep->peers.all[i];

        if (peer == NULL || peer->deferrer == NULL || !deferrer_is_over(peer->deferrer))
            continue;
        mem_free(peer->deferrer);
        peer->deferrer = NULL;
    }
}

/* A receive has left the list while no peer deferred a send.  Making the list again costs
 * little compared with keeping it for this many receives. */
static void receiver_calms(struct mbx_ep *ep, struct receiver *receiver)
{
    const uint64_t most =
        ep->settings.tuning.calm_least + 2 * ep->stats.posted_now + ep->peers.count;

    if (++receiver->calm >= most)
        receiver_close(ep, receiver);
}

static struct deferrer *deferrer_make(struct mbx_ep *ep, struct peer *peer)
{
    struct deferrer *deferrer;

    if (ep_defer(ep)->receiver == NULL && receiver_make(ep) == NULL)
        return NULL;
    deferrer = mem_calloc(1, sizeof *deferrer);
    if (deferrer == NULL)
        return NULL;
    deferrer->peer = peer;
    return peer->deferrer = deferrer;
}

static void receiver_on_fini(struct mbx_ep *ep)
{
    mem_free(ep_defer(ep)->receiver);
}

/* ---- deferring peers ---- */

static void deferrer_end(struct mbx_ep *ep, struct deferrer *deferrer)
{
    if (!peer_defer(deferrer->peer)->defers)
        return;
    peer_defer(deferrer->peer)->defers = false;
    deferrer->is_asked = deferrer->is_answered = false;
    outq_forgive(deferrer->peer, OWES_RTR | OWES_PEEK);
    list_remove(&deferrer->node);
    if (list_is_empty(&ep_defer(ep)->receiver->deferrers))
        device_extra_credit(ep);
}

/* A message of this peer has arrived without a claim: it no longer defers. */
static void receiver_leave(struct mbx_ep *ep, struct peer *peer)
{
    peer->deferrer->reported = 0;
    deferrer_end(ep, peer->deferrer);
}

static void receiver_on_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new)
{
    (void)error, (void)is_new;
    if (peer->deferrer != NULL)
        receiver_leave(ep, peer);
}

static bool receiver_on_refers(struct mbx_ep *ep, const struct peer *peer)
{
    (void)ep;
    return peer_defer(peer)->defers;
}

/* A peer defers messages to us. */
static int on_defer(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_defer *defer = &packet->body.defer;
    struct deferrer *deferrer = peer->deferrer;
    bool is_first = !peer_defer(peer)->defers;

    if (deferrer == NULL && defer->epoch == 0)
        return 0;
    if (deferrer == NULL && (deferrer = deferrer_make(ep, peer)) == NULL)
        return -EAGAIN;
    deferrer_end(ep, deferrer);
    if (defer->epoch == 0)
        return 0;
    if (!ep_defer(ep)->receiver->is_open)
        receiver_open(ep, ep_defer(ep)->receiver);
    ep_defer(ep)->receiver->calm = 0;
    peer_defer(peer)->defers = true;
    deferrer->epoch = defer->epoch;
    deferrer->table = (struct pull_table){.index = defer->table, .epoch = defer->epoch};
    deferrer->from = defer->from;
    deferrer->capacity = defer->capacity;
    deferrer->live = 0;
    deferrer->knows_full = false;
    deferrer->next = ep_defer(ep)->receiver->open.next;
    list_add_tail(&ep_defer(ep)->receiver->deferrers, &deferrer->node);
    device_recall(ep);
    tracepoint_step(ep, TRACE_DEFER, peer, &(struct mbx_match_envelope){0}, 0, defer->epoch, 0);
    outq_owe_now(ep, peer, OWES_RTR);
    if (is_first)
        credit_extra(ep, peer, true, false);
    else
        credit_report_soon(ep, peer);
    return 0;
}

/* ---- taking ---- */

bool receiver_may_pull(const struct mbx_ep *ep)
{
    return ep->settings.tuning.sendtable && device_is_home(ep);
}

struct mbx_match_recv *receiver_wanted_by(const struct mbx_ep *ep,
                                          const struct mbx_match_envelope *envelope)
{
    struct context *context = context_find(ep, envelope->context_id);

    return context != NULL ? mbx_match_first(&context->match, envelope) : NULL;
}

/* req, which waits in its engine, pulls a message that the deferring peer shows, if req is the
 * first receive that accepts it.  True: *pull is its message, and req has left its engine. */
static bool pull_for(struct mbx_ep *ep, struct deferrer *deferrer, struct request *req,
                     struct pull *pull)
{
    struct peer *peer = deferrer->peer;
    const struct mbx_match_envelope *envelope = &pull->arrival.envelope;

    if (peer->outq.fins > FINS_MOST)
        return false; /* the peer does not read our FINs */
    if (pull_find(peer, &deferrer->table, &req->match.envelope, req->match.ignore, pull) != 1 ||
        receiver_wanted_by(ep, envelope) != &req->match ||
        lockword_owner(ep, req->open.word) != MBX_ANY_SOURCE ||
        !pull_commit(peer, &deferrer->table, pull))
        return false;
    tracepoint_step(ep, TRACE_PULL, peer, envelope, 0, req->completion.request,
                    pull->rts.sender);
    ep->stats.pulled++;
    recv_taken(ep, req, envelope, RECV_MET, peer);
    return true;
}

/* ---- RTR ---- */

void receiver_forget(struct peer *peer)
{
    struct deferrer *deferrer = peer->deferrer;

    if (deferrer == NULL)
        return;
    deferrer->is_answered = false;
    if (!(peer->owes & OWES_PEEK))
        deferrer->is_asked = false; /* the answer may be older than the packet that we send
                                       now */
}

static bool suits(const struct deferrer *deferrer, const struct request *req)
{
    return req->match.envelope.source == MBX_ANY_SOURCE ||
           req->match.envelope.source == deferrer->peer->number;
}

static int send_rtr(struct mbx_ep *ep, struct deferrer *deferrer, struct request *req)
{
    struct wire_rtr rtr = {
        .receiver = req->completion.request,
        .epoch = deferrer->epoch,
        .number = req->open.number,
    };
    const struct mbx_status status = {
        .context_id = req->match.envelope.context_id,
        .tag = req->match.envelope.tag,
        .data = req->match.ignore,
    };
    bool uses_up = deferrer->live + 1 >= deferrer->capacity;
    unsigned flags = (req->match.envelope.source == MBX_ANY_SOURCE ? WIRE_ANY_SOURCE : 0) |
                     (uses_up ? WIRE_CAPACITY_USED : 0);
    int err;

    if (unlikely(ep->settings.match_at == MATCH_AT_SENDER))
        by_sender_name(ep, deferrer->peer, req, &rtr);
    err = outq_notify_message(ep, deferrer->peer, WIRE_RTR, flags, &status, &rtr, NULL, 0);
    if (err != 0)
        return err;
    tracepoint_step(ep, TRACE_RTR, deferrer->peer, &req->match.envelope, req->match.ignore,
                    req->completion.request, deferrer->epoch);
    deferrer->live++;
    deferrer->knows_full = uses_up;
    receiver_forget(deferrer->peer);
    ep->stats.rtrs++;
    return 0;
}

/* Has the peer so much credit that its sends leave?  Then an RTR would come after that, and be
 * void.  Sends that it still defers then come with another DEFER.  A deferring peer has used
 * all the credit that it knew of, so credit that was reported after its last message is still
 * unused. */
static bool will_leave(const struct mbx_ep *ep, const struct deferrer *deferrer)
{
    return deferrer->reported >= credit_half(ep_credit(ep)->window);
}

/* req, the next receive to advertise to the deferring peer, pulls its message instead. */
static bool receiver_pull_one(struct mbx_ep *ep, struct deferrer *deferrer, struct request *req)
{
    struct pull pull;

    if (!receiver_may_pull(ep) || !pull_for(ep, deferrer, req, &pull))
        return false;
    recv_matched(ep, req, &pull.arrival);
    return true;
}

static int receiver_advertise(struct mbx_ep *ep, struct peer *peer)
{
    struct deferrer *deferrer = peer->deferrer;
    int checks = 0;

    if (will_leave(ep, deferrer))
        return 0;
    if (!device_is_home(ep) || (peer->owes & OWES_ANSWER))
        return -EAGAIN; /* a RETIRE first: the sender must not claim for a message that we have
                           taken */
    while (deferrer->next != &ep_defer(ep)->receiver->open && !deferrer->knows_full) {
        struct request *req = request_of_queue(deferrer->next);
        int err = 0;

        ep->stats.rtr_checks++;
        if (req->open.number > deferrer->from && suits(deferrer, req)) {
            if (receiver_pull_one(ep, deferrer, req))
                continue; /* next is now the following receive */
            err = send_rtr(ep, deferrer, req);
        } else if (++checks > CHECKS_MOST) {
            ep_wake_sleeper(ep);
            return -EINPROGRESS;
        }
        if (err != 0)
            return err;
        deferrer->next = deferrer->next->next;
    }
    return 0;
}

/* req, which has just been posted, pulls a message that a peer shows: then it is not
 * advertised. */
static bool receiver_at_once(struct mbx_ep *ep, struct request *req)
{
    struct list *node;
    struct pull pull;

    if (!receiver_may_pull(ep))
        return false;
    list_for_each (node, &ep_defer(ep)->receiver->deferrers) {
        struct deferrer *deferrer = deferrer_of(node);

        if (!suits(deferrer, req) || !pull_for(ep, deferrer, req, &pull))
            continue;
        list_remove(node); /* the others come first the next time */
        list_add_tail(&ep_defer(ep)->receiver->deferrers, node);
        recv_matched(ep, req, &pull.arrival);
        return true;
    }
    return false;
}

/* req has been posted and waits in its engine. */
static void receiver_on_posted(struct mbx_ep *ep, struct request *req)
{
    struct list *node, *next;

    if (ep_defer(ep)->receiver == NULL || !ep_defer(ep)->receiver->is_open ||
        receiver_at_once(ep, req))
        return;
    open_add(ep, ep_defer(ep)->receiver, req);
    list_for_each (node, &ep_defer(ep)->receiver->deferrers)
        if (deferrer_of(node)->next == &ep_defer(ep)->receiver->open)
            deferrer_of(node)->next = &req->queue;
    list_for_each_safe (node, next, &ep_defer(ep)->receiver->deferrers) {
        struct deferrer *deferrer = deferrer_of(node);

        if (suits(deferrer, req))
            receiver_forget(deferrer->peer); /* a message for this receive must not be probed */
        if (suits(deferrer, req) || deferrer->next != &req->queue)
            outq_owe_now(ep, deferrer->peer, OWES_RTR);
        else
            deferrer->next =
                &ep_defer(ep)->receiver->open; /* the last receive, irrelevant to the peer */
        if (!recv_is_open(req))
            return; /* it has matched meanwhile */
    }
}

/* ---- answers ---- */

static int send_answer(struct mbx_ep *ep, struct peer *peer, const struct answer *answer)
{
    const struct wire_retire retire = {answer->receiver, answer->sender};
    unsigned flags = answer->has_won ? WIRE_WON : 0;
    int err = outq_notify_message(ep, peer, WIRE_RETIRE, flags, NULL, &retire, NULL, 0);

    ep->stats.retires += err == 0 && !answer->has_won;
    return err;
}

static int answers_leave(struct mbx_ep *ep, struct peer *peer)
{
    struct deferrer *deferrer = peer->deferrer;

    while (deferrer->answer_count != 0) {
        int err = send_answer(ep, peer, &deferrer->answers[0]);

        if (err != 0)
            return err;
        deferrer->answer_count--;
        memmove(&deferrer->answers[0], &deferrer->answers[1],
                deferrer->answer_count * sizeof deferrer->answers[0]);
    }
    return 0;
}

bool receiver_answer(struct mbx_ep *ep, struct deferrer *deferrer, struct answer what)
{
    if (deferrer->answer_count == ARRAY_COUNT(deferrer->answers))
        return false;
    deferrer->answers[deferrer->answer_count++] = what;
    outq_owe_now(ep, deferrer->peer, OWES_ANSWER);
    return true;
}

/* Tells the peer that the receive of an RTR is no longer open. */
static void retire(struct mbx_ep *ep, struct deferrer *deferrer, const struct request *req)
{
    const struct answer what = {.receiver = req->completion.request};

    if (deferrer->answer_count != 0 || send_answer(ep, deferrer->peer, &what) != 0)
        return;
    tracepoint_step(ep, TRACE_RETIRE, deferrer->peer, &req->match.envelope, req->match.ignore,
                    req->completion.request, 0);
    deferrer->live -= deferrer->live != 0;
}

/* req is no longer open; winner: the peer that won it, or NULL. */
static void receiver_closed(struct mbx_ep *ep, struct request *req, const struct peer *winner)
{
    struct list *open = &ep_defer(ep)->receiver->open, *node;

    if (unlikely(req->open.word != 0))
        by_sender_close(ep, req);
    list_for_each (node, &ep_defer(ep)->receiver->deferrers) {
        struct deferrer *deferrer = deferrer_of(node);

        if (deferrer->next == &req->queue)
            deferrer->next = req->queue.next;
        else if (!suits(deferrer, req) || req->open.number <= deferrer->from ||
                 (deferrer->next != open &&
                  request_of_queue(deferrer->next)->open.number < req->open.number))
            continue; /* never advertised, or dropped there since */
        else if (deferrer->peer == winner)
            deferrer->live -= deferrer->live != 0;
        else
            retire(ep, deferrer, req);
    }
    list_remove(&req->queue);
}

static void receiver_on_left(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                             const struct peer *by)
{
    struct receiver *receiver = ep_defer(ep)->receiver;

    (void)cause;
    if (!list_is_linked(&req->queue))
        return; /* it was just posted, and never advertised */
    receiver_closed(ep, req, by);
    if (unlikely(list_is_empty(&receiver->deferrers)))
        receiver_calms(ep, receiver);
}

/* ---- claims ---- */

/* Does the deferring peer know this open receive?  It requests the next batch only without
 * unresolved claims. */
static bool was_advertised(const struct mbx_ep *ep, const struct deferrer *deferrer,
                           const struct request *req)
{
    return req->open.number > deferrer->from &&
           (deferrer->next == &ep_defer(ep)->receiver->open ||
            req->open.number < request_of_queue(deferrer->next)->open.number);
}

/* The open receive that a claim names, if it may be claimed.  A correct peer is refused only a
 * receive that is no longer open: for the peer a refused receive is gone, and a later receive
 * must not get its message.  So it does not matter here whether the device has given back all
 * receives.  It had when this receive was advertised; since then it got none, and the peer has
 * sent no message that could wait for the device's answer. */
static struct request *claimed(struct mbx_ep *ep, const struct peer *peer,
                               const struct wire_packet *packet)
{
    struct request *req = request_find(ep, packet->body.claim.receiver);
    const struct mbx_match_envelope envelope = {packet->header.context_id, peer->number,
                                                packet->header.tag};

    if (req == NULL || request_is_send(req) || !recv_is_open(req) ||
        peer->outq.fins > FINS_MOST + BACKLOG_CLAIMS + peer_credit(peer)->window ||
        !was_advertised(ep, peer->deferrer, req))
        return NULL;
    return mbx_match_accepts(&req->match.envelope, req->match.ignore, &envelope) ? req : NULL;
}

/* The message of a claim, as an arrival. */
static struct arrival claim_arrival(const struct peer *peer, const struct wire_packet *packet,
                                    struct wire_rts *rts)
{
    const struct wire_claim *claim = &packet->body.claim;

    *rts = (struct wire_rts){claim->sender, claim->size, claim->address, claim->key};
    return (struct arrival){
        .envelope = {packet->header.context_id, peer->number, packet->header.tag},
        .data = packet->header.data,
        .size = claim->size,
        .payload = packet->payload,
        .have = packet->payload_size,
        .sender = claim->sender,
        .rts = packet->payload_size < claim->size ? rts : NULL,
    };
}

/* Answers a claim.  0; -EPROTO: the peer has more unanswered claims than allowed. */
static int answer_claim(struct mbx_ep *ep, struct peer *peer, const struct wire_claim *claim,
                        bool has_won)
{
    const struct answer answer = {claim->sender, claim->receiver, has_won};

    return receiver_answer(ep, peer->deferrer, answer) ? 0 : -EPROTO;
}

static int on_claim(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_claim *claim = &packet->body.claim;
    bool has_won = (packet->header.flags & WIRE_WON) != 0;
    struct request *req;
    struct arrival arrival;
    struct wire_rts rts;

    if (!peer_defer(peer)->defers || claim->sender == 0)
        return -EPROTO;
    req = claimed(ep, peer, packet);
    if (req == NULL || !lockword_give(ep, &req->open.word, peer, has_won))
        return answer_claim(ep, peer, claim, false);
    arrival = claim_arrival(peer, packet, &rts);
    if (arrival.rts != NULL && answer_claim(ep, peer, claim, true) < 0)
        return -EPROTO;
    ep->stats.claims_met++;
    pull_granted(&peer->deferrer->table, claim->sender);
    recv_taken(ep, req, &arrival.envelope, RECV_MET, peer);
    recv_matched(ep, req, &arrival);
    return 0;
}

const struct module receiver_module = {
    .name = "receiver",
    .packets =
        (const struct packet_handler[]){{WIRE_DEFER, on_defer}, {WIRE_CLAIM, on_claim}, {0}},
    .controls =
        (const struct control[]){
            {.what = OWES_ANSWER, .send = answers_leave, .is_closing = true},
            {.what = OWES_RTR, .send = receiver_advertise},
            {0}},
    .fini = receiver_on_fini,
    .peer_gone = receiver_on_gone,
    .peer_refers = receiver_on_refers,
    .recv_posted = receiver_on_posted,
    .recv_left = receiver_on_left,
    .message_came = receiver_leave,
    .is_valid = MBX_CHECKS ? receiver_is_valid : NULL,
};
