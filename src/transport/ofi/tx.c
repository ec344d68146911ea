/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tx.c - sends packets of the core, and control packets of links.
 *
 *   short, and nothing waits ──> inject
 *   otherwise ──> a buffer ──> link.queue ──> the provider ──> its completion frees the buffer
 *
 * Packets that are sent before the link is open wait in its queue, and so do packets that the
 * provider has no space for; beyond OFI_QUEUE_MAX packets send() returns -EAGAIN.
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/ofi/ofi.h"

#define STUCK_NS   (100 * CLOCK_MS) /* a packet that has not left by then may never leave */
#define INJECT_MAX 256

static struct ofi_link *busy_link(struct list *node)
{
    return container_of(node, struct ofi_link, tx.in_busy);
}

/* ---- buffers ---- */

static struct ofi_buffer *buffer_take(struct ofi *ofi, uint32_t reserve)
{
    struct list *node = ofi->tx.free_count > reserve ? list_pop_head(&ofi->tx.free) : NULL;

    if (node == NULL)
        return NULL;
    ofi->tx.free_count--;
    return container_of(node, struct ofi_buffer, node);
}

static void buffer_give(struct ofi *ofi, struct ofi_buffer *buffer)
{
    buffer->link = NULL;
    list_add_head(&ofi->tx.free, &buffer->node); /* probably still in the cache */
    ofi->tx.free_count++;
}

static void write_prefix(unsigned char *bytes, const struct ofi_link *link, size_t padding)
{
    net_write_prefix(&link->net, NET_DATA, link->tx.data_count, padding, bytes);
}

/* Did an existing connection end? */
static bool is_break(int error)
{
    return error == FI_ENOTCONN || error == FI_ECONNRESET || error == FI_ECONNABORTED ||
           error == EPIPE || error == FI_ESHUTDOWN;
}

static enum net_failure failure_of(int error)
{
    return is_break(error) ? NET_BREAK : error == FI_ECONNREFUSED ? NET_REFUSAL : NET_FAILURE;
}

static enum net_kind kind_of(const struct ofi_buffer *buffer)
{
    return (enum net_kind)buffer->bytes[offsetof(struct net_prefix, kind)];
}

void ofi_tx_sent(struct ofi *ofi, struct ofi_buffer *buffer)
{
    buffer_give(ofi, buffer);
}

void ofi_tx_failed(struct ofi *ofi, struct ofi_buffer *buffer, int error)
{
    struct ofi_link *link = buffer->link;
    enum net_kind kind = kind_of(buffer);

    buffer_give(ofi, buffer);
    if ((error == FI_ECANCELED && ofi->is_closing) || link->net.state == NET_DEAD)
        return;
    LOG_DEBUG("ofi: a packet was not sent, error %d %s", error,
              ofi->domain.dl->strerror(error));
    net_failed(&link->net, kind, failure_of(error));
}

void ofi_tx_drop(struct ofi_link *link)
{
    struct list *node;

    while ((node = list_pop_head(&link->tx.queue)) != NULL)
        buffer_give(ofi_of_link(link), container_of(node, struct ofi_buffer, node));
    link->tx.queued = 0;
    list_remove(&link->tx.in_busy);
}

/* ---- handing packets to the provider ---- */

void ofi_tx_mark_busy(struct ofi_link *link)
{
    if (!list_is_linked(&link->tx.in_busy))
        list_add_tail(&ofi_of_link(link)->tx.busy, &link->tx.in_busy);
}

void ofi_tx_control(struct ofi_link *link, enum net_kind kind)
{
    link->tx.pending |= (uint16_t)(1u << kind);
    ofi_tx_mark_busy(link);
}

/* A link with nothing to send is not busy. */
static void be_idle(struct ofi_link *link)
{
    if (link->tx.pending == 0 && list_is_empty(&link->tx.queue))
        list_remove(&link->tx.in_busy);
}

void ofi_tx_forget(struct ofi_link *link, unsigned kinds)
{
    link->tx.pending &= (uint16_t)~kinds;
    be_idle(link);
}

bool ofi_tx_is_stuck(const struct ofi_link *link, enum net_kind kind, uint64_t since_ns,
                     uint64_t now)
{
    return (link->tx.pending & 1u << kind) != 0 && now - since_ns > STUCK_NS;
}

