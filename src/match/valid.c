/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * valid.c - checks all invariants of match.h, match.c and deep.h.  For tests: slow, and careful
 * with pointers, since the engine may be wrong.
 */
#include "match/deep.h"

/* Never walks further than count, so a list without its head ends as well. */
static bool links_are_valid(const struct mbx_match_link *head, uint64_t count)
{
    const struct mbx_match_link *link = head;
    uint64_t seen = 0;

    do {
        if (link->next == NULL || link->next->prev != link)
            return false;
        link = link->next;
    } while (link != head && ++seen <= count);
    return link == head && seen == count;
}

/* ---- match.h I1, I4 ---- */

static bool recvs_are_in_order(const struct mbx_match *m)
{
    const struct mbx_match_recv *before = NULL, *recv = NULL;

    while ((recv = mbx_match_next_recv(m, recv)) != NULL) {
        if (recv->state != MBX_MATCH_QUEUED || !is_older(recv->seq, m->recvs.next))
            return false;
        if (before != NULL && !is_older(before->seq, recv->seq))
            return false;
        before = recv;
    }
    return true;
}

static bool msgs_are_in_order(const struct mbx_match *m)
{
    const struct mbx_match_msg *before = NULL, *msg = NULL;

    while ((msg = mbx_match_next_msg(m, msg)) != NULL) {
        if (msg->state != MBX_MATCH_QUEUED || !is_older(msg->seq, m->msgs.next))
            return false;
        if (before != NULL && !is_older(before->seq, msg->seq))
            return false;
        before = msg;
    }
    return true;
}

/* ---- match.h I2 ---- */

static bool nothing_is_left_to_match(const struct mbx_match *m)
{
    const struct mbx_match_recv *recv = NULL;

    while ((recv = mbx_match_next_recv(m, recv)) != NULL) {
        struct match_mask mask = mask_of(&recv->envelope, recv->ignore);
        const struct mbx_match_msg *msg = NULL;

        while ((msg = mbx_match_next_msg(m, msg)) != NULL)
            if (key_fits(key_of(&recv->envelope), key_of(&msg->envelope), mask))
                return false;
    }
    return true;
}

/* ---- match.h I3, match.c I5 and I6 ---- */

static bool queue_is_valid(const struct mbx_match_queue *queue)
{
    return queue_count(queue) <= queue->most &&
           links_are_valid(&queue->all, queue_count(queue));
}

/* Counters that are derived from ages must not have become negative. */
static bool counters_add_up(const struct mbx_match *m)
{
    struct mbx_match_counters c;

    mbx_match_counters_get(m, &c);
    return c.posted == c.met_posts + c.matched_posts + c.cancelled + c.recvs &&
           c.arrived == c.met_arrivals + c.matched_arrivals + c.extracted + c.msgs &&
           c.matched_posts <= c.posted && c.matched_arrivals <= c.arrived &&
           c.search_max <= c.search_steps;
}

/* ---- match.c I7 ---- */

static bool probed_is_valid(const struct mbx_match *m)
{
    const struct mbx_match_probed *probed = &m->probed;
    const struct mbx_match_msg *msg = NULL;
    struct mbx_match_envelope wanted;

    if (probed->msg == NULL || probed->left != m->msgs.full_at - m->msgs.most)
        return true;
    while ((msg = mbx_match_next_msg(m, msg)) != NULL && msg != probed->msg)
        continue;
    if (msg == NULL)
        return false;
    wanted = msg->envelope;
    if (probed->is_any_source)
        wanted.source = MBX_MATCH_ANY_SOURCE;
    for (msg = NULL; (msg = mbx_match_next_msg(m, msg)) != probed->msg;)
        if (mbx_match_accepts(&wanted, probed->ignore, &msg->envelope))
            return false;
    return true;
}

/* ---- deep.h I1, I3, I4 of the receives ---- */

/* The number of receives of a group, if they are of the class, have the same key, and go from
 * older to younger; otherwise 0. */
static uint32_t count_group(const struct mbx_match *m, uint32_t class, struct group group)
{
    const struct mbx_match_recv *first = (const struct mbx_match_recv *)group_head(group),
                                *recv = first;
    uint32_t count = 0;

    do {
        const struct mbx_match_recv *next = recv_of_group(recv->group.next);
        struct match_mask mask = mask_of(&recv->envelope, recv->ignore);

        if (recv->state != MBX_MATCH_QUEUED || recv->at != class + 1 ||
            ++count > queue_count(&m->recvs) || recv->group.next->prev != &recv->group ||
            !mask_is(&m->deep->classes[class].mask, mask) ||
            !key_fits(key_of(&recv->envelope), key_of(&first->envelope), mask))
            return 0;
        if (next != first && !is_older(recv->seq, next->seq))
            return 0;
        recv = next;
    } while (recv != first);
    return count;
}

