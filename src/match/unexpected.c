/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unexpected.c - the messages of a long queue.
 *
 * The list of all, in order of arrival, is the truth.  The index of a class follows it
 * when somebody asks: catch_up() adds what has arrived since, oldest first, so a group's
 * ring is in order of age by itself.
 *
 * An index that cannot grow stays where it is; what is younger is then walked.  So no
 * search ever fails for want of memory.
 */
#include "match/deep.h"

#include "base/mem.h"

#define NODES_MIN 64
#define NODES_MAX UINT32_MAX

static struct index_node *node_of(const struct mbx_match_deep *deep, uint32_t number)
{
    return &deep->nodes[number];
}

void unexpected_begin(struct mbx_match *m)
{
    if (m->deep == NULL)
        return;
    for (uint32_t i = 0; i < m->deep->class_count; i++)
        m->deep->classes[i].indexed = msg_of(m->msgs.next)->seq;
}

/* ---- nodes ---- */

static bool grow_nodes(struct mbx_match_deep *deep)
{
    uint64_t room = deep->node_room == 0 ? NODES_MIN : (uint64_t)deep->node_room * 3 / 2;
    struct index_node *nodes;

    if (room > NODES_MAX)
        return false;
    nodes = mem_realloc(deep->nodes, room * sizeof *nodes);
    if (nodes == NULL)
        return false;
    deep->nodes = nodes;
    deep->node_room = (uint32_t)room;
    if (deep->node_count == 0)
        deep->node_count = 1; /* 0 is nobody */
    return true;
}

/* The number of a free node, or 0. */
static uint32_t take_node(struct mbx_match_deep *deep)
{
    uint32_t number = deep->node_free;

    if (number != 0) {
        deep->node_free = node_of(deep, number)->msg_next;
        return number;
    }
    if (deep->node_count == deep->node_room && !grow_nodes(deep))
        return 0;
    return deep->node_count++;
}

static void give_node(struct mbx_match_deep *deep, uint32_t number)
{
    struct index_node *node = node_of(deep, number);

    node->msg = NULL;
    node->msg_next = deep->node_free;
    deep->node_free = number;
}

/* number goes behind the youngest of the ring of head. */
static void ring_append(struct mbx_match_deep *deep, uint32_t head, uint32_t number)
{
    uint32_t last = node_of(deep, head)->prev;

    node_of(deep, number)->next = head;
    node_of(deep, number)->prev = last;
    node_of(deep, last)->next = number;
    node_of(deep, head)->prev = number;
}

static void ring_remove(struct mbx_match_deep *deep, const struct index_node *node)
{
    node_of(deep, node->prev)->next = node->next;
    node_of(deep, node->next)->prev = node->prev;
}

/* ---- the index of a class ---- */

static bool index_add(struct mbx_match_deep *deep, uint32_t class, struct mbx_match_msg *msg)
{
    struct match_class *c = &deep->classes[class];
    struct group group;
    uint32_t number;

    if (table_reserve(&c->index, 1) < 0)
        return false;
    number = take_node(deep);
    if (number == 0)
        return false;
    *node_of(deep, number) = (struct index_node){msg, number, number, msg->at, class};
    msg->at = number;
    group =
        table_group(&c->index, deep_print(deep, key_of(&msg->envelope), deep->masks[class]));
    if (group_head(group) != 0)
        ring_append(deep, (uint32_t)group_head(group), number);
    else
        table_set_head(&c->index, group, number);
    c->msgs++;
    return true;
}

/* Takes msg, of which this is a node, out of the node's class. */
static void index_remove(struct mbx_match_deep *deep, uint32_t number)
{
    struct index_node *node = node_of(deep, number);
    struct match_class *c = &deep->classes[node->class];

    c->msgs--;
    /* the neighbour before the oldest is the youngest, or itself */
    if (!is_older(node_of(deep, node->prev)->msg->seq, node->msg->seq)) {
        struct group group =
            table_place(&c->index, deep_print(deep, key_of(&node->msg->envelope),
                                              deep->masks[node->class]));

        assert(group_head(group) == number);
        table_set_head(&c->index, group, node->next != number ? node->next : 0);
    }
    ring_remove(deep, node);
    give_node(deep, number);
}

void unexpected_remove(struct mbx_match *m, struct mbx_match_msg *msg)
{
    uint32_t number = msg->at;

    while (number != 0) {
        uint32_t next = node_of(m->deep, number)->msg_next;

        index_remove(m->deep, number);
        number = next;
    }
    link_remove(&msg->link);
}

/* The oldest message that the index does not know, or the list's head. */
static struct mbx_match_link *first_unknown(struct mbx_match *m, const struct match_class *c)
{
    struct mbx_match_link *link = &m->msgs;

    while (link->prev != &m->msgs && !is_older(msg_of(link->prev)->seq, c->indexed))
        link = link->prev;
    return link;
}

/* Indexes what has arrived since the last time.  The first that could not be, for want of
 * memory, or the list's head. */
static struct mbx_match_link *catch_up(struct mbx_match *m, uint32_t class, uint64_t *steps)
{
    struct match_class *c = &m->deep->classes[class];
    struct mbx_match_link *link = first_unknown(m, c);

    for (; link != &m->msgs; link = link->next) {
        if (!index_add(m->deep, class, msg_of(link)))
            break;
        c->indexed = msg_of(link)->seq + 1;
        ++*steps;
    }
    return link;
}

/* The oldest in the index, or NULL. */
static struct mbx_match_msg *look_up(const struct mbx_match_deep *deep, uint32_t class,
                                     struct match_key key, uint64_t *steps)
{
    struct match_mask mask = deep->masks[class];
    uint32_t head =
        (uint32_t)table_head(&deep->classes[class].index, deep_print(deep, key, mask));
    uint32_t number = head;

    ++*steps;
    if (head == 0)
        return NULL;
    do {
        const struct index_node *node = node_of(deep, number);

        ++*steps;
        if (likely(key_fits(key_of(&node->msg->envelope), key, mask)))
            return node->msg;
        number = node->next;
    } while (number != head);
    return NULL;
}

/* The oldest from link on that has key, message by message. */
static struct mbx_match_msg *walk(const struct mbx_match *m, const struct mbx_match_link *link,
                                  struct match_key key, struct match_mask mask, uint64_t *steps)
{
    for (; link != &m->msgs; link = link->next) {
        ++*steps;
        if (key_fits(key_of(&msg_of(link)->envelope), key, mask))
            return msg_of(link);
    }
    return NULL;
}

struct mbx_match_msg *unexpected_find(struct mbx_match *m, struct match_key key,
                                      struct match_mask mask, uint64_t *steps)
{
    uint32_t class = deep_get(m) != NULL ? deep_class(m, mask) : CLASS_NONE;
    struct mbx_match_link *rest;
    struct mbx_match_msg *found;

    if (unlikely(class == CLASS_NONE)) {
        m->count.overflowed++;
        return walk(m, m->msgs.next, key, mask, steps);
    }
    rest = catch_up(m, class, steps);
    found = look_up(m->deep, class, key, steps);
    return found != NULL ? found : walk(m, rest, key, mask, steps);
}

void unexpected_prefetch(const struct mbx_match *m, struct match_key key,
                         struct match_mask mask)
{
    const struct mbx_match_deep *deep = m->deep;

    if (deep == NULL || deep->class_last >= deep->class_count)
        return;
    /* the receives of one call are mostly of one class */
    table_prefetch(&deep->classes[deep->class_last].index, deep_print(deep, key, mask));
}
