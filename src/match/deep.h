/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deep.h - finds an entry of a long queue: classes, each with two tables.
 *
 *   class      one mask: which bits of an envelope its receives compare
 *   posted     compared bits -> the receives of this class that match such an envelope
 *   index      compared bits -> the messages that such a receive matches
 *
 *   class 0 (nothing ignored)     posted   r2 - r7      index   m3
 *                                          r4                   m1 - m4
 *   class 1 (any source)          posted   r1           index   m1 - m3 - m4
 *
 * An arriving message is looked up in each class that has receives, and the oldest of the heads
 * wins.  A receive is looked up only in the index of its class.
 *
 * The queues are lists, and the tables are brought up to date when a search needs them.  An
 * entry that is in no table yet is younger than all that are in one, so a search looks into the
 * tables first; an entry found there is the oldest match.  If there is none, the entries that
 * the tables lack are walked if they are few, and then put into the tables all at once: posted
 * receives by posted_take(), and by unexpected_take() the messages that are not in the index of
 * its class.  So programs pay for the classes that they use, once per entry, and nothing for
 * entries that leave in the order in which they came, or soon after they came.  A table that
 * cannot grow stays as it is, and the entries that it lacks are walked: no verb fails for lack
 * of memory.
 *
 * A receive belongs to one class.  A message may be in the index of each class.  In the primary
 * class, the messages themselves are linked; in each other class a message has a node.  So with
 * one class in use, the cost is one table.
 *
 * Receives with a mask for which no class is free are put on `overflow`, and their search walks
 * all messages: correct, slow, and counted.
 *
 * Invariants (deep_is_valid)
 *   I1  the receives, or messages, of a group are in order of age, agree in the bits that their
 *       class compares, and belong to the group's class
 *   I2  a message is in the index of a class once if it is older than `indexed`, and otherwise
 *       not
 *   I3  `busy` has the bits of the classes that have receives; `only` is the class of all
 *       receives that are in a table or on overflow, or NULL
 *   I4  a class that is not in use has neither receives nor messages
 *   I5  no receive in a table or on overflow is younger than one that is in neither
 */
#ifndef MATCH_DEEP_H
#define MATCH_DEEP_H

#include <stdalign.h>

#include <matchbox/match.h>

#include "base/base.h"
#include "match/table.h"

/* The key of a search: context id and source in one word, and the tag. */
struct match_key {
    uint64_t place, tag;
};

/* Glossary: ignore bits - bits of the tag that a receive does not compare (1 = ignored); all of
 * them: any tag */
/* Glossary: mask - what a receive does not compare: its ignore bits, and the source if that is any */
/* The bits of a key that are compared (1). */
struct match_mask {
    uint64_t place, tag;
};

/* The entry of a message in the index of a class other than the primary one.  Nodes are
 * numbered from 1. */
struct index_node {
    struct mbx_match_msg *msg; /* free: NULL */
    uint32_t next, prev;       /* in the same group, a ring; oldest first */
    uint32_t msg_next;         /* the node of the same message in another class; free: the next
                                  free node */
    uint32_t class;
};

struct match_class {
    struct match_mask mask;
    struct table posted; /* head: struct mbx_match_recv * */
    struct table index;  /* head: struct mbx_match_msg *; not primary: the number of a node */
    uint64_t indexed;    /* an age: older messages are in index */
    uint32_t number;     /* among classes */
};

#define CLASS_NONE MBX_MATCH_CLASSES /* overflow */

/* Entries in no table are walked if they are few.  A search that finds its match there after
 * more than this many steps puts the entries into tables: otherwise each search would pass the
 * same entries. */
#define DEEP_WAY 4u

/* mbx_match_recv.at is 0, or 1 + the class.  mbx_match_msg.at is the first node, or 0, and: */
#define IN_PRIMARY (UINT32_C(1) << 31)

struct mbx_match_deep {
    alignas(CACHE_APART) uint64_t seeds[2]; /* engines of two threads share no cache line */
    uint64_t spread;                        /* into the upper bits of a hash; see deep_hash() */
    uint64_t busy;                          /* classes with receives */
    struct match_class
        *only; /* the class of all receives that are in tables, if there is only one */
    struct match_class *last; /* the last one used */
    struct match_class *primary;
    uint32_t class_count;
    struct match_class classes[MBX_MATCH_CLASSES];

    struct mbx_match_link overflow; /* by group: receives without a class, oldest first */

    struct index_node *nodes; /* [node_capacity]; number 0 is not used */
    uint32_t node_capacity, node_count, node_free;
};

static inline bool is_older(uint64_t seq, uint64_t than)
{
    return (int64_t)(seq - than) < 0;
}

static inline struct match_key key_of(const struct mbx_match_envelope *envelope)
{
    return (struct match_key){(uint64_t)envelope->source << 32 | envelope->context_id,
                              envelope->tag};
}

