/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - starts a message.
 *
 * path.h chooses the protocol; injected messages are always eager.  The first packet leaves at
 * once if there is credit (credit.h), no packet waits for this peer and the transport has
 * space.  Without space the request is queued on the peer's out, in the order of the calls
 * (outq.c); without credit it is deferred (backlog.c).  If the peer has advertised receives,
 * each send is first compared with them.
 */
#include "base/copy.h"
#include "base/fill.h"
#include "p2p/p2p.h"
#include "p2p/credit.h"
#include "p2p/path.h"
#include "p2p/tracer.h"
#include "core/core.h"
#include "transport/bounce.h"

/* ---- sending ---- */

static inline bool send_is_addressed(uint32_t context_id, const void *buf, size_t size)
{
    return context_id <= MBX_CONTEXT_MAX && (buf != NULL || size == 0);
}

static bool send_is_valid(const struct mbx_ep *ep, uint32_t context_id, const void *buf,
                          size_t size)
{
    return send_is_addressed(context_id, buf, size) && size <= ep->limits.reported.message;
}

/* The error in the arguments, if there is one.  0; -EINVAL. */
static OUT_OF_LINE int send_check(const struct mbx_ep *ep, uint32_t context_id, const void *buf,
                                  size_t size, const char *call)
{
    if (context_id > MBX_CONTEXT_MAX)
        return log_argument(call, "context_id", context_id, "the library's own");
    if (buf == NULL && size != 0)
        return log_argument(call, "buf", 0, "NULL, and size is not 0");
    return size <= ep->limits.reported.message
               ? 0
               : log_argument(call, "size", size, "longer than mbx_limits.message");
}

int send_first(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    int err = list_is_empty(&peer->outq.list) ? outq_step(ep, req) : -EAGAIN;

    if (err != -EAGAIN)
        return err;
    outq_leaving(peer, req);
    outq_push(ep, peer, req);
    return 0;
}

int send_or_defer(struct mbx_ep *ep, struct peer *peer, struct request *req)
{
    return credit_take_request(ep, peer, req) ? send_first(ep, peer, req)
                                              : module_defer(ep, peer, req);
}

void send_count(struct mbx_ep *ep, const struct request *req)
{
    ep->stats.sent[req->protocol]++;
    ep->stats.sent_bytes[req->protocol] += req->size;
}

/* Initializes a request, with the status of its completion. */
static void send_describe(struct mbx_ep *ep, struct request *req, const struct peer *peer,
                          uint32_t context_id, uint64_t tag, size_t size,
                          const struct mbx_options *options)
{
    request_init(ep, req, MBX_SENDS, options);
    request_start(req, SEND_NEW);
    req->completion.received = size;
    req->completion.status = (struct mbx_status){
        .context_id = context_id,
        .source = peer->number,
        .tag = tag,
        .data = options->data,
        .size = size,
    };
}

/* Chooses the protocol of a message that has not left.  As send_first(). */
static int send_travel(struct mbx_ep *ep, struct request *req, struct peer *peer,
                       const void *buf, unsigned flags)
{
    size_t size = req->completion.received;

    req->peer = peer->number;
    req->buf = (char *)(uintptr_t)buf;
    req->size = req->end = size;
    req->done = 0;
    req->flags |= flags;
    req->protocol = (uint8_t)path_choose(ep, peer, &req->completion.status, flags);
    tracer_leave(ep, req);
    return likely(peer->advert == NULL) ? send_or_defer(ep, peer, req)
                                        : module_send(ep, peer, req);
}

/* Sends a message that could not leave at once, or may not. */
static OUT_OF_LINE void send_later(struct mbx_ep *ep, struct request *req, struct peer *peer,
                                   const void *buf, unsigned flags)
{
    int err = send_travel(ep, req, peer, buf, flags);

    if (err < 0)
        request_complete(ep, req, err);
}

