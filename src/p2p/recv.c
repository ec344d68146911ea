/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recv.c - posts receives, and matches them with messages.
 *
 * recv_matched() handles every match of a receive and a message, whichever of them came first,
 * except for a receive without a request (try_recv.c).
 */
#include "base/copy.h"
#include "base/usdt.h"
#include "core/core.h"
#include "p2p/p2p.h"
#include "p2p/credit.h"
#include "p2p/tracepoint.h"

/* As recv_describe(); returns as recv_sized(). */
static inline bool recv_describe_inline(struct mbx_ep *ep, struct request *req,
                                        const struct mbx_match_envelope *envelope,
                                        uint64_t data, uint64_t size)
{
    struct mbx_status *status = &req->completion.status;

    req->peer = status->source = envelope->source;
    status->context_id = envelope->context_id;
    status->tag = envelope->tag;
    status->data = data;
    return recv_sized(ep, req, size);
}

void recv_describe(struct mbx_ep *ep, struct request *req,
                   const struct mbx_match_envelope *envelope, uint64_t data, uint64_t size)
{
    recv_describe_inline(ep, req, envelope, data, size);
}

/* recv_matched() for a receive in pieces, whose space is known only now. */
static OUT_OF_LINE void recv_matched_pieces(struct mbx_ep *ep, struct request *req,
                                            const struct wire_rts *rts, uint64_t sender,
                                            uint64_t size, const char *payload, size_t have,
                                            bool is_fragmented)
{
    const struct arrival arrival = {
        .size = size,
        .payload = payload,
        .rts = rts,
        .sender = sender,
        .have = have,
        .is_fragmented = is_fragmented,
    };

    req->size = req->pieces->size;
    req->total = min_size(req->size, size);
    if (size > req->size) {
        req->completion.error = -EMSGSIZE;
        ep->stats.truncated++;
    }
    if (rts == NULL)
        eager_receive_pieces(ep, req, &arrival);
    else
        rndv_receive(ep, req, &arrival);
}

void recv_matched(struct mbx_ep *ep, struct request *req, const struct arrival *arrival)
{
    if (unlikely(
            recv_describe_inline(ep, req, &arrival->envelope, arrival->data, arrival->size))) {
        /* passed one by one, so that the arrival of a short message need not be in memory */
        recv_matched_pieces(ep, req, arrival->rts, arrival->sender, arrival->size,
                            arrival->payload, arrival->have, arrival->is_fragmented);
    } else if (likely(arrival->rts == NULL)) {
        eager_receive(ep, req, arrival);
    } else {
        rndv_receive(ep, req, arrival);
    }
}

inline bool recv_callback(struct mbx_ep *ep, struct request *req, const struct arrival *arrival)
{
    struct mbx_completion completion;

    if (req->flags != REQUEST_DONE || unlikely(arrival->size > req->size))
        return false;
    completion = (struct mbx_completion){
        .request = req->completion.request,
        .user = req->completion.user,
        .kind = MBX_RECVS,
        .received = arrival->size,
        .status = {.context_id = arrival->envelope.context_id,
                   .source = arrival->envelope.source,
                   .tag = arrival->envelope.tag,
                   .data = arrival->data,
                   .size = arrival->size},
    };
    eager_count_received(ep, arrival->size, false);
    copy_bytes(req->buf, arrival->payload, arrival->size);
    request_callback(ep, req, &completion);
    return true;
}

/* recv_given(), inlined. */
static inline void given(struct mbx_ep *ep, struct request *req, struct message *message)
{
    struct arrival storage;

    credit_emptied(ep, message);
    recv_matched(ep, req, message_arrival(message, &storage));
    message_drop(ep, message);
}

void recv_given(struct mbx_ep *ep, struct request *req, struct message *message)
{
    given(ep, req, message);
}

/* A receive that is being posted has found its message. */
static OUT_OF_LINE void recv_unexpected(struct mbx_ep *ep, struct request *req,
                                        struct message *message)
{
    bool is_elsewhere;

