/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rx.c - received packets: from the completion of a receive to deliver().
 *
 *   shared receive queue ─> buffer ─> link, by queue pair number ─> deliver ─> posted again
 *                                                    └ not taken: held, as are the link's later packets
 *
 * A packet that deliver() did not take stays in place; its sender's credit is less by it, and
 * other links go on: holding takes no buffer from another link (rx.h I2).
 *
 * A peer that breaks a rule ends its link: more packets than its window, more credit than
 * packets were sent to it, frames of unknown kinds.
 */
#include "transport/verbs/rx.h"

#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/verbs/ib.h"
#include "transport/verbs/tag.h"

static struct ib_buffer *buffer_at(const struct ib *ib, uint32_t number)
{
    return &ib->rx.chunks[number / IB_CHUNK]->buffers[number % IB_CHUNK];
}

/* ---- buffers ---- */

static int post_all(struct ib *ib, const uint32_t *numbers, uint32_t count)
{
    struct ibv_recv_wr wrs[IB_BATCH], *bad;
    struct ibv_sge parts[IB_BATCH];

    for (uint32_t i = 0; i < count; i++) {
        const struct ib_buffer *buffer = buffer_at(ib, numbers[i]);

        parts[i] = (struct ibv_sge){
            .addr = (uintptr_t)buffer->bytes, .length = IB_PACKET_MAX, .lkey = buffer->key};
        wrs[i] = (struct ibv_recv_wr){.wr_id = ib_wr_id(IB_RECEIVE, numbers[i]),
                                      .next = i + 1 < count ? &wrs[i + 1] : NULL,
                                      .sg_list = &parts[i],
                                      .num_sge = 1};
    }
    return count == 0 ? 0 : ibv_post_srq_recv(ib->hca.srq, wrs, &bad);
}

void ib_rx_post(struct ib *ib)
{
    int err = ib->is_lost ? 0 : post_all(ib, ib->rx.batch, ib->rx.batch_count);

    if (err != 0)
        ib_hca_failed(ib, "ibv_post_srq_recv", err);
    ib->rx.batch_count = 0;
}

static void ib_rx_give(struct ib *ib, uint32_t number)
{
    if (ib->rx.batch_count == IB_BATCH)
        ib_rx_post(ib);
    ib->rx.batch[ib->rx.batch_count++] = number;
}

