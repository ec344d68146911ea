/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keepalive.c - finds out whether a peer that something waits for is alive.
 *
 * A peer that closes sends BYE, so a connection that breaks without one means a death.  A side
 * that only waits sends nothing that could fail: so check() sends a PING to a silent peer, and
 * ofi_keepalive_tend_link() does so for links whose packets do not leave.  An answer is
 * expected only if there is a time limit, because a peer that computes does not answer; but a
 * PING to a dead peer fails, or does not leave, and then tcp_probe.c finds out why.
 */
#include <errno.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/ofi/ofi.h"

#define SILENCE_NS (500 * CLOCK_MS) /* then a PING is sent */

static void ofi_keepalive_ask(struct ofi_link *link, uint64_t now)
{
    link->keepalive.asked_ns = now;
    if (link->keepalive.silent_ns == 0) {
        link->keepalive.silent_ns = now;
        ofi_tcp_probe_forget(link);
    }
    ofi_tx_control(link, NET_PING);
    ofi_tx_push(link);
}

static void tend_open(struct ofi_link *link, uint64_t now)
{
    const struct ofi *ofi = ofi_of_link(link);
    char peer[NET_PEER_TEXT];

    if (link->keepalive.heard_ns == 0)
        link->keepalive.heard_ns = now;
    if (ofi->net.timeout_ns != 0 && link->keepalive.silent_ns != 0 &&
        now - link->keepalive.silent_ns > ofi->net.timeout_ns) {
        LOG_WARN(
            "ofi: no answer from %s within %llu ms (MBX_OFI_TIMEOUT): raise the variable if "
            "that rank computes",
            net_peer_text(&link->net, peer),
            (unsigned long long)(ofi->net.timeout_ns / CLOCK_MS));
        net_kill(&link->net, -ENOTCONN, NET_DIED);
    } else if (ofi_tx_is_stuck(link, NET_PING, link->keepalive.asked_ns, now) &&
               ofi_tcp_probe(link, now) == -ECONNREFUSED) {
        LOG_DEBUG("ofi: link %u: its peer no longer listens", link->net.id);
        net_kill(&link->net, -ENOTCONN, NET_DIED);
    } else if (now - link->keepalive.heard_ns > SILENCE_NS &&
               now - link->keepalive.asked_ns > SILENCE_NS) {
        ofi_keepalive_ask(link, now);
    }
}

/* Something waits for the peer of this link. */
static void ofi_keepalive_tend_link(struct ofi_link *link, uint64_t now)
{
    ofi_rdma_checked(link);
    switch (link->net.state) {
    case NET_CALLING:
    case NET_CONFIRMING:
    case NET_ANSWERING:
        net_tend(&link->net, now);
        break;
    case NET_OPEN:
        if (!link->net.is_self)
            tend_open(link, now);
        break;
    case NET_DEAD: /* its last packet is not tried for long */
        ofi_tx_forget(link, ~0u);
        ofi_tx_drop(link);
        break;
    case NET_NEW:
        break;
    }
}

/* Does this link itself have something that waits for the peer? */
static bool is_waiting(const struct ofi_link *link)
{
    return link->net.state != NET_OPEN || list_is_linked(&link->tx.in_busy) ||
           ofi_rdma_is_waiting(link);
}

void ofi_keepalive_tend(struct ofi *ofi)
{
    uint64_t now = clock_now();

    for (uint32_t i = 0; i < ofi->conns.id_count; i++)
        if (is_waiting(ofi->conns.by_id[i]))
            ofi_keepalive_tend_link(ofi->conns.by_id[i], now);
}

int ofi_keepalive_check(struct link *l)
{
    struct ofi_link *link = ofi_link_of(l);

    if (link->net.state == NET_NEW)
        net_call(&link->net); /* the caller waits for the peer */
    else
        ofi_keepalive_tend_link(link, clock_now());
    return net_verdict(&link->net);
}

/* Only a peer that we have called, or that has called us, is known. */
int ofi_keepalive_check_address(const struct transport *t,
                                const struct transport_address *address)
{
    const struct ofi *ofi = ofi_of(t);
    struct link_member *known = link_table_find(&ofi->conns.links, address);

    if (address_is_same(address, &ofi->net.self))
        return 0;
    if (known == NULL || ofi_link_of(&known->link)->net.state == NET_NEW)
        return -ENOTSUP;
    return ofi_keepalive_check(&known->link);
}
