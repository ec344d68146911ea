/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn.c - a link to another endpoint: makes it, implements the functions that net/net.c, which
 * opens and ends links, needs, and finds out whether the peer is alive.
 *
 * A peer that closes sends BYE, so a queue pair that fails without one has lost its peer: the
 * peer's adapter does not answer, although it does for a process that computes or is stopped.
 * A side that only waits sends nothing that could fail, so check() and ib_conn_tend() send a
 * write of no bytes to a silent peer; its adapter answers, without software.
 *
 * For a process on this host that was not met, its pid shows whether it has ended.
 */
#include "transport/verbs/conn.h"

#include <errno.h>

#include "base/array.h"
#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "transport/verbs/ib.h"

#define SILENCE_NS (500 * CLOCK_MS) /* then its adapter is probed */
#define LINGER_NS  CLOCK_S          /* failed queue pairs are kept for this time */

static struct ib_link *link_of_net(struct net_link *net)
{
    return container_of(net, struct ib_link, net);
}

/* ---- making ---- */

int ib_link_check_address(const struct ib *ib, const struct transport_address *address)
{
    bool is_shm = address->kind == ADDRESS_SHM;

    if (address->kind != ADDRESS_VERBS && !is_shm)
        return -EINVAL;
    if (address->network_size == 0)
        return is_shm ? -EHOSTUNREACH : -EINVAL;
    if (address->network_size > sizeof address->network)
        return -EINVAL;
    if (!address_is_same_format(address, &ib->net.self))
        return -EHOSTUNREACH;
    return ib_hca_is_address(ib, address) ? 0 : -EINVAL;
}

static int link_init(struct ib *ib, struct ib_link *link,
                     const struct transport_address *address)
{
    int err;

    link->member.address = *address;
    err = net_link_init(&ib->net, &link->net, &link->member.address, ib->conns.id_count + 1);
    if (err != 0)
        return err;
    ib_tx_init_link(&link->tx);
    ib_rx_init_link(&link->rx);
    ib_rma_init_link(&link->rma);
    list_init_node(&link->in_failing);
    list_init_node(&link->ud.in_busy);
    link->member.link.transport = &ib->base;
    if (!link->net.is_self && (ib->is_lost || ib_ud_route(link) != 0)) {
        link->net.is_nowhere = true;
        net_kill(&link->net, -EHOSTUNREACH, NET_CLOSED);
    }
    return 0;
}

int ib_link_get(struct ib *ib, const struct transport_address *address, struct ib_link **out)
{
    struct link_member *known = link_table_find(&ib->conns.links, address);
    struct ib_link *link;
    int err = known != NULL ? 0 : ib_link_check_address(ib, address);

    if (known != NULL)
        *out = container_of(known, struct ib_link, member);
    if (known != NULL || err != 0)
        return err;
    if (!array_reserve(ib->conns.by_id, ib->conns.id_capacity, ib->conns.id_count + 1))
        return -ENOMEM;
    link = mem_calloc(1, sizeof *link);
    if (link == NULL)
        return -ENOMEM;
    err = link_init(ib, link, address);
    if (err == 0)
        err = link_table_add(&ib->conns.links, &link->member);
    if (err != 0) {
        ib_ud_unroute(link);
        mem_free(link);
        return err;
    }
    ib->conns.by_id[ib->conns.id_count++] = link;
    *out = link;
    return 0;
}

/* ---- lookup by queue pair number ---- */

struct numbered {
    struct ib_link *link;
    uint64_t number;
};

static uint64_t number_hash(const void *arg, const void *slot)
{
    (void)arg;
    return ((const struct numbered *)slot)->number;
}

/* Entries of a destroyed pair stay; another pair may have got the numbers. */
static bool number_is(const void *arg, const void *slot, const void *number)
{
    const struct numbered *numbered = slot;
    const struct ib_link_pair *pair = &numbered->link->pair;

    (void)arg;
    return numbered->number == *(const uint64_t *)number && pair->in != NULL &&
           (pair->in->qp_num == numbered->number || pair->out->qp_num == numbered->number);
}

static const struct hash_kind by_number = {sizeof(struct numbered), number_hash, number_is};

/* Adds the link under each of its two numbers. */
static int number_add(struct ib *ib, struct ib_link *link)
{
    int err = hash_add(&ib->conns.by_number, &by_number, NULL,
                       &(struct numbered){link, link->pair.in->qp_num});

    return err != 0 ? err
                    : hash_add(&ib->conns.by_number, &by_number, NULL,
                               &(struct numbered){link, link->pair.out->qp_num});
}

