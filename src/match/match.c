/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.c - matching that keeps MPI's order, at the same cost for any length.
 *
 * Each of the two queues is a list in order of age.
 *
 *      recvs   r2 - r5 - r6 - ...          msgs   m1 - m3 - ...
 *
 * The oldest entry is tried first, since in most programs it matches, and taking it needs only
 * the list.  The others are walked if they are few (16), and otherwise found through tables
 * (deep.h), which are made when a search first needs them, and brought up to date when one
 * needs them again.  So a queue of any length costs the same as a list as long as entries match
 * in the order in which they were queued.
 *
 * An entry that does not match at once is queued.  As each queue is searched before an entry
 * joins the other, a matching pair of a receive and a message never waits at the same time.
 *
 * Each verb (post, take, peek, find, arrive) tries the head, which is the oldest entry,
 * itself.  The other cases are in functions that are named after the verb and the case:
 *
 *   _tail     the head does not match, or is in a table: chooses between the next two
 *   _walk     at most 16 entries: the list is walked
 *   _glance   more: one bucket of one table is searched
 *   _search   the glance found nothing: all tables are searched, and the entries that they
 *             lack (deep.h)
 *   _none     no entry matches: this is counted, and the new entry is queued
 *
 * A further word names a known condition: some entries of the list are in tables
 * (_walk_indexed), or the table of the glance has no match (_search_rest).  _probed handles a
 * receive that follows a probe, and _glanced a message that a glance found and that may not fit
 * the caller's buffer.
 *
 * All rare cases are out of line, and called last, with all their arguments: so the call is a
 * tail call, and the usual path saves no registers and reads no memory for it.
 *
 * The ages of a queue are consecutive, so they also count its entries: most results of
 * mbx_match_counters_get() are derived from them.
 *
 * The result of a search by a probe is remembered for the receive that follows.  The receive
 * takes that message if it accepts it and compares all bits that the probe compared: an older
 * message that it accepts would have been found by the probe.
 *
 * Invariants (mbx_match_is_valid, valid.c): I1 to I4 of match.h, I1 to I5 of deep.h, and
 *   I5  full_at - next == most - entries, of either queue
 *   I6  a queue's list is consistent
 *   I7  if no message has left the queue since the probe, the probed message is queued, and is
 *       the oldest that such a receive accepts
 *
 * Ages are compared by signed difference, so they may pass 2^64; two entries in one
 * queue are never 2^63 posts or arrivals apart.
 */
#include "match/deep.h"
#include "match/take.h"

#define SHORT_MAX 16 /* the longest queue that is walked */
#define BATCH     16 /* entries whose tables are prefetched */

static uint32_t in_range(uint32_t value, uint32_t max)
{
    return value == 0 || value > max ? max : value;
}

static void queue_init(struct mbx_match_queue *queue, uint64_t first_seq)
{
    link_make_head(&queue->all);
    queue->next = queue->full_at = first_seq;
}

void mbx_match_init(struct mbx_match *m, const struct mbx_match_options *options)
{
    *m = (struct mbx_match){.deep = NULL};
    if (options != NULL)
        m->options = *options;
    m->options.short_max = in_range(m->options.short_max, SHORT_MAX);
    m->options.classes = in_range(m->options.classes, MBX_MATCH_CLASSES);
    m->options.hash_bits = in_range(m->options.hash_bits, 64);
    queue_init(&m->recvs, m->options.first_seq);
    queue_init(&m->msgs, m->options.first_seq);
}

/* The entries become idle, so that a late cancel or extract is refused and does not access an
 * engine that is gone. */
void mbx_match_fini(struct mbx_match *m)
{
    struct mbx_match_options options = m->options;

    for (struct mbx_match_recv *recv = NULL; (recv = mbx_match_next_recv(m, recv)) != NULL;)
        recv->state = MBX_MATCH_IDLE;
    for (struct mbx_match_msg *msg = NULL; (msg = mbx_match_next_msg(m, msg)) != NULL;)
        msg->state = MBX_MATCH_IDLE;
    deep_destroy(m);
    mbx_match_init(m, &options);
}

