/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ep.h - an endpoint: a list of parts.  Each part is declared in the header of the file that owns
 * it, or is storage of a size if that file belongs to a folder above (parts.h), and others only read it.
 *
 * Behind it, under the name of their header, the short functions that look into an endpoint.
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

/* p2p/path.c, lib/endpoint.c: constant once the endpoint is open. */
struct ep_limits {
    struct mbx_limits reported;
    size_t inline_max, short_max; /* largest payloads of these protocols */
    size_t eager_max;             /* the longest message that is sent eagerly */
    size_t eager_others;          /* the same, but to a near peer: p2p/path.h */
    size_t buffers_max;           /* the longest in bounce buffers: p2p/path.h */
    size_t at_once_max;           /* largest message that leaves in one packet, eagerly */
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
    struct lockwords *lockwords; /* or NULL: claims decide; lockword.c */
    struct pieces_pools *pieces; /* or NULL: no data was ever in pieces; pieces.c */
    struct ep_liveness liveness;
    struct ep_failures failures;
    const struct device_hooks *device; /* NULL: no device has a part in matching */
    struct offload *offload;           /* its state, or NULL; device/host/offload.h */
    struct ep_observed observed;
    struct stats stats;
    struct ep_names names;
    struct ep_forked forked;
    /* of folders above: PART(), parts.h */
    PART_STORAGE(48, 8) tracing;  /* struct ep_tracing: p2p/tracer.h */
    PART_STORAGE(32, 8) peeks;    /* struct ep_peeks: p2p/p2p.h */
    PART_STORAGE(48, 8) credit;   /* struct credit_pool: p2p/credit.h */
    PART_STORAGE(32, 8) defer;    /* struct ep_defer: defer/defer.h */
    PART_STORAGE(24, 8) advert;   /* struct ep_advert: p2p/p2p.h */
    PART_STORAGE(24, 8) regions;  /* struct hash: rma/rma.h */
    PART_STORAGE(112, 8) inspect; /* struct ep_inspect: lib/inspect.h */
    uint64_t check_paid; /* with MBX_CHECKS: for the next look at all invariants; valid.c */
};

/* ---- the lock ---- */

/* A const endpoint is one that the caller does not change; the lock is not part of that. */
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

/* After a check that has changed nothing. */
static inline void ep_unlock_unchanged(const struct mbx_ep *ep)
{
    if (unlikely(ep->wait.has_threads))
        lock_give(ep_lock_of(ep));
}

/* Does no device have a part in matching? */
static inline bool ep_matches_here(const struct mbx_ep *ep)
{
    return ep->device == NULL;
}

/* Are there more processes than cores?  Then a peer that is waited for may need our core. */
static inline bool ep_is_oversubscribed(const struct mbx_ep *ep)
{
    return ep->settings.oversubscribed == OVERSUBSCRIBED_YES ||
           (ep->settings.oversubscribed == OVERSUBSCRIBED_AUTO &&
            ep->peers.count > ep->limits.cores);
}

/* There is something to do that comes from no peer: whoever sleeps must get up for it. */
static inline void ep_wake_sleeper(struct mbx_ep *ep)
{
    ep->wait.wakeup_pending = ep->wait.is_stirred = true;
    ep->progress.due |= DUE_MOVE;
}

/* ---- device_hooks.h: and what holds without a device ---- */

static inline bool device_has_seen_all(struct mbx_ep *ep)
{
    return ep_matches_here(ep) || ep->device->has_seen_all(ep);
}

/* Sleeps in the transport, and lets the device sleep, too. */
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

/* ---- progress.h, wait.h: for who makes work ---- */

/* What this moves is moved in each round from now on, until its node leaves the list. */
static inline void progress_add(struct mbx_ep *ep, struct work *work)
{
    list_add_tail(&ep->progress.works, &work->node);
}

/* The protocol of req has work, from the next round on. */
static inline void progress_activate(struct mbx_ep *ep, struct request *req)
{
    list_add_tail(&ep->progress.active, &req->queue);
}

/* There is an entry that the user has not read. */
static inline void progress_has_entry(struct mbx_ep *ep)
{
    ep->progress.due |= DUE_READ;
}

