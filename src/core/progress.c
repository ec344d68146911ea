/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c - the only place where anything moves.
 *
 *   progress_round ── transport poll ──> progress_deliver   what has arrived
 *                  ├─ active                                memory of peers
 *                  ├─ works                                 of modules
 *                  └─ busy peers' out ──> progress_step     what waited for room
 */
#include "core/core.h"
#include "p2p/credit.h"
#include "core/module.h"
#include "core/record.h"
#include "core/valid.h"

/* Packets of one poll, so that what waits to leave gets its turn. */
#define PROGRESS_BUDGET 64

static const char beyond_window[] = "it is beyond the window of its sender";

OUT_OF_LINE void progress_dropped(void *arg, const char *reason)
{
    struct mbx_ep *ep = arg;

    ep->stats.dropped_packets++;
    if (ep->shouted)
        return;
    ep->shouted = true;
    LOG_WARN("dropped a packet: %s (further ones are only counted)", reason);
}

/* The posted receive that such a message meets.  NULL: it has to wait, in *context, or in the
 * lobby if that is NULL. */
static inline struct request *progress_match(struct mbx_ep *ep,
                                             const struct mbx_match_envelope *envelope,
                                             struct context **context)
{
    struct mbx_match_recv *recv;

    *context = context_known(ep, envelope->context_id);
    recv = likely(*context != NULL) ? mbx_match_find(&(*context)->match, envelope) : NULL;
    if (recv == NULL)
        return NULL;
    ep->stats.expected++;
    ep->stats.posted_now--;
    record_arrive(ep, envelope, container_of(recv, struct request, match), NULL);
    if (unlikely(container_of(recv, struct request, match)->size >= ep->watched_from))
        module_recv_left(ep, container_of(recv, struct request, match), RECV_MET, NULL);
    return container_of(recv, struct request, match);
}

int progress_wait(struct mbx_ep *ep, struct context *context, struct message *message)
{
    int err = mbx_match_keep(&context->match, &message->match);

    if (unlikely(err < 0))
        return err;
    record_arrive(ep, &message->match.envelope, NULL, message);
    ep->stats.unexpected++;
    stats_kept(&ep->stats.unexpected_now, &ep->stats.unexpected_max, 1);
    return 0;
}

/* The message waits in the unexpected queue.  As transport_events.deliver. */
static OUT_OF_LINE int progress_keep(struct mbx_ep *ep, struct context *context,
                                     const struct arrival *arrival)
{
    struct peer *peer = peer_get(ep, arrival->envelope.source);
    struct message *message;

    if (unlikely(!credit_has_room(peer, credit_of(arrival)))) {
        progress_dropped(ep, beyond_window);
        return 0;
    }
    if (context == NULL)
        context = context_lobby(ep);
    message = context != NULL ? message_keep(ep, arrival) : NULL;
    if (unlikely(message == NULL))
        return -EAGAIN;
    if (unlikely(progress_wait(ep, context, message) < 0)) {
        message_drop(ep, message);
        return -EAGAIN;
    }
    credit_keep(peer, credit_of(arrival));
    if (arrival->is_fragmented)
        eager_assemble(ep, arrival, message);
    return 0;
}

/* A message has come. */
static int progress_arrive(struct mbx_ep *ep, struct peer *peer, const struct arrival *arrival)
{
    struct context *context;
    struct request *req;

    if (unlikely(!credit_admits(peer))) {
        progress_dropped(ep, beyond_window);
        return 0;
    }
    if (unlikely(peer->holder != NULL))
        module_message_came(ep, peer);
    req = progress_match(ep, &arrival->envelope, &context);
    if (req == NULL)
        return progress_keep(ep, context, arrival);
    credit_freed(ep, peer, credit_of(arrival));
    recv_matched(ep, req, arrival);
    return 0;
}

/* A packet that is or begins a message.  1; -EPROTO. */
static int progress_begins(struct mbx_ep *ep, struct peer *peer,
                           const struct wire_packet *packet, struct arrival *arrival)
{
    *arrival = (struct arrival){
        .envelope = {packet->header.context_id, peer->number, packet->header.tag},
        .data = packet->header.data,
        .size = packet->payload_size,
        .payload = packet->payload,
        .have = packet->payload_size,
    };
    if (packet->header.type == WIRE_SYNC) {
        arrival->sender = packet->body.sync.sender;
    } else if (packet->header.type == WIRE_FIRST) {
        arrival->sender = packet->body.first.sender;
        arrival->size = packet->body.first.size;
        arrival->is_fragmented = true;
        if (arrival->size > WIRE_EAGER_MAX || peer->assembly.size != 0)
            return -EPROTO;
    } else if (packet->header.type == WIRE_RTS) {
        arrival->sender = packet->body.rts.sender;
        arrival->size = packet->body.rts.size;
        arrival->rts = &packet->body.rts;
        if (packet->header.flags & WIRE_SHORT_OF)
            credit_lend(ep, peer, false);
    }
    return 1;
}

