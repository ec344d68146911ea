/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ud.h - handshake packets as datagrams: ud.c.
 *
 * Invariants
 *   I1  a link is on busy if and only if it has control packets pending
 *   I2  free counts the bits of slots that are not the adapter's
 */
#ifndef IB_UD_H
#define IB_UD_H

#include <infiniband/verbs.h>

#include "base/list.h"
#include "transport/net/packet.h"

#define IB_UD_RECEIVES 64
#define IB_UD_SENDS    32
#define IB_UD_GRH      40  /* precedes each received datagram */
#define IB_UD_SIZE     256 /* of a datagram: the smallest MTU */

struct ib;
struct ib_link;

struct ib_ud {
    struct ibv_qp *qp;
    uint32_t key;
    struct ibv_mr *mr;
    unsigned char *bytes; /* first the send slots, then the receives */
    uint32_t free;        /* free send slots: one bit each */
    struct list busy;     /* link.ud.in_busy */
};

struct ib_link_ud {
    struct ibv_ah *way;
    uint16_t pending; /* 1 << enum net_kind */
    struct list in_busy;
};

int ib_ud_open(struct ib *ib);
void ib_ud_close(struct ib *ib);

/* Finds the route to the peer.  0; -errno. */
int ib_ud_route(struct ib_link *link);
void ib_ud_unroute(struct ib_link *link);

/* Queues a control packet, which leaves from the next poll() on; ib_ud_forget(): removes queued
 * ones of these kinds. */
void ib_ud_control(struct ib_link *link, enum net_kind kind);
void ib_ud_forget(struct ib_link *link, unsigned kinds);

/* Sends pending packets while there is space.  Returns how many left. */
int ib_ud_push(struct ib *ib);

/* A datagram has left, or been received. */
void ib_ud_sent(struct ib *ib, uint32_t slot);
void ib_ud_received(struct ib *ib, uint32_t number, const struct ibv_wc *wc);

#endif
