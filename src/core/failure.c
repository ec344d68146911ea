/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure.c - peers that have died, and receives from any source, which might have matched a
 * message of theirs.
 *
 *   liveness.c finds peer 3 dead ──> failure_add ──> failed: 7 - 5 - 3     in the order found
 *                                     │          known:  7             (mbx_failed_ack)
 *                                     v
 *               every open receive from any source is unnotified again
 *                                     │
 *                   mbx_wait, mbx_test, or mbx_poll(MBX_FAILURES): notified
 *
 * A notification only changes a flag of the receive, so the receive can still be matched or
 * cancelled.  An unread report costs no memory: there is no entry, only receives that have not
 * been notified, which are searched for when the user polls.
 *
 * Invariants
 *   I1  a peer is on the list if and only if it is_dead, and it never leaves
 *   I2  an open receive from any source is notified, or is_unnotified is set, or no peer has
 *       died since the last acknowledgement
 */
#include "core/core.h"

void failure_add(struct mbx_ep *ep, struct peer *peer)
{
    assert(peer->health.is_dead);
    if (ep->failures.count == 0)
        ep->failures.first = peer->number;
    else
        peer_get(ep, ep->failures.last)->health.next_failed = peer->number;
    ep->failures.last = peer->number;
    ep->failures.count++;
    module_watch(ep, 0); /* so that recv.c calls failure_unnotified() for receives that are
                            posted from now on */
}

void failure_unnotified(struct mbx_ep *ep, struct request *req)
{
    req->flags &= (uint32_t)~REQUEST_NOTIFIED;
    ep->failures.is_unnotified = true;
    wait_wake(ep);
    progress_has_entry(ep);
}

int failure_notify(struct request *req)
{
    req->flags |= REQUEST_NOTIFIED;
    return -EHOSTDOWN;
}

/* ---- as entries ---- */

struct unnotified {
    const struct mbx_ep *ep;
    struct mbx_completion *entries; /* or NULL: only count */
    int capacity, count;            /* count includes receives for which there is no space */
};

void failure_entry(const struct mbx_ep *ep, struct request *req, struct mbx_completion *entry)
{
    *entry = (struct mbx_completion){
        .request = req->completion.request,
        .user = req->completion.user,
        .error = failure_notify(req),
        .kind = MBX_FAILURES,
        .status =
            {
                .context_id = req->match.envelope.context_id,
                .source = ep->failures.last,
                .tag = req->match.envelope.tag,
            },
    };
}

static void unnotified_visit(void *arg, void *object)
{
    struct unnotified *unnotified = arg;
    struct request *req = object;

    if (!failure_concerns(unnotified->ep, req))
        return;
    if (unnotified->count < unnotified->capacity)
        failure_entry(unnotified->ep, req, &unnotified->entries[unnotified->count]);
    unnotified->count++;
}

int failure_poll(struct mbx_ep *ep, struct mbx_completion *entries, int count)
{
    struct unnotified unnotified = {.ep = ep, .entries = entries, .capacity = count};

    if (likely(!ep->failures.is_unnotified) || count <= 0)
        return 0;
    pool_for_each(&ep->requests.pool, unnotified_visit, &unnotified);
    ep->failures.is_unnotified = unnotified.count > count;
    return unnotified.count < count ? unnotified.count : count;
}

bool failure_any(struct mbx_ep *ep)
{
    struct unnotified unnotified = {.ep = ep};

    if (likely(!ep->failures.is_unnotified))
        return false;
    pool_for_each(&ep->requests.pool, unnotified_visit, &unnotified);
    ep->failures.is_unnotified = unnotified.count != 0;
    return unnotified.count != 0;
}

/* ---- calls ---- */

int mbx_failed(const struct mbx_ep *ep, uint32_t *peers, int count)
{
    uint32_t number;
    int all;

    ep_lock(ep);
    all = (int)ep->failures.count;
    number = ep->failures.first;
    for (int i = 0; i < all && i < count; i++) {
        peers[i] = number;
        number = peer_get(ep, number)->health.next_failed;
    }
    ep_unlock_unchanged(ep);
    return all;
}

int mbx_failed_ack(struct mbx_ep *ep)
{
    int known;

    ep_lock(ep);
    ep->failures.known = ep->failures.count;
    ep->failures.is_unnotified = false;
    known = (int)ep->failures.known;
    ep_unlock(ep);
    return known;
}
