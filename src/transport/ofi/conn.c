/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn.c - a way to another endpoint over the network, from its making to the end.
 *
 *   NEW ──> CALLING ──────────> OPEN ──────> DEAD      a packet is to leave; WELCOME came
 *    │         │                 ^            ^
 *    └─────────┴──> ANSWERING ───┘            │        HELLO came; AUTH came 
 *              └─────────┴────────────────────┘        refused, closed, broken
 *
 * handshake.c makes it open, tx.c, rx.c and rdma.c use it, and keepalive.c finds out whether
 * somebody is there at all.
 */
#include <errno.h>
#include <string.h>

#include "base/base.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
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
    return address_is_same_format(address, &ofi->self) ? 0 : -EHOSTUNREACH;
}

static int ids_grow(struct ofi *ofi)
{
    uint32_t room = ofi->conns.id_room == 0 ? 8 : ofi->conns.id_room * 2;
    struct ofi_link **by_id = mem_realloc(ofi->conns.by_id, room * sizeof *by_id);

    if (by_id == NULL)
        return -ENOMEM;
    ofi->conns.by_id = by_id;
    ofi->conns.id_room = room;
    return 0;
}

static int link_init(struct ofi *ofi, struct ofi_link *link,
                     const struct transport_address *address)
{
    int known, err = random_secret(&link->ours, sizeof link->ours);

    if (err != 0)
        return err;
    ofi_tx_init_link(&link->tx);
    ofi_rx_init_link(&link->rx);
    ofi_rdma_init_link(&link->rdma);
    link->member.link.transport = &ofi->base;
    link->member.address = *address;
    link->probe.fd = -1;
    link->is_self = address_is_same(address, &ofi->self);
    link->state = link->is_self ? OFI_OPEN : OFI_NEW;
    link->id = ofi->conns.id_count + 1;
    link->ours.id = link->id;
    link->ours.zero = 0;
    known = fi_av_insert(ofi->domain.av, address->network, 1, &link->to, 0, NULL);
    if (known == -FI_ENOMEM)
        return -ENOMEM; /* another time there may be */
    if (known != 1) {
        link->state = OFI_DEAD; /* well-formed, and no address to the provider */
        link->error = -EHOSTUNREACH;
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
    if (ofi->conns.id_count == ofi->conns.id_room && ids_grow(ofi) != 0)
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

static void destroy(struct ofi_link *link)
{
    list_remove(&link->tx.in_busy);
    list_remove(&link->rx.in_holding);
    ofi_tcp_probe_forget(link);
    mem_free(link);
}

void ofi_link_set(struct ofi_link *link, enum ofi_state state)
{
    struct ofi *ofi = ofi_of_link(link);

    ofi->conns.unauthenticated += state == OFI_ANSWERING;
    ofi->conns.unauthenticated -= link->state == OFI_ANSWERING;
    link->state = state;
}

/* ---- the end ---- */

void ofi_link_kill(struct ofi_link *link, int error, bool has_died)
{
    if (link->state == OFI_DEAD)
        return;
    LOG_DEBUG("ofi: link %u ends, error %d %s", link->id, -error, strerror(-error));
    ofi_link_set(link, OFI_DEAD);
    link->error = error;
    link->has_died = has_died;
    ofi_tx_forget(link, ~0u);
    ofi_tx_drop(link);
    ofi_tcp_probe_forget(link);
    ofi_rdma_fail(link);
}

void ofi_link_lose(struct ofi_link *link)
{
    link->is_lost = true;
    ofi_link_kill(link, -EHOSTUNREACH, false);
}

void ofi_link_broken(struct ofi_link *link)
{
    LOG_WARN("ofi: link %u: packets were lost when a connection broke", link->id);
    ofi_link_kill(link, -ENOTCONN, true);
    ofi_tx_control(link, OFI_BROKEN);
}

void ofi_link_late(struct ofi_link *link)
{
    if (link->state == OFI_DEAD && link->has_died)
        ofi_tx_control(link, OFI_BROKEN);
}

void ofi_link_refused(struct ofi_link *link)
{
    ofi_tx_control(link, OFI_BYE);
}

void ofi_link_on_bye(struct ofi *ofi, struct ofi_link *link, const void *none)
{
    (void)ofi, (void)none;
    if (link->state == OFI_OPEN)
        ofi_link_kill(link, -ENOTCONN, false);
}

void ofi_link_on_broken(struct ofi *ofi, struct ofi_link *link, const void *none)
{
    (void)ofi, (void)none;
    if (link->state != OFI_NEW) /* a peer that we never called has given us up */
        ofi_link_kill(link, link->state == OFI_OPEN ? -ENOTCONN : -EHOSTUNREACH, true);
}

/* ---- all of them ---- */

void ofi_conns_init(struct ofi *ofi)
{
    link_table_init(&ofi->conns.links);
}

void ofi_conns_close(struct ofi *ofi)
{
    for (uint32_t i = 0; i < ofi->conns.id_count; i++)
        destroy(ofi->conns.by_id[i]);
    mem_free(ofi->conns.by_id);
    link_table_fini(&ofi->conns.links);
}
