/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.c - the endpoints that this one knows, by number and by address.
 *
 * Numbers are given in the order in which peers become known, by mbx_peer_add() or
 * because they sent something.  An address has one number.  The number of a peer that has closed, and to
 * which nothing refers any more (peer_remove.c), is free, and the next one gets it.
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
 *   I1  peers[number] is set once, and then stays until the number is free
 *   I2  the transport reaches every address that is named: peer_make() fails for want of
 *       memory, or for a reason that naming could not see
 *   I3  each number below peer_count is in peer_index once, or it is in free once, without an address
 */
#include "core/core.h"
#include "core/module.h"

#include <stdio.h>

static_assert(MBX_ADDRESS_SIZE == TRANSPORT_ADDRESS_SIZE, "an address is the transport's");

uint32_t peer_own_hash(const struct mbx_ep *ep)
{
    struct transport_address own;

    ep->net.transport->ops->address(ep->net.transport, &own);
    return address_hash(&own);
}

/* The index entry of this address, or the empty one where it would go. */
static uint32_t *peer_entry(const struct mbx_ep *ep, const struct transport_address *address)
{
    uint32_t mask = 2 * ep->peers.slots - 1;
    uint32_t at = address_hash(address) & mask;

    while (ep->peers.index[at] != 0 &&
           memcmp(&ep->peers.addresses[ep->peers.index[at] - 1], address, sizeof *address) != 0)
        at = (at + 1) & mask;
    return &ep->peers.index[at];
}

/* The arrays by number get this size; one that has it already is not worse for it. */
static int peer_resize(struct mbx_ep *ep, uint32_t slots)
{
    struct transport_address *addresses;
    struct peer **peers = mem_realloc(ep->peers.all, slots * sizeof(struct peer *));

    if (peers == NULL)
        return -ENOMEM;
    ep->peers.all = peers;
    addresses = mem_realloc(ep->peers.addresses, slots * sizeof *addresses);
    if (addresses == NULL)
        return -ENOMEM;
    ep->peers.addresses = addresses;
    return 0;
}

static int peer_grow(struct mbx_ep *ep)
{
    uint32_t slots = ep->peers.slots == 0 ? 8 : ep->peers.slots * 2;
    uint32_t *index = mem_calloc(2 * (size_t)slots, sizeof *index);

    if (index == NULL)
        return -ENOMEM;
    if (peer_resize(ep, slots) != 0) {
        mem_free(index);
        return -ENOMEM;
    }
    mem_free(ep->peers.index);
    ep->peers.index = index;
    ep->peers.slots = slots;
    for (uint32_t i = 0; i < ep->peers.count; i++)
        if (!peer_is_free(ep, i))
            *peer_entry(ep, &ep->peers.addresses[i]) = i + 1;
    return 0;
}

static uint32_t peer_new_number(struct mbx_ep *ep)
{
    return ep->peers.free_count != 0 ? ep->peers.free[--ep->peers.free_count]
                                     : ep->peers.count++;
}

/* The number of this address, known or new. */
static int peer_name(struct mbx_ep *ep, const struct transport_address *address,
                     uint32_t *number)
{
    uint32_t *entry;
    int err;

    if (ep->peers.count == ep->peers.slots && ep->peers.free_count == 0 &&
        (err = peer_grow(ep)) < 0)
        return err;
    entry = peer_entry(ep, address);
    if (*entry == 0) {
        uint32_t found;

        err = ep->net.transport->ops->reaches(ep->net.transport, address);
        if (err != 0)
            return err;
        found = peer_new_number(ep);
        ep->peers.addresses[found] = *address;
        ep->peers.all[found] = NULL;
        *entry = found + 1;
    }
    *number = *entry - 1;
    return 0;
}

/* Makes the peer, with this link, or if that is NULL with one of the transport. */
static int peer_create(struct mbx_ep *ep, uint32_t number, struct link *link)
{
    const struct transport_address *address = &ep->peers.addresses[number];
    struct peer *peer = mem_calloc(1, sizeof *peer);
    int err = 0;

    if (peer == NULL)
        return -ENOMEM;
    if (link == NULL)
        err = ep->net.transport->ops->connect(ep->net.transport, address, &link);
    if (err < 0) {
        mem_free(peer);
        return err;
    }
    list_init(&peer->outq.list);
    list_init_node(&peer->outq.busy);
    peer->link = link;
    peer->number = number;
    link->peer = number;
    module_peer_made(ep, peer, address);
    ep->peers.all[number] = peer;
    progress_polled(ep);
    return 0;
}

