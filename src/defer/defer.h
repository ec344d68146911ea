/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * defer.h - matching at the sender: messages that wait where they are, beyond the window of
 * their receiver.  What other folders may use of src/defer.
 *
 *   sender                                      receiver
 *   backlog.c    deferred sends                 receiver.c      open receives, claims answered
 *   claims.c     compared and claimed
 *   by_sender.c  with MBX_MATCH_AT=sender, at both sides: lock words
 *   sendtable.c  those that a peer may see      pull.c          those that it takes by itself
 *                                               remote_probe.c  those that a probe asks for
 *
 * Other folders call nothing here: a send that has to wait comes by module_defer(), credit by
 * module_credit_came(), receives by module_recv_posted() and module_recv_left(), probes by
 * module_probe() (core/module.h).  What they may read is struct peer_defer (p2p/p2p.h).
 */
#ifndef DEFER_DEFER_H
#define DEFER_DEFER_H

#include "p2p/p2p.h"

/* Glossary: deferred send - a send that waits at its sender, for credit or for a receive */
enum defer_proto {
    PROTO_BACKLOG = 6 /* backlog.c: a send that waits for credit, or for a receive */
};

/* Of an endpoint. */
struct ep_defer {
    struct backlogs *backlogs; /* or NULL: no send was ever deferred; backlog.c */
    struct sendtables *tables; /* or NULL: nothing was ever published; sendtable.c */
    struct receiver *receiver; /* or NULL: no peer ever deferred one; receiver.c */
    uint32_t capacity;         /* RTRs that are kept for one receiver; backlog.c */
};
PART_FITS(mbx_ep, defer, struct ep_defer);
#define ep_defer(ep) PART((ep)->defer, struct ep_defer)

/* Glossary: claim - the request of a sender for a receive that an RTR named */
/* Unresolved claims of one sender at one receiver, at most. */
#define BACKLOG_CLAIMS 16

/* mbx_ep.defer.capacity, if nobody says otherwise. */
#define BACKLOG_RTRS 256

/* As transport_events.cswap_done: of the word that a send takes (by_sender.c). */
void by_sender_exchanged(void *ep, uint64_t cookie, int error, bool is_exchanged);

extern const struct module backlog_module, receiver_module, remote_probe_module;

#endif
