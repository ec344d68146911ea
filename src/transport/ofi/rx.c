/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rx.c - received packets: from the provider's completion to deliver().
 *
 * A receive buffer takes many packets if the provider can do that correctly (FI_MULTI_RECV),
 * otherwise one.  The provider reports when it is done with a buffer, and then gets the buffer
 * again, unless packets in it are held.
 *
 * A packet that deliver() did not take stays in place, and so do the later packets of its link.
 * They are chained through their prefixes, which are not needed any more: so holding needs no
 * memory, and the buffers limit how much can be held.  A link that holds all buffers stops the
 * other links until the core has memory again.
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/mem.h"
#include "transport/ofi/ofi.h"

static_assert(sizeof(struct ofi_held) == sizeof(struct net_prefix), "it takes its place");

/* ---- delivering ---- */

/* A provider may place packets at any alignment. */
static int deliver_aligned(struct ofi *ofi, uint32_t peer, const void *packet, size_t size)
{
    alignas(8) unsigned char copy[OFI_PACKET_MAX]; /* net_check() refuses longer packets */

    if (likely((uintptr_t)packet % 8 == 0))
        return ofi->events->deliver(ofi->arg, peer, packet, size);
    memcpy(copy, packet, size);
    return ofi->events->deliver(ofi->arg, peer, copy, size);
}

int ofi_rx_deliver(struct ofi_link *link, const void *packet, size_t size)
{
    struct ofi *ofi = ofi_of_link(link);
    int err = link_member_present(&link->member, ofi->events, ofi->arg);

    if (err == 0)
        return deliver_aligned(ofi, link->member.link.peer, packet, size);
    if (err == -EAGAIN)
        return err;
    ofi->events->dropped(ofi->arg, "a packet of a refused peer");
    if (!link->member.refused)
        ofi_tx_control(link, NET_BYE);
    link->member.refused = true;
    return err;
}

/* ---- holding ---- */

static void ofi_rx_hold(struct ofi *ofi, struct ofi_link *link, struct ofi_receive *receive,
                        unsigned char *bytes, size_t size)
{
    const struct ofi_held held = {.size = (uint32_t)size,
                                  .receive = (uint32_t)(receive - ofi->rx.receives)};

    memcpy(bytes, &held, sizeof held);
    if (link->rx.held_last != NULL)
        memcpy(link->rx.held_last + offsetof(struct ofi_held, next), &bytes, sizeof bytes);
    else
        link->rx.held_first = bytes;
    link->rx.held_last = bytes;
    receive->held++;
    if (!list_is_linked(&link->rx.in_holding))
        list_add_tail(&ofi->rx.holding, &link->rx.in_holding);
}

static void release_first(struct ofi_link *link, const struct ofi_held *held)
{
    struct ofi *ofi = ofi_of_link(link);

    ofi->rx.receives[held->receive].held--;
    link->rx.held_first = held->next;
    if (held->next != NULL)
        return;
    link->rx.held_last = NULL;
    list_remove(&link->rx.in_holding);
}

static int deliver_held_of(struct ofi_link *link)
{
    struct ofi_held held;
    int taken = 0;

    for (; link->rx.held_first != NULL; taken++) {
        memcpy(&held, link->rx.held_first, sizeof held);
        if (ofi_rx_deliver(link, link->rx.held_first + sizeof held, held.size) == -EAGAIN)
            break;
        release_first(link, &held);
    }
    return taken;
}

int ofi_rx_deliver_held(struct ofi *ofi)
{
    struct list *node, *next;
    int taken = 0;

    list_for_each_safe (node, next, &ofi->rx.holding)
        taken += deliver_held_of(container_of(node, struct ofi_link, rx.in_holding));
    return taken;
}

/* ---- packets that have arrived ---- */

static struct ofi_link *ofi_rx_find(const struct ofi *ofi, const struct net_prefix *prefix)
{
    struct ofi_link *link;

    if (prefix->to == 0 || prefix->to > ofi->conns.id_count)
        return NULL;
    link = ofi->conns.by_id[prefix->to - 1];
    return link->net.ours.token == prefix->token ? link : NULL;
}

static void arrived_data(struct ofi *ofi, struct ofi_link *link, struct ofi_receive *receive,
                         unsigned char *bytes, size_t size)
{
    ofi->rx.ended++;
    if (link->net.state != NET_OPEN) {
        ofi->events->dropped(ofi->arg, "a packet before the handshake, or after the end");
        net_late(&link->net);
        return;
    }
    link->rx.data_count++;
    ofi_keepalive_heard(&link->keepalive);
    if (link->rx.held_first == NULL &&
        ofi_rx_deliver(link, bytes + sizeof(struct net_prefix), size) != -EAGAIN)
        return;
    ofi_rx_hold(ofi, link, receive, bytes, size);
}

/* Is the packet out of order on its link?  If it is ahead, earlier packets were lost. */
static bool is_out_of_turn(struct ofi *ofi, struct ofi_link *link,
                           const struct net_prefix *prefix)
{
    unsigned ahead = (net_count(prefix) - link->rx.data_count) & NET_COUNT_MASK;

    if (link->net.state != NET_OPEN || !net_counts((enum net_kind)prefix->kind) || ahead == 0)
        return false;
    if (ahead <= NET_COUNT_MASK / 2)
        net_break(&link->net);
    else
        ofi->events->dropped(ofi->arg, "a packet that has come before");
    return true;
}

