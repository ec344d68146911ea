/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * am_crowd.c - active messages of the other peers, while messages of one peer wait.
 *
 *   usually                                 receives from any source are posted
 *   a peer has UCPX_WAITING_MAX that wait   no more of these are posted, but one for each peer that has less
 *
 * Receives from any source would also take what that peer sends next, until it has all buffers.  Once the posted ones are
 * used up, its messages stay unexpected messages of the library, which bounds them for each peer, and its sender waits.
 *
 * A peer that is first heard of meanwhile waits too: it has no receive.  The client may sleep when each of the others has
 * one, or when all buffers are used: then nothing can be done before something arrives, or the client gives data back.
 */
#include "ucp/am.h"

#include "ucp/door.h"

static uint16_t distance_of(const struct list *node)
{
    return ucpx_am_distance(container_of(node, const struct ucpx_slot, link));
}

/* They wait in the order of their numbers. */
bool ucpx_am_wait(struct ucp_worker *worker, struct ucpx_peer *peer, struct ucpx_slot *slot)
{
    uint16_t distance = ucpx_am_distance(slot);
    struct list *before = &peer->waiting;

    while (before->prev != &peer->waiting && distance_of(before->prev) > distance)
        before = before->prev;
    if (distance >= UCPX_AHEAD_MAX ||
        (before->prev != &peer->waiting && distance_of(before->prev) == distance))
        return false;
    slot->state = UCPX_SLOT_WAITING;
    list_add_tail(before, &slot->link);
    if (++peer->waiting_count == UCPX_WAITING_MAX) {
        worker->am.crowds++;
        worker->am.lacks = true;
    }
    return true;
}

struct ucpx_slot *ucpx_am_next(struct ucp_worker *worker, struct ucpx_peer *peer)
{
    struct list *node = list_first(&peer->waiting);

    if (node == NULL || distance_of(node) != 0)
        return NULL;
    list_remove(node);
    if (peer->waiting_count-- == UCPX_WAITING_MAX)
        worker->am.crowds--;
    return container_of(node, struct ucpx_slot, link);
}

/* A peer that is gone sends nothing. */
static bool needs_one(const struct ucpx_peer *peer)
{
    return peer->directed == NULL && peer->waiting_count < UCPX_WAITING_MAX &&
           !peer->is_loss_said;
}

/* Posts one.  False: memory is short. */
static bool direct(struct ucp_worker *worker, uint32_t number)
{
    struct ucpx_slot *slot = ucpx_slot_make(worker, UCPX_AM_SHORT);

    if (slot == NULL)
        return false;
    if (ucpx_slot_direct(slot, number))
        return true;
    ucpx_slot_free(slot);
    return false;
}

void ucpx_am_direct(struct ucp_worker *worker)
{
    bool lacks = false;

    worker->am.lacks = false;
    for (uint32_t number = 0; number < worker->peers_known; number++) {
        if (!needs_one(&worker->peers[number]))
            continue;
        if (!ucpx_am_has_room(&worker->am))
            break;
        lacks |= !direct(worker, number);
    }
    worker->am.lacks |= lacks;
}

/* A receive that has matched is completed as usual. */
void ucpx_am_call_off(struct ucp_worker *worker)
{
    for (uint32_t number = 0; number < worker->peers_known; number++) {
        const struct ucpx_slot *slot = worker->peers[number].directed;

        if (slot != NULL)
            (void)mbx_cancel(worker->mbx, slot->request);
    }
}
