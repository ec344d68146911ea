/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.c - matching that keeps MPI's order, with two lists.
 *
 *   recvs  r1 - r4 - r7      posted and not met; no queued message suits them
 *   msgs   m2 - m3 - m9      arrived and not taken; no queued receive wants them
 *
 *   oldest first             the numbers are one sequence over both queues
 *
 * A post walks msgs from its oldest end and an arrival walks recvs likewise, so
 * the first that fits is the oldest that fits.  That is the whole of MPI's order:
 * posted order (the earliest receive wins), arrival order (a receive takes the
 * earliest message), and freedom for pairs that could never match.
 *
 * What does not match at once joins the tail of its own queue.  As each side is
 * searched before the other is queued, a receive and a message that fit never
 * wait at the same time.
 *
 * Cost: constant for post on an empty UMQ, arrival on an empty PRQ, cancel and
 * claim; otherwise what stands before the match, which the counters show.
 *
 * Invariants (match_is_valid): I1 to I4 of match.h, and the two that make the
 * walks safe to trust:
 *   I5  n->next->prev == n all around both lists, which hold as many entries as
 *       the counters say
 *   I6  what matched at once on one side was waiting on the other:
 *       met_posts == matched_arrivals and met_arrivals == matched_posts
 *
 * Ages are compared by signed difference, so a sequence may pass 2^64; two
 * entries in one queue are never 2^63 posts and arrivals apart.
 */
#include <matchbox/match.h>

#include "base/base.h"

static inline struct match_recv *recv_of(const struct match_link *link)
{
    return container_of(link, struct match_recv, link);
}

static inline struct match_msg *msg_of(const struct match_link *link)
{
    return container_of(link, struct match_msg, link);
}

/* Would a receive of this envelope and these ignore bits accept that message? */
static inline bool accepts(const struct match_envelope *wanted, uint64_t ignore,
                           const struct match_envelope *message)
{
    return wanted->context_id == message->context_id &&
           (wanted->source == message->source || wanted->source == MATCH_ANY_SOURCE) &&
           ((wanted->tag ^ message->tag) & ~ignore) == 0;
}

static inline void link_make_head(struct match_link *head)
{
    head->next = head->prev = head;
}

static inline void link_append(struct match_link *head, struct match_link *link)
{
    link->next = head;
    link->prev = head->prev;
    head->prev->next = link;
    head->prev = link;
}

