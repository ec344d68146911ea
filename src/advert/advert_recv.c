/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advert_recv.c - advertised receives, at their receiver.
 *
 * A large receive from one source that finds no message is advertised to that source at once
 * (ADVERTISE), with the address of its buffer.  The source may then match its next suitable
 * message with this receive itself, and write the data there, as a matching device would.  That
 * keeps the order of MPI if at the moment of the advertisement
 *
 *   1. no message of that source is on its way or deferred.  Only the source can know.  So the
 *      packet names the credit that the source has in this case (credit.h, I1: both directions
 *      are in order), and if it has another credit, the receive is void there: forgotten
 *   2. the source also knows each earlier open receive that could match the same message.  So
 *      these have been advertised, and are numbered; the packet has the number of the oldest of
 *      them, and if the source has forgotten one since, this receive is void as well.  Later
 *      receives do no harm
 *   3. from then on the source compares each message with the receive before the message leaves
 *      (advert_send.c)
 *
 * A receive that the source forgets, at any time, is matched here like any other, and neither
 * side waits.
 *
 *   POSTED ── WRITE, all data is there ──────────────────────────> complete
 *      │ └─── WRITE ──> FILLING ── WRITTEN, all data is there ───> complete
 *      │                   └────── WRITTEN, stopped ──────────┐
 *      └── WRITE, stopped ────────────────────────────────────┴──> as after an RTS (rndv.c)
 *
 * The receive has a lock word (lockword.h), which the source takes before it writes; no other
 * peer may take it.  The word decides between the source and us: to cancel the receive, or to
 * give it to a message that arrived, we close its word.  Without a free word a receive is not
 * advertised.
 *
 * An advertisement costs a packet, and is useless if a message was on its way or the next one
 * is short.  So there is a backoff for each peer: after a useless advertisement `pause`
 * receives are not advertised, and pause doubles, up to PAUSE_MOST; after a useful one it is 0
 * again.  An advertisement is also useless if we only wait while the sender writes, and both
 * sides could have copied a part each (split_copy.c), in half of the time.  A wait is
 * recognised by its rounds of progress; we may compute next time, so pause is at most
 * PAUSE_WAITED then.
 *
 * Invariants
 *   I1  a request is ANNOUNCED from ADVERTISE until its buffer can no longer be written, and
 *       completes only then; while it is ANNOUNCED, open.word names its word or is 0
 *   I2  ep_advert(ep)->announced counts these requests, peer.advert->announced the ones of one
 *       peer, which are at most ADVERT_MOST
 *   I3  each open receive that overlaps with one that is ANNOUNCED, and was posted earlier, is
 *       ANNOUNCED, and has a smaller number
 */
#include "base/check.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "advert/advert.h"
#include "advert/split_copy.h"
#include "transport/memory.h"

/* The most earlier open receives that a receive is compared with; if there are more it is not
 * advertised. */
#define OTHERS_MOST  64

#define PAUSE_MOST   16
#define PAUSE_WAITED 4 /* after a wait, we may compute next time */

#define WAITED       2 /* slow checks during the write: between them are many rounds */

static int advert_recv_on_open(struct mbx_ep *ep)
{
    ep_advert(ep)->from = path_advertised_from(ep);
    if (ep_advert(ep)->from != SIZE_MAX)
        module_watch(ep, ep_advert(ep)->from);
    return 0;
}

/* ---- is an advert of use? ---- */

static void advert_was_used(struct advert *advert)
{
    backoff_end(&advert->backoff);
}

static void advert_was_useless(const struct mbx_ep *ep, struct advert *advert,
                               uint8_t pause_most)
{
    if (ep->settings.tuning.advert == TUNING_ALWAYS)
        return;
    backoff_more(&advert->backoff, pause_most);
}

/* The sender has written all that it will write of req, in ADVERT_FILLING. */
static void advert_was_filled(const struct mbx_ep *ep, const struct peer *peer,
                              const struct request *req)
{
    bool has_waited = ep->progress.checks - req->announced.began >= WAITED;

    if (has_waited && req->total - req->done >= ep_advert(ep)->split_copy_from &&
        path_is_shared_copy(ep, peer))
        advert_was_useless(ep, peer->advert, PAUSE_WAITED);
    else
        advert_was_used(peer->advert);
}