/* ---- queues ---- */

/* The age of an entry that is about to be queued. */
static ALWAYS_INLINE uint64_t queue_enter(struct mbx_match_queue *queue)
{
    if (unlikely(queue->next == queue->full_at)) {
        queue->most++;
        queue->full_at++;
    }
    return queue->next++;
}

/* The number of entries, read exactly here: otherwise the compiler reads full_at before the
 * head is tried. */
static ALWAYS_INLINE uint64_t queue_count_here(const struct mbx_match_queue *queue)
{
    return queue->most - (*(const volatile uint64_t *)&queue->full_at - queue->next);
}

static ALWAYS_INLINE void queue_recv(struct mbx_match *m, struct mbx_match_recv *recv)
{
    recv->seq = queue_enter(&m->recvs);
    recv->state = MBX_MATCH_QUEUED;
    recv->at = 0;
    link_append(&m->recvs.all, &recv->link);
}

/* Takes recv, which has left its table, out of its queue. */
static ALWAYS_INLINE void unqueue_recv(struct mbx_match *m, struct mbx_match_recv *recv)
{
    link_remove(&recv->link);
    recv->state = MBX_MATCH_IDLE;
    queue_leave(&m->recvs);
}

static ALWAYS_INLINE void queue_msg(struct mbx_match *m, struct mbx_match_msg *msg)
{
    msg->seq = queue_enter(&m->msgs);
    msg->state = MBX_MATCH_QUEUED;
    msg->at = 0;
    link_append(&m->msgs.all, &msg->link);
}

static inline bool accepts(const struct mbx_match_recv *recv,
                           const struct mbx_match_envelope *envelope)
{
    return mbx_match_accepts(&recv->envelope, recv->ignore, envelope);
}

/* Does recv accept such a message?  For the oldest entry: the tag, which is usually equal, is
 * compared first. */
static ALWAYS_INLINE bool is_for(const struct mbx_match_recv *recv,
                                 const struct mbx_match_envelope *envelope)
{
    return (recv->envelope.tag == envelope->tag ||
            ((recv->envelope.tag ^ envelope->tag) & ~recv->ignore) == 0) &&
           recv->envelope.context_id == envelope->context_id &&
           (recv->envelope.source == envelope->source ||
            recv->envelope.source == MBX_MATCH_ANY_SOURCE);
}

/* ---- a message for a receive ---- */

/* Does this receive take the probed message? */
static bool is_probed(const struct mbx_match *m, const struct mbx_match_envelope *wanted,
                      uint64_t ignore)
{
    const struct mbx_match_probed *probed = &m->probed;

    return probed->msg != NULL && probed->left == queue_left(&m->msgs) &&
           (ignore & ~probed->ignore) == 0 &&
           (probed->is_any_source || wanted->source != MBX_MATCH_ANY_SOURCE) &&
           mbx_match_accepts(wanted, ignore, &probed->msg->envelope);
}

/* Takes msg, which is queued, out of its indexes and the queue. */
static OUT_OF_LINE int take_msg_from_table(struct mbx_match *m, struct mbx_match_msg *msg)
{
    unexpected_remove(m, msg);
    unqueue_msg(m, msg);
    return 0;
}

static ALWAYS_INLINE int take_msg(struct mbx_match *m, struct mbx_match_msg *msg)
{
    if (unlikely(msg->at != 0))
        return take_msg_from_table(m, msg);
    unqueue_msg(m, msg);
    return 0;
}

/* Walks the list of count messages to the oldest that such a receive accepts, or NULL.  The
 * first is skipped if it is known not to be accepted.  The count ends the walk, so the result
 * is a message, and not the head of the list. */
static ALWAYS_INLINE struct mbx_match_msg *walk_msgs(const struct mbx_match *m,
                                                     const struct mbx_match_envelope *wanted,
                                                     uint64_t ignore, uint64_t count,
                                                     bool is_first_known, uint64_t *steps)
{
    const struct mbx_match_link *link = is_first_known ? m->msgs.all.next : &m->msgs.all;

    for (uint64_t left = count - is_first_known; left > 0; left--) {
        link = link->next;
        if (mbx_match_accepts(wanted, ignore, &msg_of(link)->envelope)) {
            assert(link != &m->msgs.all);
            *steps = count - left + 1;
            return msg_of(link);
        }
    }
    *steps = count;
    return NULL;
}

