/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offload.c - what the device does becomes what happens to requests.
 *
 *   POSTED ──device matched──> MATCHED ─DATA_VALID──> COMPLETE
 *     │                          └──INCOMPLETE──> READ or CTS, as if software had matched it
 *     └──cancel──> REVOKING ──in time──> COMPLETE (-ECANCELED)
 *                     └──too late──> as POSTED
 *   CLAIMED is the same for who wants it for another message, and then is told.
 *
 * The device is gone: what it had matched by rendezvous and not finished is read again from
 * where its MATCHED said; no FIN has left for it, because DATA_VALID comes first.  FINs that it
 * may not have sent are sent again; the sender refuses the second.  Only the fragments of an
 * eager message that it had taken are lost: that receive ends with -EIO.  So does one of which
 * not even the size was told (MBX_DEVICE_SIZE_LATER).
 *
 * Invariants
 *   I1  the states of a request and of its shadow agree: an open receive is SOFTWARE, WAITING,
 *       HANDED or RECALLED (or NONE, once the device is lost), MATCHED, REVOKING and
 *       CLAIMED are what they are there
 *   I2  without a device no request is MATCHED, REVOKING or CLAIMED; with one, every receive is
 *       watched
 */
#include "base/check.h"
#include "base/sys.h"
#include "offload/offload.h"

#include "core/core.h"

#include "p2p/p2p.h"
#include "offload/bypass.h"
#include "softdev/softdev.h"
#include "transport/handoff.h"

/* So long a device elsewhere may be without a receive before it leaves. */
#define UNUSED_POLLS 16384

/* How long a sleep may last without a look whether a device elsewhere is alive. */
#define LOOK_NS ((int64_t)(100 * CLOCK_MS))

static struct request *request_of(struct shadow_recv *recv)
{
    return container_of(recv, struct request, shadow);
}

/* ---- receives ---- */

static void on_posted(struct mbx_ep *ep, struct request *req)
{
    if (ep->offload == NULL)
        return;
    req->shadow.state = SHADOW_NONE;
    if (request_is_in_pieces(req))
        shadow_post_here(&ep->offload->shadow, &req->shadow, &req->match);
    else
        shadow_post(&ep->offload->shadow, &req->shadow, &req->match, req->buf, req->size);
    if (req->shadow.state == SHADOW_SOFTWARE)
        return;
    ep->offload->is_quiet = false;
    if (ep->offload->in_loop || req->shadow.state == SHADOW_WAITING)
        ep_wake_sleeper(ep); /* a thread that sleeps has something to do */
}

static void on_left(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                    const struct peer *by)
{
    (void)by;
    if (ep->offload != NULL && cause == RECV_MET)
        shadow_taken(&ep->offload->shadow, &req->shadow);
}

/* False: the device is asked first. */
static bool on_cancel(struct mbx_ep *ep, struct request *req)
{
    if (ep->offload == NULL || shadow_cancel(&ep->offload->shadow, &req->shadow))
        return true;
    if (ep->offload->in_loop)
        ep_wake_sleeper(ep);
    return false;
}

int offload_revoke(struct mbx_ep *ep, struct request *req)
{
    if (!recv_is_open(req) || !lockword_close(ep, &req->open.word, recv_heir(req)) ||
        !recv_unpost(ep, req, RECV_DEVICE, NULL))
        return -EALREADY;
    if (ep->offload == NULL || shadow_reclaim(&ep->offload->shadow, &req->shadow))
        return 0;
    proto_move(ep, req, OFFLOAD_RECLAIMED);
    if (ep->offload->in_loop)
        ep_wake_sleeper(ep);
    return -EINPROGRESS;
}

void offload_on_answer(struct mbx_ep *ep, offload_answer_fn *answer)
{
    if (ep->offload != NULL)
        ep->offload->answer = answer;
}

/* A claimed receive is what any other is, whether its claim was in time or not. */
static void offload_answer(struct mbx_ep *ep, struct request *req, bool is_ours)
{
    proto_move(ep, req, REQUEST_POSTED);
    ep->offload->answer(ep, req, is_ours);
}

