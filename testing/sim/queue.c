/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.c - packets in flight, one queue for each ordered pair.
 *
 *   send ──> queue [ p1 | p2 | p3 ]  p1 is due: the queue is on ready ──> poll, deliver
 *                    each has its own due moment, not before the packet in front of it
 *
 * The first send of a pair creates its queue.  It belongs to both sides and to its event,
 * and is freed by the one that releases it last.
 */
#include "testing/sim/sim_network.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* ---- links and queues ---- */

struct sim_link *queue_link(struct sim *sim, const struct transport_address *address,
                            uint32_t index)
{
    struct link_member *known = link_table_find(&sim->links, address);
    struct sim_link *link;

    if (known != NULL)
        return container_of(known, struct sim_link, member);
    link = mem_calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->member.link.transport = &sim->base;
    link->member.address = *address;
    link->remote = index;
    if (link_table_add(&sim->links, &link->member) != 0) {
        mem_free(link);
        return NULL;
    }
    return link;
}

static struct sim_packet *pop(struct sim_queue *q)
{
    struct sim_packet *p = q->first;

    q->first = p->next;
    q->count--;
    return p;
}

/* Frees the queue if nobody needs it any more. */
static void let_go(struct sim_queue *q)
{
    bool is_wanted = q->receiver != NULL && (q->count != 0 || q->sender != NULL);

    if (is_wanted || q->has_event || (q->receiver == NULL && q->sender != NULL))
        return;
    list_remove(&q->in_inbox);
    list_remove(&q->in_ready);
    while (q->count != 0)
        mem_free(pop(q));
    mem_free(q);
}

static int queue_create(struct sim_link *link)
{
    struct sim *sender = sim_of(link->member.link.transport), *receiver;
    struct sim_queue *q;
    int err = sim_network_find(link->remote, &receiver);

    if (err != 0)
        return -ENOTCONN;
    q = mem_calloc(1, sizeof *q);
    if (q == NULL)
        return -EAGAIN;
    q->receiver = receiver;
    q->sender = link;
    q->from_index = sender->index;
    sim_network_address(sender, &q->from);
    list_add_tail(&receiver->inbox, &q->in_inbox);
    link->out = q;
    return 0;
}

/* Schedules the event for the first packet; or, if the packet is due, puts the queue on
 * ready. */
static void queue_expect(struct sim_queue *q)
{
    uint64_t due_ns = q->first->due_ns;

    if (due_ns > sim_network.now_ns &&
        sim_network_add_event(EVENT_PACKET, due_ns, q->receiver->index, q) == 0)
        q->has_event = true;
    else
        list_add_tail(&q->receiver->ready, &q->in_ready);
}

void queue_due(struct sim_queue *q)
{
    q->has_event = false;
    if (q->receiver != NULL && q->count != 0)
        list_add_tail(&q->receiver->ready, &q->in_ready);
    else
        let_go(q);
}

/* ---- sending ---- */

static unsigned char *put(unsigned char *to, const void *from, size_t size)
{
    if (size != 0)
        memcpy(to, from, size);
    return to + size;
}

static struct sim_packet *packet_make(const struct transport_packet *packet)
{
    size_t size = sizeof *packet->header + packet->body_size + packet->payload_size;
    struct sim_packet *p = mem_alloc(sizeof *p + size);
    unsigned char *end;

    assert(size <= SIM_PACKET_MAX);
    if (p == NULL)
        return NULL;
    p->next = NULL;
    p->size = size;
    end = put(p->bytes, packet->header, sizeof *packet->header);
    end = put(end, packet->body, packet->body_size);
    put(end, packet->payload, packet->payload_size);
    return p;
}

static void push(struct sim_queue *q, struct sim_packet *p)
{
    p->due_ns = sim_network_later();
    if (p->due_ns < q->last_due_ns)
        p->due_ns = q->last_due_ns;
    q->last_due_ns = p->due_ns;
    if (q->count++ != 0) {
        q->last->next = p;
        q->last = p;
        return;
    }
    q->first = q->last = p;
    if (!list_is_linked(&q->in_ready) && !q->has_event) /* otherwise it is being delivered */
        queue_expect(q);
}

/* Schedules a notification of the sender that there is space. */
static void notify_space(struct sim_link *link)
{
    struct sim *sim = sim_of(link->member.link.transport);

    if (!link->is_notified &&
        sim_network_add_event(EVENT_SPACE, sim_network_later(), sim->index, link) == 0)
        link->is_notified = true;
}

/* As transport_ops.send, for a link that has a queue. */
static int queue_take(struct sim_link *link, const struct transport_packet *packet)
{
    struct sim_queue *q = link->out;
    struct sim_packet *p;

    if (q->receiver == NULL)
        return -ENOTCONN;
    if (q->count >= sim_network.config.depth) {
        q->is_awaited = true;
        return -EAGAIN;
    }
    p = sim_network_chance(sim_network.config.percent_full) ? NULL : packet_make(packet);
    if (p == NULL) {
        notify_space(link);
        return -EAGAIN;
    }
    push(q, p);
    return 0;
}