static bool is_free(struct group group)
{
    return (group.bucket->prints >> 8 * group.lane & 0xff) == 0;
}

/* Adds the number of its receives to *recvs. */
static bool posted_class_is_valid(const struct mbx_match *m, uint32_t class, uint64_t *recvs)
{
    const struct match_class *c = &m->deep->classes[class];

    if (!table_is_valid(&c->posted, posted_hash_of_head,
                        &(const struct match_class_of){m->deep, c}) ||
        (m->deep->busy >> class & 1) == table_is_empty(&c->posted))
        return false;
    for (uint32_t i = 0; i < table_size(&c->posted) * BUCKET_GROUPS; i++) {
        struct group group = {.bucket = &c->posted.buckets[i / BUCKET_GROUPS],
                              .lane = i % BUCKET_GROUPS};
        uint32_t count;

        if (is_free(group))
            continue;
        count = count_group(m, class, group);
        if (count == 0)
            return false;
        *recvs += count;
    }
    return true;
}

static bool overflow_is_valid(const struct mbx_match *m, uint64_t count)
{
    const struct mbx_match_link *head = &m->deep->overflow;

    if (!links_are_valid(head, count))
        return false;
    for (const struct mbx_match_link *link = head->next; link != head; link = link->next)
        if (recv_of_group(link)->at != CLASS_NONE + 1 ||
            (link->next != head &&
             !is_older(recv_of_group(link)->seq, recv_of_group(link->next)->seq)))
            return false;
    return true;
}

/* Checks I5.  Returns the number of receives in tables or on overflow; UINT64_MAX: one is
 * younger than one that is in neither. */
static uint64_t known_recvs(const struct mbx_match *m)
{
    const struct mbx_match_recv *recv = NULL;
    uint64_t known = 0, all = 0;

    while ((recv = mbx_match_next_recv(m, recv)) != NULL) {
        if (recv->at != 0 && known++ != all)
            return UINT64_MAX;
        all++;
    }
    return known;
}

static bool only_is_valid(const struct mbx_match_deep *deep)
{
    bool is_one =
        __builtin_popcountll(deep->busy) == 1 && deep->overflow.next == &deep->overflow;

    return deep->only == (is_one ? &deep->classes[__builtin_ctzll(deep->busy)] : NULL);
}

bool posted_is_valid(const struct mbx_match *m)
{
    uint64_t in_classes = 0, known = known_recvs(m);

    for (uint32_t i = 0; i < m->deep->class_count; i++)
        if (!posted_class_is_valid(m, i, &in_classes))
            return false;
    return known != UINT64_MAX && in_classes <= known && only_is_valid(m->deep) &&
           overflow_is_valid(m, known - in_classes);
}

/* ---- deep.h I1, I2, I4 of the messages ---- */

static bool is_node(const struct mbx_match_deep *deep, uint32_t number)
{
    return number != 0 && number < deep->node_count && deep->nodes[number].msg != NULL;
}

/* As count_group(), for nodes. */
static uint32_t count_nodes(const struct mbx_match *m, uint32_t class, struct group group)
{
    const struct mbx_match_deep *deep = m->deep;
    uint32_t head = (uint32_t)group_head(group), number = head, count = 0;

    do {
        const struct index_node *node = &deep->nodes[number];

        if (!is_node(deep, number) || node->class != class || ++count > queue_count(&m->msgs) ||
            !is_node(deep, node->next) || deep->nodes[node->next].prev != number ||
            node->msg->state != MBX_MATCH_QUEUED ||
            !key_fits(key_of(&node->msg->envelope), key_of(&deep->nodes[head].msg->envelope),
                      deep->classes[class].mask))
            return 0;
        if (node->next != head && !is_older(node->msg->seq, deep->nodes[node->next].msg->seq))
            return 0;
        number = node->next;
    } while (number != head);
    return count;
}

