/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offload.c - receives that a device matches. matched.c turns the events of the device into
 * changes of requests; driver.h hides how the device runs.
 *
 *   POSTED ──device matched──> MATCHED ─DATA_VALID──> COMPLETE
 *     │                          └──INCOMPLETE──> READ or CTS, as if software had matched it
 *     └──cancel──> REVOKING ──in time──> COMPLETE (-ECANCELED)
 *                     └──too late──> as POSTED
 *   PAIRED has met an unexpected message that the device holds.  It becomes POSTED, with that
 *   message, when the device reports the match or is lost.
 *
 * If the device is lost, a message that it had matched by rendezvous and not finished is read
 * again from the place that MATCHED reported; no FIN has left for it, because DATA_VALID comes
 * first.  FINs that the device may not have sent are sent again; the sender refuses a second
 * one.  Only the fragments of an eager message that the device had taken are lost: that receive
 * ends with -EIO.  So does a receive whose message's size was not reported
 * (MBX_DEVICE_SIZE_LATER).
 *
 * Invariants
 *   I1  the states of a request and of its shadow agree: an open receive is SOFTWARE, WAITING,
 *       HANDED or RECALLED (or NONE, once the device is lost); MATCHED, REVOKING and PAIRED mean
 *       the same in both
 *   I2  without a device no request is MATCHED, REVOKING or PAIRED; with one, every receive is watched
 */
#include "device/host/offload.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "device/host/held.h"
#include "device/host/inside.h"
#include "transport/handoff.h"

/* A device elsewhere leaves after this many polls without a receive. */
#define UNUSED_POLLS 16384

/* How long a sleep may last before the endpoint checks whether a device elsewhere is alive. */
#define CHECK_NS ((int64_t)(100 * CLOCK_MS))

/* ---- receives ---- */

/* Does the device never see messages from this source? */
static bool offload_is_beside(const struct mbx_ep *ep, uint32_t source)
{
    const struct offload_driver *driver = ep->offload->driver;

    return driver->is_inlet && driver->is_beside(ep, source);
}

static void offload_on_posted(struct mbx_ep *ep, struct request *req)
{
    if (ep->offload == NULL)
        return;
    req->shadow.state = SHADOW_NONE;
    if (request_is_in_pieces(req) || offload_is_beside(ep, req->match.envelope.source))
        shadow_post_here(&ep->offload->shadow, &req->shadow, &req->match);
    else
        shadow_post(&ep->offload->shadow, &req->shadow, &req->match, req->buf, req->size);
    if (req->shadow.state == SHADOW_SOFTWARE)
        return;
    ep->offload->is_quiet = false;
    if (ep->offload->driver->in_loop || req->shadow.state == SHADOW_WAITING)
        ep_wake_sleeper(ep); /* the sleeping thread has work */
}

static void offload_on_left(struct mbx_ep *ep, struct request *req, enum recv_cause cause,
                            const struct peer *by)
{
    (void)by;
    if (ep->offload != NULL && cause == RECV_MET)
        shadow_taken(&ep->offload->shadow, &req->shadow);
}

/* ---- unexpected messages that the device holds ---- */

/* A device in the loop, which progress skipped, has work. */
static void offload_rouse(struct mbx_ep *ep)
{
    ep->offload->is_quiet = false;
    if (ep->offload->driver->in_loop)
        ep_wake_sleeper(ep);
}

static void on_kept(struct mbx_ep *ep, struct message *message)
{
    message->held = held_keep(&ep->offload->shadow, &message->match.envelope, message);
}

static void on_left_queue(struct mbx_ep *ep, struct message *message)
{
    if (message->held == HELD_BY_NONE)
        return;
    held_leave(&ep->offload->shadow, message->held);
    offload_rouse(ep);
}

/* A receive in pieces stays in software, so its message does too. */
static bool on_found(struct mbx_ep *ep, struct message *message, struct request *req)
{
    bool is_paired;

    if (message->held == HELD_BY_NONE)
        return false;
    req->shadow.state = SHADOW_NONE;
    if (request_is_in_pieces(req)) {
        on_left_queue(ep, message);
        return false;
    }
    is_paired = held_post(&ep->offload->shadow, &req->shadow, &req->match, req->buf, req->size,
                          message->held);
    if (is_paired)
        proto_move(ep, req, OFFLOAD_PAIRED);
    offload_rouse(ep);
    return is_paired;
}