/* 0; -EAGAIN; or the link is dead. */
static int hand_over(struct ofi_link *link, struct ofi_buffer *buffer)
{
    struct ofi *ofi = ofi_of_link(link);
    ssize_t err;

    buffer->link = link;
    err = fi_send(ofi->domain.ep, buffer->bytes, buffer->size, buffer->descriptor, link->to,
                  &buffer->operation.context);
    if (err == -FI_EAGAIN)
        return -EAGAIN;
    if (err != 0)
        ofi_tx_failed(ofi, buffer, (int)-err);
    return err == 0 ? 0 : link->net.error;
}

static int send_control(struct ofi_link *link, enum net_kind kind)
{
    struct ofi *ofi = ofi_of_link(link);
    struct ofi_buffer *buffer = buffer_take(ofi, 0);
    int err;

    if (buffer == NULL)
        return -EAGAIN;
    buffer->size = net_write(&link->net, kind, link->tx.data_count, buffer->bytes);
    link->tx.pending &= (uint16_t) ~(1u << kind); /* set again if it has to be sent again */
    err = hand_over(link, buffer);
    if (err == -EAGAIN) {
        buffer_give(ofi, buffer);
        link->tx.pending |= (uint16_t)(1u << kind);
    }
    return err;
}

/* The control packets that leave before a link's data packets. */
static const enum net_kind before[] = {NET_HELLO, NET_WELCOME, NET_AUTH,   NET_REFUSED,
                                       NET_PING,  NET_PONG,    NET_BROKEN, NET_OTHER};

/* Sends the pending ones among kinds[0..count).  Adds their number to *sent. */
static int push_control(struct ofi_link *link, const enum net_kind *kinds, size_t count,
                        int *sent)
{
    int err = 0;

    for (size_t i = 0; i < count && err == 0 && link->tx.pending != 0; i++)
        if (link->tx.pending & 1u << kinds[i]) {
            err = send_control(link, kinds[i]);
            *sent += err == 0;
        }
    return err;
}

static int ofi_tx_leave(struct ofi_link *link, struct ofi_buffer *buffer)
{
    struct ofi *ofi = ofi_of_link(link);

    if (!link->net.is_self) {
        int err;

        /* only now: the peer's name for this link may have become known just before */
        write_prefix(buffer->bytes, link, buffer->padding);
        err = hand_over(link, buffer);
        ofi->tx.begun += err == 0;
        link->tx.data_count += err == 0;
        return err;
    }
    if (!ofi->is_closing && ofi_rx_deliver(link, buffer->bytes + sizeof(struct net_prefix),
                                           buffer->size) == -EAGAIN)
        return -EAGAIN;
    buffer_give(ofi, buffer);
    return 0;
}

static int push_queue(struct ofi_link *link, int *pushed)
{
    uint32_t most = link->tx.queued; /* a link to ourselves may queue more meanwhile */
    int err = 0;

    while (link->net.state == NET_OPEN && !list_is_empty(&link->tx.queue) && most-- != 0) {
        struct list *node = list_pop_head(&link->tx.queue);

        err = ofi_tx_leave(link, container_of(node, struct ofi_buffer, node));
        if (err == -EAGAIN)
            list_add_head(&link->tx.queue, node);
        if (err != 0)
            return err;
        link->tx.queued--;
        ++*pushed;
    }
    return err;
}

int ofi_tx_push(struct ofi_link *link)
{
    static const enum net_kind behind = NET_BYE;
    int moved = 0;
    int err = push_control(link, before, ARRAY_COUNT(before), &moved);

    if (err == 0)
        err = push_queue(link, &moved);
    if (err == 0 && list_is_empty(&link->tx.queue))
        push_control(link, &behind, 1, &moved);
    be_idle(link);
    return moved;
}

int ofi_tx_push_all(struct ofi *ofi)
{
    struct list now;
    struct list *node;
    int moved = 0;

    list_init(&now);
    list_splice_tail(&now, &ofi->tx.busy);
    while ((node = list_pop_head(&now)) != NULL) {
        list_add_tail(&ofi->tx.busy, node);
        moved += ofi_tx_push(busy_link(node));
    }
    return moved;
}

/* ---- sending ---- */

static void ofi_tx_write_packet(unsigned char *bytes, const struct transport_packet *packet)
{
    memcpy(bytes, packet->header, sizeof *packet->header);
    bytes += sizeof *packet->header;
    if (packet->body_size != 0)
        memcpy(bytes, packet->body, packet->body_size);
    if (packet->payload_size != 0)
        memcpy(bytes + packet->body_size, packet->payload, packet->payload_size);
}

