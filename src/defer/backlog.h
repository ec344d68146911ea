/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backlog.h - deferred sends, at their sender.  Private to src/defer; see backlog.c.
 */
#ifndef DEFER_BACKLOG_H
#define DEFER_BACKLOG_H

#include "defer/defer.h"

enum backlog_state {
    BACKLOG_DEFERRED =
        PROTO_STATE(PROTO_BACKLOG, 0), /* waits here, for credit or a matching receive */
    BACKLOG_LOCK,                      /* takes the lock word of a receive: by_sender.c */
    BACKLOG_CLAIM,                     /* its claim has not left */
    BACKLOG_WAIT_RETIRE,               /* waits for a RETIRE or FIN */
};

/* Glossary: backlog - the deferred sends to one peer */
/* Glossary: epoch - the time from one DEFER to the next, or to the credit that ends the
 * backlog */
/* The sends that are deferred for one peer, while peer.defer.is_deferred, and the RTRs from
 * it. */
struct backlog {
    struct list sends;  /* request.queue, in the order of the calls; in any backlog_state */
    struct list *fresh; /* the first send that is not in the engine yet, or &sends */
    uint64_t count;     /* of sends */
    uint32_t withdrawn; /* the cancelled ones among them */
    struct request *lost[BACKLOG_CLAIMS]; /* sends whose claim is lost, to be compared again */
    uint32_t lost_count;
    uint32_t claims; /* unresolved claims: sends in LOCK, CLAIM, WAIT_RETIRE */
    uint32_t locks;  /* claims with the word of their receive, taken or being taken:
                       by_sender.c */
    bool is_locking; /* one send is in LOCK: nothing is compared */
    bool is_pumping; /* backlog_pump() is running */

    struct list rtrs;    /* rtr.node, in the order of arrival */
    struct list *unread; /* the first RTR that is not compared and in the engine, or &rtrs */
    uint32_t rtr_count;
    uint64_t epoch; /* in the last DEFER */
    uint64_t from;  /* RTRs up to this number were dropped: DEFER requests later ones */
    uint64_t last;  /* the number of the last RTR that was kept; without one: from */
    bool is_full;   /* the peer has, or may have, RTRs that there is no space for */

    uint64_t envelopes; /* credit that is withheld while sends are deferred */
    uint64_t half;      /* the credit with which they leave: credit_first_half() */

    uint64_t peek_question;                  /* number of the last PEEK */
    struct mbx_match_envelope peek_envelope; /* the arguments of the PEEK */
    uint64_t peek_ignore;                    /* the ignore bits of the PEEK */
    uint64_t
        peeked; /* the send that PEEKED has named: no send leaves before the next packet of the
                   peer; or 0 */

    struct sendtable *sendtable; /* the table of the first sends that the peer can see, or
                                    NULL */
    bool is_cheated; /* the peer has written invalid data into the table, and gets none again */
};

/* ---- only for backlog.c, claims.c and backlog_valid.c ---- */

/* Shared by the backlogs of an endpoint. */
struct backlogs {
    struct mbx_match match;
    struct pool rtrs;
    uint64_t epochs; /* so far, for all peers: each epoch has its own number */
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

/* Were RTRs dropped here?  Then fresh sends wait. */
static inline bool backlog_is_partial(const struct backlog *backlog)
{
    return backlog->from != 0;
}

/* ---- backlog.c, for by_sender.c ---- */

/* Does everything that is possible now for the sends to peer. */
void backlog_pump(struct mbx_ep *ep, struct peer *peer);

/* ---- claims.c, for backlog.c and by_sender.c ---- */

void rtr_drop(struct mbx_ep *ep, struct backlog *backlog, struct rtr *rtr);
void rtr_drop_all(struct mbx_ep *ep, struct backlog *backlog);
/* Removes req from the sends. */
void backlog_remove(struct mbx_ep *ep, struct backlog *backlog, struct request *req);

/* Removes req from lost[]. */
void backlog_unlost(struct backlog *backlog, const struct request *req);

/* From here to backlog_show() the peer can pull no send; the sends that it has pulled are
 * known. */
void backlog_shut(struct mbx_ep *ep, struct peer *peer);
/* Lets the peer pull deferred sends. */
void backlog_show(struct mbx_ep *ep, struct peer *peer);
/* The peer has no table any more. */
void backlog_table_end(struct mbx_ep *ep, struct backlog *backlog);

/* Makes the next comparison.  False: none is possible now. */
bool backlog_compare(struct mbx_ep *ep, struct peer *peer);
/* Sends the claim of req, now or in its turn. */
void backlog_claim_leaves(struct mbx_ep *ep, struct peer *peer, struct request *req);
/* Sends the claim of req now.  As eager_step(). */
int backlog_claim_step(struct mbx_ep *ep, struct request *req);
/* The claim of req is resolved. */
void backlog_resolved(struct backlog *backlog, struct request *req);
/* The claim of req is lost: req waits again, and has kept its place in the engine. */
void backlog_lost(struct mbx_ep *ep, struct peer *peer, struct request *req);

/* Do the invariants of backlog.c and of sendtable.h hold?  With MBX_CHECKS. */
bool backlog_is_valid(const struct mbx_ep *ep);

#endif
