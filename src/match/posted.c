/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * posted.c - the posted receives of a long queue.
 *
 * A receive is on the list of all, and in the group of its class and print.  The group's
 * head is its oldest receive; the ring through `group` comes back to it, so the youngest
 * is the head's neighbour on the other side.
 */
#include "match/deep.h"

#include <errno.h>

static struct mbx_match_recv *head_of(uintptr_t head)
{
    return (struct mbx_match_recv *)head; // NOLINT: a head is the pointer that was put there
}

static int add_to_class(struct mbx_match_deep *deep, struct mbx_match_recv *recv,
                        struct match_mask mask)
{
    struct match_class *class = &deep->classes[recv->at];
    struct group group;

    if (unlikely(table_reserve(&class->posted, 1) < 0))
        return -ENOMEM;
    group = table_group(&class->posted, deep_print(deep, key_of(&recv->envelope), mask));
    if (group_head(group) != 0) {
        link_append(&head_of(group_head(group))->group, &recv->group);
    } else {
        link_make_head(&recv->group);
        table_set_head(&class->posted, group, (uintptr_t)recv);
    }
    class->recvs++;
    deep->busy |= UINT64_C(1) << recv->at;
    return 0;
}

/* Any receive. */
static OUT_OF_LINE int add_by_print(struct mbx_match *m, struct mbx_match_recv *recv)
{
    struct match_mask mask = mask_of(&recv->envelope, recv->ignore);
    struct mbx_match_deep *deep = deep_get(m);

    if (unlikely(deep == NULL))
        return -ENOMEM;
    recv->at = deep_class(m, mask);
    if (unlikely(recv->at == CLASS_NONE)) {
        link_append(&deep->overflow, &recv->group);
        m->count.overflowed++;
    } else if (unlikely(add_to_class(deep, recv, mask) < 0)) {
        return -ENOMEM;
    }
    link_append(&m->recvs, &recv->link);
    return 0;
}

static inline bool wants_the_same(const struct mbx_match_recv *a,
                                  const struct mbx_match_recv *b)
{
    return a->envelope.tag == b->envelope.tag && a->envelope.source == b->envelope.source &&
           a->envelope.context_id == b->envelope.context_id && a->ignore == b->ignore;
}

/* Programs post many receives for one envelope in a row: the one before, which is the youngest
 * of all, is the youngest of its group, too, and recv stands behind it. */
int posted_add(struct mbx_match *m, struct mbx_match_recv *recv)
{
    struct mbx_match_recv *before = recv_of(m->recvs.prev);

    if (unlikely(m->recvs.prev == &m->recvs) || before->at == CLASS_NONE ||
        !wants_the_same(before, recv))
        return add_by_print(m, recv);
    recv->at = before->at;
    link_append(before->group.next, &recv->group);
    m->deep->classes[recv->at].recvs++;
    link_append(&m->recvs, &recv->link);
    return 0;
}

/* recv, the oldest of group, goes. */
static inline void remove_head(struct mbx_match_deep *deep, struct mbx_match_recv *recv,
                               struct group group)
{
    bool alone = recv->group.next == &recv->group;

    assert(group_head(group) == (uintptr_t)recv);
    table_set_head(&deep->classes[recv->at].posted, group,
                   alone ? 0 : (uintptr_t)recv_of_group(recv->group.next));
}

/* The rest, when recv is no head any more. */
static inline void unlink_recv(struct mbx_match_deep *deep, struct mbx_match_recv *recv)
{
    link_remove(&recv->link);
    link_remove(&recv->group);
    if (likely(recv->at != CLASS_NONE) && --deep->classes[recv->at].recvs == 0)
        deep->busy &= ~(UINT64_C(1) << recv->at);
}

/* Is recv the oldest of its group?  The neighbour before the oldest is the youngest, or
 * itself. */
static inline bool is_head(const struct mbx_match_recv *recv)
{
    return recv->at != CLASS_NONE && !is_older(recv_of_group(recv->group.prev)->seq, recv->seq);
}

void posted_remove(struct mbx_match *m, struct mbx_match_recv *recv)
{
    struct mbx_match_deep *deep = m->deep;

    if (is_head(recv)) {
        struct match_key key = key_of(&recv->envelope);

        remove_head(deep, recv,
                    table_place(&deep->classes[recv->at].posted,
                                deep_print(deep, key, deep->masks[recv->at])));
    }
    unlink_recv(deep, recv);
}

/* The oldest of the ring of head that accepts key: head itself, unless two keys share
 * their print. */
static struct mbx_match_recv *first_of_group(uintptr_t head, struct match_key key,
                                             struct match_mask mask, uint64_t *steps)
{
    struct mbx_match_recv *first = head_of(head), *recv = first;