/* Posts recv to a long queue in which a glance has found no message.  has_none as in unexpected_take(). */
static OUT_OF_LINE int post_search(struct mbx_match *m, struct mbx_match_recv *recv,
                                   struct mbx_match_msg **msg, bool has_none)
{
    struct match_taker any = {.fits = NULL};
    uint64_t steps = 1;
    struct mbx_match_msg *found =
        unexpected_take(m, key_of(&recv->envelope), mask_of(&recv->envelope, recv->ignore),
                        &steps, &any, has_none);

    count_steps(&m->count, steps, found != NULL);
    *msg = found;
    if (found != NULL)
        unqueue_msg(m, found);
    else
        queue_recv(m, recv);
    return 0;
}

/* Posts recv to a long queue of messages. */
static OUT_OF_LINE int post_glance(struct mbx_match *m, struct mbx_match_recv *recv,
                                   struct mbx_match_msg **msg)
{
    struct mbx_match_msg *found;
    struct group group;
    bool has_none;

    found = glance_msg(m, key_of(&recv->envelope), mask_of(&recv->envelope, recv->ignore),
                       &group, &has_none);
    if (unlikely(found == NULL))
        return post_search(m, recv, msg, has_none);
    *msg = found;
    glanced_msg_leaves(m, found, group);
    return 0;
}

/* Posts recv, which accepts none of the count messages that were walked. */
static OUT_OF_LINE int post_none(struct mbx_match *m, struct mbx_match_recv *recv,
                                 struct mbx_match_msg **msg, uint64_t count)
{
    count_steps(&m->count, count, false);
    *msg = NULL;
    queue_recv(m, recv);
    return 0;
}

/* Posts recv to a short queue of messages, some of which are in an index: one that is taken leaves it. */
static OUT_OF_LINE int post_walk_indexed(struct mbx_match *m, struct mbx_match_recv *recv,
                                         struct mbx_match_msg **msg)
{
    uint64_t count = queue_count(&m->msgs), steps;
    struct mbx_match_msg *found =
        walk_msgs(m, &recv->envelope, recv->ignore, count, false, &steps);

    if (found == NULL)
        return post_none(m, recv, msg, count);
    count_steps(&m->count, steps, true);
    *msg = found;
    return take_msg(m, found);
}

/* Posts recv to a short queue of messages.  The oldest does not match or is in an index.  If it is in
 * no index, no message is (I2 of deep.h). */
static OUT_OF_LINE int post_walk(struct mbx_match *m, struct mbx_match_recv *recv,
                                 struct mbx_match_msg **msg)
{
    uint64_t count = queue_count(&m->msgs), steps;
    struct mbx_match_msg *found;

    if (unlikely(msg_of(m->msgs.all.next)->at != 0))
        return post_walk_indexed(m, recv, msg);
    found = walk_msgs(m, &recv->envelope, recv->ignore, count, true, &steps);
    if (found == NULL)
        return post_none(m, recv, msg, count);
    count_steps(&m->count, steps, true);
    unqueue_msg(m, found);
    *msg = found;
    return 0;
}

/* Posts recv after a probe, which may have found the message for it.  The oldest message does not match
 * or is in an index. */
static OUT_OF_LINE int post_probed(struct mbx_match *m, struct mbx_match_recv *recv,
                                   struct mbx_match_msg **msg)
{
    if (!is_probed(m, &recv->envelope, recv->ignore))
        return queue_count(&m->msgs) > m->options.short_max ? post_glance(m, recv, msg)
                                                            : post_walk(m, recv, msg);
    *msg = m->probed.msg;
    return take_msg(m, *msg);
}