/* Sends a whole message that no module has to see, if it may leave now.  As
 * transport_ops.send. */
static inline int send_now(struct mbx_ep *ep, struct peer *peer, uint32_t context_id,
                           uint64_t tag, uint64_t data, const void *buf, size_t size)
{
    int err;

    if (unlikely(!list_is_empty(&peer->outq.list)) || unlikely(!credit_take(peer, size)))
        return -EAGAIN;
    err = eager_send(ep, peer, context_id, tag, data, buf, size);
    if (unlikely(err == -EAGAIN))
        credit_return(peer, size);
    return err;
}

/* Sends a message of at most limits.at_once_max bytes, if it can leave now.  1; 0 nothing has
 * happened. */
static inline int send_try(struct mbx_ep *ep, struct peer *peer, uint32_t context_id,
                           uint64_t tag, uint64_t data, const void *buf, size_t size)
{
    int err = send_now(ep, peer, context_id, tag, data, buf, size);

    if (likely(err == 0))
        return 1;
    if (err != -EAGAIN)
        credit_return(peer, size);
    return 0;
}

static inline bool send_options_are_valid(const struct mbx_options *options)
{
    return flags_are_valid(options, MBX_AT_ONCE);
}

/* Handles the result of send_now() for a message with a request. */
static inline void send_went(struct mbx_ep *ep, struct request *req, struct peer *peer,
                             const void *buf, unsigned flags, int err)
{
    if (likely(err != -EAGAIN))
        request_complete(ep, req, err);
    else
        send_later(ep, req, peer, buf, flags);
}

/* ---- sending data that is in pieces, or is to be copied ---- */

#define SEND_UNUSUAL (MBX_COPY | MBX_LAYOUT)

/* The resources of a send that is in pieces, or is copied. */
struct unusual {
    struct request *req;
    struct pieces *pieces; /* or NULL: contiguous data */
    char *copy;            /* of all the data; or NULL: it is packed as it leaves */
};

static int unusual_check(const struct mbx_ep *ep, uint32_t context_id, const void *buf,
                         size_t size, const struct mbx_options *options, const char *call)
{
    const unsigned known = MBX_SILENT | MBX_AT_ONCE | MBX_DONE | SEND_UNUSUAL;
    bool in_pieces = (options->flags & MBX_LAYOUT) != 0;
    int err;

    if ((options->flags & ~known) != 0)
        return log_argument(call, "options->flags", options->flags, "unknown flag");
    if (request_check_done(call, options) < 0)
        return -EINVAL;
    err = send_check(ep, context_id, in_pieces ? "" : buf, size, call);
    return err == 0 && in_pieces ? pieces_check(call, options->layout, size, true) : err;
}

static void unusual_free(struct mbx_ep *ep, const struct unusual *u)
{
    mem_free(u->copy);
    if (u->pieces != NULL)
        pieces_drop(ep, u->pieces);
    if (u->req != NULL)
        request_drop(ep, u->req);
}

/* Allocates them.  0; -ENOMEM. */
static int unusual_make(struct mbx_ep *ep, size_t size, const struct mbx_options *options,
                        struct unusual *u)
{
    bool has_pieces = (options->flags & MBX_LAYOUT) != 0;

    *u = (struct unusual){.req = request_take(ep)};
    if (has_pieces)
        u->pieces = pieces_make(ep, options->layout, size);
    if (u->req != NULL && (u->pieces != NULL || !has_pieces))
        return 0;
    unusual_free(ep, u);
    return -ENOMEM;
}

/* Packs a short message into its packet, which leaves now.  -EAGAIN: not possible now;
 * -ECANCELED: packing failed; other: it is lost. */
