/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rput.h - receives that their sender knows of before it sends: rput_recv.c tells what the
 * receiver does, rput_send.c what the sender does.  coop.h has long messages that both sides copy.
 *
 * Other rooms call nothing here; they name the modules.  A send comes by module_send(), when
 * peer.rput counts receives that were announced to us, a receive by module_recv_posted() and
 * module_recv_left(), a message that is to be read by module_read() (core/module.h).
 *
 *   receiver                                   sender
 *   a large receive from one source waits
 *       ANNOUNCE(r, word, buffer, credit) ──>  nothing of mine is under way: kept
 *                                              a send suits r: takes the word of r,
 *          <──────────────────── writes ────   into the buffer
 *   r leaves its engine  <──────── WRITE ───
 *                        <────── WRITTEN ───   behind the last byte, if that came later
 *   complete                                   complete
 *
 * So the message travels without any progress of its receiver, and without a copy.
 */
#ifndef RPUT_RPUT_H
#define RPUT_RPUT_H

#include "p2p/p2p.h"

enum rput_proto {
    PROTO_RPUT_SEND = 7, /* rput_send.c: a send that is written into its receive */
    PROTO_RPUT_RECV,     /* rput_recv.c: a receive that its sender writes */
    PROTO_COOP           /* coop.c: a receive of which its sender writes a part */
};

/* Receives that one sender is told of at a time, and keeps. */
#define RPUT_MOST 16

/* An open receive of a peer, which waits for a message of ours alone. */
struct rput_rtr {
    struct mbx_match_envelope envelope; /* the source is the peer */
    uint64_t ignore, number;
    struct rput_target target;
};

enum rput_send_state {
    /* its WRITE has not left, and */
    RPUT_WRITE = PROTO_STATE(PROTO_RPUT_SEND, 0), /* nothing is being written, or all is */
    RPUT_WRITE_MOVING,                            /* the transport writes all of it */
    RPUT_WRITE_STOPPED,                           /* no more is written */
    /* it is on active, its WRITE has left, or it is a part for coop.c, and */
    RPUT_WRITING, /* its next chunk is to be written */
    RPUT_MOVING,  /* the transport writes a chunk */
    RPUT_STOPPED, /* no more is written */
    RPUT_WRITTEN, /* its WRITTEN has not left */
};

enum rput_recv_state {
    RPUT_FILLING = PROTO_STATE(PROTO_RPUT_RECV, 0), /* its sender writes, WRITTEN will come */
};

/* Of one peer. */
struct rput {
    /* as its sender */
    uint32_t count;                  /* of rtrs */
    uint32_t vain;                   /* sends in a row that suited none of them */
    uint64_t envelopes;              /* our credit there, put aside while count is not 0 */
    uint64_t last;                   /* the greatest number of one, */
    uint64_t forgotten;              /* and of one that was not kept, or not to the end */
    struct rput_rtr rtrs[RPUT_MOST]; /* in the order of their posts */
    /* as its receiver */
    uint64_t numbered;      /* receives that it was told of so far */
    uint32_t announced;     /* receives that are ANNOUNCED to it */
    struct backoff backoff; /* from telling */
};

/* ---- as a receiver ---- */

/* May a receive with so much room be told?  Then it is watched
 * (mbx_ep.modules.watched_from). */
static inline bool size_is_rput(const struct mbx_ep *ep, size_t size)
{
    return size >= ep_rput(ep)->from;
}

/* Is there a message that both receives accept? */
static inline bool rput_overlap(const struct mbx_match_envelope *a, uint64_t a_ignore,
                                const struct mbx_match_envelope *b, uint64_t b_ignore)
{
    return a->context_id == b->context_id &&
           (a->source == MBX_ANY_SOURCE || b->source == MBX_ANY_SOURCE ||
            a->source == b->source) &&
           ((a->tag ^ b->tag) & ~a_ignore & ~b_ignore) == 0;
}

/* ---- as a sender ---- */

/* Writes a chunk for req, in RPUT_WRITING; it goes on active if more is to come. */
void rput_write(struct mbx_ep *ep, struct request *req);

/* Do their invariants hold?  With MBX_CHECKS. */
bool rput_recv_is_valid(const struct mbx_ep *ep);
bool rput_send_is_valid(const struct mbx_ep *ep);

extern const struct module rput_recv_module, rput_send_module, coop_module;

#endif
