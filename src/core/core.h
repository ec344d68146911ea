/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core.h - endpoint, peer, request, message: the header of src/core, and the only one of it that
 * another room includes.
 *
 * Its parts that others use come with it: proto.h (a protocol is a table), module.h (a capability is
 * a module), outq.h (what leaves for a peer), pieces.h (data that is not one buffer), lockword.h
 * (which sender wins a receive), event_fd.h (who stands aside for a thread that sleeps), parts.h,
 * stats.h, tuning.h, backoff.h, and valid.h in checks.  What each file of core offers is told below,
 * under its name.
 *
 *   endpoint ── transport                    one transport moves everything
 *      ├── contexts: id -> matching engine   (context.c)
 *      ├── peers:    number -> address, and peer with its link once it is used (peer.c)
 *      │      └── out: requests that have something to send, first in, first out
 *      ├── requests: a pool; a request is its own completion entry (request.c)
 *      ├── messages: a pool; unexpected or claimed messages (message.c)
 *      ├── regions:  what peers may access (region.c)
 *      ├── works:    of modules: what each round moves
 *      ├── busy:     peers to whom something waits to leave
 *      ├── active:   receives that read their sender's memory, sends that write into their
 *      │             receiver's
 *      ├── done:     completed requests that the user has not yet seen
 *      └── waiters:  threads in a wait (wait.c)
 *
 * Threads: with MBX_THREADS=many, everything in an endpoint that can change is touched
 * only under its lock.  The public functions take it, nobody else; what they call is
 * written as if there were one thread.
 *
 * Invariants (ep_is_valid(), valid.h)
 *   I1  a request is on at most one of: a matching engine, active, done; and on at most one
 *       peer's out besides.  Its state says on which
 *   I2  a peer whose out is not empty, or that owes something, is on busy; one that has neither
 *       any more leaves it in the next round
 *   I3  the first packet of a send goes out only with credit (credit.h), when no request
 *       stands before it in its peer's out, and none is deferred: so messages leave in the
 *       order of the calls
 *   I4  a request that the user has consumed while it is still on an out lingers: its
 *       handle is dead, and it is given back when the packet has left
 *   I5  while the bytes of a request move, done <= total <= size
 *   I6  DUE_MOVE is set while one of the endpoint's lists is not empty, DUE_READ while there is
 *       a completion to be read
 *   I7  a complete request has given back what it exposed, lent or copied; injected counts the
 *       sends that are not complete and that nobody will ask for
 */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include <errno.h>
#include <string.h>

#include <matchbox/match.h>
#include <matchbox/matchbox.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/pool.h"
#include "core/backoff.h"
#include "core/parts.h"
#include "core/proto.h"
#include "core/stats.h"
#include "core/tuning.h"
#include "transport/mux.h"
#include "transport/transport.h"
#include "wire/wire.h"

/* ---- settings.c ---- */

/* Which protocols long messages may travel by; INSIST: also where it seems to be of no use. */
enum rndv_choice {
    RNDV_AUTO,
    RNDV_READ_ALONE,
    RNDV_READ_AND_WRITE,
    RNDV_READ_AND_COOP,
    RNDV_INSIST_WRITE,
    RNDV_INSIST_COOP,
    RNDV_DATA
};
enum threads_choice { THREADS_ONE, THREADS_MANY };
enum device_choice {
    DEVICE_NONE,
    DEVICE_SOFT,
    DEVICE_SOFT_THREAD,
    DEVICE_SOFT_PROCESS,
    DEVICE_VERBS
};
enum match_at_choice { MATCH_AT_RECEIVER, MATCH_AT_SENDER };
enum oversubscribed_choice { OVERSUBSCRIBED_AUTO, OVERSUBSCRIBED_YES, OVERSUBSCRIBED_NO };
enum match_choice { MATCH_SPLIT, MATCH_SOFTWARE, MATCH_DEVICE };

/* The words that numbers may be: param.h. */
#define SETTING_AUTO      UINT64_MAX
#define SETTING_UNLIMITED (UINT64_MAX - 1)

