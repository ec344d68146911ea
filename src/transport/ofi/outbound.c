/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * outbound.c - what leaves: packets of the core, and what links owe.
 *
 *   short, and nothing waits ──> inject
 *   else ──> a buffer ──> link.queue ──> the provider ──> its completion gives the buffer back
 *
 * What is sent before the link is open waits in its queue.  What cannot leave because the
 * provider is full waits there, too; beyond OFI_QUEUE_MAX packets send() says "full".
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/ofi/ofi.h"

#define STUCK_NS (100 * CLOCK_MS) /* what leaves no sooner may never do */

static struct ofi_link *busy_link(struct list *node)
{
    return container_of(node, struct ofi_link, in_busy);
}

/* ---- buffers ---- */

static struct ofi_buffer *buffer_take(struct ofi *ofi, uint32_t reserve)
{
    struct list *node = ofi->free_count > reserve ? list_pop_head(&ofi->free) : NULL;

    if (node == NULL)
        return NULL;
    ofi->free_count--;
    return container_of(node, struct ofi_buffer, node);
}

static void buffer_give(struct ofi *ofi, struct ofi_buffer *buffer)
{
    buffer->link = NULL;
    list_add_head(&ofi->free, &buffer->node); /* the one that the cache still has */
    ofi->free_count++;
}

static void write_prefix(unsigned char *bytes, const struct ofi_link *link, enum ofi_kind kind,
                         size_t padding)
{
    const struct ofi_prefix prefix = {
        .kind = (uint8_t)kind,
        .version = OFI_VERSION,
        .count =
            (uint16_t)(padding | (ofi_counts(kind) ? link->left & OFI_COUNT_MASK : 0) << 3),
        .to = kind == OFI_HELLO ? 0 : link->theirs.id,
        .token = kind == OFI_HELLO ? 0 : link->theirs.token,
    };

    memcpy(bytes, &prefix, sizeof prefix);
}

static enum ofi_kind kind_of(const struct ofi_buffer *buffer)
{
    return (enum ofi_kind)buffer->bytes[offsetof(struct ofi_prefix, kind)];
}

static bool is_greeting(enum ofi_kind kind)
{
    return kind == OFI_HELLO || kind == OFI_WELCOME || kind == OFI_PROOF;
}

void ofi_sent(struct ofi *ofi, struct ofi_buffer *buffer)
{
    buffer_give(ofi, buffer);
}

void ofi_send_failed(struct ofi *ofi, struct ofi_buffer *buffer, int error)
{
    struct ofi_link *link = buffer->link;
    enum ofi_kind kind = kind_of(buffer);

    buffer_give(ofi, buffer);
    if ((error == FI_ECANCELED && ofi->is_closing) || link->state == OFI_DEAD)
        return;
    LOG_DEBUG("ofi: a packet was not sent, error %d %s", error, ofi->library->strerror(error));
    if (link->state == OFI_OPEN && !is_greeting(kind))
        ofi_link_kill(link, -ENOTCONN, true);
    else
        ofi_greeting_failed(link, kind, error);
}

void ofi_queue_drop(struct ofi_link *link)
{
    struct list *node;

    while ((node = list_pop_head(&link->queue)) != NULL)
        buffer_give(ofi_of_link(link), container_of(node, struct ofi_buffer, node));
    link->queued = 0;
    list_remove(&link->in_busy);
}

/* ---- leaving ---- */

void ofi_mark_busy(struct ofi_link *link)
{
    if (!list_is_linked(&link->in_busy))
        list_add_tail(&ofi_of_link(link)->busy, &link->in_busy);
}

void ofi_owe(struct ofi_link *link, enum ofi_kind kind)
{
    link->owes |= (uint16_t)(1u << kind);
    ofi_mark_busy(link);
}

bool ofi_is_stuck(const struct ofi_link *link, enum ofi_kind kind, uint64_t since_ns,
                  uint64_t now)
{
    return (link->owes & 1u << kind) != 0 && now - since_ns > STUCK_NS;
}

/* 0; -EAGAIN; or the link is dead. */
static int hand_over(struct ofi_link *link, struct ofi_buffer *buffer)
{
    struct ofi *ofi = ofi_of_link(link);
    ssize_t err;

    buffer->link = link;
    err = fi_send(ofi->ep, buffer->bytes, buffer->size, buffer->descriptor, link->to,
                  &buffer->operation.context);
    if (err == -FI_EAGAIN)
        return -EAGAIN;
    if (err != 0)
        ofi_send_failed(ofi, buffer, (int)-err);
    return err == 0 ? 0 : link->error;
}

static int pay_one(struct ofi_link *link, enum ofi_kind kind)
{
    struct ofi *ofi = ofi_of_link(link);
    struct ofi_buffer *buffer = buffer_take(ofi, 0);
    int err;

    if (buffer == NULL)
        return -EAGAIN;
    write_prefix(buffer->bytes, link, kind, 0);
    buffer->size = sizeof(struct ofi_prefix) +
                   ofi_write_greeting(link, kind, buffer->bytes + sizeof(struct ofi_prefix));
    link->owes &= (uint16_t) ~(1u << kind); /* unless it fails, and is to be said again */
    err = hand_over(link, buffer);
    if (err == -EAGAIN) {
        buffer_give(ofi, buffer);
        link->owes |= (uint16_t)(1u << kind);
    }
    return err;
}

/* Of what a link owes, what goes in front of its packets, and behind. */
static const enum ofi_kind before[] = {OFI_HELLO, OFI_WELCOME, OFI_PROOF, OFI_REFUSED,
                                       OFI_PING,  OFI_PONG,    OFI_BROKEN};

