/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receiver_valid.c - checks the receiver's half of matching at the sender: receiver.c I1 to I5.
 */
#include "defer/receiver.h"
#include "core/core.h"

static bool open_is_valid(const struct receiver *receiver, uint64_t posted)
{
    uint64_t last = 0, count = 0;
    struct list *node;

    list_for_each (node, &receiver->open) {
        const struct request *req = request_of_queue(node);

        if (!HOLDS("receiver.c I1", recv_is_open(req)) ||
            !HOLDS("receiver.c I1", req->open.number > last))
            return false;
        last = req->open.number;
        count++;
    }
    return HOLDS("receiver.c I1", last <= receiver->numbered) &&
           HOLDS("receiver.c I1", count == posted);
}

static bool next_is_valid(const struct receiver *receiver, const struct deferrer *deferrer)
{
    const struct list *node = &receiver->open;

    do
        if (node == deferrer->next)
            return true;
    while ((node = node->next) != &receiver->open);
    return HOLDS("receiver.c I2", node == deferrer->next);
}

/* Would an open receive match the message that the deferring peer has named? */
static bool answer_is_wanted(const struct receiver *receiver, const struct deferrer *deferrer)
{
    const struct mbx_match_envelope envelope = {deferrer->status.context_id,
                                                deferrer->status.source, deferrer->status.tag};
    struct list *node;

    list_for_each (node, &receiver->open) {
        const struct mbx_match_recv *recv = &request_of_queue(node)->match;

        if (mbx_match_accepts(&recv->envelope, recv->ignore, &envelope))
            return true;
    }
    return false;
}

static bool deferrer_is_valid(const struct receiver *receiver, const struct peer *peer)
{
    const struct deferrer *deferrer = peer->deferrer;

    return HOLDS("receiver.c I4", deferrer->peer == peer) &&
           HOLDS("receiver.c I4",
                 peer_defer(peer)->defers == list_is_linked(&deferrer->node)) &&
           HOLDS("receiver.c I3", deferrer->answer_count <= BACKLOG_CLAIMS + 1) &&
           HOLDS("receiver.c I5", !deferrer->is_asked || !deferrer->is_answered) &&
           HOLDS("receiver.c I5",
                 peer_defer(peer)->defers || !(deferrer->is_asked || deferrer->is_answered)) &&
           HOLDS("receiver.c I5",
                 !deferrer->is_answered || !answer_is_wanted(receiver, deferrer)) &&
           HOLDS("receiver.c I2",
                 !peer_defer(peer)->defers || deferrer->live <= deferrer->capacity) &&
           (!peer_defer(peer)->defers || next_is_valid(receiver, deferrer));
}

bool receiver_is_valid(const struct mbx_ep *ep)
{
    const struct receiver *receiver = ep_defer(ep)->receiver;
    uint32_t deferrers = 0;

    for (uint32_t i = 0; i < ep->peers.count; i++) {
        if (ep->peers.all[i] == NULL || ep->peers.all[i]->deferrer == NULL)
            continue;
        if (!HOLDS("receiver.c I4", receiver != NULL) ||
            !deferrer_is_valid(receiver, ep->peers.all[i]))
            return false;
        deferrers += peer_defer(ep->peers.all[i])->defers;
    }
    if (receiver == NULL)
        return true;
    return HOLDS("receiver.c I4", valid_length(&receiver->deferrers) == deferrers) &&
           HOLDS("receiver.c I7", deferrers == 0 || receiver->is_open) &&
           HOLDS("receiver.c I1", !receiver->is_open || ep->modules.watched_from == 0) &&
           open_is_valid(receiver, receiver->is_open ? ep->stats.posted_now : 0);
}