/* Any packet that wire_check() has let in.  0 done; 1 it is or begins a message, *arrival;
 * -EAGAIN no memory now; -EPROTO it does not fit the state of its message. */
static int progress_packet(struct mbx_ep *ep, struct peer *peer,
                           const struct wire_packet *packet, struct arrival *arrival)
{
    unsigned type = packet->header.type;

    if (type <= WIRE_FIRST || type == WIRE_RTS)
        return progress_begins(ep, peer, packet, arrival);
    return ep->packets[type] != NULL ? ep->packets[type](ep, peer, packet) : -EPROTO;
}

int progress_open(struct mbx_ep *ep, uint32_t number, const void *bytes, size_t size,
                  struct wire_packet *room, struct arrival *arrival)
{
    const char *reason = "it does not fit the state of its message";
    int result = wire_check(bytes, size, room, &reason);

    if (likely(result == 0))
        result = progress_packet(ep, peer_get(ep, number), room, arrival);
    if (unlikely(result < 0) && result != -EAGAIN) {
        progress_dropped(ep, reason);
        return 0;
    }
    return result;
}

/* Any packet, or what claims to be one.  As transport_events.deliver. */
static OUT_OF_LINE int progress_check(struct mbx_ep *ep, uint32_t number, const void *bytes,
                                      size_t size)
{
    struct wire_packet packet;
    struct arrival arrival;
    int result = progress_open(ep, number, bytes, size, &packet, &arrival);

    return result == 1 ? progress_arrive(ep, peer_get(ep, number), &arrival) : result;
}

/* A whole eager message, as it lies in its packet. */
static inline struct arrival progress_eager(const struct wire_header *header, uint32_t number,
                                            const void *bytes, size_t size)
{
    return (struct arrival){
        .envelope = {header->context_id, number, header->tag},
        .size = size - sizeof *header,
        .data = header->data,
        .payload = (const char *)bytes + sizeof *header,
        .have = size - sizeof *header,
    };
}

/* One packet has arrived.  As transport_events.deliver.
 *
 * For the short path, an arrival is made only where it is known what becomes of it: then
 * the compiler, which puts the matching and what follows in here, needs neither to make it nor
 * to ask what kind it is. */
FLATTEN int progress_deliver(void *arg, uint32_t number, const void *bytes, size_t size)
{
    struct mbx_ep *ep = arg;
    struct wire_header header;
    struct context *context;
    struct request *req;
    struct peer *peer;

    if (unlikely(!wire_is_eager(bytes, size, &header)))
        return progress_check(ep, number, bytes, size);
    peer = peer_get(ep, number);
    if (unlikely(!credit_admits(peer))) {
        progress_dropped(ep, beyond_window);
        return 0;
    }
    if (unlikely(peer->holder != NULL))
        module_message_came(ep, peer);
    req = progress_match(
        ep, &(const struct mbx_match_envelope){header.context_id, number, header.tag},
        &context);
    if (likely(req != NULL)) {
        struct arrival arrival;

        credit_freed(ep, peer, credit_eager(size - sizeof header));
        /* no call from here to its use */
        arrival = progress_eager(&header, number, bytes, size);
        recv_matched(ep, req, &arrival);
        return 0;
    } else {
        const struct arrival arrival = progress_eager(&header, number, bytes, size);

        return progress_keep(ep, context, &arrival);
    }
}

int progress_step(struct mbx_ep *ep, struct request *req)
{
    const struct proto *proto = proto_of(ep, req);
    int err = 0; /* it has ended while it waited here */

    if (req->flags & REQUEST_OWES_FIN)
        err = rndv_send_fin(ep, req);
    else if (proto->step != NULL)
        err = proto->step(ep, req);
    if (err == -EAGAIN)
        ep->stats.full++;
    return err;
}

/* Sends what waits for this peer, as far as there is room.  How many went. */
static int progress_push(struct mbx_ep *ep, struct peer *peer)
{
    int moved;

    moved = peer->owes != 0 ? peer_pay_first(ep, peer) : 0;
    while (!list_is_empty(&peer->out)) {
        struct request *req = request_of_out(peer->out.next);
        bool owes_fin = req->flags & REQUEST_OWES_FIN;
        int err = progress_step(ep, req);

        if (err == -EAGAIN || err == -EINPROGRESS) {
            moved += err == -EINPROGRESS;
            ep_stir(ep);
            /* a long answer lets others go first; messages keep their order */
            if (proto_of(ep, req)->states[req->state % PROTO_STATES].lets_pass) {
                list_remove(&req->out);
                list_add_tail(&peer->out, &req->out);
            }
            break;
        }
        assert(peer->leaving != 0 || !(req->flags & REQUEST_LEAVING));
        assert(peer->fins != 0 || !owes_fin);
        peer->leaving -= (req->flags & REQUEST_LEAVING) != 0;
        peer->fins -= owes_fin;
        req->flags &= (uint16_t)~REQUEST_LEAVING;
        if (err < 0 && !owes_fin)
            /* nothing that the peer has sent ends it: its packet can never leave */
            proto_of(ep, req)->peer_gone(ep, peer, req, err);
        request_left(ep, req);
        moved++;
    }
    if (peer->owes & ep->owes_behind)
        moved += peer_pay(ep, peer);
    if (list_is_empty(&peer->out) && peer->owes == 0)
        list_remove(&peer->busy);
    return moved;
}

