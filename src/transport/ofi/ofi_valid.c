/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_valid.c - checks the links of a network endpoint and their shared state: conn.h, tx.h,
 * rx.h, rdma.h.
 *
 * tx.h I3 compares two moments, so no state shows it: hello_fuzz notices a packet that
 * overtakes another.
 */
#include <string.h>

#include "base/check.h"
#include "transport/ofi/ofi.h"

static uint32_t length_of(const struct list *head)
{
    const struct list *node;
    uint32_t length = 0;

    list_for_each (node, head)
        length++;
    return length;
}

/* ---- one link ---- */

static bool end_is_valid(const struct ofi_link *link)
{
    return HOLDS("conn.h I2", link->net.state != NET_DEAD ||
                                  (link->tx.queued == 0 && link->rdma.moving_count == 0 &&
                                   link->probe.fd < 0));
}

static bool tx_is_valid(const struct ofi_link *link)
{
    const struct ofi_link_tx *tx = &link->tx;
    const struct list *node;

    list_for_each (node, &tx->queue)
        if (!HOLDS("tx.h I2", container_of(node, struct ofi_buffer, node)->link == link))
            return false;
    return HOLDS("tx.h I1", list_is_linked(&tx->in_busy) == (tx->pending != 0 || tx->queued)) &&
           HOLDS("tx.h I2", tx->queued == length_of(&tx->queue)) &&
           HOLDS("tx.h I2", tx->queued <= OFI_QUEUE_MAX);
}

static bool rx_is_valid(const struct ofi_link *link)
{
    const struct ofi_link_rx *rx = &link->rx;

    return HOLDS("rx.h I1", list_is_linked(&rx->in_holding) == (rx->held_first != NULL)) &&
           HOLDS("rx.h I1", (rx->held_last != NULL) == (rx->held_first != NULL));
}

static bool rdma_is_valid(const struct ofi_link *link)
{
    const struct list *node;

    list_for_each (node, &link->rdma.moving)
        if (!HOLDS("rdma.h I1", container_of(node, struct ofi_rdma_op, node)->link == link))
            return false;
    return HOLDS("rdma.h I1", link->rdma.moving_count == length_of(&link->rdma.moving)) &&
           HOLDS("rdma.h I1", link->rdma.moving_count <= OFI_RDMA_LINK);
}

bool ofi_link_is_valid(const struct ofi_link *link)
{
    const struct ofi_conns *conns = &ofi_of_link(link)->conns;

    return HOLDS("conn.h I1", link->net.id != 0 && link->net.id <= conns->id_count) &&
           HOLDS("conn.h I1", conns->by_id[link->net.id - 1] == link) &&
           net_link_is_valid(&link->net) && end_is_valid(link) && tx_is_valid(link) &&
           rx_is_valid(link) && rdma_is_valid(link);
}

/* ---- shared state of links ---- */

/* Sums over all links. */
struct census {
    uint32_t unauthenticated, queued, busy, holding, held, moving;
};

static void count_link(const struct ofi_link *link, struct census *census)
{
    struct ofi_held held = {.next = link->rx.held_first};

    census->unauthenticated += link->net.state == NET_ANSWERING;
    census->queued += link->tx.queued;
    census->busy += list_is_linked(&link->tx.in_busy);
    census->holding += list_is_linked(&link->rx.in_holding);
    census->moving += link->rdma.moving_count;
    for (; held.next != NULL; census->held++)
        memcpy(&held, held.next, sizeof held);
}

static bool buffers_are_valid(const struct ofi *ofi, const struct census *census)
{
    uint32_t unlinked = 0; /* buffers that the provider has */

    for (uint32_t i = 0; i < OFI_BUFFERS; i++)
        unlinked += !list_is_linked(&ofi->tx.buffers[i].node);
    return HOLDS("tx.h I1", length_of(&ofi->tx.busy) == census->busy) &&
           HOLDS("tx.h I2", length_of(&ofi->tx.free) == ofi->tx.free_count) &&
           HOLDS("tx.h I2", ofi->tx.free_count + census->queued + unlinked == OFI_BUFFERS);
}

static bool receives_are_valid(const struct ofi *ofi, const struct census *census)
{
    uint32_t held = 0, to_give = 0;

    for (uint32_t i = 0; i < ofi->rx.count; i++) {
        held += ofi->rx.receives[i].held;
        to_give += !ofi->rx.receives[i].is_given;
    }
    return HOLDS("rx.h I1", length_of(&ofi->rx.holding) == census->holding) &&
           HOLDS("rx.h I1", held == census->held) &&
           HOLDS("rx.h I1", to_give == ofi->rx.to_give);
}

bool ofi_is_valid(const struct ofi *ofi)
{
    struct census census = {0};

    for (uint32_t i = 0; i < ofi->conns.id_count; i++) {
        if (!ofi_link_is_valid(ofi->conns.by_id[i]))
            return false;
        count_link(ofi->conns.by_id[i], &census);
    }
    return HOLDS("net.h I1", ofi->net.unauthenticated == census.unauthenticated) &&
           buffers_are_valid(ofi, &census) && receives_are_valid(ofi, &census) &&
           HOLDS("rdma.h I1",
                 ofi->rdma.operations == NULL ||
                     ofi->rdma.count + length_of(&ofi->rdma.free) == OFI_RDMA_MAX) &&
           HOLDS("rdma.h I1", census.moving <= ofi->rdma.count);
}