static void arrived_control(struct ofi *ofi, struct ofi_link *link,
                            const struct net_prefix *prefix, const unsigned char *body)
{
    ofi_keepalive_heard(&link->keepalive);
    net_arrived(&ofi->net, &link->net, prefix, body);
}

static void ofi_rx_arrived(struct ofi *ofi, struct ofi_receive *receive, unsigned char *bytes,
                           size_t size)
{
    struct net_prefix prefix;
    const char *wrong = net_check(bytes, size, OFI_PACKET_MAX, &prefix);
    const unsigned char *body = bytes + sizeof prefix;
    struct ofi_link *link = wrong == NULL ? ofi_rx_find(ofi, &prefix) : NULL;

    if (wrong == NULL && prefix.kind == NET_HELLO)
        net_arrived(&ofi->net, NULL, &prefix, body); /* HELLO names no link */
    else if (link == NULL)
        ofi->events->dropped(ofi->arg, wrong != NULL ? wrong : "a packet for no link");
    else if (is_out_of_turn(ofi, link, &prefix))
        return;
    else if (prefix.kind == NET_DATA)
        arrived_data(ofi, link, receive, bytes, size - sizeof prefix - net_padding(&prefix));
    else
        arrived_control(ofi, link, &prefix, body);
}

void ofi_rx_received(struct ofi *ofi, struct ofi_receive *receive, unsigned char *bytes,
                     size_t size, bool is_released)
{
    if ((is_released || !ofi->rx.has_multi) && receive->is_given) {
        receive->is_given = false;
        ofi->rx.to_give++;
    }
    if (bytes != NULL && !ofi->is_closing)
        ofi_rx_arrived(ofi, receive, bytes, size);
}

/* ---- receive buffers ---- */

static int ofi_rx_give_one(struct ofi *ofi, struct ofi_receive *receive)
{
    const struct iovec iov = {receive->bytes, ofi->rx.size};
    const struct fi_msg msg = {
        .msg_iov = &iov,
        .desc = &ofi->rx.descriptor,
        .iov_count = 1,
        .addr = FI_ADDR_UNSPEC,
        .context = &receive->operation.context,
    };

    return (int)fi_recvmsg(ofi->domain.ep, &msg, ofi->rx.has_multi ? FI_MULTI_RECV : 0);
}

int ofi_rx_give(struct ofi *ofi)
{
    for (uint32_t i = 0; i < ofi->rx.count && ofi->rx.to_give != 0; i++) {
        struct ofi_receive *receive = &ofi->rx.receives[i];
        int err;

        if (receive->is_given || receive->held != 0)
            continue;
        err = ofi_rx_give_one(ofi, receive);
        if (err != 0)
            return err == -FI_EAGAIN ? 0 : err;
        receive->is_given = true;
        ofi->rx.to_give--;
    }
    return 0;
}

/*
 * ofi_rxm over tcp reads a packet from its socket directly into the buffer that it will report.
 * If that buffer takes many packets, and packets of two peers come at once, it sometimes (1.17:
 * one job in four of flood_test --network on a busy machine) reports a place where it wrote
 * nothing, and the packet is lost.  Buffers for one packet each have not been seen to lose one.
 */
static bool is_multi_trusted(const struct fi_info *info)
{
    return strcmp(info->fabric_attr->prov_name, "tcp;ofi_rxm") != 0;
}

int ofi_rx_open(struct ofi *ofi)
{
    size_t least = OFI_MESSAGE_MAX;
    int err;

    list_init(&ofi->rx.holding);
    ofi->rx.has_multi =
        (ofi->domain.info->caps & FI_MULTI_RECV) != 0 && is_multi_trusted(ofi->domain.info);
    ofi->rx.count = ofi->rx.has_multi ? OFI_MULTI : OFI_RECEIVES;
    ofi->rx.size = ofi->rx.has_multi ? OFI_MULTI_SIZE : OFI_MESSAGE_MAX;
    ofi->rx.to_give = ofi->rx.count;
    ofi->rx.receives = mem_calloc(ofi->rx.count, sizeof *ofi->rx.receives);
    ofi->rx.bytes = mem_alloc_aligned(4096, ofi->rx.count * ofi->rx.size);
    if (ofi->rx.receives == NULL || ofi->rx.bytes == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < ofi->rx.count; i++) {
        ofi->rx.receives[i].operation.kind = OFI_RECEIVING;
        ofi->rx.receives[i].bytes = ofi->rx.bytes + i * ofi->rx.size;
    }
    err = ofi_register(ofi, ofi->rx.bytes, ofi->rx.count * ofi->rx.size, FI_RECV, &ofi->rx.mr);
    if (err != 0)
        return err;
    ofi->rx.descriptor = ofi->rx.mr != NULL ? fi_mr_desc(ofi->rx.mr) : NULL;
    if (ofi->rx.has_multi)
        err = fi_setopt(&ofi->domain.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
                        sizeof least);
    return err != 0 ? err : ofi_rx_give(ofi);
}

void ofi_rx_close(struct ofi *ofi)
{
    if (ofi->rx.mr != NULL)
        fi_close(&ofi->rx.mr->fid);
    mem_free(ofi->rx.bytes);
    mem_free(ofi->rx.receives);
}

void ofi_rx_init_link(struct ofi_link_rx *rx)
{
    list_init_node(&rx->in_holding);
}
