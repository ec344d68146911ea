/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hold.h - sends that wait at their sender.  Private to src/core; hold.c tells how.
 */
#ifndef CORE_HOLD_H
#define CORE_HOLD_H

#include "p2p/p2p.h"

/* Unresolved claims of one sender at one receiver, at most. */
#define HOLD_CLAIMS 16

/* mbx_ep.hold_room, if nobody says otherwise. */
#define HOLD_RTRS 256

enum hold_state {
    HOLD_HELD =
        PROTO_STATE(PROTO_HOLD, 0), /* waits here, for credit or a receive that wants it */
    HOLD_LOCK,                      /* takes the word of a receive, exchange_done() will tell */
    HOLD_CLAIM,                     /* its claim has not left */
    HOLD_WAIT_GRANT,                /* the receiver will say GRANT, FIN or RETIRE */
};

/* What waits for one peer: peer.is_held says that messages are held, not sent. */
struct hold {
    bool is_peeked;  /* the peer was told of one: none is sent before it has said more */
    bool is_partial; /* RTRs were dropped: fresh ones are not compared with all */
    bool is_full;    /* the peer may have more RTRs than there is room for */
    bool is_locking; /* a claim takes a word: exchange_done() will tell */
    bool is_pumping; /* hold_pump() is at work */
    uint32_t claims; /* unresolved */
    uint32_t unsure; /* of these, those that have taken no word, or do not know it */
    uint32_t rtr_count, lost_count;
    uint64_t count;     /* of sends */
    uint64_t envelopes; /* credit that has come meanwhile */
    uint64_t epoch;     /* of the last HOLD */
    uint64_t from;      /* the RTRs up to this number are not wanted again */
    uint64_t last;      /* number of the youngest RTR */
    uint64_t question;  /* of the peer's PEEK: */
    struct mbx_match_envelope asked;
    uint64_t ignore;
    struct list
        sends; /* request.queue: HELD, LOCK, CLAIM, WAIT_GRANT, in the order of the calls */
    struct list *fresh; /* the first of them that is not in the engine, or &sends */
    struct request *lost[HOLD_CLAIMS]; /* their claim is lost: to be compared again */
    struct list rtrs;                  /* rtr.node, in the order of arrival */
    struct list *unread;               /* the first of them that is not compared, or &rtrs */
    struct offer *offer;               /* where the peer sees the first sends, or NULL */
    bool is_cheated;                   /* it has written nonsense there: never again */
};

/* ---- of hold.c alone, and of hold_valid.c ---- */

/* Of the endpoint. */
struct holding {
    struct mbx_match match;
    struct pool rtrs;
    uint64_t epochs; /* so far, of all peers: no two have the same */
};

/* An open receive of a peer. */
struct rtr {
    struct mbx_match_recv match; /* the source is the peer */
    struct list node;            /* on hold.rtrs */
    uint64_t receiver;
    uint64_t word, as; /* arbiter.h */
};

static inline struct rtr *rtr_of(struct list *node)
{
    return container_of(node, struct rtr, node);
}

/* ---- for others ---- */

/* As transport_events.exchange_done: of the word that a send is to take. */
void hold_locked(void *ep, uint64_t cookie, int error, bool is_exchanged);

extern const struct module hold_module;

#endif