struct settings {
    uint64_t log_level;
    uint64_t transport; /* 0: auto; else index + 1 of transport_at() */
    uint64_t threads;   /* enum threads_choice */
    uint64_t eager_limit, inject_limit, rts_payload, read_chunk;
    uint64_t rndv; /* enum rndv_choice */
    uint64_t requests;
    uint64_t match_at;       /* enum match_at_choice */
    uint64_t oversubscribed; /* enum oversubscribed_choice */
    uint64_t unexpected_memory, window, window_payload;
    uint64_t spin_ns, close_timeout_ns, peer_timeout_ns, boot_timeout_ns;
    uint64_t peers_max;
    uint64_t device; /* enum device_choice */
    uint64_t match;  /* enum match_choice */
    uint64_t device_list, device_buffers, device_threshold;
    char stats_file[PARAM_STRING_MAX];
    char key[PARAM_STRING_MAX];
    char trace_folder[PARAM_STRING_MAX];
    struct tuning tuning; /* follows from the others */
    struct transport_settings transports;
};

/* Reads the environment and the overrides; logs what is wrong.  0; -EINVAL;
 * -ENOMEM. */
int settings_load(struct settings *settings, const char *const *overrides);

/* The rank that a launcher gave this process, as text; NULL without one. */
const char *settings_rank(void);
/* MBX_KEY; all zero if it is not set.  0; -EINVAL it is no key, which is logged. */
int settings_key(const struct settings *settings, uint8_t *key, size_t size);

/* ---- requests ---- */

/* The states that every protocol knows; the others are in its own header (proto.h). */
enum request_state {
    REQUEST_COMPLETE = PROTO_STATE(PROTO_REQUEST, 0), /* on done, or lent to nobody any more */
    REQUEST_LINGER,                              /* consumed by the user, still on an out */
    REQUEST_POSTED = PROTO_STATE(PROTO_RECV, 0), /* waits in the matching engine */
    REQUEST_REVOKING, /* cancelled, if a device does not have it already */
};

enum request_flags {
    REQUEST_NO_SUCCESS_ENTRY = 1 << 0, /* no entry on success */
    REQUEST_INTERNAL = 1 << 1,         /* no entry ever: inject, discard */
    REQUEST_SYNC = 1 << 2,             /* send: completes on match */
    REQUEST_COPIED = 1 << 3,           /* buf is the library's and freed on completion */
    REQUEST_OWES_FIN = 1 << 4,         /* receive: a FIN to remote has not left */
    REQUEST_EXPOSED = 1 << 5,          /* send: buf is readable by the peer */
    REQUEST_AWAITED = 1 << 6,          /* a thread may sleep until it is complete */
    REQUEST_LEAVING = 1 << 7,          /* send: on out with its first packet */
    REQUEST_SHORT_OF = 1 << 8,         /* send: not eager for want of payload credit */
    REQUEST_PEER_GONE = 1 << 10,       /* receive: that is why it is cancelled */
    REQUEST_WON = 1 << 9,              /* send: its claim has won the word of the receive */
    REQUEST_ANNOUNCED = 1 << 11,       /* receive: its sender was told where buf is */
    REQUEST_STOPPED = 1 << 12,         /* send: what is not written is to be fetched */
    REQUEST_MOVING = 1 << 13,          /* send: the transport writes, read_done() will tell */
    REQUEST_NOTIFIED = 1 << 14, /* receive from any source: of the last death (failure.c) */
    REQUEST_COOP = 1 << 15,     /* send: it writes a part, for coop.c */
    REQUEST_PIECES = 1 << 16,   /* its data does not lie at buf: pieces.h */
};

/* A receive that waits for a message, as senders know it. */
struct recv_open {
    uint64_t
        number; /* grows in the order of the posts, once receives are advertised: receiver.c */
    uint64_t word; /* the name of its word, or 0: lockword.h */
};

/* The other side of a message or an access, once it is known. */
struct remote {
    uint64_t request; /* its number there */
    uint64_t key,
        address; /* of the sender's buffer, if the receiver is to read it, or ours is exposed;
                              of the buffer of who begins an access */
};

