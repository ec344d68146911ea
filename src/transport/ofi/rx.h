/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rx.h - receives packets: rx.c.
 *
 * Invariants
 *   I1  a link is on holding if and only if it has held packets; a receive buffer is given to
 *       the provider again when the provider has released it and it contains no held packets;
 *       each receive buffer counts its held packets
 */
#ifndef OFI_RX_H
#define OFI_RX_H

#include "base/list.h"
#include "transport/ofi/domain.h"

#define OFI_RECEIVES   32 /* receive buffers for one packet each, */
#define OFI_MULTI      4  /* or for many, of this size */
#define OFI_MULTI_SIZE (128 << 10)

struct ofi_link;

/* Overwrites the prefix of a packet that was not taken. */
struct ofi_held {
    unsigned char *next;
    uint32_t size; /* without the prefix */
    uint32_t receive;
};

struct ofi_receive {
    struct ofi_operation operation;
    unsigned char *bytes;
    uint32_t held; /* packets in it that were not taken */
    bool is_given; /* to the provider */
};

struct ofi_rx {
    struct list holding; /* link.rx.in_holding */
    struct ofi_receive *receives;
    uint32_t count; /* of receives */
    bool has_multi;
    size_t size; /* of each receive buffer */
    unsigned char *bytes;
    struct fid_mr *mr; /* of bytes */
    void *descriptor;
    uint32_t to_give; /* receive buffers that the provider did not take yet */
    uint64_t ended;   /* packets of the core that came from others */
};

struct ofi_link_rx {
    uint32_t data_count; /* DATA that arrived */
    struct list in_holding;
    unsigned char *held_first, *held_last;
};

int ofi_rx_open(struct ofi *ofi);
/* Call after closing libfabric's endpoint: the provider has released all buffers. */
void ofi_rx_close(struct ofi *ofi);
void ofi_rx_init_link(struct ofi_link_rx *rx);

/* Gives the provider all receive buffers that it may have. */
int ofi_rx_give(struct ofi *ofi);

/* A packet has arrived in this buffer; bytes is NULL if the provider only releases the
 * buffer. */
void ofi_rx_received(struct ofi *ofi, struct ofi_receive *receive, unsigned char *bytes,
                     size_t size, bool is_released);

/* Delivers a packet of the core.  0; -EAGAIN; another error: it is refused. */
int ofi_rx_deliver(struct ofi_link *link, const void *packet, size_t size);

/* Offers held packets again.  Returns how many were taken. */
int ofi_rx_deliver_held(struct ofi *ofi);

#endif