    do {
        ++*steps;
        if (likely(key_fits(key_of(&recv->envelope), key, mask)))
            return recv;
        recv = recv_of_group(recv->group.next);
    } while (recv != first);
    return NULL;
}

/* The oldest on overflow that accepts key. */
static struct mbx_match_recv *first_of_overflow(const struct mbx_match_deep *deep,
                                                struct match_key key, uint64_t *steps)
{
    const struct mbx_match_link *link = deep->overflow.next;

    for (; link != &deep->overflow; link = link->next) {
        struct mbx_match_recv *recv = recv_of_group(link);

        ++*steps;
        if (key_fits(key_of(&recv->envelope), key, mask_of(&recv->envelope, recv->ignore)))
            return recv;
    }
    return NULL;
}

/* The oldest that was found so far, and the group of which it is the head, if it is. */
struct candidate {
    struct mbx_match_recv *recv;
    struct group group;
};

static inline void consider(struct candidate *best, struct mbx_match_recv *recv,
                            struct group group)
{
    if (recv != NULL && (best->recv == NULL || is_older(recv->seq, best->recv->seq)))
        *best = (struct candidate){recv, group};
}

static inline void search_class(const struct mbx_match_deep *deep, int class,
                                struct match_key key, struct candidate *best, uint64_t *steps)
{
    struct match_mask mask = deep->masks[class];
    struct group group = table_place(&deep->classes[class].posted, deep_print(deep, key, mask));

    ++*steps;
    if (group_head(group) != 0)
        consider(best, first_of_group(group_head(group), key, mask, steps), group);
}

/* Of several classes, and of overflow. */
static struct candidate search_classes(const struct mbx_match_deep *deep, struct match_key key,
                                       uint64_t *steps)
{
    struct candidate best = {.recv = NULL};

    for (uint64_t left = deep->busy; left != 0; left &= left - 1)
        search_class(deep, __builtin_ctzll(left), key, &best, steps);
    if (unlikely(deep->overflow.next != &deep->overflow))
        consider(&best, first_of_overflow(deep, key, steps), (struct group){.bucket = NULL});
    return best;
}

/* Has one class all receives? */
static inline bool is_one_class(const struct mbx_match_deep *deep)
{
    return (deep->busy & (deep->busy - 1)) == 0 && deep->busy != 0 &&
           likely(deep->overflow.next == &deep->overflow);
}

struct mbx_match_recv *posted_take(struct mbx_match *m, struct match_key key, uint64_t *steps)
{
    struct mbx_match_deep *deep = m->deep;
    struct candidate best = {.recv = NULL};

    if (likely(is_one_class(deep)))
        search_class(deep, __builtin_ctzll(deep->busy), key, &best, steps);
    else
        best = search_classes(deep, key, steps);
    if (best.recv == NULL)
        return NULL;
    if (likely(best.group.bucket != NULL && group_head(best.group) == (uintptr_t)best.recv))
        remove_head(deep, best.recv, best.group);
    unlink_recv(deep, best.recv);
    return best.recv;
}

struct mbx_match_recv *posted_first(const struct mbx_match *m, struct match_key key)
{
    uint64_t steps = 0;

    return search_classes(m->deep, key, &steps).recv;
}

void posted_prefetch_group(const struct mbx_match *m, struct match_key key,
                           struct match_mask mask)
{
    const struct mbx_match_deep *deep = m->deep;

    /* the receives of one call are mostly of one class */
    table_prefetch(&deep->classes[deep->class_last].posted, deep_print(deep, key, mask));
}

void posted_prefetch(const struct mbx_match *m, struct match_key key)
{
    const struct mbx_match_deep *deep = m->deep;

    for (uint64_t left = deep->busy; left != 0; left &= left - 1) {
        int class = __builtin_ctzll(left);

        table_prefetch(&deep->classes[class].posted, deep_print(deep, key, deep->masks[class]));
    }
}

/* Its neighbours on the list are written when it goes. */
static void prefetch_neighbours(const struct mbx_match_recv *recv)
{
    __builtin_prefetch(recv->link.prev, 1);
    __builtin_prefetch(recv->link.next, 1);
}

static void prefetch_recv(const struct mbx_match_recv *recv)
{
    __builtin_prefetch(&recv->envelope, 1);
    __builtin_prefetch(&recv->state, 1);
}

void posted_prefetch_heads(const struct mbx_match *m, struct match_key key, bool neighbours)
{
    const struct mbx_match_deep *deep = m->deep;

    for (uint64_t left = deep->busy; left != 0; left &= left - 1) {
        int class = __builtin_ctzll(left);
        uintptr_t head =
            table_head(&deep->classes[class].posted, deep_print(deep, key, deep->masks[class]));

        if (head == 0)
            continue;
        if (neighbours)
            prefetch_neighbours(head_of(head));
        else
            prefetch_recv(head_of(head));
    }
}
