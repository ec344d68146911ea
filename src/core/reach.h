/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reach.h - receives that reach messages at their senders.  Private to src/core; reach.c
 * tells how.
 */
#ifndef CORE_REACH_H
#define CORE_REACH_H

#include "core/core.h"

/* A peer holds messages for us.  As transport_events.deliver, or -EPROTO; so all below. */
int reach_hold(struct mbx_ep *ep, struct peer *peer, const struct wire_hold *hold);
int reach_claim(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet);
int reach_peeked(struct mbx_ep *ep, struct peer *peer, const struct wire_packet *packet);

/* A message of this peer has come by itself: it holds no longer. */
void reach_leave(struct mbx_ep *ep, struct peer *peer);

/* req is open: it waits in its engine. */
void reach_post(struct mbx_ep *ep, struct request *req);

/* Does this peer hold messages, as far as is known? */
bool reach_holds(const struct peer *peer);

/* req is not open any more; winner has it, or NULL. */
void reach_closed(struct mbx_ep *ep, struct request *req, const struct peer *winner);

/* What such a receive would take of the messages that peers hold.  1, *status, and if message
 * is not NULL it is taken; 0 nothing that is known: the peers are asked; -ENOMEM. */
int reach_probe(struct mbx_ep *ep, const struct mbx_match_envelope *envelope, uint64_t ignore,
                struct mbx_status *status, struct message **message);

/* What is owed.  As transport_ops.send. */
int reach_answer(struct mbx_ep *ep, struct peer *peer);
int reach_advertise(struct mbx_ep *ep, struct peer *peer);
int reach_peek(struct mbx_ep *ep, struct peer *peer);

/* This peer was told of so much credit.  What it has said to a probe may be over. */
void reach_told(struct peer *peer, uint64_t envelopes);

void reach_fini(struct mbx_ep *ep);

#endif
