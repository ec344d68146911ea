/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proto.c - the only place where a request changes its state.
 */
#include "core/proto.h"

#include "core/core.h"

bool request_has(const struct mbx_ep *ep, const struct request *req, enum request_part part)
{
    return proto_of(ep, req)->part == part;
}

static const struct proto_state *proto_state_of(const struct mbx_ep *ep, unsigned state)
{
    return &ep->modules.protos[PROTO_OF(state)]->states[state % PROTO_STATES];
}

/* Does this state of a protocol above take requests from that state? */
static bool comes_from(const struct proto_state *state, unsigned from)
{
    return from != REQUEST_COMPLETE && (state->from[0] == from || state->from[1] == from);
}

bool proto_may_move(const struct mbx_ep *ep, unsigned from, unsigned to)
{
    const struct proto_state *now = proto_state_of(ep, from), *next = proto_state_of(ep, to);

    if (PROTO_OF(from) == PROTO_OF(to))
        return (now->next & PROTO_NEXT(to)) != 0;
    return ((now->then & PROTO_THEN(PROTO_OF(to))) != 0 && next->is_first) ||
           comes_from(next, from);
}

void proto_move(struct mbx_ep *ep, struct request *req, unsigned to)
{
    assert(proto_may_move(ep, req->state, to));
    LOG_TRACE("%s %s -> %s %s, request %llx", ep->modules.protos[PROTO_OF(req->state)]->name,
              proto_state_of(ep, req->state)->name, ep->modules.protos[PROTO_OF(to)]->name,
              proto_state_of(ep, to)->name, (unsigned long long)req->completion.request);
    req->state = (uint8_t)to;
}