static int pay(struct ofi_link *link, const enum ofi_kind *kinds, size_t count, int *paid)
{
    int err = 0;

    for (size_t i = 0; i < count && err == 0 && link->owes != 0; i++)
        if (link->owes & 1u << kinds[i]) {
            err = pay_one(link, kinds[i]);
            *paid += err == 0;
        }
    return err;
}

static int leave(struct ofi_link *link, struct ofi_buffer *buffer)
{
    struct ofi *ofi = ofi_of_link(link);

    if (!link->is_self) {
        int err;

        /* only now: what it is called there may be known since a moment ago */
        write_prefix(buffer->bytes, link, OFI_DATA, buffer->padding);
        err = hand_over(link, buffer);
        ofi->begun += err == 0;
        link->left += err == 0;
        return err;
    }
    if (!ofi->is_closing &&
        ofi_deliver(link, buffer->bytes + sizeof(struct ofi_prefix), buffer->size) == -EAGAIN)
        return -EAGAIN;
    buffer_give(ofi, buffer);
    return 0;
}

static int push_queue(struct ofi_link *link, int *pushed)
{
    uint32_t most = link->queued; /* to ourselves there may be ever more */
    int err = 0;

    while (link->state == OFI_OPEN && !list_is_empty(&link->queue) && most-- != 0) {
        struct list *node = list_pop_head(&link->queue);

        err = leave(link, container_of(node, struct ofi_buffer, node));
        if (err == -EAGAIN)
            list_add_head(&link->queue, node);
        if (err != 0)
            return err;
        link->queued--;
        ++*pushed;
    }
    return err;
}

int ofi_push(struct ofi_link *link)
{
    static const enum ofi_kind behind = OFI_BYE;
    int moved = 0;
    int err = pay(link, before, ARRAY_COUNT(before), &moved);

    if (err == 0)
        err = push_queue(link, &moved);
    if (err == 0 && list_is_empty(&link->queue))
        pay(link, &behind, 1, &moved);
    if (link->owes == 0 && list_is_empty(&link->queue))
        list_remove(&link->in_busy);
    return moved;
}

int ofi_push_all(struct ofi *ofi)
{
    struct list now;
    struct list *node;
    int moved = 0;

    list_init(&now);
    list_splice_tail(&now, &ofi->busy);
    while ((node = list_pop_head(&now)) != NULL) {
        list_add_tail(&ofi->busy, node);
        moved += ofi_push(busy_link(node));
    }
    return moved;
}

/* ---- sending ---- */

static void write_packet(unsigned char *bytes, const struct transport_packet *packet)
{
    memcpy(bytes, packet->header, sizeof *packet->header);
    bytes += sizeof *packet->header;
    if (packet->body_size != 0)
        memcpy(bytes, packet->body, packet->body_size);
    if (packet->payload_size != 0)
        memcpy(bytes + packet->body_size, packet->payload, packet->payload_size);
}

/* The short way of a short packet.  0; or it has to take the long one. */
static int inject(struct ofi_link *link, const struct transport_packet *packet, size_t size,
                  size_t padding)
{
    struct ofi *ofi = ofi_of_link(link);
    alignas(8) unsigned char bytes[256];

    write_prefix(bytes, link, OFI_DATA, padding);
    write_packet(bytes + sizeof(struct ofi_prefix), packet);
    memset(bytes + size - padding, 0, padding);
    if (fi_inject(ofi->ep, bytes, size, link->to) != 0)
        return -EAGAIN;
    ofi->begun++;
    link->left++;
    return 0;
}

static int enqueue(struct ofi_link *link, const struct transport_packet *packet, size_t size,
                   size_t padding)
{
    struct ofi *ofi = ofi_of_link(link);
    struct ofi_buffer *buffer =
        link->queued < OFI_QUEUE_MAX ? buffer_take(ofi, OFI_RESERVE) : NULL;

    if (buffer == NULL)
        return -EAGAIN;
    write_packet(buffer->bytes + sizeof(struct ofi_prefix), packet);
    memset(buffer->bytes + size - padding, 0, padding);
    buffer->size = link->is_self ? size - padding - sizeof(struct ofi_prefix) : size;
    buffer->padding = padding;
    buffer->link = link;
    list_add_tail(&link->queue, &buffer->node);
    link->queued++;
    return 0;
}

int ofi_send(struct link *l, const struct transport_packet *packet)
{
    struct ofi_link *link = ofi_link_of(l);
    struct ofi *ofi = ofi_of_link(link);
    size_t used = sizeof(struct ofi_prefix) + sizeof *packet->header + packet->body_size +
                  packet->payload_size;
    size_t padding = -used % 8, size = used + padding;
    int moved = 0, err;

    assert(used - sizeof(struct ofi_prefix) <= OFI_PACKET_MAX);
    if (link->state == OFI_DEAD)
        return link->error;
    if (link->state == OFI_NEW)
        ofi_call(link);
    if (size <= ofi->inject_max && link->state == OFI_OPEN && !link->is_self &&
        !list_is_linked(&link->in_busy) && inject(link, packet, size, padding) == 0)
        return 0;
    err = enqueue(link, packet, size, padding);
    if (err != 0)
        return err;
    if (link->is_self || list_is_linked(&link->in_busy)) {
        ofi_mark_busy(link);
        return 0;
    }
    push_queue(link, &moved);
    if (link->state == OFI_DEAD)
        return link->error;
    if (!list_is_empty(&link->queue))
        ofi_mark_busy(link);
    return 0;
}
