/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness.h - checks whether awaited peers are alive; see liveness.c.
 */
#ifndef CORE_LIVENESS_H
#define CORE_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

struct mbx_ep;
struct peer;

/* Part of a peer. */
struct peer_health {
    bool is_awaited : 1; /* for one check */
    bool is_suspected : 1, is_doubted : 1, is_gone : 1, is_dead : 1, is_lost : 1;
    bool is_reported : 1, is_loss_reported : 1; /* in the log; report.c */
    uint32_t next_failed;                       /* the next one that died; failure.c */
};

/* Part of the endpoint. */
struct ep_liveness {
    uint64_t last_ns;  /* the time of the last check */
    uint32_t next;     /* the first peer that has its turn in the next check */
    uint32_t met;      /* peers that got a link only for a check */
    bool has_seen_all; /* at the last check: all messages of the peers that are gone were
                          seen */
    bool is_probed;    /* since the last check a probe found nothing; the last one */
    uint32_t probed;   /* named this source */
};

/* Checks within MBX_PEER_TIMEOUT.  A peer is gone if two consecutive checks find it so. */
#define LIVENESS_CHECKS 20

/* A probe of this source, or of MBX_ANY_SOURCE, found nothing: it makes the checks take peers
 * as a waiting receive does.  0; -ENOTCONN source has died, and all that it had sent has
 * arrived; -EHOSTDOWN source is MBX_ANY_SOURCE, and a peer has died since mbx_failed_ack(). */
int liveness_probed(struct mbx_ep *ep, uint32_t source);
/* The link of peer is over (transport_ops.is_over): it is gone. */
void liveness_leave(struct mbx_ep *ep, struct peer *peer);
/* Checks whether awaited peers are alive, if it is time. */
void liveness_check(struct mbx_ep *ep);

#endif
