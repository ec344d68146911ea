/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failed_valid.c - who is gone, and who is told of it: failed.c I1, I2, watch.c I1.
 */
#include "core/valid.h"

static bool health_is_valid(const struct peer *peer)
{
    return HOLDS("watch.c I1", !peer->is_gone || peer->is_doubted) &&
           HOLDS("watch.c I1", !peer->is_dead || peer->is_gone) &&
           HOLDS("watch.c I1", !peer->is_lost || peer->is_gone);
}

/* Does the list have the dead, each once? */
static bool list_is_valid(const struct mbx_ep *ep, uint32_t dead)
{
    uint32_t number = ep->failed_first;

    if (!HOLDS("failed.c I1", ep->failed_count == dead))
        return false;
    for (uint32_t i = 0; i < dead; i++) {
        if (!HOLDS("failed.c I1", peer_is_used(ep, number)) ||
            !HOLDS("failed.c I1", peer_get(ep, number)->is_dead) ||
            !HOLDS("failed.c I1", (i == dead - 1) == (number == ep->failed_last)))
            return false;
        number = peer_get(ep, number)->next_failed;
    }
    return HOLDS("failed.c I1", dead == 0 || ep->watched_from == 0) &&
           HOLDS("failed.c I2", ep->failed_known <= ep->failed_count);
}

static void count_untold(void *arg, void *object)
{
    const struct request *req = object;
    uint32_t *untold = arg;

    *untold += recv_is_from_any(req) && !(req->flags & REQUEST_TOLD);
}

bool failed_is_valid(const struct mbx_ep *ep)
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
    valid_each(ep, count_untold, &untold);
    return HOLDS("failed.c I2",
                 untold == 0 || ep->is_untold || ep->failed_count == ep->failed_known);
}