static int chunk_make(struct ib *ib)
{
    struct ib_chunk **chunks =
        mem_realloc(ib->rx.chunks, (ib->rx.chunk_count + 1) * sizeof(struct ib_chunk *));
    struct ib_chunk *chunk = mem_calloc(1, sizeof *chunk);
    const size_t bytes = (size_t)IB_CHUNK * IB_PACKET_MAX;
    int err = -ENOMEM;

    if (chunks != NULL)
        ib->rx.chunks = chunks;
    if (chunks == NULL || chunk == NULL)
        goto free_chunk;
    chunk->bytes = mem_alloc_aligned(4096, bytes);
    if (chunk->bytes == NULL)
        goto free_chunk;
    chunk->mr = ibv_reg_mr(ib->hca.pd, chunk->bytes, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (chunk->mr == NULL) {
        err = ib_hca_failed(ib, "ibv_reg_mr", errno);
        goto free_bytes;
    }
    for (uint32_t i = 0; i < IB_CHUNK; i++) {
        list_init_node(&chunk->buffers[i].node);
        chunk->buffers[i].bytes = chunk->bytes + (size_t)i * IB_PACKET_MAX;
        chunk->buffers[i].number = ib->rx.chunk_count * IB_CHUNK + i;
        chunk->buffers[i].key = chunk->mr->lkey;
    }
    ib->rx.chunks[ib->rx.chunk_count] = chunk;
    for (uint32_t i = 0; i < IB_CHUNK; i++)
        ib_rx_give(ib, ib->rx.chunk_count * IB_CHUNK + i);
    ib->rx.chunk_count++;
    ib_rx_post(ib);
    return 0;

free_bytes:
    mem_free(chunk->bytes);
free_chunk:
    mem_free(chunk);
    return err;
}

static uint32_t receives_max(const struct ib *ib)
{
    const uint32_t buffers = ib->conns.inlet.buffers;

    if (!ib_has_inlet(ib))
        return ib->hca.receives_max;
    return (uint32_t)min_size(ib->hca.receives_max, buffers - min_size(buffers, IB_SLACK));
}

/* Half of the receives are for peers with a full window; later peers get less. */
static uint32_t choose_window(const struct ib *ib)
{
    uint32_t most = receives_max(ib) / 2;

    return ib->rx.promised + ib->rx.window + IB_BEYOND <= most
               ? ib->rx.window
               : (uint32_t)max_size(ib->rx.window / 4, 1);
}

int ib_rx_welcome(struct ib_link *link)
{
    struct ib *ib = ib_of_link(link);
    uint32_t window = choose_window(ib), promised = ib->rx.promised + window + IB_BEYOND;
    int err = 0;

    if (link->rx.window != 0)
        return 0;
    if (promised > receives_max(ib) || round_up(promised, IB_CHUNK) > ib->hca.receives_max) {
        if (!ib->rx.has_warned)
            LOG_WARN("verbs: %s has no receives for more than %u peers; a smaller "
                     "MBX_VERBS_WINDOW than %u leaves space for more",
                     ib->hca.name, ib->conns.id_count - 1, ib->rx.window);
        ib->rx.has_warned = true;
        return -ENOBUFS;
    }
    while (err == 0 && ib->rx.chunk_count * IB_CHUNK < promised)
        err = chunk_make(ib);
    if (err != 0)
        return err;
    ib->rx.promised = promised;
    link->rx.window = link->rx.space = window;
    return 0;
}

/* ---- credit ---- */

uint16_t ib_rx_report(struct ib_link *link)
{
    uint16_t credit = (uint16_t)min_size(link->rx.owed, UINT16_MAX);

    link->rx.owed -= credit;
    link->rx.space += credit;
    return credit;
}

void ib_rx_untell(struct ib_link *link, uint16_t credit)
{
    link->rx.owed += credit;
    link->rx.space -= credit;
}

bool ib_rx_has_to_report(const struct ib_link *link)
{
    return 2 * link->rx.owed >= link->rx.window && link->rx.owed != 0;
}

/* The core has read a packet. */
static void was_read(struct ib_link *link)
{
    link->rx.owed++;
    if (link->net.state == NET_OPEN && ib_rx_has_to_report(link))
        ib_tx_control(link, IB_FRAME_CREDIT);
}

/* ---- delivering ---- */

int ib_rx_deliver(struct ib_link *link, const void *packet, size_t size)
{
    struct ib *ib = ib_of_link(link);
    int err = link_member_present(&link->member, ib->events, ib->arg);

    if (err == 0)
        return ib->events->deliver(ib->arg, link->member.link.peer, packet, size);
    if (err == -EAGAIN)
        return err;
    ib->events->dropped(ib->arg, "a packet of a refused peer");
    if (!link->member.refused)
        ib_tx_control(link, IB_FRAME_BYE);
    link->member.refused = true;
    return err;
}

/* ---- holding ---- */

static void ib_rx_hold(struct ib *ib, struct ib_link *link, struct ib_buffer *buffer,
                       size_t size)
{
    buffer->size = (uint32_t)size;
    list_add_tail(&link->rx.held, &buffer->node);
    if (!list_is_linked(&link->rx.in_holding))
        list_add_tail(&ib->rx.holding, &link->rx.in_holding);
}

static int deliver_held_of(struct ib_link *link)
{
    int taken = 0;

    while (!list_is_empty(&link->rx.held)) {
        struct ib_buffer *buffer =
            container_of(list_first(&link->rx.held), struct ib_buffer, node);

        if (ib_rx_deliver(link, buffer->bytes, buffer->size) == -EAGAIN)
            return taken;
        list_remove(&buffer->node);
        if (!buffer->is_answer)
            was_read(link);
        ib_rx_give(ib_of_link(link), buffer->number);
        taken++;
    }
    list_remove(&link->rx.in_holding);
    return taken;
}

int ib_rx_deliver_held(struct ib *ib)
{
    struct list *node, *next;
    int taken = 0;

    list_for_each_safe (node, next, &ib->rx.holding)
        taken += deliver_held_of(container_of(node, struct ib_link, rx.in_holding));
    return taken;
}

/* ---- packets that have arrived ---- */

static void broke_a_rule(struct ib *ib, struct ib_link *link, const char *what)
{
    char peer[NET_PEER_TEXT];

    ib->events->dropped(ib->arg, what);
    LOG_WARN("verbs: the connection to %s ends: it sent %s; if both processes use the same "
             "version of Matchbox, please report this",
             net_peer_text(&link->net, peer), what);
    net_kill(&link->net, -ENOTCONN, NET_DIED);
    ib_ud_control(link, NET_BROKEN);
}

/* Validates a frame of a connected peer.  NULL, or the reason of the refusal. */
static const char *ib_rx_check(const struct ib_link *link, const struct ib_frame *frame,
                               size_t size)
{
    const uint32_t reported = link->tx.credit + frame->credit;

    if (frame->opcode != 0 || frame->kind == 0 || frame->kind >= IB_FRAME_KINDS)
        return "a packet of no known kind";
    if (frame->kind == IB_FRAME_DATA ? size < sizeof(struct wire_header) || size > IB_PACKET_MAX
                                     : size != sizeof(struct ib_control))
        return "a packet of the wrong length";
    if (reported > link->tx.window)
        return "more credit than its window";
    if (frame->kind == IB_FRAME_DATA && link->rx.space == 0)
        return "more packets than its window";
    return NULL;
}

/* True: the buffer is kept, and posted again once the packet is taken. */
static bool arrived_data(struct ib *ib, struct ib_link *link, uint32_t number, size_t size)
{
    struct ib_buffer *buffer = buffer_at(ib, number);

    ib->rx.ended++;
    link->rx.space--;
    if (list_is_empty(&link->rx.held) && ib_rx_deliver(link, buffer->bytes, size) != -EAGAIN)
        was_read(link);
    else
        ib_rx_hold(ib, link, buffer, size);
    return list_is_linked(&buffer->node);
}

/* An answer of the peer's adapter, to our `out`.  Returns as arrived_data(). */
static bool arrived_answer(struct ib *ib, struct ib_link *link, uint32_t number, size_t size)
{
    struct ib_buffer *buffer = buffer_at(ib, number);

    size = ib_tag_fin(link, buffer->bytes, size);
    if (size == 0) {
        ib->events->dropped(ib->arg, "an answer of an adapter to what was not asked");
        return false;
    }
    ib_link_heard(link);
    buffer->is_answer = true;
    if (!list_is_empty(&link->rx.held) || ib_rx_deliver(link, buffer->bytes, size) == -EAGAIN)
        ib_rx_hold(ib, link, buffer, size);
    return list_is_linked(&buffer->node);
}

/* True: it is a packet of the core. */
static bool open_frame(struct ib *ib, struct ib_link *link, const void *bytes, size_t size)
{
    struct ib_frame frame;
    const char *wrong;

    if (size < sizeof frame) {
        broke_a_rule(ib, link, "a packet of the wrong length");
        return false;
    }
    memcpy(&frame, bytes, sizeof frame);
    wrong = ib_rx_check(link, &frame, size);
    if (wrong != NULL) {
        broke_a_rule(ib, link, wrong);
        return false;
    }
    ib_link_heard(link);
    ib_tx_credited(link, frame.credit);
    if (frame.kind == IB_FRAME_BYE)
        ib_link_ends(link);
    return frame.kind == IB_FRAME_DATA;
}

static bool is_confirmed(struct ib *ib, struct ib_link *link)
{
    if (net_confirm(&link->net))
        return true;
    ib->events->dropped(ib->arg, "a packet before the handshake, or after the end");
    return false;
}

static bool ib_rx_packet_arrived(struct ib *ib, struct ib_link *link, uint32_t number,
                                 const struct ibv_wc *wc)
{
    const size_t size = wc->byte_len;

    buffer_at(ib, number)->is_answer = false;
    if (!is_confirmed(ib, link))
        return false;
    if (wc->opcode != IBV_WC_RECV) { /* the buffer has an earlier packet */
        broke_a_rule(ib, link, "a write with immediate data");
        return false;
    }
    if (link->pair.is_tagged)
        return arrived_answer(ib, link, number, size);
    return open_frame(ib, link, buffer_at(ib, number)->bytes, size) &&
           arrived_data(ib, link, number, size);
}

/* ---- packets through a device ---- */

bool ib_rx_begin(struct ib_link *link)
{
    struct ib *ib = ib_of_link(link);

    if (link->rx.space == 0) {
        broke_a_rule(ib, link, "more packets than its window");
        return false;
    }
    ib_link_heard(link);
    ib->rx.ended++;
    link->rx.space--;
    link->rx.begun++;
    return true;
}

void ib_rx_end(struct ib_link *link)
{
    link->rx.begun--;
    was_read(link);
}

/* The packet should have been matched by the device, but was sent without a tag. */
static bool is_past(const struct ib_link *link, const void *packet)
{
    struct wire_header header;

    memcpy(&header, packet, sizeof header);
    return link->pair.is_tagged && ib_tag_fits(link, &header);
}

bool ib_rx_arrived(struct ib_link *link, const void *packet, size_t size)
{
    struct ib *ib = ib_of_link(link);
    const struct ib_frame *frame = packet;

    if (ib->is_closing || !is_confirmed(ib, link))
        return false;
    if (frame->opcode != 0 && link->pair.is_tagged)
        return ib_rx_begin(link);
    if (!open_frame(ib, link, packet, size))
        return false;
    if (!is_past(link, packet))
        return ib_rx_begin(link);
    broke_a_rule(ib, link, "a message past the matching of the adapter");
    return false;
}

/* ---- completions ---- */

void ib_rx_received(struct ib *ib, uint32_t number, const struct ibv_wc *wc)
{
    struct ib_link *link = ib_link_by_number(ib, wc->qp_num);
    bool is_kept = false;

    if (number >= ib->rx.chunk_count * IB_CHUNK || ib->is_closing)
        return;
    if (wc->status == IBV_WC_SUCCESS && link != NULL)
        is_kept = ib_rx_packet_arrived(ib, link, number, wc);
    else if (wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR && link != NULL)
        ib_link_failed(link, ibv_wc_status_str(wc->status));
    if (!is_kept)
        ib_rx_give(ib, number);
}

/* ---- open and close ---- */

int ib_rx_open(struct ib *ib, uint32_t window)
{
    list_init(&ib->rx.holding);
    ib->rx.window = window;
    return chunk_make(ib);
}

void ib_rx_close(struct ib *ib)
{
    for (uint32_t i = 0; i < ib->rx.chunk_count; i++) {
        ibv_dereg_mr(ib->rx.chunks[i]->mr);
        mem_free(ib->rx.chunks[i]->bytes);
        mem_free(ib->rx.chunks[i]);
    }
    mem_free(ib->rx.chunks);
}

void ib_rx_init_link(struct ib_link_rx *rx)
{
    list_init(&rx->held);
    list_init_node(&rx->in_holding);
}
