/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * posted.c - the tables of the posted receives.
 *
 * A receive that is in a table is in the group of its class and of what it wants.  The group's
 * head is its oldest receive; the ring through `group` comes back to it, so the youngest is the
 * head's neighbour on the other side.
 *
 * Those that are in no table yet are the youngest of the queue (I5): catch_up() begins behind
 * the others.
 */
#include "match/deep.h"

static struct mbx_match_recv *head_of(uintptr_t head)
{
    return (struct mbx_match_recv *)head; // NOLINT: a head is the pointer that was put there
}

static ALWAYS_INLINE bool recv_is_wanted(const void *wanted, uintptr_t head)
{
    return is_wanted(wanted, &head_of(head)->envelope);
}

static ALWAYS_INLINE bool recv_is_same(const void *recv, uintptr_t head)
{
    return recv == head_of(head);
}

uint64_t posted_hash_of_head(const void *arg, uintptr_t head)
{
    const struct match_class_of *of = arg;

    return deep_hash(of->deep, key_of(&head_of(head)->envelope), of->class->mask);
}

/* The classes that have receives have changed, or overflow has. */
static OUT_OF_LINE void look_for_only(struct mbx_match_deep *deep)
{
    bool is_one = deep->busy != 0 && (deep->busy & (deep->busy - 1)) == 0 &&
                  deep->overflow.next == &deep->overflow;

    deep->only = is_one ? &deep->classes[__builtin_ctzll(deep->busy)] : NULL;
}

static OUT_OF_LINE void become_busy(struct mbx_match_deep *deep,
                                    const struct match_class *class)
{
    deep->busy |= UINT64_C(1) << class->number;
    look_for_only(deep);
}

static OUT_OF_LINE void become_idle(struct mbx_match_deep *deep, struct match_class *class)
{
    deep->busy &= ~(UINT64_C(1) << class->number);
    look_for_only(deep);
    deep_trim(deep, &class->posted);
}

/* ---- in ---- */

static OUT_OF_LINE bool grow(const struct mbx_match_deep *deep, struct match_class *class)
{
    return table_grow(&class->posted, posted_hash_of_head,
                      &(const struct match_class_of){deep, class});
}

static inline bool add_to_class(struct mbx_match_deep *deep, struct match_class *class,
                                struct mbx_match_recv *recv)
{
    struct match_wanted wanted = {key_of(&recv->envelope), class->mask, deep};
    uint64_t hash = deep_hash(deep, wanted.key, wanted.mask);
    struct group group;

    if (unlikely(!table_has_room(&class->posted)) && !grow(deep, class))
        return false;
    group = table_find(&class->posted, hash, recv_is_wanted, &wanted);
    if (group.bucket != NULL) {
        link_append(&head_of(group_head(group))->group, &recv->group);
    } else {
        link_make_head(&recv->group);
        table_add(&class->posted, group, (uintptr_t)recv);
    }
    recv->at = class->number + 1;
    if (unlikely(class->recvs++ == 0))
        become_busy(deep, class);
    return true;
}

static OUT_OF_LINE void add_to_overflow(struct mbx_match *m, struct mbx_match_recv *recv)
{
    link_append(&m->deep->overflow, &recv->group);
    recv->at = CLASS_NONE + 1;
    look_for_only(m->deep);
    m->count.overflowed++;
}

static inline bool wants_the_same(const struct mbx_match_recv *a,
                                  const struct mbx_match_recv *b)
{
    return a->envelope.tag == b->envelope.tag && a->envelope.source == b->envelope.source &&
           a->envelope.context_id == b->envelope.context_id && a->ignore == b->ignore;
}

/* Programs post many receives for one envelope in a row: the one before is the youngest of its
 * group, and recv stands behind it. */
static inline bool add_behind(struct mbx_match *m, struct mbx_match_recv *recv)
{
    struct mbx_match_recv *before = recv_of(recv->link.prev);

    if (recv->link.prev == &m->recvs.all || !wants_the_same(before, recv) ||
        unlikely(before->at - 1 == CLASS_NONE))
        return false;
    recv->at = before->at;
    link_append(before->group.next, &recv->group);
    m->deep->classes[recv->at - 1].recvs++;
    return true;
}

