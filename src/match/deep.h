/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deep.h - what a long queue has beside its list: classes, and in each two tables.
 *
 *   class      one mask: which bits of an envelope its receives compare
 *   print      hash of an envelope's compared bits
 *   posted     print -> the receives of this class that want such an envelope
 *   index      print -> the messages that such a receive may take
 *
 *   class 0 (nothing ignored)     posted   p1 - r2 - r7      index   q1 - m3
 *                                          p2 - r4                   q2 - m1 - m4
 *   class 1 (any source)          posted   p3 - r1           index   q3 - m1 - m3 - m4
 *
 * An arrival looks its print up in each class that has receives, and the oldest of
 * the heads wins.  A receive looks its print up in the index of its class alone.
 *
 * A message enters the index of a class when a receive or a probe of that class first
 * wants to know: `indexed` says which messages were already there.  So programs pay for
 * the classes that they use, once per message.
 *
 * Receives of a mask for which no class is free wait on `overflow`, and such a search of
 * the messages walks all of them: right, slow, and counted.
 *
 * Invariants (deep_is_valid)
 *   I1  a group's receives, and messages, are in order of age, have the group's print,
 *       and are of the group's class
 *   I2  a message is in the index of a class once if it is older than `indexed`, and
 *       else not at all
 *   I3  `busy` has the bits of the classes that have receives
 *   I4  a class that is not in use has neither receives nor messages
 */
#ifndef MATCH_DEEP_H
#define MATCH_DEEP_H

#include <stdalign.h>

#include "base/base.h"
#include "match/compare.h"
#include "match/table.h"

/* Where a message stands in the index of one class.  Nodes are numbered from 1. */
struct index_node {
    struct mbx_match_msg *msg; /* free: NULL */
    uint32_t next, prev;       /* same print, a ring; oldest first */
    uint32_t msg_next;         /* of the same message in another class; free: next free */
    uint32_t class;
};

struct match_class {
    struct table posted; /* head: struct mbx_match_recv * */
    struct table index;  /* head: number of a node */
    uint64_t indexed;    /* age: older messages are in index */
    uint32_t recvs;      /* queued */
    uint32_t msgs;       /* in index */
};

#define CLASS_NONE MBX_MATCH_CLASSES /* overflow */

struct mbx_match_deep {
    alignas(CACHE_APART) uint64_t seeds[2]; /* engines of two threads share no line */
    uint64_t print_mask;                    /* a test may want collisions */
    uint64_t busy;                          /* classes with receives */
    uint32_t class_count;
    uint32_t class_last; /* used last */
    struct match_mask masks[MBX_MATCH_CLASSES];
    struct match_class classes[MBX_MATCH_CLASSES];

    struct mbx_match_link overflow; /* by group: receives without a class, oldest first */

    struct index_node *nodes; /* [node_room], number 0 is nobody */
    uint32_t node_room, node_count, node_free;
};

static inline bool is_older(uint64_t seq, uint64_t than)
{
    return (int64_t)(seq - than) < 0;
}

static inline struct match_key key_of(const struct mbx_match_envelope *envelope)
{
    return (struct match_key){(uint64_t)envelope->context_id << 32 | envelope->source,
                              envelope->tag};
}

/* What such a receive compares. */
static inline struct match_mask mask_of(const struct mbx_match_envelope *wanted,
                                        uint64_t ignore)
{
    uint64_t source = wanted->source == MBX_MATCH_ANY_SOURCE ? 0 : UINT32_MAX;

    return (struct match_mask){(uint64_t)UINT32_MAX << 32 | source, ~ignore};
}

static inline bool key_fits(struct match_key a, struct match_key b, struct match_mask mask)
{
    return (((a.place ^ b.place) & mask.place) | ((a.tag ^ b.tag) & mask.tag)) == 0;
}

static inline void link_make_head(struct mbx_match_link *head)
{
    head->next = head->prev = head;
}

/* Before a head: last of its list. */
static inline void link_append(struct mbx_match_link *head, struct mbx_match_link *link)
{
    link->next = head;
    link->prev = head->prev;
    head->prev->next = link;
    head->prev = link;
}