struct ib_link *ib_link_by_number(const struct ib *ib, uint32_t number)
{
    const uint64_t wanted = number;
    const struct numbered *numbered =
        hash_find(&ib->conns.by_number, &by_number, NULL, number, &wanted);

    return numbered != NULL ? numbered->link : NULL;
}

/* ---- functions for net.c ---- */

static void on_control(struct net_link *net, enum net_kind kind)
{
    struct ib_link *link = link_of_net(net);

    if (kind == NET_BYE)
        ib_tx_control(link, IB_FRAME_BYE);
    else if (kind != NET_PONG) /* PING is not used */
        ib_ud_control(link, kind);
}

static void on_forget(struct net_link *net, unsigned kinds)
{
    ib_ud_forget(link_of_net(net), kinds);
}

static bool on_is_wanted(const struct net_link *net)
{
    return link_of_net((struct net_link *)(uintptr_t)net)->tx.queued != 0;
}

/* Makes buffers for the peer's packets, and queue pairs. */
static int on_prepare(struct net_link *net)
{
    struct ib_link *link = link_of_net(net);
    struct ib *ib = ib_of_link(link);
    int err;

    if (link->pair.state != IB_PAIR_NONE)
        return 0;
    /* a matching device has to know the peer's number */
    err = ib_has_inlet(ib) ? link_member_present(&link->member, ib->events, ib->arg) : 0;
    if (err == 0)
        err = ib_rx_welcome(link);
    if (err == 0)
        err = ib_pair_make(link);
    if (err != 0)
        return err;
    err = number_add(ib, link);
    if (err != 0)
        ib_pair_destroy(link);
    return err;
}

static void on_offer(const struct net_link *net, struct net_offer *offer)
{
    ib_pair_offer(link_of_net((struct net_link *)(uintptr_t)net), offer);
}

static int on_get(struct net *net, const struct transport_address *address,
                  struct net_link **out)
{
    struct ib_link *link;
    int err = ib_link_get(container_of(net, struct ib, net), address, &link);

    if (err == 0)
        *out = &link->net;
    return err;
}

static int on_meet(struct net_link *net)
{
    struct ib_link *link = link_of_net(net);
    char peer[NET_PEER_TEXT];
    int err = link->pair.state == IB_PAIR_MADE
                  ? ib_pair_connect(link, &net->offer, &link->tx.window)
                  : -EPROTO;

    if (err == -EPROTO)
        LOG_WARN(
            "verbs: the handshake of %s has invalid queue pairs; if both processes use the "
            "same version of Matchbox, please report this",
            net_peer_text(net, peer));
    link->tx.credit = link->tx.window;
    return err == 0 ? 0 : -EHOSTUNREACH;
}

static void on_opened(struct net_link *net)
{
    ib_tx_mark_busy(link_of_net(net));
}

static void ib_conn_on_ended(struct net_link *net)
{
    struct ib_link *link = link_of_net(net);

    ib_pair_fail(link);
    ib_tx_drop(link);
    ib_rma_fail(link);
    list_remove(&link->in_failing);
    link->failed_ns = 0;
}

/* Has the process with this address ended?  A reused pid hides it. */
static bool on_is_gone(struct net_link *net, uint64_t now)
{
    const struct transport_address *address = net->address;

    (void)now;
    return address->host == net->net->self.host && address->process != 0 &&
           sys_kill((pid_t)address->process, 0) != 0 && errno == ESRCH;
}

const struct net_ops ib_net_ops = {
    .confirms = true,
    .control = on_control,
    .forget = on_forget,
    .is_wanted = on_is_wanted,
    .prepare = on_prepare,
    .offer = on_offer,
    .get = on_get,
    .meet = on_meet,
    .opened = on_opened,
    .ended = ib_conn_on_ended,
    .is_gone = on_is_gone,
};

/* ---- the end ---- */

static uint64_t device_empties(const struct ib_link *link)
{
    const struct transport_verbs_inlet *inlet =
        &ib_of(link->member.link.transport)->conns.inlet;

    return link->pair.is_inlet ? inlet->empties(inlet->arg) : 0;
}

void ib_link_failed(struct ib_link *link, const char *why)
{
    if (link->net.state == NET_DEAD || list_is_linked(&link->in_failing))
        return;
    LOG_DEBUG("verbs: link %u: %s", link->net.id, why);
    link->empties = device_empties(link);
    list_add_tail(&ib_of_link(link)->failing, &link->in_failing);
}

