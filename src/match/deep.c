/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deep.c - the classes of long queues: made when a mask is first used, given to another
 * mask when nothing of theirs is queued and all are taken.
 */
#include "match/deep.h"

#include <stdalign.h>
#include <string.h>

#include "base/mem.h"

/* A table or node array beyond this is freed when its queue has become short. */
#define KEEP_BYTES ((size_t)1 << 20)

/* The next number of a sequence that starts anywhere (splitmix64). */
static uint64_t scatter(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

struct mbx_match_deep *deep_make(struct mbx_match *m)
{
    uint64_t state = m->options.seed;

    m->deep = mem_alloc_aligned(alignof(struct mbx_match_deep), sizeof *m->deep);
    if (m->deep == NULL)
        return NULL;
    memset(m->deep, 0, sizeof *m->deep);
    m->deep->seeds[0] = scatter(&state);
    m->deep->seeds[1] = scatter(&state);
    m->deep->print_mask = UINT64_MAX >> (64 - m->options.hash_bits);
    link_make_head(&m->deep->overflow);
    return m->deep;
}

void deep_destroy(struct mbx_match *m)
{
    if (m->deep == NULL)
        return;
    for (uint32_t i = 0; i < m->deep->class_count; i++) {
        table_clear(&m->deep->classes[i].posted);
        table_clear(&m->deep->classes[i].index);
    }
    mem_free(m->deep->nodes);
    mem_free(m->deep);
    m->deep = NULL;
}

static size_t table_bytes(const struct table *t)
{
    return (size_t)t->size * sizeof *t->buckets;
}

static void trim_table(struct table *t)
{
    if (t->heads == 0 && table_bytes(t) > KEEP_BYTES)
        table_clear(t);
}

void deep_trim(struct mbx_match *m)
{
    struct mbx_match_deep *deep = m->deep;

    if (deep == NULL)
        return;
    for (uint32_t i = 0; i < deep->class_count; i++) {
        trim_table(&deep->classes[i].posted);
        trim_table(&deep->classes[i].index);
    }
    if (!m->msgs_long && deep->node_room * sizeof *deep->nodes > KEEP_BYTES) {
        mem_free(deep->nodes);
        deep->nodes = NULL;
        deep->node_room = deep->node_count = deep->node_free = 0;
    }
}

/* A class that nothing queued needs, or CLASS_NONE. */
static uint32_t idle_class(const struct mbx_match_deep *deep)
{
    for (uint32_t i = 0; i < deep->class_count; i++)
        if (deep->classes[i].recvs == 0 && deep->classes[i].msgs == 0)
            return i;
    return CLASS_NONE;
}

/* The age below which messages count as indexed in a class that has none yet. */
static uint64_t oldest_age(const struct mbx_match *m)
{
    return m->msgs.next != &m->msgs ? msg_of(m->msgs.next)->seq : m->next_seq;
}

static uint32_t make_class(struct mbx_match *m, struct match_mask mask)
{
    struct mbx_match_deep *deep = m->deep;
    uint32_t i =
        deep->class_count < m->options.classes ? deep->class_count++ : idle_class(deep);

    if (i == CLASS_NONE)
        return i;
    table_clear(&deep->classes[i].posted);
    table_clear(&deep->classes[i].index);
    deep->masks[i] = mask;
    deep->classes[i].indexed = oldest_age(m);
    return i;
}

uint32_t deep_find_class(struct mbx_match *m, struct match_mask mask)
{
    struct mbx_match_deep *deep = m->deep;
    uint32_t i = 0;

    while (i < deep->class_count && !mask_is(&deep->masks[i], mask))
        i++;
    if (unlikely(i == deep->class_count))
        i = make_class(m, mask);
    if (i != CLASS_NONE)
        deep->class_last = i;
    return i;
}

size_t deep_memory(const struct mbx_match *m)
{
    const struct mbx_match_deep *deep = m->deep;
    size_t bytes = 0;

    if (deep == NULL)
        return 0;
    for (uint32_t i = 0; i < deep->class_count; i++)
        bytes += table_bytes(&deep->classes[i].posted) + table_bytes(&deep->classes[i].index);
    return bytes + sizeof *deep + deep->node_room * sizeof *deep->nodes;
}
