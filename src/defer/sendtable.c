/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sendtable.c - the sender's half of sendtable.h: allocates, writes and shuts tables.
 *
 * Appending writes a few words.  A table is rewritten when half of its entries are gone and
 * there are more sends to show, so rewriting costs two entries for each message that was
 * pulled.
 */
#include "defer/sendtable.h"

#include "defer/backlog.h"
#include "p2p/p2p.h"
#include "transport/atomics.h"

#define GENERATION(version) ((version) & (SENDTABLE_BUSY - 1))

/* ---- given out and back ---- */

static struct sendtables *sendtables_make(struct mbx_ep *ep)
{
    const struct transport_limits *limits = &ep->net.transport->limits;
    struct sendtables *sendtables = mem_calloc(1, sizeof *sendtables);

    if (sendtables == NULL)
        return NULL;
    sendtables->count =
        (uint32_t)min_size(limits->table_words / SENDTABLE_WORDS, SENDTABLES_MOST);
    for (uint32_t i = 0; i < sendtables->count; i++)
        sendtables->sendtables[i].index = limits->cswap_words + i * (uint64_t)SENDTABLE_WORDS;
    return ep_defer(ep)->tables = sendtables;
}

static void sendtable_put(struct mbx_ep *ep, uint64_t index, const uint64_t *words,
                          size_t count)
{
    transport_store(ep->net.transport, index, words, count);
}

/* Writes a new version with these flags: SENDTABLE_BUSY or 0, and taken bits. */
static void put_version(struct mbx_ep *ep, struct sendtable *sendtable, uint64_t flags)
{
    sendtable->version = GENERATION(sendtable->version + 1) | flags;
    sendtable_put(ep, sendtable->index + SENDTABLE_VERSION, &sendtable->version, 1);
}

struct sendtable *sendtable_get(struct mbx_ep *ep, const struct peer *peer, struct list *sends)
{
    if (!ep->settings.tuning.sendtable || peer->link->transport != ep->net.transport ||
        (ep_defer(ep)->tables == NULL && sendtables_make(ep) == NULL))
        return NULL;
    for (uint32_t i = 0; i < ep_defer(ep)->tables->count; i++) {
        struct sendtable *sendtable = &ep_defer(ep)->tables->sendtables[i];

        if (sendtable->is_used)
            continue;
        sendtable->is_used = true;
        sendtable->is_all = false;
        sendtable->count = sendtable->gone = 0;
        sendtable->next = sends->next;
        put_version(ep, sendtable, SENDTABLE_BUSY);
        return sendtable;
    }
    return NULL;
}

void sendtable_give(struct mbx_ep *ep, struct sendtable *sendtable)
{
    put_version(ep, sendtable, SENDTABLE_BUSY);
    sendtable->is_open = sendtable->is_used = false;
}

void sendtable_close(struct mbx_ep *ep)
{
    for (uint32_t i = 0; ep_defer(ep)->tables != NULL && i < ep_defer(ep)->tables->count; i++)
        if (ep_defer(ep)->tables->sendtables[i].is_used)
            sendtable_give(ep, &ep_defer(ep)->tables->sendtables[i]);
}

void sendtable_fini(struct mbx_ep *ep)
{
    mem_free(ep_defer(ep)->tables);
}

/* ---- shut ---- */

/* Can a receiver have changed our version to `found`? */
static bool is_plausible(const struct sendtable *sendtable, uint64_t found)
{
    uint64_t all = sendtable->count == SENDTABLE_ENTRIES
                       ? UINT32_MAX
                       : (UINT64_C(1) << sendtable->count) - 1;

    return (uint32_t)found == (uint32_t)sendtable->version &&
           (sendtable_pulled(found) & sendtable_pulled(sendtable->version)) ==
               sendtable_pulled(sendtable->version) &&
           (sendtable_pulled(found) & ~sendtable_pulled(sendtable->version) &
            (~all | sendtable->claimed)) == 0;
}

int sendtable_shut(struct mbx_ep *ep, struct sendtable *sendtable, uint32_t *taken)
{
    uint64_t left = sendtable->version, found = left;
    int tries = 0;

    *taken = 0;
    if (!sendtable->is_open)
        return 0;
    do {
        sendtable->version = found;
        transport_cswap_local(ep->net.transport, sendtable->index + SENDTABLE_VERSION, found,
                              found | SENDTABLE_BUSY, &found);
    } while (found != sendtable->version && is_plausible(sendtable, found) &&
             tries++ < SENDTABLE_ENTRIES);
    sendtable->is_open = false;
    if (found != sendtable->version) {
        sendtable->version = left;
        return -EPROTO;
    }
    *taken = sendtable_pulled(found) & ~sendtable_pulled(left);
    sendtable->gone |= *taken;
    return 0;
}

