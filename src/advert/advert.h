/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advert.h - receives that their sender knows of before it sends: advert_recv.c tells what the
 * receiver does, advert_send.c what the sender does.  split_copy.h has long messages that both sides copy.
 *
 * Other folders call nothing here; they name the modules.  A send comes by module_send(), when
 * peer.advert counts receive that were advertised to us, a receive by module_recv_posted() and
 * module_recv_left(), a message that is to be read by module_read() (core/module.h).
 *
 *   receiver                                   sender
 *   a large receive from one source waits
 *       ADVERTISE(r, word, buffer, credit) ──>  nothing of mine is under way: kept
 *                                              a send suits r: takes the word of r,
 *          <──────────────────── writes ────   into the buffer
 *   r leaves its engine  <──────── WRITE ───
 *                        <────── WRITTEN ───   behind the last byte, if that came later
 *   complete                                   complete
 *
 * So the message travels without any progress of its receiver, and without a copy.
 */
#ifndef ADVERT_ADVERT_H
#define ADVERT_ADVERT_H

#include "p2p/p2p.h"

enum advert_proto {
    PROTO_ADVERT_SEND = 7, /* advert_send.c: a send that is written into its receive */
    PROTO_ADVERT_RECV,     /* advert_recv.c: a receive that its sender writes */
    PROTO_SPLIT_COPY       /* split_copy.c: a receive of which its sender writes a part */
};

/* Receives that are advertised to one sender at a time, and that it keeps. */
#define ADVERT_MOST 16

/* An open receive of a peer, which waits for a message of ours alone. */
struct advert_rtr {
    struct mbx_match_envelope envelope; /* the source is the peer */
    uint64_t ignore, number;
    struct advert_target target;
};

enum advert_send_state {
    /* its WRITE has not left, and */
    ADVERT_WRITE = PROTO_STATE(PROTO_ADVERT_SEND, 0), /* nothing is being written, or all is */
    ADVERT_WRITE_MOVING,                              /* the transport writes all of it */
    ADVERT_WRITE_STOPPED,                             /* no more is written */
    /* it is on active, its WRITE has left, or it is a part for split_copy.c, and */
    ADVERT_WRITING, /* its next chunk is to be written */
    ADVERT_MOVING,  /* the transport writes a chunk */
    ADVERT_STOPPED, /* no more is written */
    ADVERT_WRITTEN, /* its WRITTEN has not left */
};

enum advert_recv_state {
    ADVERT_FILLING =
        PROTO_STATE(PROTO_ADVERT_RECV, 0), /* its sender writes, WRITTEN will come */
};

/* Glossary: advertised receive (`advert`) - a receive whose buffer the receiver has shown to
 * the sender, which may write into it */
/* Of one peer. */
struct advert {
    /* as its sender */
    uint32_t count;                      /* of rtrs */
    uint32_t vain;                       /* sends in a row that suited none of them */
    uint64_t envelopes;                  /* our credit there, put aside while count is not 0 */
    uint64_t last;                       /* the greatest number of one, */
    uint64_t forgotten;                  /* and of one that was not kept, or not to the end */
    struct advert_rtr rtrs[ADVERT_MOST]; /* in the order of their posts */
    /* as its receiver */
    uint64_t numbered;      /* receives that were advertised to it so far */
    uint32_t announced;     /* receives that are ANNOUNCED to it */
    struct backoff backoff; /* from advertising */
};

/* ---- as a receiver ---- */

/* May a receive with so much space be advertised?  Then it is watched
 * (mbx_ep.modules.watched_from). */
static inline bool size_is_advert(const struct mbx_ep *ep, size_t size)
{
    return size >= ep_advert(ep)->from;
}

/* Is there a message that both receives accept? */
static inline bool advert_overlap(const struct mbx_match_envelope *a, uint64_t a_ignore,
                                  const struct mbx_match_envelope *b, uint64_t b_ignore)
{
    return a->context_id == b->context_id &&
           (a->source == MBX_ANY_SOURCE || b->source == MBX_ANY_SOURCE ||
            a->source == b->source) &&
           ((a->tag ^ b->tag) & ~a_ignore & ~b_ignore) == 0;
}

/* ---- as a sender ---- */

/* Writes a chunk for req, in ADVERT_WRITING; it goes on active if more is to come. */
void advert_write(struct mbx_ep *ep, struct request *req);

/* Do their invariants hold?  With MBX_CHECKS. */
bool advert_recv_is_valid(const struct mbx_ep *ep);
bool advert_send_is_valid(const struct mbx_ep *ep);

extern const struct module advert_recv_module, advert_send_module, split_copy_module;

#endif
