/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * posted.c - the tables of the posted receives.
 *
 * A receive in a table belongs to a group: the receives of its class that compare equal.  The
 * group's head is its oldest receive; the ring through `group` returns to it, so the youngest
 * is the head's neighbour on the other side.
 *
 * Receives in no table yet are the youngest of the queue (I5), so the tables are searched
 * first: a match there is older.  If there is none, the others are walked if they are few, and
 * go into the tables if none matches; if they are many, they go there at once, and the tables
 * are searched again.  So receives go into the tables many at a time, and each is walked
 * without a match at most once.
 */
#include "match/deep.h"

static ALWAYS_INLINE bool recv_is_same(const void *recv, uintptr_t head)
{
    return recv == recv_of_head(head);
}

uint64_t posted_hash_of_head(const void *arg, uintptr_t head)
{
    const struct match_class_of *of = arg;

    return deep_hash(of->deep, key_of(&recv_of_head(head)->envelope), of->class->mask);
}

/* Updates deep->only after busy or overflow has changed. */
static OUT_OF_LINE void find_only(struct mbx_match_deep *deep)
{
    bool is_one = deep->busy != 0 && (deep->busy & (deep->busy - 1)) == 0 &&
                  deep->overflow.next == &deep->overflow;

    deep->only = is_one ? &deep->classes[__builtin_ctzll(deep->busy)] : NULL;
}

static OUT_OF_LINE void become_busy(struct mbx_match_deep *deep,
                                    const struct match_class *class)
{
    deep->busy |= UINT64_C(1) << class->number;
    find_only(deep);
}

void posted_become_idle(struct mbx_match_deep *deep, struct match_class *class)
{
    deep->busy &= ~(UINT64_C(1) << class->number);
    find_only(deep);
    deep_trim(deep, &class->posted);
}

/* ---- in ---- */

/* Makes space for recv and all receives that follow it. */
static OUT_OF_LINE bool grow(const struct mbx_match *m, struct match_class *class,
                             const struct mbx_match_recv *recv)
{
    return table_grow(&class->posted, queue_rest(&m->recvs, recv->seq, class->posted.used),
                      posted_hash_of_head, &(const struct match_class_of){m->deep, class});
}

/* As add_to_class(), for all cases. */
static OUT_OF_LINE bool add_further(struct mbx_match *m, struct match_class *class,
                                    struct mbx_match_recv *recv, uint64_t hash)
{
    struct match_wanted wanted = {key_of(&recv->envelope), class->mask, m->deep};
    struct group group;

    if (!table_has_space(&class->posted) && !grow(m, class, recv))
        return false;
    group = table_find(&class->posted, hash, recv_is_wanted, &wanted);
    if (group.bucket != NULL) {
        link_append(&recv_of_head(group_head(group))->group, &recv->group);
    } else {
        link_make_head(&recv->group);
        table_add(&class->posted, group, (uintptr_t)recv);
    }
    recv->at = class->number + 1;
    return true;
}

/* Puts recv into the table of its class.  False: no memory. */
static ALWAYS_INLINE bool add_to_class(struct mbx_match *m, struct match_class *class,
                                       struct mbx_match_recv *recv)
{
    uint64_t hash = deep_hash(m->deep, key_of(&recv->envelope), class->mask);

    if (unlikely(!table_has_space(&class->posted)) ||
        unlikely(!table_put(&class->posted, hash, (uintptr_t)recv)))
        return add_further(m, class, recv, hash);
    link_make_head(&recv->group);
    recv->at = class->number + 1;
    return true;
}

static OUT_OF_LINE void add_to_overflow(struct mbx_match *m, struct mbx_match_recv *recv)
{
    link_append(&m->deep->overflow, &recv->group);
    recv->at = CLASS_NONE + 1;
    find_only(m->deep);
    m->count.overflowed++;
}

static inline void add_behind(struct mbx_match_recv *before, struct mbx_match_recv *recv)
{
    recv->at = before->at;
    link_append(before->group.next, &recv->group);
}