int queue_send(struct link *l, const struct transport_packet *packet)
{
    struct sim_link *link = sim_link_of(l);
    int err = 0;

    if (sim_of(l->transport)->is_dead)
        return -ENOTCONN;
    if (link->out == NULL)
        err = queue_create(link);
    if (err == -EAGAIN)
        notify_space(link);
    return err != 0 ? err : queue_take(link, packet);
}

/* ---- receiving ---- */

/* Introduces an unknown peer.  0, even if it is refused; -EAGAIN: later. */
static int introduce(struct sim *sim, struct sim_queue *q)
{
    struct sim_link *link;
    int err;

    if (q->answer != NULL || q->is_refused)
        return 0;
    link = queue_link(sim, &q->from, q->from_index);
    if (link == NULL)
        return -EAGAIN;
    err = link_member_present(&link->member, sim->events, sim->arg);
    if (err == -EAGAIN)
        return err;
    if (err != 0)
        q->is_refused = true;
    else
        q->answer = link;
    return 0;
}

/* Delivers the first packet.  0: it has gone; -EAGAIN: it stays. */
static int deliver_first(struct sim *sim, struct sim_queue *q)
{
    struct sim_packet *p = q->first;
    int err = introduce(sim, q);

    if (err != 0)
        return err;
    if (q->is_refused)
        sim->events->dropped(sim->arg, "packet of an endpoint that was refused");
    else
        err = sim->events->deliver(sim->arg, q->answer->member.link.peer, p->bytes, p->size);
    if (err != 0)
        return -EAGAIN;
    sim_network.packets++;
    if (sim_network.config.delivered != NULL)
        sim_network.config.delivered(sim_network.config.arg, q->from_index, sim->index,
                                     p->bytes, p->size);
    mem_free(pop(q));
    if (q->is_awaited && q->sender != NULL) {
        q->is_awaited = false;
        notify_space(q->sender);
    }
    return 0;
}

int queue_deliver(struct sim *sim, int budget)
{
    int delivered = 0;
    struct list *node;

    while (delivered < budget && (node = list_first(&sim->ready)) != NULL) {
        struct sim_queue *q = container_of(node, struct sim_queue, in_ready);

        if (deliver_first(sim, q) != 0) { /* no memory now: tries again later */
            sim_network_add_event(EVENT_SPACE, sim_network_later(), sim->index, NULL);
            break;
        }
        delivered++;
        list_remove(node);
        if (q->count != 0)
            queue_expect(q);
        else
            let_go(q);
    }
    return delivered;
}

/* ---- looking ---- */

static void each_of(const struct sim *sim,
                    void (*visit)(void *arg, uint32_t from, uint32_t to, const void *packet,
                                  size_t size),
                    void *arg)
{
    struct list *node;

    list_for_each (node, &sim->inbox) {
        const struct sim_queue *q = container_of(node, struct sim_queue, in_inbox);

        for (const struct sim_packet *p = q->first; p != NULL && q->count != 0; p = p->next)
            visit(arg, q->from_index, sim->index, p->bytes, p->size);
    }
}

void sim_each_packet(void (*visit)(void *arg, uint32_t from, uint32_t to, const void *packet,
                                   size_t size),
                     void *arg)
{
    for (uint32_t i = 0; i < sim_network.count; i++)
        if (sim_network.places[i].sim != NULL)
            each_of(sim_network.places[i].sim, visit, arg);
}

/* ---- the end ---- */

/* Drops a random number of its packets, from the end. */
static void cut(struct sim_queue *q)
{
    uint64_t left = random_below(&sim_network.random, 2 * (uint64_t)q->count + 1);

    if (left >= q->count)
        return;
    for (struct sim_packet **p = &q->first; q->count != 0; p = &(*p)->next) {
        if (left-- != 0) {
            q->last = *p;
            continue;
        }
        while (*p != NULL) {
            struct sim_packet *next = (*p)->next;

            mem_free(*p);
            *p = next;
            q->count--;
        }
        return;
    }
}

static void leave_inbox(struct sim *sim)
{
    struct list *node;

    while ((node = list_pop_head(&sim->inbox)) != NULL) {
        struct sim_queue *q = container_of(node, struct sim_queue, in_inbox);

        list_remove(&q->in_ready);
        q->receiver = NULL;
        if (q->is_awaited && q->sender != NULL)
            notify_space(q->sender); /* it will find that the receiver is gone */
        let_go(q);
    }
}

void queue_leave(struct sim *sim, bool is_lost)
{
    struct link_member *member;
    size_t position = 0;

    leave_inbox(sim);
    while ((member = link_table_next(&sim->links, &position)) != NULL) {
        struct sim_link *link = container_of(member, struct sim_link, member);
        struct sim_queue *q = link->out;

        link->out = NULL;
        if (q == NULL)
            continue;
        if (is_lost)
            cut(q);
        q->sender = NULL;
        if (q->count == 0)
            list_remove(&q->in_ready);
        let_go(q);
    }
}
