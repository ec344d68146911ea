/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tx.h - sends on a link's queue pair: tx.c.
 *
 * The first four bytes of a packet, wire_header.frame, carry the following.  A tag-matching adapter
 * looks only at the first byte, and puts a packet with 0 there into an untagged buffer.
 *
 *   0  1  zero (IBV_TMH_NO_TAG)        2  2  credit: how many buffers for packets of the peer are
 *   1  1  enum ib_frame_kind                 posted again and were not reported yet
 *
 * Invariants
 *   I1  a link is on busy if and only if it has control packets pending or its queue is not
 *       empty, or was just marked
 *   I2  a slot is free, or on the queue of one link, or the adapter's until its completion; a
 *       queue has at most IB_QUEUE_MAX, and the adapter at most IB_LINK_SENDS of one link, and
 *       two for control packets
 *   I3  packets of a link leave in the order of send(): nothing is sent past a queue that is
 *       not empty
 *   I4  at most the peer's window of packets of the core is unread at the peer
 */
#ifndef IB_TX_H
#define IB_TX_H

#include <stdalign.h>

#include "base/list.h"
#include "transport/transport.h"

/* The largest packet of the core. */
#define IB_PACKET_MAX 8320

#define IB_SLOTS      128 /* packets in flight or queued */
#define IB_RESERVE    16  /* of these, for control packets */
#define IB_LINK_SENDS 32  /* of one link, posted to the adapter */
#define IB_QUEUE_MAX  16  /* packets that wait for one link */
#define IB_INLINE_MAX 256
#define IB_PARTS      3 /* header, body, payload */

struct ib;
struct ib_link;

enum ib_frame_kind { IB_FRAME_DATA = 1, IB_FRAME_CREDIT, IB_FRAME_BYE, IB_FRAME_KINDS };

struct ib_frame {
    uint8_t opcode, kind;
    uint16_t credit;
};

/* A control packet without a packet of the core: as long as the header that a matching adapter
 * reads. */
struct ib_control {
    struct ib_frame frame;
    uint8_t zero[12];
};
static_assert(sizeof(struct ib_frame) == sizeof((struct wire_header *)0)->frame, "its place");
static_assert(sizeof(struct ib_control) == 16, "packet format");

struct ib_slot {
    struct list node; /* on free or on a queue */
    struct ib_link *link;
    uint32_t size; /* of the packet */
    uint32_t from; /* the packet's offset if it is tagged (tag.h); otherwise 0 */
    alignas(16) unsigned char bytes[IB_PACKET_MAX];
};

struct ib_tx {
    struct list busy; /* link.tx.in_busy */
    struct list free;
    uint32_t free_count;
    struct ib_slot *slots;
    struct ibv_mr *mr; /* of slots */
    uint64_t begun;    /* packets of the core that left for others */
};

struct ib_link_tx {
    uint32_t window;    /* the peer's: packets of the core that may be unread there */
    uint32_t credit;    /* packets of the core that the peer can take now */
    uint32_t in_flight; /* slots that the adapter has */
    uint32_t queued;
    uint8_t pending; /* control packets that have not left: 1 << enum ib_frame_kind */
    struct list queue, in_busy;
};

int ib_tx_open(struct ib *ib);
void ib_tx_close(struct ib *ib); /* the queue pairs are gone */
void ib_tx_init_link(struct ib_link_tx *tx);

/* As transport_ops.send. */
int ib_tx_send(struct link *link, const struct transport_packet *packet);

/* As transport_ops.send_eager. */
int ib_tx_send_eager(struct link *link, uint32_t context_id, uint64_t tag, uint64_t data,
                     const void *payload, size_t size);

/* Queues a control packet of this kind; it leaves from the next poll() on. */
void ib_tx_control(struct ib_link *link, enum ib_frame_kind kind);

/* Lets pending and queued packets leave, from the next poll() on. */
void ib_tx_mark_busy(struct ib_link *link);

/* The peer has posted this many buffers again. */
void ib_tx_credited(struct ib_link *link, uint32_t credit);

/* Sends waiting packets while there is space.  Returns how many left. */
int ib_tx_push_all(struct ib *ib);

/* Drops all waiting packets. */
void ib_tx_drop(struct ib_link *link);

/* The adapter has completed the send of a slot.  Returns its link. */
struct ib_link *ib_tx_sent(struct ib *ib, uint32_t slot);

#endif