/* The oldest that is in no table; those before it are.  False: there is no memory for it. */
static inline bool add(struct mbx_match *m, struct mbx_match_recv *recv)
{
    struct match_class *class;

    if (add_behind(m, recv))
        return true;
    class = deep_class(m, mask_of(&recv->envelope, recv->ignore));
    if (likely(class != NULL))
        return add_to_class(m->deep, class, recv);
    add_to_overflow(m, recv);
    return true;
}

/* The oldest that is in no table, or the list's head. */
static inline struct mbx_match_link *first_unknown(struct mbx_match *m)
{
    struct mbx_match_link *link = &m->recvs.all;

    if (recv_of(link->next)->at == 0)
        return link->next;
    while (recv_of(link->prev)->at == 0)
        link = link->prev;
    return link;
}

/* Puts what has been posted since the last time into tables.  The first that could not be, for
 * want of memory, or the list's head. */
static OUT_OF_LINE struct mbx_match_link *catch_up(struct mbx_match *m)
{
    struct mbx_match_link *link = first_unknown(m);

    while (link != &m->recvs.all && likely(add(m, recv_of(link))))
        link = link->next;
    return link;
}

/* ---- out ---- */

/* The oldest of the group goes. */
static inline void remove_head(struct match_class *class, const struct mbx_match_recv *recv,
                               struct group group)
{
    assert(group_head(group) == (uintptr_t)recv);
    if (likely(recv->group.next == &recv->group))
        table_remove(&class->posted, group);
    else
        group_set_head(group, (uintptr_t)recv_of_group(recv->group.next));
}

/* The rest, when recv is no head any more. */
static inline void unlink_recv(struct mbx_match_deep *deep, struct match_class *class,
                               struct mbx_match_recv *recv)
{
    link_remove(&recv->group);
    if (unlikely(--class->recvs == 0))
        become_idle(deep, class);
}

static OUT_OF_LINE void remove_from_overflow(struct mbx_match_deep *deep,
                                             struct mbx_match_recv *recv)
{
    link_remove(&recv->group);
    look_for_only(deep);
}

/* Is recv the oldest of its group?  The neighbour before the oldest is the youngest, or
 * itself. */
static inline bool is_head(const struct mbx_match_recv *recv)
{
    return !is_older(recv_of_group(recv->group.prev)->seq, recv->seq);
}

void posted_remove(struct mbx_match *m, struct mbx_match_recv *recv)
{
    struct mbx_match_deep *deep = m->deep;
    struct match_class *class;

    if (unlikely(recv->at - 1 == CLASS_NONE)) {
        remove_from_overflow(deep, recv);
        return;
    }
    class = &deep->classes[recv->at - 1];
    if (is_head(recv)) {
        uint64_t hash = deep_hash(deep, key_of(&recv->envelope), class->mask);

        remove_head(class, recv, table_find(&class->posted, hash, recv_is_same, recv));
    }
    unlink_recv(deep, class, recv);
}

/* ---- searches ---- */

/* The group that such a message meets in this class. */
static inline struct group search_class(const struct mbx_match_deep *deep,
                                        const struct match_class *class, struct match_key key)
{
    struct match_wanted wanted = {key, class->mask, deep};

    return table_find(&class->posted, deep_hash(deep, key, wanted.mask), recv_is_wanted,
                      &wanted);
}

static inline void consider(struct mbx_match_recv **best, struct mbx_match_recv *recv)
{
    if (*best == NULL || is_older(recv->seq, (*best)->seq))
        *best = recv;
}

/* The oldest of those from link on that accepts key; by_group: on overflow, where link is that of
 * a group. */
static struct mbx_match_recv *walk(const struct mbx_match_link *link,
                                   const struct mbx_match_link *end, bool by_group,
                                   struct match_key key, uint64_t *steps)
{
    for (; link != end; link = link->next) {
        struct mbx_match_recv *recv = by_group ? recv_of_group(link) : recv_of(link);

        ++*steps;
        if (key_fits(key_of(&recv->envelope), key, mask_of(&recv->envelope, recv->ignore)))
            return recv;
    }
    return NULL;
}

