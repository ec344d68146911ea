/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * valid.c - do all invariants of match.h, match.c and deep.h hold?  For tests: slow, and
 * careful with what it follows, as it is asked about engines that are wrong.
 */
#include "match/deep.h"

/* Never walks further than count, so a list that lost its head ends too. */
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
        if (recv->state != MBX_MATCH_QUEUED || !is_older(recv->seq, m->next_seq))
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
        if (msg->state != MBX_MATCH_QUEUED || !is_older(msg->seq, m->next_seq))
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

/* ---- match.h I3, match.c I7 ---- */

static bool counters_add_up(const struct mbx_match_counters *c)
{
    return c->posted == c->met_posts + c->matched_posts + c->cancelled + c->recvs &&
           c->arrived == c->met_arrivals + c->matched_arrivals + c->claimed + c->msgs &&
           c->met_posts == c->matched_arrivals && c->met_arrivals == c->matched_posts &&
           c->recvs <= c->recvs_max && c->msgs <= c->msgs_max &&
           c->search_max <= c->search_steps;
}

/* ---- match.c I5 ---- */

static bool slots_are_valid(const struct mbx_match_slots *slots, bool is_long, uint64_t count)
{
    if (is_long)
        return slots->live == 0 && slots->next == 0;
    return slots->next <= MBX_MATCH_SLOTS &&
           (uint64_t)__builtin_popcount(slots->live) == count &&
           (uint64_t)slots->live >> slots->next == 0;
}

static bool recv_slot_is_valid(const struct mbx_match *m, uint32_t slot)
{
    const struct mbx_match_recv_block *block = &m->recv_blocks[slot / MBX_MATCH_LANES];
    uint32_t lane = slot % MBX_MATCH_LANES;
    const struct mbx_match_recv *recv = block->entry[lane];
    struct match_mask mask = mask_of(&recv->envelope, recv->ignore);
    struct match_key key = key_of(&recv->envelope);

    return recv->at == slot && block->place[lane] == key.place && block->tag[lane] == key.tag &&
           block->place_mask[lane] == mask.place && block->tag_mask[lane] == mask.tag;
}

static bool msg_slot_is_valid(const struct mbx_match *m, uint32_t slot)
{
    const struct mbx_match_msg_block *block = &m->msg_blocks[slot / MBX_MATCH_LANES];
    uint32_t lane = slot % MBX_MATCH_LANES;
    const struct mbx_match_msg *msg = block->entry[lane];
    struct match_key key = key_of(&msg->envelope);

    return msg->at == slot && block->place[lane] == key.place && block->tag[lane] == key.tag;
}

static bool short_queues_are_valid(const struct mbx_match *m)
{
    if (!slots_are_valid(&m->recv_slots, m->recvs_long, m->count.recvs) ||
        !slots_are_valid(&m->msg_slots, m->msgs_long, m->count.msgs))
        return false;
    for (uint32_t left = m->recv_slots.live; left != 0; left &= left - 1)
        if (!recv_slot_is_valid(m, (uint32_t)__builtin_ctz(left)))
            return false;
    for (uint32_t left = m->msg_slots.live; left != 0; left &= left - 1)
        if (!msg_slot_is_valid(m, (uint32_t)__builtin_ctz(left)))
            return false;
    return true;
}

/* ---- match.c I6 ---- */

static bool long_queues_are_valid(const struct mbx_match *m)
{
    return links_are_valid(&m->recvs, m->recvs_long ? m->count.recvs : 0) &&
           links_are_valid(&m->msgs, m->msgs_long ? m->count.msgs : 0) &&
           (!m->recvs_long || m->deep != NULL) &&
           m->recv_room == (m->recvs_long ? 0 : m->options.short_max);
}

/* ---- deep.h I1, I3, I4 of the receives ---- */

/* The receives of one group: of the class and the print, older to younger.  How many;
 * 0 if they are not. */
static uint32_t count_group(const struct mbx_match *m, uint32_t class, struct group group)
{
    const struct mbx_match_recv *first = (const struct mbx_match_recv *)group_head(group),
                                *recv = first;
    uint32_t count = 0;

    do {
        const struct mbx_match_recv *next = recv_of_group(recv->group.next);
        struct match_mask mask = mask_of(&recv->envelope, recv->ignore);

        if (recv->state != MBX_MATCH_QUEUED || recv->at != class || ++count > m->count.recvs ||
            recv->group.next->prev != &recv->group ||
            mask.place != m->deep->masks[class].place ||
            mask.tag != m->deep->masks[class].tag ||
            deep_print(m->deep, key_of(&recv->envelope), mask) !=
                group.bucket->prints[group.lane])
            return 0;
        if (next != first && !is_older(recv->seq, next->seq))
            return 0;
        recv = next;
    } while (recv != first);
    return count;
}

