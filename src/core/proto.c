/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto.c - the one place where a request changes its state.
 */
#include "core/proto.h"

#include "core/core.h"

/* A receive of EAGER, RNDV or RPUT_RECV has met its message, and its place in the engine is over. */
static const uint8_t parts[PROTOS] = {
    [PROTO_RECV] = PART_MATCH,       [PROTO_OFFLOAD] = PART_MATCH,
    [PROTO_BACKLOG] = PART_DEFERRED, [PROTO_RPUT_SEND] = PART_TARGET,
    [PROTO_COOP] = PART_COOP,        [PROTO_ACCESS] = PART_ACCESS,
    [PROTO_TARGET] = PART_ACCESS,
};

bool request_has(const struct request *req, enum request_part part)
{
    return parts[PROTO_OF(req->state)] == part;
}

static const struct proto_state *state_of(const struct mbx_ep *ep, unsigned state)
{
    return &ep->modules.protos[PROTO_OF(state)]->states[state % PROTO_STATES];
}

bool proto_may_move(const struct mbx_ep *ep, unsigned from, unsigned to)
{
    const struct proto_state *now = state_of(ep, from);

    if (PROTO_OF(from) == PROTO_OF(to))
        return (now->next & PROTO_NEXT(to)) != 0;
    return (now->then & PROTO_THEN(PROTO_OF(to))) != 0 && state_of(ep, to)->is_first;
}

void proto_move(struct mbx_ep *ep, struct request *req, unsigned to)
{
    assert(proto_may_move(ep, req->state, to));
    LOG_TRACE("%s %s -> %s %s, request %llx", ep->modules.protos[PROTO_OF(req->state)]->name,
              state_of(ep, req->state)->name, ep->modules.protos[PROTO_OF(to)]->name,
              state_of(ep, to)->name, (unsigned long long)req->completion.request);
    req->state = (uint8_t)to;
}
