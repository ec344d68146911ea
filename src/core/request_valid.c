/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request_valid.c - checks that a request is where its state says: core.h I1, I4, I5, I7,
 * proto.h I2 to I4.
 */
#include "core/valid.h"

#include "core/core.h"

struct census {
    bool is_valid;
    const struct mbx_ep *ep;
    uint32_t done, active; /* requests that have to be on these lists */
    uint32_t injected;
    uint64_t open; /* receives that wait in an engine */
};

static bool request_valid_is_there(unsigned where, const struct list *node)
{
    return where == PROTO_EITHER || (where != PROTO_NEVER) == list_is_linked(node);
}

static const struct proto_state *request_state_of(const struct mbx_ep *ep,
                                                  const struct request *req)
{
    return &proto_of(ep, req)->states[req->state % PROTO_STATES];
}

static bool place_is_valid(const struct mbx_ep *ep, const struct request *req)
{
    const struct proto_state *state;
    bool is_in_engine = recv_is_open(req);

    if (!HOLDS("proto.h I3", PROTO_OF(req->state) < PROTOS) ||
        !HOLDS("proto.h I3", request_state_of(ep, req)->name != NULL))
        return false;
    state = request_state_of(ep, req);
    return HOLDS("proto.h I3", (state->kinds & req->completion.kind) != 0) &&
           HOLDS("core.h I1", request_valid_is_there(state->queue, &req->queue)) &&
           HOLDS("core.h I1", request_valid_is_there(state->out, &req->out)) &&
           HOLDS("core.h I1",
                 req->state != REQUEST_POSTED || is_in_engine || !list_is_linked(&req->queue));
}

/* Are the flags for the parts of req allowed in its protocol? */
static bool part_is_valid(const struct mbx_ep *ep, const struct request *req)
{
    if (req->state == REQUEST_COMPLETE || req->state == REQUEST_LINGER)
        return true;
    return HOLDS("proto.h I2", !(req->flags & REQUEST_ADVERTISED) || ep_matches_here(ep)) &&
           HOLDS("proto.h I2",
                 !(req->flags & REQUEST_ADVERTISED) || request_state_of(ep, req)->is_open);
}

/* Has a complete request released its resources? */
static bool end_is_valid(const struct request *req)
{
    bool is_over = req->state == REQUEST_COMPLETE || req->state == REQUEST_LINGER;
    unsigned flags = req->flags & (REQUEST_NO_SUCCESS_ENTRY | REQUEST_INTERNAL);

    if (!is_over)
        return true;
    return HOLDS("core.h I7", (req->flags & (REQUEST_EXPOSED | REQUEST_COPIED)) == 0) &&
           HOLDS("core.h I7", (req->flags & (REQUEST_ADVERTISED | REQUEST_PIECES)) == 0) &&
           HOLDS("core.h I4",
                 req->state == REQUEST_LINGER || (flags & REQUEST_INTERNAL) == 0) &&
           HOLDS("core.h I4", req->state == REQUEST_LINGER ||
                                  flags != REQUEST_NO_SUCCESS_ENTRY ||
                                  req->completion.error != 0);
}

static bool amount_is_valid(const struct mbx_ep *ep, const struct request *req)
{
    return !request_state_of(ep, req)->moves || (HOLDS("core.h I5", req->done <= req->total) &&
                                                 HOLDS("core.h I5", req->total <= req->size));
}

static void request_valid_count(void *arg, void *object)
{
    struct census *census = arg;
    const struct request *req = object;

    if (!census->is_valid)
        return;
    census->is_valid = place_is_valid(census->ep, req) && part_is_valid(census->ep, req) &&
                       end_is_valid(req) && amount_is_valid(census->ep, req);
    if (!census->is_valid)
        return;
    census->done += req->state == REQUEST_COMPLETE;
    census->active += request_state_of(census->ep, req)->queue == PROTO_ACTIVE;
    census->injected += (req->flags & REQUEST_INTERNAL) != 0 && request_is_send(req) &&
                        req->state > REQUEST_LINGER;
    census->open += recv_is_open(req);
}

/* Is active the list of exactly the requests whose state has work? */
static bool active_is_valid(const struct mbx_ep *ep, uint32_t count)
{
    struct list *node;

    list_for_each (node, &ep->progress.active)
        if (!HOLDS("core.h I1",
                   request_state_of(ep, request_of_queue(node))->queue == PROTO_ACTIVE) ||
            !HOLDS("proto.h I4", proto_of(ep, request_of_queue(node))->work != NULL))
            return false;
    return HOLDS("core.h I1", valid_length(&ep->progress.active) == count);
}

static bool done_is_valid(const struct mbx_ep *ep, uint32_t count)
{
    uint32_t done = 0;
    struct list *node;

    for (unsigned kind = MBX_SENDS; kind <= MBX_EVENTS; kind <<= 1)
        list_for_each (node, &ep->requests.done[kind]) {
            const struct request *req = request_of_queue(node);

            done++;
            if (!HOLDS("core.h I1", req->state == REQUEST_COMPLETE) ||
                !HOLDS("core.h I1", req->completion.kind == kind))
                return false;
        }
    return HOLDS("core.h I1", done == count) &&
           HOLDS("core.h I6", done == 0 || (ep->progress.due & DUE_READ) != 0);
}

static uint64_t posted(const struct mbx_ep *ep)
{
    const struct context *context;
    uint64_t recvs = 0;
    size_t position = 0;

    while ((context = context_next(ep, &position)) != NULL) {
        struct mbx_match_counters count;

        mbx_match_counters_get(&context->match, &count);
        recvs += count.recvs;
    }
    return recvs;
}

bool request_is_valid(const struct mbx_ep *ep)
{
    struct census census = {.ep = ep, .is_valid = true};
    const uint64_t recvs = posted(ep);

    valid_each(ep, request_valid_count, &census);
    return census.is_valid && active_is_valid(ep, census.active) &&
           done_is_valid(ep, census.done) && HOLDS("core.h I1", census.open == recvs) &&
           HOLDS("core.h I1", ep->stats.posted_now == recvs) &&
           HOLDS("core.h I7", ep->requests.injected == census.injected);
}
