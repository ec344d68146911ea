/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advert_valid.c - checks advertised receives: advert_recv.c I1 to I3, advert_send.c I1, I3 to
 * I5; split_copy.c I3.
 */
#include "p2p/p2p.h"
#include "advert/advert.h"
#include "core/core.h"

/* ---- as a receiver ---- */

struct count {
    const struct mbx_ep *ep;
    uint32_t announced, shared;
    bool is_valid;
};

/* Does the sender know all earlier receives that a message for req could match? */
static bool those_before_are_advertised(const struct mbx_ep *ep, const struct request *req)
{
    const struct context *context = context_find(ep, req->match.envelope.context_id);
    const struct mbx_match_recv *other = NULL;

    while ((other = mbx_match_next_recv(&context->match, other)) != &req->match) {
        const struct request *earlier = container_of(other, struct request, match);

        if (!HOLDS("advert_recv.c I3", other != NULL))
            return false;
        if (!advert_overlap(&other->envelope, other->ignore, &req->match.envelope,
                            req->match.ignore))
            continue;
        if (!HOLDS("advert_recv.c I3", (earlier->flags & REQUEST_ADVERTISED) != 0) ||
            !HOLDS("advert_recv.c I3", earlier->announced.number < req->announced.number))
            return false;
    }
    return true;
}

static bool advertised_is_valid(const struct mbx_ep *ep, const struct request *req)
{
    bool is_open = recv_is_open(req);

    return HOLDS("advert_recv.c I1", !request_is_send(req)) &&
           HOLDS("advert_recv.c I1", is_open || req->state == ADVERT_FILLING) &&
           HOLDS("advert_recv.c I1", (req->open.word != 0) == is_open) &&
           HOLDS("advert_recv.c I2", peer_get(ep, req->peer)->advert != NULL) &&
           (!is_open || those_before_are_advertised(ep, req));
}

static void check_announced(void *arg, void *object)
{
    struct count *count = arg;
    const struct request *req = object;

    if (!count->is_valid)
        return;
    if (!(req->flags & REQUEST_ADVERTISED))
        return;
    if (PROTO_OF(req->state) == PROTO_SPLIT_COPY) {
        count->shared++;
        return;
    }
    count->announced++;
    count->is_valid = advertised_is_valid(count->ep, req);
}

bool advert_recv_is_valid(const struct mbx_ep *ep)
{
    struct count count = {.ep = ep, .is_valid = true};
    uint32_t announced = 0;

    for (uint32_t i = 0; i < ep->peers.count; i++) {
        if (ep->peers.all[i] == NULL || ep->peers.all[i]->advert == NULL)
            continue;
        if (!HOLDS("advert_recv.c I2", ep->peers.all[i]->advert->announced <= ADVERT_MOST))
            return false;
        announced += ep->peers.all[i]->advert->announced;
    }
    valid_each(ep, check_announced, &count);
    return count.is_valid && HOLDS("advert_recv.c I2", count.announced == announced) &&
           HOLDS("advert_recv.c I2",
                 count.announced + count.shared == ep_advert(ep)->announced);
}

/* ---- as a sender ---- */

static bool rtrs_are_valid(const struct advert *advert)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < advert->count; i++) {
        if (!HOLDS("advert_send.c I3", advert->rtrs[i].number > last))
            return false;
        last = advert->rtrs[i].number;
    }
    return HOLDS("advert_send.c I3", last <= advert->last) &&
           HOLDS("advert_send.c I3", advert->forgotten <= advert->last);
}

static bool peer_advert_is_valid(const struct peer *peer)
{
    const struct advert *advert = peer->advert;
    bool is_deferred = peer_defer(peer)->is_deferred;

    return HOLDS("advert_send.c I3", advert->count <= ADVERT_MOST) && rtrs_are_valid(advert) &&
           HOLDS("advert_send.c I1", advert->count == 0 || peer_credit(peer)->envelopes == 0) &&
           HOLDS("advert_send.c I1", advert->count == 0 || !is_deferred) &&
           HOLDS("advert_send.c I1", advert->envelopes == 0 || !is_deferred);
}

static bool writer_is_valid(const struct request *req)
{
    bool is_direct = req->protocol == MBX_RNDV_WRITE;
    bool is_stopped = req->state == ADVERT_WRITE_STOPPED || req->state == ADVERT_STOPPED ||
                      (req->state == ADVERT_WRITTEN && req->done < req->end);

    return HOLDS("advert_send.c I4", req->done <= req->end) &&
           HOLDS("advert_send.c I4", req->end <= req->target.size) &&
           HOLDS("advert_send.c I4", !is_stopped || req->done < req->end) &&
           HOLDS("advert_send.c I5", !is_stopped || !is_direct) &&
           HOLDS("split_copy.c I3", is_stopped || is_direct || req->state >= ADVERT_WRITING);
}

static void check_writer(void *arg, void *object)
{
    bool *is_valid = arg;
    const struct request *req = object;

    if (*is_valid && PROTO_OF(req->state) == PROTO_ADVERT_SEND)
        *is_valid = writer_is_valid(req);
}

bool advert_send_is_valid(const struct mbx_ep *ep)
{
    bool is_valid = true;

    for (uint32_t i = 0; i < ep->peers.count; i++)
        if (ep->peers.all[i] != NULL && ep->peers.all[i]->advert != NULL &&
            !peer_advert_is_valid(ep->peers.all[i]))
            return false;
    valid_each(ep, check_writer, &is_valid);
    return is_valid;
}
