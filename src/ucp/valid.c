/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * valid.c - the invariants of a worker: records, endpoints, flushes and active messages.
 */
#include "base/check.h"
#include "ucp/door.h"

/* Long lists are not walked at each call. */
#define WALK_MAX 64

/* Are the first records of this list in this state? */
static bool records_are(const struct list *records, enum ucpx_state state)
{
    const struct list *node;
    unsigned count = 0;

    list_for_each (node, records)
        if (count++ == WALK_MAX ||
            ucpx_state_of(container_of(node, const struct ucpx_record, link)) != state)
            break;
    return node == records || count > WALK_MAX;
}

static bool free_are_empty(const struct list *records)
{
    const struct list *node;
    unsigned count = 0;

    list_for_each (node, records) {
        const struct ucpx_record *record = container_of(node, const struct ucpx_record, link);

        if (record->generic != NULL || record->copy != NULL)
            return false;
        if (++count == WALK_MAX)
            break;
    }
    return true;
}

static bool pool_is_valid(const struct ucp_worker *worker)
{
    return HOLDS("record.c I1", records_are(&worker->pool.free, UCPX_FREE)) &&
           HOLDS("record.c I2", records_are(&worker->ready, UCPX_ENDED)) &&
           HOLDS("record.c I2", records_are(&worker->due, UCPX_ENDED)) &&
           HOLDS("record.c I3", free_are_empty(&worker->pool.free));
}

static bool eps_are_valid(const struct ucp_worker *worker)
{
    const struct list *node;
    uint64_t messages = 0, accesses = 0;

    list_for_each (node, &worker->endpoints) {
        const struct ucp_ep *ep = container_of(node, const struct ucp_ep, link);

        messages += ep->messages;
        accesses += ep->accesses;
        if (!HOLDS("endpoint.c I1", records_are(&ep->open, UCPX_OPEN)) ||
            !HOLDS("endpoint.c I3", !list_is_linked(&ep->failed_link) || ep->reports_errors))
            return false;
    }
    return HOLDS("endpoint.c I2", messages == worker->messages) &&
           HOLDS("endpoint.c I2", accesses == worker->accesses) &&
           HOLDS("flush.c I1", records_are(&worker->flushes, UCPX_OPEN));
}

/* How many slots of this state the list has; UINT_MAX: there is another one in it. */
static unsigned slots_of(const struct list *slots, enum ucpx_slot_state state,
                         enum ucpx_slot_state or_else)
{
    const struct list *node;
    unsigned count = 0;

    list_for_each (node, slots) {
        const struct ucpx_slot *slot = container_of(node, const struct ucpx_slot, link);

        if (slot->state != state && slot->state != or_else)
            return UINT32_MAX;
        count++;
    }
    return count;
}

static bool has(const struct list *slots, enum ucpx_slot_state state,
                enum ucpx_slot_state or_else)
{
    return slots_of(slots, state, or_else) != UINT32_MAX;
}

/* Is the message here whose turn it is? */
static bool has_its_turn(const struct ucpx_peer *peer)
{
    const struct list *first = list_first(&peer->waiting);

    return first != NULL &&
           ucpx_am_distance(container_of(first, const struct ucpx_slot, link)) == 0;
}

/* While a handler runs, messages that have waited are still in the list. */
static bool waiting_is_valid(const struct ucp_worker *worker)
{
    bool may_wait = worker->depth != 0 || worker->am.may_resume;
    uint32_t crowds = 0, directed = 0;

    for (uint32_t i = 0; i < worker->peer_count; i++) {
        const struct ucpx_peer *peer = &worker->peers[i];

        if (!HOLDS("am.c I3", may_wait || ucpx_peer_is_ahead(peer) || !has_its_turn(peer)) ||
            !HOLDS("am.c I4", slots_of(&peer->waiting, UCPX_SLOT_WAITING, UCPX_SLOT_WAITING) ==
                                  peer->waiting_count))
            return false;
        crowds += peer->waiting_count >= UCPX_WAITING_MAX;
        directed += peer->directed != NULL;
        if (!HOLDS("am.c I5", peer->directed == NULL ||
                                  (peer->directed->is_directed && peer->directed->peer == i &&
                                   peer->directed->state == UCPX_SLOT_POSTED)))
            return false;
    }
    return HOLDS("am.c I4", crowds == worker->am.crowds) &&
           HOLDS("am.c I5", directed == worker->am.directed);
}

static bool am_is_valid(const struct ucp_worker *worker)
{
    const struct ucpx_am *am = &worker->am;

    if (!waiting_is_valid(worker))
        return false;
    return HOLDS("am.c I1", has(&am->arrived, UCPX_SLOT_ARRIVED, UCPX_SLOT_ARRIVED)) &&
           HOLDS("am.c I2",
                 slots_of(&am->kept, UCPX_SLOT_KEPT, UCPX_SLOT_ANNOUNCED) == am->kept_count) &&
           HOLDS("am.c I1", has(&am->collecting, UCPX_SLOT_WAITING, UCPX_SLOT_WAITING)) &&
           HOLDS("am.c I2",
                 slots_of(&am->posted, UCPX_SLOT_POSTED, UCPX_SLOT_POSTED) == am->posted_count);
}

bool ucpx_worker_is_valid(const struct ucp_worker *worker)
{
    return pool_is_valid(worker) && eps_are_valid(worker) && am_is_valid(worker);
}
