/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deep.c - the classes of long queues: a class is made when a mask is first used.  When no
 * class is left, one without entries is given to another mask.
 */
#include "match/deep.h"

#include <stdalign.h>
#include <string.h>

#include "base/mem.h"

/* A larger table or node array is freed when it is empty. */
#define KEEP_BYTES ((size_t)1 << 20)

#define SPREAD                                                                                 \
    UINT64_C(0x9e3779b97f4a7c15) /* a product has no bit that depends on one factor alone */

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
    m->deep->spread = SPREAD << (64 - m->options.hash_bits);
    link_make_head(&m->deep->overflow);
    for (uint32_t i = 0; i < MBX_MATCH_CLASSES; i++) {
        m->deep->classes[i].number = i;
        table_init(&m->deep->classes[i].posted);
        table_init(&m->deep->classes[i].index);
    }
    m->deep->last = m->deep->primary = &m->deep->classes[0];
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
    return t->limit != 0 ? table_size(t) * sizeof *t->buckets : 0;
}

static bool has_messages(const struct mbx_match_deep *deep)
{
    for (uint32_t i = 0; i < deep->class_count; i++)
        if (!table_is_empty(&deep->classes[i].index))
            return true;
    return false;
}

void deep_trim(struct mbx_match_deep *deep, struct table *t)
{
    if (table_bytes(t) > KEEP_BYTES)
        table_clear(t);
    if (deep->node_capacity * sizeof *deep->nodes > KEEP_BYTES && !has_messages(deep)) {
        mem_free(deep->nodes);
        deep->nodes = NULL;
        deep->node_capacity = deep->node_count = deep->node_free = 0;
    }
}

/* A class without entries, or NULL. */
static struct match_class *idle_class(struct mbx_match_deep *deep)
{
    for (uint32_t i = 0; i < deep->class_count; i++)
        if (table_is_empty(&deep->classes[i].posted) && table_is_empty(&deep->classes[i].index))
            return &deep->classes[i];
    return NULL;
}

/* The value of `indexed` for a class whose index is empty: no message is older. */
static uint64_t oldest_age(const struct mbx_match *m)
{
    return queue_is_empty(&m->msgs) ? m->msgs.next : msg_of(m->msgs.all.next)->seq;
}

static struct match_class *make_class(struct mbx_match *m, struct match_mask mask)
{
    struct mbx_match_deep *deep = m->deep;
    struct match_class *class = deep->class_count < m->options.classes
                                    ? &deep->classes[deep->class_count++]
                                    : idle_class(deep);

    if (class == NULL)
        return NULL;
    table_clear(&class->posted);
    table_clear(&class->index);
    class->mask = mask;
    class->indexed = oldest_age(m);
    return class;
}

struct match_class *deep_find_class(struct mbx_match *m, struct match_mask mask)
{
    struct mbx_match_deep *deep = m->deep;
    struct match_class *class = NULL;

    for (uint32_t i = 0; i < deep->class_count && class == NULL; i++)
        if (mask_is(&deep->classes[i].mask, mask))
            class = &deep->classes[i];
    if (unlikely(class == NULL))
        class = make_class(m, mask);
    if (class != NULL)
        deep->last = class;
    return class;
}

size_t deep_memory(const struct mbx_match *m)
{
    const struct mbx_match_deep *deep = m->deep;
    size_t bytes = 0;

    if (deep == NULL)
        return 0;
    for (uint32_t i = 0; i < deep->class_count; i++)
        bytes += table_bytes(&deep->classes[i].posted) + table_bytes(&deep->classes[i].index);
    return bytes + sizeof *deep + deep->node_capacity * sizeof *deep->nodes;
}
