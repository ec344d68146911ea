/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tx.c - sends packets of the core, and control packets, on a link's queue pair.
 *
 *   open, credit, queue empty ──> short: inline, without a copy
 *                             └─> longer: a slot ──> the adapter
 *   otherwise ──> a slot ──> link.queue ───────────> the adapter, from a poll() on
 *
 * A slot counts requests of the adapter in flight, including inline ones; its completion, which
 * means that the peer's adapter has the packet, frees the slot.
 *
 * Credit: each side has posted a window of buffers for the other's packets, and reports with
 * each packet how many are posted again.  A side with nothing to send reports half a window in
 * a packet of its own (CREDIT).  CREDIT needs no credit: its sender has used half a window
 * since the last one, so at most two are unread, and there are buffers for those (rx.h).
 */
#include "transport/verbs/tx.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "transport/verbs/ib.h"
#include "transport/verbs/tag.h"

/* ---- slots ---- */

static struct ib_slot *slot_take(struct ib *ib, uint32_t reserve)
{
    struct list *node = ib->tx.free_count > reserve ? list_pop_head(&ib->tx.free) : NULL;

    if (node == NULL)
        return NULL;
    ib->tx.free_count--;
    return container_of(node, struct ib_slot, node);
}

static void slot_give(struct ib *ib, struct ib_slot *slot)
{
    slot->link = NULL;
    list_add_head(&ib->tx.free, &slot->node); /* probably still in the cache */
    ib->tx.free_count++;
}

struct ib_link *ib_tx_sent(struct ib *ib, uint32_t number)
{
    struct ib_slot *slot = &ib->tx.slots[number];
    struct ib_link *link = number < IB_SLOTS ? slot->link : NULL;

    if (link == NULL)
        return NULL;
    link->tx.in_flight--;
    slot_give(ib, slot);
    if (link->tx.queued != 0 || link->tx.pending != 0)
        ib_tx_mark_busy(link);
    return link;
}

/* ---- busy links ---- */

void ib_tx_mark_busy(struct ib_link *link)
{
    if (!list_is_linked(&link->tx.in_busy))
        list_add_tail(&ib_of_link(link)->tx.busy, &link->tx.in_busy);
}

void ib_tx_control(struct ib_link *link, enum ib_frame_kind kind)
{
    if (link->pair.state != IB_PAIR_CONNECTED)
        return;
    link->tx.pending |= (uint8_t)(1u << kind);
    ib_tx_mark_busy(link);
}

void ib_tx_credited(struct ib_link *link, uint32_t credit)
{
    link->tx.credit += credit;
    if (link->tx.queued != 0)
        ib_tx_mark_busy(link);
}

void ib_tx_drop(struct ib_link *link)
{
    struct list *node;

    while ((node = list_pop_head(&link->tx.queue)) != NULL)
        slot_give(ib_of_link(link), container_of(node, struct ib_slot, node));
    link->tx.queued = 0;
    link->tx.pending = 0;
    list_remove(&link->tx.in_busy);
}

/* ---- posting ---- */

static struct ib_frame frame_of(struct ib_link *link, enum ib_frame_kind kind)
{
    return (struct ib_frame){.kind = (uint8_t)kind, .credit = ib_rx_report(link)};
}

/* Posts these parts with a slot.  0; -EAGAIN. */
static int ib_tx_post(struct ib_link *link, struct ib_slot *slot, struct ibv_sge *parts,
                      int count, bool is_inline)
{
    struct ib *ib = ib_of_link(link);
    struct ibv_send_wr *bad,
        wr = {.wr_id = ib_wr_id(IB_SEND, (uint32_t)(slot - ib->tx.slots)),
              .sg_list = parts,
              .num_sge = count,
              .opcode = IBV_WR_SEND,
              .send_flags = IBV_SEND_SIGNALED | (is_inline ? IBV_SEND_INLINE : 0)};

    if (ibv_post_send(link->pair.out, &wr, &bad) != 0)
        return -EAGAIN;
    slot->link = link;
    link->tx.in_flight++;
    return 0;
}

/* Posts a whole packet in its slot; writes its frame.  0; -EAGAIN: its credit must be reported
 * again. */
static int ib_tx_leave(struct ib_link *link, struct ib_slot *slot, enum ib_frame_kind kind)
{
    struct ib_frame frame = {.credit = 0};
    struct ibv_sge part = {.lkey = ib_of_link(link)->tx.mr->lkey};
    int err;

    if (kind == IB_FRAME_DATA && link->pair.is_tagged && slot->from == 0)
        slot->from = ib_tag_frame(link, slot->bytes, slot->size);
    if (slot->from == 0) {
        frame = frame_of(link, kind);
        memcpy(slot->bytes, &frame, sizeof frame);
    }
    part.addr = (uintptr_t)slot->bytes + slot->from;
    part.length = slot->size - slot->from;
    err = ib_tx_post(link, slot, &part, 1, false);
    if (err != 0)
        ib_rx_untell(link, frame.credit);
    return err;
}