/* ---- advertising ---- */

/* The oldest open receive before req that could match a message for req, and that req's source
 * does not know; NULL: there is none.  *from: the number of the oldest one that it knows, or
 * req's own.  Returns req itself if there are too many. */
static const struct mbx_match_recv *advert_blocker(const struct mbx_ep *ep,
                                                   const struct request *req, uint64_t *from)
{
    const struct mbx_match *match = &context_find(ep, req->match.envelope.context_id)->match;
    const struct mbx_match_recv *other = NULL;

    *from = UINT64_MAX;
    for (int i = 0; i <= OTHERS_MOST; i++) {
        const struct request *earlier;

        other = mbx_match_next_recv(match, other);
        if (other == &req->match)
            return NULL;
        if (!advert_overlap(&other->envelope, other->ignore, &req->match.envelope,
                            req->match.ignore))
            continue;
        earlier = container_of(other, struct request, match);
        if (!(earlier->flags & REQUEST_ADVERTISED))
            return other;
        *from = min_size(*from, earlier->announced.number);
    }
    return &req->match;
}

/* Lets peer write into req, once it gets *body.  False: not possible. */
static bool advert_expose(struct mbx_ep *ep, struct peer *peer, struct request *req,
                          uint64_t from, struct wire_advertise *body)
{
    struct advert *advert = peer->advert;
    struct link *link = peer->link;

    assert(recv_is_open(req));
    assert(!(req->flags & REQUEST_ADVERTISED));
    assert(advert->announced < ADVERT_MOST);
    if (!link->transport->limits.is_instant)
        return false; /* the peer could not win the receive */
    lockword_open(ep, &req->open.word);
    if (req->open.word == 0)
        return false;
    req->peer = peer->number;
    if (transport_expose(link, req->buf, req->size, &req->announced.address,
                         &req->announced.key) != 0) {
        lockword_close(ep, &req->open.word, recv_heir(req));
        return false;
    }
    req->flags |= REQUEST_ADVERTISED;
    req->announced.number = ++advert->numbered;
    ep_advert(ep)->announced++;
    advert->announced++;
    *body = (struct wire_advertise){
        .receiver = req->completion.request,
        .number = req->announced.number,
        .from = min_size(from, req->announced.number),
        .word = req->open.word,
        .owner_id = peer->number,
        .credit = peer_credit(peer)->window - peer_credit(peer)->kept_envelopes -
                  peer_credit(peer)->freed_envelopes,
        .size = req->size,
        .address = req->announced.address,
        .key = req->announced.key,
    };
    return true;
}

/* Ends the access of the peer to req, which is ANNOUNCED and over. */
static void advert_unexpose(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);

    assert(req->flags & REQUEST_ADVERTISED);
    assert(ep_advert(ep)->announced != 0);
    assert(peer->advert->announced != 0);
    if (!lockword_close(ep, &req->open.word, recv_heir(req)))
        lockword_abandon(
            ep, &req->open.word); /* taken by a peer that is gone, or breaks the protocol */
    transport_unexpose(peer->link, req->announced.address, req->announced.key);
    req->flags &= (uint32_t)~REQUEST_ADVERTISED;
    ep_advert(ep)->announced--;
    peer->advert->announced--;
}

/* Advertises req; from: the result of advert_blocker(). */
static void advert_advertise(struct mbx_ep *ep, struct peer *peer, struct request *req,
                             uint64_t from)
{
    const struct mbx_status status = {
        .context_id = req->match.envelope.context_id,
        .tag = req->match.envelope.tag,
        .data = req->match.ignore,
    };
    struct wire_advertise body;

    if (peer->advert->announced == ADVERT_MOST || !advert_expose(ep, peer, req, from, &body))
        return;
    if (outq_notify_message(ep, peer, WIRE_ADVERTISE, 0, &status, &body, NULL, 0) != 0) {
        advert_unexpose(ep, req); /* it is not advertised */
        return;
    }
    ep->stats.advert_sent++;
    tracepoint_step(ep, TRACE_ADVERTISE, peer, &req->match.envelope, req->match.ignore,
                    req->completion.request, 0);
}