    ep->stats.unexpected_now--;
    is_elsewhere = tracepoint_found(ep, req, message);
    credit_met(ep, message);
    if (likely(!is_elsewhere))
        given(ep, req, message);
}

bool recv_unpost(struct mbx_ep *ep, struct request *req, enum recv_cause cause)
{
    struct context *context = context_find(ep, req->match.envelope.context_id);

    if (!mbx_match_cancel(&context->match, &req->match))
        return false;
    ep->stats.posted_now--;
    module_recv_left(ep, req, cause, NULL);
    return true;
}

void recv_taken(struct mbx_ep *ep, struct request *req,
                const struct mbx_match_envelope *envelope, enum recv_cause cause,
                const struct peer *by)
{
    mbx_match_cancel(&context_find(ep, envelope->context_id)->match, &req->match);
    ep->stats.expected++;
    ep->stats.posted_now--;
    tracepoint_arrive(ep, envelope, req, NULL);
    module_recv_left(ep, req, cause, by);
}

struct request *recv_take(struct mbx_ep *ep, void *buf, size_t size,
                          const struct mbx_options *options)
{
    struct request *req = request_take(ep);

    if (unlikely(req == NULL))
        return NULL;
    request_init(ep, req, MBX_RECVS, options);
    req->match.state = MBX_MATCH_IDLE;
    request_start(req, REQUEST_POSTED);
    req->buf = buf;
    req->size = size;
    req->open.word = 0;
    req->completion.received = 0;
    return req;
}

/* req, of which modules are notified, waits in its engine. */
static OUT_OF_LINE void recv_waits(struct mbx_ep *ep, struct request *req)
{
    if (ep->failures.count != ep->failures.known && recv_is_from_any(req))
        failure_unnotified(ep, req);
    module_recv_posted(ep, req); /* it may complete req */
}

/* Posts a receive into buf; or into pieces, and then size is 0.  The arguments are valid. */
static ALWAYS_INLINE int recv_post(struct mbx_ep *ep, uint32_t source, uint32_t context_id,
                                   uint64_t tag, uint64_t ignore, void *buf, size_t size,
                                   struct pieces *pieces, const struct mbx_options *options,
                                   mbx_request *request)
{
    struct context *context;
    struct mbx_match_msg *found;
    struct request *req;
    int err;

    context = context_get(ep, context_id);
    req = likely(context != NULL) ? recv_take(ep, buf, size, options) : NULL;
    if (unlikely(req == NULL))
        return -ENOMEM;
    if (pieces != NULL)
        recv_in_pieces(req, pieces);
    req->match.envelope = (struct mbx_match_envelope){context_id, source, tag};
    req->match.ignore = ignore;
    err = mbx_match_post(&context->match, &req->match, &found);
    if (unlikely(err < 0)) {
        request_drop(ep, req);
        return err;
    }
    if (request != NULL)
        *request = request_handle(req);
    if (likely(found == NULL)) {
        USDT(posted, context_id, source, tag, req->completion.request);
        tracepoint_post(ep, req);
        stats_kept(&ep->stats.posted_now, &ep->stats.posted_max, 1);
        if (unlikely(size >= ep->modules.watched_from))
            recv_waits(ep, req);
    } else {
        USDT(met, context_id, source, tag, req->completion.request);
        recv_unexpected(ep, req, container_of(found, struct message, match));
    }
    return 0;
}

int recv_pieces(struct mbx_ep *ep, const char *call, const void *buf, size_t size,
                const struct mbx_options *options, struct pieces **pieces)
{
    if ((options->flags & ~(unsigned)(MBX_SILENT | MBX_DONE | MBX_LAYOUT)) != 0)
        return log_argument(call, "options->flags", options->flags, "unknown flag");
    if (request_check_done(call, options) < 0)
        return -EINVAL;
    if ((options->flags & MBX_LAYOUT) == 0) {
        assert(buf == NULL && size != 0);
        return log_argument(call, "buf", 0, "NULL, and size is not 0");
    }
    if (pieces_check(call, options->layout, size, false) < 0)
        return -EINVAL;
    *pieces = pieces_make(ep, options->layout, size);
    return *pieces != NULL ? 0 : -ENOMEM;
}

