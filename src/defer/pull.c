/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull.c - the receiver's half of sendtable.h: reads the table of another process, and pulls
 * messages.
 *
 * The table is memory of another process: each word is read once and checked where it is used.
 * A sender with a wrong table harms only itself: the table has the order of its messages and
 * the place of their bytes, and it could send the same messages directly.
 */
#include "defer/pull.h"
#include "transport/atomics.h"

static int pull_read(const struct peer *peer, uint64_t index, uint64_t *words, size_t count)
{
    return transport_load(peer->link, index, words, count);
}

/* Does the entry with these first words match? */
static bool fits(const uint64_t *words, const struct mbx_match_envelope *envelope,
                 uint64_t ignore)
{
    const struct mbx_match_envelope message = {(uint32_t)words[SENDTABLE_CONTEXT],
                                               envelope->source, words[SENDTABLE_TAG]};

    return mbx_match_accepts(envelope, ignore, &message);
}

/* Makes an arrival of the words that were read.  0; -EAGAIN: there is no such message, for now;
 * or as transport_load(). */
static int unpack(const struct peer *peer, const struct pull_table *table,
                  const uint64_t *words, struct pull *pull)
{
    uint64_t size = words[SENDTABLE_SIZE], at = sendtable_at(table->index, pull->entry);
    bool is_inside = words[SENDTABLE_CONTEXT] >> 32 != 0;

    if (words[SENDTABLE_SENDER] == 0 || (is_inside && size > SENDTABLE_INLINE))
        return -EAGAIN;
    pull->rts = (struct wire_rts){words[SENDTABLE_SENDER], size, words[SENDTABLE_ADDRESS],
                                  words[SENDTABLE_KEY]};
    pull->arrival = (struct arrival){
        .envelope = {(uint32_t)words[SENDTABLE_CONTEXT], peer->number, words[SENDTABLE_TAG]},
        .data = words[SENDTABLE_DATA],
        .size = size,
        .payload = (const char *)pull->payload,
        .have = is_inside ? size : 0,
        .sender = words[SENDTABLE_SENDER],
        .rts = is_inside ? NULL : &pull->rts,
    };
    return is_inside ? pull_read(peer, at + SENDTABLE_INSIDE, pull->payload,
                                 (size + sizeof words[0] - 1) / sizeof words[0])
                     : 0;
}

/* Does the sender wait for the answer to a claim that was granted? */
static bool is_granted(const struct pull_table *table, uint64_t sender)
{
    for (size_t i = 0; i < ARRAY_COUNT(table->granted); i++)
        if (table->granted[i] == sender)
            return true;
    return false;
}

static int find_in(const struct peer *peer, const struct pull_table *table,
                   const uint64_t *head, const struct mbx_match_envelope *envelope,
                   uint64_t ignore, struct pull *pull)
{
    uint64_t words[SENDTABLE_INSIDE];
    int err = 0;

    for (uint32_t i = 0; i < (uint32_t)head[SENDTABLE_COUNT] && err == 0; i++) {
        if (pull->version & sendtable_bit(i))
            continue;
        err = pull_read(peer, sendtable_at(table->index, i), words, SENDTABLE_TAG + 1);
        if (err != 0 || !fits(words, envelope, ignore))
            continue;
        pull->entry = i;
        err = pull_read(peer, sendtable_at(table->index, i), words, SENDTABLE_INSIDE);
        if (err == 0 && (head[SENDTABLE_CLAIMED] >> i & 1) != 0) {
            if (is_granted(table, words[SENDTABLE_SENDER]))
                continue;
            return -EAGAIN;
        }
        if (err == 0)
            err = fits(words, envelope, ignore) ? unpack(peer, table, words, pull) : -EAGAIN;
        if (err == 0)
            return 1;
    }
    return err;
}

int pull_find(const struct peer *peer, const struct pull_table *table,
              const struct mbx_match_envelope *envelope, uint64_t ignore, struct pull *pull)
{
    uint64_t head[SENDTABLE_CLAIMED + 1];
    int err;

    if (table->index == 0)
        return -EAGAIN;
    err = pull_read(peer, table->index, head, ARRAY_COUNT(head));
    if (err != 0)
        return err;
    pull->version = head[SENDTABLE_VERSION];
    if ((pull->version & SENDTABLE_BUSY) != 0 || head[SENDTABLE_EPOCH] != table->epoch ||
        (uint32_t)head[SENDTABLE_COUNT] > SENDTABLE_ENTRIES)
        return -EAGAIN;
    err = find_in(peer, table, head, envelope, ignore, pull);
    if (err != 0)
        return err;
    return (head[SENDTABLE_COUNT] & SENDTABLE_ALL) != 0 && pull_is_there(peer, table, pull)
               ? 0
               : -EAGAIN;
}

/* Swaps the version that was seen for this one. */
static bool exchange(const struct peer *peer, const struct pull_table *table,
                     const struct pull *pull, uint64_t version)
{
    uint64_t found;

    return transport_cswap(peer->link, table->index + SENDTABLE_VERSION, pull->version, version,
                           &found, 0) == 0 &&
           found == pull->version;
}

bool pull_commit(const struct peer *peer, const struct pull_table *table,
                 const struct pull *pull)
{
    return exchange(peer, table, pull, pull->version | sendtable_bit(pull->entry));
}

bool pull_is_there(const struct peer *peer, const struct pull_table *table,
                   const struct pull *pull)
{
    return exchange(peer, table, pull, pull->version);
}