static void on_recall(struct mbx_ep *ep)
{
    if (ep->offload == NULL)
        return;
    shadow_recall(&ep->offload->shadow);
    if (ep->offload->in_loop)
        ep_wake_sleeper(ep);
}

static void on_extra_credit(struct mbx_ep *ep)
{
    if (ep->offload != NULL)
        shadow_lend(&ep->offload->shadow);
}

/* Has the device given back all, and does no message wait for its answer?  What is held comes
 * behind that. */
static bool on_is_home(const struct mbx_ep *ep)
{
    const struct offload *offload = ep->offload;

    return offload == NULL ||
           (offload->shadow.recalled == 0 && list_is_empty(&offload->shadow.parked) &&
            (!offload->shadow.is_stopped || offload->is_receiving));
}

/* ---- what the device has matched ---- */

static enum mbx_protocol offload_protocol(const struct mbx_ep *ep,
                                          const struct mbx_device_event *event)
{
    if (event->flags & MBX_DEVICE_BY_RNDV)
        return MBX_RNDV_READ;
    if (!(event->flags & MBX_DEVICE_WHOLE))
        return MBX_BOUNCE;
    return event->size <= ep->limits.inline_max ? MBX_INLINE : MBX_SHORT;
}

static void offload_count(struct mbx_ep *ep, const struct request *req)
{
    ep->stats.received[req->protocol]++;
    ep->stats.received_bytes[req->protocol] += req->completion.status.size;
}

static void offload_done(struct mbx_ep *ep, struct request *req, int error)
{
    offload_count(ep, req);
    req->completion.received = error == 0 ? req->total : req->done;
    request_complete(ep, req, error != 0 ? error : req->completion.error);
}

/* Where a rendezvous is to be continued. */
static void offload_find(struct request *req, const struct mbx_device_event *event)
{
    req->remote.request = event->sender;
    req->remote.address = event->address;
    req->remote.key = event->key;
}

/* req has met the message that the device has matched it with. */
static void offload_receive(struct mbx_ep *ep, struct request *req,
                            const struct mbx_match_envelope *envelope,
                            const struct mbx_device_event *event)
{
    recv_describe(ep, req, envelope, event->data, event->size);
    req->protocol = (uint8_t)offload_protocol(ep, event);
    req->done = min_size(event->done, req->total);
    offload_find(req, event);
    proto_move(ep, req, OFFLOAD_MATCHED);
    if (event->flags & MBX_DEVICE_WHOLE)
        offload_done(ep, req, 0);
}

/* The payload credit that the sender has spent.  What of an eager message without a size is told
 * later, is given back then. */
static uint64_t offload_credit(const struct mbx_ep *ep, const struct mbx_device_event *event)
{
    size_t most = ep->net.transport->limits.packet_max;

    return event->flags & MBX_DEVICE_BY_RNDV ? credit_rts_payload(min_size(event->bytes, most))
                                             : credit_eager(event->size);
}

static void on_matched(void *arg, struct shadow_recv *recv,
                       const struct mbx_device_event *event)
{
    struct mbx_ep *ep = arg;
    struct request *req = request_of(recv);
    const struct mbx_match_envelope envelope = {event->envelope.context_id,
                                                event->envelope.source, event->envelope.tag};
    struct peer *peer = peer_get(ep, envelope.source);

    if (!recv_unpost(ep, req, RECV_DEVICE, NULL) && req->state == OFFLOAD_RECLAIMED)
        offload_answer(ep, req, false);
    if (peer->sendside.deferrer != NULL)
        module_message_came(ep, peer);
    if (credit_admits(peer)) /* else it had none to get back */
        credit_freed(ep, peer, offload_credit(ep, event));
    ep->stats.expected++;
    tracepoint_arrive(ep, &envelope, req, NULL);
    offload_receive(ep, req, &envelope, event);
}

/* The device had the first fragments of this message.  It ends with the last one: before that
 * the sender does not expect to be told. */
static void offload_await(struct mbx_ep *ep, struct request *req)
{
    offload_count(ep, req);
    req->total = req->done;
    req->completion.error = -EIO;
    eager_await_end(ep, req);
}

/* The device did not know more than the envelope when it matched.  False: nobody will ever
 * know. */