void ib_conns_end_failing(struct ib *ib)
{
    struct list *node, *next;

    list_for_each_safe (node, next, &ib->failing) {
        struct ib_link *link = container_of(node, struct ib_link, in_failing);

        if (link->is_leaving)
            net_kill(&link->net, -ENOTCONN, NET_CLOSED);
        else if (!link->pair.is_inlet || link->empties != device_empties(link))
            net_kill(&link->net, -ENOTCONN, NET_DIED);
    }
}

void ib_link_ends(struct ib_link *link)
{
    if (!link->pair.is_inlet) {
        if (link->net.state == NET_OPEN)
            net_kill(&link->net, -ENOTCONN, NET_CLOSED);
        return;
    }
    link->is_leaving = true;
    if (!list_is_linked(&link->in_failing))
        list_add_tail(&ib_of_link(link)->failing, &link->in_failing);
}

void ib_conns_lose(struct ib *ib)
{
    LOG_ERROR("verbs: the adapter %s is lost: no peer can be reached through it any more; "
              "check the adapter (ibv_devinfo), and restart the job",
              ib->hca.name);
    ib->is_lost = true;
    for (uint32_t i = 0; i < ib->conns.id_count; i++)
        if (!ib->conns.by_id[i]->net.is_self)
            net_kill(&ib->conns.by_id[i]->net, -ENOTCONN, NET_DIED);
    ib_rma_lose(ib);
}

/* ---- checking peers ---- */

static void tend_open(struct ib_link *link, uint64_t now)
{
    if (link->heard_ns == 0)
        link->heard_ns = now;
    if (now - link->heard_ns <= SILENCE_NS || now - link->asked_ns <= SILENCE_NS)
        return;
    link->asked_ns = now;
    ib_rma_ask(link);
}

/* Gives back failed queue pairs without requests after a while, in which the adapter has
 * reported everything that it had begun to receive.  If a device receives, its completion queue
 * must also have been found empty: the adapter counts unexpected messages, and would wait for
 * ever for the host to handle one whose completion was lost with the queue pair. */
static void tend_dead(struct ib_link *link, uint64_t now)
{
    ib_ud_forget(link, ~0u); /* its last packet is not tried for long */
    if (link->pair.state != IB_PAIR_FAILED || link->tx.in_flight != 0 ||
        link->rma.in_flight != 0)
        return;
    if (link->failed_ns == 0) {
        link->failed_ns = now;
        link->empties = device_empties(link);
    } else if (now - link->failed_ns > LINGER_NS &&
               (!link->pair.is_inlet || link->empties != device_empties(link))) {
        ib_pair_destroy(link);
    }
}

static void ib_conn_tend(struct ib_link *link, uint64_t now)
{
    ib_rma_checked(link);
    if (net_is_meeting(&link->net))
        net_tend(&link->net, now);
    else if (link->net.state == NET_OPEN && !link->net.is_self)
        tend_open(link, now);
    else if (link->net.state == NET_DEAD)
        tend_dead(link, now);
}

/* Does this link itself have something that waits for the peer? */
static bool is_waiting(const struct ib_link *link)
{
    return link->net.state != NET_OPEN || link->tx.queued != 0 || ib_rma_is_waiting(link);
}

void ib_conns_tend(struct ib *ib)
{
    uint64_t now = clock_now();

    ib->is_meeting = false;
    for (uint32_t i = 0; i < ib->conns.id_count; i++) {
        struct ib_link *link = ib->conns.by_id[i];

        if (is_waiting(link))
            ib_conn_tend(link, now);
        ib->is_meeting |= net_is_meeting(&link->net);
    }
}

int ib_conns_check(struct link *l)
{
    struct ib_link *link = ib_link_of(l);

    if (link->net.state == NET_NEW)
        net_call(&link->net); /* the caller waits for the peer */
    else
        ib_conn_tend(link, clock_now());
    return net_verdict(&link->net);
}

/* Only a peer that we have called, or that has called us, is known. */
int ib_conns_check_address(const struct transport *t, const struct transport_address *address)
{
    const struct ib *ib = ib_of(t);
    struct link_member *known = link_table_find(&ib->conns.links, address);

    if (address_is_same(address, &ib->net.self))
        return 0;
    if (known == NULL || ib_link_of(&known->link)->net.state == NET_NEW)
        return -ENOTSUP;
    return ib_conns_check(&known->link);
}

/* ---- all links ---- */

void ib_conns_init(struct ib *ib)
{
    link_table_init(&ib->conns.links, NULL);
    list_init(&ib->failing);
}

void ib_conns_close(struct ib *ib)
{
    for (uint32_t i = 0; i < ib->conns.id_count; i++)
        mem_free(ib->conns.by_id[i]);
    mem_free(ib->conns.by_id);
    hash_fini(&ib->conns.by_number);
    link_table_fini(&ib->conns.links);
}