static OUT_OF_LINE int progress_active(struct mbx_ep *ep)
{
    struct list now;
    int moved = 0;

    list_init(&now);
    list_splice_tail(&now, &ep->active);
    for (struct list *node; (node = list_pop_head(&now)) != NULL; moved++)
        proto_of(ep, request_of_queue(node))->work(ep, request_of_queue(node));
    return moved;
}

void progress_io_done(void *arg, void *cookie, int error)
{
    struct mbx_ep *ep = arg;
    struct request *req = cookie;

    proto_of(ep, req)->io_done(ep, req, error);
}

/* Each once.  One that runs may take others off the list: a device delivers packets, and these
 * end accesses of peers. */
static OUT_OF_LINE int progress_works(struct mbx_ep *ep)
{
    struct list now;
    int moved = 0;

    list_init(&now);
    list_splice_tail(&now, &ep->works);
    for (struct list *node; (node = list_pop_head(&now)) != NULL;) {
        struct work *work = container_of(node, struct work, node);

        list_add_tail(&ep->works, node);
        moved += work->run(ep, work);
    }
    return moved;
}

static OUT_OF_LINE int progress_busy(struct mbx_ep *ep)
{
    struct list *node, *next;
    int moved = 0;

    list_for_each_safe (node, next, &ep->busy)
        moved += progress_push(ep, container_of(node, struct peer, busy));
    return moved;
}

/* Now and then: who is not polled in each round, and who is waited for. */
static OUT_OF_LINE int progress_look_around(struct mbx_ep *ep)
{
    int moved = 0;

    if (ep->polled != ep->transport) {
        moved = ep->transport->ops->poll(ep->transport, PROGRESS_BUDGET);
        progress_polled(ep);
    }
    if (watch_is_on(ep))
        watch_look(ep);
    ep->rounds = 0;
    return moved;
}

void progress_polled(struct mbx_ep *ep)
{
    ep->polled = transport_polled(ep->transport);
    ep->no_hint.word = transport_word_set();
    ep->hint = ep->polled->hint.word != NULL ? &ep->polled->hint : &ep->no_hint;
}

/* Is there something to move that no peer has sent just now? */
static bool progress_is_due(const struct mbx_ep *ep)
{
    return ep->has_threads || !list_is_empty(&ep->works) || !list_is_empty(&ep->active) ||
           !list_is_empty(&ep->busy);
}

/* What waits here to be moved.  How much has moved. */
static OUT_OF_LINE int progress_lists(struct mbx_ep *ep)
{
    int moved = 0;

    if (unlikely(!list_is_empty(&ep->works)))
        moved += progress_works(ep);
    if (unlikely(!list_is_empty(&ep->active)))
        moved += progress_active(ep);
    if (unlikely(!list_is_empty(&ep->busy)))
        moved += progress_busy(ep);
    if (!progress_is_due(ep))
        ep->due &= (uint8_t)~DUE_MOVE;
    return moved;
}

/* Nothing moves: is there still something to read? */
static OUT_OF_LINE void progress_all_read(struct mbx_ep *ep)
{
    if (list_is_empty(&ep->done[MBX_SENDS]) && list_is_empty(&ep->done[MBX_RECVS]) &&
        list_is_empty(&ep->done[MBX_ACCESS]) && list_is_empty(&ep->done[MBX_EVENTS]) &&
        !ep->is_untold)
        ep->due &= (uint8_t)~DUE_READ;
}

static OUT_OF_LINE int progress_all(struct mbx_ep *ep)
{
    int moved = ep->polled->ops->poll(ep->polled, PROGRESS_BUDGET);

    if (unlikely(ep->due & DUE_MOVE))
        moved += progress_lists(ep);
    if (unlikely(ep->rounds >= PROGRESS_LOOK_AROUND))
        moved += progress_look_around(ep);
    if (moved == 0 && (ep->due & DUE_READ))
        progress_all_read(ep);
    if (MBX_CHECKS && moved != 0)
        ep_check(ep);
    return moved;
}

/* Nothing to do in this round, and nothing to read. */
static inline bool progress_is_idle(struct mbx_ep *ep)
{
    return ++ep->rounds < PROGRESS_LOOK_AROUND && ep->due == 0 && transport_is_quiet(ep->hint);
}

int progress_round(struct mbx_ep *ep)
{
    return progress_is_idle(ep) ? 0 : progress_all(ep);
}

int mbx_progress(struct mbx_ep *ep)
{
    int moved;

    if (likely(!ep->has_threads)) {
        ep->rounds++;
        return progress_all(ep);
    }
    ep_lock(ep);
    moved = progress_round(ep);
    ep_unlock(ep);
    return moved;
}

int mbx_idle(struct mbx_ep *ep)
{
    return !ep->has_threads && progress_is_idle(ep);
}