OUT_OF_LINE int recv_check_for(const struct mbx_ep *ep, const char *call, uint32_t source,
                               uint32_t context_id)
{
    if (source >= ep->peers.count && source != MBX_ANY_SOURCE)
        return log_argument(call, "source", source, "no such peer");
    return context_id <= MBX_CONTEXT_MAX
               ? 0
               : log_argument(call, "context_id", context_id, "the library's own");
}

/* Posts a receive into pieces, or rejects it.
 *
 * Until it is matched, such a receive has size 0.  So every message with data is too long for
 * it, which is a case that other receives have as well: recv_sized().  And it is never
 * announced to a device or a sender that writes into the buffers of receives. */
static OUT_OF_LINE int recv_start_pieces(struct mbx_ep *ep, uint32_t source,
                                         uint32_t context_id, uint64_t tag, uint64_t ignore,
                                         void *buf, size_t size,
                                         const struct mbx_options *options,
                                         mbx_request *request)
{
    struct pieces *pieces;
    int err;

    options = options_of(options);
    err = recv_check_for(ep, "mbx_recv", source, context_id);
    if (err == 0)
        err = recv_pieces(ep, "mbx_recv", buf, size, options, &pieces);
    if (err < 0)
        return err;
    err = recv_post(ep, source, context_id, tag, ignore, NULL, 0, pieces, options, request);
    if (err < 0)
        pieces_drop(ep, pieces);
    return err;
}

/* Copies the options for functions that are seldom called: where mbx_recv() is inlined with
 * constant options, these then need not be in memory. */
static ALWAYS_INLINE const struct mbx_options *
recv_options_copied(const struct mbx_options *options, struct mbx_options *copy)
{
    if (options == NULL)
        return NULL;
    *copy = (struct mbx_options){.user = options->user,
                                 .data = options->data,
                                 .flags = options->flags,
                                 .layout = options->layout,
                                 .done = options->done};
    return copy;
}

static ALWAYS_INLINE int recv_start(struct mbx_ep *ep, uint32_t source, uint32_t context_id,
                                    uint64_t tag, uint64_t ignore, void *buf, size_t size,
                                    const struct mbx_options *options, mbx_request *request)
{
    const struct mbx_options *given = options_of(options);
    struct mbx_options copy;

    if (unlikely(recv_check(ep, source, context_id) < 0 || (buf == NULL && size != 0)) ||
        unlikely(!options_are_valid(given)))
        return recv_start_pieces(ep, source, context_id, tag, ignore, buf, size,
                                 recv_options_copied(options, &copy), request);
    return recv_post(ep, source, context_id, tag, ignore, buf, size, NULL, given, request);
}

static OUT_OF_LINE int recv_locked(struct mbx_ep *ep, uint32_t source, uint32_t context_id,
                                   uint64_t tag, uint64_t ignore, void *buf, size_t size,
                                   const struct mbx_options *options, mbx_request *request)
{
    int err;

    ep_lock(ep);
    err = recv_start(ep, source, context_id, tag, ignore, buf, size, options, request);
    ep_unlock(ep);
    return err;
}

FLATTEN int mbx_recv(struct mbx_ep *ep, uint32_t source, uint32_t context_id, uint64_t tag,
                     uint64_t ignore, void *buf, size_t size, const struct mbx_options *options,
                     mbx_request *request)
{
    struct mbx_options copy;

    if (unlikely(ep->wait.has_threads))
        return recv_locked(ep, source, context_id, tag, ignore, buf, size,
                           recv_options_copied(options, &copy), request);
    return recv_start(ep, source, context_id, tag, ignore, buf, size, options, request);
}