/* Can a packet of the core leave now? */
static bool has_space(const struct ib_link *link)
{
    return link->net.state == NET_OPEN && link->tx.credit > 0 &&
           link->tx.in_flight < IB_LINK_SENDS;
}

static void left(struct ib_link *link)
{
    link->tx.credit--;
    ib_of_link(link)->tx.begun++;
}

/* A packet to ourselves: delivers it.  0; -EAGAIN. */
static int loop(struct ib_link *link, struct ib_slot *slot)
{
    struct ib *ib = ib_of_link(link);

    if (!ib->is_closing && ib_rx_deliver(link, slot->bytes, slot->size) == -EAGAIN)
        return -EAGAIN;
    slot_give(ib, slot);
    return 0;
}

static int push_queue(struct ib_link *link)
{
    uint32_t most = link->tx.queued; /* a link to ourselves may queue more meanwhile */
    int pushed = 0;

    while (!list_is_empty(&link->tx.queue) && most-- != 0 &&
           (link->net.is_self || has_space(link))) {
        struct list *node = list_pop_head(&link->tx.queue);
        struct ib_slot *slot = container_of(node, struct ib_slot, node);
        const bool is_self = link->net.is_self;
        int err = is_self ? loop(link, slot) : ib_tx_leave(link, slot, IB_FRAME_DATA);

        if (err != 0) {
            list_add_head(&link->tx.queue, node);
            break;
        }
        link->tx.queued--;
        if (!is_self)
            left(link);
        pushed++;
    }
    return pushed;
}

/* 0; -EAGAIN. */
static int send_control(struct ib_link *link, enum ib_frame_kind kind)
{
    struct ib *ib = ib_of_link(link);
    struct ib_slot *slot = link->tx.in_flight < IB_LINK_SENDS + 2 ? slot_take(ib, 0) : NULL;
    int err;

    if (slot == NULL)
        return -EAGAIN;
    memset(slot->bytes, 0, sizeof(struct ib_control));
    slot->size = sizeof(struct ib_control);
    slot->from = 0;
    err = ib_tx_leave(link, slot, kind);
    if (err != 0)
        slot_give(ib, slot);
    else
        link->tx.pending &= (uint8_t) ~(1u << kind);
    return err;
}

static int push(struct ib_link *link)
{
    int moved = push_queue(link);

    if (link->tx.pending & 1u << IB_FRAME_CREDIT) {
        if (!ib_rx_has_to_report(link)) /* a packet has reported it */
            link->tx.pending &= (uint8_t) ~(1u << IB_FRAME_CREDIT);
        else
            moved += send_control(link, IB_FRAME_CREDIT) == 0;
    }
    if (link->tx.pending & 1u << IB_FRAME_BYE && link->tx.queued == 0)
        moved += send_control(link, IB_FRAME_BYE) == 0;
    return moved;
}

/* A packet that waits for credit, or for the adapter, is marked busy again by ib_tx_credited()
 * or ib_tx_sent(); one that waits for a slot, or for the core, has to be looked at in each
 * poll. */
static bool stays_busy(const struct ib_link *link)
{
    return link->tx.pending != 0 ||
           (link->tx.queued != 0 && (link->net.is_self || has_space(link)));
}

int ib_tx_push_all(struct ib *ib)
{
    struct list now;
    struct list *node;
    int moved = 0;

    list_init(&now);
    list_splice_tail(&now, &ib->tx.busy);
    while ((node = list_pop_head(&now)) != NULL) {
        struct ib_link *link = container_of(node, struct ib_link, tx.in_busy);

        moved += push(link);
        if (stays_busy(link))
            ib_tx_mark_busy(link);
    }
    return moved;
}

/* ---- sending ---- */

static void ib_tx_write_packet(unsigned char *bytes, const struct transport_packet *packet)
{
    memcpy(bytes, packet->header, sizeof *packet->header);
    bytes += sizeof *packet->header;
    if (packet->body_size != 0)
        memcpy(bytes, packet->body, packet->body_size);
    if (packet->payload_size != 0)
        memcpy(bytes + packet->body_size, packet->payload, packet->payload_size);
}

/* Like send_inline(), for a message that the peer's adapter matches. */
static int send_inline_tagged(struct ib_link *link, struct ib_slot *slot,
                              const struct transport_packet *packet)
{
    unsigned char head[IB_TAG_HEAD];
    const uint32_t size = (uint32_t)(sizeof *packet->header + packet->body_size);
    struct ibv_sge parts[IB_PARTS];
    uint32_t from;
    int count = 1;

    ib_tx_write_packet(head, &(struct transport_packet){.header = packet->header,
                                                        .body = packet->body,
                                                        .body_size = packet->body_size});
    from = ib_tag_frame(link, head, size);
    parts[0] = (struct ibv_sge){.addr = (uintptr_t)head + from, .length = size - from};
    if (packet->payload_size != 0)
        parts[count++] = (struct ibv_sge){.addr = (uintptr_t)packet->payload,
                                          .length = (uint32_t)packet->payload_size};
    return ib_tx_post(link, slot, parts, count, true);
}

