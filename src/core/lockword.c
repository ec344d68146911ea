/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lockword.c - words that decide which sender wins a receive; lockword.h.
 *
 * Only the endpoint opens its words, and only through the transport's cswap, as the senders do:
 * so both sides use the same kind of atomic operation.
 *
 * Invariants
 *   I1  a word is free, or named by one receive: by open.word of a posted one, or by
 *       split_copy.word of one in SPLIT_COPY
 *   I2  `last` of a named word is OPEN, in the generation of the name
 */
#include "core/lockword.h"

#include "core/core.h"
#include "transport/atomics.h"

static uint32_t word_generation(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static enum word_state word_state_of(uint64_t word)
{
    return (enum word_state)((word >> OWNER_BITS) & 0xff);
}

static uint32_t name_index(uint64_t name)
{
    return (uint32_t)name - 1;
}

int lockword_init(struct mbx_ep *ep)
{
    uint32_t count = ep->net.transport->limits.cswap_words;
    struct lockwords *lockwords;

    bool is_wanted = ep->settings.match_at == MATCH_AT_SENDER ||
                     ep->settings.tuning.advert != TUNING_OFF ||
                     ep->settings.tuning.split_copy != TUNING_OFF;

    if (!is_wanted || count == 0)
        return 0;
    lockwords = mem_calloc(1, sizeof *lockwords + count * sizeof lockwords->last[0]);
    if (lockwords == NULL)
        return -ENOMEM;
    lockwords->free = mem_calloc(count, sizeof *lockwords->free);
    if (lockwords->free == NULL) {
        mem_free(lockwords);
        return -ENOMEM;
    }
    lockwords->count = count;
    while (lockwords->free_count < count) {
        lockwords->free[lockwords->free_count] = count - 1 - lockwords->free_count;
        lockwords->free_count++;
    }
    ep->lockwords = lockwords;
    return 0;
}

void lockword_fini(struct mbx_ep *ep)
{
    if (ep->lockwords == NULL)
        return;
    mem_free(ep->lockwords->free);
    mem_free(ep->lockwords);
}

/* Compares and swaps one of our words.  True: it had the expected value. */
static bool exchange(const struct mbx_ep *ep, uint32_t index, uint64_t expected,
                     uint64_t desired, uint64_t *found)
{
    *found = 0;
    return transport_cswap_local(ep->net.transport, index, expected, desired, found) == 0 &&
           *found == expected;
}

void lockword_open(struct mbx_ep *ep, uint64_t *name)
{
    struct lockwords *lockwords = ep->lockwords;
    uint32_t index, generation;
    uint64_t found;

    *name = 0;
    if (lockwords == NULL || lockwords->free_count == 0)
        return;
    index = lockwords->free[lockwords->free_count - 1];
    generation = word_generation(lockwords->last[index]) + 1;
    if (!exchange(ep, index, lockwords->last[index], lockword_make(generation, WORD_OPEN, 0),
                  &found)) {
        lockwords->last[index] = found; /* a peer has corrupted the word; it is tried again at
                                           another time */
        return;
    }
    lockwords->free_count--;
    lockwords->last[index] = lockword_make(generation, WORD_OPEN, 0);
    *name = (uint64_t)generation << 32 | (index + 1);
}

/* Frees the word of this name, which holds `value`. */
static void lockword_give_back(struct lockwords *lockwords, uint64_t *name, uint64_t value)
{
    uint32_t index = name_index(*name);

    assert(index < lockwords->count);
    assert(lockwords->free_count < lockwords->count);
    lockwords->last[index] = value;
    lockwords->free[lockwords->free_count++] = index;
    *name = 0;
}

/* Does this value show that a sender has taken the word of this name by the rules? */
static bool is_taken(const struct mbx_ep *ep, uint64_t name, uint32_t heir, uint64_t found)
{
    uint32_t owner = (uint32_t)found & OWNER_MAX;

    return word_generation(found) == (uint32_t)(name >> 32) &&
           word_state_of(found) == WORD_TAKEN &&
           (heir == MBX_ANY_SOURCE ? owner < ep->peers.count : owner == heir);
}

bool lockword_close(struct mbx_ep *ep, uint64_t *name, uint32_t heir)
{
    uint64_t closed, found;

    if (*name == 0)
        return true;
    closed = lockword_make((uint32_t)(*name >> 32), WORD_CLOSED, 0);
    if (!exchange(ep, name_index(*name), ep->lockwords->last[name_index(*name)], closed,
                  &found)) {
        if (is_taken(ep, *name, heir, found))
            return false;
        closed = found; /* a peer has corrupted the word: no sender has won it */
    }
    lockword_give_back(ep->lockwords, name, closed);
    return true;
}

void lockword_abandon(struct mbx_ep *ep, uint64_t *name)
{
    uint64_t found;

    assert(*name != 0);
    exchange(ep, name_index(*name), 0, 0, &found);
    lockword_give_back(ep->lockwords, name, found);
}

bool lockword_give(struct mbx_ep *ep, uint64_t *name, const struct peer *peer, bool has_won)
{
    uint32_t generation = (uint32_t)(*name >> 32);
    uint64_t taken, found;

    if (*name == 0)
        return !has_won;
    taken = lockword_make(generation, WORD_TAKEN, peer->number);
    /* a sender that reports no win may only have failed to learn of it */
    if (has_won ? !exchange(ep, name_index(*name), taken, taken, &found)
                : !exchange(ep, name_index(*name), ep->lockwords->last[name_index(*name)],
                            taken, &found) &&
                      found != taken)
        return false;
    lockword_give_back(ep->lockwords, name, taken);
    return true;
}

/* The sender that has taken a word with this value. */
static uint32_t owner_in(uint64_t word)
{
    return word_state_of(word) == WORD_TAKEN ? (uint32_t)word & OWNER_MAX : MBX_ANY_SOURCE;
}

uint32_t lockword_owner(const struct mbx_ep *ep, uint64_t name)
{
    uint64_t found;

    if (name == 0)
        return MBX_ANY_SOURCE;
    exchange(ep, name_index(name), 0, 0, &found);
    return owner_in(found);
}

uint32_t lockword_owner_seen(const struct mbx_ep *ep, uint64_t name)
{
    uint64_t found;

    if (name == 0)
        return MBX_ANY_SOURCE;
    if (transport_load_local(ep->net.transport, name_index(name), &found) != 0)
        return MBX_ANY_SOURCE;
    return owner_in(found);
}

int lockword_take(const struct peer *peer, uint64_t name, uint64_t owner_id, uint64_t cookie)
{
    uint32_t generation = (uint32_t)(name >> 32);
    uint64_t expected = lockword_make(generation, WORD_OPEN, 0), found;
    int err;

    if ((uint32_t)name == 0 || owner_id > OWNER_MAX)
        return -EINVAL;
    err = transport_cswap(peer->link, name_index(name), expected,
                          lockword_make(generation, WORD_TAKEN, (uint32_t)owner_id), &found,
                          cookie);
    if (err != 0)
        return err;
    return found == expected ? 0 : -EALREADY;
}
