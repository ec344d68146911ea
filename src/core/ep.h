/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ep.h - an endpoint: a list of parts.  Each part is declared in the header of the file that
 * owns it, or is storage of a fixed size if that file belongs to a folder above (parts.h).
 * Other files only read it.
 *
 * The short functions that access an endpoint follow, grouped by the header to which they
 * belong.
 */
#ifndef CORE_EP_H
#define CORE_EP_H

#include "base/base.h"
#include "base/lock.h"
#include "base/pool.h"
#include "core/context.h"
#include "core/device_hooks.h"
#include "core/failure.h"
#include "core/forked.h"
#include "core/liveness.h"
#include "core/module.h"
#include "core/parts.h"
#include "core/peer.h"
#include "core/names.h"
#include "core/progress.h"
#include "core/request.h"
#include "core/settings.h"
#include "core/stats.h"
#include "core/wait.h"

struct lockwords;
struct offload;
struct pieces_pools;

/* Set by p2p/path.c and lib/endpoint.c; constant once the endpoint is open. */
struct ep_limits {
    struct mbx_limits reported;
    size_t inline_max, short_max; /* largest payloads of these protocols */
    size_t eager_max;             /* the longest message that is sent eagerly */
    size_t eager_others;          /* as eager_max, for a peer that is neither near nor far:
                                     p2p/path.h */
    size_t buffers_max;           /* the longest message in bounce buffers: p2p/path.h */
    size_t at_once_max;           /* the longest message that leaves eagerly in one packet */
    uint32_t cores;               /* of this machine */
};

struct mbx_ep {
    struct settings settings;
    struct ep_wait wait;
    struct ep_net net;
    struct ep_progress progress;
    struct ep_recording recording;
    struct ep_modules modules;
    struct ep_limits limits;
    struct ep_contexts contexts;
    struct ep_peers peers;
    struct ep_requests requests;
    struct pool messages;        /* p2p/message.c */
    struct lockwords *lockwords; /* or NULL: claims decide which sender gets a receive;
                                    lockword.c */
    struct pieces_pools *pieces; /* or NULL: no non-contiguous data so far; pieces.c */
    struct ep_liveness liveness;
    struct ep_failures failures;
    const struct device_hooks *device; /* NULL: no device takes part in matching */
    struct offload *offload;           /* state of the device's host, or NULL;
                                          device/host/offload.h */
    struct ep_observed observed;
    struct stats stats;
    struct ep_names names;
    struct ep_forked forked;
    /* owned by folders above: PART(), parts.h */
    PART_STORAGE(48, 8) tracing;  /* struct ep_tracing: p2p/tracer.h */
    PART_STORAGE(32, 8) peeks;    /* struct ep_peeks: p2p/p2p.h */
    PART_STORAGE(48, 8) credit;   /* struct credit_pool: p2p/credit.h */
    PART_STORAGE(32, 8) defer;    /* struct ep_defer: defer/defer.h */
    PART_STORAGE(24, 8) advert;   /* struct ep_advert: p2p/p2p.h */
    PART_STORAGE(24, 8) regions;  /* struct hash: rma/rma.h */
    PART_STORAGE(112, 8) inspect; /* struct ep_inspect: lib/inspect.h */
    uint64_t check_paid; /* with MBX_CHECKS: work paid towards the next check of all invariants;
                            valid.c */
};

/* ---- the lock ---- */

/* A caller with a const endpoint does not change it, but may take its lock. */
static inline struct lock *ep_lock_of(const struct mbx_ep *ep)
{
    return &((struct mbx_ep *)(uintptr_t)ep)->wait.lock;
}

static inline void ep_lock(const struct mbx_ep *ep)
{
    if (unlikely(ep->wait.has_threads))
        lock_take(ep_lock_of(ep));
}

static inline void ep_unlock(struct mbx_ep *ep)
{
    if (unlikely(ep->wait.has_threads))
        wait_leave(ep);
}

/* Gives the lock after a check that has changed nothing. */
static inline void ep_unlock_unchanged(const struct mbx_ep *ep)
{
    if (unlikely(ep->wait.has_threads))
        lock_give(ep_lock_of(ep));
}

/* Is all matching done in software? */
static inline bool ep_matches_here(const struct mbx_ep *ep)
{
    return ep->device == NULL;
}