/* Posts recv; messages wait, and the oldest does not match or is in an index. */
static OUT_OF_LINE int post_tail(struct mbx_match *m, struct mbx_match_recv *recv,
                                 struct mbx_match_msg **msg)
{
    if (unlikely(m->probed.msg != NULL))
        return post_probed(m, recv, msg);
    return queue_count(&m->msgs) > m->options.short_max ? post_glance(m, recv, msg)
                                                        : post_walk(m, recv, msg);
}

int mbx_match_post(struct mbx_match *m, struct mbx_match_recv *recv, struct mbx_match_msg **msg)
{
    struct mbx_match_msg *oldest = msg_of(m->msgs.all.next);

    if (queue_is_empty(&m->msgs)) {
        *msg = NULL;
        queue_recv(m, recv);
        return 0;
    }
    if (unlikely(oldest->at != 0 || !is_for(recv, &oldest->envelope)))
        return post_tail(m, recv, msg);
    unqueue_msg(m, oldest);
    *msg = oldest;
    return 0;
}

/* Remembers that a search for such a receive has found this message, which stays queued, or none. */
static inline void remember(struct mbx_match *m, struct mbx_match_msg *found,
                            const struct mbx_match_envelope *wanted, uint64_t ignore)
{
    m->probed = (struct mbx_match_probed){found, queue_left(&m->msgs), ignore,
                                          wanted->source == MBX_MATCH_ANY_SOURCE};
}

/* Takes found, which such a receive accepts, if it fits.  Otherwise remembers it and returns
 * NULL.  found may be NULL. */
static struct mbx_match_msg *take_if_fits(struct mbx_match *m,
                                          const struct mbx_match_envelope *envelope,
                                          uint64_t ignore, mbx_match_fits_fn *fits,
                                          const void *arg, struct mbx_match_msg *found,
                                          uint64_t steps)
{
    if (found == NULL)
        return NULL;
    if (!fits(arg, found)) {
        remember(m, found, envelope, ignore);
        return NULL;
    }
    count_steps(&m->count, steps, true);
    take_msg(m, found);
    return found;
}

/* Takes a message from a long queue in which a glance has found none.  has_none as in
 * unexpected_take(). */
static struct mbx_match_msg *take_search(struct mbx_match *m, struct match_key key,
                                         struct match_mask mask, mbx_match_fits_fn *fits,
                                         const void *arg, bool has_none)
{
    const struct mbx_match_envelope envelope = envelope_of(key);
    struct match_taker taker = {.fits = fits, .arg = arg};
    struct mbx_match_msg *found;
    uint64_t steps = 1;

    if (is_probed(m, &envelope, ~mask.tag))
        return take_if_fits(m, &envelope, ~mask.tag, fits, arg, m->probed.msg, steps);
    found = unexpected_take(m, key, mask, &steps, &taker, has_none);
    if (unlikely(!taker.has_taken)) {
        remember(m, found, &envelope, ~mask.tag);
        return NULL;
    }
    count_steps(&m->count, steps, true);
    unqueue_msg(m, found);
    return found;
}

OUT_OF_LINE struct mbx_match_msg *
match_take_search_rest(struct mbx_match *m, struct match_key key, struct match_mask mask,
                       mbx_match_fits_fn *fits, const void *arg)
{
    return take_search(m, key, mask, fits, arg, true);
}

OUT_OF_LINE struct mbx_match_msg *match_take_search(struct mbx_match *m, struct match_key key,
                                                    struct match_mask mask,
                                                    mbx_match_fits_fn *fits, const void *arg)
{
    return take_search(m, key, mask, fits, arg, false);
}

OUT_OF_LINE struct mbx_match_msg *match_take_glanced(struct mbx_match *m, struct match_key key,
                                                     struct match_mask mask,
                                                     mbx_match_fits_fn *fits, const void *arg,
                                                     struct mbx_match_msg *msg,
                                                     struct group group)
{
    const struct mbx_match_envelope envelope = envelope_of(key);

    if (unlikely(!fits(arg, msg))) {
        remember(m, msg, &envelope, ~mask.tag);
        return NULL;
    }
    glanced_msg_leaves(m, msg, group);
    return msg;
}

