/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ages.c - the age of requests and of kept messages.
 *
 * Ages cost sends and receives nothing: a request contains no time.  Periodic checks (hang.c,
 * while a request waits, and each answer to an observer) note for each place of a pool which
 * object was seen there, and when it was seen first:
 *
 *   requests  [0] id, ns   [1] id, ns   ...     by the index of the pool's place
 *
 * An object with another id than the noted one is new: it was added after the last check.  So
 * an age may be too small by the time between two checks, but never too large.  A check covers
 * at most PLACES_EACH_CHECK places; a larger pool is covered by several checks in turn.
 */
#include "base/array.h"
#include "core/core.h"
#include "lib/inspect.h"

#define PLACES_EACH_CHECK 16384u

static void ages_note(struct inspect_ages *ages, const struct pool *pool, uint64_t now_ns)
{
    uint32_t places = pool->slot_count, live = pool_live(pool);

    if (live == 0)
        return;
    if (!array_reserve_zeroed(ages->seen, ages->places, places))
        return; /* an object without a note has no age */
    if (places <= PLACES_EACH_CHECK)
        ages->next = 0;
    for (uint32_t i = 0; live != 0 && i < places && i < PLACES_EACH_CHECK; i++) {
        uint32_t at = ages->next < places ? ages->next : 0;
        uint64_t id = pool_slot_at(pool, at)->id;

        ages->next = at + 1;
        if ((id & pool->live_bit) == 0)
            continue;
        live--;
        if (ages->seen[at].id != id)
            ages->seen[at] = (struct inspect_age){id, now_ns};
    }
}

void ages_update(struct mbx_ep *ep, uint64_t now_ns)
{
    ages_note(&ep_inspect(ep)->requests, &ep->requests.pool, now_ns);
    ages_note(&ep_inspect(ep)->messages, &ep->messages, now_ns);
    ep_inspect(ep)->checked_ns = now_ns;
}

void ages_close(struct mbx_ep *ep)
{
    mem_free(ep_inspect(ep)->requests.seen);
    mem_free(ep_inspect(ep)->messages.seen);
    ep_inspect(ep)->requests = ep_inspect(ep)->messages = (struct inspect_ages){.places = 0};
}