static bool posted_class_is_valid(const struct mbx_match *m, uint32_t class)
{
    const struct match_class *c = &m->deep->classes[class];
    uint32_t recvs = 0;

    if (!table_is_valid(&c->posted) || (m->deep->busy >> class & 1) != (c->recvs != 0))
        return false;
    for (uint32_t i = 0; i < c->posted.size * BUCKET_GROUPS; i++) {
        struct group group = {&c->posted.buckets[i / BUCKET_GROUPS], i % BUCKET_GROUPS};
        uint32_t count;

        if (group_head(group) == 0)
            continue;
        count = count_group(m, class, group);
        if (count == 0)
            return false;
        recvs += count;
    }
    return recvs == c->recvs;
}

static bool overflow_is_valid(const struct mbx_match *m, uint64_t count)
{
    const struct mbx_match_link *head = &m->deep->overflow;

    if (!links_are_valid(head, count))
        return false;
    for (const struct mbx_match_link *link = head->next; link != head; link = link->next)
        if (recv_of_group(link)->at != CLASS_NONE ||
            (link->next != head &&
             !is_older(recv_of_group(link)->seq, recv_of_group(link->next)->seq)))
            return false;
    return true;
}

bool posted_is_valid(const struct mbx_match *m)
{
    uint64_t in_classes = 0;

    for (uint32_t i = 0; i < m->deep->class_count; i++) {
        if (!posted_class_is_valid(m, i))
            return false;
        in_classes += m->deep->classes[i].recvs;
    }
    if (!m->recvs_long)
        return in_classes == 0 && overflow_is_valid(m, 0);
    return in_classes <= m->count.recvs && overflow_is_valid(m, m->count.recvs - in_classes);
}

/* ---- deep.h I1, I2, I4 of the messages ---- */

static bool is_node(const struct mbx_match_deep *deep, uint32_t number)
{
    return number != 0 && number < deep->node_count && deep->nodes[number].msg != NULL;
}

/* As count_group(). */
static uint32_t count_nodes(const struct mbx_match *m, uint32_t class, struct group group)
{
    const struct mbx_match_deep *deep = m->deep;
    uint32_t head = (uint32_t)group_head(group), number = head, count = 0;

    do {
        const struct index_node *node = &deep->nodes[number];

        if (!is_node(deep, number) || node->class != class || ++count > m->count.msgs ||
            !is_node(deep, node->next) || deep->nodes[node->next].prev != number ||
            node->msg->state != MBX_MATCH_QUEUED ||
            deep_print(deep, key_of(&node->msg->envelope), deep->masks[class]) !=
                group.bucket->prints[group.lane])
            return 0;
        if (node->next != head && !is_older(node->msg->seq, deep->nodes[node->next].msg->seq))
            return 0;
        number = node->next;
    } while (number != head);
    return count;
}

static bool index_is_valid(const struct mbx_match *m, uint32_t class)
{
    const struct match_class *c = &m->deep->classes[class];
    uint32_t msgs = 0;

    if (!table_is_valid(&c->index))
        return false;
    for (uint32_t i = 0; i < c->index.size * BUCKET_GROUPS; i++) {
        struct group group = {&c->index.buckets[i / BUCKET_GROUPS], i % BUCKET_GROUPS};
        uint32_t count;

        if (group_head(group) == 0)
            continue;
        count = count_nodes(m, class, group);
        if (count == 0)
            return false;
        msgs += count;
    }
    return msgs == c->msgs;
}

/* The classes in whose indexes msg is, by its own account.  False if that is not even
 * possible. */
static bool indexes_of(const struct mbx_match_deep *deep, const struct mbx_match_msg *msg,
                       uint64_t *classes)
{
    *classes = 0;
    for (uint32_t number = msg->at; number != 0; number = deep->nodes[number].msg_next) {
        const struct index_node *node = &deep->nodes[number];

        if (!is_node(deep, number) || node->msg != msg || node->class >= MBX_MATCH_CLASSES ||
            (*classes >> node->class & 1) != 0)
            return false;
        *classes |= UINT64_C(1) << node->class;
    }
    return true;
}

/* The classes that have seen any message: the others hold for all. */
static uint64_t classes_in_use(const struct mbx_match *m)
{
    uint64_t used = 0;

    for (uint32_t i = 0; i < m->deep->class_count; i++)
        if (m->deep->classes[i].msgs != 0 ||
            is_older(msg_of(m->msgs.next)->seq, m->deep->classes[i].indexed))
            used |= UINT64_C(1) << i;
    return used;
}

/* I2, and so every node is that of a queued message. */
static bool watermarks_are_true(const struct mbx_match *m)
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
        if (indexed[i] != m->deep->classes[i].msgs)
            return false;
    return true;
}

bool unexpected_is_valid(const struct mbx_match *m)
{
    for (uint32_t i = 0; i < m->deep->class_count; i++)
        if (!index_is_valid(m, i) || (!m->msgs_long && m->deep->classes[i].msgs != 0))
            return false;
    return !m->msgs_long || watermarks_are_true(m);
}

bool mbx_match_is_valid(const struct mbx_match *m)
{
    return long_queues_are_valid(m) && short_queues_are_valid(m) &&
           counters_add_up(&m->count) && recvs_are_in_order(m) && msgs_are_in_order(m) &&
           nothing_is_left_to_match(m) &&
           (m->deep == NULL || (posted_is_valid(m) && unexpected_is_valid(m)));
}
