/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rx.h - receives packets: rx.c.
 *
 * Invariants
 *   I1  a link is on holding if and only if it has held packets
 *   I2  at least `promised` buffers were made: a window for each prepared link, and IB_BEYOND
 *       for its packets that need no credit.  So a receive is posted for everything that may
 *       come
 *   I3  of a window, `space` packets have not come, held packets (except answers of an adapter)
 *       and `begun` ones are not read, and the buffers of `owed` are posted again but not
 *       reported yet
 *
 * If a device receives instead (verbs_inlet.h), the window's packets go to its buffers, of
 * which there are as many plus IB_SLACK, for buffers that were read and not given back.  Our
 * own receives are then only for answers of adapters (tag.h).
 */
#ifndef IB_RX_H
#define IB_RX_H

#include "base/list.h"
#include "transport/transport.h"
#include "transport/verbs/tx.h"

#define IB_WINDOW_MAX 4096
#define IB_BEYOND     4  /* two CREDITs, a BYE, and one for a peer that breaks these rules */
#define IB_SLACK      16 /* extra buffers of a device */
#define IB_CHUNK      64 /* buffers made at once */
#define IB_BATCH      32 /* buffers posted at once */

struct ib;
struct ib_link;
struct ibv_wc;

struct ib_buffer {
    struct list node; /* on its link's held */
    unsigned char *bytes;
    uint32_t number, key;
    uint32_t size;  /* of the held packet */
    bool is_answer; /* an adapter's answer: not part of a window */
};

struct ib_chunk {
    struct ibv_mr *mr;
    unsigned char *bytes;
    struct ib_buffer buffers[IB_CHUNK];
};

struct ib_rx {
    struct list holding;      /* link.rx.in_holding */
    struct ib_chunk **chunks; /* by number / IB_CHUNK */
    uint32_t chunk_count;
    uint32_t promised;        /* buffers that peers may fill */
    uint32_t window;          /* the usual window of a link */
    uint32_t batch[IB_BATCH]; /* buffers to post again */
    uint32_t batch_count;
    bool has_warned; /* has warned that there are no buffers for more peers */
    uint64_t ended;  /* packets of the core that came from others */
};

struct ib_link_rx {
    uint32_t
        window; /* packets of the core that the peer may have unread here; 0: not prepared */
    uint32_t space; /* of these, packets that it has not sent */
    uint32_t owed;  /* credit that was not reported to the peer yet */
    uint32_t begun; /* packets that came through the device (verbs_inlet.h) and are not read */
    struct list held, in_holding;
};

int ib_rx_open(struct ib *ib, uint32_t window);
void ib_rx_close(struct ib *ib); /* the receive queue is gone */
void ib_rx_init_link(struct ib_link_rx *rx);

/* Makes buffers for the packets that this peer may send.  0; -ENOMEM; -ENOBUFS. */
int ib_rx_welcome(struct ib_link *link);

/* A packet in a buffer of the device, as transport_verbs_arrived(). */
bool ib_rx_arrived(struct ib_link *link, const void *packet, size_t size);

/* A packet of the peer's window has come through the device; false: this has ended the link.
 * And ib_rx_end(): the packet was read. */
bool ib_rx_begin(struct ib_link *link);
void ib_rx_end(struct ib_link *link);

/* A receive has completed. */
void ib_rx_received(struct ib *ib, uint32_t number, const struct ibv_wc *wc);

/* Posts the buffers again that were read. */
void ib_rx_post(struct ib *ib);

/* Delivers a packet of the core.  0; -EAGAIN; another error: it is refused. */
int ib_rx_deliver(struct ib_link *link, const void *packet, size_t size);

/* Offers held packets again.  Returns how many were taken. */
int ib_rx_deliver_held(struct ib *ib);

/* The credit to report with a packet that leaves now; it counts as reported.  And
 * ib_rx_untell(): takes this back. */
uint16_t ib_rx_report(struct ib_link *link);
void ib_rx_untell(struct ib_link *link, uint16_t credit);

/* Is there enough credit to report that it is worth a packet? */
bool ib_rx_has_to_report(const struct ib_link *link);

#endif