OUT_OF_LINE struct mbx_match_msg *match_take_walk(struct mbx_match *m, struct match_key key,
                                                  uint64_t ignore, mbx_match_fits_fn *fits,
                                                  const void *arg)
{
    const struct mbx_match_envelope envelope = envelope_of(key);
    uint64_t steps = 1;
    struct mbx_match_msg *found;

    if (unlikely(m->probed.msg != NULL) && is_probed(m, &envelope, ignore))
        found = m->probed.msg;
    else
        found = walk_msgs(m, &envelope, ignore, queue_count(&m->msgs),
                          msg_of(m->msgs.all.next)->at == 0, &steps);
    return take_if_fits(m, &envelope, ignore, fits, arg, found, steps);
}

/* Takes a message from a long queue, for the function of the public header: `fits` is always a
 * call. */
static OUT_OF_LINE struct mbx_match_msg *take_glance(struct mbx_match *m, struct match_key key,
                                                     struct match_mask mask,
                                                     mbx_match_fits_fn *fits, const void *arg)
{
    return match_take_glance(m, key, mask, NULL, fits, arg);
}

struct mbx_match_msg *mbx_match_take(struct mbx_match *m,
                                     const struct mbx_match_envelope *envelope, uint64_t ignore,
                                     mbx_match_fits_fn *fits, const void *arg)
{
    return match_take(m, envelope, ignore, fits, arg, take_glance);
}

/* Shows a message of a long queue. */
static OUT_OF_LINE struct mbx_match_msg *
peek_search(struct mbx_match *m, const struct mbx_match_envelope *envelope, uint64_t ignore)
{
    uint64_t steps = 1;
    struct mbx_match_msg *found =
        unexpected_find(m, key_of(envelope), mask_of(envelope, ignore), &steps);

    count_steps(&m->count, steps, false);
    remember(m, found, envelope, ignore);
    return found;
}

/* Shows a message that is not the oldest, which does not match. */
static ALWAYS_INLINE struct mbx_match_msg *
peek_tail(struct mbx_match *m, const struct mbx_match_envelope *envelope, uint64_t ignore)
{
    struct mbx_match_msg *found;
    uint64_t count = queue_count(&m->msgs), steps = 1;

    if (unlikely(m->probed.msg != NULL) && is_probed(m, envelope, ignore))
        found = m->probed.msg;
    else if (count > m->options.short_max)
        return peek_search(m, envelope, ignore);
    else
        found = walk_msgs(m, envelope, ignore, count, true, &steps);
    count_steps(&m->count, steps, false);
    remember(m, found, envelope, ignore);
    return found;
}

struct mbx_match_msg *mbx_match_peek(struct mbx_match *m,
                                     const struct mbx_match_envelope *envelope, uint64_t ignore)
{
    struct mbx_match_msg *oldest = msg_of(m->msgs.all.next);

    m->count.peeks++;
    if (queue_is_empty(&m->msgs))
        return NULL;
    if (!mbx_match_accepts(envelope, ignore, &oldest->envelope))
        return peek_tail(m, envelope, ignore);
    count_steps(&m->count, 1, false);
    return oldest;
}

bool mbx_match_extract(struct mbx_match *m, struct mbx_match_msg *msg)
{
    if (msg->state != MBX_MATCH_QUEUED)
        return false;
    take_msg(m, msg);
    m->count.extracted++;
    return true;
}

/* ---- a receive for a message ---- */

/* Takes recv, which is queued, out of its table and the queue. */
static OUT_OF_LINE struct mbx_match_recv *take_recv_from_table(struct mbx_match *m,
                                                               struct mbx_match_recv *recv)
{
    posted_remove(m, recv);
    unqueue_recv(m, recv);
    return recv;
}

static ALWAYS_INLINE struct mbx_match_recv *take_recv(struct mbx_match *m,
                                                      struct mbx_match_recv *recv)
{
    if (unlikely(recv->at != 0))
        return take_recv_from_table(m, recv);
    unqueue_recv(m, recv);
    return recv;
}