/* False: the device has to answer first. */
static bool on_cancel(struct mbx_ep *ep, struct request *req)
{
    if (shadow_cancel(&ep->offload->shadow, &req->shadow))
        return true;
    if (ep->offload->driver->in_loop)
        ep_wake_sleeper(ep);
    return false;
}

static void on_recall(struct mbx_ep *ep)
{
    shadow_recall(&ep->offload->shadow);
    if (ep->offload->driver->in_loop)
        ep_wake_sleeper(ep);
}

static void on_extra_credit(struct mbx_ep *ep)
{
    shadow_resume(&ep->offload->shadow);
}

/* Has the device given back all receives, and does no message wait for its answer?  Held
 * messages are given back after that. */
static bool on_is_home(const struct mbx_ep *ep)
{
    const struct offload *offload = ep->offload;

    return offload->shadow.recalled == 0 && list_is_empty(&offload->shadow.parked) &&
           (!offload->shadow.is_stopped || offload->is_receiving);
}

/* Is the device empty, without events to be read? */
static bool offload_is_idle(const struct offload *offload)
{
    return shadow_is_idle(&offload->shadow) && !offload->driver->has_events(offload->device);
}

/* A device in the loop that holds nothing could only pass the packet on. */
static bool offload_is_devices(const struct offload *offload)
{
    return offload->driver->in_loop && !offload->is_receiving && !offload_is_idle(offload);
}

int offload_deliver(void *arg, uint32_t peer, const void *packet, size_t size)
{
    struct mbx_ep *ep = arg;
    struct offload *offload = ep->offload;

    if (offload == NULL || likely(offload->is_quiet))
        return deliver_packet(ep, peer, packet, size);
    if (offload->driver->is_inlet)
        return offload_bypass(ep, peer, packet, size);
    if (offload_is_devices(offload))
        return offload->driver->deliver(offload->device, peer, packet, size);
    if (unlikely(offload->may_repeat)) {
        offload->may_repeat = false;
        if (offload->driver->repeated(offload->device))
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

    struct offload *offload = ep->offload;

    if (offload == NULL || !offload->driver->in_loop ||
        !offload->driver->read_done(offload->device, cookie, error))
        progress_io_done(ep, cookie, error);
}

/* The host receives packets again, continuing where the device stopped. */
static void offload_take_over(struct mbx_ep *ep)
{
    struct offload *offload = ep->offload;
    int err;

    if (ep->wait.is_asleep) {
        ep_wake_sleeper(ep); /* the thread that sleeps in the transport must do it */
        return;
    }
    err = offload->driver->in_loop ? 0 : offload->driver->take_over(ep);
    if (err == 0 || err == -EINVAL)
        offload->is_receiving = true;
    else if (err != -EBUSY)
        LOG_ERROR("cannot receive again after the device has ended: %s; please report this",
                  mbx_strerror(err));
}

/* ---- progress ---- */

/* May the endpoint stop polling the device?  The next receive that is handed over makes the
 * endpoint poll it again. */
static bool offload_has_nothing(const struct offload *offload)
{
    return shadow_is_idle(&offload->shadow) &&
           (offload->driver->in_loop ? !offload->driver->has_events(offload->device) &&
                                           offload->shadow.held_leaving == 0
                                     : !offload->driver->is_there(offload->device));
}

/* A device elsewhere that has no receives only adds latency. */
static void offload_spare(struct offload *offload)
{
    if (!shadow_is_idle(&offload->shadow))
        offload->unused = 0;
    else if (++offload->unused == UNUSED_POLLS)
        offload->driver->detach(offload->device);
}

/* Handles events of the device, and gives it what it can take; returns how much was done. */
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
    if (offload->driver->in_loop)
        moved = offload->driver->run(offload->device);
    moved += shadow_poll(&offload->shadow);
    if (!offload->driver->in_loop && !offload->shadow.is_lost)
        offload_spare(offload);
    return moved;
}