struct request {
    union {                            /* one of these: proto.h */
        struct mbx_match_recv match;   /* receive: its place in the matching engine */
        struct mbx_match_msg deferred; /* deferred send: its place among those (backlog.c) */
        struct access access;          /* one-sided */
        struct rput_target target;     /* send that writes (rput_send.c) */
        struct coop coop;              /* receive, PROTO_COOP */
    };
    struct list out;   /* on its peer's out */
    struct list queue; /* on active or done; or among the deferred sends, or open receives; or
                          among the accesses that wait, or those of a peer */
    uint8_t state;     /* PROTO_STATE() */
    uint8_t protocol;  /* enum mbx_protocol, once known */
    uint32_t flags;    /* enum request_flags */
    /* the rest, down to completion, means nothing in a send that was complete at once */
    uint32_t peer; /* of a receive: once matched */
    union {
        char *buf;
        struct pieces *pieces; /* PIECES */
    };
    size_t size; /* of the data; receive, PIECES: 0 until it is matched (recv.c) */
    union {
        uint64_t done;        /* bytes moved */
        uint64_t rts_payload; /* send, RNDV_RTS: bytes that go with it */
    };
    union {
        uint64_t total; /* bytes to move; of a receive: what fits */
        uint64_t end;   /* send: behind the bytes that were asked for, or may be written */
    };
    union {
        struct remote remote;
        struct recv_open open; /* receive, PROTO_RECV; its word is 0 in PROTO_RPUT_RECV */
    };
    struct mbx_completion completion; /* of a receive: error once matched, if the rest goes
                                         well */
    union {
        struct shadow_recv shadow;  /* receive, with a device: where else it is */
        struct announced announced; /* receive, ANNOUNCED: no device then */
    };
};

struct message;
struct pieces;

/* The eager message of a peer of which more fragments are to come.  One of message
 * and request is set while size > offset. */
struct assembly {
    struct message *message;
    struct request *request;
    uint64_t size, offset;
    bool is_lost; /* its beginning was lost with the device: offset is unknown */
};

/* ---- credit.c; the fast part is in credit.h ---- */

/* Of one peer.  As its sender: what may still leave.  As its receiver: what it may have
 * here, and what it has. */
struct credit {
    uint64_t envelopes, payload; /* may leave; 0 envelopes while sends are deferred */
    uint64_t freed_envelopes, freed_payload; /* matched here, and not told yet */
    uint64_t tell_envelopes, tell_payload;   /* told when so much is freed */
    uint64_t window, window_payload;         /* the peer may have so much here */
    uint64_t kept_envelopes, kept_payload;   /* of this waits here as unexpected */
    uint64_t half;                           /* of the window that the peer began with */
};

/* Of the endpoint, as a receiver. */
struct credit_pool {
    uint64_t window, window_payload; /* of every peer, from the beginning */
    uint64_t lendable, lendable_all; /* bytes for those that want more */
};

/* ---- peers and endpoint ---- */

/* A peer to whom more FINs are owed gets no more credit: it does not read, and each message
 * that it sends may make another one. */
#define FINS_MOST 256

/* What is owed to a peer besides requests: struct control of module.h, in the order in which
 * they are sent. */
enum peer_owes {
    OWES_ANSWER = 1 << 0, /* receiver.c knows which */
    OWES_CREDIT = 1 << 1,
    OWES_DEFER = 1 << 2, /* behind the messages on out */
    OWES_RTR = 1 << 3,   /* receiver.c knows which */
    OWES_PEEKED = 1 << 4,
    OWES_PEEK = 1 << 5,
    OWES_COMPARE = 1 << 6, /* no packet: what is deferred is compared again */
};
#define CONTROLS 7

/* ---- the parts of a peer ---- */

/* outq.c: what waits to leave for it. */
struct peer_outq {
    struct list list; /* requests, by request.out */
    struct list busy; /* on ep_progress.busy */
    uint8_t owes;     /* enum peer_owes */
    uint32_t leaving; /* messages on list whose first packet has not left */
    uint32_t fins;    /* FINs on list */
};

/* liveness.c */
struct peer_health {
    bool is_awaited, is_doubted, is_gone, is_dead, is_lost;
    uint32_t next_failed; /* died after it; failure.c */
};

/* p2p: how its messages had better travel. */
struct peer_path {
    bool can_read,
        can_write;        /* no read from it, write to it has failed for good; rndv.c, rput */
    bool is_far;          /* copies to it are slow; and */
    uint8_t votes, turns; /* since when: locality.h */
};

