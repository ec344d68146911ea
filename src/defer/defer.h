/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * defer.h - matching at the sender: messages beyond the window of their receiver wait at the
 * sender.  The header of src/defer for other folders.
 *
 *   sender                                      receiver
 *   backlog.c    deferred sends                 receiver.c      open receives, answers to claims
 *   claims.c     comparisons and claims
 *   by_sender.c  with MBX_MATCH_AT=sender, at both sides: lock words
 *   sendtable.c  sends that a peer may see       pull.c          pulls these sends
 *                                               remote_probe.c  probes for deferred sends
 *
 * Other folders call no function here: a send that has to wait comes through module_defer(),
 * credit through module_credit_came(), receives through module_recv_posted() and
 * module_recv_left(), probes through module_probe() (core/module.h).  They may read struct
 * peer_defer (p2p/p2p.h).
 */
#ifndef DEFER_DEFER_H
#define DEFER_DEFER_H

#include "p2p/p2p.h"

/* Glossary: deferred send - a send that waits at its sender, for credit or for a receive */
enum defer_proto {
    PROTO_BACKLOG = 6 /* backlog.c: a send that waits for credit, or for a receive */
};

/* Part of an endpoint. */
struct ep_defer {
    struct backlogs *backlogs; /* or NULL: no send was ever deferred; backlog.c */
    struct sendtables *tables; /* or NULL: no send was ever published; sendtable.c */
    struct receiver *receiver; /* or NULL: no peer ever deferred a send; receiver.c */
    uint32_t capacity;         /* the most RTRs that are kept for one receiver; backlog.c */
};
PART_FITS(mbx_ep, defer, struct ep_defer);
#define ep_defer(ep) PART((ep)->defer, struct ep_defer)

/* Glossary: claim - the request of a sender for a receive that an RTR named */
/* The most unresolved claims of one sender at one receiver. */
#define BACKLOG_CLAIMS 16

/* The default of mbx_ep.defer.capacity. */
#define BACKLOG_RTRS 256

/* transport_events.cswap_done for the word that a send takes (by_sender.c). */
void by_sender_exchanged(void *ep, uint64_t cookie, int error, bool is_exchanged);

extern const struct module backlog_module, receiver_module, remote_probe_module;

#endif