/* The fast path for a short packet.  0; otherwise use the slow path. */
static int inject(struct ofi_link *link, const struct transport_packet *packet, size_t size,
                  size_t padding)
{
    struct ofi *ofi = ofi_of_link(link);
    alignas(8) unsigned char bytes[INJECT_MAX];

    write_prefix(bytes, link, padding);
    ofi_tx_write_packet(bytes + sizeof(struct net_prefix), packet);
    memset(bytes + size - padding, 0, padding);
    if (fi_inject(ofi->domain.ep, bytes, size, link->to) != 0)
        return -EAGAIN;
    ofi->tx.begun++;
    link->tx.data_count++;
    return 0;
}

static int enqueue(struct ofi_link *link, const struct transport_packet *packet, size_t size,
                   size_t padding)
{
    struct ofi *ofi = ofi_of_link(link);
    struct ofi_buffer *buffer =
        link->tx.queued < OFI_QUEUE_MAX ? buffer_take(ofi, OFI_RESERVE) : NULL;

    if (buffer == NULL)
        return -EAGAIN;
    ofi_tx_write_packet(buffer->bytes + sizeof(struct net_prefix), packet);
    memset(buffer->bytes + size - padding, 0, padding);
    buffer->size = link->net.is_self ? size - padding - sizeof(struct net_prefix) : size;
    buffer->padding = padding;
    buffer->link = link;
    list_add_tail(&link->tx.queue, &buffer->node);
    link->tx.queued++;
    return 0;
}

int ofi_tx_send(struct link *l, const struct transport_packet *packet)
{
    struct ofi_link *link = ofi_link_of(l);
    struct ofi *ofi = ofi_of_link(link);
    size_t used = sizeof(struct net_prefix) + sizeof *packet->header + packet->body_size +
                  packet->payload_size;
    size_t padding = -used % 8, size = used + padding;
    int moved = 0, err;

    assert(used - sizeof(struct net_prefix) <= OFI_PACKET_MAX);
    if (link->net.state == NET_DEAD)
        return link->net.error;
    if (link->net.state == NET_NEW)
        net_call(&link->net);
    if (size <= ofi->tx.inject_max && link->net.state == NET_OPEN && !link->net.is_self &&
        !list_is_linked(&link->tx.in_busy) && inject(link, packet, size, padding) == 0)
        return 0;
    err = enqueue(link, packet, size, padding);
    if (err != 0)
        return err;
    if (link->net.is_self || list_is_linked(&link->tx.in_busy)) {
        ofi_tx_mark_busy(link);
        return 0;
    }
    push_queue(link, &moved);
    if (link->net.state == NET_DEAD)
        return link->net.error;
    if (!list_is_empty(&link->tx.queue))
        ofi_tx_mark_busy(link);
    return 0;
}

/* ---- open and close ---- */

int ofi_tx_open(struct ofi *ofi)
{
    size_t inject = min_size(ofi->domain.info->tx_attr->inject_size, INJECT_MAX);
    int err;

    list_init(&ofi->tx.busy);
    list_init(&ofi->tx.free);
    ofi->tx.inject_max = inject;
    ofi->tx.buffers = mem_alloc_aligned(CACHE_LINE, OFI_BUFFERS * sizeof *ofi->tx.buffers);
    if (ofi->tx.buffers == NULL)
        return -ENOMEM;
    err = ofi_register(ofi, ofi->tx.buffers, OFI_BUFFERS * sizeof *ofi->tx.buffers, FI_SEND,
                       &ofi->tx.mr);
    if (err != 0)
        return ofi_domain_failed(ofi, "fi_mr_reg", err);
    for (size_t i = 0; i < OFI_BUFFERS; i++) {
        struct ofi_buffer *buffer = &ofi->tx.buffers[i];

        buffer->operation.kind = OFI_SENDING;
        buffer->descriptor = ofi->tx.mr != NULL ? fi_mr_desc(ofi->tx.mr) : NULL;
        list_init_node(&buffer->node);
        list_add_tail(&ofi->tx.free, &buffer->node);
    }
    ofi->tx.free_count = OFI_BUFFERS;
    return 0;
}

void ofi_tx_close(struct ofi *ofi)
{
    if (ofi->tx.mr != NULL)
        fi_close(&ofi->tx.mr->fid);
    mem_free(ofi->tx.buffers);
}

void ofi_tx_init_link(struct ofi_link_tx *tx)
{
    list_init(&tx->queue);
    list_init_node(&tx->in_busy);
}