struct peer_sendside {
    bool is_deferred;          /* our sends to it wait here: */
    struct backlog *backlog;   /* or NULL; backlog.c */
    bool defers;               /* it defers sends to us, as far as is known: */
    struct deferrer *deferrer; /* or NULL: it never did; receiver.c */
};

struct peer {
    struct link *link; /* peer.c */
    uint32_t number;
    struct peer_outq outq;
    struct peer_health health;
    struct peer_path path;
    struct credit credit;     /* p2p/credit.c */
    struct assembly assembly; /* p2p/eager.c */
    struct peer_sendside sendside;
    struct rput *rput;           /* receives told before their message, or NULL: rput.h */
    struct backoff coop_backoff; /* from asking; coop.c */
    struct accesses *accesses;   /* one-sided, or NULL: there were none; rma.h */
};

struct accesses;
struct region;

struct context {
    uint32_t id;
    struct mbx_match match;
};

/* By key; region.c. */
struct region_table {
    struct region **heads; /* a power of two, or NULL */
    uint32_t head_count, count;
};

/* Hints that a round of progress may find work.  Whoever adds work sets one; a round that finds
 * none clears it. */
enum ep_due {
    DUE_MOVE = 1 << 0, /* something waits on one of the endpoint's lists to be moved */
    DUE_READ = 1 << 1, /* the user has not read all that has completed */
};

/* Something of a module that each round moves while it is on endpoint.progress.works. */
struct work {
    struct list node;
    int (*run)(struct mbx_ep *ep, struct work *work); /* how much has moved */
};

struct lockwords;
struct control;
struct module;
struct backlogs;
struct sendtables;
struct receiver;

/* ---- the parts of an endpoint ---- */

/* progress.c: what it polls. */
struct ep_net {
    struct transport *transport;
    struct transport *polled;    /* in every round: that, or the part of it that is in use */
    struct transport_hint *hint; /* of that; or no_hint, if it has none */
    struct transport_hint no_hint;
    struct transport_config config; /* how it was opened */
};

/* progress.c: what a round moves. */
struct ep_progress {
    uint8_t due;          /* enum ep_due: whatever is not sent by a peer just now */
    bool has_logged_drop; /* a malformed packet has been logged */
    uint32_t rounds;      /* since peers were looked at */
    struct list busy;     /* peers */
    struct list active;   /* requests whose protocol has work */
    struct list works;    /* of modules: work.node */
};

/* request.c, completion.c */
struct ep_requests {
    struct pool pool;
    uint32_t injected; /* messages that have not left, or not been taken where they wait */
    struct list done[MBX_EVENTS + 1]; /* by enum mbx_queue; the others are nobody's */
};

/* context.c */
struct ep_contexts {
    struct context *last;      /* the one used last, or NULL */
    struct context *unclaimed; /* or NULL */
    struct context **table;    /* open addressing, slots is a power of two */
    uint32_t slots, count;
    uint64_t seed; /* of the engines' hash: peers choose tags, and must not know it */
};

/* peer.c */
struct ep_peers {
    struct peer **all;                   /* by number; NULL: named, and not used yet */
    struct transport_address *addresses; /* by number, too */
    uint32_t count, slots;
    uint32_t *index; /* address hash -> number + 1, twice slots */
};

/* wait.c, waiter.c, event_fd.c */
struct ep_wait {
    bool
        has_threads; /* MBX_THREADS=many: the endpoint, but for its settings, is guarded by lock */
    struct lock lock;
    struct list waiters;
    struct waiter *poller; /* the one of them that polls the transport, or NULL */
    uint32_t count;        /* of waiters */
    uint32_t any_count;    /* of those that wait for any completion */
    bool is_asleep;        /* the poller sleeps, and does not hold the lock */
    bool wakeup_pending;   /* an awaited request has completed, or: */
    bool is_stirred;       /* there is something to do that the sleeper does not know of */
    const struct mbx_sleep_hooks *hooks; /* of a poller in mbx_sleep(), or NULL */
    struct event_fd *event_fd;           /* of mbx_fd(), or NULL */
};