static bool offload_learn(struct mbx_ep *ep, struct request *req,
                          const struct mbx_device_event *event)
{
    if (event->type == MBX_DEVICE_LOST)
        return false;
    recv_sized(ep, req, event->size);
    if (req->protocol == MBX_RNDV_READ)
        req->completion.status.data = event->data;
    else
        credit_freed_payload(ep, peer_get(ep, req->peer), credit_eager(event->size));
    offload_find(req, event);
    return true;
}

static void on_moved(void *arg, struct shadow_recv *recv, const struct mbx_device_event *event)
{
    struct mbx_ep *ep = arg;
    struct request *req = request_of(recv);

    if (!recv->is_sized && !offload_learn(ep, req, event)) {
        offload_done(ep, req, -EIO);
    } else if (event->type == MBX_DEVICE_DATA_VALID || event->error == -EPROTO) {
        if (event->error != 0)
            req->done = min_size(event->done, req->total);
        offload_done(ep, req, event->error);
    } else if (req->protocol == MBX_RNDV_READ) {
        ep->stats.read_fallbacks +=
            event->type == MBX_DEVICE_INCOMPLETE && req->remote.address != 0;
        if (event->type == MBX_DEVICE_INCOMPLETE)
            req->done = min_size(event->done, req->total);
        rndv_resume(ep, req, event->type == MBX_DEVICE_INCOMPLETE);
    } else {
        offload_await(ep, req);
    }
}

static void on_revoked(void *arg, struct shadow_recv *recv)
{
    struct request *req = request_of(recv);

    if (req->state == OFFLOAD_RECLAIMED)
        offload_answer(arg, req, true);
    else
        recv_cancelled(arg, req);
}

/* ---- packets ---- */

/* Such a number may come from another process. */
static bool on_knows(void *arg, uint32_t peer)
{
    return peer_is_used(arg, peer);
}

/* Is there anything in the device, or to be heard from it? */
static bool offload_is_idle(const struct offload *offload)
{
    return shadow_is_idle(&offload->shadow) && !softdev_has_events(offload->device);
}

/* A device in the loop that holds nothing could only pass the packet on. */
static bool offload_is_devices(const struct offload *offload)
{
    return offload->in_loop && !offload->is_receiving && !offload_is_idle(offload);
}

int offload_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct mbx_ep *ep = arg;
    struct offload *offload = ep->offload;

    if (offload == NULL || likely(offload->is_quiet))
        return deliver_packet(ep, peer, packet, size);
    if (offload_is_devices(offload))
        return softdev_deliver(offload->device, peer, packet, size);
    if (unlikely(offload->may_repeat)) {
        offload->may_repeat = false;
        if (softdev_repeated(offload->device))
            return 0;
    }
    return deliver_packet(ep, peer, packet, size);
}

void offload_repeats(void *arg, uint32_t peer)
{
    struct mbx_ep *ep = arg;

    (void)peer;
    ep->offload->may_repeat = true;
}

void offload_read_done(void *arg, void *cookie, int error)
{
    struct mbx_ep *ep = arg;

    if (ep->offload == NULL || !softdev_read_done(ep->offload->device, cookie, error))
        progress_io_done(ep, cookie, error);
}

/* ---- messages of another path ---- */

/* One that may have to wait for the device. */
struct bypass {
    struct shadow_message shadow;
    struct message *message;
};

/* A message has come so, while the device holds something. */
static int offload_arrive(struct mbx_ep *ep, const struct arrival *arrival)
{
    struct peer *peer = peer_get(ep, arrival->envelope.source);
    struct bypass *beside;

    if (context_get(ep, arrival->envelope.context_id) == NULL)
        return -EAGAIN;
    if (!credit_admits(peer) || !credit_has_room(peer, credit_of(arrival))) {
        progress_dropped(ep, "it is beyond the window of its sender");
        return 0;
    }
    beside = mem_alloc(sizeof *beside);
    if (beside == NULL)
        return -EAGAIN;
    beside->message = message_keep(ep, arrival);
    if (beside->message == NULL) {
        mem_free(beside);
        return -EAGAIN;
    }
    if (arrival->is_fragmented)
        eager_assemble(ep, arrival, beside->message);
    credit_keep(peer, credit_of(arrival));
    beside->shadow.envelope = arrival->envelope;
    bypass_arrive(&ep->offload->shadow, &beside->shadow);
    return 0;
}