static inline struct mbx_match_envelope envelope_of(struct match_key key)
{
    return (struct mbx_match_envelope){(uint32_t)key.place, (uint32_t)(key.place >> 32),
                                       key.tag};
}

/* The bits that such a receive compares. */
static inline struct match_mask mask_of(const struct mbx_match_envelope *wanted,
                                        uint64_t ignore)
{
    return (struct match_mask){wanted->source == MBX_MATCH_ANY_SOURCE ? UINT32_MAX : UINT64_MAX,
                               ~ignore};
}

static inline bool key_fits(struct match_key a, struct match_key b, struct match_mask mask)
{
    return (((a.place ^ b.place) & mask.place) | ((a.tag ^ b.tag) & mask.tag)) == 0;
}

static inline bool is_same_envelope(const struct mbx_match_envelope *a,
                                    const struct mbx_match_envelope *b)
{
    return a->tag == b->tag && a->source == b->source && a->context_id == b->context_id;
}

/* ---- heads of groups ---- */

static inline struct mbx_match_recv *recv_of_head(uintptr_t head)
{
    return (struct mbx_match_recv *)head; // NOLINT: a head is the pointer that was put there
}

static inline struct mbx_match_msg *msg_of_head(uintptr_t head)
{
    return (struct mbx_match_msg *)head; // NOLINT: as above
}

/* The key and mask with which the head of a group is compared. */
struct match_wanted {
    struct match_key key;
    struct match_mask mask;
    const struct mbx_match_deep *deep;
};

static inline bool is_wanted(const struct match_wanted *wanted,
                             const struct mbx_match_envelope *envelope)
{
    return key_fits(key_of(envelope), wanted->key, wanted->mask);
}

static ALWAYS_INLINE bool recv_is_wanted(const void *wanted, uintptr_t head)
{
    return is_wanted(wanted, &recv_of_head(head)->envelope);
}

static ALWAYS_INLINE bool msg_is_wanted(const void *wanted, uintptr_t head)
{
    return is_wanted(wanted, &msg_of_head(head)->envelope);
}

/* ---- links ---- */

static inline void link_make_head(struct mbx_match_link *head)
{
    head->next = head->prev = head;
}

/* Appends link to the list of head. */
static inline void link_append(struct mbx_match_link *head, struct mbx_match_link *link)
{
    struct mbx_match_link *last = head->prev;

    link->next = head;
    link->prev = last;
    last->next = link;
    head->prev = link;
}