static inline void link_remove(struct mbx_match_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

static inline struct mbx_match_recv *recv_of(const struct mbx_match_link *link)
{
    return container_of(link, struct mbx_match_recv, link);
}

static inline struct mbx_match_recv *recv_of_group(const struct mbx_match_link *group)
{
    return container_of(group, struct mbx_match_recv, group);
}

static inline struct mbx_match_msg *msg_of(const struct mbx_match_link *link)
{
    return container_of(link, struct mbx_match_msg, link);
}

/* Never 0. */
static inline uint64_t deep_print(const struct mbx_match_deep *deep, struct match_key key,
                                  struct match_mask mask)
{
    unsigned __int128 product = (unsigned __int128)((key.place & mask.place) ^ deep->seeds[0]) *
                                ((key.tag & mask.tag) ^ deep->seeds[1]);
    uint64_t print = ((uint64_t)product ^ (uint64_t)(product >> 64)) & deep->print_mask;

    return print + (print == 0);
}

/* ---- deep.c: classes ---- */

/* Makes m->deep.  NULL: no memory. */
struct mbx_match_deep *deep_make(struct mbx_match *m);
void deep_destroy(struct mbx_match *m);
/* Frees what a queue that has become short used lately, if it is much. */
void deep_trim(struct mbx_match *m);
/* The class of this mask, made if there is none; CLASS_NONE: all are in use. */
uint32_t deep_find_class(struct mbx_match *m, struct match_mask mask);
size_t deep_memory(const struct mbx_match *m);

/* m->deep, made if there is none.  NULL: no memory. */
static inline struct mbx_match_deep *deep_get(struct mbx_match *m)
{
    return likely(m->deep != NULL) ? m->deep : deep_make(m);
}

static inline bool mask_is(const struct match_mask *a, struct match_mask b)
{
    return a->place == b.place && a->tag == b.tag;
}

/* As deep_find_class(); the class that was used last is tried first. */
static inline uint32_t deep_class(struct mbx_match *m, struct match_mask mask)
{
    uint32_t last = m->deep->class_last;

    if (likely(mask_is(&m->deep->masks[last], mask)) && likely(last < m->deep->class_count))
        return last;
    return deep_find_class(m, mask);
}

/* ---- posted.c: the posted receives of a long queue ---- */

/* The youngest receive, with its age.  -ENOMEM: nothing has changed. */
int posted_add(struct mbx_match *m, struct mbx_match_recv *recv);
void posted_remove(struct mbx_match *m, struct mbx_match_recv *recv);
/* The oldest that accepts key, taken out, or NULL; adds to *steps what was looked at. */
struct mbx_match_recv *posted_take(struct mbx_match *m, struct match_key key, uint64_t *steps);
/* The same one, which stays. */
struct mbx_match_recv *posted_first(const struct mbx_match *m, struct match_key key);
/* Fetches what posted_add() of such a receive will look at. */
void posted_prefetch_group(const struct mbx_match *m, struct match_key key,
                           struct match_mask mask);
/* Fetch what posted_take() will touch, each from what the one before fetched: the tables,
 * the receives, their neighbours. */
void posted_prefetch(const struct mbx_match *m, struct match_key key);
void posted_prefetch_heads(const struct mbx_match *m, struct match_key key, bool neighbours);
bool posted_is_valid(const struct mbx_match *m);

/* ---- unexpected.c: the messages of a long queue ---- */

/* The queue has just become long: nothing is in any index. */
void unexpected_begin(struct mbx_match *m);
void unexpected_remove(struct mbx_match *m, struct mbx_match_msg *msg);
/* The oldest that has key where mask says so, or NULL. */
struct mbx_match_msg *unexpected_find(struct mbx_match *m, struct match_key key,
                                      struct match_mask mask, uint64_t *steps);
void unexpected_prefetch(const struct mbx_match *m, struct match_key key,
                         struct match_mask mask);
bool unexpected_is_valid(const struct mbx_match *m);

#endif
