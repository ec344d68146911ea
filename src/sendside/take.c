/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * take.c - the receiver's half of offer.h: looking into a table of another process, and taking.
 *
 * What is there is another's memory: each word is read once and checked where it is used.  A
 * sender that lies about its table deceives itself: it says which of its messages come first,
 * and where their bytes are, and could send the same by itself.
 */
#include "sendside/take.h"
#include "transport/atomics.h"

static int look(const struct peer *peer, uint64_t index, uint64_t *words, size_t count)
{
    return transport_load(peer->link, index, words, count);
}

/* Does the entry with these first words suit? */
static bool fits(const uint64_t *words, const struct mbx_match_envelope *envelope,
                 uint64_t ignore)
{
    const struct mbx_match_envelope message = {(uint32_t)words[OFFER_CONTEXT], envelope->source,
                                               words[OFFER_TAG]};

    return mbx_match_accepts(envelope, ignore, &message);
}

/* What was read, as if it had come by itself.  0; -EAGAIN: there is no such message, for now;
 * or as transport_load(). */
static int unpack(const struct peer *peer, const struct take_table *table,
                  const uint64_t *words, struct take *take)
{
    uint64_t size = words[OFFER_SIZE], at = offer_at(table->index, take->entry);
    bool is_inside = words[OFFER_CONTEXT] >> 32 != 0;

    if (words[OFFER_SENDER] == 0 || (is_inside && size > OFFER_INLINE))
        return -EAGAIN;
    take->rts =
        (struct wire_rts){words[OFFER_SENDER], size, words[OFFER_ADDRESS], words[OFFER_KEY]};
    take->arrival = (struct arrival){
        .envelope = {(uint32_t)words[OFFER_CONTEXT], peer->number, words[OFFER_TAG]},
        .data = words[OFFER_DATA],
        .size = size,
        .payload = (const char *)take->payload,
        .have = is_inside ? size : 0,
        .sender = words[OFFER_SENDER],
        .rts = is_inside ? NULL : &take->rts,
    };
    return is_inside ? look(peer, at + OFFER_INSIDE, take->payload,
                            (size + sizeof words[0] - 1) / sizeof words[0])
                     : 0;
}

/* The sender waits for an answer to its claim, which it has got. */
static bool is_granted(const struct take_table *table, uint64_t sender)
{
    for (size_t i = 0; i < ARRAY_COUNT(table->granted); i++)
        if (table->granted[i] == sender)
            return true;
    return false;
}

static int find_in(const struct peer *peer, const struct take_table *table,
                   const uint64_t *head, const struct mbx_match_envelope *envelope,
                   uint64_t ignore, struct take *take)
{
    uint64_t words[OFFER_INSIDE];
    int err = 0;

    for (uint32_t i = 0; i < (uint32_t)head[OFFER_COUNT] && err == 0; i++) {
        if (take->version & offer_bit(i))
            continue;
        err = look(peer, offer_at(table->index, i), words, OFFER_TAG + 1);
        if (err != 0 || !fits(words, envelope, ignore))
            continue;
        take->entry = i;
        err = look(peer, offer_at(table->index, i), words, OFFER_INSIDE);
        if (err == 0 && (head[OFFER_CLAIMED] >> i & 1) != 0) {
            if (is_granted(table, words[OFFER_SENDER]))
                continue;
            return -EAGAIN;
        }
        if (err == 0)
            err = fits(words, envelope, ignore) ? unpack(peer, table, words, take) : -EAGAIN;
        if (err == 0)
            return 1;
    }
    return err;
}

int take_find(const struct peer *peer, const struct take_table *table,
              const struct mbx_match_envelope *envelope, uint64_t ignore, struct take *take)
{
    uint64_t head[OFFER_CLAIMED + 1];
    int err;

    if (table->index == 0)
        return -EAGAIN;
    err = look(peer, table->index, head, ARRAY_COUNT(head));
    if (err != 0)
        return err;
    take->version = head[OFFER_VERSION];
    if ((take->version & OFFER_BUSY) != 0 || head[OFFER_EPOCH] != table->epoch ||
        (uint32_t)head[OFFER_COUNT] > OFFER_ENTRIES)
        return -EAGAIN;
    err = find_in(peer, table, head, envelope, ignore, take);
    if (err != 0)
        return err;
    return (head[OFFER_COUNT] & OFFER_ALL) != 0 && take_is_there(peer, table, take) ? 0
                                                                                    : -EAGAIN;
}

/* Exchanges the version that was seen for this one. */
static bool exchange(const struct peer *peer, const struct take_table *table,
                     const struct take *take, uint64_t version)
{
    uint64_t found;

    return transport_cswap(peer->link, table->index + OFFER_VERSION, take->version, version,
                           &found, 0) == 0 &&
           found == take->version;
}

bool take_have(const struct peer *peer, const struct take_table *table, const struct take *take)
{
    return exchange(peer, table, take, take->version | offer_bit(take->entry));
}

bool take_is_there(const struct peer *peer, const struct take_table *table,
                   const struct take *take)
{
    return exchange(peer, table, take, take->version);
}
