/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.c - the endpoints that this one knows, by number and by address.
 *
 * Numbers are given in the order in which peers become known, by mbx_peer_add() or
 * because they sent something.  An address has one number.  The number of a peer that has
 * closed, and to which nothing refers any more (peer_remove.c), is free, and the next peer gets
 * it.
 *
 *   peers.index        hash(address) -> number + 1 (base/hash.h)
 *   addresses[number]
 *   peers[number] ──> struct peer ──> link        made by peer_use()
 *
 * A job has many ranks, and a rank communicates with few of them.  So a named peer costs only
 * an address and its entries in the tables.  The struct peer and the state of the transport are
 * made when something is sent to the peer or arrives from it, or when a wait for it is so long
 * that liveness.c checks it.
 *
 * Invariants
 *   I1  peers[number] is set once, and then stays until the number is free
 *   I2  the transport can reach every named address: peer_make() fails only for lack of memory,
 *       or for a reason that was not visible when the peer was named
 *   I3  each number below peers.count is in peers.index once, or it is in peers.free once,
 *       without an address
 */
#include "base/array.h"
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

static uint64_t index_hash(const void *ep, const void *slot)
{
    return address_hash(&((const struct mbx_ep *)ep)->peers.addresses[hash_number(slot) - 1]);
}

static bool index_is(const void *ep, const void *slot, const void *address)
{
    return memcmp(&((const struct mbx_ep *)ep)->peers.addresses[hash_number(slot) - 1], address,
                  sizeof(struct transport_address)) == 0;
}

static const struct hash_kind by_address = {sizeof(uint32_t), index_hash, index_is};

/* The slot of the peer at this address, or NULL. */
static void *peer_slot(const struct mbx_ep *ep, const struct transport_address *address)
{
    return hash_find(&ep->peers.index, &by_address, ep, address_hash(address), address);
}

/* Makes space for one more number, and for its address in the index. */
static int peer_reserve(struct mbx_ep *ep)
{
    struct ep_peers *peers = &ep->peers;

    if (peers->free_count == 0 &&
        (!array_reserve(peers->all, peers->slots, peers->count + 1) ||
         !array_reserve(peers->addresses, peers->address_slots, peers->count + 1)))
        return -ENOMEM;
    return hash_reserve(&ep->peers.index, &by_address, ep);
}

static uint32_t peer_new_number(struct mbx_ep *ep)
{
    return ep->peers.free_count != 0 ? ep->peers.free[--ep->peers.free_count]
                                     : ep->peers.count++;
}

/* Finds the number of this address, or assigns a new one. */
static int peer_name(struct mbx_ep *ep, const struct transport_address *address,
                     uint32_t *number)
{
    uint32_t known = hash_number(peer_slot(ep, address)), found;
    int err;

    if (known == 0) {
        err = peer_reserve(ep);
        if (err == 0)
            err = ep->net.transport->ops->reaches(ep->net.transport, address);
        if (err != 0)
            return err;
        found = peer_new_number(ep);
        ep->peers.addresses[found] = *address;
        ep->peers.all[found] = NULL;
        known = found + 1;
        (void)hash_add(&ep->peers.index, &by_address, ep, &known);
    }
    *number = known - 1;
    return 0;
}

/* Makes the peer, with this link, or if it is NULL with a new link of the transport. */
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
    return err == -ENOMEM ? -EAGAIN : err; /* no memory now: the transport may try again */
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
    mem_free(peer->advert);
    mem_free(peer);
}

int peer_forget(struct mbx_ep *ep, uint32_t number)
{
    struct peer *peer = ep->peers.all[number];

    if (!array_reserve(ep->peers.free, ep->peers.free_slots, ep->peers.free_count + 1))
        return -ENOMEM;
    hash_remove(&ep->peers.index, &by_address, ep, peer_slot(ep, &ep->peers.addresses[number]));
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
    hash_fini(&ep->peers.index);
    mem_free(ep->peers.free);
}
