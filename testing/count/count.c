/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * count.c - the smallest transport: it has the twelve operations, and counts packets.
 *
 *   send(link) ── a packet, copied ──> inbox of the receiver ──> poll: deliver
 *
 * Each endpoint has one inbox, in the order of the sends; so the packets of each pair stay in
 * order.  A packet that deliver() does not take now stops the whole inbox until the next poll().
 *
 * All endpoints belong to one thread.  wait() never sleeps: nobody else could wake it.
 *
 * Invariants
 *   I1  link.under_way counts the packets of this link in the inbox of its receiver
 *   I2  when a sender closes, its packets lose it, and are still delivered
 */
#include "testing/count/count.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/list.h"
#include "base/mem.h"
#include "transport/link_table.h"

#define ENDPOINTS_MOST 64
#define DEPTH          16 /* maximum packets in flight on one link */
#define PACKET_MAX     4096
#define INLINE_MAX     64

struct count {
    struct transport base;
    const struct transport_events *events;
    void *arg;
    uint32_t place, credit;
    uint64_t cookie;
    struct link_table links;
    struct list inbox; /* packet.in_inbox */
    struct count_totals totals;
};

struct count_link {
    struct link_member member;
    uint32_t under_way;
    bool was_full; /* send() returned -EAGAIN */
};

struct packet {
    struct list in_inbox;
    struct count_link *sender; /* NULL: closed */
    struct transport_address from;
    size_t size;
    alignas(8) unsigned char bytes[];
};

static struct {
    struct count *open[ENDPOINTS_MOST]; /* by place; NULL: free */
    uint64_t cookies;                   /* number of cookies given so far */
} process;

static struct count *count_of(const struct transport *t)
{
    return container_of(t, struct count, base);
}

static struct count_link *link_of(struct link *link)
{
    return container_of(link, struct count_link, member.link);
}

const struct count_totals *count_totals(const struct transport_address *address)
{
    return &process.open[address->place]->totals;
}

/* ---- addresses ---- */

static void count_address(const struct transport *t, struct transport_address *address)
{
    const struct count *count = count_of(t);

    *address = (struct transport_address){.kind = ADDRESS_COUNT,
                                          .process = (uint32_t)getpid(),
                                          .place = count->place,
                                          .cookie = count->cookie,
                                          .credit = count->credit};
}

static int count_reaches(const struct transport *t, const struct transport_address *address)
{
    (void)t;
    if (address->kind != ADDRESS_COUNT || address->place >= ENDPOINTS_MOST)
        return -EINVAL;
    return address->process == (uint32_t)getpid() ? 0 : -EHOSTUNREACH;
}

/* The open endpoint at the address.  0; -ENOTCONN: it has closed; -EHOSTUNREACH: it never
 * existed. */
static int find(const struct transport_address *address, struct count **out)
{
    struct count *count = process.open[address->place];
    struct transport_address own = {0};

    *out = count;
    if (count != NULL)
        count_address(&count->base, &own);
    if (address_is_same(&own, address))
        return 0;
    return address->cookie <= process.cookies ? -ENOTCONN : -EHOSTUNREACH;
}

/* ---- links ---- */

static struct count_link *link_get(struct count *count, const struct transport_address *address)
{
    struct link_member *known = link_table_find(&count->links, address);
    struct count_link *link;

    if (known != NULL)
        return container_of(known, struct count_link, member);
    link = mem_calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->member.link.transport = &count->base;
    link->member.address = *address;
    if (link_table_add(&count->links, &link->member) == 0)
        return link;
    mem_free(link);
    return NULL;
}

static int count_connect(struct transport *t, const struct transport_address *address,
                         struct link **out)
{
    int err = count_reaches(t, address);
    struct count_link *link = err == 0 ? link_get(count_of(t), address) : NULL;

    if (err != 0)
        return err;
    if (link == NULL)
        return -ENOMEM;
    link->member.named = true;
    *out = &link->member.link;
    return 0;
}

static int count_check_address(const struct transport *t,
                               const struct transport_address *address)
{
    struct count *receiver;

    (void)t;
    return find(address, &receiver);
}

static int count_check(struct link *l)
{
    return count_check_address(l->transport, &link_of(l)->member.address);
}

/* ---- sending ---- */

static unsigned char *put(unsigned char *to, const void *from, size_t size)
{
    if (size != 0)
        memcpy(to, from, size);
    return to + size;
}

static struct packet *packet_make(const struct transport_packet *parts)
{
    size_t size = sizeof *parts->header + parts->body_size + parts->payload_size;
    struct packet *packet = mem_alloc(sizeof *packet + size);
    unsigned char *end;

    assert(size <= PACKET_MAX);
    if (packet == NULL)
        return NULL;
    packet->size = size;
    list_init_node(&packet->in_inbox);
    end = put(packet->bytes, parts->header, sizeof *parts->header);
    end = put(end, parts->body, parts->body_size);
    put(end, parts->payload, parts->payload_size);
    return packet;
}

