/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * origin.c - our reads, writes and atomics of peers' memory; see rma.h.
 *
 *   access ──packet left──> wait-answer ──last answer──> complete
 *                               │   ^
 *                        pulled v   │ all PUSHes left
 *                               push
 *
 * Short writes and all atomics travel in their packet.  For longer accesses the packet has the
 * address of our buffer, if the peer can reach it: it is exposed until the last answer.
 */
#include "base/check.h"
#include "rma/rma.h"

#include "core/core.h"

#include <stdalign.h>

/* PUSH packets that leave before other requests get their turn. */
#define PUSH_BURST 16

/* An atomic is assembled on the stack. */
#define ATOMIC_MAX  ((size_t)2048)

#define ELEMENT_MAX 32

static_assert(sizeof(struct access) <= sizeof(struct mbx_match_recv),
              "a request is not longer");

static size_t packet_capacity(const struct mbx_ep *ep, enum wire_type type)
{
    return ep->net.transport->limits.packet_max - sizeof(struct wire_header) -
           wire_body_size(type);
}

size_t access_atomic_max(const struct mbx_ep *ep)
{
    size_t most =
        min_size(packet_capacity(ep, WIRE_ATOMIC) / 2, packet_capacity(ep, WIRE_ANSWER));

    return min_size(most, ATOMIC_MAX) / ELEMENT_MAX * ELEMENT_MAX;
}

struct accesses *access_of(struct mbx_ep *ep, struct peer *peer)
{
    struct accesses *all = peer->accesses;

    (void)ep;
    if (likely(all != NULL))
        return all;
    all = mem_calloc(1, sizeof *all);
    if (all == NULL)
        return NULL;
    all->peer = peer;
    list_init(&all->waiting);
    list_init(&all->jobs);
    all->serving = (struct work){.run = target_run};
    peer->accesses = all;
    return all;
}

/* ---- packets ---- */

static int access_send(struct mbx_ep *ep, struct request *req, enum wire_type type,
                       const void *body, size_t body_size, const void *payload, size_t size)
{
    const struct mbx_status only_data = {.data = req->completion.status.data};
    bool has_data = type == WIRE_PUT && req->access.has_data;
    const struct outgoing packet = {
        .type = type,
        .flags = has_data ? WIRE_HAS_DATA : 0,
        .envelope = has_data ? &only_data : NULL,
        .body = body,
        .body_size = body_size,
        .payload = payload,
        .payload_size = size,
    };

    return outq_send(peer_get(ep, req->peer)->link, &packet);
}

/* Does the access not fit into a packet, ours or the peer's? */
static bool access_is_long(const struct mbx_ep *ep, const struct request *req)
{
    enum wire_type carries = req->access.type == ACCESS_PUT ? WIRE_PUT : WIRE_ANSWER;

    return req->size > packet_capacity(ep, carries);
}

static int access_send_range(struct mbx_ep *ep, struct request *req)
{
    struct wire_range range = {
        .sender = req->completion.request,
        .key = req->access.key,
        .at = req->access.at,
        .size = req->size,
    };
    bool is_long = access_is_long(ep, req);

    if (is_long)
        rndv_expose(ep, req, &range.address, &range.exposed);
    return access_send(ep, req, req->access.type == ACCESS_PUT ? WIRE_PUT : WIRE_GET, &range,
                       sizeof range, req->buf,
                       is_long || req->access.type == ACCESS_GET ? 0 : req->size);
}

static int access_send_atomic(struct mbx_ep *ep, struct request *req)
{
    struct access *access = &req->access;
    const struct wire_atomic atomic = {
        .sender = req->completion.request,
        .key = access->key,
        .at = access->at,
        .what = access->what,
        .count = access->count,
    };
    alignas(8) char bytes[sizeof atomic + ATOMIC_MAX];
    size_t operands = req->buf != NULL ? req->size : 0;

    memcpy(bytes, &atomic, sizeof atomic);
    if (operands != 0)
        memcpy(bytes + sizeof atomic, req->buf, operands);
    return access_send(ep, req, WIRE_ATOMIC, bytes, sizeof atomic + operands, access->compare,
                       access->compare != NULL ? req->size : 0);
}

static int access_push(struct mbx_ep *ep, struct request *req)
{
    int err = 0;

    for (int n = 0; n < PUSH_BURST && req->done < req->total && err == 0; n++) {
        const struct wire_push push = {.sender = req->completion.request, .offset = req->done};
        size_t size = min_size(packet_capacity(ep, WIRE_PUSH), req->total - req->done);

        err = access_send(ep, req, WIRE_PUSH, &push, sizeof push, req->buf + req->done, size);
        req->done += err == 0 ? size : 0;
    }
    return err == 0 && req->done < req->total ? -EINPROGRESS : err;
}

