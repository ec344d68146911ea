/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * early.h - receives that their sender knows of before it sends.  Private to src/core;
 * early_recv.c tells what the receiver does, early_send.c what the sender does.
 *
 *   receiver                                   sender
 *   a large receive from one source waits
 *          EARLY(r, word, buffer, credit) ──>  nothing of mine is under way: kept
 *                                              a send suits r: takes the word of r,
 *          <──────────────────── writes ────   into the buffer
 *   r leaves its engine  <──────── WRITE ───
 *                        <────── WRITTEN ───   behind the last byte, if that came later
 *   complete                                   complete
 *
 * So the message travels without any progress of its receiver, and without a copy.
 */
#ifndef CORE_EARLY_H
#define CORE_EARLY_H

#include "p2p/p2p.h"

/* Receives that one sender is told of at a time, and keeps. */
#define EARLY_MOST 16

/* An open receive of a peer, which waits for a message of ours alone. */
struct early_rtr {
    struct mbx_match_envelope envelope; /* the source is the peer */
    uint64_t ignore, number;
    struct target target;
};

enum early_send_state {
    EARLY_WRITE = PROTO_STATE(PROTO_EARLY_SEND, 0), /* its WRITE has not left */
    EARLY_WRITING, /* its data is being written, it is on active */
    EARLY_WRITTEN, /* its WRITTEN has not left */
};

enum early_recv_state {
    EARLY_FILLING = PROTO_STATE(PROTO_EARLY_RECV, 0), /* its sender writes, WRITTEN will come */
};

/* Of one peer. */
struct early {
    /* as its sender */
    uint32_t count;                    /* of rtrs */
    uint32_t vain;                     /* sends in a row that suited none of them */
    uint64_t envelopes;                /* our credit there, put aside while count is not 0 */
    uint64_t last;                     /* the greatest number of one, */
    uint64_t forgotten;                /* and of one that was not kept, or not to the end */
    struct early_rtr rtrs[EARLY_MOST]; /* in the order of their posts */
    /* as its receiver */
    uint64_t numbered;      /* receives that it was told of so far */
    uint32_t told;          /* receives that are LENT to it */
    struct backoff backoff; /* from telling */
};

/* ---- as a receiver ---- */

/* May a receive with so much room be told?  Then it is watched (mbx_ep.watched_from). */
static inline bool size_is_early(const struct mbx_ep *ep, size_t size)
{
    return size >= ep->early_from;
}

/* Is there a message that both receives accept? */
static inline bool early_overlap(const struct mbx_match_envelope *a, uint64_t a_ignore,
                                 const struct mbx_match_envelope *b, uint64_t b_ignore)
{
    return a->context_id == b->context_id &&
           (a->source == MBX_ANY_SOURCE || b->source == MBX_ANY_SOURCE ||
            a->source == b->source) &&
           ((a->tag ^ b->tag) & ~a_ignore & ~b_ignore) == 0;
}

/* ---- as a sender ---- */

/* Writes a chunk for req, in EARLY_WRITING; it goes on active if more is to come. */
void early_write(struct mbx_ep *ep, struct request *req);

/* Do their invariants hold?  With MBX_CHECKS. */
bool early_recv_is_valid(const struct mbx_ep *ep);
bool early_send_is_valid(const struct mbx_ep *ep);

extern const struct module early_recv_module, early_send_module;

#endif