int offload_bypass(void *arg, uint32_t peer, const void *bytes, size_t size)
{
    struct mbx_ep *ep = arg;
    struct wire_packet packet;
    struct arrival arrival;
    int result;

    if (ep->offload == NULL || bypass_is_clear(&ep->offload->shadow))
        return deliver_packet(ep, peer, bytes, size);
    result = deliver_open(ep, peer, bytes, size, &packet, &arrival);
    return result == 1 ? offload_arrive(ep, &arrival) : result;
}

static struct shadow_recv *on_find(void *arg, struct shadow_message *message)
{
    struct mbx_ep *ep = arg;
    struct context *context = context_find(ep, message->envelope.context_id);
    struct mbx_match_recv *recv = mbx_match_find(&context->match, &message->envelope);
    struct request *req;

    if (recv == NULL)
        return NULL;
    req = container_of(recv, struct request, match);
    ep->stats.posted_now--;
    module_recv_left(ep, req, RECV_DEVICE, NULL);
    return &req->shadow;
}

static void on_met(void *arg, struct shadow_message *shadow, struct shadow_recv *recv)
{
    struct mbx_ep *ep = arg;
    struct bypass *beside = container_of(shadow, struct bypass, shadow);
    struct request *req = request_of(recv);
    struct arrival room;

    ep->stats.expected++;
    tracepoint_arrive(ep, &shadow->envelope, req, NULL);
    credit_met(ep, beside->message);
    credit_emptied(ep, beside->message);
    recv_matched(ep, req, message_arrival(beside->message, &room));
    message_drop(ep, beside->message);
    mem_free(beside);
}

static int on_keep(void *arg, struct shadow_message *shadow)
{
    struct mbx_ep *ep = arg;
    struct bypass *beside = container_of(shadow, struct bypass, shadow);
    int err = deliver_wait(ep, context_find(ep, shadow->envelope.context_id), beside->message);

    if (err == 0)
        mem_free(beside);
    return err;
}

/* The endpoint closes; messages are freed where all are. */
static void offload_drop_parked(struct offload *offload)
{
    struct list *node;

    while ((node = list_pop_head(&offload->shadow.parked)) != NULL)
        mem_free(container_of(node, struct bypass, shadow.node));
}

/* ---- the device is gone ---- */

static void on_lost(void *arg)
{
    struct mbx_ep *ep = arg;

    softdev_stop(ep->offload->device);
    LOG_WARN("the matching device is gone: matching goes on in software");
}

static void on_owed(void *arg, uint32_t peer, uint64_t sender)
{
    struct mbx_ep *ep = arg;
    struct request *req = recv_take(ep, NULL, 0, &(struct mbx_options){.flags = 0});

    if (req == NULL) {
        LOG_ERROR("no memory for a FIN that the device owed to peer %u", peer);
        return;
    }
    req->flags |= REQUEST_INTERNAL;
    req->peer = peer;
    outq_owe_fin(ep, req, sender);
    request_complete(ep, req, 0);
}

/* Packets come to us again, from where the device was. */
static void offload_take_over(struct mbx_ep *ep)
{
    struct offload *offload = ep->offload;
    int err;

    if (ep->wait.is_asleep) {
        ep_wake_sleeper(ep); /* it is for the thread that sleeps in the transport */
        return;
    }
    err = offload->in_loop ? 0 : transport_take_back(ep->net.transport);
    if (err == 0 || err == -EINVAL)
        offload->is_receiving = true;
    else if (err != -EBUSY)
        LOG_ERROR("cannot receive again behind the device: %s", mbx_strerror(err));
}

static const struct shadow_events events = {
    .matched = on_matched,
    .moved = on_moved,
    .revoked = on_revoked,
    .packet = deliver_packet,
    .find = on_find,
    .met = on_met,
    .keep = on_keep,
    .knows = on_knows,
    .lost = on_lost,
    .owed = on_owed,
};

/* ---- progress ---- */

/* Only a receive that is handed over makes such a device do something: from then on it is
 * polled again. */