/* liveness.c */
struct ep_liveness {
    uint64_t last_ns;  /* when peers were looked at */
    uint32_t next;     /* the peer from which on the next look goes on */
    uint32_t met;      /* peers that got a link for its sake */
    bool has_seen_all; /* at the last look: what peers that are gone had sent */
};

/* failure.c */
struct ep_failures {
    uint32_t first, last; /* peers that have died, by health.next_failed */
    uint32_t count, known;
    bool is_unnotified; /* there may be a receive that has not been told */
};

/* lib/endpoint.c: constant once the endpoint is open. */
struct ep_limits {
    struct mbx_limits told;
    size_t inline_max, short_max; /* largest payloads of these protocols */
    size_t eager_max;             /* the longest message that is sent eagerly */
    size_t at_once_max;           /* largest message that leaves in one packet, eagerly */
    uint32_t cores;               /* of this machine */
};

/* p2p/tracepoint.c */
struct ep_tracing {
    struct trace_recorder *recorder; /* or NULL */
    bool is_on;                      /* with a trace, or failpoints */
};

/* module.c */
struct ep_modules {
    const struct module *const *list; /* the last one is NULL */
    const struct proto *protos[PROTOS];
    int (*packets[WIRE_TYPES])(struct mbx_ep *ep, struct peer *peer,
                               const struct wire_packet *packet);
    const struct control *controls[CONTROLS];
    uint8_t owes_closing, owes_behind, owes_first; /* controls that are so */
    size_t watched_from; /* modules are told of a receive with at least so much room: when it is
                            posted, and when it leaves its engine.  0: of each; SIZE_MAX: of none */
};

/* The rooms above: what core and p2p ask of them between two calls of a module. */
struct ep_sendside {
    struct backlogs *backlogs; /* or NULL: no send was ever deferred; backlog.c */
    struct sendtables *tables; /* or NULL: nothing was ever published; sendtable.c */
    struct receiver *receiver; /* or NULL: no peer ever deferred one; receiver.c */
    uint32_t room;             /* RTRs that are kept for one receiver; backlog.c */
};

struct ep_rput {
    size_t from; /* receives of so much may be announced; SIZE_MAX: none; rput_recv.c */
    size_t
        coop_from; /* those that lack so much may be copied by both; SIZE_MAX: none; coop.c */
    uint32_t announced; /* receives that are ANNOUNCED; both */
};

struct mbx_ep {
    struct settings settings;
    struct ep_wait wait;
    struct ep_net net;
    struct ep_progress progress;
    struct ep_tracing tracing;
    struct ep_modules modules;
    struct ep_limits limits;
    struct credit_pool credit; /* p2p/credit.c */
    struct ep_contexts contexts;
    struct ep_peers peers;
    struct ep_requests requests;
    struct pool messages;        /* p2p/message.c */
    struct lockwords *lockwords; /* or NULL: claims decide; lockword.c */
    struct pieces_pools *pieces; /* or NULL: no data was ever in pieces; pieces.c */
    struct ep_liveness liveness;
    struct ep_failures failures;
    struct ep_sendside sendside;
    struct ep_rput rput;
    struct region_table regions; /* rma/region.c: what peers may access */
    struct offload *offload;     /* or NULL; offload.h */
    struct stats stats;
    uint64_t check_paid; /* with MBX_CHECKS: for the next look at all invariants; valid.c */
};

/* ---- the lock ---- */

/* With many threads: gives the lock, and tells those whose wait is over.  wait.c */
void wait_leave(struct mbx_ep *ep);

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