void recv_cancelled(struct mbx_ep *ep, struct request *req)
{
    tracepoint_cancel(ep, req);
    ep->stats.cancelled++;
    req->completion.status = (struct mbx_status){
        .context_id = req->match.envelope.context_id,
        .source = req->match.envelope.source,
        .tag = req->match.envelope.tag,
    };
    request_complete(ep, req, req->flags & REQUEST_PEER_GONE ? -ENOTCONN : -ECANCELED);
}

/* req has left its engine: cancels it now, or when a device has confirmed it. */
static void recv_withdraw(struct mbx_ep *ep, struct request *req)
{
    if (device_recv_cancel(ep, req))
        recv_cancelled(ep, req);
    else
        proto_move(ep, req, REQUEST_REVOKING);
}

/* For a receive that is still posted: its sender has died, or the sender has won it and
 * died. */
static void recv_peer_gone(struct mbx_ep *ep, struct peer *peer, struct request *req, int error)
{
    bool is_won = lockword_owner(ep, req->open.word) == peer->number;

    (void)error;
    if (!is_won && !peer->health.is_dead && !peer->health.is_lost)
        return;
    if (is_won)
        lockword_give(ep, &req->open.word, peer, true);
    if (!recv_unpost(ep, req, RECV_ENDED))
        return;
    req->flags |= REQUEST_PEER_GONE;
    req->match.envelope.source = peer->number;
    recv_withdraw(ep, req);
}

/* The result of a cancel of a receive that is no longer posted. */
static int recv_fate(const struct request *req)
{
    if (req->state == REQUEST_REVOKING)
        return -EINPROGRESS;
    return req->state == REQUEST_COMPLETE && req->completion.error == -ECANCELED ? -ECANCELED
                                                                                 : -EALREADY;
}

static int recv_cancel(struct mbx_ep *ep, mbx_request request)
{
    struct request *req = request_find(ep, request);

    if (req == NULL)
        return -ESTALE;
    if (req->completion.kind != MBX_RECVS)
        return withdraw_send(ep, req);
    if (!recv_is_open(req) || !lockword_close(ep, &req->open.word, recv_heir(req)) ||
        !recv_unpost(ep, req, RECV_ENDED))
        return recv_fate(req);
    recv_withdraw(ep, req);
    return 0;
}

int mbx_cancel(struct mbx_ep *ep, mbx_request request)
{
    int err;

    ep_lock(ep);
    err = recv_cancel(ep, request);
    ep_unlock(ep);
    return err;
}

static const struct proto recv_proto = {
    .id = PROTO_RECV,
    .part = PART_MATCH,
    .name = "receive",
    .states =
        {
            [REQUEST_POSTED % PROTO_STATES] = {.name = "posted",
                                               .kinds = MBX_RECVS,
                                               .queue = PROTO_EITHER,
                                               .next = PROTO_NEXT(REQUEST_REVOKING),
                                               .then = PROTO_THEN(PROTO_EAGER) |
                                                       PROTO_THEN(PROTO_RNDV) |
                                                       PROTO_THEN(PROTO_PIECES),
                                               .is_first = true,
                                               .is_open = true},
            [REQUEST_REVOKING %
                PROTO_STATES] = {.name = "revoking", .kinds = MBX_RECVS, .is_open = true},
        },
    .peer_gone = recv_peer_gone,
};

struct kept_of {
    uint32_t source;
    bool is_found;
};

static void check_kept(void *arg, void *object)
{
    struct kept_of *kept = arg;
    const struct message *message = object;

    kept->is_found |= message->match.envelope.source == kept->source;
}

/* Is a message of this peer kept? */
static bool recv_on_refers(struct mbx_ep *ep, const struct peer *peer)
{
    struct kept_of kept = {.source = peer->number};

    pool_for_each(&ep->messages, check_kept, &kept);
    return kept.is_found;
}

const struct module recv_module = {
    .name = "receive",
    .proto = &recv_proto,
    .peer_refers = recv_on_refers,
};