/* Advertises req if no earlier receive blocks it; otherwise returns that receive. */
static const struct mbx_match_recv *advert_try(struct mbx_ep *ep, struct peer *peer,
                                               struct request *req)
{
    uint64_t from;
    const struct mbx_match_recv *blocker = advert_blocker(ep, req, &from);

    if (blocker == NULL)
        advert_advertise(ep, peer, req, from);
    return blocker;
}

/* The open receive that blocks req, if it can be advertised before req; its own advertisement
 * was omitted for some reason. */
static struct request *advert_before(const struct mbx_ep *ep,
                                     const struct mbx_match_recv *blocker,
                                     const struct request *req)
{
    struct request *other =
        container_of((struct mbx_match_recv *)(uintptr_t)blocker, struct request, match);

    return other != req && blocker->envelope.source == req->match.envelope.source &&
                   size_is_advert(ep, other->size) && !request_is_in_pieces(other)
               ? other
               : NULL;
}

static struct advert *advert_of(struct peer *peer)
{
    if (peer->advert == NULL)
        peer->advert = mem_calloc(1, sizeof *peer->advert);
    return peer->advert;
}

/* Bytes that the sender writes are in its caches, and the receiver has to move them before it
 * can use them.  Bounce buffers are read while the sender still copies into the next one. */
static bool advert_is_slower(const struct mbx_ep *ep, const struct peer *peer, size_t size)
{
    return ep->settings.tuning.advert != TUNING_ALWAYS && path_comes_in_buffers(ep, peer, size);
}

/* req has been posted and waits in its engine. */
static void advert_recv_on_posted(struct mbx_ep *ep, struct request *req)
{
    const struct mbx_match_recv *blocker;
    struct request *other;
    struct peer *peer;
    struct advert *advert;

    if (!size_is_advert(ep, req->size) || request_is_in_pieces(req) ||
        req->match.envelope.source == MBX_ANY_SOURCE || req->open.word != 0 ||
        peer_use(ep, req->match.envelope.source) != 0)
        return;
    peer = peer_get(ep, req->match.envelope.source);
    advert = advert_of(peer);
    if (advert == NULL || advert->announced == ADVERT_MOST || peer_defer(peer)->defers ||
        peer->health.is_gone || advert_is_slower(ep, peer, req->size))
        return;
    path_advertises(peer);
    if (!backoff_try(&advert->backoff))
        return;
    blocker = advert_try(ep, peer, req);
    if (blocker == NULL)
        return;
    other = advert_before(ep, blocker, req);
    if (other != NULL && advert_try(ep, peer, other) == NULL)
        advert_try(ep, peer, req);
}

/* ---- the end of an advert ---- */

/* req has left its engine, for a message of its sender or another one, or without a message. */
static void advert_recv_on_left(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                                const struct peer *by)
{
    (void)by;
    if (!(req->flags & REQUEST_ADVERTISED) || cause == RECV_WRITTEN)
        return;
    if (cause != RECV_ENDED) {
        ep->stats.advert_missed++;
        advert_was_useless(ep, peer_get(ep, req->peer)->advert, PAUSE_MOST);
    }
    advert_unexpose(ep, req);
}

static void advert_take_back(void *arg, void *object)
{
    struct mbx_ep *ep = arg;
    struct request *req = object;

    if (req->state == REQUEST_POSTED && (req->flags & REQUEST_ADVERTISED) &&
        lockword_close(ep, &req->open.word, recv_heir(req)))
        advert_unexpose(ep, req);
}

/* Before the endpoint closes: withdraws the receives that no sender has taken. */
static void on_stop(struct mbx_ep *ep)
{
    ep_advert(ep)->from = SIZE_MAX;
    if (ep_advert(ep)->announced != 0)
        pool_for_each(&ep->requests.pool, advert_take_back, ep);
}

/* ---- packets of the sender ---- */

/* The open receive that a WRITE of peer names, if the WRITE is valid. */
static struct request *advert_named(struct mbx_ep *ep, const struct peer *peer,
                                    const struct wire_packet *packet)
{
    const struct wire_write *write = &packet->body.write;
    struct request *req = request_find(ep, write->receiver);
    const struct mbx_match_envelope envelope = {packet->header.context_id, peer->number,
                                                packet->header.tag};

    if (req == NULL || request_is_send(req) || !recv_is_open(req) ||
        !(req->flags & REQUEST_ADVERTISED) || req->peer != peer->number)
        return NULL;
    return mbx_match_accepts(&req->match.envelope, req->match.ignore, &envelope) &&
                   write->done <= req->size && write->sender != 0
               ? req
               : NULL;
}