static inline void link_remove(struct mbx_match_link *link)
{
    struct mbx_match_link *next = link->next, *prev = link->prev;

    prev->next = next;
    next->prev = prev;
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

static inline struct mbx_match_msg *msg_of_group(const struct mbx_match_link *group)
{
    return container_of(group, struct mbx_match_msg, group);
}

/* Removes the head of group; without other members, the group as well. */
static ALWAYS_INLINE void recv_leaves_table(struct table *t, struct mbx_match_recv *recv,
                                            struct group group)
{
    assert(group_head(group) == (uintptr_t)recv);
    if (likely(recv->group.next == &recv->group)) {
        table_remove(t, group);
    } else {
        group_set_head(group, (uintptr_t)recv_of_group(recv->group.next));
        link_remove(&recv->group);
    }
}

static ALWAYS_INLINE void msg_leaves_table(struct table *t, struct mbx_match_msg *msg,
                                           struct group group)
{
    assert(group_head(group) == (uintptr_t)msg);
    if (likely(msg->group.next == &msg->group)) {
        table_remove(t, group);
    } else {
        group_set_head(group, (uintptr_t)msg_of_group(msg->group.next));
        link_remove(&msg->group);
    }
}

/* The number of entries in the queue now. */
static inline uint64_t queue_count(const struct mbx_match_queue *queue)
{
    return queue->most - (queue->full_at - queue->next);
}

/* The most entries that may go into a table with this many used groups: the one of this age and
 * all younger ones. */
static inline uint64_t queue_rest(const struct mbx_match_queue *queue, uint64_t seq,
                                  uint32_t used)
{
    return min_size(queue->next - seq, queue_count(queue) - used);
}

static inline bool queue_is_empty(const struct mbx_match_queue *queue)
{
    return queue->all.next == &queue->all;
}

/* The hash of the bits that such a mask compares.  The first product identifies them well, but
 * not all its bits are good as a bucket number: with one seed in a hundred, consecutive tags
 * share their low bits.  The second product spreads it into the upper bits, or only a part of
 * it in tests that need collisions. */
static inline uint64_t deep_hash(const struct mbx_match_deep *deep, struct match_key key,
                                 struct match_mask mask)
{
    unsigned __int128 product = (unsigned __int128)((key.place & mask.place) ^ deep->seeds[0]) *
                                ((key.tag & mask.tag) ^ deep->seeds[1]);

    return ((uint64_t)product ^ (uint64_t)(product >> 64)) * deep->spread;
}

/* ---- deep.c: classes ---- */

/* Makes m->deep.  NULL: no memory. */
struct mbx_match_deep *deep_make(struct mbx_match *m);
void deep_destroy(struct mbx_match *m);
/* Frees the memory of an empty table, and of all nodes if they are unused, if it is large. */
void deep_trim(struct mbx_match_deep *deep, struct table *t);
/* The class of this mask, made if needed; NULL: all are in use. */
struct match_class *deep_find_class(struct mbx_match *m, struct match_mask mask);
size_t deep_memory(const struct mbx_match *m);

/* m->deep, made if needed.  NULL: no memory. */
static inline struct mbx_match_deep *deep_get(struct mbx_match *m)
{
    return likely(m->deep != NULL) ? m->deep : deep_make(m);
}

static inline bool mask_is(const struct match_mask *a, struct match_mask b)
{
    return a->place == b.place && a->tag == b.tag;
}

/* As deep_find_class(); the class that was used last is tried first. */
static inline struct match_class *deep_class(struct mbx_match *m, struct match_mask mask)
{
    struct match_class *last = m->deep->last;

    return likely(mask_is(&last->mask, mask)) ? last : deep_find_class(m, mask);
}

/* ---- results of a search ---- */

/* The group of the oldest receive that accepts key, if all receives in tables are of this
 * class, and a glance finds it. */
static ALWAYS_INLINE struct group posted_glance(const struct mbx_match_deep *deep,
                                                const struct match_class *class,
                                                struct match_key key, bool *has_none)
{
    struct match_wanted wanted = {key, class->mask, deep};

    return table_glance(&class->posted, deep_hash(deep, key, wanted.mask), recv_is_wanted,
                        &wanted, has_none);
}

/* The group of the oldest message that has key in the primary class, if a glance finds it. */
static ALWAYS_INLINE struct group unexpected_glance(const struct mbx_match_deep *deep,
                                                    struct match_key key,
                                                    struct match_mask mask, bool *has_none)
{
    struct match_wanted wanted = {key, mask, deep};

    return table_glance(&deep->primary->index, deep_hash(deep, key, mask), msg_is_wanted,
                        &wanted, has_none);
}

/* ---- posted.c: the tables of the posted receives ---- */

/* Takes the oldest receive that accepts key out of its table, or returns NULL; *steps: the
 * entries that were compared.  The caller has checked the oldest receive of all, unless it is
 * in a table. has_none: no receive in a table accepts key. */
struct mbx_match_recv *posted_take(struct mbx_match *m, struct match_key key, uint64_t *steps,
                                   bool has_none);
/* As posted_take(), but the receive stays in its table. */
struct mbx_match_recv *posted_first(struct mbx_match *m, struct match_key key);
/* The last receive of a class has left its table. */
void posted_become_idle(struct mbx_match_deep *deep, struct match_class *class);
/* recv leaves its table, or overflow. */
void posted_remove(struct mbx_match *m, struct mbx_match_recv *recv);
/* Prefetches the memory that posted_take() will use, each level from the last one: the tables,
 * the receives, their neighbours. */
void posted_prefetch(const struct mbx_match *m, struct match_key key);
void posted_prefetch_heads(const struct mbx_match *m, struct match_key key, bool neighbours);
/* A table_hash_fn; arg: struct match_class_of. */
uint64_t posted_hash_of_head(const void *arg, uintptr_t head);
bool posted_is_valid(const struct mbx_match *m);

/* ---- unexpected.c: the indexes of the messages ---- */

/* The oldest message that has key under this mask, or NULL. */
struct mbx_match_msg *unexpected_find(struct mbx_match *m, struct match_key key,
                                      struct match_mask mask, uint64_t *steps);
/* Decides whether a message that was found is taken: if it fits, or always if fits is NULL. */
struct match_taker {
    mbx_match_fits_fn *fits;
    const void *arg;
    bool has_taken;
};

static ALWAYS_INLINE bool taker_takes(struct match_taker *taker,
                                      const struct mbx_match_msg *msg)
{
    taker->has_taken = taker->fits == NULL || taker->fits(taker->arg, msg);
    return taker->has_taken;
}

/* As unexpected_find(), but takes the message out of its indexes if taker takes it.  has_none:
 * no message in the index of the primary class, which has this mask, has key. */
struct mbx_match_msg *unexpected_take(struct mbx_match *m, struct match_key key,
                                      struct match_mask mask, uint64_t *steps,
                                      struct match_taker *taker, bool has_none);
/* Takes msg out of its indexes. */
void unexpected_remove(struct mbx_match *m, struct mbx_match_msg *msg);
void unexpected_prefetch(const struct mbx_match *m, struct match_key key,
                         struct match_mask mask);
/* A table_hash_fn; arg: struct match_class_of. */
uint64_t unexpected_hash_of_head(const void *arg, uintptr_t head);
bool unexpected_is_valid(const struct mbx_match *m);

struct match_class_of {
    const struct mbx_match_deep *deep;
    const struct match_class *class;
};

#endif
