/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ib_valid.c - checks the links of an endpoint over verbs and their shared state: conn.h, tx.h,
 * rx.h, rma.h, ud.h.
 *
 * tx.h I3 compares two moments, so no state shows it.
 */
#include "base/check.h"
#include "transport/verbs/ib.h"

static uint32_t length_of(const struct list *head)
{
    const struct list *node;
    uint32_t length = 0;

    list_for_each (node, head)
        length++;
    return length;
}

static bool tx_is_valid(const struct ib_link *link)
{
    const struct ib_link_tx *tx = &link->tx;

    return HOLDS("verbs/tx.h I1", tx->pending == 0 || list_is_linked(&tx->in_busy)) &&
           HOLDS("verbs/tx.h I2", tx->queued == length_of(&tx->queue)) &&
           HOLDS("verbs/tx.h I2", tx->queued <= IB_QUEUE_MAX) &&
           HOLDS("verbs/tx.h I2", tx->in_flight <= IB_LINK_SENDS + 2) &&
           HOLDS("verbs/tx.h I4", tx->credit <= tx->window);
}

static bool rx_is_valid(const struct ib_link *link)
{
    const struct ib_link_rx *rx = &link->rx;
    const struct list *node;
    uint32_t held = 0; /* packets of the window */

    list_for_each (node, &rx->held)
        held += !container_of(node, struct ib_buffer, node)->is_answer;
    return HOLDS("verbs/rx.h I1",
                 list_is_linked(&rx->in_holding) == !list_is_empty(&rx->held)) &&
           HOLDS("verbs/rx.h I3", rx->space + held + rx->begun + rx->owed == rx->window);
}

static bool link_is_valid(const struct ib *ib, const struct ib_link *link)
{
    const bool is_dead = link->net.state == NET_DEAD;
    const bool is_open = link->net.state == NET_OPEN && !link->net.is_self;
    const bool is_connected = link->pair.state == IB_PAIR_CONNECTED;

    return HOLDS("verbs/conn.h I1", link->net.id != 0 && link->net.id <= ib->conns.id_count) &&
           HOLDS("verbs/conn.h I1", ib->conns.by_id[link->net.id - 1] == link) &&
           HOLDS("verbs/conn.h I2", !is_dead || (link->tx.queued == 0 && !is_connected &&
                                                 link->rma.moving_count == 0)) &&
           HOLDS("verbs/conn.h I3", !is_open || is_connected) &&
           HOLDS("verbs/ud.h I1",
                 list_is_linked(&link->ud.in_busy) == (link->ud.pending != 0)) &&
           HOLDS("verbs/rma.h I0",
                 link->rma.expected_count == length_of(&link->rma.expected)) &&
           HOLDS("verbs/rma.h I0", is_dead || link->rma.expected_count <= link->rx.window) &&
           HOLDS("verbs/rma.h I1", link->rma.moving_count == length_of(&link->rma.moving)) &&
           HOLDS("verbs/rma.h I1", link->rma.moving_count <= IB_LINK_RMA) &&
           net_link_is_valid(&link->net) && tx_is_valid(link) && rx_is_valid(link);
}

bool ib_is_valid(const struct ib *ib)
{
    uint32_t unauthenticated = 0, queued = 0, in_flight = 0, windows = 0;

    for (uint32_t i = 0; i < ib->conns.id_count; i++) {
        const struct ib_link *link = ib->conns.by_id[i];

        if (!link_is_valid(ib, link))
            return false;
        unauthenticated += link->net.state == NET_ANSWERING;
        queued += link->tx.queued;
        in_flight += link->tx.in_flight;
        windows += link->rx.window != 0 ? link->rx.window + IB_BEYOND : 0;
    }
    return HOLDS("net.h I1", ib->net.unauthenticated == unauthenticated) &&
           HOLDS("verbs/tx.h I2", length_of(&ib->tx.free) == ib->tx.free_count) &&
           HOLDS("verbs/tx.h I2", ib->tx.free_count + queued + in_flight == IB_SLOTS) &&
           HOLDS("verbs/rx.h I2", ib->rx.promised == windows) &&
           HOLDS("verbs/rx.h I2", ib->rx.chunk_count * IB_CHUNK >= windows);
}
