/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failure_valid.c - who is gone, and who is told of it: failure.c I1, I2, liveness.c I1.
 */
#include "core/valid.h"

static bool health_is_valid(const struct peer *peer)
{
    return HOLDS("liveness.c I1", !peer->is_gone || peer->is_doubted) &&
           HOLDS("liveness.c I1", !peer->is_dead || peer->is_gone) &&
           HOLDS("liveness.c I1", !peer->is_lost || peer->is_gone);
}

/* Does the list have the dead, each once? */
static bool list_is_valid(const struct mbx_ep *ep, uint32_t dead)
{
    uint32_t number = ep->failure_first;

    if (!HOLDS("failure.c I1", ep->failure_count == dead))
        return false;
    for (uint32_t i = 0; i < dead; i++) {
        if (!HOLDS("failure.c I1", peer_is_used(ep, number)) ||
            !HOLDS("failure.c I1", peer_get(ep, number)->is_dead) ||
            !HOLDS("failure.c I1", (i == dead - 1) == (number == ep->failure_last)))
            return false;
        number = peer_get(ep, number)->next_failed;
    }
    return HOLDS("failure.c I1", dead == 0 || ep->watched_from == 0) &&
           HOLDS("failure.c I2", ep->failure_known <= ep->failure_count);
}

static void count_unnotified(void *arg, void *object)
{
    const struct request *req = object;
    uint32_t *untold = arg;

    *untold += recv_is_from_any(req) && !(req->flags & REQUEST_NOTIFIED);
}

bool failure_is_valid(const struct mbx_ep *ep)
{
    uint32_t dead = 0, untold = 0;

    for (uint32_t i = 0; i < ep->peer_count; i++) {
        if (ep->peers[i] == NULL)
            continue;
        if (!health_is_valid(ep->peers[i]))
            return false;
        dead += ep->peers[i]->is_dead;
    }
    if (!list_is_valid(ep, dead))
        return false;
    valid_each(ep, count_unnotified, &untold);
    return HOLDS("failure.c I2",
                 untold == 0 || ep->is_unnotified || ep->failure_count == ep->failure_known);
}
