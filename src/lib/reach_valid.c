/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reach_valid.c - the receiver's half of matching at the sender: reach.c I1 to I5.
 */
#include "lib/across.h"

#include "offload/offload.h"
#include "sendside/reach.h"
#include "core/valid.h"

static bool open_is_valid(const struct reach *reach, uint64_t posted)
{
    uint64_t last = 0, count = 0;
    struct list *node;

    list_for_each (node, &reach->open) {
        const struct request *req = request_of_queue(node);

        if (!HOLDS("reach.c I1", recv_is_open(req)) || !HOLDS("reach.c I1", req->remote > last))
            return false;
        last = req->remote;
        count++;
    }
    return HOLDS("reach.c I1", last <= reach->numbered) && HOLDS("reach.c I1", count == posted);
}

static bool next_is_valid(const struct reach *reach, const struct holder *holder)
{
    const struct list *node = &reach->open;

    do
        if (node == holder->next)
            return true;
    while ((node = node->next) != &reach->open);
    return HOLDS("reach.c I2", node == holder->next);
}

/* Would an open receive take what the holder has said that it holds? */
static bool answer_is_wanted(const struct reach *reach, const struct holder *holder)
{
    const struct mbx_match_envelope envelope = {holder->status.context_id,
                                                holder->status.source, holder->status.tag};
    struct list *node;

    list_for_each (node, &reach->open) {
        const struct mbx_match_recv *recv = &request_of_queue(node)->match;

        if (mbx_match_accepts(&recv->envelope, recv->ignore, &envelope))
            return true;
    }
    return false;
}

static bool holder_is_valid(const struct reach *reach, const struct peer *peer)
{
    const struct holder *holder = peer->holder;

    return HOLDS("reach.c I4", holder->peer == peer) &&
           HOLDS("reach.c I4", peer->holds == list_is_linked(&holder->node)) &&
           HOLDS("reach.c I3", holder->answer_count <= HOLD_CLAIMS + 1) &&
           HOLDS("reach.c I5", !holder->is_asked || !holder->is_answered) &&
           HOLDS("reach.c I5", peer->holds || !(holder->is_asked || holder->is_answered)) &&
           HOLDS("reach.c I5", !holder->is_answered || !answer_is_wanted(reach, holder)) &&
           HOLDS("reach.c I2", !peer->holds || holder->live <= holder->room) &&
           (!peer->holds || next_is_valid(reach, holder));
}

bool reach_is_valid(const struct mbx_ep *ep)
{
    const struct reach *reach = ep->reach;
    uint32_t holders = 0;

    for (uint32_t i = 0; i < ep->peer_count; i++) {
        if (ep->peers[i] == NULL || ep->peers[i]->holder == NULL)
            continue;
        if (!HOLDS("reach.c I4", reach != NULL) || !holder_is_valid(reach, ep->peers[i]))
            return false;
        holders += ep->peers[i]->holds;
    }
    if (reach == NULL)
        return true;
    return HOLDS("reach.c I4", valid_length(&reach->holders) == holders) &&
           HOLDS("reach.c I1", ep->watched_from == 0) &&
           open_is_valid(reach, ep->stats.posted_now) &&
           HOLDS("reach.c I6",
                 ep->offload == NULL || ep->offload->shadow.is_recalled == (holders != 0));
}
