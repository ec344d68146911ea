/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_valid.c - what waits to leave for a peer, and who is known: core.h I2, I6; peer.c.
 */
#include "core/valid.h"

#include "core/core.h"

struct waiting {
    uint32_t out, leaving, fins;
};

static bool request_waits(const struct peer *peer, const struct request *req,
                          struct waiting *waiting)
{
    bool is_leaving = (req->flags & REQUEST_LEAVING) != 0;
    bool owes_fin = (req->flags & REQUEST_OWES_FIN) != 0;

    waiting->out++;
    waiting->leaving += is_leaving;
    waiting->fins += owes_fin;
    return HOLDS("core.h I1", req->peer == peer->number) &&
           HOLDS("core.h I3", !is_leaving || request_is_send(req));
}

static bool out_is_valid(const struct peer *peer, uint32_t *all)
{
    struct waiting waiting = {0};
    struct list *node;

    list_for_each (node, &peer->outq.list)
        if (!request_waits(peer, request_of_out(node), &waiting))
            return false;
    *all += waiting.out;
    return HOLDS("core.h I2",
                 (waiting.out == 0 && peer->owes == 0) || list_is_linked(&peer->outq.busy)) &&
           HOLDS("core.h I3", peer->outq.leaving == waiting.leaving) &&
           HOLDS("credit.h I3", peer->outq.fins == waiting.fins);
}

static void count_out(void *arg, void *object)
{
    const struct request *req = object;
    uint32_t *linked = arg;

    *linked += list_is_linked(&req->out);
}

/* Does each entry of busy belong to a used peer, and is DUE_MOVE set if there are any? */
static bool busy_is_valid(const struct mbx_ep *ep)
{
    const bool is_due = (ep->progress.due & DUE_MOVE) != 0;
    struct list *node;

    list_for_each (node, &ep->progress.busy) {
        const struct peer *peer = container_of(node, struct peer, outq.busy);

        if (!HOLDS("core.h I2", peer_is_used(ep, peer->number)) ||
            !HOLDS("core.h I2", peer_get(ep, peer->number) == peer))
            return false;
    }
    return HOLDS("core.h I6", is_due || list_is_empty(&ep->progress.busy)) &&
           HOLDS("core.h I6", is_due || list_is_empty(&ep->progress.active)) &&
           HOLDS("core.h I6", is_due || list_is_empty(&ep->progress.works));
}

static const struct hash_kind numbers = {.size = sizeof(uint32_t)};

/* Is each number either in the index once, or free? */
static bool peer_index_is_valid(const struct mbx_ep *ep)
{
    uint32_t used = ep->peers.free_count, number;
    size_t position = 0;
    uint64_t sum = 0, count = ep->peers.count;

    for (uint32_t i = 0; i < ep->peers.free_count; i++) {
        sum += ep->peers.free[i] + 1;
        if (!HOLDS("peer.c I3", ep->peers.free[i] < count) ||
            !HOLDS("peer.c I3", peer_is_free(ep, ep->peers.free[i])) ||
            !HOLDS("peer.c I1", ep->peers.all[ep->peers.free[i]] == NULL))
            return false;
    }
    while ((number = hash_number(hash_next(&ep->peers.index, &numbers, &position))) != 0) {
        used++;
        sum += number;
        if (!HOLDS("peer.c I3", number <= count))
            return false;
    }
    return HOLDS("peer.c I3", used == count) &&
           HOLDS("peer.c I3", sum == count * (count + 1) / 2);
}

bool peer_is_valid(const struct mbx_ep *ep)
{
    uint32_t out = 0, linked = 0;

    if (!HOLDS("peer.c I3", ep->peers.count <= ep->peers.slots) || !peer_index_is_valid(ep))
        return false;
    for (uint32_t i = 0; i < ep->peers.count; i++) {
        const struct peer *peer = ep->peers.all[i];

        if (peer == NULL)
            continue;
        if (!HOLDS("peer.c I1", peer->number == i) || !HOLDS("peer.c I1", peer->link != NULL) ||
            !out_is_valid(peer, &out))
            return false;
    }
    valid_each(ep, count_out, &linked);
    return HOLDS("core.h I1", out == linked) && busy_is_valid(ep);
}