/* May the endpoint sleep until the transport, or the device, wakes it? */
static bool offload_lie_down(struct offload *offload)
{
    if (offload->shadow.is_lost)
        return offload->is_receiving && !shadow_has_work(&offload->shadow);
    if (offload->driver->in_loop && offload_is_idle(offload))
        return true; /* an idle device is not polled either; its commands can wait */
    return !shadow_has_work(&offload->shadow) && offload->driver->lie_down(offload->device);
}

/* As transport_ops.wait; the device may also wake the endpoint. */
static int on_sleep(struct mbx_ep *ep, int64_t timeout_ns)
{
    struct offload *offload = ep->offload;
    bool checks;
    int err = 0;

    checks = !offload->driver->in_loop && !offload->is_receiving &&
             offload->driver->is_there(offload->device) &&
             (timeout_ns < 0 || timeout_ns > CHECK_NS);
    if (offload_lie_down(offload))
        err = ep->net.transport->ops->wait(ep->net.transport, checks ? CHECK_NS : timeout_ns);
    if (!offload->shadow.is_lost)
        offload->driver->get_up(offload->device);
    return checks && err == -ETIMEDOUT ? 0 : err;
}

static void on_stats(const struct mbx_ep *ep, struct stats *stats)
{
    const struct shadow_stats *s = &ep->offload->shadow.stats;

    stats->device_handed = s->handed;
    stats->device_handed_max = s->in_device_max;
    stats->device_matched = s->matched;
    stats->device_taken = s->taken;
    stats->device_cancels_won = s->cancels_won;
    stats->device_cancels_lost = s->cancels_lost;
    stats->device_claims_won = s->reclaims_won;
    stats->device_claims_lost = s->reclaims_lost;
    stats->device_parked = s->parked;
    stats->device_syncs = s->syncs;
    stats->device_passed = s->passed;
    stats->device_incomplete = s->incomplete;
    stats->device_overlapped = s->overlapped;
    stats->device_clashed = s->clashed;
    stats->device_waited = s->waited;
    stats->device_held = s->held;
    stats->device_held_matched = s->held_matched;
    stats->device_unheld = s->unheld;
}

static const struct device_hooks offload_hooks = {
    .has_seen_all = offload_on_has_seen_all,
    .sleep = on_sleep,
    .stats = on_stats,
    .recv_cancel = on_cancel,
    .message_kept = on_kept,
    .message_left = on_left_queue,
    .message_found = on_found,
    .recall = on_recall,
    .extra_credit = on_extra_credit,
    .is_home = on_is_home,
};

/* ---- open and close ---- */

static const struct offload_driver *const drivers[] = {
    [DEVICE_SOFT] = &offload_driver_soft,
    [DEVICE_SOFT_THREAD] = &offload_driver_soft_thread,
    [DEVICE_SOFT_PROCESS] = &offload_driver_soft_process,
    [DEVICE_VERBS] = &offload_driver_verbs,
};

static bool offload_holds(const struct settings *s)
{
    return s->device_holds == DEVICE_HOLDS_AUTO ? s->match == MATCH_DEVICE
                                                : s->device_holds == DEVICE_HOLDS_YES;
}

/* 0; -EINVAL the settings contradict each other. */
static int offload_check(const struct mbx_ep *ep)
{
    const struct settings *s = &ep->settings;

    if (s->device != DEVICE_NONE)
        return drivers[s->device]->check(ep);
    if (s->match == MATCH_DEVICE)
        LOG_ERROR("MBX_MATCH=device needs a device: MBX_DEVICE=soft, soft-thread, soft-process "
                  "or verbs");
    return s->match == MATCH_DEVICE ? -EINVAL : 0;
}

static uint64_t or_usual(uint64_t setting, uint64_t usual)
{
    return setting == SETTING_AUTO ? usual : setting;
}

