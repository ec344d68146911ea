/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backlog.h - sends that wait at their sender.  Private to src/defer; backlog.c tells how.
 */
#ifndef DEFER_BACKLOG_H
#define DEFER_BACKLOG_H

#include "defer/defer.h"

enum backlog_state {
    BACKLOG_DEFERRED =
        PROTO_STATE(PROTO_BACKLOG, 0), /* waits here, for credit or a receive that wants it */
    BACKLOG_LOCK,                      /* takes the word of a receive: by_sender.c */
    BACKLOG_CLAIM,                     /* its claim has not left */
    BACKLOG_WAIT_RETIRE,               /* the receiver will say RETIRE or FIN */
};

/* Glossary: backlog - the deferred sends to one peer */
/* Glossary: epoch - the time from one DEFER to the next, or to the credit that ends the
 * backlog */
/* The sends that are deferred for one peer, while peer.defer.is_deferred, and the RTRs that it
 * has sent. */
struct backlog {
    struct list sends;  /* request.queue, in the order of the calls; in any backlog_state */
    struct list *fresh; /* the first send that is not in the engine yet, or &sends */
    uint64_t count;     /* of sends */
    uint32_t withdrawn; /* of these, that the user has taken back */
    struct request *lost[BACKLOG_CLAIMS]; /* sends whose claim is lost: to be compared again */
    uint32_t lost_count;
    uint32_t claims; /* that are unresolved: sends in LOCK, CLAIM, WAIT_RETIRE */
    uint32_t locks; /* of these, that have the word of their receive, or take it: by_sender.c */
    bool is_locking; /* one send is in LOCK: nothing is compared */
    bool is_pumping; /* backlog_pump() is at work */

    struct list rtrs;    /* rtr.node, in the order of arrival */
    struct list *unread; /* the first RTR that is not compared and in the engine, or &rtrs */
    uint32_t rtr_count;
    uint64_t epoch; /* that the last DEFER names */
    uint64_t from;  /* RTRs up to this number were dropped: DEFER asks for those behind it */
    uint64_t last;  /* number of the youngest RTR that was kept; from, before there is one */
    bool is_full;   /* the peer has, or may have, RTRs that there is no space for */

    uint64_t envelopes; /* credit that is put aside while sends are deferred */
    uint64_t half;      /* with so much of it they leave: credit_first_half() */

    uint64_t peek_question;                  /* number of the last PEEK */
    struct mbx_match_envelope peek_envelope; /* that the PEEK asks for */
    uint64_t peek_ignore;                    /* ignore bits of the PEEK */
    uint64_t
        peeked; /* the send that PEEKED has named: none leaves before the peer says more; or 0 */

    struct sendtable *sendtable; /* where the peer sees the first sends, or NULL */
    bool is_cheated; /* the peer has written nonsense into the table: it gets none again */
};

/* ---- of backlog.c and claims.c alone, and of backlog_valid.c ---- */

/* What the backlogs of an endpoint share. */
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
    uint64_t word, owner_id; /* by_sender.c; or 0 */
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

/* Are RTRs missing here?  Then fresh sends wait. */
static inline bool backlog_is_partial(const struct backlog *backlog)
{
    return backlog->from != 0;
}

/* ---- backlog.c, for by_sender.c ---- */

/* Does for the sends to peer whatever can be done now. */
void backlog_pump(struct mbx_ep *ep, struct peer *peer);

/* ---- claims.c, for backlog.c and by_sender.c ---- */

void rtr_drop(struct mbx_ep *ep, struct backlog *backlog, struct rtr *rtr);
void rtr_drop_all(struct mbx_ep *ep, struct backlog *backlog);
/* req is no longer among the sends. */
void backlog_remove(struct mbx_ep *ep, struct backlog *backlog, struct request *req);

/* req is not to be compared again. */
void backlog_unlost(struct backlog *backlog, const struct request *req);

/* From here to backlog_show() the peer takes nothing; what it has taken is known. */
void backlog_shut(struct mbx_ep *ep, struct peer *peer);
/* The peer may take what is deferred. */
void backlog_show(struct mbx_ep *ep, struct peer *peer);
/* The peer has no table any more. */
void backlog_table_end(struct mbx_ep *ep, struct backlog *backlog);

/* Compares what is to be compared next.  False: nothing can be, for now. */
bool backlog_compare(struct mbx_ep *ep, struct peer *peer);
/* The peer is to hear of the claim. */
void backlog_claim_leaves(struct mbx_ep *ep, struct peer *peer, struct request *req);
/* It leaves now.  As eager_step(). */
int backlog_claim_step(struct mbx_ep *ep, struct request *req);
/* The claim of req is decided. */
void backlog_resolved(struct backlog *backlog, struct request *req);
/* The claim of req is lost: req waits again, and has stayed in its place in the engine. */
void backlog_lost(struct mbx_ep *ep, struct peer *peer, struct request *req);

/* Do the invariants of backlog.c and of sendtable.h hold?  With MBX_CHECKS. */
bool backlog_is_valid(const struct mbx_ep *ep);

#endif