static inline bool is_of_any(const struct mbx_match_recv *recv)
{
    return recv->envelope.source == MBX_MATCH_ANY_SOURCE;
}

/* Puts *link, which is of this class, and the receives directly after it that have the same
 * mask into the table of the class.  *link becomes the first that is not in it; false: for lack
 * of memory.  Programs post many receives for one envelope in a row: such a receive goes after
 * the one before it, the youngest of its group. */
static inline bool add_run(struct mbx_match *m, struct match_class *class,
                           struct mbx_match_link **link)
{
    struct mbx_match_recv *recv = recv_of(*link), *before;
    uint64_t ignore = recv->ignore;
    bool is_any = is_of_any(recv), was_empty = table_is_empty(&class->posted);
    bool has_space = add_to_class(m, class, recv);

    while (likely(has_space)) {
        before = recv;
        recv = recv_of(recv->link.next);
        if (&recv->link == &m->recvs.all || recv->ignore != ignore || is_of_any(recv) != is_any)
            break;
        if (unlikely(is_same_envelope(&before->envelope, &recv->envelope)))
            add_behind(before, recv);
        else
            has_space = add_to_class(m, class, recv);
    }
    if (was_empty && !table_is_empty(&class->posted))
        become_busy(m->deep, class);
    *link = &recv->link;
    return has_space;
}

/* Puts link, the oldest receive in no table, and all later ones into tables.  Returns the first
 * that could not be, for lack of memory, or the list's head. */
static OUT_OF_LINE struct mbx_match_link *posted_catch_up(struct mbx_match *m,
                                                          struct mbx_match_link *link)
{
    bool has_space = true;

    while (link != &m->recvs.all && has_space) {
        struct mbx_match_recv *recv = recv_of(link);
        struct match_class *class = deep_class(m, mask_of(&recv->envelope, recv->ignore));

        if (likely(class != NULL)) {
            has_space = add_run(m, class, &link);
        } else {
            add_to_overflow(m, recv);
            link = link->next;
        }
    }
    return link;
}

/* ---- out ---- */

static OUT_OF_LINE void remove_from_overflow(struct mbx_match_deep *deep,
                                             struct mbx_match_recv *recv)
{
    link_remove(&recv->group);
    find_only(deep);
}

static inline void remove_head(struct mbx_match_deep *deep, struct match_class *class,
                               struct mbx_match_recv *recv, struct group group)
{
    recv_leaves_table(&class->posted, recv, group);
    if (unlikely(table_is_empty(&class->posted)))
        posted_become_idle(deep, class);
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

        remove_head(deep, class, recv, table_find(&class->posted, hash, recv_is_same, recv));
    } else {
        link_remove(&recv->group);
    }
}

/* ---- searches ---- */

/* The group in this class whose receives accept such a message. */
static inline struct group search_class(const struct mbx_match_deep *deep,
                                        const struct match_class *class, struct match_key key)
{
    struct match_wanted wanted = {key, class->mask, deep};

    return table_find(&class->posted, deep_hash(deep, key, wanted.mask), recv_is_wanted,
                      &wanted);
}

static inline bool is_better(const struct mbx_match_recv *recv,
                             const struct mbx_match_recv *best)
{
    return best == NULL || is_older(recv->seq, best->seq);
}

/* The place of a receive that was found. */
struct place {
    struct match_class *class; /* NULL: in no table */
    struct group group;
};

static inline bool recv_accepts(const struct mbx_match_recv *recv, struct match_key key)
{
    return key_fits(key_of(&recv->envelope), key, mask_of(&recv->envelope, recv->ignore));
}

/* The oldest receive from link on that accepts key; by_group: on overflow, where link is the
 * link of a group. */
static struct mbx_match_recv *walk(const struct mbx_match_link *link,
                                   const struct mbx_match_link *end, bool by_group,
                                   struct match_key key, uint64_t *steps)
{
    for (; link != end; link = link->next) {
        struct mbx_match_recv *recv = by_group ? recv_of_group(link) : recv_of(link);

        ++*steps;
        if (recv_accepts(recv, key))
            return recv;
    }
    return NULL;
}

