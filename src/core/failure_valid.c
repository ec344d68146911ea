/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure_valid.c - peers that are gone, and the receives notified of it: failure.c I1, I2,
 * liveness.c I1.
 */
#include "core/valid.h"

#include "core/core.h"

static bool health_is_valid(const struct peer *peer)
{
    return HOLDS("liveness.c I1", !peer->health.is_gone || peer->health.is_doubted) &&
           HOLDS("liveness.c I1", !peer->health.is_dead || peer->health.is_gone) &&
           HOLDS("liveness.c I1", !peer->health.is_lost || peer->health.is_gone);
}

/* Does the list contain each dead peer exactly once? */
static bool list_is_valid(const struct mbx_ep *ep, uint32_t dead)
{
    uint32_t number = ep->failures.first;

    if (!HOLDS("failure.c I1", ep->failures.count == dead))
        return false;
    for (uint32_t i = 0; i < dead; i++) {
        if (!HOLDS("failure.c I1", peer_is_used(ep, number)) ||
            !HOLDS("failure.c I1", peer_get(ep, number)->health.is_dead) ||
            !HOLDS("failure.c I1", (i == dead - 1) == (number == ep->failures.last)))
            return false;
        number = peer_get(ep, number)->health.next_failed;
    }
    return HOLDS("failure.c I1", dead == 0 || ep->modules.watched_from == 0) &&
           HOLDS("failure.c I2", ep->failures.known <= ep->failures.count);
}

static void count_unnotified(void *arg, void *object)
{
    const struct request *req = object;
    uint32_t *unnotified = arg;

    *unnotified += recv_is_from_any(req) && !(req->flags & REQUEST_NOTIFIED);
}

bool failure_is_valid(const struct mbx_ep *ep)
{
    uint32_t dead = 0, unnotified = 0;

    for (uint32_t i = 0; i < ep->peers.count; i++) {
        if (ep->peers.all[i] == NULL)
            continue;
        if (!health_is_valid(ep->peers.all[i]))
            return false;
        dead += ep->peers.all[i]->health.is_dead;
    }
    if (!list_is_valid(ep, dead))
        return false;
    valid_each(ep, count_unnotified, &unnotified);
    return HOLDS("failure.c I2", unnotified == 0 || ep->failures.is_unnotified ||
                                     ep->failures.count == ep->failures.known);
}
