/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * list.h - doubly linked lists whose links live in the members.
 *
 *   head <-> node <-> node <-> head        an empty head points at itself
 *
 * struct list is both the head and the link; container_of() leads from a link to the structure
 * that embeds it.  Nothing is allocated and nothing can fail.  A node starts with
 * list_init_node(), or as zero-filled memory.
 *
 * Invariants
 *   I1  n->next->prev == n and n->prev->next == n for the head and each node
 *   I2  next is NULL in a node, and only in a node, that is in no list
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/base.h"

struct list {
    struct list *next, *prev;
};

/* Makes an empty head. */
static inline void list_init(struct list *head)
{
    head->next = head->prev = head;
}

/* Makes a node that is in no list. */
static inline void list_init_node(struct list *node)
{
    node->next = NULL;
}

static inline bool list_is_empty(const struct list *head)
{
    return head->next == head;
}

static inline bool list_is_linked(const struct list *node)
{
    return node->next != NULL;
}

/* node goes between two neighbours. */
static inline void list_insert(struct list *prev, struct list *next, struct list *node)
{
    assert(!list_is_linked(node));
    node->prev = prev;
    node->next = next;
    prev->next = node;
    next->prev = node;
}

static inline void list_add_tail(struct list *head, struct list *node)
{
    list_insert(head->prev, head, node);
}

static inline void list_add_head(struct list *head, struct list *node)
{
    list_insert(head, head->next, node);
}

/* Takes node out of its list.  A node that is in no list stays so. */
static inline void list_remove(struct list *node)
{
    if (!list_is_linked(node))
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init_node(node);
}

/* The oldest node, or NULL. */
static inline struct list *list_first(const struct list *head)
{
    return list_is_empty(head) ? NULL : head->next;
}

/* Removes and returns the oldest node, or NULL. */
static inline struct list *list_pop_head(struct list *head)
{
    struct list *node = list_first(head);

    if (node != NULL)
        list_remove(node);
    return node;
}

/* Removes and returns the youngest node, or NULL. */
static inline struct list *list_pop_tail(struct list *head)
{
    struct list *node = list_is_empty(head) ? NULL : head->prev;

    if (node != NULL)
        list_remove(node);
    return node;
}

/* Moves all nodes of from, in order, to the end of to; from becomes empty. */
static inline void list_splice_tail(struct list *to, struct list *from)
{
    if (list_is_empty(from))
        return;
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    list_init(from);
}

/* pos is a struct list *.  The body must not remove pos. */
#define list_for_each(pos, head)                                                               \
    for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)

/* The body may remove pos, and nothing else; tmp is a second struct list *. */
#define list_for_each_safe(pos, tmp, head)                                                     \
    for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head);                           \
         (pos) = (tmp), (tmp) = (pos)->next)

#endif
