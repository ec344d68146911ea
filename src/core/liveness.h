/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness.h - whether the peers are there that somebody waits for; liveness.c tells how.
 */
#ifndef CORE_LIVENESS_H
#define CORE_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

struct mbx_ep;
struct peer;

/* Of a peer. */
struct peer_health {
    bool is_awaited : 1; /* within one check */
    bool is_suspected : 1, is_doubted : 1, is_gone : 1, is_dead : 1, is_lost : 1;
    bool is_reported : 1, is_loss_reported : 1; /* to the user, in the log; report.c */
    uint32_t next_failed;                       /* died after it; failure.c */
};

/* Of the endpoint. */
struct ep_liveness {
    uint64_t last_ns;  /* when peers were looked at */
    uint32_t next;     /* the first peer whose turn the next check is */
    uint32_t met;      /* peers that got a link for its sake */
    bool has_seen_all; /* at the last check: what peers that are gone had sent */
    bool is_probed;    /* since the last check a probe was in vain, and the last one */
    uint32_t probed;   /* asked for this source */
};

/* Looks within MBX_PEER_TIMEOUT.  A peer that is gone is found by the second that takes it, which is
 * the one behind the first. */
#define LIVENESS_CHECKS 20

/* A probe of this source, or of MBX_ANY_SOURCE, was in vain: for it peers are looked at as for a
 * receive that waits.  0; -ENOTCONN source has died, and all that it had sent is here; -EHOSTDOWN
 * source is MBX_ANY_SOURCE, and a peer has died since mbx_failed_ack(). */
int liveness_probed(struct mbx_ep *ep, uint32_t source);
/* The link of peer is over (transport_ops.is_over): it is gone. */
void liveness_leave(struct mbx_ep *ep, struct peer *peer);
/* Looks whether those peers are there that somebody waits for, if it is time. */
void liveness_check(struct mbx_ep *ep);

#endif
