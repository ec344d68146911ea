/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.c - matching that keeps MPI's order, at the same cost for any length.
 *
 * Each of the two queues is short or long.
 *
 *   short, up to 16 entries       slots in order of age, compared four at a time
 *
 *      slot    0   1   2   3   4   5   6 ...
 *              -   r2  r5  -   r6  |             live 010110, next 5
 *
 *   long                          a list of all, in order of age, and tables that lead to
 *                                 the oldest that suits (deep.h)
 *
 * In slots the lowest that fits is the oldest that fits; the oldest of all is tried first,
 * by itself, as that is what most programs meet.  A queue becomes long when its 17th
 * entry comes, and short again when 4 are left, so that a queue about one length does not
 * go back and forth.  Neither changes the order.
 *
 * What does not match at once joins its own queue.  As each side is searched before the
 * other is queued, a receive and a message that fit never wait at the same time.
 *
 * Invariants (mbx_match_is_valid, valid.c): I1 to I4 of match.h, those of deep.h, and
 *   I5  a short queue's entries are in the live slots, in order of age; each knows its
 *       slot, and what is compared there is what the entry says
 *   I6  a long queue's entries are on its list, which is whole
 *   I7  what matched at once on one side was waiting on the other:
 *       met_posts == matched_arrivals and met_arrivals == matched_posts
 *
 * Ages are compared by signed difference, so a sequence may pass 2^64; two entries in one
 * queue are never 2^63 posts and arrivals apart.
 */
#include "match/deep.h"

#include <errno.h>

#define SHORT_MAX    16 /* entries of a short queue */
#define SHORT_FACTOR 4  /* a long queue with this part of them becomes short */
#define BATCH        16 /* entries whose tables are fetched ahead */

_Static_assert(SHORT_MAX * 2 <= MBX_MATCH_SLOTS, "compaction is rare");

/* Stay out of the verbs, which would save registers for them. */
#define RARE  __attribute__((noinline, cold))
#define APART __attribute__((noinline))

static uint32_t in_range(uint32_t value, uint32_t max)
{
    return value == 0 || value > max ? max : value;
}

void mbx_match_init(struct mbx_match *m, const struct mbx_match_options *options)
{
    *m = (struct mbx_match){.compare = match_compare_best()};
    if (options != NULL)
        m->options = *options;
    m->options.short_max = in_range(m->options.short_max, SHORT_MAX);
    m->options.classes = in_range(m->options.classes, MBX_MATCH_CLASSES);
    m->options.hash_bits = in_range(m->options.hash_bits, 64);
    m->recv_room = m->options.short_max;
    m->next_seq = m->options.first_seq;
    link_make_head(&m->recvs);
    link_make_head(&m->msgs);
}

/* The entries become idle, so that a late cancel or extract is refused and does not
 * reach into an engine that is gone. */
void mbx_match_fini(struct mbx_match *m)
{
    struct mbx_match_options options = m->options;

    for (struct mbx_match_recv *recv = NULL; (recv = mbx_match_next_recv(m, recv)) != NULL;)
        recv->state = MBX_MATCH_IDLE;
    for (struct mbx_match_msg *msg = NULL; (msg = mbx_match_next_msg(m, msg)) != NULL;)
        msg->state = MBX_MATCH_IDLE;
    deep_destroy(m);
    options.first_seq = m->next_seq;
    mbx_match_init(m, &options);
}

static inline void count_search(struct mbx_match_counters *count, uint64_t steps)
{
    count->searches++;
    count->search_steps += steps;
    if (steps > count->search_max)
        count->search_max = steps;
}

/* ---- slots of short queues ---- */

static inline void recv_to_slot(struct mbx_match *m, struct mbx_match_recv *recv, uint32_t slot)
{
    struct mbx_match_recv_block *block = &m->recv_blocks[slot / MBX_MATCH_LANES];
    struct match_mask mask = mask_of(&recv->envelope, recv->ignore);
    struct match_key key = key_of(&recv->envelope);
    uint32_t lane = slot % MBX_MATCH_LANES;

    block->place[lane] = key.place;
    block->tag[lane] = key.tag;
    block->place_mask[lane] = mask.place;
    block->tag_mask[lane] = mask.tag;
    block->entry[lane] = recv;
    recv->at = slot;
    m->recv_slots.live |= UINT32_C(1) << slot;
}

