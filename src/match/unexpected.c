/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unexpected.c - the indexes of the messages.
 *
 * The list of all messages, in order of arrival, is always complete.  The index of a class is
 * brought up to date when a search does not find a message in it, like the tables of posted.c:
 * unexpected_catch_up() adds the messages that have arrived since, oldest first, so a group's
 * ring is in order of age.
 *
 * An index that cannot grow stays as it is; younger messages are then walked.  So no search
 * ever fails for lack of memory.
 *
 * In the primary class the messages themselves are linked, in the other classes their nodes.  A
 * class becomes the primary one when its first message is indexed while the index of the
 * primary class is empty.
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
    uint64_t capacity =
        deep->node_capacity == 0 ? NODES_MIN : (uint64_t)deep->node_capacity * 3 / 2;
    struct index_node *nodes;

    if (capacity > NODES_MAX)
        return false;
    nodes = mem_realloc(deep->nodes, capacity * sizeof *nodes);
    if (nodes == NULL)
        return false;
    deep->nodes = nodes;
    deep->node_capacity = (uint32_t)capacity;
    if (deep->node_count == 0)
        deep->node_count = 1; /* 0 is not used */
    return true;
}

/* Is there a node for take_node()? */
static bool has_node(struct mbx_match_deep *deep)
{
    return deep->node_free != 0 || deep->node_count != deep->node_capacity || grow_nodes(deep);
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

/* Appends number to the ring of head, after the youngest. */
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

static ALWAYS_INLINE bool msg_is_same(const void *msg, uintptr_t head)
{
    return msg == msg_of_head(head);
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
    const struct mbx_match_msg *msg = of->class == of->deep->primary
                                          ? msg_of_head(head)
                                          : node_of(of->deep, (uint32_t)head)->msg;

    return deep_hash(of->deep, key_of(&msg->envelope), of->class->mask);
}

/* ---- in ---- */

/* Makes space for msg and all messages that follow it. */
static OUT_OF_LINE bool grow(const struct mbx_match *m, struct match_class *class,
                             const struct mbx_match_msg *msg)
{
    return table_grow(&class->index, queue_rest(&m->msgs, msg->seq, class->index.used),
                      unexpected_hash_of_head, &(const struct match_class_of){m->deep, class});
}

/* As add_to_primary(), for all cases. */
static OUT_OF_LINE bool add_further(struct mbx_match *m, struct match_class *class,
                                    struct mbx_match_msg *msg, uint64_t hash)
{
    struct match_wanted wanted = {key_of(&msg->envelope), class->mask, m->deep};
    struct group group;

    if (!table_has_space(&class->index) && !grow(m, class, msg))
        return false;
    group = table_find(&class->index, hash, msg_is_wanted, &wanted);
    if (group.bucket != NULL) {
        link_append(&msg_of_head(group_head(group))->group, &msg->group);
    } else {
        link_make_head(&msg->group);
        table_add(&class->index, group, (uintptr_t)msg);
    }
    return true;
}

static ALWAYS_INLINE bool add_to_primary(struct mbx_match *m, struct match_class *class,
                                         struct mbx_match_msg *msg)
{
    uint64_t hash = deep_hash(m->deep, key_of(&msg->envelope), class->mask);

    if (unlikely(!table_has_space(&class->index)) ||
        unlikely(!table_put(&class->index, hash, (uintptr_t)msg)))
        return add_further(m, class, msg, hash);
    link_make_head(&msg->group);
    return true;
}

static OUT_OF_LINE bool add_to_nodes(struct mbx_match *m, struct match_class *class,
                                     struct mbx_match_msg *msg)
{
    struct mbx_match_deep *deep = m->deep;
    struct match_wanted wanted = {key_of(&msg->envelope), class->mask, deep};
    struct group group;
    uint32_t number;

    if ((!table_has_space(&class->index) && !grow(m, class, msg)) || !has_node(deep))
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

/* As unexpected_catch_up(), for the primary class.  Many messages in a row have one envelope:
 * such a message goes after the one before it, the youngest in the index. */
static inline struct mbx_match_link *
add_all_to_primary(struct mbx_match *m, struct match_class *class, struct mbx_match_link *link)
{
    const struct mbx_match_msg *before = NULL;

    for (; link != &m->msgs.all; link = link->next) {
        struct mbx_match_msg *msg = msg_of(link);

        if (before != NULL && unlikely(is_same_envelope(&before->envelope, &msg->envelope)))
            link_append(before->group.next, &msg->group);
        else if (unlikely(!add_to_primary(m, class, msg)))
            break;
        msg->at |= IN_PRIMARY;
        before = msg;
    }
    return link;
}

/* Indexes link, the oldest message that the index lacks, and all later ones.  Returns the first
 * that could not be, for lack of memory, or the list's head. */
static OUT_OF_LINE struct mbx_match_link *
unexpected_catch_up(struct mbx_match *m, struct match_class *class, struct mbx_match_link *link)
{
    struct mbx_match_deep *deep = m->deep;

    if (table_is_empty(&class->index) && table_is_empty(&deep->primary->index))
        deep->primary = class;
    if (likely(class == deep->primary))
        link = add_all_to_primary(m, class, link);
    else
        while (link != &m->msgs.all && add_to_nodes(m, class, msg_of(link)))
            link = link->next;
    class->indexed = link != &m->msgs.all ? msg_of(link)->seq : m->msgs.next;
    return link;
}

/* ---- out ---- */

static void remove_from_primary(struct mbx_match_deep *deep, struct mbx_match_msg *msg)
{
    struct match_class *class = deep->primary;

    /* the neighbour before the oldest is the youngest, or itself */
    if (!is_older(msg_of_group(msg->group.prev)->seq, msg->seq)) {
        uint64_t hash = deep_hash(deep, key_of(&msg->envelope), class->mask);

        msg_leaves_table(&class->index, msg, table_find(&class->index, hash, msg_is_same, msg));
        if (table_is_empty(&class->index))
            deep_trim(deep, &class->index);
    } else {
        link_remove(&msg->group);
    }
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
    if (table_is_empty(&class->index))
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

/* The oldest message from link on that has key, by a walk. */
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

/* The oldest message in the index of this class that has key, or NULL. */
static struct mbx_match_msg *look_up(const struct mbx_match_deep *deep,
                                     const struct match_class *class, struct match_key key)
{
    struct match_wanted wanted = {key, class->mask, deep};
    uint64_t hash = deep_hash(deep, key, wanted.mask);
    struct group group;

    if (class == deep->primary) {
        group = table_find(&class->index, hash, msg_is_wanted, &wanted);
        return group.bucket != NULL ? msg_of_head(group_head(group)) : NULL;
    }
    group = table_find(&class->index, hash, node_is_wanted, &wanted);
    return group.bucket != NULL ? node_of(deep, (uint32_t)group_head(group))->msg : NULL;
}

/* The oldest message that the index lacks, or the list's head, and the number of such
 * messages. */
static inline struct mbx_match_link *
first_unknown(struct mbx_match *m, const struct match_class *class, uint64_t *count)
{
    struct mbx_match_link *link = &m->msgs.all;

    *count = queue_count(&m->msgs);
    if (!is_older(msg_of(link->next)->seq, class->indexed))
        return link->next;
    for (*count = 0; !is_older(msg_of(link->prev)->seq, class->indexed); ++*count)
        link = link->prev;
    return link;
}

/* The oldest message that has key, if none in the index of this class has it.  Messages that
 * are walked without a match, or passed on a long walk, are indexed. */
static struct mbx_match_msg *search_rest(struct mbx_match *m, struct match_class *class,
                                         struct match_key key, uint64_t *steps)
{
    uint64_t count, before = *steps;
    struct mbx_match_link *link = first_unknown(m, class, &count);
    bool are_few = count <= m->options.short_max;
    struct mbx_match_msg *found = NULL;

    if (are_few)
        found = walk(m, link, key, class->mask, steps);
    if (found != NULL && *steps - before > DEEP_WAY)
        (void)unexpected_catch_up(m, class, link);
    if (found != NULL || link == &m->msgs.all)
        return found;
    link = unexpected_catch_up(m, class, link);
    if (are_few)
        return NULL;
    *steps += count + 1;
    found = look_up(m->deep, class, key);
    return found != NULL ? found : walk(m, link, key, class->mask, steps);
}

/* As unexpected_find(); has_none as in unexpected_take(). */
static struct mbx_match_msg *search(struct mbx_match *m, struct match_key key,
                                    struct match_mask mask, uint64_t *steps, bool has_none)
{
    struct match_class *class = has_none ? m->deep->primary : NULL;
    struct mbx_match_msg *found = msg_of(m->msgs.all.next);

    ++*steps;
    if (has_none && is_older(msg_of(m->msgs.all.prev)->seq, class->indexed))
        return NULL;
    if (found->at != 0 && key_fits(key_of(&found->envelope), key, mask))
        return found;
    if (class == NULL) {
        class = deep_get(m) != NULL ? deep_class(m, mask) : NULL;
        if (unlikely(class == NULL)) {
            m->count.overflowed++;
            return walk(m, m->msgs.all.next, key, mask, steps);
        }
        found = look_up(m->deep, class, key);
        if (found != NULL)
            return found;
    }
    return search_rest(m, class, key, steps);
}

struct mbx_match_msg *unexpected_find(struct mbx_match *m, struct match_key key,
                                      struct match_mask mask, uint64_t *steps)
{
    bool has_none = false;

    if (likely(m->deep != NULL) && likely(mask_is(&m->deep->primary->mask, mask))) {
        struct group group = unexpected_glance(m->deep, key, mask, &has_none);

        if (likely(group.bucket != NULL)) {
            ++*steps;
            return msg_of_head(group_head(group));
        }
    }
    return search(m, key, mask, steps, has_none);
}

struct mbx_match_msg *unexpected_take(struct mbx_match *m, struct match_key key,
                                      struct match_mask mask, uint64_t *steps,
                                      struct match_taker *taker, bool has_none)
{
    struct mbx_match_msg *found = search(m, key, mask, steps, has_none);

    if (found != NULL && taker_takes(taker, found) && found->at != 0)
        unexpected_remove(m, found);
    return found;
}

void unexpected_prefetch(const struct mbx_match *m, struct match_key key,
                         struct match_mask mask)
{
    const struct mbx_match_deep *deep = m->deep;

    /* the receives of one call are usually of one class */
    if (deep != NULL)
        table_prefetch(&deep->last->index, deep_hash(deep, key, mask));
}
