/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.c - the only place where anything moves.
 *
 *   mbx_progress ── transport poll ──> progress_deliver   what has arrived
 *                ├─ reading                               receives that read
 *                └─ busy peers' out ──> progress_step     what waited for room
 *
 * Waiting is progress until nothing moves, for MBX_SPIN, and then sleep on what the
 * transport's peers can wake.
 */
#include "core/core.h"
#include "core/record.h"

/* Packets of one poll, so that what waits to leave gets its turn. */
#define PROGRESS_BUDGET 64

/* Empty polls between two looks at the clock. */
#define PROGRESS_POLLS 64

/* Empty polls before a wait relaxes the core between them: a relax costs up to 40 ns,
 * much of the latency of a message that is under way already. */
#define PROGRESS_EAGER 1024

/* The longest that a wait polls if others need the core. */
#define PROGRESS_SPIN_SHARED (5 * CLOCK_US)

OUT_OF_LINE void progress_dropped(void *arg, const char *reason)
{
    struct mbx_ep *ep = arg;

    ep->stats.dropped_packets++;
    if (ep->shouted)
        return;
    ep->shouted = true;
    LOG_WARN("dropped a packet: %s (further ones are only counted)", reason);
}

/* The posted receive that such a message meets.  NULL: it has to wait, in *context, if
 * there was memory for one. */
static inline struct request *progress_match(struct mbx_ep *ep,
                                             const struct match_envelope *envelope,
                                             struct context **context)
{
    struct match_recv *recv;

    *context = context_get(ep, envelope->context_id);
    recv = likely(*context != NULL) ? match_find(&(*context)->match, envelope) : NULL;
    if (recv == NULL)
        return NULL;
    ep->stats.expected++;
    ep->stats.posted_now--;
    record_arrive(ep, envelope, container_of(recv, struct request, match), NULL);
    return container_of(recv, struct request, match);
}

/* The message waits in the unexpected queue.  As transport_events.deliver. */
static OUT_OF_LINE int progress_keep(struct mbx_ep *ep, struct context *context,
                                     const struct arrival *arrival)
{
    struct message *message = context != NULL ? message_keep(ep, arrival) : NULL;
    int err;

    if (unlikely(message == NULL))
        return -EAGAIN;
    err = match_keep(&context->match, &message->match);
    if (unlikely(err < 0)) {
        message_drop(ep, message);
        return -EAGAIN;
    }
    record_arrive(ep, &arrival->envelope, NULL, message);
    ep->stats.unexpected++;
    stats_kept(&ep->stats.unexpected_now, &ep->stats.unexpected_max, 1);
    if (arrival->is_fragmented)
        eager_assemble(ep, arrival, message);
    return 0;
}

/* A message has come. */
static int progress_arrive(struct mbx_ep *ep, const struct arrival *arrival)
{
    struct context *context;
    struct request *req = progress_match(ep, &arrival->envelope, &context);

    if (req == NULL)
        return progress_keep(ep, context, arrival);
    recv_matched(ep, req, arrival);
    return 0;
}

/* Anything but a whole eager message.  0 done; 1 it is or begins a message, *arrival;
 * -EPROTO it does not fit the state of its message. */
static int progress_packet(struct mbx_ep *ep, struct peer *peer,
                           const struct wire_packet *packet, struct arrival *arrival)
{
    *arrival = (struct arrival){
        .envelope = {packet->header.context_id, peer->number, packet->header.tag},
        .data = packet->header.data,
        .size = packet->payload_size,
        .payload = packet->payload,
        .have = packet->payload_size,
    };
    switch ((enum wire_type)packet->header.type) {
    case WIRE_SYNC:
        arrival->sender = packet->body.sync.sender;
        return 1;
    case WIRE_FIRST:
        arrival->sender = packet->body.first.sender;
        arrival->size = packet->body.first.size;
        arrival->is_fragmented = true;
        return arrival->size > EAGER_MAX || peer->assembly.size != 0 ? -EPROTO : 1;
    case WIRE_RTS:
        arrival->sender = packet->body.rts.sender;
        arrival->size = packet->body.rts.size;
        arrival->rts = &packet->body.rts;
        return 1;
    case WIRE_MORE:
        return eager_more(ep, peer, packet);
    case WIRE_CTS:
        return rndv_cts(ep, peer, &packet->body.cts);
    case WIRE_DATA:
        return rndv_data(ep, peer, packet);
    case WIRE_FIN:
        return rndv_fin(ep, peer, &packet->body.fin);
    case WIRE_EAGER:
    case WIRE_TYPES:
        break;
    }
    return -EPROTO;
}

