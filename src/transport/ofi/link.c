/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c - a way to another endpoint over the network, from its making to the end.
 *
 *   NEW ──> CALLING ──────────> OPEN ──────> DEAD      a packet is to leave; WELCOME came
 *    │         │                 ^            ^
 *    └─────────┴──> ANSWERING ───┘            │        HELLO came; PROOF came
 *              └─────────┴────────────────────┘        refused, closed, broken
 *
 * greet.c makes it open, outbound.c and inbound.c use it, and attend.c finds out whether
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

int ofi_check_address(const struct ofi *ofi, const struct transport_address *address)
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
    uint32_t room = ofi->id_room == 0 ? 8 : ofi->id_room * 2;
    struct ofi_link **by_id = mem_realloc(ofi->by_id, room * sizeof *by_id);

    if (by_id == NULL)
        return -ENOMEM;
    ofi->by_id = by_id;
    ofi->id_room = room;
    return 0;
}

static int link_init(struct ofi *ofi, struct ofi_link *link,
                     const struct transport_address *address)
{
    int known, err = random_secret(&link->ours, sizeof link->ours);

    if (err != 0)
        return err;
    list_init(&link->queue);
    list_init(&link->moving);
    list_init_node(&link->in_busy);
    list_init_node(&link->in_holding);
    link->member.link.transport = &ofi->base;
    link->member.address = *address;
    link->look_fd = -1;
    link->is_self = address_is_same(address, &ofi->self);
    link->state = link->is_self ? OFI_OPEN : OFI_NEW;
    link->id = ofi->id_count + 1;
    link->ours.id = link->id;
    link->ours.zero = 0;
    known = fi_av_insert(ofi->av, address->network, 1, &link->to, 0, NULL);
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
    struct link_member *known = link_table_find(&ofi->links, address);
    struct ofi_link *link;
    int err = known != NULL ? 0 : ofi_check_address(ofi, address);

    if (known != NULL)
        *out = container_of(known, struct ofi_link, member);
    if (known != NULL || err != 0)
        return err;
    if (ofi->id_count == ofi->id_room && ids_grow(ofi) != 0)
        return -ENOMEM;
    link = mem_calloc(1, sizeof *link);
    if (link == NULL)
        return -ENOMEM;
    err = link_init(ofi, link, address);
    if (err == 0)
        err = link_table_add(&ofi->links, &link->member);
    if (err != 0) {
        mem_free(link);
        return err;
    }
    ofi->by_id[ofi->id_count++] = link;
    *out = link;
    return 0;
}

void ofi_link_destroy(struct ofi_link *link)
{
    list_remove(&link->in_busy);
    list_remove(&link->in_holding);
    ofi_listener_forget(link);
    mem_free(link);
}

void ofi_link_set(struct ofi_link *link, enum ofi_state state)
{
    struct ofi *ofi = ofi_of_link(link);

    ofi->strangers += state == OFI_ANSWERING;
    ofi->strangers -= link->state == OFI_ANSWERING;
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
    link->owes = 0;
    ofi_queue_drop(link);
    ofi_listener_forget(link);
    ofi_moving_failed(link);
}

void ofi_link_broken(struct ofi_link *link)
{
    LOG_WARN("ofi: link %u: packets were lost when a connection broke", link->id);
    ofi_link_kill(link, -ENOTCONN, true);
    ofi_owe(link, OFI_BROKEN);
}

void ofi_link_told_late(struct ofi_link *link)
{
    if (link->state == OFI_DEAD && link->has_died)
        ofi_owe(link, OFI_BROKEN);
}

/* ---- what its peer says of it ---- */

static void heard(struct ofi_link *link)
{
    link->heard_ns = 0; /* until somebody looks at the clock */
    link->silent_ns = 0;
}

void ofi_link_told(struct ofi *ofi, struct ofi_link *link, enum ofi_kind kind, const void *body)
{
    heard(link);
    switch (kind) {
    case OFI_WELCOME:
        ofi_welcomed(ofi, link, body);
        break;
    case OFI_PROOF:
        ofi_proved(ofi, link, body);
        break;
    case OFI_REFUSED:
        if (link->state == OFI_CALLING)
            ofi_refused(link);
        break;
    case OFI_PING:
        ofi_pinged(link);
        break;
    case OFI_BYE:
        if (link->state == OFI_OPEN)
            ofi_link_kill(link, -ENOTCONN, false);
        break;
    case OFI_BROKEN:
        if (link->state != OFI_NEW) /* if it was never met, it has given us up */
            ofi_link_kill(link, link->state == OFI_OPEN ? -ENOTCONN : -EHOSTUNREACH, true);
        break;
    case OFI_DATA:
    case OFI_HELLO:
    case OFI_PONG:
    case OFI_KINDS:
        break;
    }
}