static int unusual_now(struct mbx_ep *ep, const struct unusual *u, struct peer *peer)
{
    const struct mbx_status *status = &u->req->completion.status;
    int err;

    if (u->pieces == NULL || status->size == 0 || status->size > ep->limits.at_once_max ||
        !list_is_empty(&peer->outq.list) || !credit_take(peer, status->size))
        return -EAGAIN;
    err = eager_compose(ep, peer, status, u->pieces);
    if (err == -EAGAIN || err == -ENOTSUP || err == -ECANCELED)
        credit_return(peer, status->size);
    return err == -ENOTSUP ? -EAGAIN : err;
}

/* Sends a short message in a bounce buffer.  As unusual_now(), but packed data stays packed. */
static int unusual_in_buffer(struct mbx_ep *ep, const struct unusual *u, struct peer *peer)
{
    const struct mbx_status *status = &u->req->completion.status;
    int err;

    if (!list_is_empty(&peer->outq.list) || !credit_take(peer, status->size))
        return -EAGAIN;
    err = eager_in_buffer(ep, peer, status, u->pieces);
    if (err == -EAGAIN || err == -ECANCELED)
        credit_return(peer, status->size);
    return err;
}

/* Makes the copy; if packing fails there is none, and the receiver will be notified.  0;
 * -ENOMEM, and nothing was packed. */
static int unusual_copy(struct mbx_ep *ep, struct unusual *u, const void *buf, size_t size)
{
    u->copy = mem_alloc(size);
    if (u->copy == NULL)
        return -ENOMEM;
    if (u->pieces == NULL) {
        copy_bytes(u->copy, buf, size);
    } else if (pieces_pack_all(u->pieces, u->copy)) {
        pieces_finish(ep, u->pieces);
        u->pieces = NULL;
    } else {
        mem_free(u->copy);
        u->copy = NULL;
    }
    return 0;
}

/* Ends a send that has left, or cannot.  As send_start(). */
static int unusual_end(struct mbx_ep *ep, const struct unusual *u, int err, bool at_once)
{
    mem_free(u->copy);
    if (u->pieces != NULL)
        pieces_finish(ep, u->pieces);
    if (err == 0 && at_once) {
        request_drop(ep, u->req);
        return 1;
    }
    request_complete(ep, u->req, err);
    return 0;
}

/* The ways in which the data of such a message leaves its buffer. */
enum unusual_way {
    BY_BUFFER, /* packed into a bounce buffer that the peer reads */
    BY_PACKET, /* packed into the only packet */
    BY_COPY,   /* packed into a copy, which is sent now or later */
    LATER,     /* packed as it leaves */
};

static bool unusual_is_short(const struct mbx_ep *ep, size_t size)
{
    return size <= min_size(ep->limits.eager_others, PACK_SIZE);
}

static enum unusual_way unusual_first(const struct mbx_ep *ep, const struct unusual *u,
                                      const struct peer *peer, unsigned options)
{
    size_t size = u->req->completion.status.size;

    return u->pieces != NULL && !(options & MBX_COPY) && unusual_is_short(ep, size) &&
                   size > min_size(ep->limits.at_once_max, PIECES_PACKET_MAX) &&
                   transport_bounce_can_take(peer->link)
               ? BY_BUFFER
               : BY_PACKET;
}

/* The next way to try. */
static enum unusual_way unusual_next(const struct mbx_ep *ep, const struct unusual *u,
                                     unsigned options, enum unusual_way way)
{
    size_t size = u->req->completion.status.size;

    switch (way) {
    case BY_BUFFER: /* packed data is not packed again */
        return size <= ep->limits.at_once_max && u->pieces->done == 0 ? BY_PACKET : LATER;
    case BY_PACKET:
        return unusual_is_short(ep, size) || (options & MBX_COPY) ? BY_COPY : LATER;
    case BY_COPY:
    case LATER:
        break;
    }
    return LATER;
}

/* Sends it in this way, if it may leave now.  0; -EAGAIN: it has not left; -ENOMEM; -ECANCELED
 * packing failed; other: it is lost. */
