/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness.h - whether the peers are there that somebody waits for; liveness.c tells how.
 */
#ifndef CORE_LIVENESS_H
#define CORE_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

struct mbx_ep;

/* Of a peer. */
struct peer_health {
    bool is_awaited, is_doubted, is_gone, is_dead, is_lost;
    uint32_t next_failed; /* died after it; failure.c */
};

/* Of the endpoint. */
struct ep_liveness {
    uint64_t last_ns;  /* when peers were looked at */
    uint32_t next;     /* the peer from which on the next look goes on */
    uint32_t met;      /* peers that got a link for its sake */
    bool has_seen_all; /* at the last look: what peers that are gone had sent */
};

/* Looks within MBX_PEER_TIMEOUT.  A peer that is gone is found by the second that concerns
 * it. */
#define LIVENESS_LOOKS 20

/* Looks whether those peers are there that somebody waits for, if it is time. */
void liveness_look(struct mbx_ep *ep);

#endif
