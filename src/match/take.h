/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * take.h - mbx_match_take() for a long queue, inlined into callers with their own `fits`.
 *
 *   a glance into the index ── found, and it fits at once ──> it is taken       no call
 *       │                         └── otherwise ────────────> match_take_glanced
 *       └── nothing, or it is in several indexes ───────────> match_take_search, match_take_search_rest
 *
 * The head of match.c explains the words _walk, _glance and _search, and why these functions
 * are out of line.
 */
#ifndef MATCH_TAKE_H
#define MATCH_TAKE_H

#include "match/deep.h"

/* ---- a message leaves ---- */

static ALWAYS_INLINE void queue_leave(struct mbx_match_queue *queue)
{
    queue->full_at++;
}

/* The number of entries that have left it. */
static inline uint64_t queue_left(const struct mbx_match_queue *queue)
{
    return queue->full_at - queue->most;
}

/* Takes msg, which is in no table, out of the queue. */
static ALWAYS_INLINE void unqueue_msg(struct mbx_match *m, struct mbx_match_msg *msg)
{
    link_remove(&msg->link);
    msg->state = MBX_MATCH_IDLE;
    queue_leave(&m->msgs);
}

/* Counts a search of this many steps, which found an entry or not. */
static inline void count_steps(struct mbx_match_tally *count, uint64_t steps, bool has_found)
{
    count->further_steps += steps - has_found;
    if (steps > count->search_max)
        count->search_max = steps;
}

/* The oldest message of a long queue that such a receive accepts, if a glance into the index of
 * the primary class finds it, and it is in no other index; *group is its place.  Otherwise
 * NULL.  has_none as in unexpected_take(). */
static ALWAYS_INLINE struct mbx_match_msg *glance_msg(const struct mbx_match *m,
                                                      struct match_key key,
                                                      struct match_mask mask,
                                                      struct group *group, bool *has_none)
{
    struct mbx_match_deep *deep = m->deep;
    struct mbx_match_msg *msg;

    *has_none = false;
    if (unlikely(deep == NULL) || unlikely(!mask_is(&deep->primary->mask, mask)))
        return NULL;
    *group = unexpected_glance(deep, key, mask, has_none);
    if (unlikely(group->bucket == NULL))
        return NULL;
    msg = msg_of_head(group_head(*group));
    return likely(msg->at == IN_PRIMARY) ? msg : NULL;
}

/* Takes the message that glance_msg() has found out of its queue and its index. */
static ALWAYS_INLINE void glanced_msg_leaves(struct mbx_match *m, struct mbx_match_msg *msg,
                                             struct group group)
{
    struct table *index = &m->deep->primary->index;

    unqueue_msg(m, msg);
    count_steps(&m->count, 2, true);
    msg_leaves_table(index, msg, group);
    if (unlikely(table_is_empty(index)))
        deep_trim(m->deep, index);
}

/* ---- match.c: searches that need more than a glance ---- */

/* Takes a message from a long queue in which a glance has found none. */
struct mbx_match_msg *match_take_search(struct mbx_match *m, struct match_key key,
                                        struct match_mask mask, mbx_match_fits_fn *fits,
                                        const void *arg);
/* Takes a message from a long queue; no message in the index of the primary class, which has
 * this mask, has key. */
struct mbx_match_msg *match_take_search_rest(struct mbx_match *m, struct match_key key,
                                             struct match_mask mask, mbx_match_fits_fn *fits,
                                             const void *arg);
/* Takes a message from a short queue; messages wait, and the oldest is not accepted or is in an
 * index. */
struct mbx_match_msg *match_take_walk(struct mbx_match *m, struct match_key key,
                                      uint64_t ignore, mbx_match_fits_fn *fits,
                                      const void *arg);
/* Takes msg, which glance_msg() has found at group, if it fits; otherwise NULL. */
struct mbx_match_msg *match_take_glanced(struct mbx_match *m, struct match_key key,
                                         struct match_mask mask, mbx_match_fits_fn *fits,
                                         const void *arg, struct mbx_match_msg *msg,
                                         struct group group);

/* Takes a message from a long queue.  soon answers as fits(), but may return false to avoid a
 * call; it may be NULL. */
static ALWAYS_INLINE struct mbx_match_msg *
match_take_glance(struct mbx_match *m, struct match_key key, struct match_mask mask,
                  mbx_match_fits_fn *soon, mbx_match_fits_fn *fits, const void *arg)
{
    struct mbx_match_msg *msg;
    struct group group;
    bool has_none;

    msg = glance_msg(m, key, mask, &group, &has_none);
    if (unlikely(msg == NULL))
        return has_none ? match_take_search_rest(m, key, mask, fits, arg)
                        : match_take_search(m, key, mask, fits, arg);
    if (soon == NULL || unlikely(!soon(arg, msg)))
        return match_take_glanced(m, key, mask, fits, arg, msg, group);
    glanced_msg_leaves(m, msg, group);
    return msg;
}

typedef struct mbx_match_msg *match_take_fn(struct mbx_match *m, struct match_key key,
                                            struct match_mask mask, mbx_match_fits_fn *fits,
                                            const void *arg);

/* mbx_match_take(), inlined into its caller.  take_glance calls match_take_glance(). */
static ALWAYS_INLINE struct mbx_match_msg *
match_take(struct mbx_match *m, const struct mbx_match_envelope *envelope, uint64_t ignore,
           mbx_match_fits_fn *fits, const void *arg, match_take_fn *take_glance)
{
    struct mbx_match_msg *oldest = msg_of(m->msgs.all.next);

    if (queue_is_empty(&m->msgs))
        return NULL;
    if (unlikely(oldest->at != 0 || !mbx_match_accepts(envelope, ignore, &oldest->envelope)))
        return queue_count(&m->msgs) > m->options.short_max
                   ? take_glance(m, key_of(envelope), mask_of(envelope, ignore), fits, arg)
                   : match_take_walk(m, key_of(envelope), ignore, fits, arg);
    if (unlikely(!fits(arg, oldest)))
        return NULL;
    unqueue_msg(m, oldest);
    return oldest;
}

#endif