static inline void msg_to_slot(struct mbx_match *m, struct mbx_match_msg *msg, uint32_t slot)
{
    struct mbx_match_msg_block *block = &m->msg_blocks[slot / MBX_MATCH_LANES];
    struct match_key key = key_of(&msg->envelope);
    uint32_t lane = slot % MBX_MATCH_LANES;

    block->place[lane] = key.place;
    block->tag[lane] = key.tag;
    block->entry[lane] = msg;
    msg->at = slot;
    m->msg_slots.live |= UINT32_C(1) << slot;
}

static inline struct mbx_match_recv *recv_in_slot(const struct mbx_match *m, uint32_t slot)
{
    return m->recv_blocks[slot / MBX_MATCH_LANES].entry[slot % MBX_MATCH_LANES];
}

static inline struct mbx_match_msg *msg_in_slot(const struct mbx_match *m, uint32_t slot)
{
    return m->msg_blocks[slot / MBX_MATCH_LANES].entry[slot % MBX_MATCH_LANES];
}

/* All entries move to the lowest slots, in their order. */
RARE static void compact_recvs(struct mbx_match *m)
{
    uint32_t left = m->recv_slots.live;

    m->recv_slots = (struct mbx_match_slots){0};
    for (; left != 0; left &= left - 1)
        recv_to_slot(m, recv_in_slot(m, (uint32_t)__builtin_ctz(left)), m->recv_slots.next++);
}

RARE static void compact_msgs(struct mbx_match *m)
{
    uint32_t left = m->msg_slots.live;

    m->msg_slots = (struct mbx_match_slots){0};
    for (; left != 0; left &= left - 1)
        msg_to_slot(m, msg_in_slot(m, (uint32_t)__builtin_ctz(left)), m->msg_slots.next++);
}

/* The slot behind all that are in use. */
static inline uint32_t next_recv_slot(struct mbx_match *m)
{
    if (m->recv_slots.live == 0)
        m->recv_slots.next = 0;
    else if (unlikely(m->recv_slots.next == MBX_MATCH_SLOTS))
        compact_recvs(m);
    return m->recv_slots.next++;
}

static inline uint32_t next_msg_slot(struct mbx_match *m)
{
    if (m->msg_slots.live == 0)
        m->msg_slots.next = 0;
    else if (unlikely(m->msg_slots.next == MBX_MATCH_SLOTS))
        compact_msgs(m);
    return m->msg_slots.next++;
}

/* ---- from short to long and back ---- */

/* Takes back what lengthen_recvs() had done before it ran out of memory. */
RARE static void unlengthen_recvs(struct mbx_match *m, uint32_t done)
{
    for (; done != 0; done &= done - 1) {
        uint32_t slot = (uint32_t)__builtin_ctz(done);

        posted_remove(m, recv_in_slot(m, slot));
        recv_in_slot(m, slot)->at = slot;
    }
}

RARE static int lengthen_recvs(struct mbx_match *m)
{
    uint32_t live = m->recv_slots.live;

    for (uint32_t left = live; left != 0; left &= left - 1) {
        uint32_t slot = (uint32_t)__builtin_ctz(left);
        int err = posted_add(m, recv_in_slot(m, slot));

        if (err != 0) {
            recv_in_slot(m, slot)->at = slot;
            unlengthen_recvs(m, live & ~left);
            return err;
        }
    }
    m->recv_slots = (struct mbx_match_slots){0};
    m->recvs_long = true;
    m->recv_room = 0;
    return 0;
}

RARE static void shorten_recvs(struct mbx_match *m)
{
    while (m->recvs.next != &m->recvs) {
        struct mbx_match_recv *recv = recv_of(m->recvs.next);

        posted_remove(m, recv);
        recv_to_slot(m, recv, m->recv_slots.next++);
    }
    m->recvs_long = false;
    m->recv_room = m->options.short_max;
    deep_trim(m);
}

RARE static void lengthen_msgs(struct mbx_match *m)
{
    for (uint32_t left = m->msg_slots.live; left != 0; left &= left - 1) {
        struct mbx_match_msg *msg = msg_in_slot(m, (uint32_t)__builtin_ctz(left));

        link_append(&m->msgs, &msg->link);
        msg->at = 0;
    }
    m->msg_slots = (struct mbx_match_slots){0};
    m->msgs_long = true;
    unexpected_begin(m);
}

