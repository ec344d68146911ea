/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unexpected.c - the indexes of the messages.
 *
 * The list of all, in order of arrival, is the truth.  The index of a class follows it
 * when somebody asks: catch_up() adds what has arrived since, oldest first, so a group's
 * ring is in order of age by itself.
 *
 * An index that cannot grow stays where it is; what is younger is then walked.  So no
 * search ever fails for want of memory.
 *
 * The messages of the primary class are linked by themselves, those of the others by nodes.  A
 * class becomes the primary one when its first message comes and no other has any there.
 */
#include "match/deep.h"

#include "base/mem.h"

#define NODES_MIN 64
#define NODES_MAX (IN_PRIMARY - 1)

/* ---- nodes ---- */

static struct index_node *node_of(const struct mbx_match_deep *deep, uint32_t number)
{
    return &deep->nodes[number];
}

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

/* Is there one for take_node()? */
static bool has_node(struct mbx_match_deep *deep)
{
    return deep->node_free != 0 || deep->node_count != deep->node_room || grow_nodes(deep);
}

static uint32_t take_node(struct mbx_match_deep *deep)
{
    uint32_t number = deep->node_free;

    if (number == 0)
        return deep->node_count++;
    deep->node_free = node_of(deep, number)->msg_next;
    return number;
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

/* ---- heads ---- */

static struct mbx_match_msg *head_of(uintptr_t head)
{
    return (struct mbx_match_msg *)head; // NOLINT: a head is the pointer that was put there
}

static ALWAYS_INLINE bool msg_is_wanted(const void *wanted, uintptr_t head)
{
    return is_wanted(wanted, &head_of(head)->envelope);
}

static ALWAYS_INLINE bool msg_is_same(const void *msg, uintptr_t head)
{
    return msg == head_of(head);
}

static ALWAYS_INLINE bool node_is_wanted(const void *arg, uintptr_t head)
{
    const struct match_wanted *wanted = arg;

    return is_wanted(wanted, &node_of(wanted->deep, (uint32_t)head)->msg->envelope);
}

static ALWAYS_INLINE bool node_is_same(const void *number, uintptr_t head)
{
    return *(const uint32_t *)number == (uint32_t)head;
}

uint64_t unexpected_hash_of_head(const void *arg, uintptr_t head)
{
    const struct match_class_of *of = arg;
    const struct mbx_match_msg *msg =
        of->class == of->deep->primary ? head_of(head) : node_of(of->deep, (uint32_t)head)->msg;

    return deep_hash(of->deep, key_of(&msg->envelope), of->class->mask);
}

/* ---- in ---- */

static OUT_OF_LINE bool grow(const struct mbx_match_deep *deep, struct match_class *class)
{
    return table_grow(&class->index, unexpected_hash_of_head,
                      &(const struct match_class_of){deep, class});
}

static inline bool has_the_same(const struct mbx_match_msg *a, const struct mbx_match_msg *b)
{
    return a->envelope.tag == b->envelope.tag && a->envelope.source == b->envelope.source &&
           a->envelope.context_id == b->envelope.context_id;
}

/* As add_behind() of posted.c: the message before is the youngest in the index. */
static inline bool add_behind(struct mbx_match *m, struct mbx_match_msg *msg)
{
    const struct mbx_match_msg *before = msg_of(msg->link.prev);

    if (msg->link.prev == &m->msgs.all || !has_the_same(before, msg))
        return false;
    link_append(before->group.next, &msg->group);
    return true;
}

static inline bool add_to_primary(struct mbx_match *m, struct match_class *class,
                                  struct mbx_match_msg *msg)
{
    struct mbx_match_deep *deep = m->deep;
    struct match_wanted wanted = {key_of(&msg->envelope), class->mask, deep};
    struct group group;

    if (!add_behind(m, msg)) {
        if (unlikely(!table_has_room(&class->index)) && !grow(deep, class))
            return false;
        group = table_find(&class->index, deep_hash(deep, wanted.key, wanted.mask),
                           msg_is_wanted, &wanted);
        if (group.bucket != NULL) {
            link_append(&head_of(group_head(group))->group, &msg->group);
        } else {
            link_make_head(&msg->group);
            table_add(&class->index, group, (uintptr_t)msg);
        }
    }
    msg->at |= IN_PRIMARY;
    return true;
}

static OUT_OF_LINE bool add_to_nodes(struct mbx_match_deep *deep, struct match_class *class,
                                     struct mbx_match_msg *msg)
{
    struct match_wanted wanted = {key_of(&msg->envelope), class->mask, deep};
    struct group group;
    uint32_t number;

    if ((!table_has_room(&class->index) && !grow(deep, class)) || !has_node(deep))
        return false;
    number = take_node(deep);
    *node_of(deep, number) =
        (struct index_node){msg, number, number, msg->at & ~IN_PRIMARY, class->number};
    group = table_find(&class->index, deep_hash(deep, wanted.key, wanted.mask), node_is_wanted,
                       &wanted);
    if (group.bucket != NULL)
        ring_append(deep, (uint32_t)group_head(group), number);
    else
        table_add(&class->index, group, number);
    msg->at = (msg->at & IN_PRIMARY) | number;
    return true;
}

/* False: there is no memory for it. */
static inline bool add(struct mbx_match *m, struct match_class *class,
                       struct mbx_match_msg *msg)
{
    struct mbx_match_deep *deep = m->deep;

    if (class->msgs == 0 && deep->primary->msgs == 0)
        deep->primary = class;
    if (!(likely(class == deep->primary) ? add_to_primary(m, class, msg)
                                         : add_to_nodes(deep, class, msg)))
        return false;
    class->msgs++;
    class->indexed = msg->seq + 1;
    return true;
}

/* The oldest message that the index does not know, or the list's head. */
static inline struct mbx_match_link *first_unknown(struct mbx_match *m,
                                                   const struct match_class *class)
{
    struct mbx_match_link *link = &m->msgs.all;

    if (!is_older(msg_of(link->next)->seq, class->indexed))
        return link->next;
    while (!is_older(msg_of(link->prev)->seq, class->indexed))
        link = link->prev;
    return link;
}

/* Indexes what has arrived since the last time.  The first that could not be, for want of
 * memory, or the list's head. */
static OUT_OF_LINE struct mbx_match_link *catch_up(struct mbx_match *m,
                                                   struct match_class *class, uint64_t *steps)
{
    struct mbx_match_link *link = first_unknown(m, class);

    for (; link != &m->msgs.all && likely(add(m, class, msg_of(link))); link = link->next)
        ++*steps;
    return link;
}

/* ---- out ---- */

/* The oldest of its group goes. */
static inline void remove_head(struct match_class *class, const struct mbx_match_msg *msg,
                               struct group group)
{
    assert(group_head(group) == (uintptr_t)msg);
    if (likely(msg->group.next == &msg->group))
        table_remove(&class->index, group);
    else
        group_set_head(group, (uintptr_t)msg_of_group(msg->group.next));
}

/* The rest, when msg is no head any more. */
static inline void unlink_msg(struct mbx_match_deep *deep, struct mbx_match_msg *msg)
{
    link_remove(&msg->group);
    if (--deep->primary->msgs == 0)
        deep_trim(deep, &deep->primary->index);
}

static void remove_from_primary(struct mbx_match_deep *deep, struct mbx_match_msg *msg)
{
    /* the neighbour before the oldest is the youngest, or itself */
    if (!is_older(msg_of_group(msg->group.prev)->seq, msg->seq)) {
        uint64_t hash = deep_hash(deep, key_of(&msg->envelope), deep->primary->mask);

        remove_head(deep->primary, msg,
                    table_find(&deep->primary->index, hash, msg_is_same, msg));
    }
    unlink_msg(deep, msg);
}

/* Takes the message of this node out of the node's class. */
static void remove_node(struct mbx_match_deep *deep, uint32_t number)
{
    struct index_node *node = node_of(deep, number);
    struct match_class *class = &deep->classes[node->class];

    if (!is_older(node_of(deep, node->prev)->msg->seq, node->msg->seq)) {
        uint64_t hash = deep_hash(deep, key_of(&node->msg->envelope), class->mask);
        struct group group = table_find(&class->index, hash, node_is_same, &number);

        if (node->next != number)
            group_set_head(group, node->next);
        else
            table_remove(&class->index, group);
    }
    ring_remove(deep, node);
    give_node(deep, number);
    if (--class->msgs == 0)
        deep_trim(deep, &class->index);
}

static OUT_OF_LINE void remove_nodes(struct mbx_match_deep *deep, uint32_t number)
{
    while (number != 0) {
        uint32_t next = node_of(deep, number)->msg_next;

        remove_node(deep, number);
        number = next;
    }
}

void unexpected_remove(struct mbx_match *m, struct mbx_match_msg *msg)
{
    if ((msg->at & IN_PRIMARY) != 0)
        remove_from_primary(m->deep, msg);
    remove_nodes(m->deep, msg->at & ~IN_PRIMARY);
}

/* ---- searches ---- */

/* The oldest from link on that has key, message by message. */
static OUT_OF_LINE struct mbx_match_msg *walk(const struct mbx_match *m,
                                              const struct mbx_match_link *link,
                                              struct match_key key, struct match_mask mask,
                                              uint64_t *steps)
{
    for (; link != &m->msgs.all; link = link->next) {
        ++*steps;
        if (key_fits(key_of(&msg_of(link)->envelope), key, mask))
            return msg_of(link);
    }
    return NULL;
}

/* The oldest in an index of nodes, or NULL. */
static OUT_OF_LINE struct mbx_match_msg *look_up_node(const struct mbx_match_deep *deep,
                                                      const struct match_class *class,
                                                      struct match_key key)
{
    struct match_wanted wanted = {key, class->mask, deep};
    struct group group =
        table_find(&class->index, deep_hash(deep, key, wanted.mask), node_is_wanted, &wanted);

    return group.bucket != NULL ? node_of(deep, (uint32_t)group_head(group))->msg : NULL;
}

/* found, the head of group, which the primary class has found, leaves all indexes. */
static ALWAYS_INLINE void leave(struct mbx_match *m, struct match_class *class,
                                struct mbx_match_msg *found, struct group group)
{
    remove_head(class, found, group);
    unlink_msg(m->deep, found);
    found->at &= ~IN_PRIMARY;
    if (unlikely(found->at != 0))
        unexpected_remove(m, found);
}

/* What a taker takes leaves the indexes; taker may be NULL. */
static ALWAYS_INLINE struct mbx_match_msg *search(struct mbx_match *m, struct match_key key,
                                                  struct match_mask mask, uint64_t *steps,
                                                  struct match_taker *taker)
{
    struct match_class *class = deep_get(m) != NULL ? deep_class(m, mask) : NULL;
    struct match_wanted wanted = {key, mask, m->deep};
    struct mbx_match_link *rest = &m->msgs.all;
    struct mbx_match_msg *found = NULL;
    struct group group;

    if (unlikely(class == NULL)) {
        m->count.overflowed++;
        found = walk(m, rest->next, key, mask, steps);
    } else {
        if (!is_older(msg_of(rest->prev)->seq, class->indexed))
            rest = catch_up(m, class, steps);
        ++*steps;
        if (likely(class == m->deep->primary)) {
            group = table_find(&class->index, deep_hash(m->deep, key, mask), msg_is_wanted,
                               &wanted);
            if (likely(group.bucket != NULL)) {
                found = head_of(group_head(group));
                if (taker != NULL && likely(taker_takes(taker, found)))
                    leave(m, class, found, group);
                return found;
            }
        } else {
            found = look_up_node(m->deep, class, key);
        }
        if (found == NULL && unlikely(rest != &m->msgs.all))
            found = walk(m, rest, key, mask, steps);
    }
    if (taker != NULL && found != NULL && taker_takes(taker, found) && found->at != 0)
        unexpected_remove(m, found);
    return found;
}

struct mbx_match_msg *unexpected_find(struct mbx_match *m, struct match_key key,
                                      struct match_mask mask, uint64_t *steps)
{
    return search(m, key, mask, steps, NULL);
}

struct mbx_match_msg *unexpected_take(struct mbx_match *m, struct match_key key,
                                      struct match_mask mask, uint64_t *steps)
{
    struct match_taker any = {.fits = NULL};

    return search(m, key, mask, steps, &any);
}

struct mbx_match_msg *unexpected_take_if(struct mbx_match *m, struct match_key key,
                                         struct match_mask mask, uint64_t *steps,
                                         struct match_taker *taker)
{
    return search(m, key, mask, steps, taker);
}

void unexpected_prefetch(const struct mbx_match *m, struct match_key key,
                         struct match_mask mask)
{
    const struct mbx_match_deep *deep = m->deep;

    /* the receives of one call are mostly of one class */
    if (deep != NULL)
        table_prefetch(&deep->last->index, deep_hash(deep, key, mask));
}
