/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer.h - a peer: a list of parts, each of which one file owns.  peer.c makes it and knows its
 * number.
 */
#ifndef CORE_PEER_H
#define CORE_PEER_H

#include <stdint.h>

#include "base/hash.h"
#include "core/backoff.h"
#include "core/liveness.h"
#include "core/outq.h"
#include "core/parts.h"
#include "transport/transport.h"

struct accesses;
struct backlog;
struct deferrer;
struct link;
struct mbx_ep;
struct advert;

/* There is one for each pair of endpoints that have communicated: so a part that is seldom
 * needed is allocated apart, and no part has unused space. */
struct peer {
    struct link *link; /* peer.c */
    uint32_t number;
    PART_STORAGE(5, 1) path;           /* struct peer_path: p2p/path.h */
    uint8_t owes;                      /* enum peer_owes: outq.c */
    PART_STORAGE(2, 1) defer;          /* struct peer_defer: p2p/p2p.h */
    struct backoff split_copy_backoff; /* after split copies that were refused or useless;
                                          split_copy.c */
    PART_STORAGE(64, 8) credit;        /* struct credit: p2p/credit.h */
    struct deferrer *deferrer; /* its deferred sends to us, or NULL: it never deferred one;
                                  receiver.c */
    struct advert *advert;     /* receives advertised before their message, or NULL: advert.h */
    struct peer_outq outq;
    struct backlog *backlog;      /* deferred sends to it, or NULL: there never were any;
                                     backlog.c */
    PART_STORAGE(16, 8) assembly; /* struct assembly: p2p/p2p.h */
    struct accesses *accesses;    /* one-sided accesses, or NULL: there never were any; rma.h */
    struct peer_health health;
};

static_assert(sizeof(struct peer) <= 184, "what malloc makes 192 bytes of");

/* Written by peer.c. */
struct ep_peers {
    struct peer **all;                   /* by number; NULL: named, and not used yet */
    struct transport_address *addresses; /* by number */
    uint32_t count, slots, address_slots;
    struct hash index; /* number + 1 by address */
    uint32_t *free;    /* unused numbers below count; the last one is used first */
    uint32_t free_count, free_slots;
};

int peer_accept(void *ep, struct link *link, const struct transport_address *address,
                uint32_t *number);
void peer_fini(struct mbx_ep *ep);
/* A number that other endpoints are unlikely to have. */
uint32_t peer_own_hash(const struct mbx_ep *ep);
/* The number of the peer at this address, known or new, after peer_use(). */
int peer_know(struct mbx_ep *ep, const struct transport_address *address, uint32_t *number);
/* The number no longer belongs to a peer.  Nothing refers to it, and its link, if there is one,
 * is over.  0; -ENOMEM. */
int peer_forget(struct mbx_ep *ep, uint32_t number);
/* Makes the peer of a number that was only named so far.  0; -EINVAL no such number; -ENOMEM,
 * or the reason why there is no link. */
int peer_make(struct mbx_ep *ep, uint32_t number);

#endif