RARE static void shorten_msgs(struct mbx_match *m)
{
    while (m->msgs.next != &m->msgs) {
        struct mbx_match_msg *msg = msg_of(m->msgs.next);

        unexpected_remove(m, msg);
        msg_to_slot(m, msg, m->msg_slots.next++);
    }
    m->msgs_long = false;
    deep_trim(m);
}

/* ---- queues ---- */

/* The youngest receive, into tables.  -ENOMEM: nothing has changed. */
static inline int queue_recv_long(struct mbx_match *m, struct mbx_match_recv *recv)
{
    int err = likely(m->recvs_long) ? 0 : lengthen_recvs(m);

    return err != 0 ? err : posted_add(m, recv);
}

/* recv has its place in the queue, and its age. */
static inline void recv_queued(struct mbx_match *m, struct mbx_match_recv *recv)
{
    recv->state = MBX_MATCH_QUEUED;
    m->next_seq++;
    if (++m->count.recvs > m->count.recvs_max)
        m->count.recvs_max = m->count.recvs;
}

static int queue_recv(struct mbx_match *m, struct mbx_match_recv *recv)
{
    recv->seq = m->next_seq;
    if (m->count.recvs < m->recv_room)
        recv_to_slot(m, recv, next_recv_slot(m));
    else if (unlikely(queue_recv_long(m, recv) < 0))
        return -ENOMEM;
    recv_queued(m, recv);
    return 0;
}

/* recv has left its slot or its tables. */
static inline void recv_left(struct mbx_match *m, struct mbx_match_recv *recv)
{
    recv->state = MBX_MATCH_IDLE;
    m->count.recvs--;
    if (unlikely(m->recvs_long && m->count.recvs <= m->options.short_max / SHORT_FACTOR))
        shorten_recvs(m);
}

static inline void free_recv_slot(struct mbx_match *m, uint32_t slot)
{
    m->recv_slots.live &= ~(UINT32_C(1) << slot);
}

static inline void unqueue_recv(struct mbx_match *m, struct mbx_match_recv *recv)
{
    if (m->recvs_long)
        posted_remove(m, recv);
    else
        free_recv_slot(m, recv->at);
    recv_left(m, recv);
}

APART static void queue_msg(struct mbx_match *m, struct mbx_match_msg *msg)
{
    if (unlikely(!m->msgs_long && m->count.msgs == m->options.short_max))
        lengthen_msgs(m);
    msg->seq = m->next_seq++;
    msg->state = MBX_MATCH_QUEUED;
    if (++m->count.msgs > m->count.msgs_max)
        m->count.msgs_max = m->count.msgs;
    if (likely(!m->msgs_long)) {
        msg_to_slot(m, msg, next_msg_slot(m));
        return;
    }
    msg->at = 0;
    link_append(&m->msgs, &msg->link);
}

static inline void unqueue_msg(struct mbx_match *m, struct mbx_match_msg *msg)
{
    msg->state = MBX_MATCH_IDLE;
    m->count.msgs--;
    if (likely(!m->msgs_long)) {
        m->msg_slots.live &= ~(UINT32_C(1) << msg->at);
        return;
    }
    unexpected_remove(m, msg);
    if (unlikely(m->count.msgs <= m->options.short_max / SHORT_FACTOR))
        shorten_msgs(m);
}

/* ---- searches ---- */

static inline bool slot_fits(const struct mbx_match_recv_block *blocks, uint32_t slot,
                             struct match_key key)
{
    const struct mbx_match_recv_block *block = &blocks[slot / MBX_MATCH_LANES];
    uint32_t lane = slot % MBX_MATCH_LANES;
    struct match_mask mask = {block->place_mask[lane], block->tag_mask[lane]};

    return key_fits((struct match_key){block->place[lane], block->tag[lane]}, key, mask);
}