static int access_step(struct mbx_ep *ep, struct request *req)
{
    int err;

    assert(request_has(ep, req, PART_ACCESS));
    assert(req->state == ACCESS_LEAVING || req->state == ACCESS_PUSHING);
    if (req->state == ACCESS_PUSHING)
        err = access_push(ep, req);
    else if (req->access.type == ACCESS_ATOMIC)
        err = access_send_atomic(ep, req);
    else
        err = access_send_range(ep, req);
    if (err == 0)
        proto_move(ep, req, ACCESS_WAIT_ANSWER);
    return err;
}

/* ---- the end ---- */

static void access_count(struct mbx_ep *ep, const struct request *req, int error)
{
    ep->stats.access_errors += error != 0;
    if (error != 0)
        return;
    ep->stats.puts += req->access.type == ACCESS_PUT;
    ep->stats.gets += req->access.type == ACCESS_GET;
    ep->stats.atomics += req->access.type == ACCESS_ATOMIC;
}

/* Sends the next waiting accesses. */
static void access_next(struct mbx_ep *ep, struct accesses *all)
{
    while (all->under_way < ACCESS_WINDOW && !list_is_empty(&all->waiting)) {
        struct request *req = request_of_queue(list_pop_head(&all->waiting));

        all->under_way++;
        proto_move(ep, req, ACCESS_LEAVING);
        outq_push(ep, all->peer, req);
    }
}

/* Ends req, one of our accesses, which has left or waits. */
static void access_end(struct mbx_ep *ep, struct request *req, int error)
{
    struct accesses *all = peer_get(ep, req->peer)->accesses;

    assert(req->completion.kind == MBX_ACCESS);
    assert(list_is_linked(&req->queue) || all->under_way != 0);
    if (list_is_linked(&req->queue))
        list_remove(&req->queue);
    else
        all->under_way--;
    access_count(ep, req, error);
    req->completion.received = error == 0 ? req->size : 0;
    request_complete(ep, req, error);
    access_next(ep, all);
}

/* ---- answers ---- */

/* The peer cannot reach our buffer, and pulls its bytes. */
static int access_pulled(struct mbx_ep *ep, struct peer *peer, struct request *req,
                         uint64_t offset)
{
    if (req->access.type != ACCESS_PUT || !access_is_long(ep, req) || offset >= req->size)
        return -EPROTO;
    proto_move(ep, req, ACCESS_PUSHING);
    req->done = offset;
    req->total = req->size;
    outq_push(ep, peer, req);
    return 0;
}

/* Stores bytes that were read. */
static int access_brought(struct request *req, const struct wire_packet *packet)
{
    uint64_t offset = packet->body.answer.offset;
    char *to = req->access.type == ACCESS_GET ? req->buf : req->access.result;

    if (packet->payload_size == 0)
        return 0;
    if (req->access.type == ACCESS_PUT || to == NULL || offset < req->done ||
        offset > req->size || packet->payload_size > req->size - offset)
        return -EPROTO;
    memcpy(to + offset, packet->payload, packet->payload_size);
    req->done = offset + packet->payload_size;
    return 0;
}

/* Has the access received everything?  If the peer writes to our buffer, only the peer
 * knows. */
static bool access_is_whole(const struct request *req)
{
    switch ((enum access_type)req->access.type) {
    case ACCESS_GET:
        return req->done == req->size || (req->flags & REQUEST_EXPOSED);
    case ACCESS_ATOMIC:
        return req->access.result == NULL || req->done == req->size;
    case ACCESS_PUT:
        break;
    }
    return true;
}

static int on_answer(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet)
{
    const struct wire_answer *answer = &packet->body.answer;
    struct request *req = request_named(ep, answer->sender, peer->number, ACCESS_WAIT_ANSWER);

    if (req == NULL)
        return -EPROTO;
    if (packet->header.flags & WIRE_PULL)
        return access_pulled(ep, peer, req, answer->offset);
    if (access_brought(req, packet) < 0)
        return -EPROTO;
    if (!(packet->header.flags & WIRE_LAST))
        return 0;
    if (answer->error == 0 && !access_is_whole(req))
        return -EPROTO;
    access_end(ep, req, -(int)answer->error);
    return 0;
}

/* ---- calls ---- */

/* Copies the data to write and, after it, the comparison values: the caller's may change. */
static int access_copy(struct request *req)
{
    const void *compare = req->access.compare;
    char *copy = mem_alloc(compare != NULL ? 2 * req->size : req->size);

    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, req->buf, req->size);
    if (compare != NULL)
        req->access.compare = memcpy(copy + req->size, compare, req->size);
    req->buf = copy;
    req->flags |= REQUEST_COPIED;
    return 0;
}

