/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tx.h - sends packets: tx.c.
 *
 * Invariants
 *   I1  a link is on busy if and only if it has control packets pending or its queue is not
 *       empty
 *   I2  a buffer is free, or on the queue of one link, or the provider's until its completion;
 *       a queue has at most OFI_QUEUE_MAX
 *   I3  packets of a link leave in the order of send(): nothing is sent past a queue that is
 *       not empty
 */
#ifndef OFI_TX_H
#define OFI_TX_H

#include <stdalign.h>

#include "base/list.h"
#include "transport/ofi/domain.h"
#include "transport/net/packet.h"

/* The largest packet of the core; and with prefix and padding. */
#define OFI_PACKET_MAX  (16384 - 256)
#define OFI_MESSAGE_MAX (OFI_PACKET_MAX + 16 + 8)

#define OFI_BUFFERS     64 /* packets in flight or queued */
#define OFI_RESERVE     8  /* of these, for control packets */
#define OFI_QUEUE_MAX   16 /* packets that wait for one link */

struct ofi_link;

struct ofi_buffer {
    struct ofi_operation operation;
    struct list node; /* on free or on a queue */
    struct ofi_link *link;
    void *descriptor;
    size_t size, padding;
    alignas(16) unsigned char bytes[OFI_MESSAGE_MAX];
};

struct ofi_tx {
    struct list busy; /* link.tx.in_busy */
    struct ofi_buffer *buffers;
    struct list free;
    uint32_t free_count;
    struct fid_mr *mr; /* of buffers */
    size_t inject_max;
    uint64_t begun; /* packets of the core that left for others */
};

struct ofi_link_tx {
    uint32_t data_count; /* DATA that left */
    uint32_t queued;
    struct list queue; /* buffers */
    struct list in_busy;
    uint16_t pending; /* control packets that have not left: 1 << enum net_kind */
};

int ofi_tx_open(struct ofi *ofi);
/* Call after closing libfabric's endpoint. */
void ofi_tx_close(struct ofi *ofi);
void ofi_tx_init_link(struct ofi_link_tx *tx);

/* As transport_ops.send. */
int ofi_tx_send(struct link *link, const struct transport_packet *packet);

/* Queues a control packet of this kind; it leaves from the next poll() on. */
void ofi_tx_control(struct ofi_link *link, enum net_kind kind);
/* Removes queued control packets of these kinds (1 << enum net_kind). */
void ofi_tx_forget(struct ofi_link *link, unsigned kinds);

/* Has a control packet of this kind been pending for long without leaving? */
bool ofi_tx_is_stuck(const struct ofi_link *link, enum net_kind kind, uint64_t since_ns,
                     uint64_t now);

/* Lets pending and queued packets leave, from the next poll() on. */
void ofi_tx_mark_busy(struct ofi_link *link);

/* Sends waiting packets of one link, or of all, while there is space.  Returns how many
 * left. */
int ofi_tx_push(struct ofi_link *link);
int ofi_tx_push_all(struct ofi *ofi);

/* Drops all waiting packets. */
void ofi_tx_drop(struct ofi_link *link);

/* The provider is done with a buffer, or could not send it. */
void ofi_tx_sent(struct ofi *ofi, struct ofi_buffer *buffer);
void ofi_tx_failed(struct ofi *ofi, struct ofi_buffer *buffer, int error);

#endif