/* How many bits are 1; without a call on machines that may lack the instruction. */
static inline uint32_t count_bits(uint32_t bits)
{
    bits -= bits >> 1 & 0x55555555;
    bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333);
    return ((bits + (bits >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

/* How many of the live slots stand before this one, itself included. */
static inline uint64_t slots_up_to(uint32_t live, uint32_t slot)
{
    return count_bits(live & (UINT32_MAX >> (31 - slot)));
}

/* The oldest that accepts key, taken out of its slot, or NULL. */
static struct mbx_match_recv *take_from_slots(struct mbx_match *m, struct match_key key,
                                              uint64_t *steps)
{
    uint32_t live = m->recv_slots.live;
    int slot = m->compare->recvs(m->recv_blocks, live, key);

    *steps = slot < 0 ? m->count.recvs : slots_up_to(live, (uint32_t)slot);
    if (slot < 0)
        return NULL;
    free_recv_slot(m, (uint32_t)slot);
    return recv_in_slot(m, (uint32_t)slot);
}

/* The oldest queued message that such a receive accepts, or NULL. */
APART static struct mbx_match_msg *
search_msgs(struct mbx_match *m, const struct mbx_match_envelope *wanted, uint64_t ignore)
{
    struct match_mask mask = mask_of(wanted, ignore);
    struct match_key key = key_of(wanted);
    struct mbx_match_msg *found = NULL;
    uint64_t steps = 0;

    if (m->msg_slots.live != 0) {
        int slot = m->compare->msgs(m->msg_blocks, m->msg_slots.live, key, mask);

        steps = slot < 0 ? m->count.msgs : slots_up_to(m->msg_slots.live, (uint32_t)slot);
        found = slot < 0 ? NULL : msg_in_slot(m, (uint32_t)slot);
    } else if (m->msgs_long) {
        found = unexpected_find(m, key, mask, &steps);
    }
    count_search(&m->count, steps);
    return found;
}

/* ---- the verbs ---- */

/* Messages wait, or the queue is long, or its slots have run out. */
APART static int post_further(struct mbx_match *m, struct mbx_match_recv *recv,
                              struct mbx_match_msg **msg)
{
    struct mbx_match_msg *found = NULL;

    if (m->count.msgs != 0)
        found = search_msgs(m, &recv->envelope, recv->ignore);
    else
        m->count.searches++;
    if (found != NULL) {
        unqueue_msg(m, found);
        recv->state = MBX_MATCH_IDLE;
        m->count.matched_arrivals++;
        m->count.met_posts++;
    } else if (unlikely(queue_recv(m, recv) < 0)) {
        return -ENOMEM;
    }
    m->count.posted++;
    *msg = found;
    return 0;
}

int mbx_match_post(struct mbx_match *m, struct mbx_match_recv *recv, struct mbx_match_msg **msg)
{
    if (unlikely(m->count.msgs != 0 || m->count.recvs >= m->recv_room ||
                 m->recv_slots.next == MBX_MATCH_SLOTS))
        return post_further(m, recv, msg);
    m->count.searches++; /* of nothing */
    m->count.posted++;
    recv->seq = m->next_seq;
    recv_to_slot(m, recv, next_recv_slot(m));
    recv_queued(m, recv);
    *msg = NULL;
    return 0;
}

/* A message meets found, whom steps looked at. */
static inline void count_match(struct mbx_match *m, uint64_t steps)
{
    count_search(&m->count, steps);
    m->count.arrived++;
    m->count.matched_posts++;
    m->count.met_arrivals++;
}

/* The oldest receive of a short queue does not accept it, or the queue is long. */
APART static struct mbx_match_recv *find_further(struct mbx_match *m,
                                                 const struct mbx_match_envelope *envelope)
{
    struct match_key key = key_of(envelope);
    struct mbx_match_recv *found = NULL;
    uint64_t steps = 0;

    if (m->recvs_long)
        found = posted_take(m, key, &steps);
    else if (m->recv_slots.live != 0)
        found = take_from_slots(m, key, &steps);
    if (found == NULL) {
        count_search(&m->count, steps);
        return NULL;
    }
    recv_left(m, found);
    count_match(m, steps);
    return found;
}

struct mbx_match_recv *mbx_match_find(struct mbx_match *m,
                                      const struct mbx_match_envelope *envelope)
{
    uint32_t live = m->recv_slots.live;
    uint32_t oldest = (uint32_t)__builtin_ctz(live | UINT32_C(1) << 31);
    struct mbx_match_recv *found;

    if (unlikely(live == 0) || unlikely(!slot_fits(m->recv_blocks, oldest, key_of(envelope))))
        return find_further(m, envelope);
    found = recv_in_slot(m, oldest);
    found->state = MBX_MATCH_IDLE;
    m->recv_slots.live = live & (live - 1);
    m->count.recvs--;
    count_match(m, 1);
    return found;
}

struct mbx_match_recv *mbx_match_first(const struct mbx_match *m,
                                       const struct mbx_match_envelope *envelope)
{
    struct match_key key = key_of(envelope);
    int slot;

    if (m->recvs_long)
        return posted_first(m, key);
    slot = m->recv_slots.live != 0 ? m->compare->recvs(m->recv_blocks, m->recv_slots.live, key)
                                   : -1;
    return slot < 0 ? NULL : recv_in_slot(m, (uint32_t)slot);
}

int mbx_match_keep(struct mbx_match *m, struct mbx_match_msg *msg)
{
    m->count.arrived++;
    queue_msg(m, msg);
    return 0;
}

int mbx_match_arrive(struct mbx_match *m, struct mbx_match_msg *msg,
                     struct mbx_match_recv **recv)
{
    struct mbx_match_recv *found = mbx_match_find(m, &msg->envelope);

    if (found != NULL)
        msg->state = MBX_MATCH_IDLE;
    else
        mbx_match_keep(m, msg);
    *recv = found;
    return 0;
}

bool mbx_match_cancel(struct mbx_match *m, struct mbx_match_recv *recv)
{
    if (recv->state != MBX_MATCH_QUEUED)
        return false;
    unqueue_recv(m, recv);
    m->count.cancelled++;
    return true;
}

struct mbx_match_msg *mbx_match_peek(struct mbx_match *m,
                                     const struct mbx_match_envelope *envelope, uint64_t ignore)
{
    return search_msgs(m, envelope, ignore);
}

bool mbx_match_extract(struct mbx_match *m, struct mbx_match_msg *msg)
{
    if (msg->state != MBX_MATCH_QUEUED)
        return false;
    unqueue_msg(m, msg);
    m->count.claimed++;
    return true;
}

/* ---- many at once ---- */

static void prefetch_recv(const struct mbx_match *m, const struct mbx_match_recv *recv)
{
    struct match_mask mask = mask_of(&recv->envelope, recv->ignore);

    if (m->msgs_long)
        unexpected_prefetch(m, key_of(&recv->envelope), mask);
    if (m->recvs_long)
        posted_prefetch_group(m, key_of(&recv->envelope), mask);
}

size_t mbx_match_post_many(struct mbx_match *m, struct mbx_match_recv *const recvs[],
                           struct mbx_match_msg *msgs[], size_t count)
{
    size_t done = 0;

    while (done < count) {
        size_t end = min_size(done + BATCH, count);

        for (size_t i = done; i < end; i++)
            prefetch_recv(m, recvs[i]);
        for (; done < end; done++)
            if (mbx_match_post(m, recvs[done], &msgs[done]) != 0)
                return done;
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

        if (m->recvs_long)
            prefetch_msgs(m, &msgs[done], end - done);
        for (; done < end; done++)
            if (mbx_match_arrive(m, msgs[done], &recvs[done]) != 0)
                return done;
    }
    return done;
}

/* ---- looking in ---- */

/* The lowest live slot that is not below first, or MBX_MATCH_SLOTS. */
static uint32_t live_slot(uint32_t live, uint32_t first)
{
    live = first < MBX_MATCH_SLOTS ? live & (UINT32_MAX << first) : 0;
    return live != 0 ? (uint32_t)__builtin_ctz(live) : MBX_MATCH_SLOTS;
}

struct mbx_match_recv *mbx_match_next_recv(const struct mbx_match *m,
                                           const struct mbx_match_recv *after)
{
    const struct mbx_match_link *link;
    uint32_t slot;

    if (m->recvs_long) {
        link = after != NULL ? after->link.next : m->recvs.next;
        return link != &m->recvs ? recv_of(link) : NULL;
    }
    slot = live_slot(m->recv_slots.live, after != NULL ? after->at + 1 : 0);
    return slot < MBX_MATCH_SLOTS ? recv_in_slot(m, slot) : NULL;
}

struct mbx_match_msg *mbx_match_next_msg(const struct mbx_match *m,
                                         const struct mbx_match_msg *after)
{
    const struct mbx_match_link *link;
    uint32_t slot;

    if (m->msgs_long) {
        link = after != NULL ? after->link.next : m->msgs.next;
        return link != &m->msgs ? msg_of(link) : NULL;
    }
    slot = live_slot(m->msg_slots.live, after != NULL ? after->at + 1 : 0);
    return slot < MBX_MATCH_SLOTS ? msg_in_slot(m, slot) : NULL;
}

size_t mbx_match_memory(const struct mbx_match *m)
{
    return deep_memory(m);
}