/* Ends an access to a peer that is known to be gone. */
static void access_refused(struct mbx_ep *ep, struct request *req, int err)
{
    access_count(ep, req, err);
    req->completion.received = 0;
    request_complete(ep, req, err);
}

/* Sends req now, or in its turn; or it ends at once.  0; -ENOMEM and nothing was done. */
static int access_go(struct mbx_ep *ep, struct peer *peer, struct request *req, bool copies)
{
    struct accesses *all = access_of(ep, peer);
    bool may_leave, is_next;
    int err = -EAGAIN;

    if (all == NULL)
        return -ENOMEM;
    may_leave = list_is_empty(&all->waiting) && all->under_way < ACCESS_WINDOW;
    is_next = may_leave && list_is_empty(&peer->outq.list);
    copies = copies && req->buf != NULL && req->size != 0;
    if (is_next && !(copies && access_is_long(ep, req)))
        err = access_step(ep, req);
    if (err == -EAGAIN && copies && access_copy(req) < 0)
        return -ENOMEM;
    if (err != 0 && err != -EAGAIN) {
        access_refused(ep, req, err);
        return 0;
    }
    if (may_leave) {
        all->under_way++;
    } else {
        proto_move(ep, req, ACCESS_QUEUED);
        list_add_tail(&all->waiting, &req->queue);
    }
    if (err == -EAGAIN && may_leave)
        outq_push(ep, peer, req);
    return 0;
}

/* A request for such an access, not yet sent; NULL: none is available. */
static struct request *access_take(struct mbx_ep *ep, enum access_type type, uint32_t number,
                                   const void *buf, size_t size, uint64_t key, uint64_t at,
                                   const struct mbx_options *options)
{
    struct request *req = request_take(ep);

    if (unlikely(req == NULL))
        return NULL;
    request_init(ep, req, MBX_ACCESS, options);
    request_start(req, ACCESS_LEAVING);
    req->protocol = path_rndv(peer_get(ep, number));
    req->peer = number;
    req->buf = (char *)(uintptr_t)buf;
    req->size = req->total = size;
    req->done = 0;
    req->access = (struct access){
        .type = (uint8_t)type,
        .key = key,
        .at = at,
        .has_data = (options->flags & MBX_REMOTE_DATA) != 0,
    };
    req->completion.status = (struct mbx_status){
        .source = number,
        .tag = key,
        .data = options->data,
        .size = size,
    };
    return req;
}

static int access_begin(struct mbx_ep *ep, struct request *req,
                        const struct mbx_options *options, mbx_request *request)
{
    mbx_request handle = request_handle(req);
    int err = access_go(ep, peer_get(ep, req->peer), req, options->flags & MBX_COPY);

    if (unlikely(err < 0))
        request_drop(ep, req);
    else if (request != NULL)
        *request = handle;
    return err;
}

static int access_check(const struct mbx_ep *ep, const char *call, const void *buf, size_t size,
                        uint64_t at)
{
    if (buf == NULL && size != 0)
        return log_argument(call, "buf", 0, "NULL, and size is not 0");
    if (size > ep->limits.reported.message)
        return log_argument(call, "size", size, "longer than mbx_limits.message");
    return at + size >= at ? 0 : log_argument(call, "address", at, "wraps with this size");
}

static int access_start(struct mbx_ep *ep, enum access_type type, uint32_t number,
                        const void *buf, size_t size, uint64_t key, uint64_t at,
                        const struct mbx_options *options, unsigned flags, mbx_request *request)
{
    struct request *req;
    int err;

    err = access_check(ep, type == ACCESS_PUT ? "mbx_write" : "mbx_read", buf, size, at);
    if (err == 0 && !flags_are_valid(options, flags))
        err = log_argument(type == ACCESS_PUT ? "mbx_write" : "mbx_read", "options->flags",
                           options->flags, "unknown flag, or MBX_DONE without options.done");
    if (err < 0)
        return err;
    err = peer_use(ep, number);
    if (err < 0)
        return err;
    if ((options->flags & MBX_COPY) && size > ep->limits.reported.inject)
        return -EMSGSIZE;
    req = access_take(ep, type, number, buf, size, key, at, options);
    return likely(req != NULL) ? access_begin(ep, req, options, request) : -ENOMEM;
}

int mbx_write(struct mbx_ep *ep, uint32_t peer, const void *buf, size_t size, uint64_t key,
              uint64_t address, const struct mbx_options *options, mbx_request *request)
{
    int err;

    ep_lock(ep);
    err = access_start(ep, ACCESS_PUT, peer, buf, size, key, address, options_of(options),
                       MBX_REMOTE_DATA | MBX_COPY, request);
    ep_unlock(ep);
    return err;
}