static int offload_start(struct mbx_ep *ep)
{
    const struct settings *s = &ep->settings;
    struct offload *offload = ep->offload;
    int err;

    offload->driver = drivers[s->device];
    err = offload->driver->open(ep, &offload->device);
    if (err != 0)
        return err;
    err = shadow_init(
        &offload->shadow,
        &(struct shadow_config){
            .device = offload->device,
            .list = (uint32_t)s->device_list,
            .untagged = (uint32_t)or_usual(s->tuning.device_buffers, offload->driver->buffers),
            .threshold = s->match == MATCH_DEVICE
                             ? 0
                             : or_usual(s->device_threshold, offload->driver->threshold),
            .holds = offload_holds(s),
            .events =
                offload->driver->is_inlet ? &offload_inlet_events : &offload_shadow_events,
            .arg = ep,
        });
    if (err == 0 && offload->driver->is_inlet) {
        err = offload->driver->started(ep);
        if (err != 0)
            shadow_fini(&offload->shadow);
    }
    if (err != 0)
        offload->device->ops->close(offload->device);
    else if (offload->driver->in_loop)
        offload->driver->run(offload->device); /* buffers come before the first packet */
    return err;
}

/* Opens the device that the settings name; ep->device stays NULL if there is none. */
static int offload_on_open(struct mbx_ep *ep)
{
    int err;

    err = offload_check(ep);
    if (err != 0 || ep->settings.device == DEVICE_NONE || ep->settings.match == MATCH_SOFTWARE)
        return err == -EOPNOTSUPP ? 0 : err;
    ep->offload = mem_calloc(1, sizeof *ep->offload);
    if (ep->offload == NULL)
        return -ENOMEM;
    ep->device = &offload_hooks;
    err = offload_start(ep);
    if (err != 0) {
        if (err != -EOPNOTSUPP)
            LOG_ERROR(
                "cannot start the matching device: %s; without MBX_DEVICE software matches",
                mbx_strerror(err));
        mem_free(ep->offload);
        ep->offload = NULL;
        ep->device = NULL;
        return err == -EOPNOTSUPP ? 0 : err;
    }
    module_watch(ep, 0);
    ep->offload->work = (struct work){.run = offload_poll};
    progress_add(ep, &ep->offload->work);
    if (ep->offload->shadow.held != NULL)
        tracepoint_notify_device(ep);
    else if (ep->settings.device_holds == DEVICE_HOLDS_YES)
        LOG_WARN("MBX_DEVICE_HOLDS=yes has no effect: this device holds no messages");
    return 0;
}

/* Stops the device, before the transport is closed. */
static void on_close(struct mbx_ep *ep)
{
    struct offload *offload = ep->offload;

    if (offload == NULL)
        return;
    if (offload->driver->is_inlet)
        offload->driver->leave(ep);
    else
        offload->driver->stop(offload->device);
    if (!offload->driver->in_loop && !offload->driver->is_inlet && !offload->is_receiving)
        offload->driver->take_over(ep);
    offload->device->ops->close(offload->device);
    offload_drop_parked(offload);
    shadow_fini(&offload->shadow);
    list_remove(&offload->work.node);
    mem_free(offload);
    ep->offload = NULL;
    ep->device = NULL;
}

/* Has the device sent all FINs that it owes? */
static bool offload_on_is_flushed(const struct mbx_ep *ep)
{
    return ep->offload == NULL || ep->offload->shadow.owed_count == 0;
}

static const struct proto offload_proto = {
    .id = PROTO_OFFLOAD,
    .part = PART_MATCH,
    .name = "offload",
    .states =
        {
            [OFFLOAD_MATCHED % PROTO_STATES] = {.name = "matched",
                                                .kinds = MBX_RECVS,
                                                .then = PROTO_THEN(PROTO_EAGER) |
                                                        PROTO_THEN(PROTO_RNDV),
                                                .from = {REQUEST_POSTED, REQUEST_REVOKING}},
            [OFFLOAD_PAIRED % PROTO_STATES] = {.name = "paired",
                                               .kinds = MBX_RECVS,
                                               .then = PROTO_THEN(PROTO_RECV),
                                               .from = {REQUEST_POSTED}},
        },
};

const struct module offload_module = {
    .name = "offload",
    .proto = &offload_proto,
    .open = offload_on_open,
    .stop = offload_on_stop,
    .is_flushed = offload_on_is_flushed,
    .close = on_close,
    .peer_gone = offload_on_gone,
    .recv_posted = offload_on_posted,
    .recv_left = offload_on_left,
    .is_valid = MBX_CHECKS ? offload_is_valid : NULL,
};
