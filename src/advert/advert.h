/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advert.h - advertised receives, which their sender knows before it sends: advert_recv.c is
 * the receiver's half, advert_send.c the sender's.  split_copy.h has long messages that both
 * sides copy.
 *
 * Other folders call no function here; they only list the modules.  A send comes through
 * module_send(), if peer.advert counts receives that were advertised to us, a receive through
 * module_recv_posted() and module_recv_left(), a message that has to be read through
 * module_read() (core/module.h).
 *
 *   receiver                                   sender
 *   a large receive from one source waits
 *       ADVERTISE(r, word, buffer, credit) ──>  no message is on its way: kept
 *                                              a send matches r: takes the word of r,
 *          <──────────────────── writes ────   writes into the buffer
 *   r leaves its engine  <──────── WRITE ───
 *                        <────── WRITTEN ───   after the last byte, if that is later
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

/* The most receives that are advertised to one sender at a time, and that it keeps. */
#define ADVERT_MOST 16

/* An open receive of a peer that can match only our messages. */
struct advert_rtr {
    struct mbx_match_envelope envelope; /* the source is the peer */
    uint64_t ignore, number;
    struct advert_target target;
};

enum advert_send_state {
    /* The WRITE has not left, and: */
    ADVERT_WRITE = PROTO_STATE(PROTO_ADVERT_SEND, 0), /* no write is in progress */
    ADVERT_WRITE_MOVING,                              /* the transport writes all data */
    ADVERT_WRITE_STOPPED,                             /* writing was stopped */
    /* The send is on active, its WRITE has left, or it is a part for split_copy.c, and: */
    ADVERT_WRITING, /* its next chunk has to be written */
    ADVERT_MOVING,  /* the transport writes a chunk */
    ADVERT_STOPPED, /* writing was stopped */
    ADVERT_WRITTEN, /* its WRITTEN has not left */
};

enum advert_recv_state {
    ADVERT_FILLING =
        PROTO_STATE(PROTO_ADVERT_RECV, 0), /* its sender writes, WRITTEN will come */
};

/* Glossary: advertised receive (`advert`) - a receive whose buffer the receiver has shown to
 * the sender, which may write into it */
/* The state for one peer. */
struct advert {
    /* for us as its sender */
    uint32_t count;                      /* of rtrs */
    uint32_t vain;                       /* consecutive sends that matched none of them */
    uint64_t envelopes;                  /* our credit there, withheld while count is not 0 */
    uint64_t last;                       /* the highest number of a receive so far, */
    uint64_t forgotten;                  /* and of one that was dropped, or never kept */
    struct advert_rtr rtrs[ADVERT_MOST]; /* in posting order */
    /* for us as its receiver */
    uint64_t numbered;      /* receives that were advertised to it so far */
    uint32_t announced;     /* receives that are ANNOUNCED to it */
    struct backoff backoff; /* after useless advertisements */
};

/* ---- as a receiver ---- */

/* May a receive of this size be advertised?  If so, modules are notified of it
 * (mbx_ep.modules.watched_from). */
static inline bool size_is_advert(const struct mbx_ep *ep, size_t size)
{
    return size >= ep_advert(ep)->from;
}

/* Is there an envelope that both receives accept? */
static inline bool advert_overlap(const struct mbx_match_envelope *a, uint64_t a_ignore,
                                  const struct mbx_match_envelope *b, uint64_t b_ignore)
{
    return a->context_id == b->context_id &&
           (a->source == MBX_ANY_SOURCE || b->source == MBX_ANY_SOURCE ||
            a->source == b->source) &&
           ((a->tag ^ b->tag) & ~a_ignore & ~b_ignore) == 0;
}

/* ---- as a sender ---- */

/* Writes a chunk for req, in ADVERT_WRITING; puts it on active if more follow. */
void advert_write(struct mbx_ep *ep, struct request *req);

/* Check the invariants.  With MBX_CHECKS. */
bool advert_recv_is_valid(const struct mbx_ep *ep);
bool advert_send_is_valid(const struct mbx_ep *ep);

extern const struct module advert_recv_module, advert_send_module, split_copy_module;

#endif