/* The oldest that accepts key: in any class, on overflow, or in no table from rest on. */
static OUT_OF_LINE struct mbx_match_recv *search_all(const struct mbx_match *m,
                                                     const struct mbx_match_link *rest,
                                                     struct match_key key, uint64_t *steps)
{
    const struct mbx_match_deep *deep = m->deep;
    struct mbx_match_recv *best = NULL;

    if (deep != NULL) {
        best = walk(deep->overflow.next, &deep->overflow, true, key, steps);
        for (uint64_t left = deep->busy; left != 0; left &= left - 1) {
            struct group group = search_class(deep, &deep->classes[__builtin_ctzll(left)], key);

            ++*steps;
            if (group.bucket != NULL)
                consider(&best, head_of(group_head(group)));
        }
    }
    return best != NULL ? best : walk(rest, &m->recvs.all, false, key, steps);
}

/* The first that is in no table, and cannot be, for want of memory; or the list's head. */
static inline struct mbx_match_link *prepare(struct mbx_match *m)
{
    if (likely(recv_of(m->recvs.all.prev)->at != 0))
        return &m->recvs.all;
    return deep_get(m) != NULL ? catch_up(m) : m->recvs.all.next;
}

static OUT_OF_LINE struct mbx_match_recv *take_of_all(struct mbx_match *m,
                                                      const struct mbx_match_link *rest,
                                                      struct match_key key, uint64_t *steps)
{
    struct mbx_match_recv *recv = search_all(m, rest, key, steps);

    if (recv != NULL && recv->at != 0)
        posted_remove(m, recv);
    return recv;
}

struct mbx_match_recv *posted_take(struct mbx_match *m, struct match_key key, uint64_t *steps)
{
    const struct mbx_match_link *rest = prepare(m);
    struct match_class *class = m->deep != NULL ? m->deep->only : NULL;
    struct mbx_match_recv *recv;
    struct group group;

    *steps = 1;
    if (unlikely(class == NULL || rest != &m->recvs.all))
        return take_of_all(m, rest, key, steps);
    group = search_class(m->deep, class, key);
    if (group.bucket == NULL)
        return NULL;
    recv = head_of(group_head(group));
    remove_head(class, recv, group);
    unlink_recv(m->deep, class, recv);
    *steps = 2;
    return recv;
}

struct mbx_match_recv *posted_first(struct mbx_match *m, struct match_key key)
{
    uint64_t steps = 0;

    return search_all(m, prepare(m), key, &steps);
}

/* ---- many at once ---- */

void posted_prefetch(const struct mbx_match *m, struct match_key key)
{
    const struct mbx_match_deep *deep = m->deep;

    for (uint64_t left = deep->busy; left != 0; left &= left - 1) {
        const struct match_class *class = &deep->classes[__builtin_ctzll(left)];

        table_prefetch(&class->posted, deep_hash(deep, key, class->mask));
    }
}

/* Its neighbours on the list are written when it goes. */
static void prefetch_neighbours(const struct mbx_match_recv *recv)
{
    prefetch_for_store(recv->link.prev);
    prefetch_for_store(recv->link.next);
}

static ALWAYS_INLINE bool any(const void *wanted, uintptr_t head)
{
    (void)wanted;
    (void)head;
    return true;
}

void posted_prefetch_heads(const struct mbx_match *m, struct match_key key, bool neighbours)
{
    const struct mbx_match_deep *deep = m->deep;

    for (uint64_t left = deep->busy; left != 0; left &= left - 1) {
        const struct match_class *class = &deep->classes[__builtin_ctzll(left)];
        struct group group = table_find(&class->posted, deep_hash(deep, key, class->mask), any,
                                        NULL); /* most likely */

        if (group.bucket == NULL)
            continue;
        if (neighbours)
            prefetch_neighbours(head_of(group_head(group)));
        else
            prefetch_for_store(head_of(group_head(group)));
    }
}