/* As count_group(), for the primary class. */
static uint32_t count_linked(const struct mbx_match *m, uint32_t class, struct group group)
{
    const struct mbx_match_msg *first = (const struct mbx_match_msg *)group_head(group),
                               *msg = first;
    uint32_t count = 0;

    do {
        const struct mbx_match_msg *next = msg_of_group(msg->group.next);

        if (msg->state != MBX_MATCH_QUEUED || (msg->at & IN_PRIMARY) == 0 ||
            ++count > queue_count(&m->msgs) || msg->group.next->prev != &msg->group ||
            !key_fits(key_of(&msg->envelope), key_of(&first->envelope),
                      m->deep->classes[class].mask))
            return 0;
        if (next != first && !is_older(msg->seq, next->seq))
            return 0;
        msg = next;
    } while (msg != first);
    return count;
}

/* Sets *msgs to the number of messages in the index. */
static bool match_index_is_valid(const struct mbx_match *m, uint32_t class, uint64_t *msgs)
{
    const struct match_class *c = &m->deep->classes[class];

    *msgs = 0;
    if (!table_is_valid(&c->index, unexpected_hash_of_head,
                        &(const struct match_class_of){m->deep, c}))
        return false;
    for (uint32_t i = 0; i < table_size(&c->index) * BUCKET_GROUPS; i++) {
        struct group group = {.bucket = &c->index.buckets[i / BUCKET_GROUPS],
                              .lane = i % BUCKET_GROUPS};
        uint32_t count;

        if (is_free(group))
            continue;
        count = c == m->deep->primary ? count_linked(m, class, group)
                                      : count_nodes(m, class, group);
        if (count == 0)
            return false;
        *msgs += count;
    }
    return true;
}

/* The classes that have msg in their index, according to msg.  False if that is impossible. */
static bool indexes_of(const struct mbx_match_deep *deep, const struct mbx_match_msg *msg,
                       uint64_t *classes)
{
    *classes = (msg->at & IN_PRIMARY) != 0 ? UINT64_C(1) << deep->primary->number : 0;
    for (uint32_t number = msg->at & ~IN_PRIMARY; number != 0;
         number = deep->nodes[number].msg_next) {
        const struct index_node *node = &deep->nodes[number];

        if (!is_node(deep, number) || node->msg != msg || node->class >= MBX_MATCH_CLASSES ||
            (*classes >> node->class & 1) != 0)
            return false;
        *classes |= UINT64_C(1) << node->class;
    }
    return true;
}

/* The classes that have indexed any message; the other ones hold no information. */
static uint64_t classes_in_use(const struct mbx_match *m)
{
    uint64_t used = 0;

    for (uint32_t i = 0; i < m->deep->class_count; i++)
        if (!table_is_empty(&m->deep->classes[i].index) ||
            is_older(msg_of(m->msgs.all.next)->seq, m->deep->classes[i].indexed))
            used |= UINT64_C(1) << i;
    return used;
}

/* Checks I2, which implies that every node belongs to a queued message; msgs: the number in
 * each index. */
static bool watermarks_are_true(const struct mbx_match *m, const uint64_t *msgs)
{
    uint64_t used = classes_in_use(m), indexed[MBX_MATCH_CLASSES] = {0};
    const struct mbx_match_msg *msg = NULL;

    while ((msg = mbx_match_next_msg(m, msg)) != NULL) {
        uint64_t classes;

        if (!indexes_of(m->deep, msg, &classes) || (classes & ~used) != 0)
            return false;
        for (uint64_t left = used; left != 0; left &= left - 1) {
            int class = __builtin_ctzll(left);

            if ((classes >> class & 1) !=
                (uint64_t)is_older(msg->seq, m->deep->classes[class].indexed))
                return false;
            indexed[class] += classes >> class & 1;
        }
    }
    for (uint32_t i = 0; i < m->deep->class_count; i++)
        if (indexed[i] != msgs[i])
            return false;
    return true;
}

bool unexpected_is_valid(const struct mbx_match *m)
{
    uint64_t msgs[MBX_MATCH_CLASSES];

    for (uint32_t i = 0; i < m->deep->class_count; i++)
        if (!match_index_is_valid(m, i, &msgs[i]) || (queue_is_empty(&m->msgs) && msgs[i] != 0))
            return false;
    return queue_is_empty(&m->msgs) || watermarks_are_true(m, msgs);
}

bool mbx_match_is_valid(const struct mbx_match *m)
{
    return queue_is_valid(&m->recvs) && queue_is_valid(&m->msgs) && counters_add_up(m) &&
           recvs_are_in_order(m) && msgs_are_in_order(m) && nothing_is_left_to_match(m) &&
           probed_is_valid(m) &&
           (m->deep == NULL || (posted_is_valid(m) && unexpected_is_valid(m)));
}
