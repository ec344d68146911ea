/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backlog.h - sends that wait at their sender.  Private to src/sendside; backlog.c tells how.
 */
#ifndef SENDSIDE_BACKLOG_H
#define SENDSIDE_BACKLOG_H

#include "sendside/sendside.h"

enum backlog_state {
    BACKLOG_DEFERRED =
        PROTO_STATE(PROTO_BACKLOG, 0), /* waits here, for credit or a receive that wants it */
    BACKLOG_LOCK,       /* takes the word of a receive, exchange_done() will tell */
    BACKLOG_CLAIM,      /* its claim has not left */
    BACKLOG_WAIT_GRANT, /* the receiver will say GRANT, FIN or RETIRE */
};

/* What waits for one peer: peer.sendside.is_deferred says that messages are deferred, not
 * sent. */
struct backlog {
    bool is_peeked;  /* the peer was told of one: none is sent before it has said more */
    bool is_partial; /* RTRs were dropped: fresh ones are not compared with all */
    bool is_full;    /* the peer may have more RTRs than there is room for */
    bool is_locking; /* a claim takes a word: exchange_done() will tell */
    bool is_pumping; /* backlog_pump() is at work */
    uint32_t claims; /* unresolved */
    uint32_t unsure; /* of these, those that have taken no word, or do not know it */
    uint32_t rtr_count, lost_count;
    uint64_t count;     /* of sends */
    uint64_t envelopes; /* credit that has come meanwhile */
    uint64_t epoch;     /* of the last DEFER */
    uint64_t from;      /* the RTRs up to this number are not wanted again */
    uint64_t last;      /* number of the youngest RTR */
    uint64_t question;  /* of the peer's PEEK: */
    struct mbx_match_envelope asked;
    uint64_t ignore;
    struct list
        sends; /* request.queue: DEFERRED, LOCK, CLAIM, WAIT_GRANT, in the order of the calls */
    struct list *fresh; /* the first of them that is not in the engine, or &sends */
    struct request *lost[BACKLOG_CLAIMS]; /* their claim is lost: to be compared again */
    struct list rtrs;                     /* rtr.node, in the order of arrival */
    struct list *unread;                  /* the first of them that is not compared, or &rtrs */
    struct sendtable *sendtable;          /* where the peer sees the first sends, or NULL */
    bool is_cheated;                      /* it has written nonsense there: never again */
};

/* ---- of backlog.c and claims.c alone, and of backlog_valid.c ---- */

/* Of the endpoint. */
struct backlogs {
    struct mbx_match match;
    struct pool rtrs;
    uint64_t epochs; /* so far, of all peers: no two have the same */
};

/* An open receive of a peer. */
struct rtr {
    struct mbx_match_recv match; /* the source is the peer */
    struct list node;            /* on backlog.rtrs */
    uint64_t receiver;
    uint64_t word, owner_id; /* lockword.h */
};

static inline struct rtr *rtr_of(struct list *node)
{
    return container_of(node, struct rtr, node);
}

/* Is there a send that has not been compared with the RTRs? */
static inline bool backlog_has_fresh(const struct backlog *backlog)
{
    return backlog->fresh != &backlog->sends;
}

/* ---- claims.c, for backlog.c ---- */

void rtr_drop(struct mbx_ep *ep, struct backlog *backlog, struct rtr *rtr);
void rtr_drop_all(struct mbx_ep *ep, struct backlog *backlog);
/* req is no longer among the sends. */
void backlog_remove(struct mbx_ep *ep, struct backlog *backlog, struct request *req);

/* From here to backlog_show() the peer takes nothing; what it has taken is known. */
void backlog_shut(struct mbx_ep *ep, struct peer *peer);
/* The peer may take what is deferred. */
void backlog_show(struct mbx_ep *ep, struct peer *peer);
/* The peer has no table any more. */
void backlog_table_end(struct mbx_ep *ep, struct backlog *backlog);

/* Compares what is to be compared next.  False: nothing can be, for now. */
bool backlog_compare(struct mbx_ep *ep, struct peer *peer);
/* req has taken the word of its receive. */
void backlog_won(struct mbx_ep *ep, struct peer *peer, struct request *req);
/* The peer is to hear of the claim. */
void backlog_claim_leaves(struct mbx_ep *ep, struct peer *peer, struct request *req);
/* It leaves now.  As eager_step(). */
int backlog_claim_step(struct mbx_ep *ep, struct request *req);
/* The claim of req is decided. */
void backlog_resolved(struct backlog *backlog, struct request *req);
/* The claim of req is lost: it waits again, in its old place. */
void backlog_lost(struct mbx_ep *ep, struct peer *peer, struct request *req);

/* Do the invariants of backlog.c and of sendtable.h hold?  With MBX_CHECKS. */
bool backlog_is_valid(const struct mbx_ep *ep);

#endif
