/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reach.c - the receiver's half of matching at the sender.
 *
 * A peer that holds messages (HOLD) gets an RTR for each open receive that could take one of
 * them, in posting order, and for each one that is posted later and waits.  It answers with
 * CLAIM when one suits a message that it holds:
 *
 *   the receive is open      it is matched, as if the message had come: GRANT, or FIN if the
 *                            payload came with the claim; the other holders get RETIRE
 *   it is not                RETIRE: the claim is lost
 *
 * Every claim is answered.  The RETIREs to the others are not needed, they only keep their
 * lists short; where there is no room for one now it is left out.
 *
 * Once a peer has held something, all open receives are on a list of their own in posting
 * order.  What a holder has been told is a place on that list: it knows the receives before
 * `next` that are still open, and no other.
 *
 *   open     r1  r2  r3  r4  r5             request.queue, numbered in request.remote
 *                        ^next of a holder with little room
 *                                 ^next of one that knows them all
 *
 * A HOLD costs its sender a packet, so it must not cost us a walk along the list: behind
 * one, next is the head, and comes on by LOOKS_MOST receives at a time that it is not told of.
 *
 * Where a holder shows what it holds (offer.h), none of that is needed for most: a receive,
 * when it is posted or would be advertised, takes the first message there that it accepts, if
 * it is itself the first that accepts it.  Else it gets its RTR.  A probe looks there, too.
 *
 * A matched probe takes a held message by GRANT without a claim, after the holder has said
 * (PEEKED) that this is the one that such a receive would take.  The holder sends nothing by
 * itself until it hears from us, and what we were told is forgotten with the next CREDIT or RTR
 * to it, so what it said is true as long as we know it.
 *
 * Invariants
 *   I1  a request is on open if and only if it is POSTED and in its engine
 *   I2  holder.live counts RTRs that it may still have; it never has more than room
 *   I3  a peer has no more than HOLD_CLAIMS unanswered claims, so answers have room
 *   I4  a holder is on reach.holders if and only if peer.holds
 *   I5  a holder that has answered a probe has no question open, and no open receive would take
 *       the message that it named
 *   I6  while there are holders, a device has no receive or gives it back
 */
#include "sendside/reach.h"

#include "core/arbiter.h"
#include "p2p/credit.h"
#include "sendside/hold.h"
#include "core/module.h"
#include "p2p/record.h"

/* Receives that a holder is not told of, passed at a time. */
#define LOOKS_MOST 128

/* ---- made and ended ---- */

static void open_add(struct mbx_ep *ep, struct reach *reach, struct request *req)
{
    if (ep->settings.any_source == ANY_SOURCE_SENDER)
        arbiter_open(ep, req);
    assert(recv_is_open(req));
    req->remote = ++reach->numbered;
    list_add_tail(&reach->open, &req->queue);
}

/* From now on the open receives are on a list. */
static struct reach *reach_make(struct mbx_ep *ep)
{
    struct reach *reach = mem_calloc(1, sizeof *reach);

    if (reach == NULL)
        return NULL;
    list_init(&reach->open);
    list_init(&reach->holders);
    for (uint32_t i = 0; i < ep->context_slots; i++)
        for (struct mbx_match_recv *recv = NULL;
             ep->contexts[i] != NULL &&
             (recv = mbx_match_next_recv(&ep->contexts[i]->match, recv)) != NULL;)
            open_add(ep, reach, container_of(recv, struct request, match));
    ep->reach = reach;
    ep->watched_from = 0;
    return reach;
}

static struct holder *holder_make(struct mbx_ep *ep, struct peer *peer)
{
    struct holder *holder;

    if (ep->reach == NULL && reach_make(ep) == NULL)
        return NULL;
    holder = mem_calloc(1, sizeof *holder);
    if (holder == NULL)
        return NULL;
    holder->peer = peer;
    return peer->holder = holder;
}

static void on_fini(struct mbx_ep *ep)
{
    mem_free(ep->reach);
}

/* ---- holders ---- */

static void holder_end(struct mbx_ep *ep, struct holder *holder)
{
    if (!holder->peer->holds)
        return;
    holder->peer->holds = false;
    holder->is_asked = holder->is_answered = false;
    holder->peer->owes &= (uint8_t) ~(OWES_RTR | OWES_PEEK);
    list_remove(&holder->node);
    if (list_is_empty(&ep->reach->holders))
        module_lend(ep);
}