OUT_OF_LINE int peer_make(struct mbx_ep *ep, uint32_t number)
{
    return number < ep->peers.count && !peer_is_free(ep, number)
               ? peer_create(ep, number, NULL)
               : log_argument("an operation", "peer", number, "no such peer");
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

    if (err == 0 && ep->peers.all[found] == NULL)
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
    if (err == -EINVAL) {
        char text[2 * MBX_ADDRESS_SIZE + 1];

        LOG_DEBUG("mbx_peer_add: address %s : not well-formed",
                  mbx_address_text(address, text, sizeof text));
    }
    return err;
}

int mbx_peer_address(const struct mbx_ep *ep, uint32_t number, struct mbx_address *address)
{
    int err = -EINVAL;

    ep_lock(ep);
    if (number < ep->peers.count && !peer_is_free(ep, number)) {
        memcpy(address, &ep->peers.addresses[number], sizeof *address);
        err = 0;
    }
    ep_unlock_unchanged(ep);
    return err == 0 ? 0 : log_argument("mbx_peer_address", "peer", number, "no such peer");
}

int mbx_address_get(const struct mbx_ep *ep, struct mbx_address *address)
{
    struct transport_address bytes;

    ep->net.transport->ops->address(ep->net.transport, &bytes);
    memcpy(address, &bytes, sizeof *address);
    return 0;
}

int mbx_address_share(struct mbx_ep *ep, uint64_t label)
{
    struct transport_address own;
    int err;

    if (label == 0)
        return log_argument("mbx_address_share", "label", label, "must not be 0");
    ep_lock(ep);
    ep->net.transport->ops->address(ep->net.transport, &own);
    err = transport_share(ep->net.transport, label, &own);
    ep_unlock_unchanged(ep);
    return err;
}

int mbx_address_find(const struct mbx_ep *ep, uint64_t label, struct mbx_address *address)
{
    struct transport_address found;
    int err = transport_find(ep->net.transport, label, &found);

    if (err == 0)
        memcpy(address, &found, sizeof *address);
    return err;
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

/* Those behind the hole that a search would not find any more move into it, and leave the next. */
static void peer_unindex(struct mbx_ep *ep, uint32_t number)
{
    uint32_t *index = ep->peers.index, mask = 2 * ep->peers.slots - 1;
    uint32_t hole = (uint32_t)(peer_entry(ep, &ep->peers.addresses[number]) - index);

    assert(index[hole] == number + 1);
    index[hole] = 0;
    for (uint32_t at = (hole + 1) & mask; index[at] != 0; at = (at + 1) & mask) {
        uint32_t home = address_hash(&ep->peers.addresses[index[at] - 1]) & mask;

        if (((at - home) & mask) < ((at - hole) & mask))
            continue; /* its search begins behind the hole */
        index[hole] = index[at];
        index[at] = 0;
        hole = at;
    }
}

int peer_forget(struct mbx_ep *ep, uint32_t number)
{
    struct peer *peer = ep->peers.all[number];

    if (ep->peers.free_count == ep->peers.free_slots) {
        uint32_t slots = ep->peers.free_slots == 0 ? 8 : 2 * ep->peers.free_slots;
        uint32_t *more = mem_realloc(ep->peers.free, slots * sizeof *more);

        if (more == NULL)
            return -ENOMEM;
        ep->peers.free = more;
        ep->peers.free_slots = slots;
    }
    peer_unindex(ep, number);
    if (peer != NULL) {
        peer->link->transport->ops->forget(peer->link);
        peer_destroy(peer);
    }
    ep->peers.all[number] = NULL;
    ep->peers.addresses[number] = (struct transport_address){0};
    ep->peers.free[ep->peers.free_count++] = number;
    names_forget_peer(ep, number);
    return 0;
}

void peer_fini(struct mbx_ep *ep)
{
    for (uint32_t i = 0; i < ep->peers.count; i++)
        if (ep->peers.all[i] != NULL)
            peer_destroy(ep->peers.all[i]);
    mem_free(ep->peers.all);
    mem_free(ep->peers.addresses);
    mem_free(ep->peers.index);
    mem_free(ep->peers.free);
}