/* All data that fits is in the buffer. */
static void advert_received(struct mbx_ep *ep, struct request *req)
{
    ep->stats.received[MBX_RNDV_WRITE]++;
    ep->stats.received_bytes[MBX_RNDV_WRITE] += req->completion.status.size;
    req->completion.received = req->total;
    request_complete(ep, req, req->completion.error); /* and ends ANNOUNCED */
}

/* Writing was stopped: the rest is read from the sender, as after an RTS. */
static void advert_fetch(struct mbx_ep *ep, struct request *req, uint64_t address, uint64_t key)
{
    advert_unexpose(ep, req);
    req->remote.address = address;
    req->remote.key = key;
    rndv_resume(ep, req, false);
}

static int on_write(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct mbx_match_envelope envelope = {packet->header.context_id, peer->number,
                                                packet->header.tag};
    const struct wire_write *write = &packet->body.write;
    struct request *req = advert_named(ep, peer, packet);

    if (req == NULL || !lockword_give(ep, &req->open.word, peer, true))
        return -EPROTO;
    ep->stats.advert_won++;
    recv_taken(ep, req, &envelope, RECV_WRITTEN, peer);
    recv_describe(ep, req, &envelope, packet->header.data, write->size);
    req->remote.request = write->sender;
    req->done = write->done;
    proto_move(ep, req, ADVERT_FILLING);
    if (req->done < req->total && !(packet->header.flags & WIRE_STOPPED)) {
        req->announced.began = ep->progress.checks;
        return 0;
    }
    advert_was_used(peer->advert);
    if (req->done == req->total)
        advert_received(ep, req);
    else
        advert_fetch(ep, req, write->address, write->key);
    return 0;
}

static int on_written(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_written *written = &packet->body.written;
    bool is_stopped = (packet->header.flags & WIRE_STOPPED) != 0;
    struct request *req = split_copy_named(ep, peer, written->receiver);

    if (req != NULL)
        return split_copy_ended(ep, peer, req, packet);
    req = request_named(ep, written->receiver, peer->number, ADVERT_FILLING);
    if (req == NULL || written->done < req->done || written->done > req->total ||
        is_stopped != (written->done < req->total))
        return -EPROTO;
    advert_was_filled(ep, peer, req);
    req->done = written->done;
    if (is_stopped)
        advert_fetch(ep, req, written->address, written->key);
    else
        advert_received(ep, req);
    return 0;
}

/* Receives that are still announced are being written. */
static bool advert_recv_on_is_flushed(const struct mbx_ep *ep)
{
    return ep_advert(ep)->announced == 0;
}

static void advert_recv_gone(struct mbx_ep *ep, struct peer *peer, struct request *req,
                             int error)
{
    (void)peer;
    request_lost(ep, req, error);
}

static const struct proto advert_recv_proto = {
    .id = PROTO_ADVERT_RECV,
    .name = "advert receive",
    .states = {{.name = "filling",
                .kinds = MBX_RECVS,
                .moves = true,
                .then = PROTO_THEN(PROTO_RNDV),
                .from = {REQUEST_POSTED},
                .is_open = true,
                .awaits_peer = true}},
    .peer_gone = advert_recv_gone,
    .ended = advert_unexpose,
};

/* Is a receive announced to this peer? */
static bool advert_recv_on_refers(struct mbx_ep *ep, const struct peer *peer)
{
    (void)ep;
    return peer->advert != NULL && peer->advert->announced != 0;
}

const struct module advert_recv_module = {
    .name = "advert receive",
    .proto = &advert_recv_proto,
    .packets = (const struct packet_handler[]){{WIRE_WRITE, on_write},
                                               {WIRE_WRITTEN, on_written},
                                               {0}},
    .open = advert_recv_on_open,
    .stop = on_stop,
    .is_flushed = advert_recv_on_is_flushed,
    .recv_posted = advert_recv_on_posted,
    .recv_left = advert_recv_on_left,
    .peer_refers = advert_recv_on_refers,
    .is_valid = MBX_CHECKS ? advert_recv_is_valid : NULL,
};