/* A message of this peer has come by itself: it holds no longer. */
static void reach_leave(struct mbx_ep *ep, struct peer *peer)
{
    peer->holder->told = 0;
    holder_end(ep, peer->holder);
}

static void on_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new)
{
    (void)error, (void)is_new;
    if (peer->holder != NULL)
        reach_leave(ep, peer);
}

/* A peer holds messages for us. */
static int on_hold(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_hold *hold = &packet->body.hold;
    struct holder *holder = peer->holder;
    bool is_first = !peer->holds;

    if (holder == NULL && hold->epoch == 0)
        return 0;
    if (holder == NULL && (holder = holder_make(ep, peer)) == NULL)
        return -EAGAIN;
    holder_end(ep, holder);
    if (hold->epoch == 0)
        return 0;
    peer->holds = true;
    holder->epoch = hold->epoch;
    holder->table = (struct take_table){.index = hold->table, .epoch = hold->epoch};
    holder->from = hold->from;
    holder->room = hold->room;
    holder->live = 0;
    holder->is_told_full = false;
    holder->next = ep->reach->open.next;
    list_add_tail(&ep->reach->holders, &holder->node);
    module_recall(ep);
    record_step(ep, TRACE_HOLD, peer, &(struct mbx_match_envelope){0}, 0, hold->epoch, 0);
    outq_owe_now(ep, peer, OWES_RTR);
    if (is_first)
        credit_lend(ep, peer, true);
    else
        credit_tell_soon(ep, peer);
    return 0;
}

/* ---- taking ---- */

bool reach_may_take(const struct mbx_ep *ep)
{
    return ep->settings.hold_take && ep->settings.any_source != ANY_SOURCE_SENDER &&
           module_is_home(ep);
}

struct mbx_match_recv *reach_wanted_by(const struct mbx_ep *ep,
                                       const struct mbx_match_envelope *envelope)
{
    const struct context *context = context_find(ep, envelope->context_id);

    return context != NULL ? mbx_match_first(&context->match, envelope) : NULL;
}

/* req, which waits in its engine, takes what the holder shows, if it is the first that may.
 * True: *take is its message, and it has left its engine. */
static bool take_for(struct mbx_ep *ep, struct holder *holder, struct request *req,
                     struct take *take)
{
    struct peer *peer = holder->peer;
    const struct mbx_match_envelope *envelope = &take->arrival.envelope;

    if (peer->fins > FINS_MOST)
        return false; /* it does not read what we have taken */
    if (take_find(peer, &holder->table, &req->match.envelope, req->match.ignore, take) != 1 ||
        reach_wanted_by(ep, envelope) != &req->match ||
        arbiter_owner(ep, req) != MBX_ANY_SOURCE || !take_have(peer, &holder->table, take))
        return false;
    record_step(ep, TRACE_PICK, peer, envelope, 0, req->completion.request, take->rts.sender);
    ep->stats.taken++;
    recv_taken(ep, req, envelope, RECV_MET, peer);
    return true;
}

/* ---- RTR ---- */

void reach_forget(struct peer *peer)
{
    struct holder *holder = peer->holder;

    if (holder == NULL)
        return;
    holder->is_answered = false;
    if (!(peer->owes & OWES_PEEK))
        holder->is_asked = false; /* the answer may be older than what we say now */
}

static bool suits(const struct holder *holder, const struct request *req)
{
    return req->match.envelope.source == MBX_ANY_SOURCE ||
           req->match.envelope.source == holder->peer->number;
}

static int send_rtr(struct mbx_ep *ep, struct holder *holder, struct request *req)
{
    /* words are in the memory of one transport, and the peer may be on another; and a word that
     * is there because the receive was told early is not for those who hold */
    bool has_word = holder->peer->link->transport == ep->transport &&
                    ep->settings.any_source == ANY_SOURCE_SENDER;
    const struct wire_rtr rtr = {
        .receiver = req->completion.request,
        .epoch = holder->epoch,
        .number = req->remote,
        .word = has_word ? req->key : 0,
        .as = holder->peer->number,
    };
    const struct mbx_status status = {
        .context_id = req->match.envelope.context_id,
        .tag = req->match.envelope.tag,
        .data = req->match.ignore,
    };
    bool uses_up = holder->live + 1 >= holder->room;
    unsigned flags = (req->match.envelope.source == MBX_ANY_SOURCE ? WIRE_ANY_SOURCE : 0) |
                     (uses_up ? WIRE_ROOM_USED : 0);
    int err;

    err = outq_tell_message(ep, holder->peer, WIRE_RTR, flags, &status, &rtr, NULL, 0);
    if (err != 0)
        return err;
    record_step(ep, TRACE_RTR, holder->peer, &req->match.envelope, req->match.ignore,
                req->completion.request, holder->epoch);
    holder->live++;
    holder->is_told_full = uses_up;
    reach_forget(holder->peer);
    ep->stats.rtrs++;
    return 0;
}