static int unusual_try(struct mbx_ep *ep, struct unusual *u, struct peer *peer, const void *buf,
                       enum unusual_way way, bool may_leave)
{
    const struct mbx_status *status = &u->req->completion.status;

    switch (way) {
    case BY_BUFFER:
        return may_leave ? unusual_in_buffer(ep, u, peer) : -EAGAIN;
    case BY_PACKET:
        return may_leave ? unusual_now(ep, u, peer) : -EAGAIN;
    case BY_COPY:
        if (unusual_copy(ep, u, buf, status->size) < 0)
            return -ENOMEM;
        return may_leave && u->copy != NULL && status->size <= ep->limits.at_once_max
                   ? send_now(ep, peer, status->context_id, status->tag, status->data, u->copy,
                              status->size)
                   : -EAGAIN;
    case LATER:
        break;
    }
    return -ECANCELED;
}

/* Sends it; the request, the layout and the arguments are valid.  As send_start(). */
static int unusual_start(struct mbx_ep *ep, struct unusual *u, struct peer *peer,
                         const void *buf, unsigned options, unsigned flags)
{
    enum unusual_way way = unusual_first(ep, u, peer, options);
    int err;

    while ((err = unusual_try(ep, u, peer, buf, way, flags == 0)) == -EAGAIN)
        way = unusual_next(ep, u, options, way);
    if (err == -ENOMEM)
        return err;
    if (err != -ECANCELED)
        return unusual_end(ep, u, err, options & MBX_AT_ONCE);
    if (u->copy != NULL)
        send_later(ep, u->req, peer, u->copy, flags | REQUEST_COPIED);
    else
        send_later(ep, u->req, peer, u->pieces, flags | REQUEST_PIECES);
    return 0;
}

/* send_start() for options that it does not handle, and for ones that are not valid. */
static OUT_OF_LINE int send_unusual(struct mbx_ep *ep, uint32_t number, uint32_t context_id,
                                    uint64_t tag, const void *buf, size_t size,
                                    const struct mbx_options *options, unsigned flags,
                                    mbx_request *request)
{
    struct unusual u = {.req = NULL};
    mbx_request handle;
    int err;

    err = unusual_check(ep, context_id, buf, size, options,
                        flags & REQUEST_SYNC ? "mbx_ssend" : "mbx_send");
    assert(err < 0 || (options->flags & SEND_UNUSUAL) != 0);
    if (err == 0)
        err = peer_use(ep, number);
    if (err == 0 && (options->flags & MBX_COPY) && size > ep->limits.reported.inject)
        err = -EMSGSIZE;
    if (err == 0)
        err = unusual_make(ep, size, options, &u);
    if (err < 0)
        return err;
    send_describe(ep, u.req, peer_get(ep, number), context_id, tag, size, options);
    handle = request_handle(u.req);
    err = unusual_start(ep, &u, peer_get(ep, number), buf, options->flags, flags);
    if (err < 0)
        unusual_free(ep, &u);
    else if (request != NULL)
        *request = err == 0 ? handle : 0;
    return err;
}

/* With MBX_AT_ONCE there is a request only if the message has not left. */
static ALWAYS_INLINE int send_start(struct mbx_ep *ep, uint32_t number, uint32_t context_id,
                                    uint64_t tag, const void *buf, size_t size,
                                    const struct mbx_options *options, unsigned flags,
                                    mbx_request *request)
{
    struct request *req = NULL;
    struct peer *peer;
    bool at_once;
    int err;

    options = options_of(options);
    if (unlikely(!send_is_valid(ep, context_id, buf, size)) ||
        unlikely(!send_options_are_valid(options)))
        return send_unusual(ep, number, context_id, tag, buf, size, options, flags, request);
    err = peer_use(ep, number);
    if (unlikely(err < 0))
        return err;
    at_once = options->flags & MBX_AT_ONCE;
    if (!at_once && unlikely((req = request_take(ep)) == NULL))
        return -ENOMEM;
    err = -EAGAIN;
    peer = peer_get(ep, number);
    /* a short message is on its way while its request is being written */
    if (likely(flags == 0 && size <= ep->limits.at_once_max))
        err = send_now(ep, peer, context_id, tag, options->data, buf, size);
    if (at_once && unlikely(err != 0) && (req = request_take(ep)) == NULL)
        return -ENOMEM;
    if (req != NULL) {
        send_describe(ep, req, peer, context_id, tag, size, options);
        if (request != NULL)
            *request = request_handle(req);
        send_went(ep, req, peer, buf, flags, err);
        return 0;
    }
    if (request != NULL)
        *request = 0;
    return 1;
}