static bool offload_has_nothing(const struct offload *offload)
{
    return shadow_is_idle(&offload->shadow) &&
           (offload->in_loop ? !softdev_has_events(offload->device)
                             : !softdev_is_there(offload->device));
}

/* A device elsewhere that has nothing to do only makes the way of a message longer. */
static void offload_spare(struct offload *offload)
{
    if (!shadow_is_idle(&offload->shadow))
        offload->unused = 0;
    else if (++offload->unused == UNUSED_POLLS)
        softdev_detach(offload->device);
}

/* What the device did and what it can be given; how much. */
static int offload_poll(struct mbx_ep *ep, struct work *work)
{
    struct offload *offload = container_of(work, struct offload, work);
    int moved = 0;

    if (likely(offload->is_quiet))
        return 0;
    if (unlikely(offload->shadow.is_lost)) {
        if (!offload->is_receiving)
            offload_take_over(ep);
        return shadow_poll(&offload->shadow);
    }
    offload->is_quiet = offload_has_nothing(offload);
    if (offload->is_quiet)
        return 0;
    if (offload->in_loop)
        moved = softdev_run(offload->device);
    moved += shadow_poll(&offload->shadow);
    if (!offload->in_loop && !offload->shadow.is_lost)
        offload_spare(offload);
    return moved;
}

/* May we sleep until the transport, or the device, wakes us? */
static bool offload_lie_down(struct offload *offload)
{
    if (offload->shadow.is_lost)
        return offload->is_receiving && !shadow_has_work(&offload->shadow);
    if (offload->in_loop && offload_is_idle(offload))
        return true; /* nor do we poll it; its commands can wait */
    return !shadow_has_work(&offload->shadow) && softdev_lie_down(offload->device);
}

/* As transport_ops.wait, with a device that wants to be heard, too. */
static int on_sleep(struct mbx_ep *ep, int64_t timeout_ns)
{
    struct offload *offload = ep->offload;
    bool looks;
    int err = 0;

    if (offload == NULL)
        return 1;
    looks = !offload->in_loop && !offload->is_receiving && softdev_is_there(offload->device) &&
            (timeout_ns < 0 || timeout_ns > LOOK_NS);
    if (offload_lie_down(offload))
        err = ep->net.transport->ops->wait(ep->net.transport, looks ? LOOK_NS : timeout_ns);
    if (!offload->shadow.is_lost)
        softdev_get_up(offload->device);
    return looks && err == -ETIMEDOUT ? 0 : err;
}

/* ---- open and close ---- */

static int offload_number(void *arg, const struct transport_address *address, uint32_t *peer)
{
    return peer_know(arg, address, peer);
}

/* Not while another thread sleeps in the transport. */
static bool offload_may_hand_over(void *arg)
{
    struct mbx_ep *ep = arg;

    if (ep->wait.is_asleep && ep->wait.event_fd != NULL && !ep->wait.has_threads)
        return event_fd_steps_aside(ep->wait.event_fd) && !ep->wait.is_asleep;
    return !ep->wait.is_asleep;
}

static struct link *offload_link(void *arg, uint32_t peer)
{
    struct mbx_ep *ep = arg;

    return peer_is_used(ep, peer) ? peer_get(ep, peer)->link : NULL;
}

static int offload_device(struct mbx_ep *ep, const struct transport_config *config,
                          struct mbx_device **device)
{
    static const enum softdev_driver drivers[] = {
        [DEVICE_SOFT] = SOFTDEV_LOOP,
        [DEVICE_SOFT_THREAD] = SOFTDEV_THREAD,
        [DEVICE_SOFT_PROCESS] = SOFTDEV_PROCESS,
    };
    const struct settings *s = &ep->settings;

    return softdev_open(
        &(struct softdev_config){
            .driver = drivers[s->device],
            .transport = ep->net.transport,
            .transport_config = config,
            .read_chunk = s->read_chunk,
            .spin_ns = s->tuning.device_spin_ns,
            .look_ns = (uint64_t)liveness_ns(ep),
            .answer_ns = s->tuning.device_answer_ns,
            .seed = ep->contexts.seed,
            .program = s->tuning.device_program,
            .number = offload_number,
            .may_hand_over = offload_may_hand_over,
            .link = offload_link,
            .arg = ep,
        },
        device);
}