/* It was told of so much credit that it leaves: an RTR would come behind that and be void.
 * What it still holds then comes with another HOLD.  A peer that holds has used up what it knew
 * of, so what it was told since its last message came has not been used. */
static bool will_leave(const struct mbx_ep *ep, const struct holder *holder)
{
    return holder->told >= credit_half(ep->credit.window);
}

/* req, which is the next that the holder is to hear of, takes its message instead. */
static bool reach_early(struct mbx_ep *ep, struct holder *holder, struct request *req)
{
    struct take take;

    if (!reach_may_take(ep) || !take_for(ep, holder, req, &take))
        return false;
    recv_matched(ep, req, &take.arrival);
    return true;
}

static int reach_advertise(struct mbx_ep *ep, struct peer *peer)
{
    struct holder *holder = peer->holder;
    int looks = 0;

    if (will_leave(ep, holder))
        return 0;
    if (!module_is_home(ep) || (peer->owes & OWES_ANSWER))
        return -EAGAIN; /* a GRANT first: the sender must not claim with what we have taken */
    while (holder->next != &ep->reach->open && !holder->is_told_full) {
        struct request *req = request_of_queue(holder->next);
        int err = 0;

        ep->stats.rtr_looks++;
        if (req->remote > holder->from && suits(holder, req)) {
            if (reach_early(ep, holder, req))
                continue; /* next is the one behind it */
            err = send_rtr(ep, holder, req);
        } else if (++looks > LOOKS_MOST) {
            ep_stir(ep);
            return -EINPROGRESS;
        }
        if (err != 0)
            return err;
        holder->next = holder->next->next;
    }
    return 0;
}

/* req, which has just been posted, takes what somebody shows: then nobody hears of it. */
static bool reach_at_once(struct mbx_ep *ep, struct request *req)
{
    struct list *node;
    struct take take;

    if (!reach_may_take(ep))
        return false;
    list_for_each (node, &ep->reach->holders) {
        struct holder *holder = holder_of(node);

        if (!suits(holder, req) || !take_for(ep, holder, req, &take))
            continue;
        list_remove(node); /* the others are first the next time */
        list_add_tail(&ep->reach->holders, node);
        recv_matched(ep, req, &take.arrival);
        return true;
    }
    return false;
}

/* req waits in its engine. */
static void on_posted(struct mbx_ep *ep, struct request *req)
{
    struct list *node, *next;

    if (ep->reach == NULL || reach_at_once(ep, req))
        return;
    open_add(ep, ep->reach, req);
    list_for_each (node, &ep->reach->holders)
        if (holder_of(node)->next == &ep->reach->open)
            holder_of(node)->next = &req->queue;
    list_for_each_safe (node, next, &ep->reach->holders) {
        struct holder *holder = holder_of(node);

        if (suits(holder, req))
            reach_forget(holder->peer); /* of two that suit this one goes first */
        if (suits(holder, req) || holder->next != &req->queue)
            outq_owe_now(ep, holder->peer, OWES_RTR);
        else
            holder->next = &ep->reach->open; /* it is the last, and not for this one */
        if (!recv_is_open(req))
            return; /* it has taken something after all */
    }
}

/* ---- answers ---- */

static int send_answer(struct mbx_ep *ep, struct peer *peer, const struct answer *answer)
{
    const struct wire_grant grant = {answer->sender};
    const struct wire_retire retire = {answer->receiver, answer->sender};

    if (answer->receiver == 0)
        return outq_tell(ep, peer, WIRE_GRANT, &grant);
    ep->stats.retires++;
    return outq_tell(ep, peer, WIRE_RETIRE, &retire);
}

static int answers_leave(struct mbx_ep *ep, struct peer *peer)
{
    struct holder *holder = peer->holder;

    while (holder->answer_count != 0) {
        int err = send_answer(ep, peer, &holder->answers[0]);

        if (err != 0)
            return err;
        holder->answer_count--;
        memmove(&holder->answers[0], &holder->answers[1],
                holder->answer_count * sizeof holder->answers[0]);
    }
    return 0;
}