/* ---- shown ---- */

void sendtable_forget(struct sendtable *sendtable, const struct request *req)
{
    if (sendtable->next == &req->queue) {
        sendtable->next = req->queue.next;
        return;
    }
    for (uint32_t i = 0; i < sendtable->count; i++)
        if (sendtable->entries[i] == req)
            sendtable->gone |= UINT32_C(1) << i;
}

/* Are half of the entries gone, and could they be used? */
static bool is_worn(const struct sendtable *sendtable, const struct list *sends)
{
    uint32_t live = sendtable->count - (uint32_t)__builtin_popcount(sendtable->gone);

    return sendtable->next != sends && sendtable->count == SENDTABLE_ENTRIES &&
           live <= SENDTABLE_ENTRIES / 2;
}

bool sendtable_is_due(const struct sendtable *sendtable, const struct list *sends)
{
    return sendtable->next != sends &&
           (sendtable->count < SENDTABLE_ENTRIES || sendtable->is_all);
}

static void sendtable_add(struct mbx_ep *ep, const struct peer *peer,
                          struct sendtable *sendtable, struct request *req)
{
    const struct mbx_status *status = &req->completion.status;
    uint64_t words[SENDTABLE_ENTRY] = {
        [SENDTABLE_CONTEXT] = status->context_id,
        [SENDTABLE_TAG] = status->tag,
        [SENDTABLE_DATA] = status->data,
        [SENDTABLE_SIZE] = req->size,
        [SENDTABLE_SENDER] = req->completion.request,
    };

    bool is_inside = req->size <= SENDTABLE_INLINE && !request_is_in_pieces(req);
    size_t inside = is_inside ? req->size : 0;

    if (is_inside)
        words[SENDTABLE_CONTEXT] |= UINT64_C(1) << 32;
    if (inside != 0)
        memcpy(&words[SENDTABLE_INSIDE], req->buf, inside);
    if (!sendtable_is_short(req))
        rndv_expose_undecided(peer, req, &words[SENDTABLE_ADDRESS], &words[SENDTABLE_KEY]);
    sendtable_put(ep, sendtable_at(sendtable->index, sendtable->count), words,
                  SENDTABLE_INSIDE + (inside + sizeof words[0] - 1) / sizeof words[0]);
    sendtable->entries[sendtable->count++] = req;
    sendtable->next = req->queue.next;
}

/* The live entries, as bits, whose send has an unresolved claim. */
static uint32_t claimed_of(const struct sendtable *sendtable)
{
    uint32_t claimed = 0;

    for (uint32_t i = 0; i < sendtable->count; i++)
        if (!(sendtable->gone & UINT32_C(1) << i) &&
            sendtable->entries[i]->state != BACKLOG_DEFERRED)
            claimed |= UINT32_C(1) << i;
    return claimed;
}

void sendtable_publish(struct mbx_ep *ep, const struct peer *peer, struct sendtable *sendtable,
                       struct list *sends, uint64_t epoch)
{
    uint64_t head[SENDTABLE_CLAIMED] = {epoch};

    assert(sendtable->is_used && !sendtable->is_open);
    if (is_worn(sendtable, sends)) {
        sendtable->count = sendtable->gone = 0;
        sendtable->next = sends->next;
    }
    while (sendtable->count < SENDTABLE_ENTRIES && sendtable->next != sends)
        sendtable_add(ep, peer, sendtable, request_of_queue(sendtable->next));
    sendtable->is_all = sendtable->next == sends;
    head[1] = sendtable->count | (sendtable->is_all ? SENDTABLE_ALL : 0);
    sendtable->claimed = claimed_of(sendtable);
    head[2] = sendtable->claimed;
    sendtable_put(ep, sendtable->index + SENDTABLE_EPOCH, head, ARRAY_COUNT(head));
    if (sendtable->is_known && sendtable->count != 0)
        tracepoint_step(ep, TRACE_PUBLISH, peer, &(struct mbx_match_envelope){0}, 0, epoch,
                        sendtable->count);
    put_version(ep, sendtable, (uint64_t)sendtable->gone << 32);
    sendtable->is_open = sendtable->is_known = true;
}