/* Are there more processes than cores?  Then an awaited peer may need our core. */
static inline bool ep_is_oversubscribed(const struct mbx_ep *ep)
{
    return ep->settings.oversubscribed == OVERSUBSCRIBED_YES ||
           (ep->settings.oversubscribed == OVERSUBSCRIBED_AUTO &&
            ep->peers.count > ep->limits.cores);
}

/* Notes work that did not come from a peer: a sleeping thread must wake up for it. */
static inline void ep_wake_sleeper(struct mbx_ep *ep)
{
    ep->wait.wakeup_pending = ep->wait.is_stirred = true;
    ep->progress.due |= DUE_MOVE;
}

/* ---- device_hooks.h, with the defaults for an endpoint without a device ---- */

static inline bool device_has_seen_all(struct mbx_ep *ep)
{
    return ep_matches_here(ep) || ep->device->has_seen_all(ep);
}

/* Sleeps in the transport; a device that takes part sleeps as well. */
static inline int device_sleep(struct mbx_ep *ep, int64_t timeout_ns)
{
    return ep_matches_here(ep) ? ep->net.transport->ops->wait(ep->net.transport, timeout_ns)
                               : ep->device->sleep(ep, timeout_ns);
}

static inline void device_stats(const struct mbx_ep *ep, struct stats *stats)
{
    if (!ep_matches_here(ep))
        ep->device->stats(ep, stats);
}

static inline bool device_recv_cancel(struct mbx_ep *ep, struct request *req)
{
    return ep_matches_here(ep) || ep->device->recv_cancel(ep, req);
}

static inline void device_message_kept(struct mbx_ep *ep, struct message *message)
{
    if (!ep_matches_here(ep))
        ep->device->message_kept(ep, message);
}

static inline void device_message_left(struct mbx_ep *ep, struct message *message)
{
    if (!ep_matches_here(ep))
        ep->device->message_left(ep, message);
}

static inline bool device_message_found(struct mbx_ep *ep, struct message *message,
                                        struct request *req)
{
    return !ep_matches_here(ep) && ep->device->message_found(ep, message, req);
}

static inline void device_recall(struct mbx_ep *ep)
{
    if (!ep_matches_here(ep))
        ep->device->recall(ep);
}

static inline void device_extra_credit(struct mbx_ep *ep)
{
    if (!ep_matches_here(ep))
        ep->device->extra_credit(ep);
}

static inline bool device_is_home(const struct mbx_ep *ep)
{
    return ep_matches_here(ep) || ep->device->is_home(ep);
}

/* ---- progress.h, wait.h: for modules that make work ---- */

/* Runs this work in each round from now on, until its node leaves the list. */
static inline void progress_add(struct mbx_ep *ep, struct work *work)
{
    list_add_tail(&ep->progress.works, &work->node);
}

/* The protocol of req has work from the next round on. */
static inline void progress_activate(struct mbx_ep *ep, struct request *req)
{
    list_add_tail(&ep->progress.active, &req->queue);
}

/* There is an unread entry. */
static inline void progress_has_entry(struct mbx_ep *ep)
{
    ep->progress.due |= DUE_READ;
}

/* The next round makes the slow checks. */
static inline void progress_check_soon(struct mbx_ep *ep)
{
    ep->progress.rounds = PROGRESS_SLOW_CHECK;
}

/* The next round of progress is recorded. */
static inline void progress_record_next(struct mbx_ep *ep)
{
    ep->progress.check_at = 0;
}

/* Records sends and rounds of progress from now on. */
static inline void wait_is_recorded(struct mbx_ep *ep)
{
    ep->wait.is_recorded = ep->wait.detours = true;
    progress_record_next(ep);
}

/* An awaited request is complete, or waiters have to check for another reason. */
static inline void wait_wake(struct mbx_ep *ep)
{
    ep->wait.wakeup_pending = true;
}

/* ---- request.h ---- */

/* This many more injected messages have not left. */
static inline void request_count_injected(struct mbx_ep *ep, int count)
{
    ep->requests.injected += (uint32_t)count;
}

/* Allocates a request; NULL: no memory, or MBX_REQUESTS are in use. */
static inline struct request *request_take(struct mbx_ep *ep)
{
    struct request *req = pool_take(&ep->requests.pool);

    return likely(req != NULL) ? req : request_missing(ep);
}