/* No receive matches the message: it may be kept (mbx_match_keep()), or be handled by the
 * caller. */
static ALWAYS_INLINE struct mbx_match_recv *find_none(struct mbx_match *m)
{
    m->count.lonely++;
    return NULL;
}

/* Does the oldest receive accept such a message, and is it in no table?  Then it only leaves
 * the list. */
static ALWAYS_INLINE bool is_met(const struct mbx_match_recv *oldest,
                                 const struct mbx_match_envelope *envelope)
{
    return likely(oldest->at == 0) && likely(is_for(oldest, envelope));
}

/* Walks the list of count receives to the oldest that accepts such a message, or NULL.  The
 * first is skipped if it is known not to accept it.  The count ends the walk, so the result is
 * a receive, and not the head of the list. */
static ALWAYS_INLINE struct mbx_match_recv *
walk_recvs(struct mbx_match *m, const struct mbx_match_envelope *envelope, uint64_t count,
           bool is_first_known)
{
    struct mbx_match_link *link = is_first_known ? m->recvs.all.next : &m->recvs.all;

    for (uint64_t left = count - is_first_known; left > 0; left--) {
        link = link->next;
        if (accepts(recv_of(link), envelope)) {
            assert(link != &m->recvs.all);
            count_steps(&m->count, count - left + 1, true);
            return recv_of(link);
        }
    }
    return NULL;
}

/* Takes the oldest receive of a long queue that accepts key, if all receives in tables are of
 * one class and a glance into its table finds it; otherwise NULL.  has_none as in
 * posted_take(). */
static ALWAYS_INLINE struct mbx_match_recv *
take_glanced_recv(struct mbx_match *m, struct match_key key, bool *has_none)
{
    struct mbx_match_deep *deep = m->deep;
    struct match_class *class = deep != NULL ? deep->only : NULL;
    struct mbx_match_recv *recv;
    struct group group;

    *has_none = false;
    if (unlikely(class == NULL))
        return NULL;
    group = posted_glance(deep, class, key, has_none);
    if (unlikely(group.bucket == NULL))
        return NULL;
    recv = recv_of_head(group_head(group));
    recv_leaves_table(&class->posted, recv, group);
    unqueue_recv(m, recv);
    count_steps(&m->count, 2, true);
    if (unlikely(table_is_empty(&class->posted)))
        posted_become_idle(deep, class);
    return recv;
}

/* Finds a receive in a long queue in which a glance has found none.  has_none as in posted_take(). */
static OUT_OF_LINE struct mbx_match_recv *
find_search(struct mbx_match *m, const struct mbx_match_envelope *envelope, bool has_none)
{
    uint64_t steps;
    struct mbx_match_recv *found = posted_take(m, key_of(envelope), &steps, has_none);

    count_steps(&m->count, steps, found != NULL);
    if (found == NULL)
        return find_none(m);
    unqueue_recv(m, found);
    return found;
}

/* Finds a receive in a long queue. */
static OUT_OF_LINE struct mbx_match_recv *find_glance(struct mbx_match *m,
                                                      const struct mbx_match_envelope *envelope)
{
    bool has_none;
    struct mbx_match_recv *found = take_glanced_recv(m, key_of(envelope), &has_none);

    return likely(found != NULL) ? found : find_search(m, envelope, has_none);
}

/* Finds a receive; receives wait, and the oldest does not match or is in a table. */
static OUT_OF_LINE struct mbx_match_recv *find_tail(struct mbx_match *m,
                                                    const struct mbx_match_envelope *envelope)
{
    uint64_t count = queue_count(&m->recvs);
    struct mbx_match_recv *found;

    if (count > m->options.short_max)
        return find_glance(m, envelope);
    found = walk_recvs(m, envelope, count, recv_of(m->recvs.all.next)->at == 0);
    if (found != NULL)
        return take_recv(m, found);
    count_steps(&m->count, count, false);
    return find_none(m);
}