/* 0; -EINVAL the settings ask for what cannot be. */
static int offload_check(const struct mbx_ep *ep)
{
    const struct settings *s = &ep->settings;

    if (s->device == DEVICE_NONE) {
        if (s->match == MATCH_DEVICE)
            LOG_ERROR("MBX_MATCH=device needs a device: MBX_DEVICE=soft, soft-thread or "
                      "soft-process");
        return s->match == MATCH_DEVICE ? -EINVAL : 0;
    }
    if (s->device != DEVICE_SOFT && !transport_can_hand_over(ep->net.transport)) {
        LOG_ERROR("MBX_DEVICE=soft-thread and soft-process need MBX_TRANSPORT=shm, not %s; "
                  "MBX_DEVICE=soft works with every transport",
                  ep->net.transport->ops->name);
        return -EINVAL;
    }
    if (s->device == DEVICE_SOFT_PROCESS && !s->transports.shm.attach) {
        LOG_ERROR("MBX_DEVICE=soft-process needs MBX_SHM_ATTACH=yes: it reaches this process's "
                  "memory in no other way");
        return -EINVAL;
    }
    return 0;
}

static int offload_start(struct mbx_ep *ep, const struct transport_config *config)
{
    const struct settings *s = &ep->settings;
    struct offload *offload = ep->offload;
    int err = offload_device(ep, config, &offload->device);

    if (err != 0)
        return err;
    offload->in_loop = s->device == DEVICE_SOFT;
    err = shadow_init(&offload->shadow,
                      &(struct shadow_config){
                          .device = offload->device,
                          .list = (uint32_t)s->device_list,
                          .untagged = (uint32_t)s->device_buffers,
                          .threshold = s->match == MATCH_DEVICE ? 0 : s->device_threshold,
                          .events = &events,
                          .arg = ep,
                      });
    if (err != 0)
        offload->device->ops->close(offload->device);
    else
        softdev_run(offload->device); /* it has its buffers before the first packet */
    return err;
}

/* Without a transport that such a device could serve it is as on a machine without one. */
static void offload_forgo(struct settings *s)
{
    if (s->device <= DEVICE_SOFT_PROCESS)
        return;
    s->device = DEVICE_NONE;
    LOG_WARN("MBX_DEVICE=verbs: there is no network transport that it could serve: matching is "
             "done in software");
}

/* Opens what the settings ask for; ep->offload stays NULL if that is nothing. */
static int on_open(struct mbx_ep *ep)
{
    int err;

    offload_forgo(&ep->settings);
    err = offload_check(ep);
    if (err != 0 || ep->settings.device == DEVICE_NONE || ep->settings.match == MATCH_SOFTWARE)
        return err;
    ep->offload = mem_calloc(1, sizeof *ep->offload);
    if (ep->offload == NULL)
        return -ENOMEM;
    module_watch(ep, 0);
    err = offload_start(ep, &ep->net.config);
    if (err != 0) {
        LOG_ERROR("cannot start the matching device: %s", mbx_strerror(err));
        mem_free(ep->offload);
        ep->offload = NULL;
        return err;
    }
    ep->offload->work = (struct work){.run = offload_poll};
    progress_add(ep, &ep->offload->work);
    return 0;
}

/* The device stops; before the transport is closed. */
static void on_close(struct mbx_ep *ep)
{
    struct offload *offload = ep->offload;

    if (offload == NULL)
        return;
    softdev_stop(offload->device);
    if (!offload->in_loop && !offload->is_receiving)
        transport_take_back(ep->net.transport);
    offload->device->ops->close(offload->device);
    offload_drop_parked(offload);
    shadow_fini(&offload->shadow);
    list_remove(&offload->work.node);
    mem_free(offload);
    ep->offload = NULL;
}

/* ---- what peers had sent ---- */

/* The packet of an unknown peer is asked about, answered and taken: at the first calm look the answer may
 * just have come. */
#define CALM_LOOKS 2

/* What the peer has sent may be where the device is, which may be slow. */
static void on_gone(struct mbx_ep *ep, struct peer *peer, int error, bool is_new)
{
    struct offload *offload = ep->offload;

    (void)peer, (void)error;
    if (!is_new || offload == NULL || offload->in_loop)
        return;
    offload->is_watched = true;
    offload->calm = 0;
    if (!offload->shadow.is_lost)
        softdev_is_calm(offload->device, &offload->rounds);
}