/* Sends a copy of a message that could not leave in one packet now. */
static OUT_OF_LINE int inject_copy(struct mbx_ep *ep, struct peer *peer, uint32_t context_id,
                                   uint64_t tag, const void *buf, size_t size, uint64_t data)
{
    struct mbx_options options = {.data = data};
    char *copy = mem_alloc(size);
    struct request *req;
    int err;

    if (copy == NULL)
        return -ENOMEM;
    req = request_take(ep);
    if (req == NULL) {
        err = -ENOMEM;
        goto free_copy;
    }
    if (size != 0)
        memcpy(copy, buf, size);
    send_describe(ep, req, peer, context_id, tag, size, &options);
    request_count_injected(ep, 1); /* request_complete() subtracts it */
    err = send_travel(ep, req, peer, copy, REQUEST_INTERNAL | REQUEST_COPIED);
    if (err < 0)
        goto drop_request;
    return 0;

drop_request:
    request_count_injected(ep, -1);
    request_drop(ep, req);
free_copy:
    mem_free(copy);
    return err;
}

/* Handles a message that did not leave at once: a copy leaves later, or err is the reason why
 * it never will. */
static OUT_OF_LINE int inject_rest(struct mbx_ep *ep, struct peer *peer, uint32_t context_id,
                                   uint64_t tag, const void *buf, size_t size, uint64_t data,
                                   int err)
{
    if (err == -EAGAIN)
        return inject_copy(ep, peer, context_id, tag, buf, size, data);
    report_end_of(ep, peer, err);
    return err;
}

static ALWAYS_INLINE int inject_start(struct mbx_ep *ep, uint32_t number, uint32_t context_id,
                                      uint64_t tag, const void *buf, size_t size, uint64_t data)
{
    struct peer *peer;
    int err;

    if (unlikely(!send_is_valid(ep, context_id, buf, size)))
        return send_check(ep, context_id, buf, size, "mbx_inject");
    err = peer_use(ep, number);
    if (unlikely(err < 0))
        return err;
    if (unlikely(size > ep->limits.reported.inject))
        return -EMSGSIZE;
    err = -EAGAIN;
    peer = peer_get(ep, number);
    if (likely(size <= ep->limits.short_max))
        err = send_now(ep, peer, context_id, tag, data, buf, size);
    return likely(err == 0) ? 0 : inject_rest(ep, peer, context_id, tag, buf, size, data, err);
}

/* For a message that is not valid, or not sent in one packet: 0; -EINVAL. */
static OUT_OF_LINE int try_not(struct mbx_ep *ep, uint32_t number, uint32_t context_id,
                               const void *buf, size_t size)
{
    int err = send_check(ep, context_id, buf, size, "mbx_try_send");

    return err < 0 ? err : peer_use(ep, number);
}

static ALWAYS_INLINE int try_start(struct mbx_ep *ep, uint32_t number, uint32_t context_id,
                                   uint64_t tag, const void *buf, size_t size, uint64_t data)
{
    int err;

    /* a message that fits into one packet is never too long */
    if (unlikely(size > ep->limits.at_once_max) ||
        unlikely(!send_is_addressed(context_id, buf, size)))
        return try_not(ep, number, context_id, buf, size);
    err = peer_use(ep, number);
    if (unlikely(err < 0))
        return err;
    return send_try(ep, peer_get(ep, number), context_id, tag, data, buf, size);
}