/* Posts a short packet inline, without a copy.  0; -EAGAIN. */
static int send_inline(struct ib_link *link, struct ib_slot *slot,
                       const struct transport_packet *packet)
{
    struct wire_header header = *packet->header;
    const struct ib_frame frame = frame_of(link, IB_FRAME_DATA);
    struct ibv_sge parts[IB_PARTS] = {{.addr = (uintptr_t)&header, .length = sizeof header}};
    int count = 1, err;

    memcpy(&header.frame, &frame, sizeof frame);
    if (packet->body_size != 0)
        parts[count++] = (struct ibv_sge){.addr = (uintptr_t)packet->body,
                                          .length = (uint32_t)packet->body_size};
    if (packet->payload_size != 0)
        parts[count++] = (struct ibv_sge){.addr = (uintptr_t)packet->payload,
                                          .length = (uint32_t)packet->payload_size};
    err = ib_tx_post(link, slot, parts, count, true);
    if (err != 0)
        ib_rx_untell(link, frame.credit);
    return err;
}

static int send_now(struct ib_link *link, struct ib_slot *slot,
                    const struct transport_packet *packet, size_t size)
{
    slot->size = (uint32_t)size;
    slot->from = 0;
    if (size <= link->pair.inline_max)
        return ib_tag_is_due(link, packet->header) ? send_inline_tagged(link, slot, packet)
                                                   : send_inline(link, slot, packet);
    ib_tx_write_packet(slot->bytes, packet);
    return ib_tx_leave(link, slot, IB_FRAME_DATA);
}

static void enqueue(struct ib_link *link, struct ib_slot *slot,
                    const struct transport_packet *packet, size_t size)
{
    ib_tx_write_packet(slot->bytes, packet);
    slot->size = (uint32_t)size;
    slot->from = 0;
    slot->link = link;
    list_add_tail(&link->tx.queue, &slot->node);
    link->tx.queued++;
    if (stays_busy(link))
        ib_tx_mark_busy(link);
}

int ib_tx_send_eager(struct link *l, uint32_t context_id, uint64_t tag, uint64_t data,
                     const void *payload, size_t size)
{
    const uint32_t most = l->transport->limits.data_max;
    struct wire_header header = {.frame = 0};
    const struct transport_packet packet = {
        .header = &header, .payload = payload, .payload_size = size};

    if (unlikely(most != 0 && data > most))
        return -EAGAIN; /* the message has to be a rendezvous */
    wire_put_eager(&header, context_id, tag, data);
    return ib_tx_send(l, &packet);
}

int ib_tx_send(struct link *l, const struct transport_packet *packet)
{
    struct ib_link *link = ib_link_of(l);
    const size_t size = sizeof *packet->header + packet->body_size + packet->payload_size;
    struct ib_slot *slot;

    assert(size <= IB_PACKET_MAX);
    if (link->net.state == NET_DEAD)
        return link->net.error;
    if (link->net.state == NET_NEW)
        net_call(&link->net);
    slot = link->tx.queued < IB_QUEUE_MAX ? slot_take(ib_of_link(link), IB_RESERVE) : NULL;
    if (slot == NULL)
        return -EAGAIN;
    if (link->tx.queued == 0 && !link->net.is_self && has_space(link) &&
        send_now(link, slot, packet, size) == 0)
        left(link);
    else
        enqueue(link, slot, packet, size);
    return 0;
}

/* ---- open and close ---- */

int ib_tx_open(struct ib *ib)
{
    const size_t bytes = IB_SLOTS * sizeof *ib->tx.slots;

    list_init(&ib->tx.busy);
    list_init(&ib->tx.free);
    ib->tx.slots = mem_alloc_aligned(4096, bytes);
    if (ib->tx.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < IB_SLOTS; i++) {
        list_init_node(&ib->tx.slots[i].node);
        slot_give(ib, &ib->tx.slots[i]);
    }
    ib->tx.mr = ibv_reg_mr(ib->hca.pd, ib->tx.slots, bytes, IBV_ACCESS_LOCAL_WRITE);
    return ib->tx.mr != NULL ? 0 : ib_hca_failed(ib, "ibv_reg_mr", errno);
}

void ib_tx_close(struct ib *ib)
{
    if (ib->tx.mr != NULL)
        ibv_dereg_mr(ib->tx.mr);
    mem_free(ib->tx.slots);
}

void ib_tx_init_link(struct ib_link_tx *tx)
{
    list_init(&tx->queue);
    list_init_node(&tx->in_busy);
}