/* After a look that has changed nothing. */
static inline void ep_unlock_unchanged(const struct mbx_ep *ep)
{
    if (unlikely(ep->wait.has_threads))
        lock_give(ep_lock_of(ep));
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

/* ---- request.c ---- */

/* Makes what pool_take() gave a request of this kind. */
static inline void request_init(struct mbx_ep *ep, struct request *req, enum mbx_queue kind,
                                const struct mbx_options *options)
{
    list_init_node(&req->out);
    list_init_node(&req->queue);
    req->flags = options->flags & MBX_SILENT ? REQUEST_NO_SUCCESS_ENTRY : 0;
    req->completion.request = pool_id(&ep->requests.pool, req);
    req->completion.user = options->user;
    req->completion.kind = kind;
}

/* What its user is told of it. */
static inline mbx_request request_handle(const struct request *req)
{
    return req->flags & REQUEST_NO_SUCCESS_ENTRY ? 0 : req->completion.request;
}

void request_complete(struct mbx_ep *ep, struct request *req, int error);
/* The packet that req stood on an out for has left. */
void request_left(struct mbx_ep *ep, struct request *req);
/* Forgets a request that nobody has seen. */
void request_drop(struct mbx_ep *ep, struct request *req);
/* The user will not ask for req again. */
static inline void request_release(struct mbx_ep *ep, struct request *req)
{
    if (list_is_linked(&req->out))
        req->state = REQUEST_LINGER;
    else
        pool_give(&ep->requests.pool, req);
}
/* Copies the entry out and kills the handle.  0.  completion.c */
int request_consume(struct mbx_ep *ep, struct request *req, struct mbx_completion *completion);
/* The live request of this handle, or NULL. */
struct request *request_find(const struct mbx_ep *ep, mbx_request handle);
/* Takes a request that the peer names: of this state and peer, or NULL. */
struct request *request_named(struct mbx_ep *ep, uint64_t handle, uint32_t peer,
                              unsigned state);
/* req, a receive, ends with this error, and with what is in its buffer. */
void request_lost(struct mbx_ep *ep, struct request *req, int error);

/* Where a new request begins. */
static inline void request_start(struct request *req, unsigned state)
{
    req->state = (uint8_t)state;
}

static inline const struct proto *proto_of(const struct mbx_ep *ep, const struct request *req)
{
    return ep->modules.protos[PROTO_OF(req->state)];
}

static inline struct request *request_of_out(struct list *node)
{
    return container_of(node, struct request, out);
}

static inline struct request *request_of_queue(struct list *node)
{
    return container_of(node, struct request, queue);
}

/* The options that were meant. */
static inline const struct mbx_options *options_of(const struct mbx_options *options)
{
    static const struct mbx_options none;

    return options != NULL ? options : &none;
}

static inline bool options_are_valid(const struct mbx_options *options)
{
    return (options->flags & ~(unsigned)MBX_SILENT) == 0;
}

static inline bool queues_are_valid(unsigned queues)
{
    return queues != 0 && queues < MBX_FAILURES << 1;
}

static inline bool request_is_send(const struct request *req)
{
    return req->completion.kind == MBX_SENDS;
}

/* Does req wait in its engine?  POSTED alone does not say so: it may be promised to a message
 * that waits for the device's answer. */
static inline bool recv_is_open(const struct request *req)
{
    return req->state == REQUEST_POSTED && req->match.state == MBX_MATCH_QUEUED;
}

static inline bool recv_is_from_any(const struct request *req)
{
    return req->completion.kind == MBX_RECVS && recv_is_open(req) &&
           req->match.envelope.source == MBX_ANY_SOURCE;
}

/* Who alone may take the word of req, which is open; MBX_ANY_SOURCE: whoever is told of it. */
static inline uint32_t recv_heir(const struct request *req)
{
    return req->flags & REQUEST_ANNOUNCED ? req->peer : MBX_ANY_SOURCE;
}

extern const struct module request_module;

/* ---- context.c ---- */

/* The engine of a context id, made on first use; NULL: no memory. */
struct context *context_make(struct mbx_ep *ep, uint32_t id);
/* The same, or NULL if there is none yet. */
struct context *context_find(const struct mbx_ep *ep, uint32_t id);
void context_fini(struct mbx_ep *ep);

/* The same for who only has a message: nobody here has named that id if it is NULL. */
static inline struct context *context_known(struct mbx_ep *ep, uint32_t id)
{
    struct context *last = ep->contexts.last;

    return likely(last != NULL && last->id == id) ? last : context_find(ep, id);
}

/* Where messages wait whose context id nobody here has named yet: an engine for each that a
 * peer makes up would be memory that others exhaust.  NULL: no memory. */
struct context *context_unclaimed(struct mbx_ep *ep);

static inline struct context *context_get(struct mbx_ep *ep, uint32_t id)
{
    struct context *last = ep->contexts.last;

    return likely(last != NULL && last->id == id) ? last : context_make(ep, id);
}

/* ---- peer.c ---- */

int peer_accept(void *ep, struct link *link, const struct transport_address *address,
                uint32_t *number);
void peer_fini(struct mbx_ep *ep);
/* A number that other endpoints do not have, or hardly. */
uint32_t peer_own_hash(const struct mbx_ep *ep);
/* The number of the peer at this address, known or new, which peer_use() has been called of. */
int peer_know(struct mbx_ep *ep, const struct transport_address *address, uint32_t *number);
/* Makes the peer of a number that is only named so far.  0; -EINVAL no such number; -ENOMEM, or
 * why there is no link. */
int peer_make(struct mbx_ep *ep, uint32_t number);
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

/* Something is to be sent to number, or it is to be looked at.  As peer_make(). */
static inline int peer_use(struct mbx_ep *ep, uint32_t number)
{
    return likely(peer_is_used(ep, number)) ? 0 : peer_make(ep, number);
}

/* ---- progress.c ---- */

/* Rounds from one look at what is looked at seldom to the next; set ep->progress.rounds to have
 * one now.
 */
#define PROGRESS_LOOK_AROUND 64
/* Which part of the transport is in use now. */
void progress_polled(struct mbx_ep *ep);
/* mbx_progress() for who has the lock. */
int progress_round(struct mbx_ep *ep);
/* Takes in all that peers had sent before this call, as far as it has arrived; and some of what
 * comes meanwhile, but a peer that goes on does not keep us here. */
void progress_arrived(struct mbx_ep *ep);
/* As transport_events.read_done. */
void progress_io_done(void *ep, void *cookie, int error);
/* A packet or field from outside made no sense: counted, the first one logged. */
void progress_dropped(void *ep, const char *reason);

/* ---- liveness.c ---- */

/* Looks within MBX_PEER_TIMEOUT.  A peer that is gone is found by the second that concerns it.
 */
#define LIVENESS_LOOKS 20

/* From look to look. */
static inline int64_t liveness_ns(const struct mbx_ep *ep)
{
    return (int64_t)(ep->settings.peer_timeout_ns / LIVENESS_LOOKS);
}

/* Looks whether those peers are there that somebody waits for, if it is time. */
void liveness_look(struct mbx_ep *ep);

/* A packet could not be sent to peer, and no other will be.  What the peer had sent is still
 * delivered, and may end what waits for it; the rest ends when the looks have found it gone. */
static inline void liveness_suspect(struct peer *peer)
{
    peer->health.is_awaited = true;
}

/* May somebody wait for a peer? */
static inline bool liveness_is_on(const struct mbx_ep *ep)
{
    return pool_live(&ep->requests.pool) != 0;
}

/* ---- failure.c ---- */

/* peer has died: from now on receives from any source are told. */
void failure_add(struct mbx_ep *ep, struct peer *peer);
/* req, open, from any source: it has been posted when deaths are not acknowledged, or there is
 * a new one. */
void failure_unnotified(struct mbx_ep *ep, struct request *req);
/* Tells of req, which failure_concerns(), as an entry of MBX_FAILURES. */
void failure_entry(const struct mbx_ep *ep, struct request *req, struct mbx_completion *entry);
/* Entries of MBX_FAILURES. */
int failure_poll(struct mbx_ep *ep, struct mbx_completion *entries, int count);
/* Is there one? */
bool failure_any(struct mbx_ep *ep);

/* Is req to be told now? */
static inline bool failure_concerns(const struct mbx_ep *ep, const struct request *req)
{
    return unlikely(ep->failures.is_unnotified) && !(req->flags & REQUEST_NOTIFIED) &&
           recv_is_from_any(req);
}

/* Marks req as told of the failures so far.  Returns -EHOSTDOWN, for the caller to return. */
int failure_notify(struct request *req);

/* ---- wait.c ---- */

/* As transport_events.sleeps and slept. */
void wait_sleeps(void *ep);
void wait_slept(void *ep);

/* ---- the parts that need what stands above ---- */

#include "core/event_fd.h"
#include "core/lockword.h"
#include "core/module.h"
#include "core/outq.h"
#include "core/pieces.h"
#include "core/valid.h"

#endif
