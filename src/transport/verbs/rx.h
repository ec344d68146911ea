/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rx.h - what arrives: rx.c.
 *
 * Invariants
 *   I1  a link is on holding if and only if packets of it are held
 *   I2  as many buffers were made as promised, or more: a window for each link that was prepared,
 *       and IB_BEYOND for its packets that need no credit.  So a receive is posted for all that may
 *       come
 *   I3  of a window, space has not come, held (but answers of an adapter) and begun are not read, and
 *       owed is posted again and not told
 *
 * With a device in our place (verbs_inlet.h) the window's packets come to its buffers, of which there
 * are as many, and IB_SLACK more, which have been read and not given back.  Our own receives are then
 * for what adapters answer (tag.h).
 */
#ifndef IB_RX_H
#define IB_RX_H

#include "base/list.h"
#include "transport/transport.h"
#include "transport/verbs/tx.h"

#define IB_WINDOW_MAX 4096
#define IB_BEYOND     4  /* two CREDITs, a BYE, and one for what breaks these rules */
#define IB_SLACK      16 /* of a device's buffers */
#define IB_CHUNK      64 /* buffers that are made at once */
#define IB_BATCH      32 /* buffers that are posted at once */

struct ib;
struct ib_link;
struct ibv_wc;

struct ib_buffer {
    struct list node; /* on its link's held */
    unsigned char *bytes;
    uint32_t number, key;
    uint32_t size;  /* of the packet, held */
    bool is_answer; /* of an adapter: it is no part of a window */
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
    uint32_t window;          /* of a link, usually */
    uint32_t batch[IB_BATCH]; /* buffers that are to be posted again */
    uint32_t batch_count;
    bool has_warned; /* there are no buffers for more peers */
    uint64_t ended;  /* packets of the core that came from others */
};

struct ib_link_rx {
    uint32_t
        window; /* packets of the core that the peer may have unread here; 0: not prepared */
    uint32_t space;  /* of these, what it has not sent */
    uint32_t owed;   /* what it may send again, and has not been told */
    uint32_t begun;  /* what has come by the device (verbs_inlet.h), and is not read */
    bool is_refused; /* by the core, for good, unless connect() names it */
    struct list held, in_holding;
};

int ib_rx_open(struct ib *ib, uint32_t window);
void ib_rx_close(struct ib *ib); /* the receive queue is gone */
void ib_rx_init_link(struct ib_link_rx *rx);

/* Makes buffers for what this peer may send.  0; -ENOMEM; -ENOBUFS. */
int ib_rx_welcome(struct ib_link *link);

/* Asks the core, if need be, who the peer is.  0; -EAGAIN later; another error: it is refused. */
int ib_rx_present(struct ib_link *link);

/* A packet of the device in our place, as transport_verbs_arrived(). */
bool ib_rx_arrived(struct ib_link *link, const void *packet, size_t size);

/* Something of the peer's window has come by the device; false: the link has ended by that.  And it
 * was read. */
bool ib_rx_begin(struct ib_link *link);
void ib_rx_end(struct ib_link *link);

/* A receive has completed. */
void ib_rx_received(struct ib *ib, uint32_t number, const struct ibv_wc *wc);

/* Posts again what was read since. */
void ib_rx_post(struct ib *ib);

/* Hands up one packet of the core.  0; -EAGAIN; another error: it is refused. */
int ib_rx_deliver(struct ib_link *link, const void *packet, size_t size);

/* Offers what is held again.  How many were taken. */
int ib_rx_deliver_held(struct ib *ib);

/* How many buffers are to be told with a packet that leaves now; they count as told.  Back. */
uint16_t ib_rx_report(struct ib_link *link);
void ib_rx_untell(struct ib_link *link, uint16_t credit);

/* Is there so much to tell that it is worth a packet? */
bool ib_rx_has_to_report(const struct ib_link *link);

#endif