/* Initializes a request from request_take() for this kind. */
static inline void request_init(struct mbx_ep *ep, struct request *req, enum mbx_queue kind,
                                const struct mbx_options *options)
{
    list_init_node(&req->out);
    list_init_node(&req->queue);
    req->flags = options->flags & (REQUEST_NO_SUCCESS_ENTRY | REQUEST_DONE);
    if (options->flags & MBX_DONE)
        req->done_call = options->done;
    req->completion.request = pool_id(&ep->requests.pool, req);
    req->completion.user = options->user;
    req->completion.kind = kind;
}

/* In each slow check: do the pools hold memory that is not needed? */
static inline void request_check_slack(struct mbx_ep *ep)
{
    if (unlikely(pool_is_slack(&ep->requests.pool)) || unlikely(pool_is_slack(&ep->messages)))
        request_rest(ep);
    else
        ep->requests.slack_ns = 0;
}

/* The user has no further use for req. */
static inline void request_release(struct mbx_ep *ep, struct request *req)
{
    if (list_is_linked(&req->out))
        req->state = REQUEST_LINGER;
    else
        pool_give(&ep->requests.pool, req);
}

static inline const struct proto *proto_of(const struct mbx_ep *ep, const struct request *req)
{
    return ep->modules.protos[PROTO_OF(req->state)];
}

/* ---- context.h ---- */

/* The context of a message; NULL if its id was not used here yet. */
static inline struct context *context_known(struct mbx_ep *ep, uint32_t id)
{
    struct context *last = ep->contexts.last;

    return likely(last != NULL && last->id == id) ? last : context_find(ep, id);
}

static inline struct context *context_get(struct mbx_ep *ep, uint32_t id)
{
    struct context *last = ep->contexts.last;

    return likely(last != NULL && last->id == id) ? last : context_make(ep, id);
}

/* ---- peer.h ---- */

/* The peer with this number, which must exist: peer_use() has been called for the number of
 * every packet, of every message, and of every request except a receive that has not
 * matched. */
static inline struct peer *peer_get(const struct mbx_ep *ep, uint32_t number)
{
    return ep->peers.all[number];
}

/* Has peer_use() been called for this number, which may come from another process? */
static inline bool peer_is_used(const struct mbx_ep *ep, uint32_t number)
{
    return likely(number < ep->peers.count) && likely(ep->peers.all[number] != NULL);
}

/* Is this number, which is below peers.count, unused? */
static inline bool peer_is_free(const struct mbx_ep *ep, uint32_t number)
{
    return ep->peers.addresses[number].kind == 0;
}

/* Prepares to send to this peer or to check it.  Returns as peer_make(). */
static inline int peer_use(struct mbx_ep *ep, uint32_t number)
{
    return likely(peer_is_used(ep, number)) ? 0 : peer_make(ep, number);
}

/* ---- outq.h ---- */

/* req, whose first packet has not left, is about to be queued. */
static inline void outq_leaving(struct peer *peer, struct request *req)
{
    req->flags |= REQUEST_LEAVING;
    peer->outq.leaving++;
}

/* This is no longer owed. */
static inline void outq_forgive(struct peer *peer, unsigned what)
{
    peer->owes &= (uint8_t)~what;
}

/* ---- liveness.h ---- */

/* The time from one check to the next. */
static inline int64_t liveness_ns(const struct mbx_ep *ep)
{
    return (int64_t)(ep->settings.peer_timeout_ns / LIVENESS_CHECKS);
}

/* A packet could not be sent to peer, and no other will be.  Packets that the peer had sent are
 * still delivered, and may complete requests that wait for it; the other requests end when the
 * checks have found it gone. */
static inline void liveness_suspect(struct peer *peer)
{
    peer->health.is_suspected = true;
}

/* May a request or a probe wait for a peer? */
static inline bool liveness_is_on(const struct mbx_ep *ep)
{
    return pool_live(&ep->requests.pool) != 0 || ep->liveness.is_probed;
}

/* ---- failure.h ---- */

/* Has req to be notified of a failure now? */
static inline bool failure_concerns(const struct mbx_ep *ep, const struct request *req)
{
    return unlikely(ep->failures.is_unnotified) && !(req->flags & REQUEST_NOTIFIED) &&
           recv_is_from_any(req);
}

#endif
