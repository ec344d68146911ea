/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ib.h - the parts of an endpoint over verbs (InfiniBand, RoCE); only for this folder, except
 * verbs_inlet.h, verbs_frame.h, verbs_library.h and verbs_regions.h, which a device also uses.
 *
 *   send ─> inline, or a slot (a copy, registered) ─> out ═══════> in ─> buffer of the shared
 *           └ link.queue: no credit, or not open      (RC)        (RC)   receive queue ─> deliver
 *                                                                         └ refused: stays in place,
 *                                                                           on link.held
 *   handshakes ─> datagrams (UD) ─> the other side's UD queue pair
 *
 * Two queue pairs for each peer: `out`, on which we send, read and write, and `in`, the remote
 * end of the peer's `out`.  Both receive from the shared receive queue.  `in` may belong to a
 * device (verbs_inlet.h), which then reads on it and sends answers (FIN) on it; these arrive on
 * the peer's `out`.
 *
 * Allowed calls (each file may also call those below it):
 *
 *   verbs.c        opens, polls, waits, closes
 *   conn.c         makes links, checks them; functions for net/net.c
 *   ud.c           handshake datagrams
 *   inlet.c        reports of a device that receives
 *   rma.c  tx.c  rx.c    read and write, send, receive
 *   tag.c          messages that the peer's adapter matches
 *   pair.c         queue pairs of a link
 *   hca.c          the adapter: device, port, objects that all links share
 *   verbs_regions.c    memory that an adapter may use
 *   verbs_library.c    libibverbs, loaded when it is used
 */
#ifndef IB_IB_H
#define IB_IB_H

#include "transport/verbs/conn.h"
#include "transport/verbs/verbs_regions.h"

enum ib_queue { IB_SENT, IB_RECEIVED, IB_QUEUES };

#define IB_ASIDE 16 /* completions read at once */

/* Completions that were read and not handled yet; a negative count: the adapter is lost. */
struct ib_aside {
    int count;
    struct ibv_wc wcs[IB_ASIDE];
};

struct ib {
    struct transport base;
    const struct transport_events *events;
    void *arg;
    struct net net;
    int bell; /* eventfd, for wake(); -1 if there is none */
    bool is_closing;
    bool is_lost;    /* the adapter is lost: no link works any more */
    bool is_armed;   /* the completion channel will report arrivals */
    bool has_moved;  /* something has completed since the last arming */
    bool is_meeting; /* a handshake packet may have to be repeated */
    uint32_t until_tend;
    struct ib_hca hca;
    struct ib_conns conns;
    struct ib_ud ud;
    struct ib_tx tx;
    struct ib_rx rx;
    struct ib_rma rma;
    struct ib_aside aside[IB_QUEUES];
    struct list failing; /* link.in_failing: links whose queue pair has failed */
};

/* The object of a completion: the low bits of a wr_id; above: its number. */
enum ib_kind { IB_SEND, IB_RECEIVE, IB_RMA, IB_UD_SEND, IB_UD_RECEIVE };

#define IB_KIND_BITS 3

static inline uint64_t ib_wr_id(enum ib_kind kind, uint32_t number)
{
    return (uint64_t)number << IB_KIND_BITS | kind;
}

static inline enum ib_kind ib_kind_of(uint64_t wr_id)
{
    return (enum ib_kind)(wr_id & ((1u << IB_KIND_BITS) - 1));
}

static inline uint32_t ib_number_of(uint64_t wr_id)
{
    return (uint32_t)(wr_id >> IB_KIND_BITS);
}

/* Does a device receive instead of this transport (verbs_inlet.h)? */
static inline bool ib_has_inlet(const struct ib *ib)
{
    return ib->conns.inlet.attach != NULL;
}

/* verbs.c: t, if it is an endpoint over verbs; otherwise NULL. */
struct ib *ib_own(const struct transport *t);

/* verbs.c: sends BYE, once; nothing is delivered after it. */
void ib_end(struct ib *ib);

/* Do the invariants hold, between calls from above?  With MBX_CHECKS. */
bool ib_is_valid(const struct ib *ib);

static inline struct ib *ib_of(const struct transport *t)
{
    return container_of(t, struct ib, base);
}

static inline struct ib_link *ib_link_of(struct link *link)
{
    return container_of(link, struct ib_link, member.link);
}

static inline struct ib *ib_of_link(const struct ib_link *link)
{
    return ib_of(link->member.link.transport);
}

#endif