/* ---- the calls ---- */

/* The arguments of a call. */
struct send_call {
    enum { CALL_SEND, CALL_INJECT, CALL_TRY } kind;
    uint32_t number, context_id;
    uint64_t tag;
    const void *buf;
    size_t size;
    uint64_t data;                     /* CALL_INJECT, CALL_TRY */
    const struct mbx_options *options; /* CALL_SEND, and */
    unsigned flags;
    mbx_request *request;
};

/* A call with the lock of an endpoint with many threads, or with a trace. */
static OUT_OF_LINE int call_locked(struct mbx_ep *ep, const struct send_call *call)
{
    int result = 0;

    ep_lock(ep);
    tracer_send(ep, call->number, call->context_id, call->tag, call->size);
    switch (call->kind) {
    case CALL_SEND:
        result = send_start(ep, call->number, call->context_id, call->tag, call->buf,
                            call->size, call->options, call->flags, call->request);
        break;
    case CALL_INJECT:
        result = inject_start(ep, call->number, call->context_id, call->tag, call->buf,
                              call->size, call->data);
        break;
    case CALL_TRY:
        result = try_start(ep, call->number, call->context_id, call->tag, call->buf, call->size,
                           call->data);
        break;
    }
    tracer_send_over(ep, result > 0 || (result == 0 && call->kind != CALL_TRY));
    ep_unlock(ep);
    return result;
}

FLATTEN int mbx_send(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
                     const void *buf, size_t size, const struct mbx_options *options,
                     mbx_request *request)
{
    if (unlikely(ep->wait.detours))
        return call_locked(ep, &(const struct send_call){CALL_SEND, peer, context_id, tag, buf,
                                                         size, 0, options, 0, request});
    return send_start(ep, peer, context_id, tag, buf, size, options, 0, request);
}

int mbx_ssend(struct mbx_ep *ep, uint32_t peer, uint32_t context_id, uint64_t tag,
              const void *buf, size_t size, const struct mbx_options *options,
              mbx_request *request)
{
    if (unlikely(ep->wait.detours))
        return call_locked(ep,
                           &(const struct send_call){CALL_SEND, peer, context_id, tag, buf,
                                                     size, 0, options, REQUEST_SYNC, request});
    return send_start(ep, peer, context_id, tag, buf, size, options, REQUEST_SYNC, request);
}

FLATTEN int mbx_inject(struct mbx_ep *ep, uint32_t number, uint32_t context_id, uint64_t tag,
                       const void *buf, size_t size, uint64_t data)
{
    if (unlikely(ep->wait.detours))
        return call_locked(ep, &(const struct send_call){CALL_INJECT, number, context_id, tag,
                                                         buf, size, data, NULL, 0, NULL});
    return inject_start(ep, number, context_id, tag, buf, size, data);
}

int mbx_try_send(struct mbx_ep *ep, uint32_t number, uint32_t context_id, uint64_t tag,
                 const void *buf, size_t size, uint64_t data)
{
    if (unlikely(ep->wait.detours))
        return call_locked(ep, &(const struct send_call){CALL_TRY, number, context_id, tag, buf,
                                                         size, data, NULL, 0, NULL});
    return try_start(ep, number, context_id, tag, buf, size, data);
}

/* ---- as a protocol ---- */

static const struct proto send_proto = {
    .id = PROTO_SEND,
    .name = "send",
    .states = {{.name = "new",
                .kinds = MBX_SENDS,
                .then = PROTO_THEN(PROTO_EAGER) | PROTO_THEN(PROTO_RNDV)}},
};

const struct module send_module = {
    .name = "send", .proto = &send_proto, .peer_made = path_peer_made};