int mbx_read(struct mbx_ep *ep, uint32_t peer, void *buf, size_t size, uint64_t key,
             uint64_t address, const struct mbx_options *options, mbx_request *request)
{
    int err;

    ep_lock(ep);
    err = access_start(ep, ACCESS_GET, peer, buf, size, key, address, options_of(options), 0,
                       request);
    ep_unlock(ep);
    return err;
}

/* Does it have the pointers that this operation needs, and no others? */
static bool atomic_is_whole(const struct mbx_atomic_args *atomic)
{
    bool reads = atomic->op == MBX_ATOMIC_READ;

    return atomic->count != 0 && (atomic->operand == NULL) == reads &&
           (atomic->compare != NULL) == atomic_compares(atomic->op) &&
           (atomic->result != NULL || !reads);
}

static int atomic_start(struct mbx_ep *ep, uint32_t number,
                        const struct mbx_atomic_args *atomic, const struct mbx_options *options,
                        mbx_request *request)
{
    size_t each = mbx_atomic_size(atomic->op, atomic->type);
    struct request *req;
    int err;

    if (each == 0)
        return -EOPNOTSUPP;
    if (!atomic_is_whole(atomic))
        return log_argument("mbx_atomic", "atomic->count", atomic->count,
                            "0, or operand, compare or result is missing or not wanted");
    if (atomic->flags != 0)
        return log_argument("mbx_atomic", "atomic->flags", atomic->flags, "unknown flag");
    if (!flags_are_valid(options, MBX_COPY))
        return log_argument("mbx_atomic", "options->flags", options->flags,
                            "unknown flag, or MBX_DONE without options.done");
    err = peer_use(ep, number);
    if (err < 0)
        return err;
    if (atomic->count > ep->limits.reported.atomic / each)
        return -EMSGSIZE;
    if (atomic->address + atomic->count * each < atomic->address)
        return log_argument("mbx_atomic", "atomic->address", atomic->address,
                            "wraps with this count");
    req = access_take(ep, ACCESS_ATOMIC, number, atomic->operand, atomic->count * each,
                      atomic->key, atomic->address, options);
    if (unlikely(req == NULL))
        return -ENOMEM;
    req->access.compare = atomic->compare;
    req->access.result = atomic->result;
    req->access.count = (uint32_t)atomic->count;
    req->access.what = (uint32_t)atomic->op | (uint32_t)atomic->type << 8 |
                       (atomic->result != NULL ? WIRE_ATOMIC_FETCH : 0);
    return access_begin(ep, req, options, request);
}

int mbx_atomic(struct mbx_ep *ep, uint32_t peer, const struct mbx_atomic_args *atomic,
               const struct mbx_options *options, mbx_request *request)
{
    int err;

    ep_lock(ep);
    err = atomic_start(ep, peer, atomic, options_of(options), request);
    ep_unlock(ep);
    return err;
}

/* ---- as a protocol ---- */

static void access_peer_gone(struct mbx_ep *ep, struct peer *peer, struct request *req,
                             int error)
{
    (void)peer;
    access_end(ep, req, error);
}

static const struct proto access_proto = {
    .id = PROTO_ACCESS,
    .part = PART_ACCESS,
    .name = "access",
    .states =
        {
            [ACCESS_QUEUED % PROTO_STATES] = {.name = "queued",
                                              .kinds = MBX_ACCESS,
                                              .queue = PROTO_ALWAYS,
                                              .next = PROTO_NEXT(ACCESS_LEAVING),
                                              .awaits_peer = true},
            [ACCESS_LEAVING % PROTO_STATES] = {.name = "leaving",
                                               .kinds = MBX_ACCESS,
                                               .out = PROTO_ALWAYS,
                                               .next = PROTO_NEXT(ACCESS_QUEUED) |
                                                       PROTO_NEXT(ACCESS_WAIT_ANSWER)},
            [ACCESS_WAIT_ANSWER % PROTO_STATES] = {.name = "wait-answer",
                                                   .kinds = MBX_ACCESS,
                                                   .next = PROTO_NEXT(ACCESS_PUSHING),
                                                   .awaits_peer = true},
            [ACCESS_PUSHING % PROTO_STATES] = {.name = "pushing",
                                               .kinds = MBX_ACCESS,
                                               .out = PROTO_ALWAYS,
                                               .moves = true,
                                               .next = PROTO_NEXT(ACCESS_WAIT_ANSWER),
                                               .lets_pass = true},
        },
    .step = access_step,
    .peer_gone = access_peer_gone,
};

const struct module access_module = {
    .name = "access",
    .proto = &access_proto,
    .packets = (const struct packet_handler[]){{WIRE_ANSWER, on_answer}, {0}},
    .is_valid = MBX_CHECKS ? access_is_valid : NULL,
};
