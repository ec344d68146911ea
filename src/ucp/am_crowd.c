/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am_crowd.c - active messages of the other peers, while messages of one peer wait.
 *
 *   usually                                 receives from any source are posted
 *   a peer has UCPX_WAITING_MAX that wait   none is posted any more, and messages are asked for, of each peer that has less
 *
 * Receives from any source would also take what that peer sends next, until it has all buffers.  Once the posted ones are
 * used up, its messages stay unexpected messages of the library, which bounds them for each peer, and its sender waits.
 *
 * A peer that is first heard of meanwhile waits too: nobody can ask for its messages.  And no thread sleeps, because
 * nothing would wake it for a message that the library has and no receive takes.
 */
#include "ucp/am.h"

#include "base/log.h"
#include "ucp/door.h"

void ucpx_am_wait(struct ucp_worker *worker, struct ucpx_peer *peer, struct ucpx_slot *slot)
{
    slot->state = UCPX_SLOT_WAITING;
    list_add_tail(&peer->waiting, &slot->link);
    if (++peer->waiting_count == UCPX_WAITING_MAX)
        worker->am.crowds++;
}

struct ucpx_slot *ucpx_am_next(struct ucp_worker *worker, struct ucpx_peer *peer)
{
    struct list *node = list_pop_head(&peer->waiting);

    if (node == NULL)
        return NULL;
    if (peer->waiting_count-- == UCPX_WAITING_MAX)
        worker->am.crowds--;
    return container_of(node, struct ucpx_slot, link);
}

/* The next message of a peer.  False: there is none, and the buffer stays the caller's. */
static bool take(struct ucp_worker *worker, uint32_t number, struct ucpx_slot *slot)
{
    struct mbx_status status;
    mbx_message message;

    if (worker->peers[number].waiting_count >= UCPX_WAITING_MAX ||
        mbx_mprobe(worker->mbx, number, UCPX_ID_MESSAGES, 0, MBX_IGNORE_ALL, &status,
                   &message) != 1)
        return false;
    if (ucpx_slot_receive(slot, message))
        return true;
    (void)mbx_discard(worker->mbx, message);
    LOG_ERROR("libucp: no memory to receive an active message of peer %u; it was dropped",
              number);
    return false;
}

void ucpx_am_ask(struct ucp_worker *worker)
{
    struct ucpx_slot *slot = NULL;

    for (uint32_t number = 0; number < worker->peers_known; number++) {
        if (slot == NULL && ucpx_am_has_room(&worker->am))
            slot = ucpx_slot_make(worker, UCPX_AM_SHORT);
        if (slot == NULL)
            return;
        if (take(worker, number, slot))
            slot = NULL;
    }
    ucpx_slot_free(slot);
}
