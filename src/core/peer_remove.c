/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_remove.c - frees the number of a peer that has closed.
 *
 *   the transport   the other endpoint has closed, and all its packets were delivered: no other
 *                   packet can arrive (transport_ops.is_over)
 *   requests        no request is to it, from it, or names it
 *   modules         no module has state of it (module.peer_refers): an unexpected message, a
 *                   part of a message, deferred sends, advertised receives, accesses
 *
 * If all three hold, neither this endpoint nor a packet refers to the number, and the next peer
 * with this number cannot be mistaken for the old one.  The objects that a packet names are
 * found through the link on which it arrived: the next peer of this number has another link.
 *
 * A peer that has died keeps its number: mbx_failed() names it.
 */
#include "core/core.h"
#include "core/lockword.h"
#include "core/module.h"

struct reference {
    const struct mbx_ep *ep;
    uint32_t number;
    bool is_found;
};

/* The meaning of a field depends on the state of the request; a field without a meaning now can
 * at worst look like a reference. */
static void visit_request(void *arg, void *object)
{
    struct reference *reference = arg;
    const struct request *req = object;
    uint32_t number = reference->number;

    reference->is_found |= req->peer == number || req->completion.status.source == number;
    if (req->completion.kind == MBX_RECVS)
        reference->is_found |= req->match.envelope.source == number;
    if (recv_is_open(req))
        reference->is_found |= lockword_owner_seen(reference->ep, req->open.word) == number;
}

static bool peer_remove_is_wanted(struct mbx_ep *ep, uint32_t number)
{
    struct reference reference = {.ep = ep, .number = number};

    pool_for_each(&ep->requests.pool, visit_request, &reference);
    return reference.is_found;
}

static bool is_owed(const struct peer *peer)
{
    return !list_is_empty(&peer->outq.list) || list_is_linked(&peer->outq.busy);
}

static int remove_used(struct mbx_ep *ep, struct peer *peer)
{
    const struct transport_ops *ops = peer->link->transport->ops;

    if (ops->is_over == NULL)
        return -EOPNOTSUPP;
    if (peer->health.is_dead || !ops->is_over(peer->link) || is_owed(peer))
        return -EBUSY;
    liveness_leave(ep, peer);
    if (!peer->health.is_gone || is_owed(peer) || module_peer_refers(ep, peer))
        return -EBUSY;
    return peer_forget(ep, peer->number);
}

static int remove_locked(struct mbx_ep *ep, uint32_t number)
{
    if (number >= ep->peers.count || peer_is_free(ep, number))
        return -EINVAL;
    if (ep->recording.checked != NULL || !ep_matches_here(ep))
        return -EOPNOTSUPP;
    if (peer_remove_is_wanted(ep, number))
        return -EBUSY;
    return peer_is_used(ep, number) ? remove_used(ep, peer_get(ep, number))
                                    : peer_forget(ep, number);
}

int mbx_peer_remove(struct mbx_ep *ep, uint32_t number)
{
    int err;

    ep_lock(ep);
    err = remove_locked(ep, number);
    ep_unlock(ep);
    return err != -EINVAL ? err
                          : log_argument("mbx_peer_remove", "peer", number, "no such peer");
}