static inline void link_remove(struct match_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

void match_init(struct match *m, const struct match_options *options)
{
    *m = (struct match){.next_seq = options != NULL ? options->first_seq : 0};
    link_make_head(&m->recvs);
    link_make_head(&m->msgs);
}

/* The entries become idle, so that a late cancel or claim is refused and does not
 * reach into an engine that is gone. */
void match_fini(struct match *m)
{
    for (struct match_link *link = m->recvs.next; link != &m->recvs; link = link->next)
        recv_of(link)->state = MATCH_IDLE;
    for (struct match_link *link = m->msgs.next; link != &m->msgs; link = link->next)
        msg_of(link)->state = MATCH_IDLE;
    match_init(m, &(struct match_options){.first_seq = m->next_seq});
}

static inline void count_search(struct match_counters *count, uint64_t steps)
{
    count->searches++;
    count->search_steps += steps;
    if (steps > count->search_max)
        count->search_max = steps;
}

/* The oldest queued message that such a receive accepts, or NULL. */
static inline struct match_msg *
search_msgs(struct match *m, const struct match_envelope *wanted, uint64_t ignore)
{
    struct match_msg *found = NULL;
    uint64_t steps = 0;

    for (struct match_link *link = m->msgs.next; link != &m->msgs; link = link->next) {
        steps++;
        if (accepts(wanted, ignore, &msg_of(link)->envelope)) {
            found = msg_of(link);
            break;
        }
    }
    count_search(&m->count, steps);
    return found;
}

/* The oldest queued receive that accepts such a message, or NULL. */
static inline struct match_recv *search_recvs(struct match *m,
                                              const struct match_envelope *message)
{
    struct match_recv *found = NULL;
    uint64_t steps = 0;

    for (struct match_link *link = m->recvs.next; link != &m->recvs; link = link->next) {
        steps++;
        if (accepts(&recv_of(link)->envelope, recv_of(link)->ignore, message)) {
            found = recv_of(link);
            break;
        }
    }
    count_search(&m->count, steps);
    return found;
}

static inline void queue_recv(struct match *m, struct match_recv *recv)
{
    recv->seq = m->next_seq++;
    recv->state = MATCH_QUEUED;
    link_append(&m->recvs, &recv->link);
    if (++m->count.recvs > m->count.recvs_max)
        m->count.recvs_max = m->count.recvs;
}

static inline void unqueue_recv(struct match *m, struct match_recv *recv)
{
    link_remove(&recv->link);
    recv->state = MATCH_IDLE;
    m->count.recvs--;
}

static inline void queue_msg(struct match *m, struct match_msg *msg)
{
    msg->seq = m->next_seq++;
    msg->state = MATCH_QUEUED;
    link_append(&m->msgs, &msg->link);
    if (++m->count.msgs > m->count.msgs_max)
        m->count.msgs_max = m->count.msgs;
}

static inline void unqueue_msg(struct match *m, struct match_msg *msg)
{
    link_remove(&msg->link);
    msg->state = MATCH_IDLE;
    m->count.msgs--;
}

int match_post(struct match *m, struct match_recv *recv, struct match_msg **msg)
{
    struct match_msg *found = search_msgs(m, &recv->envelope, recv->ignore);

    m->count.posted++;
    if (found != NULL) {
        unqueue_msg(m, found);
        recv->state = MATCH_IDLE;
        m->count.matched_arrivals++;
        m->count.met_posts++;
    } else {
        queue_recv(m, recv);
    }
    *msg = found;
    return 0;
}

struct match_recv *match_find(struct match *m, const struct match_envelope *envelope)
{
    struct match_recv *found = search_recvs(m, envelope);

    if (found != NULL) {
        unqueue_recv(m, found);
        m->count.arrived++;
        m->count.matched_posts++;
        m->count.met_arrivals++;
    }
    return found;
}

int match_keep(struct match *m, struct match_msg *msg)
{
    m->count.arrived++;
    queue_msg(m, msg);
    return 0;
}

int match_arrive(struct match *m, struct match_msg *msg, struct match_recv **recv)
{
    struct match_recv *found = match_find(m, &msg->envelope);

    if (found != NULL)
        msg->state = MATCH_IDLE;
    else
        match_keep(m, msg);
    *recv = found;
    return 0;
}

size_t match_post_many(struct match *m, struct match_recv *const recvs[],
                       struct match_msg *msgs[], size_t count)
{
    size_t done = 0;

    while (done < count && match_post(m, recvs[done], &msgs[done]) == 0)
        done++;
    return done;
}

size_t match_arrive_many(struct match *m, struct match_msg *const msgs[],
                         struct match_recv *recvs[], size_t count)
{
    size_t done = 0;

    while (done < count && match_arrive(m, msgs[done], &recvs[done]) == 0)
        done++;
    return done;
}

bool match_cancel(struct match *m, struct match_recv *recv)
{
    if (recv->state != MATCH_QUEUED)
        return false;
    unqueue_recv(m, recv);
    m->count.cancelled++;
    return true;
}

struct match_msg *match_peek(struct match *m, const struct match_envelope *envelope,
                             uint64_t ignore)
{
    return search_msgs(m, envelope, ignore);
}

bool match_claim(struct match *m, struct match_msg *msg)
{
    if (msg->state != MATCH_QUEUED)
        return false;
    unqueue_msg(m, msg);
    m->count.claimed++;
    return true;
}

struct match_recv *match_next_recv(const struct match *m, const struct match_recv *after)
{
    const struct match_link *link = after != NULL ? after->link.next : m->recvs.next;

    return link != &m->recvs ? recv_of(link) : NULL;
}

struct match_msg *match_next_msg(const struct match *m, const struct match_msg *after)
{
    const struct match_link *link = after != NULL ? after->link.next : m->msgs.next;

    return link != &m->msgs ? msg_of(link) : NULL;
}

size_t match_memory(const struct match *m)
{
    (void)m;
    return 0;
}

/* I5.  Never walks further than count, so a list that lost its head ends too. */
static bool links_are_valid(const struct match_link *head, uint64_t count)
{
    const struct match_link *link = head;
    uint64_t seen = 0;

    do {
        if (link->next == NULL || link->next->prev != link)
            return false;
        link = link->next;
    } while (link != head && ++seen <= count);
    return link == head && seen == count;
}

static inline bool is_older(uint64_t seq, uint64_t than)
{
    return (int64_t)(seq - than) < 0;
}

/* I1 and I4 for the receives: each is younger than the one before it. */
static bool recvs_are_in_order(const struct match *m)
{
    const struct match_recv *before = NULL, *recv = NULL;

    while ((recv = match_next_recv(m, recv)) != NULL) {
        if (recv->state != MATCH_QUEUED || !is_older(recv->seq, m->next_seq))
            return false;
        if (before != NULL && !is_older(before->seq, recv->seq))
            return false;
        before = recv;
    }
    return true;
}

/* I1 and I4 for the messages. */
static bool msgs_are_in_order(const struct match *m)
{
    const struct match_msg *before = NULL, *msg = NULL;

    while ((msg = match_next_msg(m, msg)) != NULL) {
        if (msg->state != MATCH_QUEUED || !is_older(msg->seq, m->next_seq))
            return false;
        if (before != NULL && !is_older(before->seq, msg->seq))
            return false;
        before = msg;
    }
    return true;
}

/* I2. */
static bool nothing_is_left_to_match(const struct match *m)
{
    const struct match_recv *recv = NULL;

    while ((recv = match_next_recv(m, recv)) != NULL) {
        const struct match_msg *msg = NULL;

        while ((msg = match_next_msg(m, msg)) != NULL)
            if (accepts(&recv->envelope, recv->ignore, &msg->envelope))
                return false;
    }
    return true;
}

/* I3 and I6. */
static bool counters_add_up(const struct match_counters *c)
{
    return c->posted == c->met_posts + c->matched_posts + c->cancelled + c->recvs &&
           c->arrived == c->met_arrivals + c->matched_arrivals + c->claimed + c->msgs &&
           c->met_posts == c->matched_arrivals && c->met_arrivals == c->matched_posts &&
           c->recvs <= c->recvs_max && c->msgs <= c->msgs_max &&
           c->search_max <= c->search_steps;
}

bool match_is_valid(const struct match *m)
{
    return links_are_valid(&m->recvs, m->count.recvs) &&
           links_are_valid(&m->msgs, m->count.msgs) && counters_add_up(&m->count) &&
           recvs_are_in_order(m) && msgs_are_in_order(m) && nothing_is_left_to_match(m);
}