struct mbx_match_recv *mbx_match_find(struct mbx_match *m,
                                      const struct mbx_match_envelope *envelope)
{
    struct mbx_match_recv *oldest = recv_of(m->recvs.all.next);

    if (queue_is_empty(&m->recvs))
        return find_none(m);
    if (!is_met(oldest, envelope))
        return find_tail(m, envelope);
    unqueue_recv(m, oldest);
    return oldest;
}

struct mbx_match_recv *mbx_match_first(struct mbx_match *m,
                                       const struct mbx_match_envelope *envelope)
{
    struct mbx_match_recv *recv = NULL;

    if (queue_count(&m->recvs) > m->options.short_max)
        return posted_first(m, key_of(envelope));
    while ((recv = mbx_match_next_recv(m, recv)) != NULL && !accepts(recv, envelope))
        continue;
    return recv;
}

int mbx_match_keep(struct mbx_match *m, struct mbx_match_msg *msg)
{
    m->count.lonely--;
    queue_msg(m, msg);
    return 0;
}

/* msg arrives at a long queue in which a glance has found no receive.  has_none as in posted_take(). */
static OUT_OF_LINE int arrive_search(struct mbx_match *m, struct mbx_match_msg *msg,
                                     struct mbx_match_recv **recv, bool has_none)
{
    *recv = find_search(m, &msg->envelope, has_none);
    return *recv != NULL ? 0 : mbx_match_keep(m, msg);
}

/* msg arrives at a long queue of receives. */
static OUT_OF_LINE int arrive_glance(struct mbx_match *m, struct mbx_match_msg *msg,
                                     struct mbx_match_recv **recv)
{
    bool has_none;

    *recv = take_glanced_recv(m, key_of(&msg->envelope), &has_none);
    return likely(*recv != NULL) ? 0 : arrive_search(m, msg, recv, has_none);
}

/* msg arrives, and none of the count receives that were walked accepts it. */
static OUT_OF_LINE int arrive_none(struct mbx_match *m, struct mbx_match_msg *msg,
                                   struct mbx_match_recv **recv, uint64_t count)
{
    count_steps(&m->count, count, false);
    *recv = NULL;
    queue_msg(m, msg);
    return 0;
}

/* msg arrives at a short queue of receives, some of which are in a table: one that is taken leaves it. */
static OUT_OF_LINE int arrive_walk_indexed(struct mbx_match *m, struct mbx_match_msg *msg,
                                           struct mbx_match_recv **recv)
{
    *recv = find_tail(m, &msg->envelope);
    return *recv != NULL ? 0 : mbx_match_keep(m, msg);
}

/* msg arrives; receives wait, and the oldest does not match or is in a table.  If it is in no
 * table, no receive is (I5 of deep.h).  Inlined into the verb, as short queues are usual. */
static ALWAYS_INLINE int arrive_tail(struct mbx_match *m, struct mbx_match_msg *msg,
                                     struct mbx_match_recv **recv)
{
    struct mbx_match_recv *found;
    uint64_t count = queue_count_here(&m->recvs);

    if (count > m->options.short_max)
        return arrive_glance(m, msg, recv);
    if (unlikely(recv_of(m->recvs.all.next)->at != 0))
        return arrive_walk_indexed(m, msg, recv);
    found = walk_recvs(m, &msg->envelope, count, true);
    if (found == NULL)
        return arrive_none(m, msg, recv, count);
    unqueue_recv(m, found);
    *recv = found;
    return 0;
}

int mbx_match_arrive(struct mbx_match *m, struct mbx_match_msg *msg,
                     struct mbx_match_recv **recv)
{
    struct mbx_match_recv *oldest = recv_of(m->recvs.all.next);

    if (queue_is_empty(&m->recvs)) {
        *recv = NULL;
        queue_msg(m, msg);
        return 0;
    }
    if (!is_met(oldest, &msg->envelope))
        return arrive_tail(m, msg, recv);
    unqueue_recv(m, oldest);
    *recv = oldest;
    return 0;
}

bool mbx_match_cancel(struct mbx_match *m, struct mbx_match_recv *recv)
{
    if (recv->state != MBX_MATCH_QUEUED)
        return false;
    take_recv(m, recv);
    m->count.cancelled++;
    return true;
}