/* The next round looks at what is looked at seldom. */
static inline void progress_check_soon(struct mbx_ep *ep)
{
    ep->progress.rounds = PROGRESS_SLOW_CHECK;
}

/* The next round of progress is recorded. */
static inline void progress_record_next(struct mbx_ep *ep)
{
    ep->progress.check_at = 0;
}

/* What is sent, and rounds of progress, are recorded from now on. */
static inline void wait_is_recorded(struct mbx_ep *ep)
{
    ep->wait.detours = true;
    progress_record_next(ep);
}

/* An awaited request is complete, or there is something else that those who wait are to see. */
static inline void wait_wake(struct mbx_ep *ep)
{
    ep->wait.wakeup_pending = true;
}

/* ---- request.h ---- */

/* So many more messages that nobody will ask for have not left. */
static inline void request_count_injected(struct mbx_ep *ep, int count)
{
    ep->requests.injected += (uint32_t)count;
}

/* Space for a request; NULL: no memory, or there are MBX_REQUESTS. */
static inline struct request *request_take(struct mbx_ep *ep)
{
    struct request *req = pool_take(&ep->requests.pool);

    return likely(req != NULL) ? req : request_missing(ep);
}

/* Makes what request_take() gave a request of this kind. */
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

/* Now and then: do the pools hold memory that nobody needs? */
static inline void request_check_slack(struct mbx_ep *ep)
{
    if (unlikely(pool_is_slack(&ep->requests.pool)) || unlikely(pool_is_slack(&ep->messages)))
        request_rest(ep);
    else
        ep->requests.slack_ns = 0;
}

/* The user will not ask for req again. */
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

/* The same for who only has a message: nobody here has named that id if it is NULL. */
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

/* The peer of this number, which must exist: peer_use() has been called for the number of every
 * packet, of every message, and of every request but a receive that has met no message. */
static inline struct peer *peer_get(const struct mbx_ep *ep, uint32_t number)
{
    return ep->peers.all[number];
}

/* Has peer_use() been called of this number, of which another process may have told? */
static inline bool peer_is_used(const struct mbx_ep *ep, uint32_t number)
{
    return likely(number < ep->peers.count) && likely(ep->peers.all[number] != NULL);
}

/* Does this number, which is below peers.count, name nobody? */
static inline bool peer_is_free(const struct mbx_ep *ep, uint32_t number)
{
    return ep->peers.addresses[number].kind == 0;
}

/* Something is to be sent to number, or it is to be looked at.  As peer_make(). */
static inline int peer_use(struct mbx_ep *ep, uint32_t number)
{
    return likely(peer_is_used(ep, number)) ? 0 : peer_make(ep, number);
}

/* ---- outq.h ---- */

/* req, whose first packet has not left, is about to be pushed. */
static inline void outq_leaving(struct peer *peer, struct request *req)
{
    req->flags |= REQUEST_LEAVING;
    peer->outq.leaving++;
}

/* That is owed no longer. */
static inline void outq_forgive(struct peer *peer, unsigned what)
{
    peer->owes &= (uint8_t)~what;
}

/* ---- liveness.h ---- */

/* From look to look. */
static inline int64_t liveness_ns(const struct mbx_ep *ep)
{
    return (int64_t)(ep->settings.peer_timeout_ns / LIVENESS_CHECKS);
}

/* A packet could not be sent to peer, and no other will be.  What the peer had sent is still
 * delivered, and may end what waits for it; the rest ends when the checks have found it gone. */
static inline void liveness_suspect(struct peer *peer)
{
    peer->health.is_suspected = true;
}

/* May somebody wait for a peer? */
static inline bool liveness_is_on(const struct mbx_ep *ep)
{
    return pool_live(&ep->requests.pool) != 0 || ep->liveness.is_probed;
}

/* ---- failure.h ---- */

/* Is req to be told now? */
static inline bool failure_concerns(const struct mbx_ep *ep, const struct request *req)
{
    return unlikely(ep->failures.is_unnotified) && !(req->flags & REQUEST_NOTIFIED) &&
           recv_is_from_any(req);
}

#endif
