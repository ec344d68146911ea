/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * words.c - the words of a segment: the processor swaps and loads them, for peers and for us.
 *
 * Every operation is done when the call returns, so no cookie is ever reported.
 */
#include "transport/atomics.h"

#include "transport/shm/shm.h"

static int cswap(_Atomic uint64_t *words, uint64_t index, uint64_t expected, uint64_t desired,
                 uint64_t *found)
{
    if (index >= SEGMENT_WORDS + SEGMENT_TABLE)
        return -EINVAL;
    *found = expected;
    /* release: what the winner has written before; acquire: what the loser reads after it */
    atomic_compare_exchange_strong_explicit(&words[index], found, desired, memory_order_acq_rel,
                                            memory_order_acquire);
    return 0;
}

static int shm_cswap(struct link *l, uint64_t index, uint64_t expected, uint64_t desired,
                     uint64_t *found, uint64_t cookie)
{
    struct shm_link *link = link_of(l);
    int err = link_attach_all(link);

    (void)cookie;
    return err != 0 ? err : cswap(link->remote->file->words, index, expected, desired, found);
}

static int shm_cswap_local(struct transport *t, uint64_t index, uint64_t expected,
                           uint64_t desired, uint64_t *found)
{
    return cswap(shm_of(t)->own->file->words, index, expected, desired, found);
}

static bool has_words(uint64_t index, size_t count)
{
    const uint64_t all = SEGMENT_WORDS + SEGMENT_TABLE;

    return index <= all && count <= all - index;
}

static int shm_load(struct link *l, uint64_t index, uint64_t *words, size_t count)
{
    struct shm_link *link = link_of(l);
    int err = link_attach_all(link);

    if (err != 0)
        return err;
    if (!has_words(index, count))
        return -EINVAL;
    for (size_t i = 0; i < count; i++) /* pairs with the release in shm_store() */
        words[i] =
            atomic_load_explicit(&link->remote->file->words[index + i], memory_order_acquire);
    return 0;
}

static int shm_store(struct transport *t, uint64_t index, const uint64_t *words, size_t count)
{
    _Atomic uint64_t *own = shm_of(t)->own->file->words;

    if (!has_words(index, count))
        return -EINVAL;
    for (size_t i = 0; i < count; i++) /* pairs with the acquire in shm_load() */
        atomic_store_explicit(&own[index + i], words[i], memory_order_release);
    return 0;
}

const struct transport_atomics shm_atomics = {
    .cswap = shm_cswap,
    .cswap_local = shm_cswap_local,
    .load = shm_load,
    .store = shm_store,
};