/* ---- many at once ---- */

size_t mbx_match_post_many(struct mbx_match *m, struct mbx_match_recv *const recvs[],
                           struct mbx_match_msg *msgs[], size_t count)
{
    size_t done = 0;

    while (done < count) {
        size_t end = min_size(done + BATCH, count);

        for (size_t i = done; i < end && queue_count(&m->msgs) > m->options.short_max; i++)
            unexpected_prefetch(m, key_of(&recvs[i]->envelope),
                                mask_of(&recvs[i]->envelope, recvs[i]->ignore));
        for (; done < end; done++)
            mbx_match_post(m, recvs[done], &msgs[done]);
    }
    return done;
}

static void prefetch_msgs(const struct mbx_match *m, struct mbx_match_msg *const msgs[],
                          size_t count)
{
    for (size_t i = 0; i < count; i++)
        posted_prefetch(m, key_of(&msgs[i]->envelope));
    for (size_t i = 0; i < count; i++)
        posted_prefetch_heads(m, key_of(&msgs[i]->envelope), false);
    for (size_t i = 0; i < count; i++)
        posted_prefetch_heads(m, key_of(&msgs[i]->envelope), true);
}

size_t mbx_match_arrive_many(struct mbx_match *m, struct mbx_match_msg *const msgs[],
                             struct mbx_match_recv *recvs[], size_t count)
{
    size_t done = 0;

    while (done < count) {
        size_t end = min_size(done + BATCH, count);

        if (m->deep != NULL && queue_count(&m->recvs) > m->options.short_max)
            prefetch_msgs(m, &msgs[done], end - done);
        for (; done < end; done++)
            mbx_match_arrive(m, msgs[done], &recvs[done]);
    }
    return done;
}

/* ---- looking in ---- */

struct mbx_match_recv *mbx_match_next_recv(const struct mbx_match *m,
                                           const struct mbx_match_recv *after)
{
    const struct mbx_match_link *link = after != NULL ? after->link.next : m->recvs.all.next;

    return link != &m->recvs.all ? recv_of(link) : NULL;
}

struct mbx_match_msg *mbx_match_next_msg(const struct mbx_match *m,
                                         const struct mbx_match_msg *after)
{
    const struct mbx_match_link *link = after != NULL ? after->link.next : m->msgs.all.next;

    return link != &m->msgs.all ? msg_of(link) : NULL;
}

/* by_arrival: receives that left their queue and were not cancelled; by_post: messages
 * likewise.  Each message that is or was queued had found no receive.  Each search that matched
 * took at least one step; further steps are counted separately. */
void mbx_match_counters_get(const struct mbx_match *m, struct mbx_match_counters *counters)
{
    const struct mbx_match_tally *count = &m->count;
    uint64_t first = m->options.first_seq;
    uint64_t by_arrival = queue_left(&m->recvs) - first - count->cancelled;
    uint64_t by_post = queue_left(&m->msgs) - first - count->extracted;
    uint64_t posted = m->recvs.next - first + by_post;
    uint64_t kept = m->msgs.next - first;
    uint64_t steps = by_arrival + by_post + count->further_steps;

    *counters = (struct mbx_match_counters){
        .posted = posted,
        .arrived = kept + by_arrival,
        .matched_posts = by_arrival,
        .matched_arrivals = by_post,
        .met_posts = by_post,
        .met_arrivals = by_arrival,
        .cancelled = count->cancelled,
        .extracted = count->extracted,
        .recvs = queue_count(&m->recvs),
        .recvs_max = m->recvs.most,
        .msgs = queue_count(&m->msgs),
        .msgs_max = m->msgs.most,
        .searches = posted + by_arrival + kept + count->lonely + count->peeks,
        .search_steps = steps,
        .search_max = count->search_max == 0 ? steps != 0 : count->search_max,
        .overflowed = count->overflowed,
    };
}

size_t mbx_match_memory(const struct mbx_match *m)
{
    return deep_memory(m);
}
