/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * early_valid.c - large receives that travel first: early_recv.c I1 to I3, early_send.c I1, I3,
 * I4.
 */
#include "p2p/p2p.h"
#include "rput/early.h"
#include "core/valid.h"

/* ---- as a receiver ---- */

struct lending {
    const struct mbx_ep *ep;
    uint32_t told, shared;
    bool is_valid;
};

/* Does the sender know of all that a message for req could meet before? */
static bool those_before_are_told(const struct mbx_ep *ep, const struct request *req)
{
    const struct context *context = context_find(ep, req->match.envelope.context_id);
    const struct mbx_match_recv *other = NULL;

    while ((other = mbx_match_next_recv(&context->match, other)) != &req->match) {
        const struct request *earlier = container_of(other, struct request, match);

        if (!HOLDS("early_recv.c I3", other != NULL))
            return false;
        if (!early_overlap(&other->envelope, other->ignore, &req->match.envelope,
                           req->match.ignore))
            continue;
        if (!HOLDS("early_recv.c I3", (earlier->flags & REQUEST_LENT) != 0) ||
            !HOLDS("early_recv.c I3", earlier->lent.number < req->lent.number))
            return false;
    }
    return true;
}

static bool lent_is_valid(const struct mbx_ep *ep, const struct request *req)
{
    bool is_open = recv_is_open(req);

    return HOLDS("early_recv.c I1", !request_is_send(req)) &&
           HOLDS("early_recv.c I1", is_open || req->state == EARLY_FILLING) &&
           HOLDS("early_recv.c I1", (req->key != 0) == is_open) &&
           HOLDS("early_recv.c I2", peer_get(ep, req->peer)->early != NULL) &&
           (!is_open || those_before_are_told(ep, req));
}

static void look_at_lent(void *arg, void *object)
{
    struct lending *lending = arg;
    const struct request *req = object;

    if (!lending->is_valid)
        return;
    if (!(req->flags & REQUEST_LENT))
        return;
    if (PROTO_OF(req->state) == PROTO_SHARE) {
        lending->shared++;
        return;
    }
    lending->told++;
    lending->is_valid = lent_is_valid(lending->ep, req);
}

bool early_recv_is_valid(const struct mbx_ep *ep)
{
    struct lending lending = {.ep = ep, .is_valid = true};
    uint32_t told = 0;

    for (uint32_t i = 0; i < ep->peer_count; i++) {
        if (ep->peers[i] == NULL || ep->peers[i]->early == NULL)
            continue;
        if (!HOLDS("early_recv.c I2", ep->peers[i]->early->told <= EARLY_MOST))
            return false;
        told += ep->peers[i]->early->told;
    }
    valid_each(ep, look_at_lent, &lending);
    return lending.is_valid && HOLDS("early_recv.c I2", lending.told == told) &&
           HOLDS("early_recv.c I2", lending.told + lending.shared == ep->lent);
}

/* ---- as a sender ---- */

static bool rtrs_are_valid(const struct early *early)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < early->count; i++) {
        if (!HOLDS("early_send.c I3", early->rtrs[i].number > last))
            return false;
        last = early->rtrs[i].number;
    }
    return HOLDS("early_send.c I3", last <= early->last) &&
           HOLDS("early_send.c I3", early->forgotten <= early->last);
}

static bool peer_early_is_valid(const struct peer *peer)
{
    const struct early *early = peer->early;
    bool is_held = peer->is_held;

    return HOLDS("early_send.c I3", early->count <= EARLY_MOST) && rtrs_are_valid(early) &&
           HOLDS("early_send.c I1", early->count == 0 || peer->credit.envelopes == 0) &&
           HOLDS("early_send.c I1", early->count == 0 || !is_held) &&
           HOLDS("early_send.c I1", early->envelopes == 0 || !is_held);
}

static void look_at_writer(void *arg, void *object)
{
    bool *is_valid = arg;
    const struct request *req = object;
    bool is_writer = PROTO_OF(req->state) == PROTO_EARLY_SEND;

    *is_valid = *is_valid && HOLDS("early_send.c I4", !(req->flags & REQUEST_MOVING) ||
                                                          req->state == EARLY_WRITE ||
                                                          req->state == EARLY_WRITING);
    *is_valid =
        *is_valid && (!is_writer || HOLDS("early_send.c I4", req->done <= req->target.size));
}

bool early_send_is_valid(const struct mbx_ep *ep)
{
    bool is_valid = true;

    for (uint32_t i = 0; i < ep->peer_count; i++)
        if (ep->peers[i] != NULL && ep->peers[i]->early != NULL &&
            !peer_early_is_valid(ep->peers[i]))
            return false;
    valid_each(ep, look_at_writer, &is_valid);
    return is_valid;
}
