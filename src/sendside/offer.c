/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offer.c - the sender's half of offer.h: tables are given out, written, shut.
 *
 * Appending is a few words; a table is written anew when half of it is gone and there is more
 * to show, so that costs two entries for each message that was taken.
 */
#include "sendside/offer.h"

#include "sendside/hold.h"
#include "p2p/record.h"
#include "transport/atomics.h"

#define GENERATION(version) ((version) & (OFFER_BUSY - 1))

/* ---- given out and back ---- */

static struct offers *offers_make(struct mbx_ep *ep)
{
    const struct transport_limits *limits = &ep->transport->limits;
    struct offers *offers = mem_calloc(1, sizeof *offers);

    if (offers == NULL)
        return NULL;
    offers->count = (uint32_t)min_size(limits->table_words / OFFER_WORDS, OFFERS_MOST);
    for (uint32_t i = 0; i < offers->count; i++)
        offers->offers[i].index = limits->cswap_words + i * (uint64_t)OFFER_WORDS;
    return ep->offers = offers;
}

static void put(struct mbx_ep *ep, uint64_t index, const uint64_t *words, size_t count)
{
    transport_store(ep->transport, index, words, count);
}

/* Leaves the version with these flags: OFFER_BUSY or 0, and taken bits. */
static void put_version(struct mbx_ep *ep, struct offer *offer, uint64_t flags)
{
    offer->version = GENERATION(offer->version + 1) | flags;
    put(ep, offer->index + OFFER_VERSION, &offer->version, 1);
}

struct offer *offer_get(struct mbx_ep *ep, const struct peer *peer, struct list *sends)
{
    if (!ep->settings.hold_take || ep->settings.any_source == ANY_SOURCE_SENDER ||
        peer->link->transport != ep->transport ||
        (ep->offers == NULL && offers_make(ep) == NULL))
        return NULL;
    for (uint32_t i = 0; i < ep->offers->count; i++) {
        struct offer *offer = &ep->offers->offers[i];

        if (offer->is_used)
            continue;
        offer->is_used = true;
        offer->is_all = false;
        offer->count = offer->gone = 0;
        offer->next = sends->next;
        put_version(ep, offer, OFFER_BUSY);
        return offer;
    }
    return NULL;
}

void offer_give(struct mbx_ep *ep, struct offer *offer)
{
    put_version(ep, offer, OFFER_BUSY);
    offer->is_open = offer->is_used = false;
}

void offer_close(struct mbx_ep *ep)
{
    for (uint32_t i = 0; ep->offers != NULL && i < ep->offers->count; i++)
        if (ep->offers->offers[i].is_used)
            offer_give(ep, &ep->offers->offers[i]);
}

void offer_fini(struct mbx_ep *ep)
{
    mem_free(ep->offers);
}

/* ---- shut ---- */

/* May a receiver have made `found` of what we left? */
static bool is_honest(const struct offer *offer, uint64_t found)
{
    uint64_t all =
        offer->count == OFFER_ENTRIES ? UINT32_MAX : (UINT64_C(1) << offer->count) - 1;

    return (uint32_t)found == (uint32_t)offer->version &&
           (offer_taken(found) & offer_taken(offer->version)) == offer_taken(offer->version) &&
           (offer_taken(found) & ~offer_taken(offer->version) & (~all | offer->claimed)) == 0;
}

int offer_shut(struct mbx_ep *ep, struct offer *offer, uint32_t *taken)
{
    uint64_t left = offer->version, found = left;
    int tries = 0;

    *taken = 0;
    if (!offer->is_open)
        return 0;
    do {
        offer->version = found;
        transport_cswap_local(ep->transport, offer->index + OFFER_VERSION, found,
                              found | OFFER_BUSY, &found);
    } while (found != offer->version && is_honest(offer, found) && tries++ < OFFER_ENTRIES);
    offer->is_open = false;
    if (found != offer->version) {
        offer->version = left;
        return -EPROTO;
    }
    *taken = offer_taken(found) & ~offer_taken(left);
    offer->gone |= *taken;
    return 0;
}

/* ---- shown ---- */

void offer_forget(struct offer *offer, const struct request *req)
{
    if (offer->next == &req->queue) {
        offer->next = req->queue.next;
        return;
    }
    for (uint32_t i = 0; i < offer->count; i++)
        if (offer->entries[i] == req)
            offer->gone |= UINT32_C(1) << i;
}

/* Half of it is gone, and could be used. */
static bool is_worn(const struct offer *offer, const struct list *sends)
{
    uint32_t live = offer->count - (uint32_t)__builtin_popcount(offer->gone);

    return offer->next != sends && offer->count == OFFER_ENTRIES && live <= OFFER_ENTRIES / 2;
}

bool offer_is_due(const struct offer *offer, const struct list *sends)
{
    return offer->next != sends && (offer->count < OFFER_ENTRIES || offer->is_all);
}

static void add(struct mbx_ep *ep, const struct peer *peer, struct offer *offer,
                struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    uint64_t words[OFFER_ENTRY] = {
        [OFFER_CONTEXT] = status->context_id,
        [OFFER_TAG] = status->tag,
        [OFFER_DATA] = status->data,
        [OFFER_SIZE] = req->size,
        [OFFER_SENDER] = req->completion.request,
    };

    size_t inside = req->size <= OFFER_INLINE ? req->size : 0;

    if (req->size <= OFFER_INLINE)
        words[OFFER_CONTEXT] |= UINT64_C(1) << 32;
    if (inside != 0)
        memcpy(&words[OFFER_INSIDE], req->buf, inside);
    if (!offer_is_short(req))
        rndv_offer(peer, req, &words[OFFER_ADDRESS], &words[OFFER_KEY]);
    put(ep, offer_at(offer->index, offer->count), words,
        OFFER_INSIDE + (inside + sizeof words[0] - 1) / sizeof words[0]);
    offer->entries[offer->count++] = req;
    offer->next = req->queue.next;
}

/* The live entries, as bits, whose send is not plainly held: a claim of it is not resolved. */
static uint32_t claimed_of(const struct offer *offer)
{
    uint32_t claimed = 0;

    for (uint32_t i = 0; i < offer->count; i++)
        if (!(offer->gone & UINT32_C(1) << i) && offer->entries[i]->state != HOLD_HELD)
            claimed |= UINT32_C(1) << i;
    return claimed;
}

void offer_show(struct mbx_ep *ep, const struct peer *peer, struct offer *offer,
                struct list *sends, uint64_t epoch)
{
    uint64_t head[OFFER_CLAIMED] = {epoch};

    assert(offer->is_used && !offer->is_open);
    if (is_worn(offer, sends)) {
        offer->count = offer->gone = 0;
        offer->next = sends->next;
    }
    while (offer->count < OFFER_ENTRIES && offer->next != sends)
        add(ep, peer, offer, request_of_queue(offer->next));
    offer->is_all = offer->next == sends;
    head[1] = offer->count | (offer->is_all ? OFFER_ALL : 0);
    offer->claimed = claimed_of(offer);
    head[2] = offer->claimed;
    put(ep, offer->index + OFFER_EPOCH, head, ARRAY_COUNT(head));
    if (offer->is_known && offer->count != 0)
        record_step(ep, TRACE_OFFER, peer, &(struct mbx_match_envelope){0}, 0, epoch,
                    offer->count);
    put_version(ep, offer, (uint64_t)offer->gone << 32);
    offer->is_open = offer->is_known = true;
}