static int count_send(struct link *l, const struct transport_packet *parts)
{
    struct count *count = count_of(l->transport), *receiver;
    struct count_link *link = link_of(l);
    int err = find(&link->member.address, &receiver);
    struct packet *packet;

    if (err != 0)
        return err;
    packet = link->under_way < DEPTH ? packet_make(parts) : NULL;
    link->was_full = packet == NULL;
    count->totals.full += packet == NULL;
    if (packet == NULL)
        return -EAGAIN;
    packet->sender = link;
    count_address(&count->base, &packet->from);
    list_add_tail(&receiver->inbox, &packet->in_inbox);
    link->under_way++;
    count->totals.sent++;
    count->totals.sent_bytes += packet->size;
    return 0;
}

/* ---- receiving ---- */

/* Delivers a packet.  0: it is done; -EAGAIN: it must be offered again. */
static int offer(struct count *count, const struct packet *packet)
{
    struct count_link *link = link_get(count, &packet->from);
    int err =
        link != NULL ? link_member_present(&link->member, count->events, count->arg) : -EAGAIN;

    if (err == 0) {
        err = count->events->deliver(count->arg, link->member.link.peer, packet->bytes,
                                     packet->size);
    } else if (err != -EAGAIN) {
        count->events->dropped(count->arg, "a packet of a refused peer");
        link->member.refused = true;
    }
    return err == -EAGAIN ? err : 0;
}

static void packet_end(struct packet *packet)
{
    if (packet->sender != NULL)
        packet->sender->under_way--;
    list_remove(&packet->in_inbox);
    mem_free(packet);
}

static int count_poll(struct transport *t, int budget)
{
    struct count *count = count_of(t);
    int delivered = 0;
    struct list *node;

    while (delivered < budget && (node = list_first(&count->inbox)) != NULL) {
        struct packet *packet = container_of(node, struct packet, in_inbox);

        if (offer(count, packet) != 0)
            break;
        delivered++;
        count->totals.delivered++;
        count->totals.delivered_bytes += packet->size;
        packet_end(packet);
    }
    return delivered;
}

/* ---- waiting ---- */

static bool has_space(const struct count *count)
{
    struct link_member *member;
    size_t position = 0;

    while ((member = link_table_next(&count->links, &position)) != NULL) {
        const struct count_link *link = container_of(member, struct count_link, member);

        if (link->was_full && link->under_way < DEPTH)
            return true;
    }
    return false;
}

static int count_wait(struct transport *t, int64_t timeout_ns)
{
    struct count *count = count_of(t);

    (void)timeout_ns;
    return !list_is_empty(&count->inbox) || has_space(count) ? 0 : -ETIMEDOUT;
}

static void count_wake(struct transport *t)
{
    (void)t; /* wait() never sleeps */
}

static bool count_is_flushed(struct transport *t)
{
    (void)t;
    return true; /* all sent packets are in their receivers' inboxes */
}

/* ---- open and close ---- */

static int place_take(struct count *count)
{
    for (uint32_t i = 0; i < ENDPOINTS_MOST; i++)
        if (process.open[i] == NULL) {
            process.open[i] = count;
            count->place = i;
            count->cookie = ++process.cookies;
            return 0;
        }
    return -EMFILE;
}

static int count_open(const struct transport_config *config, struct transport **out)
{
    struct count *count = mem_calloc(1, sizeof *count);
    int err = count != NULL ? place_take(count) : -ENOMEM;

    if (err != 0) {
        mem_free(count);
        return err;
    }
    count->base.ops = &transport_count;
    count->base.limits =
        (struct transport_limits){.packet_max = PACKET_MAX, .inline_max = INLINE_MAX};
    count->events = config->events;
    count->arg = config->arg;
    count->credit = config->credit;
    list_init(&count->inbox);
    link_table_init(&count->links, NULL);
    *out = &count->base;
    return 0;
}

/* Removes the sender from its packets in flight. */
static void forget_sender(const struct count_link *link)
{
    struct count *receiver;
    struct list *node;

    if (find(&link->member.address, &receiver) != 0)
        return;
    list_for_each (node, &receiver->inbox) {
        struct packet *packet = container_of(node, struct packet, in_inbox);

        if (packet->sender == link)
            packet->sender = NULL;
    }
}

static void count_close(struct transport *t)
{
    struct count *count = count_of(t);
    struct link_member *member;
    struct list *node;
    size_t position = 0;

    while ((node = list_first(&count->inbox)) != NULL)
        packet_end(container_of(node, struct packet, in_inbox));
    while ((member = link_table_next(&count->links, &position)) != NULL) {
        forget_sender(container_of(member, struct count_link, member));
        mem_free(container_of(member, struct count_link, member));
    }
    link_table_fini(&count->links);
    process.open[count->place] = NULL;
    mem_free(count);
}

const struct transport_ops transport_count = {
    .name = "count",
    .about = "endpoints of one thread, and how much goes between them",
    .open = count_open,
    .close = count_close,
    .address = count_address,
    .reaches = count_reaches,
    .connect = count_connect,
    .send = count_send,
    .check = count_check,
    .check_address = count_check_address,
    .poll = count_poll,
    .wait = count_wait,
    .wake = count_wake,
    .is_flushed = count_is_flushed,
};