/* The oldest receive in any class or on overflow that accepts key. */
static OUT_OF_LINE struct mbx_match_recv *search_tables(struct mbx_match_deep *deep,
                                                        struct match_key key, uint64_t *steps,
                                                        struct place *place)
{
    struct mbx_match_recv *best = walk(deep->overflow.next, &deep->overflow, true, key, steps);

    for (uint64_t left = deep->busy; left != 0; left &= left - 1) {
        struct match_class *class = &deep->classes[__builtin_ctzll(left)];
        struct group group = search_class(deep, class, key);

        ++*steps;
        if (group.bucket != NULL && is_better(recv_of_head(group_head(group)), best)) {
            best = recv_of_head(group_head(group));
            *place = (struct place){class, group};
        }
    }
    return best;
}

/* The oldest receive in no table, or the list's head, and the number of such receives. */
static inline struct mbx_match_link *first_unknown(struct mbx_match *m, uint64_t *count)
{
    struct mbx_match_link *link = &m->recvs.all;

    *count = queue_count(&m->recvs);
    if (recv_of(link->next)->at == 0)
        return link->next;
    for (*count = 0; recv_of(link->prev)->at == 0; ++*count)
        link = link->prev;
    return link;
}

/* The oldest receive that accepts key, if none in a table does.  Receives that are walked
 * without a match, or passed on a long walk, go into the tables. */
static OUT_OF_LINE struct mbx_match_recv *search_rest(struct mbx_match *m, struct match_key key,
                                                      uint64_t *steps, struct place *place)
{
    uint64_t count, before = *steps;
    struct mbx_match_link *link = first_unknown(m, &count);
    bool are_few = count <= m->options.short_max;
    struct mbx_match_recv *recv = NULL;

    if (are_few)
        recv = walk(link, &m->recvs.all, false, key, steps);
    if (recv != NULL && *steps - before > DEEP_WAY && m->deep != NULL)
        (void)posted_catch_up(m, link);
    if (recv != NULL || link == &m->recvs.all)
        return recv;
    if (deep_get(m) != NULL)
        link = posted_catch_up(m, link);
    if (are_few)
        return NULL;
    if (m->deep != NULL)
        recv = search_tables(m->deep, key, steps, place);
    return recv != NULL ? recv : walk(link, &m->recvs.all, false, key, steps);
}

struct mbx_match_recv *posted_take(struct mbx_match *m, struct match_key key, uint64_t *steps,
                                   bool has_none)
{
    struct mbx_match_recv *recv = NULL, *oldest = recv_of(m->recvs.all.next);
    struct place place = {.class = NULL};

    *steps = 1 + has_none;
    if (has_none && recv_of(m->recvs.all.prev)->at != 0)
        return NULL;
    if (!has_none && oldest->at != 0 && recv_accepts(oldest, key))
        recv = oldest;
    else if (!has_none && m->deep != NULL)
        recv = search_tables(m->deep, key, steps, &place);
    if (recv == NULL)
        recv = search_rest(m, key, steps, &place);
    if (place.class != NULL)
        remove_head(m->deep, place.class, recv, place.group);
    else if (recv != NULL && recv->at != 0)
        posted_remove(m, recv);
    return recv;
}

struct mbx_match_recv *posted_first(struct mbx_match *m, struct match_key key)
{
    struct mbx_match_recv *recv = NULL;
    struct place place;
    uint64_t steps = 0;

    if (m->deep != NULL)
        recv = search_tables(m->deep, key, &steps, &place);
    return recv != NULL ? recv : search_rest(m, key, &steps, &place);
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

/* Its neighbours on the list are written when it is removed. */
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
                                        NULL); /* the most likely match */

        if (group.bucket == NULL)
            continue;
        if (neighbours)
            prefetch_neighbours(recv_of_head(group_head(group)));
        else
            prefetch_for_store(recv_of_head(group_head(group)));
    }
}
