/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.c - the endpoints that this one knows, by number and by address.
 *
 * Numbers are given in the order in which peers become known, by mbx_peer_add() or
 * because they sent something, and are never reused.  An address has one number.
 *
 *   peer_index         hash(address) -> number + 1, linear probing, at most half full
 *   addresses[number]
 *   peers[number] ──> struct peer ──> link        made by peer_use()
 *
 * A job has many ranks, and a rank talks with few of them.  So who is named costs an
 * address and its places in the tables; the rest, and all that the transport keeps, is made
 * when something is sent to it, comes from it, or is waited for so long that liveness.c looks
 * at it.
 *
 * Invariants
 *   I1  peers[number] is set once, and then stays
 *   I2  the transport reaches every address that is named: peer_make() fails for want of
 *       memory, or for a reason that naming could not see
 *   I3  each number below peer_count is in peer_index once
 */
#include "core/core.h"
#include "core/module.h"

#include <stdio.h>

static_assert(MBX_ADDRESS_SIZE == TRANSPORT_ADDRESS_SIZE, "an address is the transport's");

uint32_t peer_own_hash(const struct mbx_ep *ep)
{
    struct transport_address own;

    ep->transport->ops->address(ep->transport, &own);
    return address_hash(&own);
}

/* The index entry of this address, or the empty one where it would go. */
static uint32_t *peer_entry(const struct mbx_ep *ep, const struct transport_address *address)
{
    uint32_t mask = 2 * ep->peer_slots - 1;
    uint32_t at = address_hash(address) & mask;

    while (ep->peer_index[at] != 0 &&
           memcmp(&ep->addresses[ep->peer_index[at] - 1], address, sizeof *address) != 0)
        at = (at + 1) & mask;
    return &ep->peer_index[at];
}

/* The arrays by number get this size; one that has it already is not worse for it. */
static int peer_resize(struct mbx_ep *ep, uint32_t slots)
{
    struct transport_address *addresses;
    struct peer **peers = mem_realloc(ep->peers, slots * sizeof(struct peer *));

    if (peers == NULL)
        return -ENOMEM;
    ep->peers = peers;
    addresses = mem_realloc(ep->addresses, slots * sizeof *addresses);
    if (addresses == NULL)
        return -ENOMEM;
    ep->addresses = addresses;
    return 0;
}

static int peer_grow(struct mbx_ep *ep)
{
    uint32_t slots = ep->peer_slots == 0 ? 8 : ep->peer_slots * 2;
    uint32_t *index = mem_calloc(2 * (size_t)slots, sizeof *index);

    if (index == NULL)
        return -ENOMEM;
    if (peer_resize(ep, slots) != 0) {
        mem_free(index);
        return -ENOMEM;
    }
    mem_free(ep->peer_index);
    ep->peer_index = index;
    ep->peer_slots = slots;
    for (uint32_t i = 0; i < ep->peer_count; i++)
        *peer_entry(ep, &ep->addresses[i]) = i + 1;
    return 0;
}

/* The number of this address, known or new. */
static int peer_name(struct mbx_ep *ep, const struct transport_address *address,
                     uint32_t *number)
{
    uint32_t *entry;
    int err;

    if (ep->peer_count == ep->peer_slots && (err = peer_grow(ep)) < 0)
        return err;
    entry = peer_entry(ep, address);
    if (*entry == 0) {
        err = ep->transport->ops->reaches(ep->transport, address);
        if (err != 0)
            return err;
        ep->addresses[ep->peer_count] = *address;
        ep->peers[ep->peer_count] = NULL;
        *entry = ++ep->peer_count;
    }
    *number = *entry - 1;
    return 0;
}

/* Makes the peer, with this link, or if that is NULL with one of the transport. */
static int peer_create(struct mbx_ep *ep, uint32_t number, struct link *link)
{
    const struct transport_address *address = &ep->addresses[number];
    struct peer *peer = mem_calloc(1, sizeof *peer);
    int err = 0;

    if (peer == NULL)
        return -ENOMEM;
    if (link == NULL)
        err = ep->transport->ops->connect(ep->transport, address, &link);
    if (err < 0) {
        mem_free(peer);
        return err;
    }
    list_init(&peer->out);
    list_init_node(&peer->busy);
    peer->link = link;
    peer->number = number;
    peer->can_read = link->transport->limits.can_read && ep->settings.rndv != RNDV_DATA;
    peer->can_write = peer->can_read;
    link->peer = number;
    module_peer_made(ep, peer, address);
    ep->peers[number] = peer;
    progress_polled(ep);
    return 0;
}

OUT_OF_LINE int peer_make(struct mbx_ep *ep, uint32_t number)
{
    return number < ep->peer_count ? peer_create(ep, number, NULL) : -EINVAL;
}

int peer_know(struct mbx_ep *ep, const struct transport_address *address, uint32_t *number)
{
    uint32_t found;
    int err = peer_name(ep, address, &found);

    if (err == 0)
        err = peer_use(ep, found);
    if (err == 0)
        *number = found;
    return err;
}

int peer_accept(void *arg, struct link *link, const struct transport_address *address,
                uint32_t *number)
{
    struct mbx_ep *ep = arg;
    uint32_t found;
    int err = peer_name(ep, address, &found);

    if (err == 0 && ep->peers[found] == NULL)
        err = peer_create(ep, found, link);
    if (err == 0)
        *number = found;
    return err == -ENOMEM ? -EAGAIN : err; /* no memory now: it may try again */
}

int mbx_peer_add(struct mbx_ep *ep, const struct mbx_address *address, uint32_t *number)
{
    struct transport_address bytes;
    int err;

    memcpy(&bytes, address, sizeof bytes);
    ep_lock(ep);
    err = peer_name(ep, &bytes, number);
    ep_unlock(ep);
    return err;
}

int mbx_peer_address(const struct mbx_ep *ep, uint32_t number, struct mbx_address *address)
{
    int err = -EINVAL;

    ep_lock(ep);
    if (number < ep->peer_count) {
        memcpy(address, &ep->addresses[number], sizeof *address);
        err = 0;
    }
    ep_unlock_unchanged(ep);
    return err;
}

int mbx_address_get(const struct mbx_ep *ep, struct mbx_address *address)
{
    struct transport_address bytes;

    ep->transport->ops->address(ep->transport, &bytes);
    memcpy(address, &bytes, sizeof *address);
    return 0;
}

const char *mbx_address_text(const struct mbx_address *address, char *buf, size_t size)
{
    size_t used = 0;

    if (size == 0)
        return buf;
    buf[0] = '\0';
    for (size_t i = 0; i < MBX_ADDRESS_SIZE && used + 3 <= size; i++)
        used += (size_t)snprintf(buf + used, size - used, "%02x", address->bytes[i]);
    return buf;
}

static void peer_destroy(struct peer *peer)
{
    mem_free(peer->backlog);
    mem_free(peer->deferrer);
    mem_free(peer->accesses);
    mem_free(peer->rput);
    mem_free(peer);
}

void peer_fini(struct mbx_ep *ep)
{
    for (uint32_t i = 0; i < ep->peer_count; i++)
        if (ep->peers[i] != NULL)
            peer_destroy(ep->peers[i]);
    mem_free(ep->peers);
    mem_free(ep->addresses);
    mem_free(ep->peer_index);
}