/* Any packet, or what claims to be one.  As transport_events.deliver. */
static OUT_OF_LINE int progress_check(struct mbx_ep *ep, uint32_t number, const void *bytes,
                                      size_t size)
{
    const char *reason = "it does not fit the state of its message";
    struct wire_packet packet;
    struct arrival arrival;
    int result = wire_check(bytes, size, &packet, &reason);

    if (likely(result == 0))
        result = progress_packet(ep, peer_get(ep, number), &packet, &arrival);
    if (result == 1)
        return progress_arrive(ep, &arrival);
    if (unlikely(result < 0))
        progress_dropped(ep, reason);
    return 0;
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
 * the compiler needs neither to make it nor to ask what kind it is. */
int progress_deliver(void *arg, uint32_t number, const void *bytes, size_t size)
{
    struct mbx_ep *ep = arg;
    struct wire_header header;
    struct context *context;
    struct request *req;

    if (unlikely(!wire_is_eager(bytes, size, &header)))
        return progress_check(ep, number, bytes, size);
    req = progress_match(
        ep, &(const struct match_envelope){header.context_id, number, header.tag}, &context);
    if (likely(req != NULL)) {
        const struct arrival arrival = progress_eager(&header, number, bytes, size);

        recv_matched(ep, req, &arrival);
        return 0;
    } else {
        const struct arrival arrival = progress_eager(&header, number, bytes, size);

        return progress_keep(ep, context, &arrival);
    }
}

int progress_step(struct mbx_ep *ep, struct request *req)
{
    int err;

    if (req->flags & REQUEST_OWES_FIN)
        err = rndv_send_fin(ep, req);
    else if (req->state == REQUEST_EAGER)
        err = eager_step(ep, req);
    else
        err = rndv_step(ep, req);
    if (err == -EAGAIN)
        ep->stats.full++;
    return err;
}

/* Sends what waits for this peer, as far as there is room.  How many went. */
static int progress_push(struct mbx_ep *ep, struct peer *peer)
{
    int moved = 0;

    while (!list_is_empty(&peer->out)) {
        struct request *req = request_of_out(peer->out.next);
        bool owes_fin = req->flags & REQUEST_OWES_FIN;
        int err = progress_step(ep, req);

        if (err == -EAGAIN || err == -EINPROGRESS) {
            moved += err == -EINPROGRESS;
            /* a long answer lets others go first; messages keep their order */
            if (req->state == REQUEST_SEND_DATA) {
                list_remove(&req->out);
                list_add_tail(&peer->out, &req->out);
            }
            break;
        }
        if (err < 0 && !owes_fin)
            request_complete(ep, req, err);
        request_left(ep, req);
        moved++;
    }
    if (list_is_empty(&peer->out))
        list_remove(&peer->busy);
    return moved;
}

static OUT_OF_LINE int progress_reading(struct mbx_ep *ep)
{
    struct list now;
    int moved = 0;

    list_init(&now);
    list_splice_tail(&now, &ep->reading);
    for (struct list *node; (node = list_pop_head(&now)) != NULL; moved++)
        rndv_read(ep, request_of_queue(node));
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

int mbx_progress(struct mbx_ep *ep)
{
    int moved = ep->transport->ops->poll(ep->transport, PROGRESS_BUDGET);

    if (unlikely(!list_is_empty(&ep->reading)))
        moved += progress_reading(ep);
    if (unlikely(!list_is_empty(&ep->busy)))
        moved += progress_busy(ep);
    return moved;
}

/* What remains until deadline_ns, at most what a transport is asked to sleep. */
static int64_t progress_left(int64_t timeout_ns, uint64_t start_ns)
{
    uint64_t gone = clock_now() - start_ns;

    if (timeout_ns < 0)
        return -1;
    return gone < (uint64_t)timeout_ns ? timeout_ns - (int64_t)gone : 0;
}

/* How long a wait polls.  With more peers than cores one of them may need ours. */
static uint64_t progress_spin(const struct mbx_ep *ep)
{
    uint64_t spin = ep->settings.spin_ns;

    return ep->peer_count > ep->cores && spin > PROGRESS_SPIN_SHARED ? PROGRESS_SPIN_SHARED
                                                                     : spin;
}

/* Waits until is_done(ep, arg).  0; -ETIMEDOUT; -EINTR. */
static OUT_OF_LINE int progress_until(struct mbx_ep *ep,
                                      bool (*is_done)(struct mbx_ep *ep, void *arg), void *arg,
                                      int64_t timeout_ns)
{
    uint64_t start_ns = 0, idle_ns = 0, now_ns;
    unsigned idle = 0;

    for (unsigned round = 1;; round++) {
        if (is_done(ep, arg))
            return 0;
        if (mbx_progress(ep) > 0)
            idle = 0;
        else if (++idle > PROGRESS_EAGER)
            cpu_relax();
        if (round % PROGRESS_POLLS != 0)
            continue;
        now_ns = clock_now();
        if (start_ns == 0)
            start_ns = now_ns;
        if (timeout_ns >= 0 && now_ns - start_ns >= (uint64_t)timeout_ns)
            return -ETIMEDOUT;
        if (idle < PROGRESS_POLLS)
            idle_ns = 0;
        else if (idle_ns == 0)
            idle_ns = now_ns;
        if (idle_ns != 0 && now_ns - idle_ns >= progress_spin(ep) &&
            list_is_empty(&ep->reading)) {
            int err =
                ep->transport->ops->wait(ep->transport, progress_left(timeout_ns, start_ns));

            ep->stats.sleeps++;
            if (err == -EINTR)
                return is_done(ep, arg) ? 0 : err;
        }
    }
}

static bool progress_request_done(struct mbx_ep *ep, void *arg)
{
    (void)ep;
    return ((struct request *)arg)->state == REQUEST_COMPLETE;
}

/* req is not complete yet: mbx_wait() from here on. */
static OUT_OF_LINE int progress_request(struct mbx_ep *ep, struct request *req,
                                        int64_t timeout_ns, struct mbx_completion *completion)
{
    int polls = 0, err = 0;

    do /* most answers are under way already */
        mbx_progress(ep);
    while (req->state != REQUEST_COMPLETE && ++polls < PROGRESS_POLLS);
    if (unlikely(req->state != REQUEST_COMPLETE))
        err = progress_until(ep, progress_request_done, req, timeout_ns);
    if (likely(err == 0))
        request_consume(ep, req, completion);
    return err;
}

int mbx_wait(struct mbx_ep *ep, mbx_request request, int64_t timeout_ns,
             struct mbx_completion *completion)
{
    struct request *req = request_find(ep, request);

    if (unlikely(req == NULL))
        return -ESTALE;
    if (req->state != REQUEST_COMPLETE)
        return progress_request(ep, req, timeout_ns, completion);
    request_consume(ep, req, completion);
    return 0;
}

static bool progress_any_done(struct mbx_ep *ep, void *arg)
{
    unsigned queues = *(unsigned *)arg;

    return ((queues & MBX_SENDS) && !list_is_empty(&ep->done[MBX_SENDS])) ||
           ((queues & MBX_RECVS) && !list_is_empty(&ep->done[MBX_RECVS]));
}

int mbx_wait_any(struct mbx_ep *ep, unsigned queues, int64_t timeout_ns)
{
    if (queues == 0 || (queues & ~(unsigned)(MBX_SENDS | MBX_RECVS)))
        return -EINVAL;
    return progress_until(ep, progress_any_done, &queues, timeout_ns);
}