/* A device in the loop has. */
static bool on_has_seen_all(struct mbx_ep *ep)
{
    struct offload *offload = ep->offload;
    bool is_calm;

    if (offload == NULL || !offload->is_watched)
        return true;
    is_calm = offload->shadow.is_lost ? offload->is_receiving /* by us */
                                      : softdev_is_calm(offload->device, &offload->rounds);
    offload->calm = is_calm ? offload->calm + 1 : 0;
    offload->is_watched = offload->calm < CALM_LOOKS;
    return !offload->is_watched;
}

/* Has the device had nothing to do since its rounds were so many? */
static bool offload_is_calm(const struct offload *offload, uint64_t rounds)
{
    return offload->shadow.is_lost ? offload->is_receiving
                                   : softdev_is_calm(offload->device, &rounds);
}

/* Until the device is calm, or it is this late. */
static void offload_await_calm(struct mbx_ep *ep, uint64_t until_ns)
{
    struct offload *offload = ep->offload;
    uint64_t rounds = offload->shadow.is_lost ? 0 : softdev_idle_rounds(offload->device);

    while (!offload_is_calm(offload, rounds) && clock_now() < until_ns)
        if (progress_round(ep) == 0)
            sys_yield(); /* the device may be without a core */
}

/* What had arrived when the endpoint began to close is passed on by the device. */
static void on_stop(struct mbx_ep *ep)
{
    uint64_t until_ns = clock_now() + ep->settings.close_timeout_ns;

    for (int look = 0; look < CALM_LOOKS && ep->offload != NULL && !ep->offload->in_loop;
         look++)
        offload_await_calm(ep, until_ns);
}

/* Has the device sent all FINs that it owes? */
static bool on_is_flushed(const struct mbx_ep *ep)
{
    return ep->offload == NULL || ep->offload->shadow.owed_count == 0;
}

static void on_stats(const struct mbx_ep *ep, struct stats *stats)
{
    const struct shadow_stats *s;

    if (ep->offload == NULL)
        return;
    s = &ep->offload->shadow.stats;
    stats->device_handed = s->handed;
    stats->device_handed_max = s->in_device_max;
    stats->device_matched = s->matched;
    stats->device_taken = s->taken;
    stats->device_cancels_won = s->cancels_won;
    stats->device_cancels_lost = s->cancels_lost;
    stats->device_claims_won = s->claims_won;
    stats->device_claims_lost = s->claims_lost;
    stats->device_parked = s->parked;
    stats->device_syncs = s->syncs;
    stats->device_passed = s->passed;
    stats->device_incomplete = s->incomplete;
    stats->device_overlapped = s->overlapped;
    stats->device_waited = s->waited;
}

static const struct proto offload_proto = {
    .id = PROTO_OFFLOAD,
    .name = "offload",
    .states =
        {
            [OFFLOAD_MATCHED % PROTO_STATES] = {.name = "matched",
                                                .kinds = MBX_RECVS,
                                                .then = PROTO_THEN(PROTO_EAGER) |
                                                        PROTO_THEN(PROTO_RNDV),
                                                .is_first = true},
            [OFFLOAD_RECLAIMED % PROTO_STATES] = {.name = "claimed",
                                                  .kinds = MBX_RECVS,
                                                  .then = PROTO_THEN(PROTO_RECV),
                                                  .is_first = true},
        },
};

const struct module offload_module = {
    .name = "offload",
    .proto = &offload_proto,
    .open = on_open,
    .stop = on_stop,
    .is_flushed = on_is_flushed,
    .close = on_close,
    .peer_gone = on_gone,
    .has_seen_all = on_has_seen_all,
    .sleep = on_sleep,
    .stats = on_stats,
    .recv_posted = on_posted,
    .recv_left = on_left,
    .recv_cancel = on_cancel,
    .recall = on_recall,
    .extra_credit = on_extra_credit,
    .is_home = on_is_home,
    .is_valid = MBX_CHECKS ? offload_is_valid : NULL,
};