bool reach_answer(struct mbx_ep *ep, struct holder *holder, struct answer what)
{
    if (holder->answer_count == ARRAY_COUNT(holder->answers))
        return false;
    holder->answers[holder->answer_count++] = what;
    outq_owe_now(ep, holder->peer, OWES_ANSWER);
    return true;
}

/* It has an RTR that is of no use any more. */
static void retire(struct mbx_ep *ep, struct holder *holder, const struct request *req)
{
    const struct answer what = {0, req->completion.request};

    if (holder->answer_count != 0 || send_answer(ep, holder->peer, &what) != 0)
        return;
    record_step(ep, TRACE_RETIRE, holder->peer, &req->match.envelope, req->match.ignore,
                req->completion.request, 0);
    holder->live -= holder->live != 0;
}

/* req is not open any more; winner has it, or NULL. */
static void reach_closed(struct mbx_ep *ep, struct request *req, const struct peer *winner)
{
    struct list *open = &ep->reach->open, *node;

    if (!arbiter_close(ep, req))
        arbiter_abandon(ep, req);
    list_for_each (node, &ep->reach->holders) {
        struct holder *holder = holder_of(node);

        if (holder->next == &req->queue)
            holder->next = req->queue.next;
        else if (!suits(holder, req) || req->remote <= holder->from ||
                 (holder->next != open && request_of_queue(holder->next)->remote < req->remote))
            continue; /* never told, or dropped there since */
        else if (holder->peer == winner)
            holder->live -= holder->live != 0;
        else
            retire(ep, holder, req);
    }
    list_remove(&req->queue);
}

static void on_left(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                    const struct peer *by)
{
    (void)cause;
    if (list_is_linked(&req->queue)) /* else it was just posted, and nobody was told */
        reach_closed(ep, req, by);
}

/* ---- claims ---- */

/* Does the holder know of this open receive?  It turns a page only without unresolved claims.
 */
static bool was_told(const struct mbx_ep *ep, const struct holder *holder,
                     const struct request *req)
{
    return req->remote > holder->from && (holder->next == &ep->reach->open ||
                                          req->remote < request_of_queue(holder->next)->remote);
}

/* The open receive that is claimed, and may be. */
static struct request *claimed(struct mbx_ep *ep, const struct peer *peer,
                               const struct wire_packet *packet)
{
    struct request *req = request_find(ep, packet->body.claim.receiver);
    const struct mbx_match_envelope envelope = {packet->header.context_id, peer->number,
                                                packet->header.tag};

    if (req == NULL || request_is_send(req) || !recv_is_open(req) ||
        peer->fins > FINS_MOST + HOLD_CLAIMS + peer->credit.window ||
        !was_told(ep, peer->holder, req) || !module_is_home(ep))
        return NULL;
    return mbx_match_accepts(&req->match.envelope, req->match.ignore, &envelope) ? req : NULL;
}

/* The message as it would have come by itself. */
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

static int on_claim(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_claim *claim = &packet->body.claim;
    bool has_won = (packet->header.flags & WIRE_WON) != 0;
    struct request *req;
    struct arrival arrival;
    struct wire_rts rts;

    if (!peer->holds || claim->sender == 0)
        return -EPROTO;
    req = claimed(ep, peer, packet);
    if (req == NULL || !arbiter_give(ep, req, peer, has_won))
        return reach_answer(ep, peer->holder, (struct answer){claim->sender, claim->receiver})
                   ? 0
                   : -EPROTO;
    arrival = claim_arrival(peer, packet, &rts);
    if (arrival.rts != NULL &&
        !reach_answer(ep, peer->holder, (struct answer){claim->sender, 0}))
        return -EPROTO;
    ep->stats.reached++;
    take_granted(&peer->holder->table, claim->sender);
    recv_taken(ep, req, &arrival.envelope, RECV_MET, peer);
    recv_matched(ep, req, &arrival);
    return 0;
}

const struct module reach_module = {
    .name = "reach",
    .packets =
        (const struct packet_handler[]){{WIRE_HOLD, on_hold}, {WIRE_CLAIM, on_claim}, {0}},
    .controls =
        (const struct control[]){
            {.what = OWES_ANSWER, .send = answers_leave, .is_closing = true},
            {.what = OWES_RTR, .send = reach_advertise},
            {0}},
    .fini = on_fini,
    .peer_gone = on_gone,
    .recv_posted = on_posted,
    .recv_left = on_left,
    .message_came = reach_leave,
};
