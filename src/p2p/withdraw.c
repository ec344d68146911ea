/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * withdraw.c - cancels a send that no receive has matched.
 *
 *   sender                                      receiver
 *   wait-fin   ── WITHDRAW ─────────────────>   does the message wait in the unexpected queue (drop.c)?
 *              <─────────── FIN, withdrawn ──   yes: it is dropped, as mbx_discard() does
 *   cancelled                                   no: a receive or a matched probe has it, and its FIN
 *                                                   or CTS is on its way, or will be
 *
 * The receiver alone decides, so a message is received or withdrawn, never both.  The WITHDRAW leaves after
 * all packets of its message.  A short message that is not synchronous is complete when it has
 * left, and is not cancelled; one that waits at its sender is removed there (backlog.c).
 *
 * A message to a receiver whose adapter matches is not cancelled either, since the adapter
 * generates the answers.
 */
#include "core/core.h"
#include "p2p/p2p.h"

#include <errno.h>

int withdraw_send(struct mbx_ep *ep, struct request *req)
{
    const struct proto *proto = proto_of(ep, req);

    if (!request_is_send(req))
        return -EOPNOTSUPP;
    if (req->state == REQUEST_COMPLETE)
        return req->completion.error == -ECANCELED ? -ECANCELED : -EALREADY;
    if (req->flags & REQUEST_WITHDRAWN)
        return -EINPROGRESS;
    return proto->cancel != NULL ? proto->cancel(ep, req) : -EALREADY;
}

int withdraw_ask(struct mbx_ep *ep, struct request *req)
{
    struct peer *peer = peer_get(ep, req->peer);

    if (peer->link->transport->limits.data_max != 0)
        return -EALREADY;
    req->flags |= REQUEST_WITHDRAWN | REQUEST_WITHDRAWS;
    outq_owe_now(ep, peer, OWES_WITHDRAW);
    return 0;
}

struct withdrawals {
    struct mbx_ep *ep;
    struct peer *peer;
    int err;
};

static int withdraw_notify(const struct withdrawals *all, struct request *req)
{
    const struct wire_withdraw body = {.sender = req->completion.request};
    int err = outq_notify(all->ep, all->peer, WIRE_WITHDRAW, &body);

    if (err == 0)
        req->flags &= (uint32_t)~REQUEST_WITHDRAWS;
    return err;
}

/* For each request: sends its WITHDRAW if it is due. */
static void withdraw_one(void *arg, void *object)
{
    struct withdrawals *all = arg;
    struct request *req = object;

    if (!(req->flags & REQUEST_WITHDRAWS) || req->peer != all->peer->number)
        return;
    if (req->state == EAGER_SENDING || req->state == RNDV_RTS)
        all->err = -EAGAIN; /* it leaves after its message */
    else if (req->state != EAGER_WAIT_FIN && req->state != RNDV_WAIT_FIN)
        req->flags &= (uint32_t)~REQUEST_WITHDRAWS; /* the message is received */
    else if (all->err == 0)
        all->err = withdraw_notify(all, req);
}

/* As transport_ops.send. */
static int withdraw_leaves(struct mbx_ep *ep, struct peer *peer)
{
    struct withdrawals all = {.ep = ep, .peer = peer};

    pool_for_each(&ep->requests.pool, withdraw_one, &all);
    return all.err;
}

int withdraw_done(struct mbx_ep *ep, struct request *req)
{
    if (!(req->flags & REQUEST_WITHDRAWN) ||
        (req->state != EAGER_WAIT_FIN && req->state != RNDV_WAIT_FIN))
        return -EPROTO;
    request_complete(ep, req, -ECANCELED);
    return 0;
}

const struct module withdraw_module = {
    .name = "withdraw",
    .controls =
        (const struct control[]){
            {.what = OWES_WITHDRAW, .send = withdraw_leaves, .is_behind = true}, {0}},
};
