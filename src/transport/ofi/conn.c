/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn.c - a link to another endpoint over the network: makes it, and implements the functions
 * that net.c, which opens and ends links, needs.  tx.c, rx.c and rdma.c use links, and
 * keepalive.c finds out whether the peer is alive.
 */
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/base.h"
#include "base/mem.h"
#include "transport/ofi/ofi.h"

/* ---- making ---- */

int ofi_link_check_address(const struct ofi *ofi, const struct transport_address *address)
{
    bool is_shm = address->kind == ADDRESS_SHM;

    if (address->kind != ADDRESS_OFI && !is_shm)
        return -EINVAL;
    if (address->network_size == 0)
        return is_shm ? -EHOSTUNREACH : -EINVAL;
    if (address->network_size > sizeof address->network)
        return -EINVAL;
    return address_is_same_format(address, &ofi->net.self) ? 0 : -EHOSTUNREACH;
}

static int link_init(struct ofi *ofi, struct ofi_link *link,
                     const struct transport_address *address)
{
    int known, err;

    link->member.address = *address;
    err = net_link_init(&ofi->net, &link->net, &link->member.address, ofi->conns.id_count + 1);
    if (err != 0)
        return err;
    ofi_tx_init_link(&link->tx);
    ofi_rx_init_link(&link->rx);
    ofi_rdma_init_link(&link->rdma);
    link->member.link.transport = &ofi->base;
    link->probe.fd = -1;
    known = fi_av_insert(ofi->domain.av, address->network, 1, &link->to, 0, NULL);
    if (known == -FI_ENOMEM)
        return -ENOMEM; /* there may be memory later */
    if (known != 1) {
        link->net.is_nowhere = true; /* well-formed, but refused by the provider */
        net_kill(&link->net, -EHOSTUNREACH, NET_CLOSED);
    }
    return 0;
}

int ofi_link_get(struct ofi *ofi, const struct transport_address *address,
                 struct ofi_link **out)
{
    struct link_member *known = link_table_find(&ofi->conns.links, address);
    struct ofi_link *link;
    int err = known != NULL ? 0 : ofi_link_check_address(ofi, address);

    if (known != NULL)
        *out = container_of(known, struct ofi_link, member);
    if (known != NULL || err != 0)
        return err;
    if (!array_reserve(ofi->conns.by_id, ofi->conns.id_capacity, ofi->conns.id_count + 1))
        return -ENOMEM;
    link = mem_calloc(1, sizeof *link);
    if (link == NULL)
        return -ENOMEM;
    err = link_init(ofi, link, address);
    if (err == 0)
        err = link_table_add(&ofi->conns.links, &link->member);
    if (err != 0) {
        mem_free(link);
        return err;
    }
    ofi->conns.by_id[ofi->conns.id_count++] = link;
    *out = link;
    return 0;
}

static void ofi_conn_destroy(struct ofi_link *link)
{
    list_remove(&link->tx.in_busy);
    list_remove(&link->rx.in_holding);
    ofi_tcp_probe_forget(link);
    mem_free(link);
}

/* ---- functions for net.c ---- */

static void on_control(struct net_link *net, enum net_kind kind)
{
    ofi_tx_control(ofi_link_of_net(net), kind);
}

static void on_forget(struct net_link *net, unsigned kinds)
{
    ofi_tx_forget(ofi_link_of_net(net), kinds);
}

static bool on_is_wanted(const struct net_link *net)
{
    return ofi_link_of_net((struct net_link *)(uintptr_t)net)->tx.queued != 0;
}

static void on_offer(const struct net_link *net, struct net_offer *offer)
{
    static_assert(sizeof(struct ofi_place) == sizeof *offer, "it is the offer");
    memcpy(offer, &container_of(net->net, struct ofi, net)->cswap.place, sizeof *offer);
}

static int on_get(struct net *net, const struct transport_address *address,
                  struct net_link **out)
{
    struct ofi_link *link;
    int err = ofi_link_get(container_of(net, struct ofi, net), address, &link);

    if (err == 0)
        *out = &link->net;
    return err;
}

static void on_opened(struct net_link *net)
{
    struct ofi_link *link = ofi_link_of_net(net);

    if (!list_is_empty(&link->tx.queue))
        ofi_tx_mark_busy(link);
}

static void ofi_conn_on_ended(struct net_link *net)
{
    struct ofi_link *link = ofi_link_of_net(net);

    ofi_tx_drop(link);
    ofi_tcp_probe_forget(link);
    ofi_rdma_fail(link);
}

static bool on_is_gone(struct net_link *net, uint64_t now)
{
    struct ofi_link *link = ofi_link_of_net(net);

    return ofi_tx_is_stuck(link, NET_HELLO, net->since_ns, now) &&
           ofi_tcp_probe(link, now) == -ECONNREFUSED;
}

static const char *on_place(const struct net_link *net, char text[NET_PLACE])
{
    ofi_tcp_probe_place(container_of(net, struct ofi_link, net), text, NET_PLACE);
    return text;
}

/* Another possible cause: a process in another network namespace listens on its own loopback
 * interface. */
static const char *on_or_else(const struct net_link *net)
{
    const struct ofi_link *link = container_of(net, struct ofi_link, net);

    return ofi_tcp_probe_is_loopback(link) ? ", or is in another network namespace (a "
                                             "container with a network of its own) that "
                                             "has only a loopback interface: give the "
                                             "containers the network of their host, as "
                                             "podman --net=host does"
                                           : "";
}

const struct net_ops ofi_net_ops = {
    .control = on_control,
    .forget = on_forget,
    .is_wanted = on_is_wanted,
    .offer = on_offer,
    .get = on_get,
    .opened = on_opened,
    .ended = ofi_conn_on_ended,
    .is_gone = on_is_gone,
    .place = on_place,
    .or_else = on_or_else,
};

/* ---- all links ---- */

void ofi_conns_init(struct ofi *ofi)
{
    link_table_init(&ofi->conns.links, NULL);
}

void ofi_conns_close(struct ofi *ofi)
{
    for (uint32_t i = 0; i < ofi->conns.id_count; i++)
        ofi_conn_destroy(ofi->conns.by_id[i]);
    mem_free(ofi->conns.by_id);
    link_table_fini(&ofi->conns.links);
}
